"""The viewer as users see it: the command, its page in a real browser, and two pages at the same time."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
pytest.importorskip("viser", reason="the package viser is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

WAIT_MS = 30_000
NOTHING_ELSEWHERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
RAIN_MAX, FOG_MAX = "100", "2000"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of a viewer in a separate process; at the end Ctrl-C must close it cleanly."""
    command = [sys.executable, "-m", "parhelion", "view", "--world", "cuboids", "--sensor", "velodyne/vlp-16"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--seed", "7"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        yield found[0]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert process.returncode == 130
        assert out.strip() == "closed"
        assert err == ""
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    flags = [
        "--no-sandbox",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
        "--disable-background-networking",
    ]
    with playwright.sync_playwright() as control:
        program = control.chromium.launch(executable_path=CHROMIUM, args=[*flags, NOTHING_ELSEWHERE])
        yield program
        program.close()


class Visit:
    """A page with all its requests and error messages."""

    def __init__(self, browser: Any, url: str) -> None:
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_page(viewport={"width": 800, "height": 480})
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("websocket", lambda socket: self.asked.append(socket.url))
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(url)
        self.page.wait_for_selector("text=points of")
        self.page.get_by_role("tab", name="Weather").click()

    def points(self) -> int:
        """Number of points shown in the panel."""
        text = self.page.get_by_text("points of").first.inner_text()
        return int(re.sub(r"\D", "", text.split("points")[0]))

    def slider(self, top: str) -> Any:
        return self.page.locator(f'[role=slider][aria-valuemax="{top}"]')

    def coloured_pixels(self) -> int:
        """Number of pixels that are clearly not grey: points, in the colours of intensity."""
        pixels = picture_of(self.page.locator("canvas[data-engine]").screenshot())[:, :440].astype(int)
        return int(np.count_nonzero(pixels.max(axis=2) - pixels.min(axis=2) > 60))


def picture_of(data: bytes) -> np.ndarray[Any, Any]:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def eventually(happens: Callable[[], bool], seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happens():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def first(browser: Any, url: str) -> Visit:
    return Visit(browser, url)


def test_the_page_shows_the_cloud(first: Visit) -> None:
    assert first.page.get_by_text("Parhelion · cuboids").count() == 1
    assert 5_000 < first.points() < 28_928
    assert eventually(lambda: first.coloured_pixels() > 1_000)


def test_a_slider_changes_the_cloud(first: Visit) -> None:
    before = first.points()
    first.slider(RAIN_MAX).focus()
    first.page.keyboard.press("End")
    assert eventually(lambda: first.points() != before)
    rainy = first.points()
    first.page.keyboard.press("Home")
    assert eventually(lambda: first.points() == before), (before, rainy, first.points())


def test_two_pages_share_one_state(first: Visit, browser: Any, url: str) -> None:
    second = Visit(browser, url)
    alone = first.points()
    assert second.points() == alone
    second.slider(FOG_MAX).focus()
    second.page.keyboard.press("Home")
    assert eventually(lambda: second.points() != alone and first.points() == second.points())
    assert first.slider(FOG_MAX).get_attribute("aria-valuenow") == "10"
    second.page.close()  # closing a page does not affect the others
    first.slider(FOG_MAX).focus()
    first.page.keyboard.press("End")
    assert eventually(lambda: first.points() == alone)
    assert second.complaints == []


def test_a_click_reads_a_point(first: Visit) -> None:
    first.page.get_by_role("tab", name="View").click()
    first.page.locator("canvas[data-engine]").click(position={"x": 240, "y": 380})
    assert eventually(lambda: first.page.locator("td").count() > 20)
    cells = first.page.locator("td").all_inner_texts()
    facts = dict(zip(cells[::2], cells[1::2], strict=True))
    assert {"x, y, z", "range", "intensity", "reflectivity", "ring", "time", "label", "origin"} <= set(facts)
    assert re.fullmatch(r"\d+\.\d+ m", facts["range"]), facts
    assert re.fullmatch(r"surface \(0\)", facts["origin"].strip()), facts


def test_time_goes_on_while_playing(first: Visit) -> None:
    first.page.get_by_role("button", name="play").click()
    assert eventually(lambda: float(first.slider("60").get_attribute("aria-valuenow")) > 0.05)
    first.page.get_by_role("button", name="pause").click()
    assert eventually(lambda: first.page.get_by_role("button", name="play").count() == 1)


def test_the_view_is_saved_as_png(first: Visit) -> None:
    with first.page.expect_download() as waiting:
        first.page.get_by_role("button", name="save PNG").click()
    assert waiting.value.suggested_filename == "parhelion-cuboids.png"
    picture = picture_of(waiting.value.path().read_bytes())
    assert picture.shape[1] > 400
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100


def test_nothing_leaves_this_machine_and_nothing_is_wrong(first: Visit, url: str) -> None:
    elsewhere = [asked for asked in first.asked if not re.match(r"(http|ws)://127\.0\.0\.1:\d+|data:|blob:", asked)]
    assert first.asked
    assert elsewhere == []
    assert first.complaints == []
