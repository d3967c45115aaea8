"""Small valid files of every supported format, made by our own writers, and the function that reads each."""

from __future__ import annotations

import json
import shutil
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
import yaml
from PIL import Image

from fuzz.runs_corpus import PARTS as RUNS
from fuzz.seed import Seed
from fuzz.senses_corpus import PARTS as SENSES
from model_rigs import Glb, png, quad
from nuscenes_rigs import write_results, write_set
from ouster_scans import random_scan
from parhelion import Camera, Lidar, World
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.config import load
from parhelion.core.errors import ParhelionError
from parhelion.core.image import Image as Shot
from parhelion.core.image import Intrinsics
from parhelion.evaluate.detections import read_pair
from parhelion.evaluate.placement.schema import PlacementFile
from parhelion.io import read_cloud, write_cloud
from parhelion.io.columns import FieldsDroppedWarning
from parhelion.io.ros import BagReader, BagWriter, Message, cloud_of
from parhelion.io.ros.clouds import POINT_CLOUD, like, point_cloud2
from parhelion.io.ros.messages import IMU, imu
from parhelion.makers.ouster.metadata import read_metadata
from parhelion.motion import RecordedMotion
from parhelion.scenario import Scenario
from parhelion.sensors.optics.camera.calibration_files import load_intrinsics, save_opencv, save_ros
from parhelion.sensors.sheets import PRESETS
from parhelion.surfaces.spectra import read_spectrum
from parhelion.surfaces.texture import load_colour_texture
from parhelion.weather import Weather
from parhelion.world.loaders import load_mesh
from parhelion.world.procedural import Layout, buildings_from, read_height_map
from parhelion.world.urdf import load_urdf
from urdf_rigs import write_rover
from velodyne_rigs import made_up_scan


def _messages(path: Path) -> None:
    for message in BagReader(path):
        if message.type == POINT_CLOUD:
            try:
                like(message, cloud_of(message, keep_missing=True))
            except ParhelionError:
                continue  # the error of a damaged message names its topic


def _robot(path: Path) -> None:
    robot = load_urdf(path)
    for link in robot.links.values():
        for shape in link.visuals:
            shape.parts  # noqa: B018  read when asked for


def _maps(folder: Path) -> list[Seed]:
    """Maps, roads and floor plans."""
    from map_rigs import every_class, pbf
    from road_rigs import tee_junction

    writer = every_class()
    writer.nodes, writer.ways, writer.relations = writer.nodes[:40], writer.ways[:6], []
    writer.save(folder / "a.osm")
    (folder / "a.osm.pbf").write_bytes(pbf(writer))
    (folder / "a.xodr").write_text(tee_junction())
    Image.fromarray(np.kron([[0, 0, 0], [0, 254, 205], [0, 0, 0]], np.ones((5, 5))).astype(np.uint8)).save(
        folder / "a.pgm"
    )
    (folder / "map.yaml").write_text("image: a.pgm\nresolution: 0.1\norigin: [0, 0, 0]\noccupied_thresh: 0.65\n")
    (folder / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="4m" viewBox="0 0 4 4"><g transform="rotate(10)">'
        '<path fill="none" d="M 0 0 h 3 v 2 c 0 1 1 1 1 0 a 1 1 0 0 1 -2 0"/>'
        '<rect x="1" y="1" width="1" height="1"/></g></svg>'
    )
    square = {"type": "MultiSurface", "lod": "1", "boundaries": [[[0, 1, 2, 3]]]}
    city = {"type": "CityJSON", "version": "2.0", "vertices": [[0, 0, 0], [9, 0, 0], [9, 9, 0], [0, 9, 0]],
            "CityObjects": {"a": {"type": "Building", "geometry": [square]}}}  # fmt: skip
    (folder / "a.city.json").write_text(json.dumps(city))
    names = ("a.osm", "a.osm.pbf", "a.xodr", "map.yaml", "a.svg", "a.city.json")
    return [Seed(folder / name, World.load) for name in names]


