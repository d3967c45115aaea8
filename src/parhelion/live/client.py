"""Client of a served scenario: `ph.connect` returns an object with one method per verb."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError, ParhelionError
from parhelion.core.pose import Floats, Pose
from parhelion.core.records import Record
from parhelion.io.wire import unpacked
from parhelion.live.control_server import INSTALL, PORT, PROTOCOL
from parhelion.motion.vehicles.base import Command
from parhelion.scenario.events import pose_fields
from parhelion.scenario.verbs import COMMANDS, VerbError
from parhelion.world.assemble import MeshLike, MeshSources
from parhelion.world.mesh import Mesh

if TYPE_CHECKING:
    from typing_extensions import Self

_LOG = logging.getLogger(__name__)
TIMEOUT_S = 60.0
_LARGEST_RECORD = 1 << 30


class Clock(NamedTuple):
    """Time of a scenario."""

    step: int
    """Number of completed steps."""
    time_s: float
    """Time [s]."""


class EntityState(NamedTuple):
    """State of an entity in the world."""

    pose: Pose
    velocity: Floats
    """Velocity [m/s] in the world, shape (3,)."""
    angular_velocity: Floats
    """Angular velocity [rad/s] in the world frame, shape (3,)."""
    time_s: float


class RayHits(NamedTuple):
    """Nearest surfaces on rays."""

    range: Floats
    """Ranges [m]; infinite for misses, shape (n,)."""
    label: list[str | None]
    entity: list[str | None]


class Measured(NamedTuple):
    """Record of a subscription."""

    sensor: str
    frame: int
    """Number of the frame, or of the piece of a stream."""
    time_s: float
    """Time [s] at the end of the step that completed it."""
    record: Record
    skipped: int
    """Number of records before this one that were not sent, because this client was too slow."""


class Subscription:
    """Records of a sensor as they are measured; iterate over it, or call `next`.

    Only the latest record waits, so that a slow reader gets recent ones; `skipped` counts the others.
    """

    def __init__(self, client: Client, sensor: str) -> None:
        self.sensor, self.skipped, self._client = sensor, 0, client
        self._waiting: queue.Queue[Measured | str] = queue.Queue(1)
        self._putting = threading.Lock()

    def put(self, found: Measured | str) -> None:
        """Replace the waiting record; a text ends the subscription and is the reason."""
        with self._putting:
            with suppress(queue.Empty):
                self.skipped += not isinstance(self._waiting.get_nowait(), str)
            self._waiting.put(found)

    def next(self, timeout_s: float | None = TIMEOUT_S) -> Measured:
        """Wait for the next record."""
        try:
            found = self._waiting.get(timeout=timeout_s)
        except queue.Empty:
            raise ParhelionError(f"{self.sensor}: no record within {timeout_s:g} s; is the clock paused?") from None
        if isinstance(found, str):
            with suppress(queue.Full):  # for the next call
                self._waiting.put_nowait(found)
            raise ParhelionError(f"{self.sensor}: {found}")
        return found

    def __iter__(self) -> Iterator[Measured]:
        with suppress(ParhelionError):
            while True:
                yield self.next(None)

    def close(self) -> None:
        """End the subscription."""
        self._client._unsubscribe(self)


class Client:
    """Connection to a served scenario; `with` closes it. A refused verb raises VerbError with a `code`.

    with ph.connect("ws://127.0.0.1:8917") as client:
        client.pause()
        client.spawn("crate", {"kind": "box", "size_m": [1, 1, 1]}, pose=ph.Pose((5, 0, 0.5)))
        client.weather(rain_rate_mm_h=25)
        client.step(10)
        cloud = client.latest("top")
    """

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        try:
            from websockets.exceptions import InvalidHandshake, InvalidURI
            from websockets.sync.client import connect as open_socket
        except ImportError:
            raise MissingDependencyError(INSTALL) from None
        self.url, self.timeout_s = str(url), timeout_s
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            self._socket = open_socket(
                self.url,
                subprotocols=[PROTOCOL],  # type: ignore[list-item]
                additional_headers=headers,
                compression=None,
                max_size=_LARGEST_RECORD,
                open_timeout=timeout_s,
                close_timeout=2.0,
                user_agent_header=None,
                proxy=None,
            )
        except InvalidURI:
            raise ConfigError(f"{url}: is not an address such as ws://127.0.0.1:{PORT}") from None
        except InvalidHandshake as error:
            why = f"{error}; check address and token, and close clients that are not used"
            raise ConfigError(f"{url}: refused the connection ({why})") from None
        except (OSError, TimeoutError) as error:
            raise ConfigError(f"{url}: cannot connect ({error}); start `parhelion serve` first") from None
        if self._socket.subprotocol != PROTOCOL:
            self._socket.close()
            raise ConfigError(f"{url}: does not speak {PROTOCOL}")
        self._number = 0
        self._lock = threading.Lock()
        self._replies: dict[int, queue.Queue[Any]] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._callbacks: dict[str, Callable[[Measured], None]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._receive, name="parhelion-client", daemon=True)
        self._thread.start()
        self.about: dict[str, Any] = self.call("hello")
        """Facts about the server: version, features, limits, name and seed of the scenario, step [s]."""

    # ---- messages ------------------------------------------------------------------------------------------------

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send any verb and return its result; the other methods are short forms of this one."""
        found = self._ask(op, fields)
        if not isinstance(found, dict):
            raise ParhelionError(f"{op}: the reply is a record; use latest")
        return found

    def _ask(self, op: str, fields: Mapping[str, Any], timeout_s: float | None = None) -> Any:
        """Send a verb and return its result, or its record."""
        from websockets.exceptions import ConnectionClosed

        place: queue.Queue[Any] = queue.Queue(1)
        with self._lock:
            self._number += 1
            number = self._number
            self._replies[number] = place
            if self._closed:
                raise ParhelionError(f"{self.url}: the connection is closed")
        try:
            self._socket.send(self._text({"id": number, "op": op, **fields}))
            found = place.get(timeout=timeout_s or self.timeout_s)
        except ConnectionClosed:
            raise ParhelionError(f"{self.url}: the connection is closed") from None
        except queue.Empty:
            raise ParhelionError(f"{op}: no reply within {timeout_s or self.timeout_s:g} s") from None
        finally:
            with self._lock:
                self._replies.pop(number, None)
        if isinstance(found, BaseException):
            raise found
        return found

    def _text(self, message: Mapping[str, Any]) -> str:
        """JSON of a verb; one that the server could not read is refused here, with the field."""
        op = message["op"]
        try:
            text = json.dumps(message, default=_plain, allow_nan=False)
        except TypeError as error:
            raise VerbError("invalid", f"{op}: {error}") from None
        except ValueError:
            for name, value in message.items():
                strange = [one for one in ("NaN", "Infinity") if one in json.dumps(value, default=_plain)]
                if strange:
                    word = "nan" if strange[0] == "NaN" else "inf"
                    text = f"{op}: {name} contains {word}; all numbers must be finite"
                    raise VerbError("invalid", text) from None
            raise
        most = self.about["limits"]["message_bytes"] if hasattr(self, "about") else len(text)
        if len(text) > most:
            size = f"{1e-6 * len(text):.1f} MB, more than the {1e-6 * most:.1f} MB that the server accepts"
            text = f"{op}: the message has {size}; large meshes can be files in the scenario's folder"
            raise VerbError("invalid", text)
        return text

    def _receive(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while True:
                message = self._socket.recv()
                try:
                    self._take(message)
                except (FormatError, ValueError, KeyError, TypeError):
                    continue  # a damaged message of the server: its request runs into the time limit
        with self._lock:
            self._closed = True
            waiting = list(self._replies.values())
        for place in waiting:
            with suppress(queue.Full):
                place.put_nowait(ParhelionError(f"{self.url}: the connection was closed"))
        for one in list(self._subscriptions.values()):
            one.put("the connection was closed")

    def _take(self, message: str | bytes) -> None:
        if isinstance(message, str):
            fields = json.loads(message)
            number, ok = fields.pop("id", None), fields.pop("ok", False)
            if ok:
                self._answer(number, fields)
            else:
                self._answer(number, VerbError(fields["error"]["code"], fields["error"]["message"]))
            return
        header, record = unpacked(message)
        if "id" in header:
            self._answer(header["id"], record)
            return
        found = Measured(
            header["sensor"], header["frame"], 1e-9 * header["time_ns"], record, int(header.get("skipped", 0))
        )
        for name in (found.sensor, "*"):
            if (wanted := self._subscriptions.get(name)) is not None:
                wanted.skipped += found.skipped
                wanted.put(found)
            if (callback := self._callbacks.get(name)) is not None:
                try:
                    callback(found)
                except Exception:
                    self._callbacks.pop(name, None)
                    _LOG.exception("the callback for %s failed and is not called again", name)

    def _answer(self, number: Any, found: Any) -> None:
        with self._lock:
            place = self._replies.get(number)
        if place is not None:
            with suppress(queue.Full):
                place.put_nowait(found)

    def close(self) -> None:
        """Disconnect; the scenario continues. A second call has no effect."""
        self._socket.close()
        self._thread.join(5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- clock ---------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Let the clock run."""
        self.call("play")

    def pause(self) -> None:
        """Stop the clock."""
        self.call("pause")

    def step(self, steps: int = 1, *, timeout_s: float = 3600.0) -> Clock:
        """Advance a paused scenario and return its time after the last step."""
        found = self._ask("step", {"steps": steps}, timeout_s)
        return Clock(found["step"], found["time_s"])

    def reset(self, *, keep: str | Sequence[str] = ()) -> None:
        """Return to time 0 and undo all edits, except those to `keep`: 'spawned', 'weather', 'sensors'."""
        self.call("reset", keep=_listed(keep))

    def quit(self) -> None:
        """End the run and the server."""
        self.call("quit")

    @property
    def status(self) -> dict[str, Any]:
        """Clock, state ('playing', 'paused' or 'ended'), weather and daylight."""
        return self.call("status")

    @property
    def time_s(self) -> float:
        """Time of the scenario [s]."""
        return float(self.status["time_s"])

    # ---- entities ------------------------------------------------------------------------------------------------

    def spawn(
        self,
        name: str | None = None,
        what: Mapping[str, Any] | MeshLike | None = None,
        *,
        pose: Pose = Pose(),
        velocity: ArrayLike = (0.0, 0.0, 0.0),
        angular_velocity: ArrayLike = (0.0, 0.0, 0.0),
        **fields: Any,
    ) -> str:
        """Add an object that can be moved, and return its name.

        Args:
            name: Name; by default the server chooses one.
            what: Shape as in world files, a mesh file below the scenario's folder (on the server), or a mesh as for
                `World.add`.
            pose: Pose in the world.
            velocity: Velocity [m/s] in the world.
            angular_velocity: Angular velocity [rad/s] in the world frame.
            fields: Further fields of an object: material, label, scale, allow_renaming ...
        """
        if isinstance(what, Mapping):
            fields["shape"] = dict(what)
        elif isinstance(what, (str, PathLike)):
            fields["mesh"] = fspath(what)
        elif what is not None:
            mesh = Mesh.merged([part.mesh for part in MeshSources().triangles(what, "auto")[0].parts])
            fields |= {"vertices": mesh.vertices, "faces": mesh.faces}
        if name is not None:
            fields["name"] = name
        found = self.call("spawn", pose=pose, velocity=velocity, angular_velocity=angular_velocity, **fields)
        return str(found["entity"])

    def remove(self, entity: str) -> None:
        """Remove an entity."""
        self.call("delete", entity=entity)

    def move(
        self,
        entity: str,
        pose: Pose | None = None,
        velocity: ArrayLike | None = None,
        angular_velocity: ArrayLike | None = None,
    ) -> None:
        """Place an entity, with its twist from now on."""
        given = {"pose": pose, "velocity": velocity, "angular_velocity": angular_velocity}
        self.call("set_state", entity=entity, **{name: value for name, value in given.items() if value is not None})

    def state(self, entity: str) -> EntityState:
        """State of an entity."""
        found = self.call("get_state", entity=entity)
        pose = Pose(found["pose"]["xyz"], found["pose"]["quat_xyzw"])
        return EntityState(pose, np.array(found["velocity"]), np.array(found["angular_velocity"]), found["time_s"])

    def entities(self, filter: str = "", *, kinds: str | Sequence[str] = ()) -> list[str]:
        """Names of entities; `filter` is a part of the name or a pattern, `kinds` vehicle, spawned, actor, object."""
        return [one["name"] for one in self.call("entities", filter=filter, kinds=_listed(kinds))["entities"]]

    def bounds(self, entity: str | None = None) -> tuple[Floats, Floats] | None:
        """Lower and upper corner [m] of an entity, or of the world; None if it is empty."""
        found = self.call("bounds", **({} if entity is None else {"entity": entity}))
        return None if found["lower"] is None else (np.array(found["lower"]), np.array(found["upper"]))

    # ---- weather, light, vehicles and sensors --------------------------------------------------------------------

    def weather(self, **changes: Any) -> dict[str, Any]:
        """Change the weather (`rain_rate_mm_h=25`; None removes a medium) and return its fields."""
        return dict(self.call("weather", changes=changes)["weather"])

    def daylight(self, **changes: Any) -> dict[str, Any]:
        """Change sun and sky (`sun_elevation_deg=5`) and return their fields."""
        return dict(self.call("daylight", changes=changes)["daylight"])

    def command(self, vehicle: str, command: Command) -> None:
        """Command a vehicle; the command holds until the next one."""
        kind = next((name for name, one in COMMANDS.items() if type(command) is one), None)
        if kind is None:
            known = ", ".join(one.__name__ for one in COMMANDS.values())
            raise VerbError("invalid", f"command: expected one of {known}, got {type(command).__name__}")
        self.call("command", vehicle=vehicle, kind=kind, values=asdict(command))

    def attach(self, name: str, type: str, model: str, **fields: Any) -> None:
        """Attach a sensor; `fields` are further ones of a scenario file: vehicle, mount, rate_hz, options."""
        self.call("attach", sensor={"name": name, "type": type, "model": model, **fields})

    def detach(self, sensor: str) -> None:
        """Remove a sensor."""
        self.call("detach", sensor=sensor)

    def mount(self, sensor: str, pose: Pose) -> None:
        """Change the mount of a frame sensor from now on."""
        self.call("mount", sensor=sensor, pose=pose)

    def sensors(self) -> list[dict[str, Any]]:
        """Name, type, model, vehicle and rate of each sensor."""
        return list(self.call("sensors")["sensors"])

    def latest(self, sensor: str, *, complete: bool = False) -> Any:
        """Latest record of a sensor. A lidar gives a `PointCloud`; with `complete`, a `Scan` with shots and motion."""
        return self._ask("latest", {"sensor": sensor, **({"complete": True} if complete else {})})

    def subscribe(
        self, sensor: str, callback: Callable[[Measured], None] | None = None, *, complete: bool = False
    ) -> Subscription:
        """Receive the records of a sensor from now on; '*' is all sensors.

        Iterate over the returned subscription. A `callback` is called in the thread of the connection and must not call
        methods of this client.
        """
        self._forget(sensor)  # an earlier subscription of this sensor
        made = self._subscriptions[sensor] = Subscription(self, sensor)
        if callback is not None:
            self._callbacks[sensor] = callback
        try:
            self.call("subscribe", sensor=sensor, complete=complete)
        except ParhelionError:
            self._forget(sensor)
            raise
        return made

    def _unsubscribe(self, one: Subscription) -> None:
        if self._subscriptions.get(one.sensor) is one:
            self.call("unsubscribe", sensor=one.sensor)
            self._forget(one.sensor)

    def _forget(self, sensor: str) -> None:
        self._callbacks.pop(sensor, None)
        found = self._subscriptions.pop(sensor, None)
        if found is not None:
            found.put("the subscription was closed")

    # ---- queries -------------------------------------------------------------------------------------------------

    def rays(self, origins: ArrayLike, directions: ArrayLike, max_range_m: float = 1e6) -> RayHits:
        """Nearest surface on each ray now; one origin may serve all directions."""
        start, way = np.atleast_2d(np.asarray(origins, float)), np.atleast_2d(np.asarray(directions, float))
        found = self.call("rays", origins=start, directions=way, max_range_m=max_range_m)
        return RayHits(_numbers(found["range_m"], np.inf), found["label"], found["entity"])

    def height(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Height [m] of the ground at places; NaN without ground."""
        east, north = np.broadcast_arrays(np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float)))
        return _numbers(self.call("height", xy=np.stack([east, north], axis=1))["height_m"], np.nan)

    def clearance(self, vehicle: str) -> float:
        """Distance [m] from a vehicle to the nearest solid obstacle; infinite without one within 10 m."""
        return float(_numbers([self.call("clearance", vehicle=vehicle)["clearance_m"]], np.inf)[0])

    def collisions(self, since_step: int = 0) -> list[dict[str, Any]]:
        """Contacts of vehicles since a step."""
        return list(self.call("collisions", since_step=since_step)["collisions"])

    def __repr__(self) -> str:
        return f"<Client of {self.url}: {self.about.get('scenario') or 'a scenario'}>"


def connect(url: str = f"ws://127.0.0.1:{PORT}", *, token: str | None = None, timeout_s: float = TIMEOUT_S) -> Client:
    """Connect to a scenario that `parhelion serve` runs.

    Args:
        url: Address of the server.
        token: Token of a server that is reachable from other machines.
        timeout_s: Longest time [s] to wait for a reply.

    >>> ph.connect("ws://127.0.0.1:1")
    Traceback (most recent call last):
    parhelion.core.errors.ConfigError: ws://127.0.0.1:1: cannot connect ...
    """
    return Client(url, token, timeout_s)


def _plain(value: Any) -> Any:
    """JSON value of poses and arrays."""
    if isinstance(value, Pose):
        return pose_fields(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _numbers(values: Sequence[float | None], missing: float) -> NDArray[np.float64]:
    return np.array([missing if value is None else value for value in values], np.float64)
