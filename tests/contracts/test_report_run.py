"""Run report: complete, correct, safe, reproducible, and readable in a real browser."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.outputs.report.collect import RunReport
from parhelion.outputs.report.frames import ScanCounts
from parhelion.pictures import export
from parhelion.scenario import Scenario
from run_rigs import ONE_WALL

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=alert(1)> \"yard\" & co"

DRIVE: dict[str, Any] = {
    "name": HOSTILE,
    "seed": 7,
    "duration_s": 0.5,
    "world": "yard.yaml",
    "outputs": [],
    "weather": {"rain_rate_mm_h": [[0, 5], [0.5, 40]], "wind_m_s": [2, 0, 0]},
    "vehicles": [
        {"name": "husky", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0]], "speed_m_s": 0.9}},
        {"name": "car", "motion": {"spline": {"points": [[-8, 4, 0], [0, 4, 0], [8, 4, 0]], "max_speed_m_s": 8}},
         "body": {"shape": {"kind": "box", "size_m": [4, 1.8, 1.5]}, "pose": {"xyz": [0, 0, 0.75]}, "label": "car"}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "husky",
         "mount": {"xyz": [0, 0, 0.8]}, "options": {"sub_rays": 1}},
        {"name": "flat", "type": "lidar", "model": "hokuyo/utm-30lx", "mount": {"xyz": [3, 3, 1]},
         "rate_hz": 40, "options": {"sub_rays": 1}},
        {"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "husky", "rate_hz": 200},
        {"name": "wheels", "type": "odometry", "model": "clearpath/husky", "vehicle": "husky"},
        {"name": "air", "type": "barometer", "model": "bosch/bmp388", "vehicle": "husky"},
    ],
}  # fmt: skip


class Elements(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    (place / "yard.yaml").write_text(yaml.safe_dump(ONE_WALL))
    Scenario.from_mapping(DRIVE, place).run(place / "whole")
    return place


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "whole" / "report.html").read_text(encoding="utf-8")


def lasting(page: str) -> str:
    """Report without the parts that depend on wall time."""
    kept, cuts = re.subn(r'<(span|section)[^>]*class="timing".*?</\1>', "", page, flags=re.DOTALL)
    assert cuts == 2
    return kept


def clouds(place: Path) -> list[ph.PointCloud]:
    return [ph.PointCloud.load(file) for name in ("flat", "top") for file in sorted((place / name).iterdir())]


def in_groups(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def test_it_holds_all_its_parts(page: str, folder: Path) -> None:
    found = Elements(page)
    anchors = {attributes.get("id") for tag, attributes in found.tags if tag == "section"}
    assert anchors == {
        "points", "map", "scans", "time", "streams", "sensors", "weather", "labels", "actors", "files", "origin",
        "timings", "collisions",
    }  # fmt: skip
    words = " ".join(found.text)
    for wanted in ("VLP", "clearpath/husky", "5 → 40 mm/h", "at 0, 0.5 s", "(2, 0, 0) m/s", ph.__version__):
        assert wanted.lower() in words.lower(), wanted
    pictures = [attributes["src"] or "" for tag, attributes in found.tags if tag == "img"]
    assert len(pictures) == 1 + 2 * 3, "all points; range and intensity of three scans; the flat lidar has curves"
    from PIL import Image

    for address in pictures:
        Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).verify()
    assert 50_000 < len(page) < 2_000_000


def test_its_numbers_are_those_of_the_files(page: str, folder: Path) -> None:
    words = [word.strip() for word in Elements(page).text]
    there = clouds(folder / "whole")
    assert in_groups(sum(map(len, there))) in words
    labels: dict[str, int] = {}
    for cloud in there:
        for label, count in zip(*np.unique(cloud.label, return_counts=True), strict=True):
            word = cloud.names["label"].get(int(label), "in the air") if label else "in the air"
            labels[word] = labels.get(word, 0) + int(count)
    assert {"road", "building", "car", "in the air"} <= set(labels)
    for word, count in labels.items():
        assert words[words.index(word, words.index("Labels")) + 1] == in_groups(count), word
    rain = sum(int(np.sum(cloud.origin == 1)) for cloud in there)
    rows = [json.loads(line) for line in (folder / "whole" / "statistics.jsonl").read_text().splitlines()]
    assert sum(row["origins"].get("rain", 0) for row in rows) == rain > 0
    manifest = json.loads((folder / "whole" / "manifest.json").read_text())
    assert "statistics.jsonl" in manifest["files"]
    assert manifest["files"]["imu.csv"] in page
    on_car = sum(row["instances"].get(car, 0) for row in rows for car in row["instances"])
    assert on_car == labels["car"]


def test_words_of_a_scenario_do_not_run_and_nothing_is_fetched(page: str) -> None:
    found = Elements(page)
    assert HOSTILE in "".join(found.text)
    assert not [tag for tag, _ in found.tags if tag in ("link", "iframe", "object", "embed", "base", "form")]
    assert page.count("<script") == page.count(f"<script>{export.SCRIPT}</script>") == 1
    sha = base64.b64encode(hashlib.sha256(export.SCRIPT.encode()).digest()).decode()
    (policy,) = (one for _, one in found.tags if one.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{sha}'" in (policy["content"] or "")
    for tag, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "href", "srcset", "action"):
            value = attributes.get(name)
            assert value is None or value.startswith("data:image/png;base64,"), (tag, name, value)
    assert "@import" not in page
    assert "url(" not in page
    assert ("meta", "default-src 'none'") in [
        (tag, (attributes.get("content") or "").partition(";")[0]) for tag, attributes in found.tags
    ]


def test_it_is_the_same_again_and_after_a_stop(page: str, folder: Path) -> None:
    class Stop(Exception):
        pass

    def stop(there: int, total: int) -> None:
        if there >= 12:
            raise Stop

    with pytest.raises(Stop):
        Scenario.from_mapping(DRIVE, folder).run(folder / "parts", progress=stop)
    counts = folder / "parts" / "statistics.jsonl"
    kept = counts.read_bytes()
    counts.write_bytes(kept[: len(kept) // 2])  # the machine went down while it was written
    summary = Scenario.from_mapping(DRIVE, folder).run(folder / "parts")
    assert summary.found >= 12
    assert summary.report == folder / "parts" / "report.html"
    assert lasting(summary.report.read_text(encoding="utf-8")) == lasting(page)
    assert counts.read_bytes() == (folder / "whole" / "statistics.jsonl").read_bytes()
    manifests = [(folder / place / "manifest.json").read_bytes() for place in ("parts", "whole")]
    assert manifests[0] == manifests[1]


def test_runs_without_lidars_without_vehicles_and_without_scans(folder: Path) -> None:
    without = copy.deepcopy(DRIVE)
    without["sensors"] = without["sensors"][2:]
    del without["weather"], without["name"]
    first = Scenario.from_mapping(without, folder).run(folder / "without").report.read_text(encoding="utf-8")
    assert "Run of a scenario" in first
    assert 'id="scans"' not in first
    assert 'id="streams"' in first
    assert "Clear air" in first
    assert not (folder / "without" / "statistics.jsonl").exists()
    short = {key: DRIVE[key] for key in ("seed", "world", "outputs")} | {
        "duration_s": 0.01,
        "sensors": [{"name": "post", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 1]}}],
    }
    second = Scenario.from_mapping(short, folder).run(folder / "short").report.read_text(encoding="utf-8")
    assert "0 scans" in second
    Scenario.from_mapping({**short, "report": False}, folder).run(folder / "none")
    assert {file.name for file in (folder / "none").iterdir()} == {"manifest.json", "inputs.json", "truth", "post"}


def test_ten_thousand_scans_stay_a_small_page(folder: Path) -> None:
    fields = copy.deepcopy(DRIVE) | {"duration_s": 1000.0}
    fields["vehicles"], fields["sensors"] = fields["vehicles"][1:], [{**fields["sensors"][0], "vehicle": "car"}]
    place = folder / "long"
    place.mkdir()
    scenario = Scenario.from_mapping(fields, folder)
    report = RunReport(scenario, place)
    for number in range(10_000):
        row = ScanCounts("top", number, number / 10, 20_000 + number % 7, 28_000, 8_000, (1.0, 9.0, 80.0),
                         {"surface": 19_000, "rain": 1_000 + number}, {"road": 20_000}, {})  # fmt: skip
        report.tally.rows["top", number] = row
    (place / "top").mkdir()
    hashes = {}
    for number in range(10_000):
        name = f"top/{number:06d}.pcd"
        hashes[name] = f"{number:064x}"
    (place / "top" / "000000.pcd").write_bytes(b"x")
    for name in list(hashes)[1:]:
        (place / name).symlink_to("000000.pcd")
    text = report.write(hashes).read_text(encoding="utf-8")
    assert "10 000 scans" in text
    assert "top/000000.pcd … 009999.pcd" in text
    assert len(text) < 1_000_000
    assert not report.wants("top", 1)
    assert report.wants("top", 9_999), "the last scan is drawn"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_shows_it_wide_and_narrow_without_asking_anyone(page: str, folder: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    flags = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    asked: list[str] = []
    sent: list[str] = []
    with playwright.sync_playwright() as control:
        program = control.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            for width, scheme in ((1400, "light"), (420, "dark")):
                sheet = program.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
                sheet.on("request", lambda request: asked.append(request.url))
                sheet.on("dialog", lambda dialog: sent.append(dialog.message))
                sheet.on("console", lambda message: sent.append(message.text))
                sheet.goto((folder / "whole" / "report.html").as_uri())
                assert sheet.title() == HOSTILE.replace("  ", " ")
                wide = sheet.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, "only tables may be pushed sideways, in frames of their own"
                broken = "[...document.images].filter(i => !i.complete || i.naturalWidth === 0).length"
                assert sheet.evaluate(broken) == 0
                sheet.close()
        finally:
            program.close()
    assert sent == []
    assert all(address.startswith(("file:", "data:image/png")) for address in asked), asked
