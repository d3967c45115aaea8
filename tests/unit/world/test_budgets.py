"""Budgets of triangles and pixels: small files that ask for gigabytes are refused before anything is built."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from PIL import Image

import parhelion as ph
from parhelion.surfaces.texture import load_colour_texture

SPHERE = {"shape": {"kind": "sphere", "radius_m": 1.0, "subdivisions": 7}, "material": "concrete"}


def test_a_file_of_many_fine_spheres_is_refused_before_any_is_built(tmp_path: Path) -> None:
    file = tmp_path / "spheres.yaml"
    file.write_text(yaml.safe_dump({"objects": [SPHERE] * 300}))
    start = time.process_time()
    with pytest.raises(
        ph.ConfigError,
        match=r"spheres.yaml: 98304000 triangles exceed the limit of 20000000; set PARHELION_MOST_TRIANGLES=98304000",
    ):
        ph.World.load(file)
    assert time.process_time() - start < 5.0


def test_the_triangle_budget_covers_all_objects_and_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_MOST_TRIANGLES", "30")
    world = ph.World()
    boxes = [world.add(ph.shapes.box(1, 1, 1), material="concrete") for _ in range(2)]
    with pytest.raises(ph.ConfigError, match=r"world: 36 triangles exceed the limit of 30"):
        world.add(ph.shapes.box(1, 1, 1), material="concrete")
    world.remove(boxes[0])
    world.add(ph.shapes.box(1, 1, 1), material="concrete")
    assert world.triangle_count == 24
    monkeypatch.setenv("PARHELION_MOST_TRIANGLES", "many")
    with pytest.raises(ph.ConfigError, match=r"PARHELION_MOST_TRIANGLES: must be a whole number above 0, got 'many'"):
        world.add(ph.shapes.box(1, 1, 1), material="concrete")


def test_a_texture_of_too_many_pixels_is_refused_and_can_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bomb.png"
    Image.new("L", (8192, 8192)).save(file)
    assert file.stat().st_size < 200_000
    with pytest.raises(ph.ConfigError, match=r"bomb.png: 67108864 pixels exceed the limit of 33554432; set PARHELION"):
        load_colour_texture(file)
    small = tmp_path / "small.png"
    Image.new("L", (20, 10)).save(small)
    monkeypatch.setenv("PARHELION_MOST_PIXELS", "200")
    assert load_colour_texture(small)[0].shape == (10, 20)
    monkeypatch.setenv("PARHELION_MOST_PIXELS", "199")
    with pytest.raises(ph.ConfigError, match=r"200 pixels exceed the limit of 199"):
        load_colour_texture(small)
