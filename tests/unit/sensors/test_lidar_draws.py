"""Random draws of a lidar: no two quantities share a number, and repeated scans differ."""

from __future__ import annotations

import ast
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.sensors.optics import lidar as package
from parhelion.sensors.optics.lidar import draws
from parhelion.sensors.optics.lidar.air_echoes import COUNT_LIMIT

FOLDER = Path(package.__file__).parent
OF_MEDIA = {"first_draw", "draw"}
"""Attributes that hold numbers of a medium."""


def test_no_two_quantities_share_a_draw() -> None:
    for (one, first), (other, second) in combinations(draws.draw_ranges().items(), 2):
        assert set(first).isdisjoint(second), f"{one} and {other}"


def test_particles_stay_within_their_medium() -> None:
    assert COUNT_LIMIT + 1 < draws.SHIFT_DRAW < draws.DRAWS_PER_MEDIUM


@pytest.mark.parametrize("preset", ph.presets("lidar"))
def test_windows_have_enough_draws(preset: str) -> None:
    config = ph.Lidar(preset).config
    separate = (config.range.max_m - config.range.min_m) / config.receiver.merge_distance_m
    # Each window starts at an echo: of a sub-ray, of its paths through and over a surface, or of a particle.
    separate = min(separate, 3 * config.beam.sub_rays + COUNT_LIMIT)
    assert separate < len(draws.draw_ranges()["windows"])


def test_every_draw_is_in_the_table() -> None:
    """All calls of `words(key, element, draw)` name a constant of `draws`, or a number of a medium."""
    known = {name for name in vars(draws) if name.endswith("_DRAW")}
    found = 0
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "words":
                names = {part.id for part in ast.walk(node.args[2]) if isinstance(part, ast.Name)}
                names |= {part.attr for part in ast.walk(node.args[2]) if isinstance(part, ast.Attribute)}
                # Local names: draws of a medium's particles, and the digitised signal, which has a stream of its own.
                assert names & (known | OF_MEDIA) or names <= {"k", "draw"} or file.name == "device.py", (file, names)
                found += 1
    assert found >= 12


def test_scans_of_one_time_and_pose_differ_in_noise() -> None:
    world, lidar = ph.World.load("test-range"), ph.Lidar("velodyne/vlp-16")
    scans = lidar.scan_many(world, [world.viewpoint] * 3, time=0.0, seed=1)
    alone = lidar.scan(world, pose=world.viewpoint, seed=1)
    assert np.array_equal(scans[0].range, alone.range)
    for one, other in combinations(scans, 2):
        assert not np.array_equal(one.range, other.range)
    again = lidar.scan_many(world, [world.viewpoint] * 3, time=0.0, seed=1)
    assert all(np.array_equal(one.range, other.range) for one, other in zip(scans, again, strict=True))
    same = lidar.scan_many(world, [world.viewpoint] * 2, time=0.0, seed=1, frames=[4, 4])
    assert np.array_equal(same[0].range, same[1].range)
