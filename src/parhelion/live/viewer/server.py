"""Server of the page: binds to this machine only, measures on request, and sends the result to all viewers."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import socket
import sys
import time as clock
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from threading import Lock
from typing import Any

import numpy as np

from parhelion.core.deprecation import deprecated_method
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.core.interrupts import uninterrupted
from parhelion.core.pose import Floats, Pose
from parhelion.live.viewer.gizmos import EditTab, MakeDocument
from parhelion.live.viewer.opening import first_camera, point_size_of, roof_cut
from parhelion.live.viewer.panel import Panel, PanelActions
from parhelion.live.viewer.scene import Scene
from parhelion.live.viewer.session import Session, Shown
from parhelion.live.viewer.stages import ViewSource
from parhelion.live.web import REFUSED, is_allowed_origin
from parhelion.sensors.sheets import preset_names

# ---- output of viser: silenced, because any client of the port could flood the terminal -----------------------------


MOST_ERRORS = 3
"""Maximum number of printed errors caused by pages."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the output of viser within the block."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def silence_logger() -> None:
    """Stop viser from printing a line per connection, disconnection, version mismatch and error.

    Its server prints from its own threads at any time. It calls `rich.print` through its module, where its lines can be
    distinguished from those of others. Errors of callbacks are printed through a module-level `traceback`.
    """
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)  # a page that disconnects is not an error
    import rich

    plain = rich.print
    if not getattr(plain, "leaves_out_viser", False):

        def print_others(*words: Any, **options: Any) -> None:
            if not (words and "(viser)" in str(words[0])):
                plain(*words, **options)

        print_others.leaves_out_viser = True  # type: ignore[attr-defined]
        rich.print = print_others
    printer = sys.modules.get("viser._threadpool_exceptions")
    if getattr(printer, "traceback", None) is traceback:
        # Names of the module take precedence over built-in names.
        printer.traceback, printer.print = _FewErrors(), lambda *_, **__: None  # type: ignore[union-attr]


def silence_messages(loop: Any) -> None:
    """Silence the event loop that reads messages of pages, which reports every unreadable one."""
    printed = 0

    def report(loop: Any, context: dict[str, Any]) -> None:
        nonlocal printed
        printed += 1
        if printed <= MOST_ERRORS:
            loop.default_exception_handler(context)

    if loop is not None:
        loop.set_exception_handler(report)


