"""Progress pages of calibrations in a browser: docs/images/calibration-{,boards-}view.png."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from page import IMAGES, MOST_BYTES
from PIL import Image
from playwright.sync_api import sync_playwright

import parhelion as ph
from parhelion.calibrate.boards.boards import BoardCalibration, Stage, calibrate_boards
from parhelion.calibrate.boards.example import write_example
from parhelion.calibrate.boards.report import board_watch_page
from parhelion.calibrate.drive.drive import DriveCalibration, calibrate_drive
from parhelion.calibrate.drive.report import STAGES, watch_page
from parhelion.calibrate.range_images import range_image

BOARDS_SENSOR, DRIVE_SENSOR = "velodyne/vlp-16", "ouster/os0-32"
MOMENT, DRIVE_MOMENT = Stage("profile", "epoxy"), "overlap"
"""Stages after which the pictures are taken."""
BOARDS_PARTS = (
    "h1", ".tiles", "#stages", "#curves h2", "#curves figure:last-of-type", "#boards h2",
    "#boards figure:last-of-type", "#boards .key",
)  # fmt: skip
DRIVE_PARTS = ("header", "#stages", "#curves h2", "#curves figure:first-of-type", "#curves figure:nth-of-type(2)")
"""Parts of the pages that the pictures show."""
KEEP = """parts => {
  const kept = parts.map(part => document.querySelector(part));
  document.querySelectorAll("main *").forEach(one => {
    if (!kept.some(part => part.contains(one) || one.contains(part))) one.style.display = "none";
  });
}"""


def boards_page() -> str:
    """Progress page during a calibration from the example boards."""
    pages = []

    def watch(stage: Stage, found: BoardCalibration) -> None:
        if stage == MOMENT:
            pages.append(board_watch_page(found, "boards.yaml"))

    with tempfile.TemporaryDirectory() as place:
        calibrate_boards(write_example(place, BOARDS_SENSOR), ph.Lidar(BOARDS_SENSOR).config, watch=watch)
    return pages[0]


def drive_page() -> str:
    """Progress page during a calibration from five revolutions in the city."""
    world = ph.World.load("city")
    x, y, _ = world.viewpoint.xyz
    poses = [ph.Pose((x + 3.0 * k, y, 1.4)) for k in range(5)]
    scans = ph.Lidar(DRIVE_SENSOR).scan_many(world, poses, seed=1, time=[0.1 * k for k in range(5)])
    frames = [range_image(scan, f"turn {k}") for k, scan in enumerate(scans)]
    pages = []
    stages = list(STAGES)

    def watch(stage: str, found: DriveCalibration) -> None:
        if stage == DRIVE_MOMENT:
            pages.append(watch_page(found, "drive.pcap", stages[: stages.index(stage) + 1]))

    calibrate_drive(frames, ph.Lidar(DRIVE_SENSOR).config, watch=watch)
    return pages[0]


def take(content: str, parts: Sequence[str], file: Path) -> None:
    """Write a picture of some parts of a page."""
    with sync_playwright() as control:
        program = control.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = program.new_page(viewport={"width": 1100, "height": 900})
        tab.set_content(content)
        tab.evaluate(KEEP, list(parts))
        seen = tab.screenshot(full_page=True)
        program.close()
    Image.open(io.BytesIO(seen)).convert("RGB").quantize(192).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")
    if file.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{file}: larger than {MOST_BYTES / 1e3:.0f} kB")


def main() -> None:
    """Calibrate, and take both pictures."""
    take(drive_page(), DRIVE_PARTS, IMAGES / "calibration-view.png")
    take(boards_page(), BOARDS_PARTS, IMAGES / "calibration-boards-view.png")


if __name__ == "__main__":
    main()
