"""Reader and writers of camera calibrations: OpenCV FileStorage (YAML) and ROS camera_info files.

Both are YAML. OpenCV files begin with `%YAML:1.0`, which is not part of any YAML standard, and tag their matrices; ROS
files have the layout of `camera_calibration`. Tags are removed before parsing, because a file is data, never code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from parhelion.core.config import LARGEST_CONFIG_BYTES, yaml_data
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import write_whole
from parhelion.core.image import LENS_MODELS, Intrinsics
from parhelion.core.reading import file_reader, read_bytes, shown
from parhelion.sensors.optics.camera.lens import COEFFICIENTS, check, padded

LARGEST_SIDE = 65535
"""Largest number of rows or columns [pixel] that is accepted."""

_HEAD = re.compile(r"\A\ufeff?\s*%YAML[: ]1\.\d\s*$", re.MULTILINE)
_TAG = re.compile(r"!!opencv-matrix\b")

# Field names used by different calibration programs; the most common name comes first.
_WIDTH = ("image_width", "image_Width", "width")
_HEIGHT = ("image_height", "image_Height", "height")
_MATRIX = ("camera_matrix", "Camera_Matrix", "cameraMatrix", "K", "k", "M1")
_DISTORTION = ("distortion_coefficients", "Distortion_Coefficients", "distCoeffs", "dist_coeffs", "D", "d", "D1")
_PROJECTION = ("projection_matrix", "P", "p")
_FISHEYE_NAMES = ("equidistant", "fisheye", "kannala_brandt", "kannalabrandt4")


@file_reader()
def load_intrinsics(path: str | PathLike[str], *, width: int | None = None, height: int | None = None) -> Intrinsics:
    """Read the lens of an OpenCV or ROS calibration file; the layout is detected from the content.

    `width` and `height` [pixel] are needed for files that do not state the image size.
    """
    file = Path(path)
    if file.suffix.lower() == ".xml":
        raise FormatError(f"{shown(file)}: XML is not supported; write it as .yaml with cv2.FileStorage")
    data = yaml_data(file, _plain_yaml(file))
    if not isinstance(data, dict):
        raise FormatError(f"{shown(file)}: contains no fields of a calibration")
    fields = _Fields(file, data)
    rows = fields.matrix(_MATRIX, 3, 3)
    (fx, skew, cx), (lower, fy, cy), last = rows[:3], rows[3:6], rows[6:]
    if lower != 0.0 or last != [0.0, 0.0, 1.0]:
        raise fields.error(fields.name(_MATRIX), "must be fx skew cx, 0 fy cy, 0 0 1")
    model, distortion = _distortion(fields)
    lens = Intrinsics(
        width=fields.side(_WIDTH, width),
        height=fields.side(_HEIGHT, height),
        fx=fx,
        fy=fy,
        cx=cx,
        cy=cy,
        skew=skew,
        model=model,
        distortion=distortion,
        baseline_m=_baseline(fields),
    )
    check(lens)
    return lens


def _plain_yaml(file: Path) -> str:
    content = read_bytes(file, FormatError, largest=LARGEST_CONFIG_BYTES, what="a calibration")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{shown(file)}: is not a text file") from None
    # The header is replaced by a comment, so that line numbers in errors stay correct.
    return _TAG.sub("", _HEAD.sub("#", text, count=1))


class _Fields:
    """Fields of one file under any of their names; errors name file and field."""

    def __init__(self, file: Path, data: Mapping[Any, Any]) -> None:
        self.file, self.data = file, data

    def error(self, field: str, problem: str) -> FormatError:
        return FormatError(f"{shown(self.file)}: {field} {problem}")

    def has(self, names: tuple[str, ...]) -> bool:
        return any(name in self.data for name in names)

    def name(self, names: tuple[str, ...]) -> str:
        """Name that the file uses."""
        for name in names:
            if name in self.data:
                return name
        raise self.error(names[0], "is required")

    def side(self, names: tuple[str, ...], given: int | None) -> int:
        if given is not None and not self.has(names):
            value: Any = given
        else:
            value = self.data[self.name(names)]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_SIDE:
            raise self.error(names[0], f"must be a whole number of pixels from 1 to {LARGEST_SIDE}, got {value!r:.60}")
        return value

    def matrix(self, names: tuple[str, ...], rows: int, cols: int) -> list[float]:
        name = self.name(names)
        numbers, shape = self.numbers(name)
        if shape not in ((rows, cols), None) or len(numbers) != rows * cols:
            found = f"{shape[0]} x {shape[1]}" if shape else str(len(numbers))
            raise self.error(name, f"must have {rows} x {cols} numbers, got {found}")
        return numbers

    def numbers(self, name: str) -> tuple[list[float], tuple[int, int] | None]:
        """Numbers of a matrix or plain list, and the shape that a matrix states."""
        value: Any = self.data[name]
        shape: tuple[int, int] | None = None
        place = name
        if isinstance(value, dict):
            rows: Any = value.get("rows")
            cols: Any = value.get("cols")
            value = value.get("data")
            if not (_is_count(rows) and _is_count(cols)):
                raise self.error(name, "must have whole numbers of rows and cols")
            shape, place = (rows, cols), f"{name}.data"
        if not isinstance(value, list) or len(value) > 1000:
            raise self.error(place, "must be a list of numbers")
        if shape is not None and shape[0] * shape[1] != len(value):
            raise self.error(name, f"states {shape[0]} x {shape[1]} numbers, but has {len(value)}")
        return [self.number(f"{place}[{index}]", number) for index, number in enumerate(value)], shape

    def number(self, place: str, value: Any) -> float:
        try:
            # YAML parses 1e-3 as text, because it has no decimal point.
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise self.error(place, f"must be a finite number, got {value!r:.60}")
        return number


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000


def _distortion(fields: _Fields) -> tuple[str, tuple[float, ...]]:
    """Name of the lens model in `Intrinsics`, and its coefficients."""
    numbers: list[float] = []
    if fields.has(_DISTORTION):
        name = fields.name(_DISTORTION)
        if fields.data[name] is not None:
            numbers, shape = fields.numbers(name)
            if shape is not None and numbers and 1 not in shape:
                raise fields.error(name, f"must be one row or one column, got {shape[0]} x {shape[1]}")
    stated = fields.data.get("distortion_model")
    if stated is None or stated == "":
        is_fisheye = fields.data.get("fisheye_model") in (1, True)
        model = "equidistant" if is_fisheye else "plumb_bob" if len(numbers) <= 5 else "rational_polynomial"
    elif isinstance(stated, str) and stated.lower() in _FISHEYE_NAMES:
        model = "equidistant"
    elif stated in LENS_MODELS:
        model = stated
    else:
        raise fields.error("distortion_model", f"must be one of {', '.join(LENS_MODELS)}, got {stated!r:.60}")
    most = COEFFICIENTS[model]
    if any(numbers[most:]):
        raise fields.error(
            fields.name(_DISTORTION), f"has {len(numbers)} numbers; those after the first {most} of {model} must be 0"
        )
    return model, tuple(numbers[:most])


def _baseline(fields: _Fields) -> float:
    """Stereo baseline [m]. ROS stores -fx times the baseline in the projection matrix of the second camera."""
    if "baseline_m" in fields.data:
        return fields.number("baseline_m", fields.data["baseline_m"])
    if not fields.has(_PROJECTION):
        return 0.0
    projection = fields.matrix(_PROJECTION, 3, 4)
    return max(0.0, -projection[3] / projection[0]) if projection[0] > 0.0 else 0.0


def save_opencv(path: str | PathLike[str], intrinsics: Intrinsics) -> None:
    """Write a lens in the layout of OpenCV's calibration programs, for `cv2.FileStorage`."""
    check(intrinsics)
    numbers = padded(intrinsics.model, intrinsics.distortion)
    lines = [
        "%YAML:1.0",
        "---",
        f"image_width: {intrinsics.width}",
        f"image_height: {intrinsics.height}",
        f"fisheye_model: {int(intrinsics.model == 'equidistant')}",
        *_matrix("camera_matrix", 3, 3, _camera_matrix(intrinsics), " !!opencv-matrix", "d"),
        *_matrix("distortion_coefficients", len(numbers), 1, numbers, " !!opencv-matrix", "d"),
    ]
    if intrinsics.baseline_m:
        lines.append(f"baseline_m: {_number(intrinsics.baseline_m)}")
    write_whole(path, ("\n".join(lines) + "\n").encode())


