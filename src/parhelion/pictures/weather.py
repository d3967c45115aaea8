"""Effect of weather on a cloud: weakened, displaced, lost and new points, as numbers and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan, origin_names
from parhelion.core.errors import ConfigError
from parhelion.pictures import panels
from parhelion.pictures.html import count
from parhelion.pictures.style import INK, check_picture, legend, quiet, save, sheet
from parhelion.weather import media

MOVED_M = 0.05
"""Distance from its clear-air position beyond which a point counts as displaced."""
UNTOLD = "unknown"
"""Origin of new points in clouds without the field `origin`."""

KEPT, MOVED, LOST = "#596372", "#f2d64b", "#ff4646"
_OTHER_COLOURS = {"surface": "#3ddc84", "multipath": "#ff7ab6", "noise": "#45d6c8", UNTOLD: "#45d6c8"}
_SIGNAL_COLOURS, _SIGNAL_LINE = "viridis", "#35b779"

_UNTOLD_NUMBER = 256
"""Number of an unknown origin; origins have 8 bits."""
_WIDTH_IN, _HEIGHT_IN = 15.0, 12.2
_MOST_RETURNS = 16  # more points per shot indicate a cloud of several scans
_SAME_RAY_RAD, _SAME_PLACE_M = 0.001, 0.5
_FARTHEST_MOVE_M = 3.0
_RANGE_BINS = 36


@dataclass(frozen=True, eq=False)
class Changes:
    """Points of a cloud in clear air and in weather, matched. Rows are those of the two clouds."""

    kept_before: NDArray[np.intp]
    """Rows of the remaining points in clear air."""
    kept_after: NDArray[np.intp]
    """Rows of the same points in weather."""
    lost: NDArray[np.intp]
    """Rows of the lost points in clear air."""
    new: NDArray[np.intp]
    """Rows of the new points in weather."""
    new_origin: NDArray[np.str_]
    """Origin of each new point: a name of `origin_names`, or 'unknown'."""
    moved_m: NDArray[np.float64]
    """Distance of each remaining point from its clear-air position [m]."""
    signal: str | None
    """Field with the signal strength in both clouds: 'power' or 'intensity'; None if neither exists."""
    signal_left: NDArray[np.float64] | None
    """Ratio of that field to its clear-air value, per remaining point."""
    outshone: int | None
    """Number of lost points replaced by an echo of the air; None if the clouds do not identify shots."""

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Mask of the remaining points displaced by more than `MOVED_M`."""
        return self.moved_m > MOVED_M

    @property
    def invented(self) -> dict[str, int]:
        """Number of new points of each origin, in the order of `origin_names`."""
        words = (*origin_names().values(), UNTOLD)
        counts = {word: int(np.count_nonzero(self.new_origin == word)) for word in words}
        return {word: count for word, count in counts.items() if count}


def weather_changes(before: PointCloud, after: PointCloud) -> Changes:
    """Match the points of `before` and `after`, and find lost and new points.

    Clouds with the field `shot` are matched shot by shot: surface points with surface points, the nearest of several
    returns first. Other clouds are matched by mutual nearest neighbours in direction and range (in the world frame, in
    position). Rows without coordinates, or at the sensor itself, are not points.
    """
    for cloud in (before, after):
        if not isinstance(cloud, PointCloud):
            raise ConfigError(f"weather_changes: expected two point clouds, got {type(cloud).__name__}")
    here_before, here_after = _points(before), _points(after)
    first, second = before.select(here_before), after.select(here_after)
    by_shot = _name_shots(first, second)
    old, new = _matched_by_shot(first, second) if by_shot else _matched_by_place(first, second)
    gone, fresh = np.ones(len(first), np.bool_), np.ones(len(second), np.bool_)
    gone[old], fresh[new] = False, False
    step = second.xyz[new].astype(np.float64) - first.xyz[old].astype(np.float64)
    signal = next((name for name in ("power", "intensity") if name in before.fields and name in after.fields), None)
    left = None
    if signal is not None:
        clear = first.fields[signal][old].astype(np.float64)
        left = second.fields[signal][new] / np.where(clear > 0.0, clear, np.nan)
    outshone = None
    if by_shot:
        echoes = second.fields["shot"][fresh & (_kind(second) > 0)]
        outshone = int(np.isin(first.fields["shot"][gone], echoes).sum())
    return Changes(
        here_before[old],
        here_after[new],
        here_before[gone],
        here_after[fresh],
        _words(_origin(second)[fresh]),
        np.linalg.norm(step, axis=1),
        signal,
        left,
        outshone,
    )


