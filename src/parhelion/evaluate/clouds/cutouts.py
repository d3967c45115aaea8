"""Objects cut out of clouds by boxes and aligned: real against simulated by class and distance (Huang 2023, Table III).

The frame of a box is that of the object, so objects from different places are compared where their boxes coincide. Each
real object is compared with the simulated object of its class that is seen most alike: at the nearest distance and from
the nearest side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.evaluate.clouds import distances
from parhelion.evaluate.clouds.objects import DISTANCE_CLASSES_M, FEWEST_POINTS, upright_box
from parhelion.evaluate.detections.kitti import read_boxes
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.pictures.html import shown

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.lidar import Lidar
    from parhelion.world.world import World

Axes = Literal["camera", "lidar"]

MARGIN_M = 0.1
"""Distance outside of a box within which points belong to it [m]; labels of real sets are not exact."""
GROUND_M = 0.15
"""Height above the lower face of a box below which points count as ground [m]."""
ALIKE_M, ALIKE_DEG = 10.0, 30.0
"""Differences of distance and of the side seen that count as equally unlike."""
LEAST_ALIKE = 2.0
"""Largest sum of both, in these units, of objects that are compared."""
COLUMNS = ("class", "distance", "real", "simulated", "pairs", "points", "size [m³]", "Chamfer [m]", "EMD [m]")


@dataclass(frozen=True, eq=False)
class Boxes:
    """Upright boxes in the sensor's frame, one row per box."""

    kind: tuple[str, ...]
    centre: Floats
    """Shape (n, 3) [m]."""
    size: Floats
    """Length, width and height [m], shape (n, 3)."""
    yaw: Floats
    """Rotation about the z axis [rad], shape (n,)."""


@dataclass(frozen=True, eq=False)
class CutOut:
    """Points of one object in the frame of its box."""

    kind: str
    distance_m: float
    """Horizontal distance from the sensor to the centre of the box."""
    side_deg: float
    """Direction of the sensor in the frame of the box, 0 in front, -180 to 180."""
    points: Floats
    """Shape (n, 3) [m], origin at the centre of the box."""
    box_m3: float

    @property
    def volume_m3(self) -> float:
        """Volume of the smallest upright box around the points."""
        return float(np.prod(upright_box(self.points)))

    @property
    def truncation_percent(self) -> float:
        """Share of the labelled box that the points do not span."""
        return 100.0 * max(0.0, 1.0 - self.volume_m3 / self.box_m3)


def boxes_of(path: Path, axes: Axes = "lidar") -> Boxes:
    """Boxes of a KITTI label file, in lidar axes, as runs write them, or in camera axes at the position of the lidar.

    KITTI's own labels lie in the frame of its camera: move them into that of the lidar by the calibration first.
    """
    rows = read_boxes(path, detections=False)
    if axes == "camera":
        foot = np.stack([rows.foot[:, 2], -rows.foot[:, 0], -rows.foot[:, 1]], axis=1)
        yaw = -rows.turn - 0.5 * np.pi
    else:
        foot, yaw = rows.foot, rows.turn
    kept = np.array([word != "DontCare" for word in rows.kind], bool)
    middle = foot + np.array([0.0, 0.0, 0.5]) * rows.size[:, 2:]
    if np.any(rows.size[kept] <= 0.0):
        raise FormatError(f"{path}: sizes of boxes must be above 0")
    kinds = tuple(word for word, wanted in zip(rows.kind, kept, strict=True) if wanted)
    return Boxes(kinds, middle[kept], rows.size[kept], yaw[kept])