def save_ros(
    path: str | PathLike[str], intrinsics: Intrinsics, camera_name: str = "camera", *, second: bool = False
) -> None:
    """Write a lens in the layout of ROS `camera_calibration`; `second` for the right camera of a stereo pair."""
    check(intrinsics)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", camera_name):
        raise ConfigError(f"camera_name: ROS allows letters, digits and _ only, got {camera_name!r:.60}")
    numbers, matrix = padded(intrinsics.model, intrinsics.distortion), _camera_matrix(intrinsics)
    shift = -intrinsics.fx * intrinsics.baseline_m if second else 0.0
    projection = (*matrix[:3], shift, *matrix[3:6], 0.0, *matrix[6:], 0.0)
    lines = [
        f"image_width: {intrinsics.width}",
        f"image_height: {intrinsics.height}",
        f"camera_name: {camera_name}",
        *_matrix("camera_matrix", 3, 3, matrix),
        f"distortion_model: {intrinsics.model}",
        *_matrix("distortion_coefficients", 1, len(numbers), numbers),
        *_matrix("rectification_matrix", 3, 3, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)),
        *_matrix("projection_matrix", 3, 4, projection),
    ]
    write_whole(path, ("\n".join(lines) + "\n").encode())


WRITERS: dict[str, Callable[..., None]] = {"opencv": save_opencv, "ros": save_ros}
"""Writers of calibration files, by layout."""


def _camera_matrix(intrinsics: Intrinsics) -> tuple[float, ...]:
    return tuple(float(number) for number in intrinsics.matrix.ravel())


def _matrix(
    name: str, rows: int, cols: int, numbers: tuple[float, ...], tag: str = "", kind: str | None = None
) -> list[str]:
    shape = [f"{name}:{tag}", f"  rows: {rows}", f"  cols: {cols}"]
    return [*shape, *([f"  dt: {kind}"] if kind else []), f"  data: [{', '.join(map(_number, numbers))}]"]


def _number(value: float) -> str:
    """Number with all digits and the decimal point that YAML requires: 1.0e-05."""
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
