"""Images as ROS 2 messages: sensor_msgs/Image, CompressedImage and CameraInfo.

Depth is in metres as 32FC1 (REP 118): NaN where there is no answer, infinity where nothing is seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import Intrinsics
from parhelion.io.images import png
from parhelion.io.images.eight_bit import shown_colours
from parhelion.io.images.plain import QUALITY, jpeg
from parhelion.io.ros.types import encode, header, new

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"

_NAMED = {(1, 8): "mono8", (1, 16): "mono16", (3, 8): "rgb8", (3, 16): "rgb16", (4, 8): "rgba8", (4, 16): "rgba16"}
_USUAL = {1: (), 3: ("red", "green", "blue"), 4: ("red", "green", "blue", "alpha")}
_LETTER = {"u": "U", "i": "S", "f": "F"}
_COEFFICIENTS = {"plumb_bob": 5, "rational_polynomial": 8, "equidistant": 4}


def encoding_of(pixels: NDArray[Any], bands: tuple[str, ...] = ()) -> str:
    """ROS's name of a kind of pixels: rgb8, mono16 and the like for colours, else such as 32FC1."""
    count = 1 if pixels.ndim == 2 else pixels.shape[2]
    bits = 8 * pixels.dtype.itemsize
    colours = count in _USUAL and pixels.dtype.kind == "u" and (not bands or count == 1 or bands == _USUAL[count])
    if count == 1 and bands and bands[0].startswith("bayer_") and bits in (8, 16):
        return f"{bands[0]}{bits}"
    if colours and (count, bits) in _NAMED:
        return _NAMED[count, bits]
    return f"{bits}{_LETTER[pixels.dtype.kind]}C{count}"


def image(time_ns: int, frame_id: str, pixels: NDArray[Any], encoding: str | None = None) -> bytes:
    """sensor_msgs/Image of pixels (h, w) or (h, w, bands), row by row from the top."""
    rows = np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder("<"))
    if rows.dtype == np.uint32:
        rows = rows.view("<i4")  # ROS knows no unsigned numbers of 32 bits
    height, width = rows.shape[:2]
    message = new(
        IMAGE,
        header=header(time_ns, frame_id),
        height=height,
        width=width,
        encoding=encoding or encoding_of(rows),
        is_bigendian=0,
        step=rows.nbytes // height,
        data=rows.reshape(-1).view(np.uint8),
    )
    return encode(IMAGE, message)


def compressed_image(
    time_ns: int, frame_id: str, pixels: NDArray[Any], bands: tuple[str, ...] = (), *, format: str = "png"
) -> bytes:
    """sensor_msgs/CompressedImage as PNG, which keeps every bit, or JPEG of 8 bits.

    The field `format` is what image_transport's plugin for compressed pictures writes.
    """
    if format == "png" and png.fits(pixels):
        data, shown = png.encode(pixels), pixels
    else:
        shown = shown_colours(pixels, bands)
        data = png.encode(shown) if format == "png" else jpeg(shown, QUALITY)
    named = encoding_of(shown, bands if shown is pixels else ())
    message = new(
        COMPRESSED_IMAGE,
        header=header(time_ns, frame_id),
        format=f"{named}; {format} compressed {named.replace('rgb', 'bgr')}",
        data=np.frombuffer(data, np.uint8),
    )
    return encode(COMPRESSED_IMAGE, message)


def camera_info(time_ns: int, frame_id: str, lens: Intrinsics, *, right: bool = False) -> bytes:
    """sensor_msgs/CameraInfo. Of the right picture of a stereo pair, P tells the baseline: P[3] = -fx baseline."""
    numbers = np.zeros(_COEFFICIENTS[lens.model])
    numbers[: len(lens.distortion)] = lens.distortion
    projection = np.concatenate([lens.matrix, np.zeros((3, 1))], axis=1)
    if right:
        projection[0, 3] = -lens.fx * lens.baseline_m
    window = new("sensor_msgs/msg/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
    message = new(
        CAMERA_INFO,
        header=header(time_ns, frame_id),
        height=lens.height,
        width=lens.width,
        distortion_model=lens.model,
        d=numbers,
        k=lens.matrix.ravel(),
        r=np.eye(3).ravel(),
        p=projection.ravel(),
        binning_x=0,
        binning_y=0,
        roi=window,
    )
    return encode(CAMERA_INFO, message)