def cut_out(cloud: PointCloud, boxes: Boxes, fewest: int = FEWEST_POINTS) -> list[CutOut]:
    """Objects of a cloud in the sensor's frame with at least `fewest` points above the ground."""
    xyz = distances.points_of(distances.returns_of(cloud))
    found = []
    for kind, centre, size, yaw in zip(boxes.kind, boxes.centre, boxes.size, boxes.yaw, strict=True):
        cosine, sine = np.cos(yaw), np.sin(yaw)
        turned = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        reach = 0.5 * float(np.linalg.norm(size)) + 2.0 * MARGIN_M
        near = xyz[(np.abs(xyz - centre) < reach).all(axis=1)]
        local = (near - centre) @ turned.T
        inside = (np.abs(local) <= 0.5 * size + MARGIN_M).all(axis=1) & (local[:, 2] > GROUND_M - 0.5 * size[2])
        if inside.sum() >= fewest:
            to_sensor = turned @ -centre
            side = float(np.degrees(np.arctan2(to_sensor[1], to_sensor[0])))
            away = float(np.hypot(*centre[:2]))
            found.append(CutOut(kind, away, side, local[inside], float(np.prod(size))))
    return found


def nearest_alike(one: CutOut, others: Sequence[CutOut]) -> CutOut | None:
    """Object of the same class seen from the most similar distance and side; None if none is similar enough."""
    best, least = None, LEAST_ALIKE
    for other in others:
        if other.kind == one.kind:
            turn = abs((one.side_deg - other.side_deg + 180.0) % 360.0 - 180.0)
            cost = abs(one.distance_m - other.distance_m) / ALIKE_M + turn / ALIKE_DEG
            if cost <= least:
                best, least = other, cost
    return best