class _FewErrors:
    """Replacement of the module `traceback` that limits the printed errors."""

    def __init__(self) -> None:
        self._printed = 0

    def print_exception(self, *error: Any, **options: Any) -> None:
        self._printed += 1
        if self._printed <= MOST_ERRORS:
            traceback.print_exception(*error, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


# ---- server ---------------------------------------------------------------------------------------------------------


LOOPBACK = "127.0.0.1"
PORT = 8080
BACKGROUND = (14, 17, 22)
_MOST_QUEUED = 100
"""Maximum number of waiting actions of pages."""
_IDLE_S = 0.25
_RENDER_WAIT_S = 20.0
_FARTHEST_VIEW_M = 5000.0
_UNPLACED = (3.0, 3.0, 3.0)
"""Default camera position of viser."""


class Viewer:
    """Page with a world, a lidar and its cloud, shared by any number of browsers.

        with Viewer(WorldStage(World.load("city"), "ouster/os1-128")) as viewer:
            print(viewer.url)
            viewer.run()                    # until stop() is called, or Ctrl-C

    `port` 0 selects a free port. `edit` makes the document that the page can edit; without it there is no tab for that.
    The first cloud is measured before the page opens.
    """

    def __init__(
        self,
        stage: ViewSource,
        *,
        host: str = LOOPBACK,
        port: int = PORT,
        colour_by: str | None = None,
        edit: MakeDocument | None = None,
    ) -> None:
        viser = _viser()
        check_port(host, port)
        self.session = Session(stage, colour_by=colour_by)
        first = self.session.update()
        if first is None:
            raise ConfigError(self.session.error)
        self._shown: Shown = first
        self._work: dict[str, Callable[[], None]] = {}
        self._edits, self._edit = itertools.count(), edit
        self._editor: EditTab | None = None
        self._asked, self._saving = Lock(), Lock()
        self._running = True
        self._follows = True
        self._server = _start(viser, host, port, f"Parhelion · {stage.title}")
        self.host, self.port = host, int(self._server.get_port())
        self._cut_m = roof_cut(stage.world, first.measured.pose)
        self._camera = first_camera(first.measured, stage.world, self._cut_m)
        self._set_camera()
        size = point_size_of(first.measured, self._camera[0])
        self._scene = Scene(self._server, stage.world, cut_m=self._cut_m, plain=stage.plain_bodies, point_size_m=size)
        self._panel = Panel(
            self._server,
            self.session,
            preset_names("lidar") if stage.world else (),
            self._actions(),
            roof=self._cut_m is not None,
            point_size_m=size,
            more=None if edit is None else self._add_edit_tab,
        )
        if self._scene.left_out:
            self._panel.notes = (f"{self._scene.left_out} of the smallest triangles are not drawn",)
        self._scene.show(first)
        self._panel.show(first.painted.legend)
        self._server.scene.on_click()(self._clicked)
        self._server.on_client_connect(self._welcome)

    @property
    def url(self) -> str:
        """Address of the page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    # ---- the loop ----------------------------------------------------------------------------------------------

    def run(self, check: Callable[[], None] | None = None) -> None:
        """Measure and show requests until `stop` is called from another thread.

        `check` is called before each step; an exception that it raises ends the loop.
        """
        last = clock.monotonic()
        while self._running:
            if check is not None:
                check()
            self.session.wait(self._until_next_scan())
            now = clock.monotonic()
            self.session.tick(now - last)
            last = now
            self.step()

    def step(self) -> None:
        """Process all pending requests once."""
        with self._asked:
            work, self._work = self._work, {}
        for do in work.values():
            do()
        before = self.session.error
        shown = self.session.update()
        if shown is not None:
            before_it, self._shown = self._shown, shown
            self._scene.show(shown)
            if shown.new_cloud:
                self._follow_sensor(before_it.measured.pose, shown.measured.pose)
                self._panel.show_pick(None)
            self._panel.show(shown.painted.legend)
        elif self.session.error and self.session.error != before:
            self._panel.show_error(self.session.error)
        else:
            self._panel.show_playing()

    turn = deprecated_method("turn", "step")

    def _until_next_scan(self) -> float:
        session = self.session
        if not session.playing:
            return _IDLE_S
        request = session.request
        left = session.stage.scan_start(request) + session.stage.period_s(request) - request.time_s
        return float(np.clip(left / session.speed, 0.001, _IDLE_S))

    def stop(self) -> None:
        """End `run` and close the server."""
        if self._running:
            self._running = False
            self.session.stop()
            with uninterrupted, quiet():
                self._server.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- requests of the page ----------------------------------------------------------------------------------

    def _later(self, kind: str, work: Callable[[], None]) -> None:
        """Queue an action for the measuring thread, the only one that changes the scene.

        Only the last action of each kind is executed, so that the queue stays short.
        """
        with self._asked:
            self._work[kind] = work
        self.session.change()

    def _actions(self) -> PanelActions:
        return PanelActions(
            point_size=lambda size: self._later("size", lambda: self._scene.point_size(size)),
            show_world=lambda visible: self._later("world", lambda: self._scene.show_world(visible)),
            show_roof=lambda visible: self._later("roof", lambda: self._show_roof(visible)),
            follow=self._set_follows,
            show_beams=lambda visible: self._later("beams", lambda: self._scene.show_beams(visible, self._shown)),
            save=self._save,
            home=self._go_home,
        )

    # ---- editing -----------------------------------------------------------------------------------------------

    def _add_edit_tab(self, tabs: Any) -> None:
        assert self._edit is not None
        self._editor = EditTab(
            self._server, tabs.add_tab("Edit"), self.session, self._edit, self._queue_edit, self._show_edited
        )

    def _queue_edit(self, work: Callable[[], None], kind: str) -> None:
        """Queue an edit; it replaces a waiting one of the same kind, unless the kind is empty."""
        if len(self._work) < _MOST_QUEUED:
            self._later(f"edit {kind or next(self._edits)}", work)

    def _show_edited(self) -> None:
        stage = self.session.stage
        if stage.world is not None:
            self._scene.set_world(stage.world, stage.plain_bodies)
        self._panel.show_mount()

    def _object_at(self, origin: Floats, direction: Floats) -> int | None:
        """`index` of the object of the world that a ray hits first, below the cut through a building."""
        world = self.session.stage.world
        if world is None:
            return None
        if self._cut_m is not None and self._scene.hides_roof and direction[2] < 0.0:
            origin = origin + max(0.0, (self._cut_m - origin[2]) / direction[2]) * direction
        hits = world.cast(origin[None], direction[None])
        part = int(hits.part[0])
        return int(world.parts.object_index[part]) if np.isfinite(hits.range[0]) and part < len(world.parts) else None

    def _show_roof(self, visible: bool) -> None:
        self._scene.show_roof(visible)
        self._scene.show(replace(self._shown, new_cloud=True))

    def _clicked(self, event: Any) -> None:
        origin, direction = (np.asarray(ray, np.float64) for ray in (event.ray_origin, event.ray_direction))
        if origin.shape != (3,) or direction.shape != (3,) or not np.all(np.isfinite([origin, direction])):
            return

        def pick() -> None:
            if self._editor is not None and self._editor.selects:
                self._editor.pick(self._object_at(origin, direction))
            hidden_from = self._cut_m if self._scene.hides_roof else None
            found = self.session.pick(origin, direction, below_m=hidden_from)
            self._scene.mark(found)
            self._panel.show_pick(found)

        self._later("pick", pick)

    def _set_camera(self) -> None:
        position, target = self._camera
        camera = self._server.initial_camera
        camera.position, camera.look_at, camera.up = position, target, np.array([0.0, 0.0, 1.0])
        camera.fov, camera.near, camera.far = float(np.radians(60.0)), 0.05, _FARTHEST_VIEW_M

    def on_camera(self, moved: Callable[[Any, Any, Any], None]) -> None:
        """Call a function with position, target and upward direction when a camera of this viewer moves."""

        def watch(client: Any) -> None:
            client.camera.on_update(lambda camera: moved(camera.position, camera.look_at, camera.up_direction))

        self._server.on_client_connect(watch)

    def open_like(self, other: Viewer) -> None:
        """Use the initial camera of another viewer with the same kind of coordinates."""
        if (self.lidar_pose is None) == (other.lidar_pose is None):
            self._camera = other._camera
            self._set_camera()

    def is_home(self, position: Any) -> bool:
        """Return whether a camera position [m] is the initial one."""
        return bool(np.allclose(position, self._camera[0], atol=1e-3) or np.allclose(position, _UNPLACED))

    @property
    def lidar_pose(self) -> Pose | None:
        """Pose of the lidar in screen coordinates; None for clouds in the frame of their sensor."""
        measured = self._shown.measured
        return None if measured.pose is None else Pose(measured.pose.xyz - measured.offset, measured.pose.quat_xyzw)

    def set_cameras(self, position: Any, target: Any, up: Any) -> None:
        """Place the cameras of all pages of this viewer."""
        for client in self._server.get_clients().values():
            with client.atomic():
                client.camera.up_direction, client.camera.position, client.camera.look_at = up, position, target

    def _welcome(self, client: Any) -> None:
        """Place the camera of a new page that missed the message of viser, as slow pages sometimes do."""
        if np.allclose(client.camera.position, _UNPLACED):
            self._place(client, *self._camera)
            camera = self._server.initial_camera
            client.camera.fov, client.camera.near, client.camera.far = camera.fov, camera.near, camera.far

    def _follow_sensor(self, before: Pose | None, now: Pose | None) -> None:
        """Move all cameras, and the initial camera of new pages, by the displacement of the sensor."""
        if not self._follows or before is None or now is None or np.array_equal(before.xyz, now.xyz):
            return
        way = now.xyz - before.xyz
        position, target = self._camera
        self._camera = (position + way, target + way)
        self._server.initial_camera.position, self._server.initial_camera.look_at = self._camera
        for client in self._server.get_clients().values():
            with client.atomic():
                client.camera.position = client.camera.position + way  # the target moves with it

    def _set_follows(self, follows: bool) -> None:
        self._follows = follows

    def _go_home(self, client: Any) -> None:
        if client is None:
            return
        self._place(client, *first_camera(self._shown.measured, self.session.stage.world, self._cut_m))

    @staticmethod
    def _place(client: Any, position: Floats, target: Floats) -> None:
        with client.atomic():
            client.camera.up_direction, client.camera.position, client.camera.look_at = (0, 0, 1), position, target

    def _save(self, client: Any) -> None:
        """Send a screenshot of one page to that page as a download, without waiting for it."""
        if self._saving.acquire(blocking=False):  # one at a time: each occupies a thread until the page answers
            try:
                self._send_picture(client)
            finally:
                self._saving.release()

    def _send_picture(self, client: Any) -> None:
        height, width = client.camera.image_height, client.camera.image_width
        try:
            picture = client.get_render(height, width, transport_format="png", timeout=_RENDER_WAIT_S)
        except (RuntimeError, TimeoutError) as error:
            client.add_notification("No picture", str(error), auto_close_seconds=8)
            return
        name = "".join(c if c.isalnum() else "-" for c in self.session.stage.title).strip("-") or "view"
        client.send_file_download(f"parhelion-{name}.png", png_of(picture), save_immediately=True)


def png_of(picture: np.ndarray[Any, Any]) -> bytes:
    """Image (h, w, 3 or 4) on the dark background, as a PNG file."""
    from PIL import Image

    colour = picture[..., :3].astype(np.float32)
    if picture.shape[-1] == 4:
        share = picture[..., 3:].astype(np.float32) / 255.0
        colour = colour * share + np.array(BACKGROUND, np.float32) * (1.0 - share)
    out = io.BytesIO()
    Image.fromarray(np.round(colour).astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


def check_port(host: str, port: int) -> None:
    """Raise if `host` and `port` cannot be bound. Viser would silently use another port."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"port: must be from 0 to 65535, got {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise ConfigError(f"host: {host!r} is not an address of this machine") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"cannot listen on {host}:{port}: {reason}; choose another with --port") from None


def _viser() -> Any:
    try:
        import viser
    except ImportError:
        raise MissingDependencyError(
            "the viewer requires the package viser: run 'pip install parhelion[view]'"
        ) from None
    return viser


def _start(viser: Any, host: str, port: int, title: str) -> Any:
    silence_logger()
    with quiet(), _own_pages_only(host) as guards:
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    if not guards:
        with quiet():
            server.stop()
        raise MissingDependencyError(
            "the viewer does not support this version of viser; run 'pip install parhelion[view]'"
        )
    if port and server.get_port() != port:
        with quiet():
            server.stop()
        raise ConfigError(
            f"cannot listen on {host}:{port}: it was taken at the same moment; choose another with --port"
        )
    silence_messages(getattr(server, "_event_loop", None))
    server.request_share_url = _share_nothing  # a page could request a tunnel through a remote server
    return server


@contextlib.contextmanager
def _own_pages_only(bound: str) -> Iterator[list[object]]:
    """Within the block, new WebSocket servers reject pages of other sites; the list counts them.

    Viser has no option to filter requests.
    """
    from websockets.asyncio import server as sockets

    plain = sockets.serve
    guards: list[object] = []

    def serve(*args: Any, process_request: Any = None, **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            if not is_allowed_origin(bound, request.headers.get("Host"), request.headers.get("Origin")):
                return connection.respond(HTTPStatus.FORBIDDEN, REFUSED)
            return None if process_request is None else process_request(connection, request)

        guards.append(check)
        return plain(*args, process_request=check, **options)

    sockets.serve = serve  # type: ignore[misc,assignment]
    try:
        yield guards
    finally:
        sockets.serve = plain  # type: ignore[misc]


def _share_nothing(verbose: bool = True) -> None:
    """No remote URL exists."""
