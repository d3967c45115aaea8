"""Every kind of report page in a real browser, wide and narrow: nothing beyond the edge, and figures saved as files."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import parhelion as ph
from calibrate_rigs import simulated_drive
from nuscenes_rigs import write_results, write_set
from parhelion.calibrate.boards.example import SETUPS, TRUTHS, make_shots, write_text
from parhelion.campaign.report import page_of as campaign_page
from parhelion.campaign.study import Study
from parhelion.campaign.summary import summary_of
from parhelion.cli.app import app
from parhelion.evaluate.slam.study import RunResult
from parhelion.evaluate.slam.study import page_of as slam_page
from parhelion.io.captures import write_capture

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]

VLP = "velodyne/vlp-16"
LONG = "a-name-without-any-space-that-is-as-long-as-names-may-be-0123456"
DRIVE: dict[str, Any] = {
    "name": "yard",
    "duration_s": 0.3,
    "world": "yard.yaml",
    "outputs": [],
    "weather": {"rain_rate_mm_h": 25, "wind_m_s": [2, 0, 0]},
    "vehicles": [
        {"name": "husky", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0]], "speed_m_s": 0.9}},
        {"name": LONG, "motion": {"fixed": {"xyz": [4, 4, 0]}}},
    ],
    "sensors": [
        {"name": LONG, "type": "lidar", "model": VLP, "vehicle": "husky", "mount": {"xyz": [0, 0, 1]},
         "options": {"sub_rays": 1}},
        {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "husky"},
    ],
}  # fmt: skip
YARD = {
    "objects": [
        {"shape": {"kind": "plane", "size_m": [60, 60]}, "material": "concrete", "label": "road"},
        {"shape": {"kind": "box", "size_m": [1, 20, 4]}, "material": "brick", "pose": {"xyz": [12, 0, 2]}},
    ]
}
STUDY: dict[str, Any] = {
    "scenario": "drive.yaml",
    "vary": {
        f"sensors.{LONG}.model": [VLP, "ouster/os1-128", "hokuyo/utm-30lx"],
        "weather.rain_rate_mm_h": [0, 25],
        f"sensors.{LONG}.options.sub_rays": [1, 4],
    },
    "seeds": 3,
}
SITES: dict[str, Any] = {
    "world": "yard.yaml",
    "choose": 3,
    "candidates": [{"type": "anchor", "grid": {"x": [-10, 10], "y": [-10, 10], "z": [4]}}],
    "score": {"localisation": {"region": {"min": [-6, -6, 0], "max": [6, 6, 3]}, "cell_m": 1.0}},
}

BEYOND = """() => {
  const wide = document.documentElement.clientWidth, found = [];
  for (const one of document.body.querySelectorAll("*")) {
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height || one.parentElement.closest("svg")) continue;
    let scrolls = false;
    for (let up = one.parentElement; up; up = up.parentElement)
      scrolls ||= ["auto", "scroll"].includes(getComputedStyle(up).overflowX);
    if (!scrolls && (box.right > wide + 0.5 || box.left < -0.5)) found.push(one.outerHTML.slice(0, 100));
  }
  const page = document.documentElement.scrollWidth;
  return page > wide ? [...found, `the page is ${page} wide`] : found;
}"""
"""Elements that reach beyond the edge of the window, unless they lie in a frame that scrolls."""
CUT_OFF = """() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  return [...document.querySelectorAll(".wide")].filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => one.innerText.slice(0, 100));
}"""
"""Tables that can only be read by scrolling sideways, also in folded parts."""


def invoke(*arguments: object) -> None:
    result = CliRunner().invoke(app, [str(one) for one in arguments], prog_name="parhelion")
    assert result.exit_code == 0, result.output


def run_pages(place: Path) -> dict[str, Path]:
    invoke("run", place / "drive.yaml", "-o", place / "run")
    rates = f"weather.rain_rate_mm_h={','.join(str(25 * k) for k in range(2))}"
    invoke("run", place / "drive.yaml", "-o", place / "runs", "--set", rates, "--duration", 0.1)
    return {"run": place / "run" / "report.html", "comparison of runs": place / "runs" / "report.html"}


def campaign_pages(place: Path) -> dict[str, Path]:
    """Report of a campaign with made-up numbers, as those of its rows would be."""
    study = Study.from_mapping(STUDY, place)
    results = {
        row: {"row": row, "status": "done", "device": "cpu",
              "numbers": {name: 1234.5678 * (row + k) for k, name in enumerate(study.numbers)}}
        for row in range(len(study))
    }  # fmt: skip
    results[0] |= {"status": "failed", "error": f"{LONG}: " + "a long reason, " * 20}
    page = place / "campaign.html"
    page.write_text(campaign_page(study, results, summary_of(study, results), f"parhelion campaign {LONG} -o {LONG}"))
    return {"campaign": page}


def slam_pages(place: Path) -> dict[str, Path]:
    way = np.linspace(0.0, 150.0, 20)
    path = np.stack([way, 0.1 * way], 1).tolist()
    runs = [
        RunResult(method, weather, seed, 20, 3e4, 150.0, 0.1, 0.2, 0.3, 0.4, 5.6, 0.7, 0.8, 9.0, way.tolist(),
                  (0.01 * way).tolist(), 150.0, seed > 0, "the voxels are large", path, path)
        for method in ("kiss-icp", f"{LONG}:Odometry:depth=3") for weather in ("clear", "rain=25") for seed in range(2)
    ]  # fmt: skip
    page = place / "slam.html"
    page.write_text(slam_page(f"{LONG}/drive.yaml", runs, f"parhelion evaluate slam {LONG}"))
    return {"slam": page}


def evaluation_pages(place: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    clouds = [place / f"{LONG}-{name}.npz" for name in ("real", "sim")]
    for file in clouds:
        fields = {"intensity": rng.uniform(0, 100, 500).astype(np.float32)}
        ph.PointCloud(rng.uniform(-20, 20, (500, 3)), fields).save(file)
    invoke("evaluate", "clouds", *clouds, "-o", place / "clouds.html")
    box = "Car 0.00 0 0.00 100.00 100.00 160.00 160.00 1.50 1.80 4.20 {x} 1.60 {z} 0.30"
    (place / "labels.txt").write_text("\n".join(box.format(x=6 * k, z=10 + 20 * k) for k in range(5)))
    (place / "found.txt").write_text("\n".join(box.format(x=6 * k, z=10 + 20 * k) + " 0.9" for k in range(4)))
    invoke("evaluate", "detections", place / "labels.txt", place / "found.txt", "-o", place / "kitti.html")
    results = write_results(write_set(place / "set"), place / "found.json", error=0.3)
    invoke("evaluate", "detections", place / "set", results, "-o", place / "nuscenes.html")
    (place / "sites.yaml").write_text(yaml.safe_dump(SITES))
    invoke("evaluate", "placement", place / "sites.yaml", "-o", place / "placement.html")
    return {name: place / f"{name}.html" for name in ("clouds", "kitti", "nuscenes", "placement")}


def calibration_pages(place: Path) -> dict[str, Path]:
    files = [place / name for name in (f"{LONG}.pcap", "b.pcap")]
    for number, file in enumerate(files):
        write_capture(simulated_drive()[3 * number : 3 * number + 2], file)
    options = ("--sensor", "ouster/os0-32", "-o", place / "own.yaml", "--unknown", "usual", "--report")
    invoke("calibrate", *files, *options, place / "drives.html")
    setup = replace(SETUPS[VLP], revolutions=2)
    write_text(make_shots(TRUTHS[VLP]["foam"], setup, VLP, seed=1), place / "foam.csv")
    (place / "boards.yaml").write_text("boards:\n  - {material: foam, recording: foam.csv}\n")
    boards = place / "boards.html"
    invoke("calibrate", place / "boards.yaml", "--sensor", VLP, "-o", place / "vlp.yaml", "--report", boards)
    return {name: place / f"{name}.html" for name in ("drives", "boards")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
    (folder / "drive.yaml").write_text(yaml.safe_dump(DRIVE))
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]
    with playwright.sync_playwright() as control:
        program = control.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield program
        program.close()


@pytest.mark.parametrize(
    "made", [run_pages, campaign_pages, slam_pages, evaluation_pages, calibration_pages], ids=lambda made: made.__name__
)
def test_nothing_reaches_beyond_the_edge(place: Path, browser: Any, made: Callable[[Path], dict[str, Path]]) -> None:
    for name, file in made(place).items():
        for width in (1400, 400):
            complaints: list[str] = []
            sheet = browser.new_page(viewport={"width": width, "height": 900})
            sheet.on("console", lambda message, heard=complaints: heard.append(message.text))
            sheet.on("pageerror", lambda error, heard=complaints: heard.append(str(error)))
            sheet.goto(file.as_uri())
            assert sheet.evaluate(BEYOND) == [], (name, width)
            assert sheet.evaluate(CUT_OFF) == [], (name, width)
            assert complaints == [], (name, width)
            assert sheet.locator("figure > .save").count() == sheet.locator("figure:has(svg, img)").count(), name
            sheet.close()


def test_figures_and_tables_are_saved(place: Path, browser: Any) -> None:
    from PIL import Image

    slam_pages(place)
    sheet = browser.new_page(viewport={"width": 1400, "height": 900}, accept_downloads=True)
    sheet.goto((place / "slam.html").as_uri())

    def saved(button: Any) -> tuple[str, bytes]:
        with sheet.expect_download() as one:
            button.click()
        return one.value.suggested_filename, Path(one.value.path()).read_bytes()

    figure = sheet.locator("figure").first
    name, data = saved(figure.get_by_text("SVG", exact=True))
    assert name == "kiss-icp.svg"
    text = data.decode()
    assert text.startswith("<svg")
    assert "rain=25" in text, "the legend belongs to the figure"
    assert "var(" not in text, "the file needs no page for its colours"
    name, data = saved(figure.get_by_text("PNG", exact=True))
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.size[0] == 960  # twice the width of a chart
        assert len(set(picture.convert("RGB").getdata())) > 10
    name, data = saved(figure.get_by_text("CSV", exact=True))
    rows = list(csv.DictReader(data.decode().splitlines()))
    assert {row["curve"] for row in rows} == {"clear", "rain=25"}
    assert float(rows[-1]["x"]) == 150.0
    assert float(rows[-1]["y"]) == pytest.approx(1.5, rel=1e-5)
    name, data = saved(sheet.locator("#runs .save").get_by_text("CSV", exact=True))
    assert name == "all-runs.csv"
    table = list(csv.reader(data.decode().splitlines()))
    assert table[0][:4] == ["method", "weather", "seed", "scans"]
    assert len(table) == 9
    assert json.dumps(table[1][:3]) == '["kiss-icp", "clear", "0"]'
    sheet.close()
