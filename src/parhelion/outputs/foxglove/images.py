"""What Foxglove makes of images: CompressedImage and CameraCalibration, raw depth, and boxes over the picture.

Topics are those of ROS: /front/image_raw, /front/camera_info, /front/depth/image_raw, /front/right/...; the boxes of
what is seen are on /front/objects, for the picture's panel to draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import Image, Intrinsics
from parhelion.io.images import png
from parhelion.io.images.eight_bit import shown_colours
from parhelion.io.images.plain import jpeg
from parhelion.outputs.foxglove.messages import FoxgloveMessage
from parhelion.outputs.foxglove.scene import timestamp
from parhelion.outputs.ros.images import base_topic, optical_frame

if TYPE_CHECKING:
    from parhelion.outputs.foxglove.rules import Telling
    from parhelion.scenario.scenario import Scenario

_BOX_COLOUR = (1.0, 0.7, 0.33)


def image_schema(sensor: Any, scenario: Scenario) -> Any:
    """Of the picture."""
    from foxglove.messages import CompressedImage

    return CompressedImage.get_schema()


def image_topics(sensor: Any, scenario: Scenario, topic: str) -> dict[str, Any]:
    """Of what every camera has beside its picture."""
    from foxglove.messages import CameraCalibration

    return {f"{base_topic(topic)}/camera_info": CameraCalibration.get_schema()}


def image_messages(image: Image, telling: Telling) -> Iterator[FoxgloveMessage]:
    """All messages of one exposure; pictures are packed when they are sent."""
    from foxglove.messages import CameraCalibration, CompressedImage, ImageAnnotations, RawImage

    base, frame = base_topic(telling.topic), optical_frame(telling.frame)
    stamp, over = telling.stamp(image.start_time), telling.stamp(image.start_time + telling.length_s)

    def told(topic: str, kind: Any, make: Any, *arguments: Any) -> FoxgloveMessage:
        return FoxgloveMessage(topic, over, partial(make, *arguments), kind.get_schema())

    bands, form = image.bands, telling.images
    yield told(telling.topic, CompressedImage, picture, image.colour, bands, frame, stamp, form)
    lens = image.intrinsics
    if lens is not None:
        yield told(f"{base}/camera_info", CameraCalibration, calibration, lens, frame, stamp, False)
    if image.right is not None:
        aside = optical_frame(telling.frame, right=True)
        yield told(f"{base}/right/image_raw", CompressedImage, picture, image.right, bands, aside, stamp, form)
        if lens is not None:
            yield told(f"{base}/right/camera_info", CameraCalibration, calibration, lens, aside, stamp, True)
    depth = image.depth if image.measured_depth is None else image.measured_depth
    if depth is not None:
        yield told(f"{base}/depth/image_raw", RawImage, raw, depth, "32FC1", frame, stamp)
    if image.label is not None:
        yield told(f"{base}/ground_truth/label/image_raw", RawImage, raw, image.label, "16UC1", frame, stamp)
    if image.objects:
        yield told(f"{base}/objects", ImageAnnotations, boxes_over, image, stamp)


def picture(pixels: NDArray[Any], bands: tuple[str, ...], frame: str, stamp: int, form: str) -> bytes:
    """foxglove.CompressedImage as PNG or JPEG."""
    from foxglove.messages import CompressedImage

    if form == "png" and png.fits(pixels):
        data = png.encode(pixels)
    else:
        shown = shown_colours(pixels, bands)
        data = png.encode(shown) if form == "png" else jpeg(shown)
    encoded: bytes = CompressedImage(timestamp=timestamp(stamp), frame_id=frame, data=data, format=form).encode()
    return encoded


def raw(pixels: NDArray[Any], encoding: str, frame: str, stamp: int) -> bytes:
    """foxglove.RawImage."""
    from foxglove.messages import RawImage

    rows = np.ascontiguousarray(pixels)
    encoded: bytes = RawImage(
        timestamp=timestamp(stamp), frame_id=frame, width=rows.shape[1], height=rows.shape[0], encoding=encoding,
        step=rows.nbytes // rows.shape[0], data=rows.tobytes(),
    ).encode()  # fmt: skip
    return encoded


def calibration(lens: Intrinsics, frame: str, stamp: int, right: bool) -> bytes:
    """foxglove.CameraCalibration; models and matrices are those of ROS."""
    from foxglove.messages import CameraCalibration

    projection = np.concatenate([lens.matrix, np.zeros((3, 1))], axis=1)
    projection[0, 3] = -lens.fx * lens.baseline_m if right else 0.0
    # Foxglove calls ROS's equidistant lens by the authors of its model.
    model = "kannala_brandt" if lens.model == "equidistant" else lens.model
    least = {"plumb_bob": 5, "rational_polynomial": 8}.get(lens.model, 4)
    numbers = [*lens.distortion, *[0.0] * (least - len(lens.distortion))]
    encoded: bytes = CameraCalibration(
        timestamp=timestamp(stamp), frame_id=frame, width=lens.width, height=lens.height, distortion_model=model,
        D=numbers, K=lens.matrix.ravel().tolist(), R=np.eye(3).ravel().tolist(), P=projection.ravel().tolist(),
    ).encode()  # fmt: skip
    return encoded


def boxes_over(image: Image, stamp: int) -> bytes:
    """foxglove.ImageAnnotations: the visible box of each object, with its label and instance."""
    from foxglove.messages import (
        Color,
        ImageAnnotations,
        Point2,
        PointsAnnotation,
        PointsAnnotationType,
        TextAnnotation,
    )

    at, words = timestamp(stamp), image.names.get("label", {})
    red, green, blue = _BOX_COLOUR
    colour, dark = Color(r=red, g=green, b=blue, a=1.0), Color(r=0.05, g=0.06, b=0.08, a=0.7)
    loops, texts = [], []
    for one in image.objects:
        left, top, right, bottom = one.visible_box
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        loops.append(
            PointsAnnotation(
                timestamp=at, type=PointsAnnotationType.LineLoop, points=[Point2(x=x, y=y) for x, y in corners],
                outline_color=colour, thickness=1.0,
            )
        )  # fmt: skip
        said = f"{words.get(one.label, f'label {one.label}')} {one.instance}"
        texts.append(
            TextAnnotation(
                timestamp=at, position=Point2(x=left, y=top), text=said, font_size=10.0, text_color=colour,
                background_color=dark,
            )
        )  # fmt: skip
    encoded: bytes = ImageAnnotations(points=loops, texts=texts).encode()
    return encoded
