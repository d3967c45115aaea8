"""Fiducial markers: OpenCV finds their number and their pose in simulated pictures."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.world.markers import DICTIONARIES, marker_cells, marker_meshes
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.procedural.object_parts import parts_of
from parhelion.world.schema import MarkerShape

aruco = pytest.importorskip("cv2").aruco
cv2 = pytest.importorskip("cv2")


def test_cells_have_a_dark_border_and_the_bits_of_the_dictionary():
    cells = marker_cells("aruco", "4x4_50", 0)
    assert cells.shape == (6, 6)
    assert cells[0].all()
    assert cells[-1].all()
    assert cells[:, 0].all()
    assert cells[:, -1].all()
    # Marker 0 of the dictionary 4x4_50, bright cells as 1: the bytes 181 and 50 of OpenCV's table.
    assert np.packbits(~cells[1:-1, 1:-1]).tolist() == [181, 50]
    assert marker_cells("apriltag").shape == (8, 8)
    for family, names in DICTIONARIES.items():
        for name in names:
            assert marker_cells(family, name, 1).any()


def test_areas_of_paper_and_ink():
    cells = marker_cells("aruco", "5x5_100", 3)
    meshes = marker_meshes(cells, 0.7, margin_cells=2)
    assert meshes["plastic-black"].area() == pytest.approx(0.01 * cells.sum())
    x = meshes["plastic-black"].vertices[:, 0]
    assert x.min() == x.max() == 0.0
    width = np.ptp(meshes["paper"].vertices[:, 1])
    assert width == pytest.approx(0.7 * 11 / 7)


@pytest.mark.parametrize(
    ("family", "dictionary", "number", "message"),
    [
        ("aruco", "4x4_50", 50, "from 0 to 49"),
        ("apriltag", "4x4_50", 0, "16h5"),
        ("qr", None, 0, "apriltag"),
    ],
)
def test_unknown_markers_are_refused(family, dictionary, number, message):
    with pytest.raises(ConfigError, match=message):
        marker_cells(family, dictionary, number)


def test_a_saved_world_has_the_same_marker(tmp_path):
    world = ph.World("sign")
    world.add(MarkerShape(family="apriltag", number=5, size_m=0.3), label="target", pose=ph.Pose((4.0, 0.0, 1.0)))
    world.save(tmp_path / "sign.yaml")
    again = ph.World.load(tmp_path / "sign.yaml")
    for one, other in zip(world.objects[0].parts, again.objects[0].parts, strict=True):
        assert one.material == other.material
        assert np.array_equal(one.placed, other.placed)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "dictionary", "number"), [("aruco", "5x5_100", 23), ("apriltag", "36h11", 7)])
def test_number_and_pose_of_a_marker_in_a_picture(family, dictionary, number):
    world = ph.World("markers")
    world.add(ph.shapes.plane(20, 20), material="concrete", label="floor")
    pose = ph.Pose((2.5, 0.3, 1.2), rpy_deg=(0.0, 10.0, 160.0))  # the face looks at the camera
    shape = MarkerShape(family=family, dictionary=dictionary, number=number, size_m=0.4)
    world.add(shape, label="target", pose=pose)
    camera = ph.Camera("generic/vga")
    image = camera.shoot(world, pose=ph.Pose((0.0, 0.0, 1.2)), seed=4)
    name = f"DICT_{dictionary.upper()}" if family == "aruco" else f"DICT_APRILTAG_{dictionary}"
    settings = aruco.DetectorParameters()
    settings.cornerRefinementMethod = aruco.CORNER_REFINE_SUBPIX
    detector = aruco.ArucoDetector(aruco.getPredefinedDictionary(getattr(aruco, name)), settings)
    corners, numbers, _ = detector.detectMarkers(np.ascontiguousarray(image.colour[..., ::-1]))
    assert numbers is not None
    assert numbers.ravel().tolist() == [number]
    half = 0.2
    # OpenCV's corners run clockwise from the top left; seen from the front, y of the marker points to the right.
    at = pose.apply(np.array([[0, -half, half], [0, half, half], [0, half, -half], [0, -half, -half]]))
    expected, inside = camera.project(at - [0.0, 0.0, 1.2])
    assert inside.all()
    assert np.abs(corners[0][0] - expected).max() < 1.0  # pixel
    lens = camera.intrinsics
    matrix = np.array([[lens.fx, 0.0, lens.cx], [0.0, lens.fy, lens.cy], [0.0, 0.0, 1.0]])
    flat = np.array([[-half, half, 0], [half, half, 0], [half, -half, 0], [-half, -half, 0]])
    found, turn, shift = cv2.solvePnP(
        flat, corners[0][0].astype(np.float64), matrix, None, flags=cv2.SOLVEPNP_IPPE_SQUARE
    )
    assert found
    right, down, ahead = shift.ravel()
    # A pixel is 1/fx of the distance across; along the axis, 0.5 px of 0.4 m at 2.5 m is about 1 %.
    assert (ahead, -right, -down) == (
        pytest.approx(2.5, abs=0.05), pytest.approx(0.3, abs=0.01), pytest.approx(0.0, abs=0.01)
    )  # fmt: skip
    right, down, ahead = cv2.Rodrigues(turn)[0][:, 2]
    # Perspective shortens the far side of the marker by 2 %, which pixel errors of 0.1 px change by a tenth.
    assert np.dot((ahead, -right, -down), pose.rotation[:, 0]) > np.cos(np.radians(4.0))


def test_a_layout_has_fiducial_markers():
    fields = {"family": "aruco", "dictionary": "4x4_50", "number": 3}
    item = {"kind": "marker", "name": "m", "pose": {"xyz": [0, 0, 1]}, "size": [0.02, 0.4, 0.4], "params": fields}
    made = parts_of(LayoutObject.model_validate(item))
    assert {part.material for part in made} == {"paper", "plastic-black"}
    points = np.concatenate([part.mesh.vertices for part in made])
    assert np.ptp(points, axis=0) == pytest.approx([0.02, 0.4, 0.4], abs=1e-3)
