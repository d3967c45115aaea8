"""Every kind of wrong input: one line with the problem, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

SMALL_SCAN = ("scan", "--world", "cuboids", "--sensor", "velodyne/vlp-16", "--sub-rays", "1")


@pytest.mark.parametrize("pose", ["nan,0,0", "0,0,inf", "0,0,0,0,0,nan"])
def test_pose_must_be_finite(fails, pose: str) -> None:
    assert "must be finite" in fails(*SMALL_SCAN, "--pose", pose)


@pytest.mark.parametrize("pose", ["1,2", "a,b,c", "1,2,3,4", ""])
def test_pose_must_be_three_or_six_numbers(run, pose: str) -> None:
    result = run(*SMALL_SCAN, "--pose", pose)
    assert result.exit_code == 2
    assert "--pose" in result.stderr


def test_unknown_names_come_with_the_nearest(fails) -> None:
    assert "'velodyne/vlp-16'" in fails("scan", "-w", "cuboids", "-s", "velodyn/vlp16")
    assert "'cuboids'" in fails("scan", "-w", "cubiods", "-s", "velodyne/vlp-16")
    assert "'leaf'" in fails("materials", "leef")
    assert "'ouster/os1-128'" in fails("sensors", "os1-128")
    assert "'harbour'" in fails("worlds", "harbor")
    assert "'pcd'" in fails(*SMALL_SCAN, "-o", "somewhere", "--format", "pdc")


def test_unknown_material_of_a_mesh(fails, tmp_path: Path) -> None:
    mesh = tmp_path / "wall.obj"
    mesh.write_text("v 5 -20 -20\nv 5 20 -20\nv 5 20 20\nf 1 2 3\n")
    assert "'concrete'" in fails("scan", "-w", mesh, "--material", "concret", "-s", "velodyne/vlp-16")


@pytest.mark.parametrize("world", ["missing.obj", "missing.yaml"])
def test_missing_world_file(fails, tmp_path: Path, world: str) -> None:
    line = fails("scan", "-w", tmp_path / world, "-s", "velodyne/vlp-16")
    assert world in line
    assert "no such file" in line


def test_missing_sensor_file(fails) -> None:
    assert "missing.yaml: no such file" in fails("scan", "-w", "cuboids", "-s", "missing.yaml")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--time", "nan", "time"),
        ("--seed", "-1", "seed"),
        ("--sub-rays", "0", "sub_rays"),
        ("--columns", "7", "columns"),
        ("--rate", "1000", "rate_hz"),
    ],
)
def test_values_outside_what_is_allowed(fails, option: str, value: str, message: str) -> None:
    assert message in fails("scan", "-w", "cuboids", "-s", "ouster/os1-32", option, value)


@pytest.mark.parametrize(
    "options",
    [
        ("--scans", "0"),
        ("--scans", "many"),
        ("--returns", "third"),
        ("--frame", "moon"),
        ("--keep-lost", "--frame", "world"),
        ("--scans", "2", "-o", "one-file.pcd"),
        ("--no-such-option",),
    ],
)
def test_usage_errors_exit_with_2(run, options: tuple[str, ...]) -> None:
    result = run(*SMALL_SCAN, *options)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_world_and_sensor_are_required(run) -> None:
    assert run("scan").exit_code == 2
    assert run("worlds", "--png", "x.png").exit_code == 2
    assert run("materials", "--png", "x.png").exit_code == 2


def test_output_that_cannot_be_written_is_reported_before_the_scan(fails, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    assert "does not exist" in fails(*SMALL_SCAN, "-o", tmp_path / "no" / "such" / "scan.pcd")
    assert "is a file, not a folder" in fails(*SMALL_SCAN, "-o", blocker)
    assert "cannot be created" in fails(*SMALL_SCAN, "--scans", 2, "-o", blocker / "deeper")
    assert "cannot be created" in fails("demo", "-o", blocker / "deeper")
    assert blocker.read_text() == "in the way"


def test_unknown_endings(fails, tmp_path: Path) -> None:
    assert "unknown file extension" in fails(*SMALL_SCAN, "-o", tmp_path / "scan.xyz")
    assert "must end in" in fails(*SMALL_SCAN, "--png", tmp_path / "picture.gif")
    assert list(tmp_path.iterdir()) == []


def test_convert_refuses_to_replace(run, fails, tmp_path: Path) -> None:
    source, target = tmp_path / "a.pcd", tmp_path / "b.ply"
    run(*SMALL_SCAN, "-o", source)
    target.write_text("mine")
    assert "--force" in fails("convert", source, target)
    assert target.read_text() == "mine"
    assert run("convert", source, target, "--force").exit_code == 0
    assert target.read_bytes().startswith(b"ply")
    assert "would replace the input" in fails("convert", source, source, "--force")


def test_convert_of_nothing(fails, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no clouds" in fails("convert", empty, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert "no such file" in fails("convert", tmp_path / "gone.pcd", tmp_path / "b.ply")
    assert "unknown file extension" in fails("convert", _file(tmp_path / "a.pcd"), tmp_path / "b.what")
    assert "not a PCD file" in fails("convert", _file(tmp_path / "a.pcd"), tmp_path / "b.ply")


def test_a_damaged_file_does_not_stop_the_folder(run, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    run(*SMALL_SCAN, "--scans", 2, "-o", source)
    whole = (source / "000000.pcd").read_bytes()
    (source / "000000.pcd").write_bytes(whole[: len(whole) // 2])
    result = run("convert", source, target, "--format", "ply")
    assert result.exit_code == 1
    assert "warning: " in result.stderr
    assert "000000.pcd" in result.stderr
    assert "error: " in result.stderr
    assert [file.name for file in target.iterdir()] == ["000001.ply"]


def test_two_sources_of_one_name(run, fails, tmp_path: Path) -> None:
    run(*SMALL_SCAN, "-o", tmp_path / "a.pcd")
    run(*SMALL_SCAN, "-o", tmp_path / "a.ply")
    assert "several files would become" in fails("convert", tmp_path, tmp_path / "out", "--format", "npz")


def test_bugs_are_reported_without_a_traceback(fails, run, monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.sensors.optics.lidar.lidar import Lidar

    def broken(*_: object, **__: object) -> None:
        raise ValueError("two\nlines")

    monkeypatch.setattr(Lidar, "measure", broken)
    line = fails(*SMALL_SCAN)
    assert "unexpected ValueError: two lines" in line
    monkeypatch.setenv("PARHELION_DEBUG", "1")
    assert isinstance(run(*SMALL_SCAN).exception, ValueError)


def test_full_disk_and_memory_are_one_sentence(fails, monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.sensors.optics.lidar.lidar import Lidar

    def fail(error: BaseException) -> object:
        def scan(*_: object, **__: object) -> None:
            raise error

        return scan

    monkeypatch.setattr(Lidar, "measure", fail(OSError(28, "No space left on device", "/data/x.pcd")))
    assert fails(*SMALL_SCAN) == "error: /data/x.pcd: No space left on device"
    monkeypatch.setattr(Lidar, "measure", fail(MemoryError()))
    assert "out of memory" in fails(*SMALL_SCAN)


def test_demo_longer_than_the_drive(run, tmp_path: Path) -> None:
    result = run("demo", "-o", tmp_path, "--seconds", 100_000)
    assert result.exit_code == 2
    assert "less than or equal to 25" in " ".join(result.stderr.replace("│", " ").split())


def _file(path: Path) -> Path:
    path.write_text("no cloud")
    return path
