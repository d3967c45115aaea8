"""Display of each record type in the viewer: a cloud, an image, lines, points or text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.contact.bodies import Collision
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.consumers import Consumer
from parhelion.core.frames import EchoScan, FramePoints, RadarScan
from parhelion.core.image import Image
from parhelion.core.streams import (
    BLOCKED,
    DIRECT,
    MULTIPATH,
    NO_FIX,
    QUALITY,
    REFLECTED,
    STATUS,
    GnssData,
    Samples,
    UwbData,
    units,
)
from parhelion.live.viewer.colours import ramp
from parhelion.pictures.camera import image_colours
from parhelion.pictures.charts import sky_plot


@dataclass(frozen=True, eq=False)
class Segments:
    """Lines in the scene."""

    ends: NDArray[np.float64]
    """Start and end of each line [m], world frame, shape (k, 2, 3)."""
    colours: NDArray[np.uint8]
    """Red, green, blue of both ends, shape (k, 2, 3)."""


@dataclass(frozen=True, eq=False)
class Dots:
    """Points in the scene in addition to the lidar cloud."""

    xyz: NDArray[np.float64]
    """Positions in the world frame [m], shape (n, 3)."""
    colours: NDArray[np.uint8]
    """Red, green, blue, shape (n, 3)."""
    size_m: NDArray[np.float64]
    """Diameters [m], with few distinct values, shape (n,)."""


@dataclass(frozen=True)
class ViewerLayer:
    """Display functions of one record type."""

    in_scene: bool
    """True for a cloud in the scene, selected and coloured by the panel."""
    lines: Callable[[str, Any], list[str]]
    """Lines of text for the panel, from the name of a sensor and its latest record."""
    picture: Callable[[Any], NDArray[np.uint8]] | None = None
    """Image of a record as red, green, blue (h, w, 3)."""
    segments: Callable[[Any], Segments | None] | None = None
    """Lines in the scene, from the latest record."""
    dots: Callable[[Any], Dots] | None = None
    """Points in the scene, from the frame nearest to the scan."""
    drawing: Callable[[Any], str] | None = None
    """SVG drawing for the panel, from the latest record; '' for none."""


def _reading(name: str, samples: Samples) -> list[str]:
    """Text with the values of the last sample and their units."""
    if not len(samples):
        return []
    declared, parts = units(samples), []
    for field in samples._columns():
        value = np.atleast_1d(getattr(samples, field)[-1])
        if field != "time" and field in declared and value.size <= 3:
            numbers = ", ".join(f"{number:.4g}" for number in value.tolist())
            parts.append(f"{field.replace('_', ' ')} {numbers} {declared[field][0]}".rstrip())
    return [f"{name}: {'; '.join(parts)}"]


def _size(name: str, image: Image) -> list[str]:
    return [f"{name}: {image.width} x {image.height} pixels at {image.start_time:.3f} s"]


SIGHT_M = 60.0
"""Length of the lines of sight in the scene [m]."""
_SIGHT_COLOUR = {BLOCKED: (110, 116, 124), REFLECTED: (230, 150, 30), MULTIPATH: (230, 150, 30), DIRECT: (60, 200, 100)}


def _fix(name: str, fixes: GnssData) -> list[str]:
    """Text with the last fix."""
    if not len(fixes):
        return []
    seen = [f"{int(np.sum(fixes.status[-1] == number))} {STATUS[number]}" for number in reversed(list(_SIGHT_COLOUR))]
    if fixes.mode[-1] == NO_FIX:
        return [f"{name}: no fix ({', '.join(seen)})"]
    x, y, z = fixes.error[-1].tolist()
    used = int(fixes.satellites_used[-1])
    grade = "" if fixes.quality is None else f"{QUALITY[int(fixes.quality[-1])]}, "
    return [f"{name}: {grade}error {x:.2f}, {y:.2f}, {z:.2f} m; {used} satellites used ({', '.join(seen)})"]


def sights(fixes: GnssData) -> Segments | None:
    """Lines from the antenna towards the satellites: green direct, amber with or by reflections, grey blocked."""
    if not len(fixes):
        return None
    status, start = fixes.status[-1], fixes.true_position[-1]
    seen = np.flatnonzero(status > 0)
    far = start + SIGHT_M * fixes.directions()[-1, seen]
    ends = np.stack([np.broadcast_to(start, far.shape), far], axis=1)
    colours = np.array([_SIGHT_COLOUR[int(number)] for number in status[seen]], np.uint8).reshape(-1, 3)
    return Segments(ends.astype(np.float64), np.repeat(colours[:, None], 2, axis=1))


IN_SIGHT, HIDDEN, NOT_HEARD = (84, 201, 138), (255, 122, 90), (110, 118, 130)
"""Colours of anchors and the lines to them."""
_POST_M = 0.4


def _heard(name: str, found: UwbData) -> list[str]:
    """Text with the number of received anchors and the position."""
    if not len(found):
        return []
    heard, sight = np.isfinite(found.range[-1]), found.los[-1]
    text = f"{name}: {int(heard.sum())} of {len(heard)} anchors heard, {int((heard & sight).sum())} of them in sight"
    if found.first_path_power is not None and np.isfinite(found.first_path_power[-1]).any():
        text += f"; strongest first path {np.nanmax(found.first_path_power[-1]):.1f} dBm"
    if np.all(np.isfinite(found.position[-1])):
        place = ", ".join(f"{value:.2f}" for value in found.position[-1].tolist())
        text += f"; position {place} m, GDOP {found.gdop[-1]:.1f}"
    return [text]


def _to_anchors(found: UwbData) -> Segments | None:
    """Short post at each anchor, and a line from the tag to each received anchor."""
    if not len(found) or not len(found.anchors):
        return None
    heard, sight = np.isfinite(found.range[-1]), found.los[-1]
    paint = np.where(heard[:, None], np.where(sight[:, None], IN_SIGHT, HIDDEN), NOT_HEARD).astype(np.uint8)
    half = np.array([0.0, 0.0, _POST_M / 2.0])
    ends, colours = np.stack([found.anchor_xyz - half, found.anchor_xyz + half], axis=1), paint
    if np.all(np.isfinite(found.position[-1])):
        tag = np.broadcast_to(found.position[-1], (int(heard.sum()), 3))
        ends = np.concatenate([ends, np.stack([tag, found.anchor_xyz[heard]], axis=1)])
        colours = np.concatenate([paint, paint[heard]])
    return Segments(ends, np.stack([colours, colours], axis=1))


def _found(name: str, points: FramePoints) -> list[str]:
    if not len(points):
        return [f"{name}: no detections at {points.start_time:.3f} s"]
    near = float(points.fields["range"].min())
    return [f"{name}: {len(points)} detections at {points.start_time:.3f} s, nearest at {near:.2f} m"]


FASTEST_M_S = 15.0
"""Radial velocity [m/s] at the ends of the radar colours: blue approaches, red recedes, grey is stationary."""
LOUDEST_DB = 60.0
"""Level over noise [dB] at the upper end of the echo colours."""
_SIZES_M = ((0.0, 0.15), (15.0, 0.25), (30.0, 0.4))
"""Diameters of points by minimum signal over noise [dB]."""


def _sizes(points: PointCloud) -> NDArray[np.float64]:
    step = np.searchsorted([least for least, _ in _SIZES_M], points.fields["snr"], side="right") - 1
    return np.array([size for _, size in _SIZES_M])[np.maximum(step, 0)]


def _by_ramp(name: str, share: NDArray[Any]) -> NDArray[np.uint8]:
    return ramp(name)[np.round(255.0 * np.clip(share, 0.0, 1.0)).astype(np.intp)]


def _in_world(scan: PointCloud) -> PointCloud:
    """Points in the world frame; recorded ones are placed there by the view source."""
    return scan.in_world() if isinstance(scan, FramePoints) else scan


def detections(scan: RadarScan | PointCloud) -> Dots:
    """Radar detections, coloured by radial velocity; size grows with the signal over noise."""
    share = 0.5 + 0.5 * scan.fields["radial_velocity"].astype(np.float64) / FASTEST_M_S
    return Dots(np.asarray(_in_world(scan).xyz, np.float64), _by_ramp("coolwarm", share), _sizes(scan))


def echoes(scan: EchoScan | PointCloud) -> Dots:
    """Echoes of a pulse-echo sensor; colour and size show the level over noise."""
    share = scan.fields["snr"].astype(np.float64) / LOUDEST_DB
    return Dots(np.asarray(_in_world(scan).xyz, np.float64), _by_ramp("viridis", share), _sizes(scan))


def _detected(name: str, scan: RadarScan) -> list[str]:
    ends = f"{-FASTEST_M_S:g} m/s blue, {FASTEST_M_S:g} m/s red"
    return [f"{line}; by radial velocity, {ends}" if len(scan) else line for line in _found(name, scan)]


def _echoed(name: str, scan: EchoScan) -> list[str]:
    if not len(scan):
        return _found(name, scan)
    words = scan.names.get("source", {})
    sounds = sorted({words[int(number)] for number in np.unique(scan.fields["source"]) if number})
    text = f", hears {', '.join(sounds)}" if sounds else ""
    return [f"{line}{text}; by level, noise violet, {LOUDEST_DB:g} dB over it yellow" for line in _found(name, scan)]


COLLISION_COLOUR = (255, 40, 40)
_MARK_M, _ARROW_M = 0.3, 1.0


def collision_marks(collisions: Sequence[Collision]) -> tuple[Dots, Segments]:
    """A red point at each collision, and a line of 1 m along its normal, toward the vehicle."""
    xyz, normal = (np.array([getattr(one, name) for one in collisions], np.float64) for name in ("xyz", "normal"))
    red = np.tile(np.array(COLLISION_COLOUR, np.uint8), (len(collisions), 1))
    ends = np.stack([xyz, xyz + _ARROW_M * normal], axis=1)
    return Dots(xyz, red, np.full(len(collisions), _MARK_M)), Segments(ends, np.stack([red, red], axis=1))


VIEWER: Consumer[ViewerLayer] = Consumer(
    "viewer",
    {
        Scan: ViewerLayer(True, lambda name, scan: []),
        FramePoints: ViewerLayer(False, _found),
        RadarScan: ViewerLayer(False, _detected, dots=detections),
        EchoScan: ViewerLayer(False, _echoed, dots=echoes),
        Samples: ViewerLayer(False, _reading),
        Image: ViewerLayer(False, _size, picture=image_colours),
        GnssData: ViewerLayer(False, _fix, segments=sights, drawing=sky_plot),
        UwbData: ViewerLayer(False, _heard, segments=_to_anchors),
    },
)
"""Display functions by record type."""
