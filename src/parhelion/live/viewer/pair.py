"""Two view sources side by side: two pages in one, with a common clock, colour and camera."""

from __future__ import annotations

import html
import queue
import threading
import time as clock
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from parhelion.core.pose import Pose
from parhelion.live.viewer.server import LOOPBACK, PORT, Viewer, check_port
from parhelion.live.viewer.session import Session, share_limits
from parhelion.live.viewer.stages import ViewSource
from parhelion.live.web import LocalHandler, Served

LINKED = ("time_s", "playing", "speed", "colour_by")
"""Settings that both pages share."""
_HELD_S = 0.4
"""Time [s] for which a camera that the other page moved sends no movements back."""
_JOIN_S = 5.0

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
html,body{{margin:0;height:100%;background:#0e1116;color:#dee2e8;font:14px system-ui,sans-serif}}
main{{display:grid;grid-template-columns:1fr 1fr;gap:2px;height:100%}}
figure{{margin:0;display:flex;flex-direction:column;min-width:0;min-height:0}}
figcaption{{padding:4px 10px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}}
iframe{{border:0;flex:1;width:100%;min-height:0}}
@media(max-width:800px){{main{{grid-template-columns:1fr;grid-template-rows:1fr 1fr}}}}
@media(max-width:500px){{main{{grid-template-rows:repeat(2,max(80vh,640px));height:auto}}figcaption{{padding:10px}}}}
</style><main>{frames}</main></html>"""


class Pair:
    """Page with two viewers. `run` measures for both until `stop`; the longer recording drives the clock."""

    def __init__(
        self,
        left: ViewSource,
        right: ViewSource,
        *,
        host: str = LOOPBACK,
        port: int = PORT,
        colour_by: str | None = None,
        names: tuple[str, str] = ("left", "right"),
    ) -> None:
        """`names` are the captions of sources with the same title."""
        check_port(host, port)
        self.captions = (left.title, right.title) if left.title != right.title else names
        self.viewers: list[Viewer] = []
        self._queue: queue.SimpleQueue[tuple[Session, dict[str, Any]] | None] = queue.SimpleQueue()
        try:
            for stage in (left, right):
                self.viewers.append(Viewer(stage, host=host, port=0, colour_by=colour_by))
            first, second = self.viewers
            second.open_like(first)
            share_limits(first.session, second.session)
            leader = first if left.duration_s >= right.duration_s else second
            for viewer, other in ((first, second), (second, first)):
                viewer.session.follows = viewer is not leader
                viewer.session.listeners.append(partial(self._pass_on, other.session))
                viewer.on_camera(partial(self._moved, viewer, other))
            handler = type("Handler", (_Handler,), {"bound": host, "pair": self})
            self._driven = dict.fromkeys(self.viewers, -_HELD_S)
            self._page = Served(host, port, handler, "port", "another with --port")
        except BaseException:
            for viewer in self.viewers:
                viewer.stop()
            raise
        self.host, self.port = self._page.host, self._page.port
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=work, name="parhelion-pair", daemon=True) for work in (self._link, self._run_second)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def url(self) -> str:
        """Address of the page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    def run(self, check: Callable[[], None] | None = None) -> None:
        """Measure and show requests until `stop`; an exception of `check` ends the loop."""

        def both() -> None:
            if self._failure is not None:
                raise self._failure
            if check is not None:
                check()

        self.viewers[0].run(both)

    def _run_second(self) -> None:
        try:
            self.viewers[1].run()
        except BaseException as failure:  # raised by `run`
            self._failure = failure

    def stop(self) -> None:
        """Close the page and both viewers."""
        self._queue.put(None)
        self._page.close()
        for viewer in self.viewers:
            viewer.stop()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- links -------------------------------------------------------------------------------------------------

    def _pass_on(self, session: Session, values: dict[str, Any]) -> None:
        self._queue.put((session, values))

    def _link(self) -> None:
        """Pass on changes in a thread of its own, so that no session waits for the lock of the other."""
        while (entry := self._queue.get()) is not None:
            session, values = entry
            if news := {name: value for name, value in values.items() if name in LINKED}:
                session.take_over(news)

    def _moved(self, viewer: Viewer, other: Viewer, position: Any, target: Any, up: Any) -> None:
        """Move the cameras of the other viewer with one of this viewer."""
        now = clock.monotonic()
        if now - self._driven[viewer] < _HELD_S or viewer.is_home(position):
            return
        self._driven[other] = now
        there = _between(viewer, other)
        other.set_cameras(there.apply(position), there.apply(target), there.rotation @ np.asarray(up))

    def document(self, host: str) -> str:
        """The page, for a browser that reached this machine as `host`."""
        name = f"[{host}]" if ":" in host else host
        frames = "".join(
            f'<figure><figcaption>{html.escape(caption)}</figcaption><iframe title="viewer" '
            f'src="http://{html.escape(name)}:{one.port}/"></iframe></figure>'
            for one, caption in zip(self.viewers, self.captions, strict=True)
        )
        title = " | ".join(self.captions)
        return _PAGE.format(title=html.escape(f"Parhelion · {title}"), frames=frames)


def _between(viewer: Viewer, other: Viewer) -> Pose:
    """Transformation of screen coordinates: by the pose of the lidar if only one of the clouds is in the world."""
    here, there = viewer.lidar_pose, other.lidar_pose
    if (here is None) == (there is None):
        return Pose()
    return here.inverse() if here is not None else there or Pose()


class _Handler(LocalHandler):
    pair: Pair
    timeout = 20.0
    always: Mapping[str, str] = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/":
            self.reply(404, b"the only page is /\n", "text/plain; charset=utf-8")
            return
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or self.pair.host
        self.reply(200, self.pair.document(host).encode("utf-8"), "text/html; charset=utf-8")
