"""A simulated drive through a warehouse, rebuilt and compared with the truth."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.rebuild.place import write_place
from parhelion.rebuild.poses import estimated, with_motion
from parhelion.rebuild.rebuild import rebuilt
from parhelion.rebuild.score import score
from parhelion.world.rebuilt import tangents
from rebuild_rigs import (
    BOX_PATH,
    FRAMES,
    HELD_OUT,
    PERIOD_S,
    STANDING,
    frames,
    lidar,
    place,
    room_shots,
    scans,
    still,
    true_poses,
    true_world,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> File:
    target = tmp_path_factory.mktemp("rebuilt") / "hall"
    write_place(place(), target, lidar(), "drive.pcap", read=FRAMES)
    return target


@pytest.fixture(scope="module")
def world(folder: File) -> ph.World:
    return ph.World.load(folder)


def test_surfaces_lie_on_the_true_ones() -> None:
    """Samples by area, and their distance from the true surface along the normal and across it."""
    surfels, random = place().surfels, np.random.default_rng(1)
    area = surfels.radius.astype(float) ** 2 * (place().cover > 0.5)
    chosen = random.choice(len(area), 8000, p=area / area.sum())
    normal = surfels.normal[chosen].astype(float)
    across, up = tangents(normal)
    reach = surfels.radius[chosen] * np.sqrt(random.random(len(chosen)))
    angle = 2.0 * np.pi * random.random(len(chosen))
    at = surfels.centre[chosen] + reach[:, None] * (np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * up)
    distance = np.full(len(at), np.inf)
    for way in (normal, -normal, across, -across, up, -up):
        distance = np.minimum(distance, true_world().cast(at, way).range)
    assert np.median(distance) < 0.005
    assert np.mean(distance > 0.05) < 0.03


def test_a_frame_that_was_not_used_is_predicted() -> None:
    xyz, quat = true_poses()
    times = np.array([frame.time_s for frame in frames()])
    found = score(place(), [frames()[HELD_OUT]], with_motion(xyz, quat, times).rows([HELD_OUT]))
    assert found.median_m < 0.01
    assert found.near_of_all > 0.85
    assert found.agreement > 0.97


def box_points(x: float, y: float, z: float) -> int:
    """Number of surfels on the vertical faces of a box of 1 m, away from the floor."""
    off = np.abs(place().surfels.centre - np.array([x, y, z]))
    return int(((off[:, :2].max(axis=1) < 0.55) & (off[:, 2] < 0.4)).sum())


def test_a_moving_box_is_removed_and_a_standing_one_is_kept() -> None:
    standing = box_points(*STANDING)
    # At 5 cm, the two faces that the sensor sees have 2 x 20 x 16 voxels; rings leave gaps.
    assert standing > 150
    # The last places of the moving box are seen free only before it arrives, by shots that other boxes do not block.
    early = [BOX_PATH.sample([PERIOD_S * k + 0.05])[0][0] for k in range(1, 6)]
    assert max(box_points(*xyz) for xyz in early) < 0.5 * standing


def test_the_rebuilt_world_is_scanned_as_the_true_one(world: ph.World) -> None:
    pose = ph.Pose((0.9, 0.1, 1.5))
    static = ph.World.load("warehouse")
    real, again = (lidar().scan(one, pose=pose, seed=5) for one in (static, world))
    ranges: list[NDArray[np.float64]] = []
    levels: list[NDArray[np.float64]] = []
    for scan in (real, again):
        for values, name in ((ranges, "range"), (levels, "intensity")):
            image = np.full(len(scan.shots), np.nan)
            image[scan.fields["shot"]] = scan.fields[name]
            values.append(image)
    both = np.isfinite(ranges[0]) & np.isfinite(ranges[1])
    assert np.mean(np.isfinite(ranges[0]) == np.isfinite(ranges[1])) > 0.97
    assert np.median(np.abs(ranges[0] - ranges[1])[both]) < 0.01
    near = both & (np.abs(ranges[0] - ranges[1]) < 0.05)
    assert np.median(levels[1][near] / levels[0][near]) == pytest.approx(1.0, abs=0.1)


def test_other_sensors_weather_and_objects_work_in_a_rebuilt_world(world: ph.World) -> None:
    """A camera, a lidar at another height, fog, and a box that is added."""
    assert world.path is not None
    assert world.path.sample([0.0])[0].shape == (1, 3)
    high = ph.Pose((0.9, 0.1, 2.5))
    small = ph.Lidar("velodyne/vlp-16")
    clear = small.scan(world, pose=high, seed=1)
    crate = world.add(ph.shapes.box(1, 1, 1), material="wood", label="crate", pose=ph.Pose((3.0, 0.1, 2.5)))
    assert (small.scan(world, pose=high, seed=1).fields["label"] == crate.label_id).sum() > 20
    world.remove(crate)
    world.weather = ph.Weather(visibility_m=20)
    foggy = small.scan(world, pose=high, seed=1)
    world.weather = None
    assert np.median(foggy.fields["intensity"]) < np.median(clear.fields["intensity"])
    image = ph.Camera("generic/vga", width=40, height=30).shoot(world, pose=high, seed=1)
    assert image.depth is not None
    assert np.isfinite(image.depth).mean() > 0.5


def test_the_floor_carries_and_unobserved_places_have_none(world: ph.World) -> None:
    assert world.height(6.0, 0.0) == pytest.approx(0.0, abs=0.02)
    assert np.isnan(world.height(60.0, 0.0))


def test_rays_into_unobserved_space_are_unknown(world: ph.World) -> None:
    assert world.coverage is not None
    start = np.array([[1.0, 0.1, 1.5], [1.0, 0.1, 1.5], [1.0, 0.1, 40.0]])
    along = np.array([[1.0, 0.0, 0.05], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    unknown = world.coverage.unknown(start, along / np.linalg.norm(along, axis=1)[:, None], [5.0, 60.0, 5.0])
    assert unknown.tolist() == [False, True, True]
    scan = lidar().scan(world, pose=ph.Pose((0.9, 0.1, 1.5)), seed=5)
    assert world.coverage.unknown_shots(scan).mean() < 0.05
    flagged = world.coverage.flagged(scan)
    assert set(np.unique(flagged.fields["unknown"])) <= {0, 1}


def test_thin_surfels_cover_a_share_of_their_area(tmp_path: File) -> None:
    """The sum of the triangles is the cover times the area of the disks, inside of the disks."""
    whole = place()
    thin = replace(whole, cover=np.full(len(whole.surfels), 0.4, np.float32))
    write_place(thin, tmp_path / "thin", lidar(), "drive.pcap")
    found = sum(part.mesh.area() for item in ph.World.load(tmp_path / "thin").objects for part in item.parts)
    disks = np.pi * float(np.sum(whole.surfels.radius.astype(float) ** 2))
    assert found == pytest.approx(0.4 * disks, rel=0.005)  # the cover is stored in 255 steps


def test_the_folder_lists_what_was_done(folder: File) -> None:
    facts = json.loads((folder / "report.json").read_text())
    assert facts["revolutions"] == {"read": FRAMES, "used": FRAMES - 1}
    assert facts["surfels"]["count"] == len(place().surfels)
    assert facts["surfels"]["removed"] > 0
    page = (folder / "report.html").read_text()
    assert "Where a sensor may go" in page
    assert ph.Lidar(str(folder / "sensor.yaml")).config.name == "Ouster OS1-64"
    assert {file.name for file in folder.iterdir()} == {
        "world.yaml", "surfels.npz", "coverage.npz", "path.tum", "sensor.yaml", "report.html", "report.json",
    }  # fmt: skip


def test_damaged_folders_and_foreign_ones_are_refused(folder: File, tmp_path: File) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(ConfigError, match="contains other files"):
        write_place(place(), tmp_path / "mine", lidar(), "drive.pcap")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "world.yaml").write_text((folder / "world.yaml").read_text())
    with pytest.raises((ConfigError, FormatError), match=r"surfels.npz"):
        ph.World.load(broken)
    np.savez(broken / "surfels.npz", centre=np.zeros((2, 3)))
    with pytest.raises((ConfigError, FormatError), match="no array 'normal'"):
        ph.World.load(broken)
    surfels, coverage = (dict(np.load(folder / name)) for name in ("surfels.npz", "coverage.npz"))
    for name in ("radius", "reflectance"):
        np.savez(broken / "surfels.npz", **surfels | {name: np.full_like(surfels[name], np.nan)})
        with pytest.raises(FormatError, match=r"surfels.npz: surfels must be finite"):
            ph.World.load(broken)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": (10**9, 3)})
    with zipfile.ZipFile(broken / "surfels.npz", "w") as archive:
        archive.writestr("centre.npy", buffer.getvalue() + bytes(24))
    with pytest.raises(FormatError, match=r"surfels.npz: the array 'centre' is damaged: it claims the shape"):
        ph.World.load(broken)
    np.savez(broken / "surfels.npz", **surfels)
    for cell_m in (0.0, np.nan, np.inf):
        np.savez(broken / "coverage.npz", **coverage | {"cell_m": np.float64(cell_m)})
        with pytest.raises(FormatError, match=r"coverage.npz: cell_m must be above 0 m"):
            ph.World.load(broken)


# ---- poses -----------------------------------------------------------------------------------------------------------


def test_poses_are_estimated_and_deskewed() -> None:
    found = estimated(frames()[:5])
    xyz, _ = true_poses()
    true = xyz[:5] - xyz[0]
    # The estimate starts at the identity, as the drive nearly does.
    moved = np.linalg.norm(np.diff(found.path.xyz, axis=0), axis=1)
    np.testing.assert_allclose(moved, np.linalg.norm(np.diff(true, axis=0), axis=1), atol=0.02)
    assert found.skew == 1.0
    assert np.median(found.apart_m) < 0.02


def test_poses_that_disagree_are_reported_with_the_place() -> None:
    xyz, quat = (part[:4].copy() for part in true_poses())
    xyz[2, 0] += 0.2
    made = rebuilt(frames()[:4], lidar(), (xyz, quat))
    assert any("disagree" in note and "frame 2" in note for note in made.notes)
    assert np.linalg.norm(made.path.xyz[2] - true_poses()[0][2]) < 0.05


def test_one_revolution_and_a_stationary_sensor() -> None:
    with pytest.raises(ConfigError, match="at least two"):
        rebuilt([room_shots()], lidar())
    rooms = [replace(room_shots(20_000, seed=k), time_s=0.1 * k, name=f"room {k}") for k in range(2)]
    path = still(2)
    made = rebuilt(rooms, lidar(), (path.xyz, path.quat_xyzw))
    assert any("moved by only" in note for note in made.notes)
    assert not made.reflectances.known


def test_the_same_drive_gives_the_same_place() -> None:
    xyz, quat = (part[:2] for part in true_poses())
    first, second = (rebuilt(frames()[:2], lidar(), (xyz, quat)) for _ in range(2))
    assert np.array_equal(first.surfels.centre, second.surfels.centre)
    assert np.array_equal(first.reflectances.value, second.reflectances.value)


def test_scans_keep_their_lost_shots() -> None:
    frame, scan = frames()[0], scans()[0]
    assert len(frame) == len(scan.shots)
    assert frame.returned.sum() == (scan.shots.return_count > 0).sum()
