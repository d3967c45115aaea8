"""Replay, weather on a recording, two pages side by side, and editing with the mouse, in one headless browser."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.live.viewer import Session, Viewer, WorldStage
from parhelion.live.viewer.editing import WorldDocument
from parhelion.live.viewer.pair import Pair
from parhelion.live.viewer.runs import RunStage

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
pytest.importorskip("viser", reason="the package viser is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 400, "height": 900}
SMALL = {"width": 720, "height": 420}
"""Size for everything else: the browser renders in software."""
FOG_MAX = "2000"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as control:
        program = control.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield program
        program.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lidar = {"type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot"}
    fields = {
        "name": "replayed", "duration_s": 0.5, "seed": 3, "world": "cuboids", "report": False, "outputs": [],
        "vehicles": [{"name": "robot", "motion": {"constant": {"velocity_m_s": [4, 0, 0]}}}],
        "sensors": [{"name": "top", **lidar, "mount": {"xyz": [0, 0, 2]}},
                    {"name": "low", **lidar, "mount": {"xyz": [0, 0, 1]}}],
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("runs") / "out"
    ph.Scenario.from_mapping(fields).run(folder)
    return folder


@contextmanager
def running(viewer: Any) -> Iterator[Any]:
    """Viewer that works in a thread."""
    thread = threading.Thread(target=viewer.run, daemon=True)
    thread.start()
    try:
        yield viewer
    finally:
        viewer.stop()
        thread.join(10)


def eventually(happens: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happens():
            return True
        time.sleep(0.1)
    return False


def opened(browser: Any, url: str) -> tuple[Any, list[str]]:
    page, complaints = browser.new_page(viewport=SMALL), []
    page.set_default_timeout(120_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(url)
    return page, complaints


def points(page: Any) -> int:
    return int(re.sub(r"\D", "", page.get_by_text("points").first.inner_text().split("points")[0]))


def lowest_edge(page: Any) -> float:
    """Lower edge [pixel] of the lowest visible control."""
    script = "() => Math.max(...[...document.querySelectorAll('input,button,label')].map(e => e.getBoundingClientRect().bottom))"  # noqa: E501
    return float(page.evaluate(script))


def test_a_run_is_replayed_in_weather(browser: Any, run: Path) -> None:
    with running(Viewer(RunStage(run), port=0)) as viewer:
        page, complaints = opened(browser, viewer.url)
        page.wait_for_selector("text=top: cloud 0 of")
        both = points(page)
        slider = page.locator(f'[role=slider][aria-valuemax="{viewer.session.stage.duration_s:g}"]')
        slider.focus()
        page.keyboard.press("End")
        count = len(list((run / "top").glob("*.pcd")))
        page.wait_for_selector(f"text=top: cloud {count - 1} of {count}")
        assert viewer.session.measured.pose.xyz[0] == pytest.approx(4.0 * 0.1 * (count - 1))
        page.get_by_role("tab", name="Layers").click()
        page.get_by_role("checkbox").nth(3).click()  # after world, follow and the first lidar
        assert eventually(lambda: points(page) < 0.7 * both)
        clear = points(page)
        page.get_by_role("tab", name="Weather").click()
        page.locator(f'[role=slider][aria-valuemax="{FOG_MAX}"]').focus()
        page.keyboard.press("Home")
        assert eventually(lambda: points(page) != clear)
        recorded = ph.PointCloud.load(run / "top" / f"{count - 1:06d}.pcd")
        start = 0.1 * (count - 1)
        wet = ph.Weather(visibility_m=10).apply(recorded, sensor="velodyne/vlp-16", frame=count - 1, time=start)
        assert eventually(lambda: points(page) == len(wet))
        page.set_viewport_size(WIDE)
        for tab in ("View", "Layers", "Weather", "Sensor"):
            page.get_by_role("tab", name=tab).click()
            assert lowest_edge(page) <= WIDE["height"]
        page.set_viewport_size(NARROW)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        assert complaints == []
        page.close()


def test_two_sources_share_clock_and_camera(browser: Any, run: Path) -> None:
    with running(Pair(RunStage(run), RunStage(run), port=0, names=("dry", "wet"))) as pair:
        page, complaints = opened(browser, pair.url)
        assert page.locator("figcaption").all_inner_texts() == ["dry", "wet"]
        left, right = (page.frame_locator("iframe").nth(k) for k in range(2))
        for one in (left, right):
            one.get_by_text("top: cloud 0 of").wait_for()
        left.get_by_role("button", name="+ 1 scan").click()
        right.get_by_text("top: cloud 1 of").wait_for()
        right.get_by_role("button", name="+ 1 scan").click()
        left.get_by_text("top: cloud 2 of").wait_for()
        cameras = [next(iter(one._server.get_clients().values())).camera for one in pair.viewers]
        before = np.array(cameras[1].position)
        frame = page.locator("iframe").first.bounding_box()
        page.mouse.move(frame["x"] + 10, frame["y"] + 0.8 * frame["height"])
        page.mouse.down()
        page.mouse.move(frame["x"] + 40, frame["y"] + 0.9 * frame["height"], steps=6)
        page.mouse.up()
        assert eventually(lambda: not np.allclose(cameras[1].position, before, atol=0.5))
        assert eventually(lambda: np.allclose(cameras[1].position, cameras[0].position, atol=0.05))
        page.set_viewport_size(NARROW)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        assert complaints == []
        page.close()


def on_screen(viewer: Viewer, point: Any) -> tuple[float, float]:
    """Pixel of a point [m] on the page."""
    camera = next(iter(viewer._server.get_clients().values())).camera
    ahead = np.array(camera.look_at) - np.array(camera.position)
    ahead /= np.linalg.norm(ahead)
    aside = np.cross(ahead, (0.0, 0.0, 1.0))
    aside /= np.linalg.norm(aside)
    offset = np.asarray(point) - camera.position
    scale = SMALL["height"] / 2.0 / np.tan(camera.fov / 2.0) / (offset @ ahead)
    above = np.cross(aside, ahead)
    return SMALL["width"] / 2.0 + scale * (offset @ aside), SMALL["height"] / 2.0 - scale * (offset @ above)


def test_objects_are_edited_with_the_mouse_and_saved_with_the_same_bits(browser: Any, tmp_path: Path) -> None:
    def stage(world: ph.World) -> WorldStage:
        return WorldStage(world, "velodyne/vlp-16", pose=ph.Pose((0, 0, 2)), seed=7)

    make = lambda: WorldDocument.of_source("cuboids", None, {})  # noqa: E731
    with running(Viewer(stage(ph.World.load("cuboids")), port=0, edit=make)) as viewer:
        page, complaints = opened(browser, viewer.url)
        page.wait_for_selector("text=points of")
        page.get_by_role("tab", name="Edit").click()
        page.get_by_role("button", name="start editing").click()
        page.wait_for_selector("text=0 edits, 0 undone")
        page.get_by_role("button", name="place in front of the camera").click()
        page.wait_for_selector("text=1 edits")
        document = viewer._editor._edits.document
        box = document.world.objects[-1]
        page.wait_for_timeout(1500)  # the gizmo is drawn by the page
        # The arrow along y of the gizmo, which is as long as 0.7 times the diagonal of the box.
        begin, end = (on_screen(viewer, box.pose.xyz + np.array([0.0, along, 0.0])) for along in (1.0, 2.5))
        page.mouse.move(*begin)
        page.wait_for_timeout(300)
        page.mouse.down()
        page.mouse.move(*end, steps=8)
        page.mouse.up()
        page.wait_for_selector("text=2 edits")
        moved = viewer._editor._edits.document.world.objects[-1]
        # The drag starts where the pointer first moves; the arrow follows the pointer along its axis.
        assert moved.pose.xyz[1] - box.pose.xyz[1] == pytest.approx(1.5, abs=0.3)
        assert moved.pose.xyz[[0, 2]] == pytest.approx(box.pose.xyz[[0, 2]], abs=1e-5)
        page.locator('input[value="object"]').fill("crate")
        page.get_by_role("button", name="set label").click()
        page.wait_for_selector("text=3 edits")
        page.get_by_role("button", name="copy").click()
        page.wait_for_selector("text=4 edits")
        page.get_by_role("button", name="undo").click()
        page.wait_for_selector("text=3 edits, 1 undone")
        page.get_by_role("button", name="redo").click()
        page.wait_for_selector("text=4 edits, 0 undone")
        page.locator('input[value$="-edited.yaml"]').fill(str(tmp_path / "edited.yaml"))
        page.get_by_role("button", name="save", exact=True).click()
        page.wait_for_selector("text=saved")
        assert eventually((tmp_path / "edited.yaml").exists)
        assert eventually(lambda: not viewer.session.is_due)
        edited = viewer.session.measured.cloud
        page.set_viewport_size(WIDE)
        assert lowest_edge(page) <= WIDE["height"]
        assert complaints == []
        page.close()
    again = Session(stage(ph.World.load(tmp_path / "edited.yaml"))).update()
    assert again is not None
    assert "crate" in {item.label for item in ph.World.load(tmp_path / "edited.yaml").objects}
    assert again.measured.cloud.xyz.tobytes() == edited.xyz.tobytes()
    for name, values in edited.fields.items():
        assert again.measured.cloud.fields[name].tobytes() == values.tobytes(), name
