"""Overlap without reflectivity, from places that a drive revisits: random sensors on simulated drives.

python docs/figures/calibration_places.py    # about two minutes; writes a table and a picture of docs/calibration.md
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from calibration import table, write
from calibration_coverage import random_truth
from page import draw_chart, finish, sheet

import parhelion as ph
from parhelion.calibrate.drive import plots
from parhelion.calibrate.drive.drive import INTERVAL, DriveCalibration, calibrate_drive
from parhelion.calibrate.range_images import range_image
from parhelion.calibrate.sheet import with_changes
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.link_budget import overlap_share

WORLDS = ("city", "warehouse", "mixed-objects", "off-road", "forest")
MODELS = ("ouster/os0-32", "ouster/os1-32")
TURNS = 16
SPEED_M_S = 10.0
FIRST_SEED = 9500
"""Seeds of drives on which the method was not developed."""
SHOWN = (("warehouse", "ouster/os0-32"), ("city", "ouster/os1-32"))


def drive(world_name: str, model: str, seed: int) -> tuple[DriveCalibration, list[tuple[float, float]]]:
    """Calibration from signals alone of a sensor that moves during its revolution, and the true curve."""
    truth = random_truth(model, seed)
    lidar, world = ph.Lidar(with_changes(ph.Lidar(model).config, truth)), ph.World.load(world_name)
    random = np.random.default_rng(1000 + seed)
    x, y, _ = world.viewpoint.xyz
    x, y = x + random.uniform(-15.0, 15.0), y + random.uniform(-1.0, 1.0)
    end = 0.1 * (TURNS + 1)
    way = ph.Waypoints([0.0, end], [ph.Pose((x, y, 1.4)), ph.Pose((x + SPEED_M_S * end, y, 1.4))])
    frames = []
    for number in range(TURNS):
        frame = range_image(lidar.scan(world, trajectory=way, time=0.1 * number, seed=seed), f"turn {number}")
        frames.append(replace(frame, signal=np.rint(frame.signal), reflectivity=np.full_like(frame.range, np.nan)))
    return calibrate_drive(frames, ph.Lidar(model).config), truth["range.overlap"]


def main() -> None:
    """Run all drives; write the table and the picture."""
    rows, shown, seed, counts = [], {}, FIRST_SEED, [0, 0]
    for world in WORLDS:
        for model in MODELS:
            try:
                found, truth = drive(world, model, seed)
            except ConfigError as error:
                rows.append([world, model, str(error), "", "", ""])
                continue
            finally:
                seed += 1
            curve, changed = found.overlap, "range.overlap" in found.changed
            if curve is None or not changed:
                rows.append([world, model, "too little: the preset curve is kept", "", "", ""])
                continue
            resolved = curve.error / curve.share < 0.3
            true = overlap_share(truth, curve.range)
            held = (np.abs(curve.share - true) < INTERVAL * curve.error)[resolved]
            off = np.log(curve.share / true)[resolved]
            preset = np.log(overlap_share(found.preset.range.overlap, curve.range) / true)[resolved]
            low, high = curve.range[resolved][[0, -1]]
            rows.append(
                [
                    world, model, f"{low:.1f} to {high:.1f} m", f"{held.sum()} of {len(held)}",
                    f"{100 * np.sqrt(np.mean(off**2)):.0f} %", f"{100 * np.sqrt(np.mean(preset**2)):.0f} %",
                ]
            )  # fmt: skip
            counts[0] += int(held.sum())
            counts[1] += len(held)
            if (world, model) in SHOWN:
                shown[world, model] = found, truth
    rows.append(["all", "", "", f"{counts[0]} of {counts[1]}", "", ""])
    write("places", table(["world", "sensor", "resolved", "within 95 %", "off by (rms)", "preset off by (rms)"], rows))
    figure, panels = sheet(9.0, 3.0, len(SHOWN))
    for axes, (key, (found, truth)) in zip(panels, shown.items(), strict=False):
        chart = plots.overlap_chart(found)
        assert chart is not None
        draw_chart(axes, chart)
        r = np.geomspace(0.8, 60.0, 200)
        axes.plot(r, overlap_share(truth, r), color="black", lw=0.8, ls=":", label="true")
        axes.legend(fontsize=8)
        axes.set_title(f"{key[1]}, {key[0]}", fontsize=9)
    finish(figure, "calibration-places")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
