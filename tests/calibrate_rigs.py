"""Sensors and recordings shared by calibration tests."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.config import parse
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile

RECORDINGS = {
    "os0-32": "OS-0-32-U1_v2.2.0_1024x10.pcap",
    "os0-128": "OS-0-128-U1_v2.3.0_1024x10.pcap",
    "os1-32": "OS-1-32-G_v2.1.1_1024x10.pcap",
    "os1-128": "OS-1-128_v2.3.0_1024x10_lb_n3.pcap",
    "vlp-16": "velodyne_vlp16.pcap",
}
BIAS_M = np.random.default_rng(1).normal(0.0, 0.015, 32)
BIAS_M -= BIAS_M.mean()
CHANGED: dict[str, dict[str, Any]] = {
    "range": {
        "overlap": [[1.5, 0.05], [2.5, 0.2], [4.0, 0.55], [6.0, 0.85], [8.0, 1.0]],
        "rated": [{"reflectance": 0.1, "range_m": 20.0, "detection": 0.9}],
    },
    "noise": {"range_sigma_m": 0.009, "range_sigma_snr_m": 0.12, "channel_bias_m": BIAS_M.tolist()},
    "receiver": {"threshold_photons": 8.0, "saturation": 60.0},
}
"""Unit that differs from its preset in every property that a drive determines."""


def recording(name: str) -> Path:
    """Path of a real recording; the test is skipped if it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "lidar"
    file = Path(os.environ.get("PARHELION_RECORDINGS", beside)) / RECORDINGS[name]
    if not file.is_file():
        pytest.skip(f"recording {file.name} is not available")
    return file


def changed_sheet(preset: str, **sections: dict[str, Any]) -> LidarConfig:
    """Preset with fields replaced, by section."""
    data = ph.Lidar(preset).config.model_dump(mode="python")
    for section, values in sections.items():
        data[section].update(values)
    return parse(LidarConfig, data, preset)


def sheet_of(sensor: str, profiles: dict[str, MaterialProfile], *, unknown: str = "nearest") -> LidarConfig:
    """A preset with profiles of materials."""
    section = {"materials": {name: one.model_dump() for name, one in profiles.items()}, "unknown": unknown}
    return LidarConfig.model_validate({**changed_sheet(sensor).model_dump(), "calibration": section})


@cache
def simulated_drive(frames: int = 6) -> tuple[ph.Scan, ...]:
    """Scans of an OS0-32 that differs from its preset, on a street of the built-in city."""
    lidar = ph.Lidar(changed_sheet("ouster/os0-32", **CHANGED))
    lidar.model = "ouster/os0-32"  # what packets name it
    world = ph.World.load("city")
    x, y, _ = world.viewpoint.xyz
    poses = [ph.Pose((x + 3.0 * k, y, 1.4)) for k in range(frames)]
    return tuple(lidar.scan_many(world, poses, seed=3, time=[0.1 * k for k in range(frames)]))


def random_drive(number: int, frames: int = 4) -> tuple[list[ph.Scan], dict[str, dict[str, Any]]]:
    """Integer counts of an OS0-32 with random properties, on a street of the city, and these properties."""
    random = np.random.default_rng(100 + number)
    preset = ph.Lidar("ouster/os0-32").config
    stretch = random.uniform(0.75, 1.4)
    bias = random.normal(0.0, random.uniform(0.004, 0.02), 32)
    strength = random.normal(0.0, random.uniform(0.02, 0.15), 32)
    truth: dict[str, dict[str, Any]] = {
        "range": {
            "overlap": [(stretch * metres, share) for metres, share in preset.range.overlap],
            "rated": [{"reflectance": 0.1, "range_m": 15.0 * random.uniform(0.8, 1.4), "detection": 0.9}],
        },
        "noise": {
            "range_sigma_m": random.uniform(0.004, 0.014), "range_sigma_snr_m": random.uniform(0.05, 0.2),
            "channel_bias_m": (bias - bias.mean()).tolist(),
        },
        "receiver": {
            "threshold_photons": random.uniform(4.5, 10.0), "saturation": random.uniform(30.0, 90.0),
            "channel_gain": np.exp(strength - strength.mean()).tolist(),
        },
    }  # fmt: skip
    lidar = ph.Lidar(changed_sheet("ouster/os0-32", **truth))
    world = ph.World.load("city")
    x, y, _ = world.viewpoint.xyz
    start = x + random.uniform(-15.0, 15.0)
    poses = [ph.Pose((start + 3.0 * k, y, 1.4)) for k in range(frames)]
    scans = lidar.scan_many(world, poses, seed=number, time=[0.1 * k for k in range(frames)])
    return [_whole(scan) for scan in scans], truth


def _whole(scan: ph.Scan) -> ph.Scan:
    """Percents and photons rounded as in packets."""
    fields = dict(scan.fields)
    fields["reflectivity"] = np.rint(100.0 * np.clip(fields["reflectivity"], 0.0, 2.55)).astype(np.float32) / 100.0
    fields["intensity"] = np.rint(fields["intensity"]).astype(np.float32)
    return replace(scan, fields=fields)


def tilted_drive(off_deg: np.ndarray[Any, Any], frames: int = 6, world: str = "city") -> list[ph.Scan]:
    """Scans of an OS0-32 with these elevation errors, which reports the preset angles."""
    return misaimed_drive(off_deg, np.zeros(32), frames=frames, world=world)


def misaimed_drive(
    elevation_deg: np.ndarray[Any, Any], azimuth_deg: np.ndarray[Any, Any], bias_m: np.ndarray[Any, Any] | None = None,
    *, frames: int = 6, seed: int = 4, world: str = "city",
) -> list[ph.Scan]:  # fmt: skip
    """Scans of an OS0-32 with these beam errors, in the order of its channel list from the highest.

    The sensor reports the angles of its preset.
    """
    preset = ph.Lidar("ouster/os0-32").config
    channels = preset.pattern.channels.model_dump()  # type: ignore[union-attr]
    off = {"elevation_deg": elevation_deg, "azimuth_deg": azimuth_deg}
    true = channels | {name: (np.array(channels[name]) + more).tolist() for name, more in off.items()}
    noise = {} if bias_m is None else {"channel_bias_m": bias_m[::-1].tolist()}
    unit = ph.Lidar(changed_sheet("ouster/os0-32", pattern={"channels": true}, noise=noise))
    place = ph.World.load(world)
    x, y, _ = place.viewpoint.xyz
    poses = [ph.Pose((x + 3.0 * k, y, 1.4)) for k in range(frames)]
    table, made = ph.Lidar("ouster/os0-32").shots(), []
    for scan in unit.scan_many(place, poses, seed=seed, time=[0.1 * k for k in range(frames)]):
        assert scan.shots is not None
        shot = scan.fields["shot"]
        xyz = table.origin[shot] + scan.range[:, None] * table.direction[shot]
        shots = replace(scan.shots, direction=table.direction, origin=table.origin)
        made.append(replace(scan, xyz=xyz.astype(np.float32), shots=shots, metadata={"sensor": "ouster/os0-32"}))
    return made
