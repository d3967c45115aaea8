"""Viewer of a stream: its scans at the times of the stream, and sliders that change its weather and daylight."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError
from parhelion.core.trajectory import pose_at
from parhelion.live.ros import DAYLIGHT, DAYLIGHT_FIELDS, WEATHER, AirControl
from parhelion.live.viewer.server import LOOPBACK, PORT, Viewer
from parhelion.live.viewer.stages import Request, ViewFrame, measured, plain_bodies
from parhelion.scenario.scenario import Scenario
from parhelion.weather import media
from parhelion.weather.ground import AMOUNTS as GROUND
from parhelion.world.world import World

_JOIN_S = 5.0


class StreamStage:
    """Latest scans of a stream. Changes of amounts and daylight in a request are passed to the stream."""

    cameras: tuple[str, ...] = ()
    lidars: tuple[str, ...] = ()

    def __init__(self, scenario: Scenario, air: AirControl) -> None:
        scanners = scenario.giving(Scan)
        if not scanners:
            raise ConfigError(f"{scenario.source}: has no lidar, so there is no cloud to show")
        self.title = scenario.settings.name or "stream"
        self.world: World | None = scenario.world
        self.base_weather = scenario.world.weather
        self.plain_bodies = plain_bodies(scenario, {entry.name: entry.model for entry in scenario.settings.vehicles})
        self.duration_s = 0.0
        self.places = {one.name: Request(place=one.name) for one in scanners}
        self.media = tuple(name for name, medium in media.table().items() if medium.place is None)
        """Media with a slider: those with one amount for the whole air."""
        self.daylight = daylight_of(air.state)
        """Values of the sliders of sun and sky at the start."""
        self.asked = 0
        """Number of changes that pages made."""
        self._air = air
        self._start = {one.name: pose_at(one.motion, 0.0) for one in scanners}
        self._latest: dict[str, Scan] = {}
        self._passed: dict[tuple[str, str], float] = {}

    def put(self, name: str, scan: Scan) -> None:
        """Store the latest scan of a lidar."""
        self._latest[name] = scan

    def period_s(self, request: Request) -> float:
        """Scans are shown when they arrive."""
        return 1.0

    def scan_start(self, request: Request) -> float:
        """Start [s] of the latest scan, so that a new one is a new request."""
        scan = self._latest.get(request.place)
        return -1.0 if scan is None else float(scan.start_time)

    def measure(self, request: Request) -> ViewFrame:
        """Latest scan of the requested lidar."""
        self._pass_on(request)
        scan = self._latest.get(request.place)
        notes = self._notes(scan)
        if scan is None:
            none = PointCloud(np.zeros((0, 3)), {"intensity": np.zeros(0, np.float32)})
            return ViewFrame(none, pose=self._start[request.place], notes=notes)
        air = air_of(self._air.state, float(scan.start_time))
        return replace(measured(scan), notes=notes, air=tuple(air.items()))

    def _pass_on(self, request: Request) -> None:
        """Request the changes of sliders, each once."""
        table = media.table()
        wanted = {
            (WEATHER, table[name].amount.short if name in table else name): value for name, value in request.amounts
        }
        wanted |= {(DAYLIGHT, name): value for name, value in request.daylight}
        for key, value in wanted.items():
            if self._passed.get(key) != value:
                self._passed[key] = value
                self.asked += 1
                self._air.change(*key, value)

    def _notes(self, scan: Scan | None) -> tuple[str, ...]:
        state, refused = self._air.state, self._air.refusal
        parts = {**state["weather"], **state["daylight"]}
        words = ", ".join(f"{name} {_short(value)}" for name, value in parts.items()) or "clear"
        first = "waiting for the first scan" if scan is None else f"scan at {scan.start_time:.1f} s"
        air = f"from {state['time_s']:.2f} s: {words}"
        return (first, air, *((f"refused: {refused}",) if refused else ()))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def daylight_of(state: dict[str, Any]) -> dict[str, float]:
    """Values of the daylight's sliders in the state of a stream."""
    from parhelion.weather.daylight import DEFAULT_AZIMUTH_DEG, DEFAULT_ELEVATION_DEG, DEFAULT_TURBIDITY

    start = dict(
        zip(DAYLIGHT_FIELDS, (DEFAULT_ELEVATION_DEG, DEFAULT_AZIMUTH_DEG, DEFAULT_TURBIDITY, 0.0), strict=True)
    )
    return {name: float(state["daylight"].get(name, value)) for name, value in start.items()}


def air_of(state: dict[str, Any], time_s: float) -> dict[str, float]:
    """Values of all sliders in the state of a stream, by the name of a medium or a field of daylight."""
    from parhelion.weather.weather import Weather

    weather = Weather.from_mapping(state["weather"])
    there, now = {one.medium.name: one.amount for one in weather.present(time_s)}, weather.at(time_s)
    table = media.table()
    amounts = {name: there.get(name, one.amount.clear) for name, one in table.items() if one.place is None}
    return {**amounts, **{name: getattr(now, name) for name in GROUND}, **daylight_of(state)}


class ViewOutlet:
    """Outlet of a stream that shows it in browsers on this machine; pages share one state."""

    def __init__(self, scenario: Scenario, air: AirControl, *, host: str = LOOPBACK, port: int = PORT) -> None:
        self.stage = StreamStage(scenario, air)
        self.viewer = Viewer(self.stage, host=host, port=port)
        air.listeners.append(lambda _: self.viewer.session.change())
        self.failure: BaseException | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="parhelion-view", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the page."""
        return self.viewer.url

    def take(self, step: Any) -> None:
        """Show the scans of a step; a page that is slower than the stream skips some."""
        if self.failure is not None:
            raise self.failure
        found = False
        for name, frames in step.scans.items():
            if frames and name in self.stage.places:
                self.stage.put(name, frames[-1][1])
                found = True
        if found:
            self.viewer.session.change()

    def close(self) -> None:
        """Close the pages, after the last scan is shown."""
        self._ending.set()
        self.viewer.session.stop()
        self._thread.join(_JOIN_S)
        self.viewer.stop()

    def _work(self) -> None:
        def check() -> None:
            if self._ending.is_set():
                raise _EndedError

        try:
            self.viewer.run(check)
        except _EndedError:
            pass
        except BaseException as failure:  # reported by the stream
            self.failure = failure


class _EndedError(Exception):
    """The stream ended."""
