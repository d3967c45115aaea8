"""What a camera measures: a picture, and the truth of every pixel beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.records import Record, column, scalar

LENS_MODELS = ("plumb_bob", "rational_polynomial", "equidistant")
"""Lens models by ROS's names: Brown-Conrady of 5 numbers, of 8 numbers, and Kannala-Brandt's fisheye of 4."""

TRUTH = ("depth", "measured_depth", "normal", "label", "instance", "flow")
"""Arrays of an image beside the picture, each None where it was not requested."""

OPTICAL = Pose(quat_xyzw=(-0.5, 0.5, -0.5, 0.5))
"""The optical frame (x right, y down, z forward) in the sensor's (x forward, y left, z up)."""


@dataclass(frozen=True)
class Intrinsics:
    """Where the lens puts directions on the picture, in OpenCV's convention.

    Pixel (0, 0) has its middle at (0, 0); the optical frame has x to the right, y down and z forward.
    """

    width: int
    height: int
    fx: float
    """Focal length along rows [pixel]."""
    fy: float
    """Focal length along columns [pixel]."""
    cx: float
    """Column of the principal point [pixel]."""
    cy: float
    """Row of the principal point [pixel]."""
    skew: float = 0.0
    """Shift of columns with height [pixel]; OpenCV and ROS know it as the second number of the matrix."""
    model: str = "plumb_bob"
    """One of LENS_MODELS."""
    distortion: tuple[float, ...] = ()
    """k1 k2 p1 p2 k3, then k4 k5 k6 of the rational model; k1 k2 k3 k4 of the fisheye. Missing ones are 0."""
    baseline_m: float = 0.0
    """Of a stereo pair: how far right of the first lens the second one is [m]; 0 where there is none."""

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The camera matrix, shape (3, 3)."""
        return np.array([[self.fx, self.skew, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class SeenObject:
    """An object of which a picture shows something."""

    instance: int
    """Its number in the instance mask."""
    label: int
    """Its class in the label mask."""
    visible_box: tuple[float, float, float, float]
    """Left, top, right and bottom of the pixels that show it; right and bottom are the first pixels outside."""
    full_box: tuple[float, float, float, float]
    """The same of the whole object, were nothing in front of it, cut at the edges of the picture."""
    pixels: int
    """How many pixels show it."""
    occlusion: float
    """Share of what lies within the picture that something else hides, 0 to 1."""
    truncation: float
    """Share of its outline's box that lies outside of the picture, 0 to 1."""
    pose: Pose
    """Middle of its box in space, and how that is turned, in the sensor's frame (x forward, y left, z up)."""
    size_m: tuple[float, float, float]
    """Length, width and height of that box [m]."""


@dataclass(frozen=True, eq=False)
class Image(Record):
    """One exposure. Row 0 is at the top, column 0 at the left, as pictures are stored.

    The truth arrays are None where they were not asked for.
    """

    colour: NDArray[Any]
    """What the sensor reads, shape (h, w) or (h, w, bands): uint8, uint16, or float32 before the converter."""
    bands: tuple[str, ...] = ()
    """Names of the bands, such as red, green, blue; empty where nobody said."""
    intrinsics: Intrinsics | None = None
    """The lens."""
    start_time: float = field(default=0.0, metadata=scalar("s"))
    """Start of the exposure on the world's clock [s]."""
    pose: Pose = field(default_factory=Pose)
    """The camera in the world at that time: x forward, y left, z up."""
    depth: NDArray[np.float32] | None = field(
        default=None, metadata=column("m", "sensor", "h", "w", dtype="float32", finite=False)
    )
    """Distance along the optical axis [m], infinite where nothing is seen, shape (h, w)."""
    normal: NDArray[np.float32] | None = field(
        default=None, metadata=column("1", "sensor", "h", "w", 3, dtype="float32")
    )
    """Unit normal of the surface, zero where nothing is seen, shape (h, w, 3)."""
    label: NDArray[np.uint16] | None = field(default=None, metadata=column("", "", "h", "w", dtype="uint16"))
    """Class of what is seen, 0 for nothing, shape (h, w)."""
    instance: NDArray[np.uint32] | None = field(default=None, metadata=column("", "", "h", "w", dtype="uint32"))
    """Number of the object that is seen, 0 for nothing, shape (h, w)."""
    flow: NDArray[np.float32] | None = field(
        default=None, metadata=column("pixel", "image", "h", "w", 2, dtype="float32", finite=False)
    )
    """How far what a pixel shows moves to the right and down until the next frame, NaN where that is not known."""
    objects: tuple[SeenObject, ...] = ()
    """What is seen, where boxes were asked for."""
    measured_depth: NDArray[np.float32] | None = field(
        default=None, metadata=column("m", "sensor", "h", "w", dtype="float32", finite=False)
    )
    """What a depth camera measures along the optical axis [m], NaN where it has no answer."""
    right: NDArray[Any] | None = None
    """Picture of the second lens of a stereo pair, of the same shape and type as `colour`."""
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """What the numbers of coded fields stand for."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the image: sensor, seed, exposure ..."""

    def __post_init__(self) -> None:
        colour = np.asarray(self.colour).view()
        if colour.ndim not in (2, 3) or 0 in colour.shape or colour.dtype not in (np.uint8, np.uint16, np.float32):
            raise ConfigError(
                "Image: colour must have shape (h, w) or (h, w, bands) and be uint8, uint16 or float32, "
                f"got {colour.dtype} {colour.shape}"
            )
        colour.setflags(write=False)
        object.__setattr__(self, "colour", colour)
        if self.bands and len(self.bands) != (1 if colour.ndim == 2 else colour.shape[2]):
            raise ConfigError(f"Image: colour of shape {colour.shape} has not the bands {', '.join(self.bands)}")
        if self.right is not None:
            right = np.asarray(self.right).view()
            if right.shape != colour.shape or right.dtype != colour.dtype:
                raise ConfigError(
                    f"Image: right must be {colour.dtype} {colour.shape}, got {right.dtype} {right.shape}"
                )
            right.setflags(write=False)
            object.__setattr__(self, "right", right)
        super().__post_init__()

    def _sizes(self) -> Mapping[str, int]:
        return {"h": self.colour.shape[0], "w": self.colour.shape[1]}

    def _units(self) -> dict[str, tuple[str, str]]:
        return {"colour": ("counts" if self.colour.dtype.kind == "u" else "", "image"), **super()._units()}

    @property
    def width(self) -> int:
        """Pixels of a row."""
        return int(self.colour.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.colour.shape[0])

    def _facts(self) -> list[str]:
        bands = 1 if self.colour.ndim == 2 else self.colour.shape[2]
        planes = [name for name in TRUTH if getattr(self, name) is not None]
        return [f"{self.width} x {self.height} pixels", f"{bands} bands", *planes]
