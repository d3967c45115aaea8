"""State of the viewer without a browser: the request, the measured frame and its colours."""

from __future__ import annotations

import time as clock
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from threading import Condition
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.live.viewer.colours import Painted, Ramp, colour_choices, paint
from parhelion.live.viewer.stages import Request, ViewFrame, ViewSource

# ---- picking: the point of a click, and its fields ------------------------------------------------------------------


PICK_WITHIN_DEG = 2.0
"""Maximum angle between a click and a point, as seen from the camera."""
_SAME_SPOT_DEG = 0.05


def nearest_to_ray(
    xyz: NDArray[Any], origin: ArrayLike, direction: ArrayLike, within_deg: float = PICK_WITHIN_DEG
) -> int | None:
    """Row of the point nearest to a ray, or None.

    Nearest by the angle at the origin of the ray, as on the screen; of points within 0.05 degrees, the closest one.
    """
    along = np.asarray(direction, dtype=np.float64)
    length = float(np.linalg.norm(along))
    if len(xyz) == 0 or not length > 0:
        return None
    offset = np.asarray(xyz, dtype=np.float64) - np.asarray(origin, dtype=np.float64)
    depth = offset @ (along / length)
    aside = np.linalg.norm(offset - depth[:, None] * (along / length), axis=1)
    with np.errstate(invalid="ignore"):
        angle = np.where(depth > 1e-6, np.degrees(np.arctan2(aside, depth)), np.inf)
    best = float(np.nanmin(angle, initial=np.inf))
    if not best <= within_deg:
        return None
    rows = np.flatnonzero(angle <= best + _SAME_SPOT_DEG)
    return int(rows[np.argmin(depth[rows])])


def point_facts(cloud: PointCloud, row: int) -> list[tuple[str, str, str]]:
    """Name, value and unit of all fields of one point."""
    x, y, z = (float(v) for v in cloud.xyz[row])
    facts = [("point", str(row), ""), ("x, y, z", f"{x:.3f}, {y:.3f}, {z:.3f}", "m")]
    for name, values in cloud.fields.items():
        unit = FIELDS[name].unit if name in FIELDS else ""
        words = cloud.names.get(name, {})
        value = values[row]
        if np.ndim(value):
            text = ", ".join(_number(v) for v in value)
        elif words:
            text = f"{words[int(value)]} ({int(value)})" if int(value) in words else str(int(value))
        else:
            text = _number(value)
        facts.append((name, text, "" if unit == "1" else unit))
    return facts


def _number(value: Any) -> str:
    return str(int(value)) if np.issubdtype(np.asarray(value).dtype, np.integer) else f"{float(value):.6g}"


# ---- session --------------------------------------------------------------------------------------------------------


SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
_LONGEST_TICK_S = 0.5
_REQUEST_FIELDS = tuple(item.name for item in fields(Request))


@dataclass(frozen=True)
class Pick:
    """Picked point."""

    row: int
    xyz: tuple[float, float, float]
    """Position in screen coordinates [m]."""
    facts: tuple[tuple[str, str, str], ...]
    """Name, value and unit of all its fields."""

    @property
    def in_short(self) -> str:
        """Short label with name and distance."""
        known = {name: (value, unit) for name, value, unit in self.facts}
        words = [known["label"][0].partition(" (")[0]] if "label" in known else []
        words += [f"{known['range'][0]} m"] if "range" in known else []
        words += [f"intensity {known['intensity'][0]}"] if "intensity" in known else []
        return " · ".join(words) or f"{known['x, y, z'][0]} m"


@dataclass(frozen=True, eq=False)
class Shown:
    """Content shown by every viewer."""

    measured: ViewFrame
    painted: Painted
    by: str
    new_cloud: bool
    """True if points changed since the previous content, and not only their colours."""


class SharedLimits:
    """Ends of the colour ramps of two sessions: the same value has the same colour in both."""

    def __init__(self, *sessions: Session) -> None:
        self._sessions = sessions
        self._own: dict[tuple[int, str], tuple[float, float]] = {}

    def merged(self, session: Session, colour: str, own: tuple[float, float]) -> tuple[float, float]:
        """Common ends for a colour, from those of a session; the other session is painted again if they changed."""
        if self._own.get((id(session), colour)) != own:
            self._own[id(session), colour] = own
            for other in self._sessions:
                if other is not session:
                    other.repaint()
        all_ends = [self._own[key] for one in self._sessions if (key := (id(one), colour)) in self._own]
        return min(low for low, _ in all_ends), max(high for _, high in all_ends)


