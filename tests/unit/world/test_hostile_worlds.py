"""Files of worlds, surfaces and robots that are small, or look harmless, and would take all memory or never end."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hostile_rigs import fence
from parhelion import Lidar, World
from parhelion.core.config import read_yaml
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.io import read_cloud
from parhelion.io.pcap import read_pcap
from parhelion.io.ros import BagReader
from parhelion.makers.ouster.metadata import read_metadata
from parhelion.motion import RecordedMotion
from parhelion.surfaces.spectra import read_spectrum
from parhelion.surfaces.texture import load_colour_texture
from parhelion.weather import Weather
from parhelion.world.loaders import load_mesh
from parhelion.world.procedural import Layout, buildings_from, check, read_height_map
from parhelion.world.urdf import load_urdf

DOORS: dict[str, Callable[[Path], Any]] = {
    **{f"cloud{end}": read_cloud for end in (".pcd", ".ply", ".las", ".laz", ".bin", ".label", ".pcd.bin", ".csv")},
    "cloud.npz": read_cloud,
    "cloud.pcap": read_cloud,
    "frames.pcap": lambda path: list(read_pcap(path)),
    "sensor.json": read_metadata,
    "bag.mcap": BagReader,
    "bag.db3": BagReader,
    "any.yaml": read_yaml,
    "weather.yaml": Weather.load,
    "world.yaml": World.load,
    "lidar.yaml": Lidar,
    "layout.json": World.load,
    "map.geojson": World.load,
    "buildings.geojson": buildings_from,
    **dict.fromkeys(("map.osm", "map.osm.pbf", "roads.xodr", "town.city.json", "plan.svg", "plan.dxf"), World.load),
    **{f"mesh{end}": load_mesh for end in (".obj", ".ply", ".stl", ".glb", ".gltf", ".off")},
    **{f"heights{end}": read_height_map for end in (".png", ".tif", ".npy", ".asc", ".csv")},
    "texture.png": load_colour_texture,
    "spectrum.txt": read_spectrum,
    "robot.urdf": load_urdf,
    "poses.tum": RecordedMotion.from_tum,
    "poses.kitti": lambda path: RecordedMotion.from_kitti(path, rate_hz=10.0),
}


@pytest.mark.parametrize("name", DOORS)
def test_pipes_devices_folders_and_names_that_no_file_has(tmp_path: Path, name: str) -> None:
    pipe, folder, device = tmp_path / name, tmp_path / "folder" / name, tmp_path / "device" / name
    os.mkfifo(pipe)
    folder.mkdir(parents=True)
    device.parent.mkdir()
    device.symlink_to("/dev/zero")
    for path in (
        pipe,
        device,
        folder,
        tmp_path / "absent" / name,
        tmp_path / f"nul\0{name}",
        tmp_path / ("n" * 300 + name),
    ):
        with fence(5.0), pytest.raises(ParhelionError) as caught:
            DOORS[name](path)
        message = str(caught.value)
        assert name in message or path.name[:20] in message, message
        assert "\n" not in message
        assert "\0" not in message


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("content", [b"\0", b"\xff" * 64, b"{" * 100_000, b"0 " * 5000, bytes(range(256)) * 8])
def test_noise_is_refused_in_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with fence():
        try:
            DOORS[name](file)
        except ParhelionError as error:
            message = str(error)
        else:
            assert name in ("cloud.bin", "cloud.pcd.bin", "any.yaml", "mesh.stl")  # raw numbers, and any text
            return
    assert name in message
    assert "\n" not in message


def geojson(path: Path, *rings: list[list[float]]) -> Path:
    path.write_text(json.dumps({"type": "Polygon", "coordinates": rings}))
    return path


def square(x: float, y: float, half: float) -> list[list[float]]:
    return [[x - half, y - half], [x + half, y - half], [x + half, y + half], [x - half, y + half]]


def test_a_hole_one_degree_away(tmp_path: Path) -> None:
    file = geojson(tmp_path / "a.geojson", square(8.0, 50.0, 1e-4), square(9.0, 50.0, 1e-5))
    with (
        fence(),
        pytest.raises(ConfigError, match=r"a\.geojson: reaches \d+\.\d km from its origin; the limit is 10 km"),
    ):
        World.load(file)


def footprint(**params: Any) -> dict[str, Any]:
    return {"kind": "footprint", "size": [10, 10, 5], "params": params}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"ways": [{"name": "w", "points": [[0, 0], [0, 1e6]]}]}, "way 'w' leaves the plan of 100 x 100 m by 999950"),
        ({"ways": [{"name": "w", "points": [[0, 0], [0, 1e6]]}], "objects": [{"kind": "rack", "size": [3, 1, 4]}]},
         "way 'w' leaves the plan"),
        ({"drive": {"points": [[0, 0], [1e6, 1e6]]}, "objects": [{"kind": "rack", "size": [3, 1, 4]}]},
         "the drive leaves the plan"),
        ({"objects": [footprint(outline=square(0, 0, 1e6))]}, "expected a number from -1000 to 1000"),
        ({"objects": [footprint(outline=square(0, 0, 5), holes=[square(900, 0, 1)])]}, r"holes\[0\] must lie inside"),
        ({"objects": [footprint(outline=square(0, 0, 5) * 600)]}, "expected a list of 3 to 2000"),
        ({"objects": [{"kind": "terrain", "size": [90, 90, 0], "params": {"track": [[-1e6, 0], [1e6, 0]]}}]},
         "is too long|must be 6000 m long at most"),
        ({"objects": [{"kind": "rack", "size": [3, 1, 4]}] * 5000}, "more than 1000000 pairs of objects touch"),
    ],
    ids=["way", "way past a rack", "drive", "outline", "hole", "corners", "track", "heap"],
)  # fmt: skip
def test_layouts_that_would_fill_the_memory(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    file = tmp_path / "layout.json"
    file.write_text(json.dumps({"size": [100, 100], **content}))
    with fence(), pytest.raises(ConfigError, match=rf"layout(\.json)?:? .*({message})"):
        World.load(file)


def test_a_way_across_the_largest_plan_is_checked_within_bounds() -> None:
    rack = {"kind": "rack", "size": [3, 1, 4]}
    for width, blocked in ((1000.0, False), (3.0, True)):
        points = [[-450.0, -450.0], [450.0, 450.0]]
        layout = Layout.from_mapping(
            {"size": [1000, 1000], "objects": [rack], "ways": [{"name": "w", "points": points, "width_m": width}]}
        )
        with fence(30.0):
            found = check(layout)
        assert any("is blocked" in text for text in found) == blocked, (width, found)


def test_an_accessor_without_a_view(tmp_path: Path) -> None:
    file = tmp_path / "a.gltf"
    document: dict[str, Any] = {
        "asset": {"version": "2.0"},
        "accessors": [{"count": 2_000_000_000, "componentType": 5126, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
    }
    file.write_text(json.dumps(document))
    with fence(), pytest.raises(FormatError, match=r"a\.gltf: its \d+ bytes claim to decompress"):
        load_mesh(file)
    for change, message in (
        ({"count": -1}, "count must be a whole number above 0, got -1"),
        ({"count": "1"}, "count must be a whole number"),
        ({"componentType": [1]}, "componentType must be one of 5120"),
        ({"type": {}}, "type must be one of SCALAR"),
    ):
        document["accessors"][0] = {"count": 3, "componentType": 5126, "type": "VEC3", **change}
        file.write_text(json.dumps(document))
        with pytest.raises(FormatError, match=rf"a\.gltf: accessors\[0\]: {message}"):
            load_mesh(file)


def test_one_mesh_placed_without_end(tmp_path: Path) -> None:
    file = tmp_path / "a.gltf"
    points = np.random.default_rng(0).random((3000, 3)).astype("<f4").tobytes()
    count = 20_000
    document = {
        "asset": {"version": "2.0"},
        "buffers": [{"byteLength": len(points), "uri": "data:;base64," + base64.b64encode(points).decode()}],
        "bufferViews": [{"buffer": 0, "byteLength": len(points)}],
        "accessors": [{"bufferView": 0, "count": 3000, "componentType": 5126, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "nodes": [{"mesh": 0, "translation": [k, 0, 0]} for k in range(count)],
        "scenes": [{"nodes": list(range(count))}],
    }
    file.write_text(json.dumps(document))
    with fence(60.0), pytest.raises(FormatError, match=r"a\.gltf: its nodes repeat meshes to 20000000 triangles"):
        load_mesh(file)


def npy_of(shape: str) -> bytes:
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(64)


def test_height_maps_that_are_traps(tmp_path: Path) -> None:
    Image.new("L", (12_000, 12_000)).save(tmp_path / "bomb.png")
    (tmp_path / "huge.npy").write_bytes(npy_of("(1000000, 1000000)"))
    (tmp_path / "bare.asc").write_text("ncols 2\nNODATA_value\n1 2\n3 4\n")
    Image.fromarray(np.ones((9, 9), np.float32)).save(tmp_path / "whole.tif")
    for name, message in (
        ("bomb.png", "12000 x 12000 heights; the limit is 1000000"),
        ("huge.npy", "claims the shape"),
        ("bare.asc", "nodata_value must be one number"),
    ):
        with fence(), pytest.raises(ConfigError, match=rf"{name.replace('.', '[.]')}: .*{message}"):
            read_height_map(tmp_path / name, range_m=(0.0, 1.0))
    whole = (tmp_path / "whole.tif").read_bytes()
    for place in range(len(whole)):
        (tmp_path / "torn.tif").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with fence():
            try:
                read_height_map(tmp_path / "torn.tif", range_m=(0.0, 1.0))
            except ConfigError as error:
                assert "torn.tif: " in str(error)  # noqa: PT017


def test_the_largest_texture_takes_no_gigabyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_MOST_PIXELS", str(8192 * 8192))
    Image.new("L", (8192, 8192), 51).save(tmp_path / "large.png")
    Image.new("RGB", (8193, 4)).save(tmp_path / "wide.png")
    Image.new("1", (16_000, 12_000)).save(tmp_path / "bomb.png")
    with fence(more_bytes=700 << 20):
        assert load_colour_texture(tmp_path / "large.png")[0][5, 5] == np.float32(0.2)
    for name in ("wide.png", "bomb.png"):
        with (
            fence(),
            pytest.raises(FormatError, match=rf"{name.replace('.', '[.]')}: .*(limit of 8192 per side|exceeds limit)"),
        ):
            load_colour_texture(tmp_path / name)


def test_a_header_that_goes_on_and_on(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("Name: x\n" + "y\n" * 2_000_000 + "1 0.5\n2 0.5\n")
    with fence():
        assert read_spectrum(file).header["Name"].startswith("x y y")


def test_poses_beyond_all_bounds(tmp_path: Path) -> None:
    tum, kitti = tmp_path / "poses.tum", tmp_path / "poses.kitti"
    tum.write_text("0 0 0 0 0 0 0 1\n1 1e308 0 0 0 0 0 1\n")
    with pytest.raises(FormatError, match=r"poses\.tum: line 2: positions must lie within 1e\+12 m, got 1e\+308"):
        RecordedMotion.from_tum(tum)
    tum.write_text("0 0 0 0 0 0 0 1\n1e308 0 0 0 0 0 0 1\n")
    with pytest.raises(ConfigError, match=r"poses\.tum: recorded motion: times must lie within ±1e\+19, got 1e\+308"):
        RecordedMotion.from_tum(tum)
    kitti.write_text("1 0 0 1e308 0 1 0 0 0 0 1 0\n")
    with pytest.raises(FormatError, match=r"poses\.kitti: line 1: positions must lie within"):
        RecordedMotion.from_kitti(kitti, rate_hz=10.0)
    kitti.write_text("1e308 0 0 0 0 1 0 0 0 0 1 0\n")
    with pytest.raises(FormatError, match=r"poses\.kitti: line 1: the first three columns are not a rotation"):
        RecordedMotion.from_kitti(kitti, rate_hz=10.0)


def test_entities_of_collada_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.dae"
    file.write_text('<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><COLLADA>&b;</COLLADA>')
    with fence(), pytest.raises(FormatError, match=r"a\.dae: line 1: <!DOCTYPE is not allowed"):
        load_mesh(file)
