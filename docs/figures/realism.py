"""Table and picture of docs/realism.md: real, built-in and broken frames, from KITTI and Hilti in ../shared/data.

python docs/figures/realism.py [city|warehouse|rebuilt-kitti|rebuilt-hilti]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

import parhelion as ph
from parhelion.core.pose import quat_from_matrix
from parhelion.evaluate.realism import Options, compare
from parhelion.evaluate.realism.report import place_picture, places, score_picture, verdict
from parhelion.pictures.style import pixels_of
from parhelion.rebuild.place import SHEET_FILE, write_place
from parhelion.rebuild.reading import frame_of
from parhelion.rebuild.rebuild import rebuilt
from parhelion.rebuild.score import held_out, score

IMAGES = Path(__file__).resolve().parents[1] / "images"
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LEAST_HILTI_M = 2.1
"""Hilti's clouds have no points below this distance."""


def recorded(folder: str, numbers: range) -> list[ph.PointCloud]:
    """Frames of a packed recording."""
    sys.path.insert(0, str(DATA))
    from read_dz import read_dz

    found = []
    for number in numbers:
        points = read_dz(str(DATA / folder / "lidar" / f"{number:06d}.dz"))
        found.append(ph.PointCloud(points[:, :3], {"intensity": points[:, 3]}))
    return found


def scans(world: str, preset: str, places_m: np.ndarray, height_m: float, seed: int, **options: int) -> list[ph.Scan]:
    """Scans along a straight line through a built-in world."""
    lidar, scene = ph.Lidar(preset, **options), ph.World.load(world)
    return [
        lidar.scan(scene, pose=ph.Pose(xyz=(float(x), 0.0, height_m)), time=float(k), seed=seed)
        for k, x in enumerate(places_m)
    ]


def broken(clouds: list[ph.PointCloud], step_m: float = 0.05) -> list[ph.PointCloud]:
    """Frames with ranges rounded to 5 cm."""
    found = []
    for cloud in clouds:
        metres = np.linalg.norm(cloud.xyz.astype(np.float64), axis=1)
        scale = np.maximum(np.rint(metres / step_m), 1.0) * step_m / metres
        kept = {name: cloud.fields[name] for name in ("intensity", "ring", "column")}
        found.append(ph.PointCloud((cloud.xyz * scale[:, None]).astype(np.float32), kept))
    return found


def street() -> None:
    """KITTI's HDL-64E against the built-in city."""
    real, other = recorded("kitti0005_hdl64_pose", range(60, 86, 3)), recorded("kitti_cam_lidar_0926", range(0, 20, 2))
    city = [scans("city", "velodyne/hdl-64e-s2", np.arange(0.0, 27.0, 3.0), 1.73, seed) for seed in (1, 2)]
    options = Options(paired=False, also_real=other)
    result = _shown("city / KITTI 0005", compare(real, city[0], options))
    for name, picture in (("score", score_picture(result)), ("places", place_picture(result, places(result)))):
        Image.fromarray(pixels_of(picture)).save(IMAGES / f"realism-{name}.webp", quality=72, method=6)
    _shown("city / KITTI 0005, unmodified ranges", compare(real, city[0], Options(paired=False, resolution_m=0.0)))
    _shown("city / city, another seed", compare(city[0], city[1]))
    _shown("city in 5 cm steps / city", compare(city[0], broken(city[1])))


def hall() -> None:
    """Hilti's OS0-64 against the built-in warehouse."""
    real = recorded("hilti2021_os0_64", range(40, 60, 2))
    made = scans("warehouse", "ouster/os0-64", np.linspace(-6.0, 6.0, 10), 1.2, 1, columns=2048)
    made = [one.select(np.linalg.norm(one.xyz, axis=1) > LEAST_HILTI_M) for one in made]
    _shown("warehouse / Hilti", compare(real, made, Options(paired=False)))


def rebuilt_place(name: str) -> None:
    """A place rebuilt without every third frame, against these frames."""
    hilti = name == "hilti"
    lidar = ph.Lidar("ouster/os0-64", columns=2048) if hilti else ph.Lidar("velodyne/hdl-64e-s2")
    folder, numbers, near_m = ("hilti2021_os0_64", range(40, 60), 0.5) if hilti else (
        "kitti0005_hdl64_pose", range(60, 86), 3.0
    )  # fmt: skip
    clouds = [_beyond(cloud, near_m) for cloud in recorded(folder, numbers)]
    frames = [frame_of(cloud, lidar, f"{name} {k}", k, []) for k, cloud in enumerate(clouds)]
    test = np.arange(1, len(frames), 3)
    train = np.setdiff1d(np.arange(len(frames)), test)
    poses = None
    if hilti:
        text = (DATA / folder / "alidarPose.csv").read_text().splitlines()
        rows = np.array([[float(word) for word in line.strip(", ").split(",")] for line in text]).reshape(-1, 4, 4)
        rows = rows[np.array(numbers)[train]]
        poses = rows[:, :3, 3], np.stack([quat_from_matrix(row[:3, :3]) for row in rows])
    place = rebuilt([frames[k] for k in train], lidar, poses)
    own, path = held_out(place, [frames[k] for k in test])
    print(score(place, own, path), flush=True)
    with TemporaryDirectory() as parent:
        write_place(place, Path(parent) / "place", lidar, name)
        world = ph.World.load(str(Path(parent) / "place"))
        unit = ph.Lidar(str(Path(parent) / "place" / SHEET_FILE), **({"columns": 2048} if hilti else {}))
        made = []
        for k in range(len(test)):
            turn, velocity = ph.Pose(quat_xyzw=path.quat_xyzw[k]), place.registered.skew * path.velocity[k]
            start = ph.Pose(path.xyz[k] - 0.5 / unit.rate_hz * velocity, path.quat_xyzw[k])
            motion = ph.ConstantTwist(start, velocity=tuple(turn.rotation.T @ velocity))
            scan = _beyond(unit.scan(world, trajectory=motion, time=0.0, seed=k), LEAST_HILTI_M if hilti else near_m)
            made.append(ph.PointCloud(scan.xyz, {word: scan.fields[word] for word in ("intensity", "ring")}))
    _shown(f"rebuilt {name}", compare([clouds[k] for k in test], made))


def _beyond(cloud: ph.PointCloud, near_m: float) -> ph.PointCloud:
    return cloud.select(np.linalg.norm(cloud.xyz, axis=1) > near_m)


def _shown(name, result):  # type: ignore[no-untyped-def]
    content = result.as_dict()
    print(name, json.dumps({key: content[key] for key in ("auc", "floor", "range_step_m")}), sep="\n")
    for row in result.best.features[:5]:
        print(f"  {row.title}: {row.importance:+.3f}, alone {row.auc_alone:.3f}, {row.real:.3g} / {row.simulated:.3g}")
    print(verdict(result), flush=True)
    return result


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["city", "warehouse"]
    if "city" in wanted:
        street()
    if "warehouse" in wanted:
        hall()
    for word in ("kitti", "hilti"):
        if f"rebuilt-{word}" in wanted:
            rebuilt_place(word)