def share_limits(*sessions: Session) -> None:
    """Give the colour ramps of sessions common ends."""
    shared = SharedLimits(*sessions)
    for session in sessions:
        session.shared_limits = shared
        session.repaint()


class Session:
    """State shared by all viewers. Any thread may change it; one thread calls `update` and shows the result."""

    def __init__(self, stage: ViewSource, *, colour_by: str | None = None) -> None:
        self.stage = stage
        self._request = next(iter(stage.places.values()), Request())
        self._changed = Condition()
        self._done: Request | None = None
        self._measured: ViewFrame | None = None
        self._painted_by: str | None = None
        self._is_painted = True
        """False if the colours of the cloud are outdated."""
        self._limits: dict[tuple[str, str], tuple[float, float]] = {}
        self._frames: deque[float] = deque(maxlen=32)
        self._stopped = False
        self._steps = 0
        self.playing = False
        self.speed = 1.0
        self.follows = False
        """True if the clock of another session drives this one."""
        self.shared_limits: SharedLimits | None = None
        """Ends of the colour ramps in common with another session."""
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        """Functions that are called with the values of every change, with the lock held: they must not wait."""
        self.error = ""
        """Error of the last measurement, or an empty string."""
        self.colour_by = colour_by or "intensity"
        self._colour_is_wish = colour_by is None

    # ---- changing ----------------------------------------------------------------------------------------------

    def change(self, **values: Any) -> None:
        """Change fields of the request, `colour_by`, `speed` or `playing`.

        `amounts` maps names of media to their new amounts, and `daylight` its fields to their new values; others stay
        unchanged.
        """
        with self._changed:
            for listen in self.listeners:
                listen(dict(values))
            self._take(values)

    def _take(self, values: dict[str, Any]) -> None:
        with self._changed:
            asked = {name: values.pop(name) for name in list(values) if name in _REQUEST_FIELDS}
            for name, value in values.items():
                if name not in ("colour_by", "speed", "playing"):
                    raise ConfigError(f"viewer: unknown setting {name!r}")
                setattr(self, name, value)
            if asked.get("place", self._request.place) != self._request.place:
                first = self.stage.places[asked["place"]]
                asked = {
                    "model": first.model,
                    "mount_xyz": first.mount_xyz,
                    "mount_rpy_deg": first.mount_rpy_deg,
                    **asked,
                }
            for name in ("amounts", "daylight"):
                if name in asked:
                    asked[name] = tuple((dict(getattr(self._request, name)) | dict(asked[name])).items())
            if "time_s" in asked:
                asked["time_s"] = min(max(0.0, float(asked["time_s"])), self.stage.duration_s)
            self._request = replace(self._request, **asked)
            self._changed.notify_all()

    def toggle(self) -> None:
        """Play or pause; at the end, play from the beginning."""
        with self._changed:
            at_end = self._request.time_s >= self.stage.duration_s - 1e-9
        if not self.playing and at_end:
            self.change(time_s=0.0)
        self.change(playing=not self.playing and self.stage.duration_s > 0)

    def step(self, scans: int = 1) -> None:
        """Pause and move by whole scans."""
        with self._changed:
            self._steps += scans
            self.change(playing=False)

    def tick(self, seconds: float) -> None:
        """Advance the clock by wall time while playing; it stops at the end."""
        if not self.playing or self.follows:
            return
        # After a long measurement the clock continues from the displayed time and does not jump.
        time_s = self.request.time_s + min(seconds, _LONGEST_TICK_S) * self.speed
        self.change(time_s=time_s, playing=time_s < self.stage.duration_s)

    def renew(self, stage: ViewSource) -> None:
        """Show another version of the source, with the mounts that it defines; time and weather remain."""
        with self._changed:
            self.stage = stage
            first = stage.places.get(self._request.place) or next(iter(stage.places.values()))
            self._request = replace(
                self._request,
                place=first.place,
                mount_xyz=first.mount_xyz,
                mount_rpy_deg=first.mount_rpy_deg,
                model=self._request.model if first.place == self._request.place else first.model,
            )
            self._done = None
            self._changed.notify_all()

    def repaint(self) -> None:
        """Colour the cloud again."""
        self._is_painted = False
        with self._changed:
            self._changed.notify_all()

    def take_over(self, values: dict[str, Any]) -> None:
        """Change settings to those of another session, unless they are the same already."""
        with self._changed:
            now: dict[str, Any] = {"time_s": self._request.time_s, "playing": self.playing, "speed": self.speed}
            now["colour_by"] = self.colour_by
            wanted = dict(values)
            if "time_s" in wanted:
                wanted["time_s"] = min(max(0.0, float(wanted["time_s"])), self.stage.duration_s)
            if "colour_by" in wanted and wanted["colour_by"] not in self.choices:
                del wanted["colour_by"]
            if any(now[name] != value for name, value in wanted.items()):
                self._take(wanted)

    def stop(self) -> None:
        """Make `wait` return immediately from now on."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # ---- queries -----------------------------------------------------------------------------------------------

    @property
    def request(self) -> Request:
        """Current request."""
        with self._changed:
            return self._request

    @property
    def measured(self) -> ViewFrame | None:
        """Last measured frame."""
        return self._measured

    @property
    def choices(self) -> list[str]:
        """Fields by which the current cloud can be coloured."""
        return colour_choices(self._measured.cloud) if self._measured is not None else []

    @property
    def rate_hz(self) -> float:
        """Displayed clouds per second over the last two seconds."""
        now = clock.monotonic()
        recent = [moment for moment in self._frames if now - moment < 2.0]
        return (len(recent) - 1) / (recent[-1] - recent[0]) if len(recent) > 1 and recent[-1] > recent[0] else 0.0

    def _wanted(self) -> Request:
        request = self.request
        try:
            return replace(request, time_s=self.stage.scan_start(request))
        except ParhelionError:  # reported when it is measured
            return request

    def _take_steps(self) -> None:
        with self._changed:
            scans, self._steps = self._steps, 0
            if scans:
                wanted = self._wanted()
                self.change(time_s=wanted.time_s + scans * self.stage.period_s(wanted))

    @property
    def is_due(self) -> bool:
        """True if the request is not shown yet."""
        outdated = not self._is_painted or self.colour_by != self._painted_by
        return self._steps != 0 or self._wanted() != self._done or outdated

    def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        with self._changed:
            if not self._stopped and not self.is_due:
                self._changed.wait(seconds)

    # ---- working -----------------------------------------------------------------------------------------------

    def update(self) -> Shown | None:
        """Measure and colour the request. Return None if nothing changed or on failure, see `error`."""
        self._take_steps()
        wanted = self._wanted()
        new_cloud = wanted != self._done
        if not new_cloud and self.colour_by == self._painted_by and self._is_painted:
            return None
        self._is_painted = True
        if new_cloud:
            self._done = wanted  # also on failure, so that it is not repeated endlessly
            try:
                self._measured = self.stage.measure(wanted)
                self.error = ""
            except ParhelionError as error:
                self.error = str(error)
                return None
            self._frames.append(clock.monotonic())
        measured = self._measured
        if measured is None:
            return None
        asked = self.colour_by  # read once: a page may change it in the meantime
        colour, choices = asked, colour_choices(measured.cloud)
        if self._colour_is_wish and colour not in choices:
            colour = "height"
        try:
            painted = self._paint(measured, wanted.model, colour)
        except ParhelionError:
            if self._painted_by is None:
                raise
            # The cloud lacks this field: the lidar changed, or a page requested a field that was not offered.
            colour = self._painted_by if self._painted_by in choices else "height"
            painted = self._paint(measured, wanted.model, colour)
        with self._changed:
            self._painted_by, self._colour_is_wish = colour, False
            if self.colour_by == asked:
                self.colour_by = colour
        return Shown(measured, painted, colour, new_cloud)

    def _paint(self, measured: ViewFrame, model: str, colour: str) -> Painted:
        # The limits are fixed while playing, so that a value has the same colour in all scans.
        key = (model, colour)
        painted = paint(measured.cloud, colour, self._limits.get(key) if self.playing else None)
        if self.shared_limits is not None and isinstance(painted.legend, Ramp):
            both = self.shared_limits.merged(self, colour, (painted.legend.low, painted.legend.high))
            painted = paint(measured.cloud, colour, both)
        if isinstance(painted.legend, Ramp):
            self._limits[key] = (painted.legend.low, painted.legend.high)
        return painted

    def pick(self, origin: ArrayLike, direction: ArrayLike, *, below_m: float | None = None) -> Pick | None:
        """Pick the point nearest to a ray in screen coordinates; points at `below_m` or higher are hidden."""
        measured = self._measured
        if measured is None:
            return None
        local = measured.cloud.xyz - measured.offset
        if below_m is not None:
            local = np.where((measured.cloud.xyz[:, 2] < below_m)[:, None], local, np.nan)
        row = nearest_to_ray(local, origin, direction)
        if row is None:
            return None
        x, y, z = (float(v) for v in local[row])
        return Pick(row, (x, y, z), tuple(point_facts(measured.cloud, row)))
