"""`parhelion calibrate` and `parhelion identify`, as a user types them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrate_rigs import recording, simulated_drive
from parhelion import Lidar
from parhelion.calibrate.boards.example import SETUPS, TRUTHS, make_shots, write_text
from parhelion.core.clouds import PointCloud
from parhelion.io.captures import write_capture
from parhelion.live.web import LivePage
from parhelion.makers.ouster.metadata import describe, read_metadata

Run = Callable[..., Any]
Fails = Callable[..., str]
VLP = "velodyne/vlp-16"


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of two boards and the file that names them."""
    folder = tmp_path_factory.mktemp("boards")
    setup = replace(SETUPS[VLP], revolutions=3)
    for number, name in enumerate(("foam", "epoxy")):
        write_text(make_shots(TRUTHS[VLP][name], setup, VLP, seed=number), folder / f"{name}.csv")
    file = folder / "boards.yaml"
    file.write_text("boards:\n  - {material: foam, recording: foam.csv}\n  - {material: epoxy, recording: epoxy.csv}\n")
    return file


def test_a_real_drive_becomes_a_sheet_and_a_page(run: Run, tmp_path: Path) -> None:
    file, sheet, page = recording("os0-32"), tmp_path / "my-lidar.yaml", tmp_path / "report.html"
    done = run("calibrate", file, "--sensor", "ouster/os0-32", "-o", sheet, "--report", page)
    assert done.exit_code == 0, done.output
    assert "receiver.threshold_photons" in done.stdout
    assert "Unchanged from the preset" in done.stdout
    assert Lidar(sheet).config.calibration is not None
    text = page.read_text(encoding="utf-8")
    assert text.count('<svg class="plot"') == 8
    assert text.count("<script") == 1  # the one that saves figures
    # The sheet sends packets as the sensor does, with the angles of that very unit.
    again = tmp_path / "again.pcap"
    done = run("scan", "--world", "mixed-objects", "--sensor", sheet, "-o", again)
    assert done.exit_code == 0, done.output
    real, own = (describe(read_metadata(one.with_suffix(".json"))) for one in (file, again))
    np.testing.assert_allclose(own.altitude_deg, real.altitude_deg, atol=1e-4)
    np.testing.assert_allclose(own.azimuth_deg, real.azimuth_deg, atol=1e-4)
    assert own.model == real.model == "ouster/os0-32"
    assert len(PointCloud.load(again)) > 1000


def test_boards_become_a_sheet_a_page_and_names_of_materials(run: Run, boards: Path, tmp_path: Path) -> None:
    sheet, page = tmp_path / "my-lidar.yaml", tmp_path / "boards.html"
    done = run("calibrate", boards, "--sensor", VLP, "-o", sheet, "--report", page)
    assert done.exit_code == 0, done.output
    assert "epoxy" in done.stdout
    # Curves of each material, and the points of each recording.
    assert page.read_text(encoding="utf-8").count('class="panels"') == 4
    shots = make_shots(TRUTHS[VLP]["epoxy"], replace(SETUPS[VLP], revolutions=1, outliers=0.0), VLP, seed=8)
    points = shots.rows(~shots.lost & (np.abs(shots.points[:, 1]) < 2.5) & (shots.points[:, 0] < 2.6))
    cloud = PointCloud(points.points.astype(np.float32), {"intensity": points.intensity.astype(np.float32)})
    cloud.save(tmp_path / "cloud.npz")
    named = tmp_path / "named.npz"
    done = run("identify", tmp_path / "cloud.npz", "--sensor", sheet, "-o", named)
    assert done.exit_code == 0, done.output
    first = next(line for line in done.stdout.splitlines() if "%" in line)
    assert first.split()[0] == "epoxy"
    found = PointCloud.load(named)
    assert found.fields["probability"].max() <= 1.0
    assert set(found.names["material"].values()) == {"foam", "epoxy", "none"}