def _cloud(count: int = 12) -> PointCloud:
    rng = np.random.default_rng(1)
    fields = {
        "intensity": rng.random(count).astype(np.float32),
        "ring": rng.integers(0, 16, count).astype(np.uint16),
        "time": rng.random(count).astype(np.float32),
        "label": rng.integers(0, 9, count).astype(np.uint16),
        "instance": rng.integers(0, 9, count).astype(np.uint32),
        "rgb": rng.integers(0, 255, (count, 3)).astype(np.uint8),
        "velocity": rng.random((count, 3)).astype(np.float32),
    }
    return PointCloud(rng.normal(size=(count, 3)).astype(np.float32), fields, names={"label": {1: "car"}})


def _first_frames(file: Path, count: int) -> None:
    """Cut a capture after some frames."""
    data, place = file.read_bytes(), 24
    for _ in range(count):
        place += 16 + struct.unpack_from("<I", data, place + 8)[0]
    file.write_bytes(data[:place])


def _clouds(folder: Path) -> list[Seed]:
    cloud = _cloud()
    for encoding in ("ascii", "binary", "binary_compressed"):
        write_cloud(cloud, folder / f"{encoding}.pcd", encoding=encoding)
    for encoding in ("ascii", "binary"):
        write_cloud(cloud, folder / f"{encoding}.ply", encoding=encoding)
    for ending in (".las", ".laz"):
        write_cloud(cloud, folder / f"a{ending}")
    bare = PointCloud(cloud.xyz, {"intensity": cloud.fields["intensity"]})
    write_cloud(bare, folder / "scan.bin")
    write_cloud(PointCloud(cloud.xyz, {n: cloud.fields[n] for n in ("label", "instance")}), folder / "scan.label")
    write_cloud(PointCloud(cloud.xyz, {n: cloud.fields[n] for n in ("intensity", "ring")}), folder / "scan.pcd.bin")
    write_cloud(cloud, folder / "a.csv", describe=True)
    head = "ply\nformat binary_little_endian 1.0\nelement face 3\nproperty list uchar int vertex_indices\n"
    head += "property list ushort float more\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
    rows = b"".join(struct.pack(f"<B{n}iH{n}f", n, *range(n), n, *range(n)) for n in (3, 4, 0))
    (folder / "lists.ply").write_bytes(f"{head}end_header\n".encode() + rows + bytes(24))
    return [Seed(file, read_cloud) for file in sorted(folder.iterdir())]


def _small(scan: Scan) -> Scan:
    """The scan's first shots."""
    from parhelion.core.clouds import Shots

    points = scan.fields["shot"] < 40
    shots = Shots(**{name: values[:40] for name, values in vars(scan.shots).items() if values is not None})
    return Scan(
        scan.xyz[points], {name: values[points] for name, values in scan.fields.items()}, metadata=scan.metadata,
        shots=shots, start_time=1.0,
    )  # fmt: skip


def _scans(folder: Path) -> list[Seed]:
    velodyne = made_up_scan(Lidar("velodyne/vlp-16"))
    ouster = random_scan(Lidar("ouster/os1-32", columns=512, rate_hz=10))
    write_cloud(_small(velodyne), folder / "stored.npz")
    write_cloud(_small(velodyne), folder / "packed.npz", compress=True)
    write_cloud(velodyne, folder / "velodyne.pcap")
    write_cloud(ouster, folder / "ouster.pcap")
    _first_frames(folder / "velodyne.pcap", 6)
    _first_frames(folder / "ouster.pcap", 30)
    write_cloud(made_up_scan(Lidar("livox/mid-360")), folder / "livox.lvx2")
    names = ("stored.npz", "packed.npz", "velodyne.pcap", "ouster.pcap", "livox.lvx2")
    seeds = [Seed(folder / name, read_cloud) for name in names]
    shutil.copy(folder / "ouster.json", folder / "sensor.json")
    return [*seeds, Seed(folder / "sensor.json", read_metadata)]


def _bags(folder: Path) -> list[Seed]:
    def write(path: Path, **options: Any) -> None:
        with BagWriter(path, **options) as bag:
            for k in range(4):
                time_ns = 1_000_000_000 + k * 100_000_000
                bag.write(Message("/points", POINT_CLOUD, time_ns, point_cloud2(_cloud(4), "lidar", time_ns)))
                bag.write(Message("/imu", IMU, time_ns, imu(time_ns, "imu", (0, 0, 1), (0, 0, 9.8))))

    for compression in ("zstd", "lz4", "none"):
        write(folder / f"{compression}.mcap", compression=compression)
    write(folder / "a.db3")
    seeds = [Seed(file, _messages) for file in sorted(folder.iterdir())]
    write(folder / "bag", compression="none")
    return [*seeds, Seed(folder / "bag" / "metadata.yaml", lambda path: _messages(path.parent))]


