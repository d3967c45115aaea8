"""Calibration files: exchange with OpenCV and ROS, and errors for damaged files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import parhelion as ph
from hostile_rigs import fence
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.image import Intrinsics
from parhelion.sensors.optics.camera.calibration_files import WRITERS, load_intrinsics, save_opencv, save_ros

LENSES = [
    Intrinsics(640, 480, 401.25, 402.5, 318.0, 241.0, 0.0, "plumb_bob", (-0.2, 0.05, 1e-5, -2e-7, 0.01)),
    Intrinsics(
        640, 480, 401.0, 402.5, 318.0, 241.0, 0.5, "rational_polynomial", (0.3, 0.1, 0.0, 0.0, 0.01, 0.5, 0.1, 0)
    ),
    Intrinsics(1280, 960, 390.0, 391.0, 640.5, 470.0, 0.0, "equidistant", (-0.02, 0.001, 1 / 3 * 1e-4, 0.0)),
    Intrinsics(640, 480, 400.0, 400.0, 319.5, 239.5, 0.0, "plumb_bob", (0.0,) * 5, baseline_m=0.12),
]

ROS = """\
image_width: 640
image_height: 480
camera_name: front
camera_matrix:
  rows: 3
  cols: 3
  data: [400.0, 0.0, 319.5, 0.0, 401.0, 239.5, 0.0, 0.0, 1.0]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [-0.1, 1e-3, 0.0, 0.0, 0.0]
rectification_matrix:
  rows: 3
  cols: 3
  data: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
projection_matrix:
  rows: 3
  cols: 4
  data: [390.0, 0.0, 319.5, -39.0, 0.0, 401.0, 239.5, 0.0, 0.0, 0.0, 1.0, 0.0]
"""
OPENCV = """\
%YAML:1.0
---
calibration_time: "Thu 01 Jan 2024 12:00:00"
image_width: 640
image_height: 480
flags: 0
camera_matrix: !!opencv-matrix
   rows: 3
   cols: 3
   dt: d
   data: [ 4.0000000000000000e+02, 0., 3.1950000000000000e+02, 0., 401., 2.395e+02, 0., 0., 1. ]
distortion_coefficients: !!opencv-matrix
   rows: 5
   cols: 1
   dt: d
   data: [ -1.0000000000000001e-01, 0.001, 0., 0., 0. ]