def _points(cloud: PointCloud) -> NDArray[np.intp]:
    """Rows that are points: recordings store shots without a return as NaN or zeros."""
    return np.flatnonzero(np.all(np.isfinite(cloud.xyz), axis=1) & np.any(cloud.xyz != 0.0, axis=1))


def _origin(cloud: PointCloud) -> NDArray[np.intp]:
    """Number of each point's origin, `_UNTOLD_NUMBER` if it is not known."""
    origin = cloud.fields.get("origin", np.full(len(cloud), _UNTOLD_NUMBER)).astype(np.intp)
    return np.where(np.isin(origin, list(origin_names())), origin, _UNTOLD_NUMBER)


def _words(origin: NDArray[np.intp]) -> NDArray[np.str_]:
    """Names of origin numbers."""
    names = {**origin_names(), _UNTOLD_NUMBER: UNTOLD}
    table = np.array([names.get(number, UNTOLD) for number in range(_UNTOLD_NUMBER + 1)])
    return np.asarray(table[origin])


def origin_colours() -> dict[str, str]:
    """Colours of new points by origin."""
    return {**media.colours(), **_OTHER_COLOURS}


def _kind(cloud: PointCloud) -> NDArray[np.intp]:
    """Origin of echoes of the air, 0 for all others: only points of the same kind can match."""
    return np.where(np.isin(_origin(cloud), media.codes()), _origin(cloud), 0)


def _name_shots(first: PointCloud, second: PointCloud) -> bool:
    """Return True if both clouds identify the shot of each point and hold one scan."""
    if not ("shot" in first.fields and "shot" in second.fields):
        return False
    most = [int(np.unique(cloud.fields["shot"], return_counts=True)[1].max(initial=0)) for cloud in (first, second)]
    return max(most) <= _MOST_RETURNS


def _matched_by_shot(first: PointCloud, second: PointCloud) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of matching points in both clouds, in the order of the first."""
    # Encode shot and kind in one number, so that one sorted search finds all candidates.
    key, other = (cloud.fields["shot"].astype(np.int64) * _UNTOLD_NUMBER + _kind(cloud) for cloud in (first, second))
    order = np.argsort(other, kind="stable")
    start, end = (np.searchsorted(other[order], key, side) for side in ("left", "right"))
    count = end - start
    old = np.repeat(np.arange(len(first)), count)
    within = np.arange(len(old)) - np.repeat(np.cumsum(count) - count, count)
    new = order[np.repeat(start, count) + within]
    gap = np.abs(_range(first)[old] - _range(second)[new])
    both = _nearest_of_each(old, gap) & _nearest_of_each(new, gap)
    return old[both], new[both]


def _nearest_of_each(row: NDArray[np.intp], gap: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask of the candidate pairs with the smallest gap of their row."""
    order = np.lexsort((gap, row))
    nearest = np.zeros(len(row), np.bool_)
    nearest[order[np.unique(row[order], return_index=True)[1]]] = True
    return nearest


