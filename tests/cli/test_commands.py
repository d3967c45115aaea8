"""Commands that go well: what they write and what they print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.io import FORMATS
from parhelion.sensors.sheets import preset_names
from parhelion.surfaces.library import material, material_names
from parhelion.world.builtin import BUILTIN

SMALL_SCAN = ("scan", "--world", "cuboids", "--sensor", "velodyne/vlp-16", "--sub-rays", "1")


def test_scan_writes_what_the_api_gives(run, tmp_path: Path) -> None:
    file = tmp_path / "scan.npz"
    result = run(*SMALL_SCAN, "--pose", "1,-2,3,0,0,90", "--seed", 5, "--time", 0.5, "-o", file)
    assert result.exit_code == 0, result.output
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1)
    pose = ph.Pose((1, -2, 3), rpy_deg=(0, 0, 90))
    expected = lidar.scan(ph.World.load("cuboids"), pose=pose, seed=5, time=0.5)
    written = ph.PointCloud.load(file)
    assert np.array_equal(written.xyz, expected.xyz)
    assert np.array_equal(written.intensity, expected.intensity)
    assert isinstance(written, ph.Scan)
    assert written.start_time == 0.5


def test_scan_prints_the_counts(run, tmp_path: Path) -> None:
    file = tmp_path / "scan.pcd"
    result = run(*SMALL_SCAN, "-o", file)
    cloud = ph.PointCloud.load(file)
    text = result.stdout.replace(" ", "")
    assert f"points{len(cloud)}of28928shots" in text
    assert f"min{cloud.range.min():.2f}," in text
    assert f"max{cloud.range.max():.2f}m" in text
    grounds = int(np.sum(cloud.label == 120))
    assert f"ground{grounds}" in text
    assert "castsperbeam1.00" in text
    assert f"wrote {file}" in result.stdout


def test_scan_without_output_only_prints(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*SMALL_SCAN)
    assert result.exit_code == 0
    assert "points" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_several_scans_follow_the_path_of_a_world(run, tmp_path: Path) -> None:
    result = run(
        "scan", "-w", "harbour", "-s", "velodyne/vlp-16", "--sub-rays", 1,
        "--scans", 3, "--time", 20, "-o", tmp_path / "out",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == ["000000.pcd", "000001.pcd", "000002.pcd"]
    times = [ph.PointCloud.load(file).metadata["time"] for file in files]
    assert times == pytest.approx([20.0, 20.1, 20.2])
    world = ph.World.load("harbour")
    expected = ph.Lidar("velodyne/vlp-16", sub_rays=1).scan(world, trajectory=world.path, time=20.0)
    assert np.array_equal(ph.PointCloud.load(files[0]).xyz, expected.xyz)


def test_scan_options_reach_the_lidar(run, tmp_path: Path) -> None:
    file = tmp_path / "scan.pcd"
    options = ("--returns", "dual", "--no-noise", "--sampling", "fixed", "--rate", 20)
    result = run(*SMALL_SCAN[:-1], 3, *options, "-o", file)
    assert result.exit_code == 0, result.output
    metadata = ph.PointCloud.load(file).metadata
    assert (metadata["returns"], metadata["sampling"], metadata["rate_hz"]) == ("dual", "fixed", 20.0)
    expected = ph.Lidar("velodyne/vlp-16", sub_rays=3, returns="dual", noise=False, sampling="fixed", rate_hz=20)
    assert np.array_equal(ph.PointCloud.load(file).xyz, expected.scan(ph.World.load("cuboids")).xyz)


def test_scan_frames_and_lost_shots(run, tmp_path: Path) -> None:
    sensor, world, lost = (tmp_path / name for name in ("sensor.pcd", "world.pcd", "lost.pcd"))
    for file, options in ((sensor, ()), (world, ("--frame", "world")), (lost, ("--keep-lost",))):
        assert run(*SMALL_SCAN, "--pose", "5,6,2", *options, "-o", file).exit_code == 0
    in_sensor, in_world, with_lost = (ph.PointCloud.load(file) for file in (sensor, world, lost))
    assert in_world.frame == "world"
    assert np.allclose(in_world.xyz, in_sensor.xyz + np.array([5, 6, 2]), atol=1e-5)
    assert len(with_lost) == 28928
    assert int(np.isnan(with_lost.xyz[:, 0]).sum()) == 28928 - len(in_sensor)


def test_scan_of_a_mesh_file_with_a_material(run, tmp_path: Path) -> None:
    mesh = tmp_path / "wall.obj"
    mesh.write_text("v 5 -20 -20\nv 5 20 -20\nv 5 20 20\nv 5 -20 20\nf 1 2 3\nf 1 3 4\n")
    file = tmp_path / "wall.pcd"
    result = run(
        "scan", "-w", mesh, "--material", "brick", "-s", "velodyne/vlp-16", "--sub-rays", 1,
        "--pose", "0,0,0", "--no-noise", "-o", file,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    cloud = ph.PointCloud.load(file)
    assert set(cloud.names["material"].values()) == {"brick", "none"}
    assert np.allclose(cloud.xyz[:, 0], 5.0, atol=2e-3 + 1e-3)


def test_a_mesh_without_material_is_reported_in_one_warning_line(run, tmp_path: Path) -> None:
    mesh = tmp_path / "wall.obj"
    mesh.write_text("v 5 -20 -20\nv 5 20 -20\nv 5 20 20\nf 1 2 3\n")
    result = run("scan", "-w", mesh, "-s", "velodyne/vlp-16", "--sub-rays", 1, "--pose", "0,0,0")
    assert result.exit_code == 0
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("warning: ")
    assert "concrete" in lines[0]


def test_nothing_in_view_is_reported(run, tmp_path: Path) -> None:
    result = run(*SMALL_SCAN, "--pose", "0,0,5000")
    assert result.exit_code == 0
    assert "no shot returned" in result.stdout


def test_older_files_among_new_ones_are_reported(run, tmp_path: Path) -> None:
    assert run(*SMALL_SCAN, "--scans", 3, "-o", tmp_path).exit_code == 0
    result = run(*SMALL_SCAN, "--scans", 2, "-o", tmp_path)
    assert re.search(r"warning: .*1 older files .*000002\.pcd", result.stderr)


def test_convert_keeps_the_points(run, tmp_path: Path) -> None:
    first, second = tmp_path / "a.pcd", tmp_path / "b.ply"
    run(*SMALL_SCAN, "-o", first)
    result = run("convert", first, second)
    assert result.exit_code == 0, result.output
    before, after = ph.PointCloud.load(first), ph.PointCloud.load(second)
    assert np.array_equal(before.xyz, after.xyz)
    assert set(before.fields) == set(after.fields)


def test_convert_folder_skips_what_is_done(run, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    run(*SMALL_SCAN, "--scans", 3, "-o", source)
    target.mkdir()
    done = target / "000001.bin"
    done.write_bytes(b"finished earlier")
    result = run("convert", source, target, "--format", "kitti")
    assert result.exit_code == 0, result.output
    assert "converted 2 files" in result.stdout
    assert "skipped 1" in result.stdout
    assert done.read_bytes() == b"finished earlier"
    # One line for both files, not one each.
    assert result.stderr.count("warning:") == 1
    assert "ring" in result.stderr
    assert "(2 files)" in result.stderr
    assert run("convert", source, target, "--format", "kitti", "--force").exit_code == 0
    assert done.stat().st_size % 16 == 0
    assert done.stat().st_size > 1000


def test_sensors_lists_every_preset(run) -> None:
    result = run("sensors")
    assert result.exit_code == 0
    rows = {words[0]: words for words in map(str.split, result.stdout.splitlines()) if len(words) > 5}
    assert set(preset_names("lidar")) <= set(rows)
    assert rows["velodyne/vlp-16"][1:] == [
        "spinning",
        "16",
        "28",
        "928",
        "10",
        "33",
        "100",
        "903",
        "class/class/class/assumed/assumed/assumed",
    ]


def test_one_sensor_shows_its_sources(run) -> None:
    result = run("sensors", "velodyne/vlp-16")
    config = ph.Lidar("velodyne/vlp-16").config
    assert "28 928" in result.stdout
    assert f"{config.wavelength_nm:g} nm" in result.stdout
    assert all(source.title in result.stdout for source in config.sources)
    assert all(field in result.stdout for field in config.assumed)


@pytest.mark.parametrize("kind", ph.sensors())
def test_a_sheet_of_ones_own_is_known_by_its_fields(run, tmp_path: Path, kind: str) -> None:
    preset = ph.sensors()[kind][0]
    found = [file for file in Path(ph.__file__).parent.glob("sensors/**/*.yaml") if preset in file.as_posix()]
    own = tmp_path / "mine.yaml"
    own.write_text(found[0].read_text())
    result, expected = run("sensors", own), run("sensors", preset)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == expected.stdout.splitlines()[1:]
    # A misspelt field is reported for the kind that the other fields indicate.
    own.write_text(found[0].read_text() + "rate_hrz: 3\n")
    assert "rate_hrz" in run("sensors", own).stderr


def test_what_is_no_data_sheet_is_reported_in_one_sentence(run, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    for text in ("name: mine\nrate_hz: 10\n", "name: house\nstoreys: 3\n", "duration_s: 3\nworld: city\nsensors: []\n"):
        own.write_text(text)
        result = run("sensors", own)
        assert result.exit_code == 1
        kinds = ", ".join(ph.sensors())
        assert result.stderr == f"error: {own}: is not the data sheet of any kind of sensor ({kinds})\n"
    own.write_text("- 3\n")
    assert "expected the fields of a data sheet, got list" in run("sensors", own).stderr
    assert "no such file" in run("sensors", tmp_path / "missing.yaml").stderr


def test_worlds_lists_every_world_with_its_triangles(run) -> None:
    result = run("worlds")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in BUILTIN)
    assert f"{ph.World.load('cuboids').triangle_count}" in result.stdout


def test_one_world_in_detail_with_a_picture(run, tmp_path: Path) -> None:
    picture = tmp_path / "world.png"
    result = run("worlds", "boards-u", "--png", picture)
    assert result.exit_code == 0, result.output
    assert "floor" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_materials_lists_reflectances_at_the_wavelength(run) -> None:
    result = run("materials", "--wavelength", 1550)
    rows = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if len(line.split()) > 2}
    for name in material_names():
        assert rows[name] == f"{100 * material(name).reflectance_at(1550):.1f}"


def test_one_material_in_detail_with_a_picture(run, tmp_path: Path) -> None:
    picture = tmp_path / "leaf.png"
    result = run("materials", "leaf", "--png", picture)
    assert result.exit_code == 0, result.output
    assert f"{100 * material('leaf').reflectance_at(905):.1f} %" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_doctor_finds_the_engine_and_scans(run) -> None:
    result = run("doctor")
    assert result.exit_code == 0, result.output
    assert "mitsuba" in result.stdout
    assert re.search(r"test scan +[\d ]+ points", result.stdout)
    assert "everything required is installed" in result.stdout


def test_doctor_fails_where_a_package_is_missing(run, monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.cli import doctor

    monkeypatch.setattr(doctor.metadata, "requires", lambda _: ["no-such-package>=1.0", "numpy>=999.1"])
    result = run("doctor")
    assert result.exit_code == 1
    assert "missing: the package no-such-package: run 'pip install no-such-package'" in result.stdout
    assert "missing: numpy 999.1 or later" in result.stdout


def test_version_and_help(run) -> None:
    assert run("--version").stdout.strip() == f"parhelion {ph.__version__}"
    for command in ("demo", "scan", "weather", "convert", "sensors", "worlds", "materials", "doctor"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert "Examples:" in result.stdout
        assert f"\n  parhelion {command}" in result.stdout


def test_demo_writes_all_its_files(run, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    result = run("demo", "-o", folder, "--seconds", 0.2, "--seed", 3)
    assert result.exit_code == 0, result.output
    clouds = [ph.PointCloud.load(file) for file in sorted((folder / "clouds").iterdir())]
    assert len(clouds) == 2
    assert all(len(cloud) > 4_000 and 5 < np.sum(cloud.origin == 1) < 0.03 * len(cloud) for cloud in clouds)
    lines = (folder / "trajectory.tum").read_text().splitlines()
    poses = np.array([[float(word) for word in line.split()] for line in lines if not line.startswith("#")])
    assert poses.shape == (2, 8)
    assert poses[1, 0] - poses[0, 0] == pytest.approx(0.1)
    # On deck, 2 m above the keel of a vessel that has just begun to move.
    assert np.allclose(poses[:, 1:4], [30.5, -2.0, 2.4], atol=0.5)
    imu = np.loadtxt(folder / "imu.csv", delimiter=",", skiprows=1)
    assert imu.shape[0] == 20
    assert np.mean(imu[:, 3]) == pytest.approx(9.8, abs=0.5)
    from parhelion.io.ros import BagReader

    counts = {name: topic.count for name, topic in BagReader(folder / "bag").topics.items()}
    assert (counts["/velodyne_points"], counts["/imu/data"], counts["/tf_static"]) == (2, 20, 1)
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    report = (folder / "report.html").read_text()
    assert f"{sum(map(len, clouds)):,}".replace(",", " ") in report
    assert "next: parhelion" in result.stdout
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["complete"] is True
    assert {"clouds/000001.pcd", "demo.png", "trajectory.tum", "scenario.yaml"} <= set(manifest["files"])
    assert "First points of the first scan" in report


def test_a_second_demo_takes_the_place_of_the_first(run, tmp_path: Path) -> None:
    folder, fresh = tmp_path / "demo", tmp_path / "fresh"
    assert run("demo", "-o", folder, "--seconds", 0.3, "--seed", 3).exit_code == 0
    result = run("demo", "-o", folder, "--seconds", 0.2, "--seed", 4)
    assert result.exit_code == 0, result.output
    assert "1 older files remain in the folder, such as 000002.pcd" in result.stderr
    assert run("demo", "-o", fresh, "--seconds", 0.2, "--seed", 4).exit_code == 0
    for file in fresh.rglob("*"):
        if file.is_file() and file.name != "report.html":
            assert file.read_bytes() == (folder / file.relative_to(fresh)).read_bytes(), file.name


def test_a_demo_does_not_touch_the_run_of_another_scenario(run, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"scenario": {"name": "mine"}, "complete": true}')
    result = run("demo", "-o", tmp_path, "--seconds", 0.2)
    assert result.exit_code != 0
    assert "contains a run of a scenario other than" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_what_the_demo_writes_runs_as_a_scenario(run, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert run("demo", "-o", folder, "--seconds", 0.2).exit_code == 0
    assert run("run", folder / "scenario.yaml", "-o", tmp_path / "again").exit_code == 0
    for name in ("clouds/000001.pcd", "imu.csv", "bag/bag_0.mcap", "truth/lidar.tum"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_every_format_can_be_written_by_scan(run, tmp_path: Path) -> None:
    for entry in FORMATS.values():
        file = tmp_path / f"cloud{entry.endings[0]}"
        # Livox's own format holds scans of Livox lidars only.
        sensor = ["--sensor", "livox/mid-360"] if entry.name == "lvx2" else []
        result = run(*SMALL_SCAN, *sensor, "-o", file)
        assert result.exit_code == 0, (entry.name, result.output)
        assert file.stat().st_size > 0
