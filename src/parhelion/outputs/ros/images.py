"""What ROS makes of images: topics as image_transport has them, frames as REP 103 has them.

    /front/image_raw                     or /front/image_raw/compressed
    /front/camera_info
    /front/depth/image_raw               what a depth camera measures; of other cameras the true depth, if asked for
    /front/right/image_raw, camera_info  of the second lens of a stereo pair
    /front/ground_truth/depth/image_raw  the true depth beside a measured one; likewise label, instance

Pictures are in the frame front_optical_frame (x right, y down, z forward), which /tf_static puts into front.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from parhelion.core.image import OPTICAL, Image, Intrinsics
from parhelion.core.pose import Pose
from parhelion.io.ros import images as ros
from parhelion.io.ros.types import Message
from parhelion.outputs.ros.spelling import ros_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parhelion.outputs.ros.rules import Layout, Telling
    from parhelion.scenario.sensors import OnBoard

TOPIC = "image_raw"


def image_names(sensor: OnBoard, layout: Layout) -> tuple[str, str]:
    """Topic of the picture, and the camera's own frame."""
    name = ros_name(sensor.name)
    return f"/{name}/{TOPIC}", name


def image_type(sensor: OnBoard, layout: Layout) -> str:
    """Type of the pictures, where they are not compressed."""
    return ros.IMAGE


def image_topics(telling: Telling) -> dict[str, str]:
    """Topics that every camera has, and their types."""
    topic, kind = _picture_topic(telling.topic, telling.images)
    return {topic: kind, f"{base_topic(telling.topic)}/camera_info": ros.CAMERA_INFO}


def optical_frames(sensor: Any, frame: str) -> list[tuple[str, Pose]]:
    """Optical frames of a camera and where they are in its own; of a stereo camera, that of the second lens, too."""
    found = [(optical_frame(frame), OPTICAL)]
    lens = getattr(sensor.sensor, "intrinsics", None)
    if isinstance(lens, Intrinsics) and lens.baseline_m > 0.0:
        found.append((optical_frame(frame, right=True), Pose((0.0, -lens.baseline_m, 0.0)) @ OPTICAL))
    return found


def optical_frame(frame: str, *, right: bool = False) -> str:
    """Name of a camera's optical frame."""
    return f"{frame}_right_optical_frame" if right else f"{frame}_optical_frame"


def base_topic(topic: str) -> str:
    """What all topics of a camera begin with."""
    return topic.rpartition("/")[0]


def image_messages(image: Image, telling: Telling) -> Iterator[Message]:
    """All messages of one exposure."""
    base, frame = base_topic(telling.topic), optical_frame(telling.frame)
    stamp = telling.stamp(image.start_time)
    over = telling.stamp(image.start_time + float(telling.sensor.sensor.frame_duration_s))

    def plain(topic: str, pixels: NDArray[Any], where: str = frame) -> Message:
        return Message(topic, ros.IMAGE, over, ros.image(stamp, where, pixels))

    def lens(topic: str, where: str = frame, *, right: bool = False) -> Iterator[Message]:
        if image.intrinsics is not None:
            data = ros.camera_info(stamp, where, image.intrinsics, right=right)
            yield Message(f"{topic}/camera_info", ros.CAMERA_INFO, over, data)

    yield _picture(image.colour, image.bands, telling.topic, frame, telling, stamp, over)
    yield from lens(base)
    if image.right is not None:
        aside = optical_frame(telling.frame, right=True)
        yield _picture(image.right, image.bands, f"{base}/right/{TOPIC}", aside, telling, stamp, over)
        yield from lens(f"{base}/right", aside, right=True)
    depth = image.depth if image.measured_depth is None else image.measured_depth
    if depth is not None:
        yield plain(f"{base}/depth/{TOPIC}", depth)
        yield from lens(f"{base}/depth")
    if image.measured_depth is not None and image.depth is not None:
        yield plain(f"{base}/ground_truth/depth/{TOPIC}", image.depth)
    if image.label is not None:
        data = ros.image(stamp, frame, image.label, "16UC1")
        yield Message(f"{base}/ground_truth/label/{TOPIC}", ros.IMAGE, over, data)
    if image.instance is not None:
        yield plain(f"{base}/ground_truth/instance/{TOPIC}", image.instance)


def _picture(
    pixels: NDArray[Any], bands: tuple[str, ...], topic: str, frame: str, telling: Telling, stamp: int, over: int
) -> Message:
    place, kind = _picture_topic(topic, telling.images)
    if kind == ros.IMAGE:
        return Message(place, kind, over, ros.image(stamp, frame, pixels, ros.encoding_of(pixels, bands)))
    return Message(place, kind, over, ros.compressed_image(stamp, frame, pixels, bands, format=telling.images))


def _picture_topic(topic: str, images: str) -> tuple[str, str]:
    return (topic, ros.IMAGE) if images == "raw" else (f"{topic}/compressed", ros.COMPRESSED_IMAGE)
