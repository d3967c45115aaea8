"""Pictures of the viewer in docs/viewer.md: a hall without its roof, a finished run, two folders side by side, editing.

    parhelion demo -o demo && python docs/figures/viewer_pages.py demo docs/images

The first argument is the folder of a finished run. Needs playwright and Chromium.
"""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

SIZE = {"width": 1400, "height": 900}
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def viewing(*arguments: str) -> Iterator[str]:
    """Address of a viewer in a separate process."""
    command = [sys.executable, "-m", "parhelion", "view", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0]
        process.send_signal(signal.SIGINT)


def take(browser: Any, url: str, file: Path, before: Callable[[Any], None], settle_s: float = 8.0) -> None:
    """Save a picture of a page after some actions on it."""
    page = browser.new_page(viewport=SIZE)
    page.set_default_timeout(120_000)
    page.goto(url)
    before(page)
    time.sleep(settle_s)
    for frame in page.frames:  # the note on software rendering
        for button in frame.locator(".mantine-Notification-closeButton").all():
            button.click()
    time.sleep(1.0)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(file, "JPEG", quality=82, optimize=True)
    page.close()


def ready(page: Any) -> None:
    page.wait_for_selector("text=points")


def at_the_end(page: Any) -> None:
    ready(page)
    page.get_by_role("tab", name="Layers").click()
    page.locator("[role=slider]").first.focus()
    page.keyboard.press("End")


def edited(page: Any) -> None:
    ready(page)
    page.get_by_role("tab", name="Edit").click()
    page.get_by_role("button", name="start editing").click()
    page.get_by_role("button", name="place in front of the camera").click()
    page.wait_for_selector("text=1 edits")


def main(run: str, images: Path) -> None:
    with sync_playwright() as control:
        browser = control.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        hall = "examples/warehouse.yaml"  # the page shows the path
        with viewing(run) as url:
            take(browser, url, images / "viewer-run.jpg", at_the_end)
        with tempfile.TemporaryDirectory() as folder:
            clouds, foggy = Path(run) / "clouds", Path(folder) / "foggy"
            command = [
                sys.executable,
                "-m",
                "parhelion",
                "weather",
                str(clouds),
                "-o",
                str(foggy),
                "--visibility",
                "200",
            ]
            subprocess.run(command, check=True)
            with viewing(str(clouds), str(foggy), "--colour", "range") as url:
                take(browser, url, images / "viewer-pair.jpg", lambda page: None, 20.0)
        with viewing(hall) as url:
            take(browser, url, images / "viewer-hall.jpg", ready)
            take(browser, url, images / "viewer-edit.jpg", edited)
        browser.close()


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve())
