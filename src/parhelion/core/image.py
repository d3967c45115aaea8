"""Camera images: the picture, and the ground truth of every pixel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.labelled import Labelled
from parhelion.core.pose import Pose
from parhelion.core.records import Record, column, scalar

LENS_MODELS = ("plumb_bob", "rational_polynomial", "equidistant")
"""Lens models by ROS name: Brown-Conrady with 5 and with 8 coefficients, and the Kannala-Brandt fisheye with 4."""

TRUTH = ("depth", "measured_depth", "normal", "label", "instance", "mobility", "flow", "window")
"""Ground-truth and depth arrays of an image; each is None unless it was requested."""

MOBILITY = {0: "none", 1: "static", 2: "movable", 3: "moving"}
"""Codes of mobility: nothing visible; built in; at rest but able to move, such as a parked car; in motion."""

OPTICAL = Pose(quat_xyzw=(-0.5, 0.5, -0.5, 0.5))
"""Pose of the optical frame (x right, y down, z forward) in the sensor frame (x forward, y left, z up)."""


@dataclass(frozen=True)
class Intrinsics:
    """Projection of directions onto pixels, in OpenCV's convention.

    The centre of pixel (0, 0) is at (0, 0). The optical frame has x to the right, y down and z forward.

    >>> lens = ph.Intrinsics(width=640, height=480, fx=500.0, fy=500.0, cx=319.5, cy=239.5)
    >>> (lens.matrix @ [0.1, 0.0, 1.0]).tolist()
    [369.5, 239.5, 1.0]
    """

    width: int
    """Number of pixel columns."""
    height: int
    """Number of pixel rows."""
    fx: float
    """Focal length along rows [pixel]."""
    fy: float
    """Focal length along columns [pixel]."""
    cx: float
    """Column of the principal point [pixel]."""
    cy: float
    """Row of the principal point [pixel]."""
    skew: float = 0.0
    """Skew [pixel], the second element of the camera matrix in OpenCV and ROS."""
    model: str = "plumb_bob"
    """One of LENS_MODELS."""
    distortion: tuple[float, ...] = ()
    """k1 k2 p1 p2 k3, then k4 k5 k6 for the rational model; k1 k2 k3 k4 for the fisheye. Missing ones are 0."""
    baseline_m: float = 0.0
    """Distance [m] from the left lens to the right lens of a stereo pair; 0 for a single lens."""

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Camera matrix, shape (3, 3)."""
        return np.array([[self.fx, self.skew, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class SeenObject:
    """An object that is at least partly visible in an image."""

    instance: int
    """Number of the object in the instance mask."""
    label: int
    """Class of the object in the label mask."""
    visible_box: tuple[float, float, float, float]
    """Left, top, right and bottom [pixel] of the visible part; right and bottom are exclusive."""
    full_box: tuple[float, float, float, float]
    """Left, top, right and bottom [pixel] of the object without occlusion, clipped to the image."""
    pixels: int
    """Number of pixels that show the object."""
    occlusion: float
    """Fraction of the object within the image that other objects hide, 0 to 1."""
    truncation: float
    """Fraction of the object's outline box that lies outside the image, 0 to 1."""
    pose: Pose
    """Centre and orientation of the object's 3-D box in the sensor frame (x forward, y left, z up)."""
    size_m: tuple[float, float, float]
    """Length, width and height of the 3-D box [m]."""


@dataclass(frozen=True, eq=False)
class Image(Record):
    """One exposure. Row 0 is the top row, column 0 the left column.

    Ground-truth arrays are None unless they were requested.

    >>> image = ph.Image(np.zeros((4, 6, 3), np.uint8), bands=("red", "green", "blue"), depth=np.full((4, 6), 2.5))
    >>> image
    <Image: 6 x 4 pixels, 3 bands, depth>
    >>> image.units["depth"], float(image.depth[0, 0])
    ('m', 2.5)
    """

    colour: NDArray[Any]
    """Pixel values, shape (h, w) or (h, w, bands): uint8, uint16, or float32 before the converter."""
    bands: tuple[str, ...] = ()
    """Names of the bands, for example red, green, blue; empty if unknown."""
    intrinsics: Intrinsics | None = None
    """Lens and pixel geometry."""
    start_time: float = field(default=0.0, metadata=scalar("s"))
    """Start of the exposure [s] on the world's clock."""
    pose: Pose = field(default_factory=Pose)
    """Pose of the camera in the world at `start_time`: x forward, y left, z up."""
    depth: NDArray[np.float32] | None = field(
        default=None, metadata=column("m", "sensor", "h", "w", dtype="float32", finite=False)
    )
    """Distance [m] along the optical axis, infinite where no surface is visible, shape (h, w)."""
    normal: NDArray[np.float32] | None = field(
        default=None, metadata=column("1", "sensor", "h", "w", 3, dtype="float32")
    )
    """Unit normal of the surface in the sensor frame, zero where no surface is visible, shape (h, w, 3)."""
    label: NDArray[np.uint16] | None = field(default=None, metadata=column("", "", "h", "w", dtype="uint16"))
    """Class of the visible surface, 0 for none, shape (h, w)."""
    instance: NDArray[np.uint32] | None = field(default=None, metadata=column("", "", "h", "w", dtype="uint32"))
    """Number of the visible object, 0 for none, shape (h, w)."""
    flow: NDArray[np.float32] | None = field(
        default=None, metadata=column("pixel", "image", "h", "w", 2, dtype="float32", finite=False)
    )
    """Optical flow [pixel] to the right and down until the next frame, NaN where unknown, shape (h, w, 2)."""
    objects: tuple[SeenObject, ...] = ()
    """Visible objects with their boxes; empty unless boxes were requested."""
    measured_depth: NDArray[np.float32] | None = field(
        default=None, metadata=column("m", "sensor", "h", "w", dtype="float32", finite=False)
    )
    """Distance [m] along the optical axis as a depth camera measures it, NaN without a measurement, shape (h, w)."""
    right: NDArray[Any] | None = None
    """Picture of the right lens of a stereo pair, with the shape and type of `colour`."""
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Names of the codes in `label` and other coded fields."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values stored with the image: sensor, seed, exposure, ..."""
    mobility: NDArray[np.uint8] | None = field(default=None, metadata=column("", "", "h", "w", dtype="uint8"))
    """Mobility of the visible object, a code of MOBILITY, shape (h, w)."""
    window: NDArray[np.float32] | None = field(default=None, metadata=column("1", "", "h", "w", dtype="float32"))
    """Share of the light that dirt on the window lets through undeflected, 1 where it is clean, shape (h, w)."""

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
            raise ConfigError(f"Image: colour of shape {colour.shape} does not match the bands {', '.join(self.bands)}")
        if self.right is not None:
            right = np.asarray(self.right).view()
            if right.shape != colour.shape or right.dtype != colour.dtype:
                raise ConfigError(
                    f"Image: right must be {colour.dtype} {colour.shape}, got {right.dtype} {right.shape}"
                )
            right.setflags(write=False)
            object.__setattr__(self, "right", right)
        super().__post_init__()

    def _labelled(self) -> list[Labelled]:
        axes = ("line", "column", "band")[: self.colour.ndim]
        labels = {"band": self.bands} if self.bands and self.colour.ndim == 3 else {}
        return [Labelled("colour", "", "image", self.colour, axes, labels), *super()._labelled()]

    def _sizes(self) -> Mapping[str, int]:
        return {"h": self.colour.shape[0], "w": self.colour.shape[1]}

    def _units(self) -> dict[str, tuple[str, str]]:
        return {"colour": ("counts" if self.colour.dtype.kind == "u" else "", "image"), **super()._units()}

    @property
    def width(self) -> int:
        """Number of pixel columns."""
        return int(self.colour.shape[1])

    @property
    def height(self) -> int:
        """Number of pixel rows."""
        return int(self.colour.shape[0])

    def _repr_parts(self) -> list[str]:
        bands = 1 if self.colour.ndim == 2 else self.colour.shape[2]
        planes = [name for name in TRUTH if getattr(self, name) is not None]
        return [f"{self.width} x {self.height} pixels", f"{bands} bands", *planes]
