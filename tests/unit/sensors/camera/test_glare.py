"""Glare of lenses: energy, shape of halos, and even pictures."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from camera_rigs import above, camera_sheet, flat
from parhelion.sensors.optics.camera.readout import spread_kernel, with_glare


def test_the_point_spread_falls_with_the_square_of_the_angle() -> None:
    kernel = spread_kernel(65, 97)
    assert kernel.shape == (129, 193)
    assert kernel.sum() == pytest.approx(1.0)
    middle = kernel[64, 96]
    assert kernel[64, 99] == pytest.approx(middle / 10.0)
    assert kernel[60, 93] == pytest.approx(middle / 26.0)


def test_an_even_picture_stays_even() -> None:
    picture = np.full((40, 60, 3), 2.5, np.float32)
    assert with_glare(picture, 0.3) == pytest.approx(picture, rel=1e-5)


def test_a_lamp_has_a_halo() -> None:
    picture = np.zeros((41, 61, 1), np.float32)
    picture[20, 30] = 1000.0
    found = with_glare(picture, 0.02)[..., 0].astype(np.float64)
    kernel = spread_kernel(41, 61)
    assert found[20, 30] == pytest.approx(980.0 + 20.0 * kernel[40, 60], rel=0.02)
    # The halo of a single lamp: kernel times share over the part of the kernel that lies in the picture.
    ratio = found[20, 35] / found[20, 40]
    inside = [kernel[20:61, 60 - column : 121 - column].sum() for column in (35, 40)]
    assert ratio == pytest.approx(101.0 / 26.0 * inside[1] / inside[0], rel=0.02)
    assert found.min() > 0.0


def test_cameras_scatter_the_share_of_their_sheet() -> None:
    world = flat("lambert-10")
    world.add(ph.shapes.box(0.3, 0.3, 0.01), material="lambert-90", pose=ph.Pose((0.0, 0.0, 0.01)))
    pictures = []
    for share in (0.0, 0.1):
        camera = ph.Camera(camera_sheet(64, 48, fx=60.0, lens={"fx": 60.0, "glare": share}), samples=4, bounces=0,
                           developed=False, truth=())  # fmt: skip
        pictures.append(camera.shoot(world, pose=above(3.0), seed=1).colour)
    assert np.array_equal(pictures[1], with_glare(pictures[0], 0.1))