def compare_objects(
    real: Sequence[CutOut],
    simulated: Sequence[CutOut],
    edges_m: Sequence[float] = DISTANCE_CLASSES_M,
    *,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Table by class and distance of the real objects, as in the JSON file."""
    if not real or not simulated:
        raise ConfigError(f"objects: the {'real' if not real else 'simulated'} clouds have no points in any box")
    rows = []
    for kind in sorted({one.kind for one in real}):
        for low, high in pairwise(edges_m):
            own, other = (
                [one for one in side if one.kind == kind and low <= one.distance_m < high] for side in (real, simulated)
            )
            if not own:
                continue
            pairs = [(one, twin) for one in own if (twin := nearest_alike(one, simulated)) is not None]
            moved = [distances.earth_mover(a.points, b.points) for a, b in pairs]
            rows.append(
                {
                    "class": kind,
                    "from_m": low,
                    "to_m": high,
                    "pairs": len(pairs),
                    "real": _means(own),
                    "simulated": _means(other),
                    "chamfer_m": _mean([distances.chamfer(a.points, b.points) for a, b in pairs]),
                    "emd_m": _mean([one.mean_m for one in moved]),
                    "emd_exact": all(one.exact for one in moved),
                }
            )
            advance()
    return {"objects_real": len(real), "objects_simulated": len(simulated), "rows": rows}


def _means(objects: Sequence[CutOut]) -> dict[str, Any]:
    return {
        "objects": len(objects),
        "points": _mean([len(one.points) for one in objects]),
        "volume_m3": _mean([one.volume_m3 for one in objects]),
        "truncation_percent": _mean([one.truncation_percent for one in objects]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def objects_of(source: Path, labels: Path | None, axes: Axes) -> list[CutOut]:
    """Objects of a cloud file and its label file, or of a folder and a folder of labels with the same names."""
    from parhelion.io.recordings import cloud_files, clouds_of, existing, is_capture

    place = existing(source)
    files = [one for one in cloud_files(place) if not is_capture(one)] if place.is_dir() else [place]
    beside = _labels_beside(place) if labels is None else existing(labels)
    found, read = [], 0
    for file in files:
        label = beside if beside.is_file() else beside / f"{file.stem}.txt"
        if label.is_file():
            read += 1
            for _, cloud in clouds_of(file):
                found += cut_out(cloud, boxes_of(label, axes))
    if not read:
        raise FormatError(f"{beside}: has no KITTI label file with the name of a cloud, such as {files[0].stem}.txt")
    return found


def _labels_beside(place: Path) -> Path:
    """Folder of the labels of a cloud or of a folder of clouds: NAME-boxes, as runs write it, or the same folder."""
    folder = place if place.is_dir() else place.parent
    boxes = folder.with_name(f"{folder.name}-boxes")
    return boxes if boxes.is_dir() else folder


# ---- report ----------------------------------------------------------------------------------------------------------


def table_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Rows of the table, real and simulated values beside each other."""

    def both(row: dict[str, Any], name: str, form: str) -> str:
        return " / ".join(shown(row[who][name], form) for who in ("real", "simulated"))

    return [
        (
            row["class"],
            f"{row['from_m']:g}–{row['to_m']:g} m",
            str(row["real"]["objects"]),
            str(row["simulated"]["objects"]),
            str(row["pairs"]),
            both(row, "points", ".0f"),
            both(row, "volume_m3", ".3g"),
            shown(row["chamfer_m"], ".3g"),
            shown(row["emd_m"], ".3g") + ("" if row["emd_exact"] else " (sliced)"),
        )
        for row in result["rows"]
    ]


def page_of(result: dict[str, Any], real: str, simulated: str, command: str = "") -> str:
    """Report as HTML; `command` is the command line that created it."""
    note = html.paragraph(
        "Points and sizes: real / simulated means. Chamfer and earth mover's distance are means over pairs, in the "
        "frame of the box: each real object with the simulated one of its class at the nearest distance and side."
    )
    charts = []
    for name, unit in (("chamfer_m", "Chamfer distance [m]"), ("emd_m", "earth mover's distance [m]")):
        curves = []
        for k, kind in enumerate(sorted({row["class"] for row in result["rows"]})):
            own = [row for row in result["rows"] if row["class"] == kind and row[name] is not None]
            middle = [0.5 * (row["from_m"] + row["to_m"]) for row in own]
            curves.append(Curve.of(kind, middle, [row[name] for row in own], k, "joined"))
        charts.append(Chart(curves, unit, "distance [m]", zero=True).figure(unit.split(" [")[0].capitalize()))
    table = html.table(COLUMNS, table_rows(result), kinds="--nnnnnnn")
    return html.page(
        "Objects compared",
        html.section("table", "By class and distance", table, note),
        html.section("distances", "Distances", html.pair(*charts)),
        lead=(f"Real: {real}", f"Simulated: {simulated}"),
        facts=[("real objects", result["objects_real"]), ("simulated objects", result["objects_simulated"])],
        command=command,
    )


# ---- simpler lidar models to compare with (Huang 2023, Table IV) -----------------------------------------------------


def geometric(world: World, lidar: Lidar, pose: Pose, time: float = 0.0) -> PointCloud:
    """Cloud of a stationary lidar [sensor frame] without noise, reflectance, threshold or weather.

    Every shot returns its nearest surface within the largest range of the data sheet, as Carla's ray casts do.
    """
    shots = lidar.shots(time)
    origin = quat_rotate(pose.quat_xyzw, shots.origin.astype(np.float64)) + pose.xyz
    direction = quat_rotate(pose.quat_xyzw, shots.direction.astype(np.float64))
    hits = world.cast(origin, direction, time, lidar.config.range.max_m)
    metres = np.asarray(hits.range, np.float64)
    found = np.isfinite(metres) & (metres >= lidar.config.range.min_m) & (metres <= lidar.config.range.max_m)
    own = shots.origin[found] + shots.direction[found] * metres[found, None]
    ranges = metres[found].astype(np.float32)
    return PointCloud(own, {"range": ranges, "ring": shots.ring[found], "column": shots.column[found]})


def random_drop(cloud: PointCloud, share: float, seed: int = 0) -> PointCloud:
    """Cloud without a random share of its points, 0 to 1, regardless of surface and range (LGSVL's noise setting)."""
    if not 0.0 <= share < 1.0:
        raise ConfigError(f"random drop: the share must lie from 0 to below 1, got {share:g}")
    return cloud.select(np.random.default_rng(seed).random(len(cloud)) >= share)
