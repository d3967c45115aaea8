"""Coverage of the 95 % intervals of a calibration: random sensors, each on a simulated drive.

python docs/figures/calibration_coverage.py    # some minutes; writes the table of docs/calibration.md
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from calibration import table, write
from scipy.stats import binom

import parhelion as ph
from parhelion.calibrate.drive.drive import INTERVAL, calibrate_drive
from parhelion.calibrate.range_images import read_drive
from parhelion.calibrate.sheet import with_changes
from parhelion.core.errors import ConfigError
from parhelion.io.captures import write_capture
from parhelion.sensors.optics.lidar.link_budget import overlap_share

WORLDS = {"city": 12, "warehouse": 6, "mixed-objects": 4, "off-road": 4, "forest": 4}
"""Drives in each world, every other one with an OS0-32, the rest with an OS1-32."""
TURNS = 6
FIRST_SEED = 13_000
"""Seeds of drives on which the method was not developed."""
NUMBERS = {
    "receiver.threshold_photons": "threshold",
    "receiver.saturation": "saturation",
    "noise.range_sigma_m": "σ_0",
    "noise.range_sigma_snr_m": "σ_1",
    "range.rated": "rated range",
}

ANGLES = {"elevation_deg": "elevations", "azimuth_deg": "azimuths"}


def random_truth(model: str, seed: int) -> dict[str, Any]:
    """Fields of a sheet, drawn at random about those of the preset."""
    random, preset = np.random.default_rng(seed), ph.Lidar(model).config
    stretch, bias = random.uniform(0.75, 1.4), random.normal(0.0, random.uniform(0.004, 0.02), 32)
    strength = np.exp(random.normal(0.0, random.uniform(0.02, 0.15), 32))
    reach = preset.range.rated[0].range_m * random.uniform(0.8, 1.4)
    channels = preset.pattern.channels.model_dump()  # type: ignore[union-attr]
    aside = np.random.default_rng(20_000 + seed)
    off = {name: aside.normal(0.0, aside.uniform(0.0, 0.08), 32) for name in ANGLES}
    return {
        "range.overlap": [(round(stretch * metres, 3), share) for metres, share in preset.range.overlap],
        "range.rated": [{"reflectance": 0.1, "range_m": reach, "detection": 0.9}],
        "noise.range_sigma_m": random.uniform(0.004, 0.014),
        "noise.range_sigma_snr_m": random.uniform(0.05, 0.2),
        "noise.channel_bias_m": (bias - bias.mean()).tolist(),
        "receiver.threshold_photons": random.uniform(4.5, 10.0),
        "receiver.saturation": random.uniform(30.0, 90.0),
        "pattern.channels": channels | {name: (np.array(channels[name]) + more).tolist() for name, more in off.items()},
        "receiver.channel_gain": (strength / np.exp(np.mean(np.log(strength)))).tolist(),
    }


def drive(model: str, world: ph.World, truth: dict[str, Any], seed: int, file: Path) -> None:
    """Capture of the sensor with these values, which reports the angles of the preset."""
    lidar = ph.Lidar(with_changes(ph.Lidar(model).config, truth))
    lidar.model = model  # what packets name it
    random = np.random.default_rng(1000 + seed)
    x, y, _ = world.viewpoint.xyz
    start, beside = x + random.uniform(-15.0, 15.0), y + random.uniform(-1.0, 1.0)
    poses = [ph.Pose((start + 3.0 * k, beside, 1.4)) for k in range(TURNS)]
    scans, resolved = (
        lidar.scan_many(world, poses, seed=seed, time=[0.1 * k for k in range(TURNS)]),
        ph.Lidar(model).shots(),
    )
    shots = [replace(scan.shots, direction=resolved.direction, origin=resolved.origin) for scan in scans]
    write_capture([replace(scan, shots=own) for scan, own in zip(scans, shots, strict=True)], file)


def held(model: str, truth: dict[str, Any], file: Path) -> dict[str, list[bool]]:
    """Intervals that contain the truth, by quantity."""
    found = calibrate_drive(read_drive(file), ph.Lidar(model).config)
    kinds: dict[str, list[bool]] = {}
    for name, words in NUMBERS.items():
        value, true = found.changed.get(name), truth[name]
        if value is not None:
            if isinstance(value, list):
                value, true = value[0]["range_m"], true[0]["range_m"]
            kinds[words] = [abs(value - true) < found.error[name]]
    curve, bias = found.overlap, found.bias
    if curve is not None:
        off = np.abs(curve.share - overlap_share(truth["range.overlap"], curve.range))
        kinds["overlap bins"] = (off < INTERVAL * curve.error).tolist()
    if curve is not None and curve.row_error is not None and "receiver.channel_gain" in found.changed:
        off = np.abs(curve.row_factor[::-1] - truth["receiver.channel_gain"])
        kinds["strengths of rings"] = (off < INTERVAL * curve.row_error[::-1]).tolist()
    if bias is not None and "noise.channel_bias_m" in found.changed:
        off = np.abs(bias.off[::-1] - truth["noise.channel_bias_m"])
        kinds["errors of channels"] = (off < INTERVAL * bias.error[::-1]).tolist()
    channels = ph.Lidar(model).config.pattern.channels.model_dump()  # type: ignore[union-attr]
    for (name, words), angles in zip(ANGLES.items(), (found.angles, found.azimuths), strict=True):
        if f"pattern.channels.{name}" in found.changed and angles is not None:
            resolved = angles.resolved
            more = (np.array(truth["pattern.channels"][name]) - channels[name])[resolved]
            off = np.abs(angles.correction[resolved] - (more - more.mean()))
            kinds[words] = (off < INTERVAL * angles.correction_error[resolved]).tolist()
    return kinds


def main() -> None:
    """Run all drives and write the table."""
    columns = [*NUMBERS.values(), "overlap bins", "strengths of rings", "errors of channels", *ANGLES.values()]
    counts: dict[str, dict[str, list[bool]]] = {}
    seed = FIRST_SEED
    with tempfile.TemporaryDirectory() as place:
        for name, number in WORLDS.items():
            world = ph.World.load(name)
            for k in range(number):
                model = ("ouster/os0-32", "ouster/os1-32")[k % 2]
                truth, file = random_truth(model, seed), Path(place) / f"{name}-{k}.pcap"
                drive(model, world, truth, seed, file)
                try:
                    for kind, values in held(model, truth, file).items():
                        counts.setdefault(name, {}).setdefault(kind, []).extend(values)
                except ConfigError as error:
                    print(f"{name} {k}: {error}")
                seed += 1
    rows = []
    for name, found in [*counts.items(), ("all", {})]:
        cells = []
        for kind in columns:
            values = found.get(kind, []) if found else [v for one in counts.values() for v in one.get(kind, [])]
            cells.append(f"{sum(values)} of {len(values)}")
        rows.append([f"{name} ({WORLDS[name]} drives)" if name in WORLDS else name, *cells])
    write("coverage", table(["world", *columns], rows))
    every = [v for one in counts.values() for kind in NUMBERS.values() for v in one.get(kind, [])]
    chance = binom.cdf(sum(every), len(every), 0.95)
    print(f"{sum(every)} of {len(every)} numbers; as few by chance: {chance:.3f}")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