avg_reprojection_error: 2.1e-01
"""
READ = Intrinsics(640, 480, 400.0, 401.0, 319.5, 239.5, 0.0, "plumb_bob", (-0.1, 1e-3, 0.0, 0.0, 0.0))


def written(folder: Path, text: str | bytes, name: str = "lens.yaml") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


@pytest.mark.parametrize("layout", sorted(WRITERS))
@pytest.mark.parametrize("intrinsics", LENSES)
def test_lenses_come_back_to_the_last_digit(tmp_path: Path, layout: str, intrinsics: Intrinsics) -> None:
    file = tmp_path / "lens.yaml"
    options = {"second": True} if layout == "ros" else {}
    WRITERS[layout](file, intrinsics, **options)
    back = load_intrinsics(file)
    assert replace(back, baseline_m=0.0) == replace(intrinsics, baseline_m=0.0)
    assert back.baseline_m == pytest.approx(intrinsics.baseline_m, rel=1e-15)


@pytest.mark.parametrize("intrinsics", LENSES)
def test_opencv_reads_what_we_write(tmp_path: Path, intrinsics: Intrinsics) -> None:
    cv2 = pytest.importorskip("cv2")
    file = tmp_path / "lens.yaml"
    save_opencv(file, intrinsics)
    storage = cv2.FileStorage(str(file), cv2.FILE_STORAGE_READ)
    np.testing.assert_array_equal(storage.getNode("camera_matrix").mat(), intrinsics.matrix)
    np.testing.assert_array_equal(storage.getNode("distortion_coefficients").mat().ravel(), intrinsics.distortion)
    assert storage.getNode("image_width").real() == intrinsics.width
    assert storage.getNode("fisheye_model").real() == (intrinsics.model == "equidistant")
    storage.release()


@pytest.mark.parametrize("intrinsics", LENSES[:3])
@pytest.mark.parametrize("flat", [False, True])
def test_we_read_what_opencv_writes(tmp_path: Path, intrinsics: Intrinsics, flat: bool) -> None:
    cv2 = pytest.importorskip("cv2")
    file = tmp_path / "lens.yml"
    storage = cv2.FileStorage(str(file), cv2.FILE_STORAGE_WRITE)
    storage.write("image_width", intrinsics.width)
    storage.write("image_height", intrinsics.height)
    storage.write("fisheye_model", int(intrinsics.model == "equidistant"))
    storage.write("camera_matrix", intrinsics.matrix)
    numbers = np.array(intrinsics.distortion)
    storage.write("distortion_coefficients", numbers[None] if flat else numbers[:, None])
    storage.release()
    assert load_intrinsics(file) == intrinsics


def test_pictures_have_a_pixel_at_least(tmp_path: Path) -> None:
    assert (
        load_intrinsics(written(tmp_path, OPENCV.replace("width: 640", "width: 1").replace("3.195", "0.0"))).width == 1
    )
    for side in ("0", "true", "1.5"):
        with pytest.raises(FormatError, match=r"lens\.yaml: .*image_width"):
            load_intrinsics(written(tmp_path, OPENCV.replace("width: 640", f"width: {side}")))


def test_files_as_the_calibration_programs_write_them(tmp_path: Path) -> None:
    assert load_intrinsics(written(tmp_path, OPENCV)) == READ
    assert load_intrinsics(written(tmp_path, OPENCV.replace("%YAML:1.0", "%YAML 1.2"))) == READ
    assert load_intrinsics(written(tmp_path, ROS)) == replace(READ, baseline_m=0.1)
    message = "height: 480\nwidth: 640\ndistortion_model: plumb_bob\nd: [-0.1, 0.001, 0.0, 0.0, 0.0]\n"
    message += "k: [400.0, 0.0, 319.5, 0.0, 401.0, 239.5, 0.0, 0.0, 1.0]\n"
    assert load_intrinsics(written(tmp_path, message)) == READ


def test_a_file_without_the_size_of_the_picture_gets_it_from_the_caller(tmp_path: Path) -> None:
    file = written(tmp_path, OPENCV.replace("image_width: 640\nimage_height: 480\n", ""))
    assert load_intrinsics(file, width=640, height=480) == READ
    with pytest.raises(FormatError, match=r"lens\.yaml: image_width is required"):
        load_intrinsics(file)


def test_ros_files_are_plain_yaml(tmp_path: Path) -> None:
    """PyYAML takes 1e-05 for text; numbers have a point."""
    file = tmp_path / "lens.yaml"
    save_ros(file, LENSES[0], "front_left")
    data = yaml.safe_load(file.read_text())
    assert data["camera_name"] == "front_left"
    assert data["distortion_coefficients"] == {"rows": 1, "cols": 5, "data": [-0.2, 0.05, 1e-5, -2e-7, 0.01]}
    assert data["projection_matrix"]["data"][3] == 0.0
    with pytest.raises(ConfigError, match="camera_name"):
        save_ros(file, LENSES[0], "front: left")


def test_impossible_lenses_are_not_written(tmp_path: Path) -> None:
    for writer in WRITERS.values():
        with pytest.raises(ConfigError, match="fx must be a positive"):
            writer(tmp_path / "lens.yaml", replace(READ, fx=-1.0))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[400.0, ", "[-400.0, ", "fx must be a positive number of pixels, got -400.0"),
        ("[400.0, ", "[.nan, ", r"camera_matrix\.data\[0\] must be a finite number, got nan"),
        ("[400.0, ", "[true, ", r"camera_matrix\.data\[0\] must be a finite number, got True"),
        ("[400.0, ", "[[400.0], ", r"camera_matrix\.data\[0\] must be a finite number"),
        ("[400.0, ", "[0.0, ", "fx must be a positive"),
        ("[400.0, 0.0,", "[400.0,", "camera_matrix states 3 x 3 numbers, but has 8"),
        (
            "  rows: 3\n  cols: 3\n  data: [400.0, 0.0,",
            "  rows: 2\n  cols: 4\n  data: [400.0,",
            "must have 3 x 3 numbers",
        ),
        ("239.5, 0.0, 0.0, 1.0]\ndist", "239.5, 0.0, 0.0, 2.0]\ndist", "camera_matrix must be fx skew cx, 0 fy cy"),
        ("  cols: 5", "  cols: many", "distortion_coefficients must have whole numbers of rows and cols"),
        ("cols: 5\n  data: [", "cols: 6\n  data: [0.1, 0.1, 0.1, ", "but has 8"),
        (
            "cols: 5\n  data: [-0.1, 1e-3, 0.0, 0.0, 0.0]",
            "cols: 6\n  data: [0, 0, 0, 0, 0, 0.1]",
            "those after the first 5 of plumb_bob",
        ),
        ("[-0.1, 1e-3,", "[-0.9, 1e-3,", "distortion folds back"),
        ("plumb_bob", "thin_prism", "distortion_model must be one of plumb_bob.*'thin_prism'"),
        ("image_width: 640", "image_width: 0", "image_width must be a whole number of pixels from 1 to 65535, got 0"),
        ("image_width: 640", "image_width: 1.5", "image_width must be a whole number"),
        ("image_height: 480\n", "", "image_height is required"),
        ("camera_matrix", "matrix", "camera_matrix is required"),
        ("319.5, 0.0, 401.0", "99999.0, 0.0, 401.0", "cx must be within"),
        ("camera_name: front", "camera_name: !!python/object/apply:os.system [echo]", "constructor"),
        ("camera_name: front", "camera_name: [", "line "),
    ],
)
def test_damaged_files_are_reported_in_one_sentence_that_names_file_and_field(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in ROS
    file = written(tmp_path, ROS.replace(old, new, 1))
    with pytest.raises(ParhelionError, match=words) as caught:
        load_intrinsics(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"\0\1\2", b"\xff\xfe", b"- 1\n- 2\n", b"%YAML:1.0\n---\n", b"5", b"{" * 5000]
)
def test_files_that_are_no_calibration(tmp_path: Path, content: bytes) -> None:
    with fence(), pytest.raises(ParhelionError, match=r"lens\.yaml"):
        load_intrinsics(written(tmp_path, content))


def test_xml_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="XML is not supported"):
        load_intrinsics(written(tmp_path, "<?xml version='1.0'?>", "lens.xml"))
    with pytest.raises(FormatError, match="no such file"):
        load_intrinsics(tmp_path / "none.yaml")
    with pytest.raises(FormatError, match="is a folder"):
        load_intrinsics(tmp_path)


@given(st.sampled_from([ROS, OPENCV]), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_cut_and_scrambled_files_never_raise_anything_else(tmp_path: Path, text: str, data: st.DataObject) -> None:
    content = bytearray(text.encode())
    del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(0, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file = written(tmp_path, bytes(content))
    problem = None
    try:
        load_intrinsics(file)
    except ParhelionError as error:
        problem = str(error)
    assert problem is None or (str(file) in problem and "\n" not in problem)


def test_a_camera_takes_the_lens_and_the_size_of_a_calibration_file(tmp_path: Path) -> None:
    camera = ph.Camera("generic/vga", calibration=written(tmp_path, ROS))
    assert replace(camera.intrinsics, baseline_m=0.0) == READ
    small = OPENCV.replace("image_width: 640\nimage_height: 480\n", "image_width: 320\nimage_height: 240\n")
    camera = ph.Camera("generic/vga", calibration=written(tmp_path, small), width=160)
    assert (camera.intrinsics.width, camera.intrinsics.fx) == (160, READ.fx / 2)
    with pytest.raises(FormatError, match=r"none\.yaml: no such file"):
        ph.Camera("generic/vga", calibration=tmp_path / "none.yaml")


def test_a_scenario_finds_a_calibration_file_beside_it(tmp_path: Path) -> None:
    written(tmp_path, ROS)
    (tmp_path / "drive.yaml").write_text(
        "world: cuboids\nduration_s: 0.1\nsensors:\n"
        "  - {name: eye, type: camera, model: generic/vga, options: {calibration: lens.yaml}}\n"
    )
    scenario = ph.Scenario.load(tmp_path / "drive.yaml")
    assert scenario.sensors[0].sensor.intrinsics.fx == READ.fx