def _meshes(folder: Path) -> list[Seed]:
    box = trimesh.creation.box((1, 2, 3))
    for ending in (".obj", ".ply", ".stl", ".glb", ".gltf", ".off"):
        made = box.export(file_type=ending[1:])
        if ending == ".gltf":
            for name, content in made.items():
                (folder / ("a.gltf" if name.endswith(".gltf") else name)).write_bytes(content)
        else:
            (folder / f"a{ending}").write_bytes(made if isinstance(made, bytes) else made.encode())
    (folder / "b.obj").write_text(
        "mtllib b.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl brick\nf 1/1 2/2 3/3\n"
    )
    (folder / "b.mtl").write_text("newmtl brick\nKd 0.5 0.5 0.5\n")
    names = ["a.obj", "a.ply", "a.stl", "a.glb", "a.gltf", "a.off", "b.obj", "c.glb", "d.obj"]
    _models(folder)
    try:
        import pxr  # noqa: F401
    except ImportError:
        pass
    else:
        _usd(folder)
        names += ["e.usda", "e.usdc"]
    worlds = [Seed(folder / "f.sdf", World.load)]
    return [*(Seed(folder / name, load_mesh) for name in names), *worlds]


def _models(folder: Path) -> None:
    """Models with images, holes and instances, and a world in SDF."""
    image = np.random.default_rng(0).integers(0, 255, (5, 6, 4)).astype(np.uint8)
    glb = Glb()
    transform = {"KHR_texture_transform": {"offset": [0.5, 0], "rotation": 0.3}}
    base = {**glb.texture(image), "extensions": transform}
    material = glb.material("wood", baseColorTexture=base, normalTexture=glb.texture(image), alphaMode="MASK")
    places = glb.accessor(np.eye(3, dtype=np.float32))
    instances = {"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": places}}}
    glb.node(mesh=glb.mesh(quad(), material), extensions=instances)
    glb.write(folder / "c.glb")
    (folder / "d.png").write_bytes(png(image))
    (folder / "d.obj").write_text("mtllib d.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nusemtl a\nf 1/1 2/1 3/1\n")
    (folder / "d.mtl").write_text("newmtl a\nKd 0.5 0.5 0.5\nKs 1 1 1\nNs 30\nmap_Kd -s 1 1 1 d.png\nd 0.5\n")
    (folder / "f.sdf").write_text(
        "<sdf version='1.9'><world name='w'><frame name='f'><pose degrees='true'>1 2 3 0 0 90</pose></frame>"
        "<model name='m'><pose relative_to='f'>1 0 0 0 0 0</pose><link name='l'><visual name='v'><geometry><box>"
        "<size>1 2 1</size></box></geometry><material><diffuse>0.8 0 0 1</diffuse></material></visual></link></model>"
        "</world></sdf>"
    )


