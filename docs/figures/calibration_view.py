"""The page that follows a calibration from boards, as a browser shows it: docs/images/calibration-boards-view.png."""

from __future__ import annotations

import io
import shutil
import tempfile

from page import IMAGES, MOST_BYTES
from PIL import Image
from playwright.sync_api import sync_playwright

import parhelion as ph
from parhelion.calibrate.boards.boards import BoardCalibration, Stage, calibrate_boards
from parhelion.calibrate.boards.example import write_example
from parhelion.calibrate.boards.report import BoardWatch

SENSOR = "velodyne/vlp-16"
MOMENT = Stage("profile", "epoxy")
"""The stage after which the picture is taken."""
PARTS = (
    "h1", ".tiles", "#stages", "#curves h2", "#curves figure:last-of-type", "#boards h2",
    "#boards figure:last-of-type", "#boards .key",
)  # fmt: skip
"""What is left on the page for the picture."""
KEEP = """parts => {
  const kept = parts.map(part => document.querySelector(part));
  document.querySelectorAll("main *").forEach(one => {
    if (!kept.some(part => part.contains(one) || one.contains(part))) one.style.display = "none";
  });
}"""


def main() -> None:
    """Calibrate the example, and take the picture."""
    look, pages = BoardWatch("boards.yaml"), []

    def watch(stage: Stage, found: BoardCalibration) -> None:
        if stage == MOMENT:
            pages.append(look.page(found))

    with tempfile.TemporaryDirectory() as place:
        calibrate_boards(write_example(place, SENSOR), ph.Lidar(SENSOR).config, watch=watch)
    file = IMAGES / "calibration-boards-view.png"
    with sync_playwright() as control:
        program = control.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = program.new_page(viewport={"width": 1100, "height": 900})
        tab.set_content(pages[0])
        tab.evaluate(KEEP, list(PARTS))
        seen = tab.screenshot(full_page=True)
        program.close()
    Image.open(io.BytesIO(seen)).convert("RGB").quantize(192).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")
    if file.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{file}: larger than {MOST_BYTES / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
