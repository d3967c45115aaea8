"""A drive of one particular unit: my data sheet, with more noise and tilted beams as every real unit has them.

    python 04-unit.py my-sheet.yaml drive/          # records
    python 04-unit.py my-sheet.yaml --check my-unit.yaml

In your own project, the recording of your lidar takes the place of this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import yaml

import parhelion as ph

FRAMES, NOISE_M, TILT_DEG = 6, 0.014, 0.06


def unit(sheet: str) -> dict[str, object]:
    """Fields of the unit: range noise and beam elevations differ from the sheet."""
    fields = yaml.safe_load(Path(sheet).read_text(encoding="utf-8"))
    channels = fields["pattern"]["channels"]
    errors = np.random.default_rng(5).normal(0.0, TILT_DEG, len(channels["elevation_deg"]))
    channels["elevation_deg"] = (np.asarray(channels["elevation_deg"]) + errors).round(4).tolist()
    fields["noise"]["range_sigma_m"] = NOISE_M
    return fields


def record(sheet: str, folder: Path) -> None:
    """Scans of the unit on its way through a warehouse."""
    folder.mkdir(parents=True)
    file = folder.parent / "unit-of-the-tutorial.yaml"
    file.write_text(yaml.safe_dump(unit(sheet)), encoding="utf-8")
    lidar, world = ph.Lidar(file), ph.World.load("warehouse", seed=4)
    for number in range(FRAMES):
        pose = ph.Pose(xyz=(1.5 * number - 4.0, 0.3 * number % 1.0, 1.2), rpy_deg=(0, 0, 23.0 * number))
        lidar.scan(world, pose=pose, time=0.1 * number, seed=7).save(folder / f"{number:06d}.npz")


def check(sheet: str, calibrated: str) -> None:
    """Compare the new sheet with the unit, which only a simulation knows."""
    found, true = yaml.safe_load(Path(calibrated).read_text(encoding="utf-8")), unit(sheet)
    before = yaml.safe_load(Path(sheet).read_text(encoding="utf-8"))
    rows = [
        (one["noise"]["range_sigma_m"], one["pattern"]["channels"]["elevation_deg"]) for one in (before, found, true)
    ]
    spread = [float(np.std(np.asarray(angles) - rows[2][1])) for _, angles in rows]
    print(f"{'':14} {'range noise':>12} {'error of beams':>15}")
    for name, (noise, _), error in zip(("data sheet", "calibrated", "the unit"), rows, spread, strict=True):
        print(f"{name:14} {1e3 * noise:9.1f} mm {error:11.3f} deg")
    if abs(rows[1][0] - NOISE_M) > abs(rows[0][0] - NOISE_M):
        raise SystemExit("the calibration did not improve the range noise")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("usage: python 04-unit.py SHEET FOLDER, or python 04-unit.py SHEET --check CALIBRATED_SHEET")
    if sys.argv[2] == "--check":
        check(sys.argv[1], sys.argv[3])
    else:
        record(sys.argv[1], Path(sys.argv[2]))