def _usd(folder: Path) -> None:
    from pxr import Usd, UsdGeom

    for ending in ("usda", "usdc"):
        stage = Usd.Stage.CreateNew(str(folder / f"e.{ending}"))
        mesh = UsdGeom.Mesh.Define(stage, "/Root")
        mesh.CreatePointsAttr([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
        mesh.CreateFaceVertexCountsAttr([3, 3])
        mesh.CreateFaceVertexIndicesAttr([0, 1, 2, 0, 2, 3])
        stage.Save()


def _plain(folder: Path) -> list[Seed]:
    """Texts and images."""
    heights = np.random.default_rng(0).random((6, 7)).astype(np.float32)
    np.save(folder / "h.npy", heights)
    Image.fromarray((heights * 255).astype(np.uint8)).save(folder / "h.png")
    Image.fromarray(heights).save(folder / "h.tif")
    np.savetxt(folder / "h.asc", heights, header="ncols 7\nNODATA_value -9999", comments="")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 8, 3)).astype(np.uint8)).save(folder / "t.png")
    Image.new("RGB", (20, 20), (9, 8, 7)).convert("P").save(folder / "t.bmp")
    Image.new("RGB", (20, 20), (9, 8, 7)).save(folder / "t.jpg")
    (folder / "s.txt").write_text(
        "Name: grass\nX Units: Wavelength (micrometers)\nY Units: Reflectance (percent)\n0.9 40\n1 50\n1.1 45\n"
    )
    (folder / "p.tum").write_text("".join(f"{k} {k} 0.5 0 0 0 0 1\n" for k in range(5)))
    (folder / "p.kitti").write_text("".join(f"1 0 0 {k} 0 1 0 0 0 0 1 0\n" for k in range(5)))

    def heights_of(path: Path) -> Any:
        return read_height_map(path, range_m=(0.0, 5.0))

    return [
        *(Seed(folder / name, heights_of) for name in ("h.npy", "h.png", "h.tif", "h.asc")),
        *(Seed(folder / name, load_colour_texture) for name in ("t.png", "t.bmp", "t.jpg")),
        Seed(folder / "s.txt", read_spectrum),
        Seed(folder / "p.tum", RecordedMotion.from_tum),
        Seed(folder / "p.kitti", lambda path: RecordedMotion.from_kitti(path, rate_hz=10.0)),
    ]


SCENARIO = """world: test-range
duration_s: 0.2
vehicles:
  - name: cart
    motion: {spline: {points: [[0, 0, 0], [4, 1, 0], [9, 0, 0]], max_speed_m_s: 3}}
    body: {shape: {kind: box, size_m: [1, 1, 1]}, label: car}
sensors:
  - {name: roof, type: lidar, model: velodyne/vlp-16, vehicle: cart, mount: {xyz: [0, 0, 1.75]}}
"""


