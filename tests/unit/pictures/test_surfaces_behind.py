"""Colours of labels, the surfaces behind points, and points whose size follows their distance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import parhelion as ph
from parhelion.live.viewer.colours import paint
from parhelion.pictures.images import air_colours
from parhelion.pictures.relief import Relief
from parhelion.pictures.scan import PinholeView, behind_points, render
from parhelion.pictures.style import LABEL_COLOURS, label_colour, label_colours, rgb
from parhelion.world.labels import FURTHER, SEMANTIC_KITTI


def lab(colour: str) -> np.ndarray:
    """CIE 1976 L*a*b* of an sRGB colour, white point D65 (IEC 61966-2-1; CIE 15)."""
    linear = np.where((c := rgb(colour)) <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_vehicles_people_water_and_air_are_distinguishable() -> None:
    colours = [label_colour(name) for name in ("car", "truck", "bus", "vessel", "bicycle", "person", "water")]
    colours += [label_colour("in the air"), air_colours()["rain"]]
    # 2.3 is a just noticeable difference; ten times that is seen at a glance, also in dots of one pixel. The last two
    # are both in the air.
    for one, other in list(itertools.combinations(colours, 2))[:-1]:
        assert np.linalg.norm(lab(one) - lab(other)) > 23.0, (one, other)


def test_a_label_has_one_colour_everywhere() -> None:
    assert set(SEMANTIC_KITTI) | set(FURTHER) <= {f"moving-{name}" for name in LABEL_COLOURS} | set(LABEL_COLOURS)
    own = {7: "hovercraft", 9: "moving-car"}
    alone, among = label_colours(own), label_colours({1: "zebra", 2: "wall", **own})
    assert np.array_equal(alone[7], among[7])
    assert np.array_equal(alone[9], rgb(LABEL_COLOURS["car"]))
    cloud = ph.PointCloud(np.zeros((1, 3)), {"label": np.array([7], np.uint16)}, names={"label": own})
    assert paint(cloud, "label").colours[0].tolist() == np.round(255 * alone[7]).tolist()


def test_points_shrink_without_a_seam() -> None:
    camera = PinholeView(ph.Pose(), 400, 400, 90.0)
    # Apart by 8 pixels, so that squares never overlap: the focal length is 200 pixels, and the distance 20 m.
    across, up = np.meshgrid(np.linspace(-18, 18, 46), np.linspace(-18, 18, 46))
    points = np.stack([np.full(across.size, 20.0), across.ravel(), up.ravel()], axis=1)
    for side in (1.5, 2.5, 3.3):
        image = render(points, np.ones_like(points), camera, background=0.0, point_size_m=side / 10.0, fade_m=1e9)
        covered = np.count_nonzero(image[..., 0]) / len(points)
        low = np.floor(side)
        expected = low**2 + (side - low) * (2 * low + 1)
        # Multiples of the golden ratio have a discrepancy below ln(n) / n, here 0.004 squares of the next size.
        assert covered == pytest.approx(expected, abs=0.004 * (2 * low + 1))


@pytest.fixture(scope="module")
def hall() -> ph.World:
    """A closed hall without labelled ceiling, a crate on its floor, and a robot with a lid above its position."""
    world = ph.World("hall")
    world.add(ph.shapes.box(20, 12, 0.1), material="concrete", label="building", pose=ph.Pose(xyz=(0, 0, -0.1)))
    world.add(ph.shapes.box(20, 12, 0.1), material="concrete", label="building", pose=ph.Pose(xyz=(0, 0, 5.0)))
    world.add(ph.shapes.box(2, 2, 1), material="plywood", label="pallet", pose=ph.Pose(xyz=(4, 0, 0)))
    lid = ph.Fixed(ph.Pose(xyz=(0, 0, 1.0)))
    world.add_actor(ph.shapes.box(1, 1, 0.1), material="plastic", label="robot", trajectory=lid)
    return world


def test_a_roof_without_a_label_is_removed_indoors(hall: ph.World) -> None:
    ways = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    inside = Relief(hall, below=ways)
    assert inside.ceiling == pytest.approx(5.0, abs=0.06)  # not 1.0, the lid of the robot
    names = hall.label_names
    seen = {names[number] for number in np.unique(inside.from_above((-10, 10, -6, 6), 100, 60)[1])}
    assert seen == {"building", "pallet", "robot"}
    outside = Relief(hall, below=np.array([[0.0, 20.0, 0.0]]))
    assert outside.ceiling is None
    assert {names[n] for n in np.unique(outside.from_above((-10, 10, -6, 6), 100, 60)[1])} == {"building"}


def test_a_model_without_labels_is_drawn_by_its_materials() -> None:
    world = ph.World("own")
    world.add(ph.shapes.box(8, 4, 0.1), material="concrete")
    world.add(ph.shapes.box(1, 1, 1), material="wood", pose=ph.Pose(xyz=(2, 0, 0.1)))
    world.add(ph.shapes.box(1, 1, 1), material="wood", label="person", pose=ph.Pose(xyz=(-2, 0, 0.1)))
    relief = Relief(world, below=np.zeros((1, 3)))
    image, number = relief.from_above((-4, 4, -2, 2), 80, 40)
    assert {relief.names[n] for n in np.unique(number)} == {"concrete", "wood", "person"}
    tone = image[..., :3] / image[..., :3].max(axis=2, keepdims=True)  # without the shading
    floor, crate, person = tone[20, 40], tone[20, 60], tone[20, 20]
    assert min(np.abs(one - other).max() for one, other in ((floor, crate), (crate, person), (floor, person))) > 0.1


def test_the_background_shows_what_is_below_the_roof(hall: ph.World) -> None:
    eye = ph.Pose.look_at([-9, 0, 9], [2, 0, 0])
    camera = PinholeView(eye, 120, 60, 60.0)
    relief = Relief(hall, below=np.zeros((1, 3)))
    image = behind_points(relief, camera, np.zeros(3), 500.0)
    assert np.median(image.max(axis=2)) > 0.15, "not black"
    _, distance = relief.in_perspective(eye, 120, 60, camera.focal)
    middle = distance[30, 60]
    # The floor at z = 0 along the middle axis; half a pixel off the axis it is a little nearer or farther.
    assert middle == pytest.approx(np.hypot(11, 9), rel=0.02)