def _matched_by_place(first: PointCloud, second: PointCloud) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of matching points in both clouds, in the order of the first."""
    kinds = _kind(first), _kind(second)
    pairs = [
        _neighbours(first, second, *(np.flatnonzero(kind == number) for kind in kinds))
        for number in (0, *media.codes())
    ]
    old, new = (np.concatenate(rows) for rows in zip(*pairs, strict=True))
    order = np.argsort(old)
    return old[order], new[order]


def _neighbours(
    first: PointCloud, second: PointCloud, old: NDArray[np.intp], new: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Mutual nearest neighbours among the given rows of each cloud."""
    from scipy.spatial import cKDTree

    if len(old) == 0 or len(new) == 0:
        return old[:0], new[:0]
    places = [_comparable(cloud, rows) for cloud, rows in ((first, old), (second, new))]
    there = cKDTree(places[1]).query(places[0], distance_upper_bound=1.0)[1]
    back = cKDTree(places[0]).query(places[1], distance_upper_bound=1.0)[1]
    found = np.flatnonzero(there < len(new))
    found = found[back[there[found]] == found]
    return old[found], new[there[found]]


def _comparable(cloud: PointCloud, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Coordinates in which points closer than 1 may match: weather moves points along their ray."""
    xyz = cloud.xyz[rows].astype(np.float64)
    if cloud.frame == "world":  # the origin of the rays is unknown
        return xyz / _SAME_PLACE_M
    distance = np.linalg.norm(xyz, axis=1, keepdims=True)
    return np.hstack([xyz / distance / _SAME_RAY_RAD, distance / _FARTHEST_MOVE_M])


def _range(cloud: PointCloud) -> NDArray[np.float64]:
    if cloud.frame == "world" and "range" in cloud.fields:
        return cloud.fields["range"].astype(np.float64)
    return np.asarray(np.linalg.norm(cloud.xyz.astype(np.float64), axis=1))


# ---- the picture ---------------------------------------------------------------------------------------------------


def draw_weather(before: PointCloud, after: PointCloud, path: str | PathLike[str], title: str | None = None) -> Changes:
    """Write the picture of `weather_picture` and return its numbers."""
    check_picture(path)
    changes = weather_changes(before, after)
    save(_picture(before, after, changes, title), path)
    return changes


def weather_picture(before: PointCloud, after: PointCloud, title: str | None = None) -> Any:
    """Matplotlib figure of the effect of weather: `before` in clear air, `after` in weather, matched point by point.

    Top views show remaining, displaced, lost (at their clear-air position) and new points (by origin), the remaining
    signal, and the surroundings of the sensor. Charts over range show counts and remaining shares.
    """
    return _picture(before, after, weather_changes(before, after), title)


def _picture(before: PointCloud, after: PointCloud, changes: Changes, title: str | None) -> Any:
    view = _View(before, after, changes)
    figure = sheet(_WIDTH_IN, _HEIGHT_IN)
    panels.heading(figure, title or "Clear air and weather", _facts(changes))
    maps = figure.add_gridspec(1, 2, left=0.045, right=0.985, top=0.905, bottom=0.42, wspace=0.11)
    below = figure.add_gridspec(
        1, 3, left=0.045, right=0.985, top=0.35, bottom=0.055, wspace=0.18, width_ratios=(1.0, 1.25, 1.25)
    )
    _fate_panel(figure.add_subplot(maps[0, 0]), view)
    _signal_panel(figure.add_subplot(maps[0, 1]), view)
    _near_panel(figure.add_subplot(below[0, 0]), view)
    _range_panel(figure.add_subplot(below[0, 1]), view)
    _share_panel(figure.add_subplot(below[0, 2]), view)
    return figure


class _View:
    """Both clouds in one frame, with the matches."""

    def __init__(self, before: PointCloud, after: PointCloud, changes: Changes) -> None:
        self.changes = changes
        old, new = (_still(cloud) for cloud in (before, after))
        self.kept, self.lost, self.new = new[changes.kept_after], old[changes.lost], new[changes.new]
        self.range_before = _range(before)[np.concatenate([changes.kept_before, changes.lost])]
        self.range_kept, self.range_new = _range(after)[changes.kept_after], _range(after)[changes.new]
        self.xyz = np.concatenate([self.kept, self.lost, self.new])
        self.world = after.frame == "world"

    def colours(self) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Points with colours (n, 3); heights place new points above displaced ones, and these above all others."""
        from matplotlib.colors import to_rgb

        moved = self.changes.moved
        colour = np.empty((len(self.xyz), 3))
        stay, gone, new = np.split(colour, np.cumsum([len(self.kept), len(self.lost)]))
        stay[:], stay[moved], gone[:] = to_rgb(KEPT), to_rgb(MOVED), to_rgb(LOST)
        for word in self.changes.invented:
            new[self.changes.new_origin == word] = to_rgb(origin_colours()[word])
        layer = np.concatenate([moved * 1.0, np.zeros(len(self.lost)), np.full(len(self.new), 2.0)])
        lifted = self.xyz.copy()
        lifted[:, 2] += 1e6 * layer
        return lifted, colour

    def reach(self) -> tuple[NDArray[np.float64], float, float]:
        """Centre and half sides [m] of a rectangle around the sensor and nearly all points."""
        middle, half = panels.reach(self.xyz, 1.0, sensor=not self.world)
        return middle, float(half[0]), float(half[1])


def _still(cloud: PointCloud) -> NDArray[np.float64]:
    """Coordinates with the motion during the scan removed, if it is known."""
    still = cloud.deskewed() if isinstance(cloud, Scan) and cloud.frame == "sensor" else cloud
    return np.asarray(still.xyz, np.float64)


def _facts(changes: Changes) -> str:
    kept, lost = len(changes.kept_before), len(changes.lost)
    gone = f"{count(lost)} lost ({100 * lost / max(kept + lost, 1):.1f} %)"
    if changes.outshone:
        gone += f", {count(changes.outshone)} of them replaced by an echo of the air"
    facts = [f"{count(kept + lost)} points in clear air", f"{count(kept)} stay", gone]
    facts += [f"{count(number)} from {word}" for word, number in changes.invented.items() if word in media.names()]
    facts.append(f"{count(int(changes.moved.sum()))} displaced by more than {100 * MOVED_M:.0f} cm")
    return "   |   ".join(facts)


def _fate_panel(axes: Any, view: _View) -> None:
    extent = panels.fitted_extent(axes, *view.reach())
    quiet(axes, "Effect on each point, top view")
    panels.map_panel(axes, *view.colours(), extent)
    stay, moved, lost = len(view.kept), int(view.changes.moved.sum()), len(view.lost)
    entries = [("stay", stay - moved, KEPT), ("displaced", moved, MOVED), ("lost", lost, LOST)]
    for word, number in view.changes.invented.items():
        name = f"new, from {word}" if word in media.names() else f"new, {word}"
        entries.append((name, number, origin_colours()[word]))
    legend(axes, [(f"{word}  {count(number)}", colour) for word, number, colour in entries], loc="upper right")
    _mark(axes, view, extent)


def _mark(axes: Any, view: _View, extent: panels.Extent) -> None:
    if not view.world:
        panels.sensor_mark(axes, 0.0, 0.0, 0.0, 0.09 * (extent[1] - extent[0]) / 2)


def _signal_panel(axes: Any, view: _View) -> None:
    extent = panels.fitted_extent(axes, *view.reach())
    left = view.changes.signal_left
    if left is None:
        quiet(axes, "Displacement of the remaining points")
        values, unit = 100.0 * view.changes.moved_m, "moved [cm]"
    else:
        quiet(axes, f"Remaining signal, by {view.changes.signal}")
        values, unit = 100.0 * left, "remaining signal [% of clear air]"
    known = np.isfinite(values)
    panels.scalar_map_panel(axes, view.kept[known], values[known], extent, _SIGNAL_COLOURS, unit)
    _mark(axes, view, extent)


def _near_panel(axes: Any, view: _View) -> None:
    """Surroundings of the sensor up to the farthest new points."""
    quiet(axes, "Around the sensor" if not view.world else "The new points")
    widest = max(view.reach()[1:])
    centre, half = np.zeros(2), min(10.0, widest)
    if len(view.new):
        centre = np.median(view.new[:, :2], axis=0) if view.world else centre
        off = np.abs(view.new[:, :2] - centre).max(axis=1)
        half = float(np.clip(1.15 * np.percentile(off, 98.0), 1.5, widest))
    extent = panels.fitted_extent(axes, centre, half, half)
    lifted, colour = view.colours()
    inside = np.all(np.abs(view.xyz[:, :2] - centre) < 2.0 * half, axis=1)
    panels.map_panel(axes, lifted[inside], colour[inside], extent)
    _mark(axes, view, extent)


def _bins(view: _View) -> NDArray[np.float64]:
    distances = np.concatenate([view.range_before, view.range_kept, view.range_new])
    low, high = (distances.min(), distances.max()) if len(distances) else (1.0, 100.0)
    return np.geomspace(max(0.95 * low, 0.1), max(1.05 * high, 1.0), _RANGE_BINS + 1)


def _range_panel(axes: Any, view: _View) -> None:
    """Numbers of points over range: in clear air as a line, in weather by origin."""
    edges = _bins(view)
    found = view.changes.invented
    axes.hist(view.range_kept, bins=edges, histtype="stepfilled", color=KEPT, linewidth=0)
    for word in found:
        distance = view.range_new[view.changes.new_origin == word]
        axes.hist(distance, bins=edges, histtype="stepfilled", color=origin_colours()[word], linewidth=0, alpha=0.75)
    axes.hist(view.range_before, bins=edges, histtype="step", color=INK, linewidth=1.1)
    quiet(axes, "Points over range")
    _range_axis(axes, edges)
    axes.set_yscale("symlog", linthresh=10.0)
    axes.set_ylim(0.0, 8.0 * max(axes.get_ylim()[1], 10.0))  # space for the labels
    axes.set_ylabel("points per bin")
    words = [("in clear air", INK), ("stay", KEPT), *((word, origin_colours()[word]) for word in found)]
    legend(axes, words, loc="upper right", ncols=3)


def _share_panel(axes: Any, view: _View) -> None:
    edges = _bins(view)
    stay = len(view.changes.kept_before)
    total = np.histogram(view.range_before, edges)[0]
    kept = np.histogram(view.range_before[:stay], edges)[0]
    enough = total >= 10
    middle = np.sqrt(edges[1:] * edges[:-1])
    axes.plot(middle[enough], 100.0 * kept[enough] / total[enough], color=INK, linewidth=1.6)
    left = view.changes.signal_left
    if left is not None:
        place = np.digitize(view.range_before[:stay], edges) - 1
        medians = [_median(left[place == number]) for number in range(_RANGE_BINS)]
        axes.plot(middle, 100.0 * np.array(medians), color=_SIGNAL_LINE, linewidth=1.6)
    quiet(axes, "Remaining share over range")
    _range_axis(axes, edges)
    axes.set_ylim(0.0, 105.0)
    axes.set_ylabel("% of clear air")
    words = [("remaining points", INK), ("their signal, median", _SIGNAL_LINE)]
    legend(axes, words[: 1 if left is None else 2], loc="lower left")


def _median(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) >= 10 else np.nan


def _range_axis(axes: Any, edges: NDArray[np.float64]) -> None:
    axes.set_xscale("log")
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if edges[0] <= tick <= edges[-1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set(xlim=(edges[0], edges[-1]), xlabel="range [m]")
    axes.grid(color="#2b323c", linewidth=0.6)
    axes.set_axisbelow(True)