def _settings(folder: Path) -> list[Seed]:
    world = {
        "name": "yard", "materials": {"mine": {"spectrum": {"wavelength_um": [0.4, 1.6], "reflectance": [0.3, 0.6]}}},
        "objects": [{"shape": {"kind": "box", "size_m": [1, 2, 3]}, "material": "mine", "pose": {"xyz": [1, 2, 0]}}],
        "actors": [
            {"shape": {"kind": "sphere", "radius_m": 1, "subdivisions": 1},
             "trajectory": {"constant": {"velocity_m_s": [1, 0, 0]}}},
        ],
        "viewpoint": {"xyz": [0, 0, 2]}, "weather": {"rain_rate_mm_h": 10},
    }  # fmt: skip
    (folder / "world.yaml").write_text("# &a *a << nothing\n" + yaml.safe_dump(world))
    (folder / "weather.yaml").write_text("rain: &r {rate_mm_h: 10}\n")
    layout = {
        "size": [60, 40], "seed": 3,
        "objects": [
            {"kind": "ground", "size": [60, 40, 0]},
            {"kind": "rack", "size": [3, 1, 4], "pose": {"xyz": [5, 5, 0], "yaw_deg": 30}},
            {"kind": "footprint", "size": [10, 10, 5], "pose": {"xyz": [-15, 0, 0]},
             "params": {"outline": [[-5, -5], [5, -5], [5, 5], [-5, 5]], "holes": [[[-1, -1], [1, -1], [1, 1]]]}},
        ],
        "ways": [{"name": "w", "points": [[0, -10], [20, -10]], "width_m": 3}],
        "drive": {"points": [[0, -10], [20, -10]]},
    }  # fmt: skip
    (folder / "layout.json").write_text(json.dumps(layout))
    Layout.from_mapping(layout).save(folder / "layout.yaml")
    ring = [[8.0, 50.0], [8.0002, 50.0], [8.0002, 50.0002], [8.0, 50.0002], [8.0, 50.0]]
    hole = [[8.00005, 50.00005], [8.0001, 50.00005], [8.0001, 50.0001]]
    feature = {
        "type": "Feature", "properties": {"height": "9 m"}, "geometry": {"type": "Polygon", "coordinates": [ring, hole]}
    }  # fmt: skip
    (folder / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    sheet = yaml.safe_load((PRESETS / "lidar" / "velodyne" / "vlp-16.yaml").read_text())
    (folder / "lidar.yaml").write_text(yaml.safe_dump(sheet))
    sheet["pattern"] = {"kind": "table", "rate_hz": 10, "file": "shots.csv"}
    (folder / "by-csv.yaml").write_text(yaml.safe_dump(sheet))
    sheet["pattern"]["file"] = "shots.npy"
    (folder / "by-npy.yaml").write_text(yaml.safe_dump(sheet))
    rows = np.column_stack([np.linspace(-9, 9, 6), np.zeros(6), np.linspace(0, 0.09, 6)])
    np.save(folder / "shots.npy", rows)
    np.savetxt(folder / "shots.csv", rows, delimiter=",", header="azimuth_deg,elevation_deg,time_s", comments="")
    (folder / "scenario.yaml").write_text(SCENARIO)
    return [
        Seed(folder / "world.yaml", World.load),
        Seed(folder / "weather.yaml", Weather.load),
        Seed(folder / "layout.json", World.load),
        Seed(folder / "layout.yaml", World.load),
        Seed(folder / "a.geojson", buildings_from),
        Seed(folder / "lidar.yaml", Lidar),
        Seed(folder / "shots.csv", lambda path: Lidar(path.with_name("by-csv.yaml"))),
        Seed(folder / "shots.npy", lambda path: Lidar(path.with_name("by-npy.yaml"))),
        Seed(folder / "scenario.yaml", Scenario.load),
        *_cameras(folder),
        *_questions(folder),
        Seed(write_rover(folder), _robot),
    ]


def _questions(folder: Path) -> list[Seed]:
    """Input files of evaluations: placement of sensors, and detections."""
    example = Path(__file__).resolve().parents[2] / "examples" / "placement" / "city-lidars.yaml"
    shutil.copy(example, folder / "placement.yaml")
    boxes = write_set(folder / "set", samples=2, objects=12)
    return [
        Seed(folder / "placement.yaml", lambda path: load(PlacementFile, path)),
        Seed(write_results(boxes, folder / "found.json", invented=1), lambda path: read_pair(boxes, path)),
    ]


def _pictures(folder: Path) -> list[Seed]:
    rng = np.random.default_rng(5)
    for name, dtype, bands in (
        ("a.png", np.uint8, 3), ("deep.png", np.uint16, 3), ("grey.png", np.uint16, 1), ("a.jpg", np.uint8, 3),
        ("a.tif", np.uint16, 5), ("a.exr", np.uint8, 3), ("float.exr", np.float32, 2), ("a.npz", np.uint16, 4),
    ):  # fmt: skip
        shape = (6, 9) if bands == 1 else (6, 9, bands)
        lens = Intrinsics(9, 6, 8.0, 8.0, 4.0, 2.5)
        colour = rng.integers(0, 255, shape).astype(dtype)
        Shot(colour, intrinsics=lens, depth=np.ones((6, 9)), label=np.ones((6, 9))).save(folder / name)
    return [Seed(file, Shot.load) for file in sorted(folder.iterdir())]


def _cameras(folder: Path) -> list[Seed]:
    """A data sheet of a camera, and calibrations of its lens."""
    lens = Intrinsics(64, 48, 60.0, 61.0, 31.0, 24.0, distortion=(-0.2, 0.05, 1e-3, -1e-3, 0.0))
    save_opencv(folder / "lens-opencv.yaml", lens)
    save_ros(folder / "lens-ros.yaml", lens)
    shutil.copy(PRESETS / "camera" / "onsemi" / "ar0231.yaml", folder / "camera.yaml")
    return [
        Seed(folder / "camera.yaml", Camera),
        Seed(folder / "lens-opencv.yaml", load_intrinsics),
        Seed(folder / "lens-ros.yaml", load_intrinsics),
    ]


def make_corpus(folder: Path) -> list[Seed]:
    """Write one whole file or more of every format below `folder`."""
    seeds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldsDroppedWarning)  # no format holds all
        for part in (_clouds, _scans, _bags, _meshes, _maps, _plain, _settings, _pictures, *SENSES, *RUNS):
            place = folder / part.__name__.strip("_")
            place.mkdir()
            seeds += part(place)
    return seeds
