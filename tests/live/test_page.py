"""The progress page: access control, content, and the command that opens it."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from calibrate_rigs import simulated_drive
from parhelion.calibrate.boards.example import SETUPS, TRUTHS, make_shots, write_text
from parhelion.calibrate.drive.report import STAGES
from parhelion.core.errors import ConfigError
from parhelion.io.captures import write_capture
from parhelion.live.web import LivePage


@pytest.fixture
def page() -> Iterator[LivePage]:
    with LivePage() as one:
        yield one


def get(page: LivePage, path: str = "/", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=5)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode("utf-8")
    finally:
        connection.close()


def test_a_document_is_drawn_once_and_the_last_is_not_fetched_again(page: LivePage) -> None:
    drawn: list[str] = []

    def render(words: str) -> str:
        drawn.append(words)
        return words

    assert "Nothing to show yet" in get(page)[2]
    page.show(lambda: render("one"))
    for _ in range(2):
        status, headers, text = get(page)
        assert (status, text, headers["Refresh"]) == (200, "one", "1")
    assert drawn == ["one"]
    page.show(lambda: render("two"), final=True)
    status, headers, text = get(page)
    assert text == "two"
    assert "Refresh" not in headers
    assert get(page, "/other")[0] == 404


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}],
)
def test_pages_of_other_sites_are_refused(page: LivePage, headers: dict[str, str]) -> None:
    page.show(lambda: "secret")
    status, _, text = get(page, **headers)
    assert status == 403
    assert "secret" not in text
    assert get(page, Host="localhost", Origin=f"http://127.0.0.1:{page.port}")[0] == 200


def test_who_shows_does_not_wait_for_who_looks(page: LivePage) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go_on.wait(5)
        return "slow"

    page.show(slow)
    answers: list[str] = []
    looks = threading.Thread(target=lambda: answers.append(get(page)[2]))
    looks.start()
    assert begun.wait(5)
    page.show(lambda: "next")  # would hang if it waited for the drawing
    go_on.set()
    looks.join(5)
    assert answers == ["slow"]
    assert get(page)[2] == "next"


def test_a_port_in_use_is_reported(page: LivePage) -> None:
    with pytest.raises(ConfigError, match="choose another with --port"):
        LivePage(page.port)
    with pytest.raises(ConfigError, match="from 0 to 65535"):
        LivePage(70_000)


def drive(folder: Path) -> list[str]:
    write_capture(simulated_drive()[:2], folder / "drive.pcap")
    return [str(folder / "drive.pcap"), "--sensor", "ouster/os0-32"]


def boards(folder: Path) -> list[str]:
    sensor = "slamtec/rplidar-a1"
    shots = make_shots(TRUTHS[sensor]["foam"], replace(SETUPS[sensor], revolutions=20), sensor, seed=1)
    write_text(shots, folder / "foam.txt")
    (folder / "boards.yaml").write_text("boards: [{material: foam, recording: foam.txt}]\n")
    return [str(folder / "boards.yaml"), "--sensor", sensor]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recorded", "done", "points", "curve"),
    [
        (drive, len(STAGES), "img[alt='Points of Overlap']", "figure:has-text('Range noise') svg.plot"),
        (boards, 4, "[aria-label='Points of foam.txt']", "[aria-label='foam'] svg.plot"),
    ],
)
def test_the_command_shows_its_stages_in_a_browser_and_ends_with_ctrl_c(
    tmp_path: Path, recorded: Callable[[Path], list[str]], done: int, points: str, curve: str
) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    command = [sys.executable, "-m", "parhelion", "calibrate", *recorded(tmp_path)]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "my.yaml"), "--view", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert url
        with playwright.sync_playwright() as control:
            program = control.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = program.new_page()
            asked: list[str] = []
            tab.on("request", lambda request: asked.append(request.url))
            tab.goto(url[0])
            tab.wait_for_selector("text=All stages are done", timeout=60_000)
            assert tab.locator("td", has_text=re.compile("^done$")).count() == done
            assert tab.locator(points).count() == 1
            assert tab.locator(curve).first.evaluate("chart => chart.getBoundingClientRect().width") > 100
            assert all(one.startswith((url[0], "data:")) for one in asked)
            program.close()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
        assert process.returncode == 0
        assert out.strip().endswith("closed")
        assert (tmp_path / "my.yaml").exists()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