def test_boards_are_watched_material_by_material(
    run: Run, boards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    monkeypatch.setattr(LivePage, "show", lambda self, render, final=False: pages.append(render()))
    monkeypatch.setattr(LivePage, "wait", lambda self: None)
    done = run("calibrate", boards, "--sensor", VLP, "-o", tmp_path / "my-lidar.yaml", "--view", "--port", 0)
    assert done.exit_code == 0, done.output
    stages = [re.search(r"(\d+) of 9</b><span>stages done", page) for page in pages]
    assert [int(one[1]) for one in stages if one] == [*range(10), 9]
    pictures = [re.findall('role="group" aria-label="([^"]+)"', page) for page in pages]
    assert pictures[2:6] == [["Points of foam.csv"], *[["foam", "Points of foam.csv"]] * 3]
    assert pictures[-1] == ["foam", "epoxy", "Points of foam.csv", "Points of epoxy.csv"]
    assert "finding the board in epoxy.csv" in pages[5]
    assert "All stages are done" in pages[-1]


def test_two_drives_are_reported_side_by_side(run: Run, tmp_path: Path) -> None:
    """Two halves of one drive agree, and the console reports it field by field."""
    files = [tmp_path / name for name in ("a.pcap", "b.pcap")]
    for number, file in enumerate(files):
        write_capture(simulated_drive()[3 * number : 3 * number + 2], file)
    sheet, page = tmp_path / "my-lidar.yaml", tmp_path / "report.html"
    done = run("calibrate", *files, "--sensor", "ouster/os0-32", "-o", sheet, "--report", page, "--unknown", "usual")
    assert done.exit_code == 0, done.output
    assert "Comparison of the recordings" in done.stdout
    assert "Comparison of recordings" in page.read_text(encoding="utf-8")
    section = Lidar(sheet).config.calibration
    assert section is not None
    assert section.recording == "a.pcap, b.pcap"
    assert section.unknown == "usual"


def test_bad_input_is_one_sentence(fails: Fails, boards: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "my-lidar.yaml"
    to = ("--sensor", VLP, "-o", sheet)
    assert "no such file" in fails("calibrate", tmp_path / "none.pcap", *to)
    assert "give a boards file alone" in fails("calibrate", boards, boards, *to)
    assert "needs a name that ends in .yaml" in fails(
        "calibrate", boards, "--sensor", VLP, "-o", tmp_path / "my-lidar.json"
    )
    file = tmp_path / "boards.yaml"
    file.write_text("boards: [{material: foam, recording: foam.txt}]\n")
    (tmp_path / "foam.txt").write_text("1.0,nan,0.0\n" * 40)
    assert "without an intensity" in fails("calibrate", file, *to)
    (tmp_path / "foam.txt").write_text(
        "".join(f"{1 / np.cos(a):.4f},5,{a:.4f}\n" for a in np.linspace(-0.05, 0.05, 300))
    )
    assert "only one angle" in fails("calibrate", file, *to)
    random = np.random.default_rng(1)
    (tmp_path / "foam.txt").write_text(
        "".join(f"{r:.3f},5,{a:.4f}\n" for r, a in random.uniform((1, -3), (9, 3), (900, 2)))
    )
    assert "no board found" in fails("calibrate", file, *to)
    assert "no calibrated materials" in fails("identify", _cloud(tmp_path), "--sensor", VLP)
    assert not sheet.exists()


def test_a_drive_that_never_moves_is_one_sentence(fails: Fails, run: Run, tmp_path: Path) -> None:
    scan, file, sheet = simulated_drive()[0], tmp_path / "parked.pcap", tmp_path / "my-lidar.yaml"
    write_capture([replace(scan, start_time=0.1 * k) for k in range(3)], file)
    command = ("calibrate", file, "--sensor", "ouster/os0-32", "-o", sheet)
    assert "stationary in 3 frames" in fails(*command)
    assert not sheet.exists()
    done = run(*command, "--index", 1)
    assert done.exit_code == 0, done.output
    assert Lidar(sheet).config.calibration is not None


def test_help_has_examples(run: Run) -> None:
    for command in ("calibrate", "identify"):
        text = run(command, "--help").stdout
        assert f"parhelion {command} " in text.split("Examples:")[1]


def _cloud(folder: Path) -> Path:
    PointCloud(np.random.default_rng(1).random((50, 3)), {"intensity": np.ones(50)}).save(folder / "cloud.npz")
    return folder / "cloud.npz"
