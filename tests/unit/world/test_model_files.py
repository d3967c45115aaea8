"""Model files: materials and images of glTF and OBJ, instances, units, the table of materials, and hostile content."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from model_rigs import Glb, chequer, one, png, quad
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.surfaces.appearance import Appearance
from parhelion.world.guess import guess
from parhelion.world.loaders import LoadedMesh, load_mesh
from parhelion.world.units import unit_hint

TILES = chequer((200, 30, 20), (240, 240, 240))


def look_of(loaded: LoadedMesh, row: int = 0) -> Appearance:
    look = loaded.parts[row].appearance
    assert look is not None
    return look


# ---- glTF -----------------------------------------------------------------------------------------------------------


def test_materials_of_the_same_name_stay_apart(tmp_path: Path) -> None:
    glb = Glb()
    for colour in ([0.8, 0.1, 0.1, 1.0], [0.1, 0.1, 0.8, 1.0]):
        glb.node(mesh=glb.mesh(quad(), glb.material("Paint", baseColorFactor=colour)))
    loaded = load_mesh(glb.write(tmp_path / "two.glb"))
    assert [part.material for part in loaded.parts] == ["Paint", "Paint"]
    assert [look_of(loaded, row).base for row in (0, 1)] == [(0.8, 0.1, 0.1), (0.1, 0.1, 0.8)]
    world = ph.World()
    world.add(tmp_path / "two.glb", materials={"Paint": "car-paint-red"})


def test_shared_meshes_and_gpu_instances_are_placed(tmp_path: Path) -> None:
    glb = Glb()
    mesh = glb.mesh(quad(1.0), glb.material("concrete"))
    glb.node(mesh=mesh, translation=[0, 5, 0])
    places = np.array([[0, 0, 0], [10, 0, 0], [0, 0, -10]], np.float32)
    turns = np.array([[0, 0, 0, 1], [0, np.sqrt(0.5), 0, np.sqrt(0.5)], [0, 0, 0, 1]], np.float32)
    sizes = np.array([[1, 1, 1], [4, 1, 1], [1, 1, 2]], np.float32)
    attributes = {"TRANSLATION": glb.accessor(places), "ROTATION": glb.accessor(turns), "SCALE": glb.accessor(sizes)}
    glb.node(mesh=mesh, extensions={"EXT_mesh_gpu_instancing": {"attributes": attributes}})
    part = load_mesh(glb.write(tmp_path / "many.glb")).parts[0]
    assert len(part.mesh) == 8
    corners = part.mesh.vertices.reshape(4, 4, 3)
    centres = {tuple(one.mean(axis=0).round(6).tolist()): np.ptp(one, axis=0).round(5).tolist() for one in corners}
    # x stays, y of the file is up, and its -z is our y. The second one is turned by 90 degrees about the upright axis.
    assert centres == {
        (0, 0, 5): [1, 1, 0], (0, 0, 0): [1, 1, 0], (10, 0, 0): [1, 4, 0], (0, 10, 0): [1, 2, 0],
    }  # fmt: skip


def test_texture_transforms_and_second_coordinates(tmp_path: Path) -> None:
    glb = Glb()
    reference: dict[str, Any] = glb.texture(TILES)
    reference |= {"texCoord": 1, "extensions": {"KHR_texture_transform": {"offset": [0.5, 0], "scale": [2, 3]}}}
    geometry = quad()
    geometry["TEXCOORD_1"] = geometry["TEXCOORD_0"] * np.float32(0.5)
    glb.node(mesh=glb.mesh(geometry, glb.material("tiles", baseColorTexture=reference)))
    uv = load_mesh(glb.write(tmp_path / "a.glb")).parts[0].mesh.uv
    assert uv is not None
    own = geometry["TEXCOORD_1"] * [2, 3] + [0.5, 0]
    assert uv[0] == pytest.approx(np.stack([own[:, 0], 1 - own[:, 1]], axis=1)[[0, 1, 2]])


def test_what_is_not_supported_is_listed(tmp_path: Path) -> None:
    path = one(tmp_path / "glass.glb", quad(), "lens", extensions={"KHR_materials_transmission": {}})
    with pytest.warns(UserWarning, match="not supported and omitted: KHR_materials_transmission of material 'lens'"):
        load_mesh(path)
    glb = Glb()
    glb.document["extensionsRequired"] = ["KHR_draco_mesh_compression"]
    glb.node(mesh=glb.mesh(quad(), None))
    with pytest.raises(FormatError, match="gltf-transform"):
        load_mesh(glb.write(tmp_path / "draco.glb"))


def test_an_explicit_material_replaces_the_appearance(tmp_path: Path) -> None:
    path = one(tmp_path / "board.glb", quad(), "wood", baseColorTexture=TILES)
    world = ph.World()
    assert world.add(path).parts[0].appearance is not None
    assert world.add(path, materials={"wood": "steel"}).parts[0].appearance is not None
    assert world.add(path, material="steel").parts[0].appearance is None
    world.save(tmp_path / "world.yaml")
    again = ph.World.load(tmp_path / "world.yaml")
    assert [item.parts[0].appearance is not None for item in again.objects] == [True, True, False]
    assert [item.parts[0].material.name for item in again.objects] == ["wood", "steel", "steel"]


# ---- OBJ ------------------------------------------------------------------------------------------------------------


OBJ = "mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nusemtl tile\nf 1/1 2/2 3/3\n"


def test_mtl_colours_images_and_opacity(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text(OBJ)
    (tmp_path / "a.mtl").write_text(
        "newmtl tile\nKd 0.5 0.25 1\nKs 0.5 0.5 0.5\nNs 30\nillum 2\nKe 2 0 0\n"
        "map_Kd -s 1 1 1 tiles.png\nmap_d mask.png\nmap_Pr rough.png\n"
    )
    (tmp_path / "tiles.png").write_bytes(png(TILES))
    (tmp_path / "mask.png").write_bytes(png(np.array([[0, 255]], np.uint8)))
    (tmp_path / "rough.png").write_bytes(png(np.full((2, 2), 128, np.uint8)))
    look = look_of(load_mesh(tmp_path / "a.obj"))
    assert look.base == (0.5, 0.25, 1.0)
    assert look.emission_cd_m2 == (2.0, 0.0, 0.0)
    assert look.alpha_mode == "mask"
    assert look.base_picture is not None
    assert look.base_picture.pixels[0, [0, -1], 3].tolist() == [0, 255]
    assert look.base_picture.pixels[8, 8, :3].tolist() == [200, 30, 20]
    assert look.surface_picture is not None
    assert look.surface_picture.pixels[0, 0].tolist() == [255, 128, 255, 255]
    (tmp_path / "a.mtl").write_text("newmtl tile\nKd 0.5 x 1\n")
    with pytest.raises(FormatError, match="kd must be numbers"):
        load_mesh(tmp_path / "a.obj")


def test_phong_exponents_become_a_roughness(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text(OBJ)
    (tmp_path / "a.mtl").write_text("newmtl tile\nKd 1 1 1\nKs 1 1 1\nNs 30\n")
    # A Blinn-Phong lobe of exponent n is as wide as GGX of alpha^2 = 2 / (n + 2), and alpha is the roughness squared.
    assert look_of(load_mesh(tmp_path / "a.obj")).roughness ** 4 == pytest.approx(2 / 32)
    (tmp_path / "a.mtl").write_text("newmtl tile\nKd 1 1 1\nillum 1\nNs 30\n")
    assert look_of(load_mesh(tmp_path / "a.obj")).roughness == 1.0


# ---- table of materials ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "colour", "metallic", "want"),
    [
        ("Asphalt_01", (0.9, 0.0, 0.0), 0.0, "asphalt"),
        ("Material.001", (0.6, 0.03, 0.03), 0.0, "car-paint-red"),
        ("Material.002", (0.55, 0.55, 0.55), 1.0, "steel"),
        ("paint_white", (0.8, 0.8, 0.8), 0.0, "white-paint"),
        (None, (0.04, 0.04, 0.04), 0.0, "rubber"),
    ],
)
def test_classes_are_guessed_by_name_and_colour(name: Any, colour: Any, metallic: float, want: str) -> None:
    assert guess(name, Appearance(base=colour, metallic=metallic)).name == want


def test_the_table_of_materials_is_read_and_its_own_entries_remain(tmp_path: Path) -> None:
    from parhelion.world.guess import write_table

    path = one(
        tmp_path / "lamp.glb",
        quad(),
        "Thing.7",
        baseColorFactor=[0.6, 0.03, 0.03, 1],
        emissiveFactor=[1, 0.5, 0],
        metallicFactor=0,
    )
    write_table(path, load_mesh(path))
    table = yaml.safe_load((tmp_path / "materials.yaml").read_text())
    assert table["models"]["lamp.glb"]["Thing.7"]["class"] == "car-paint-red"
    table["models"]["lamp.glb"]["Thing.7"] |= {"class": "plastic", "emission_cd_m2": 300}
    (tmp_path / "materials.yaml").write_text(yaml.safe_dump(table))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        part = ph.World.load(path).objects[0].parts[0]
    assert part.material.name == "plastic"
    assert part.appearance is not None
    assert part.appearance.emission_cd_m2 == (300.0, 150.0, 0.0)
    other = one(tmp_path / "other.glb", quad(), "Brick")
    write_table(other, load_mesh(other))
    write_table(path, load_mesh(path))
    again = yaml.safe_load((tmp_path / "materials.yaml").read_text())["models"]
    assert again["lamp.glb"]["Thing.7"] == table["models"]["lamp.glb"]["Thing.7"]
    assert again["other.glb"]["Brick"]["class"] == "brick"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: {a.glb: {Wood: {class: wod}}}", "materials.yaml: models.a.glb.Wood.class: unknown material 'wod'"),
        ("models: {a.glb: {Wod: {class: wood}}}", "materials.yaml: models.a.glb: material 'Wod'"),
        ("models: {a.glb: {Wood: {clas: wood}}}", "materials.yaml: models.a.glb.Wood"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = one(tmp_path / "a.glb", quad(), "Wood")
    (tmp_path / "materials.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message.split(":")[0]) as caught:
        ph.World.load(path)
    assert "Wo" in str(caught.value)


# ---- units ----------------------------------------------------------------------------------------------------------


def hall(path: Path, scale: float, *, on_side: bool = False) -> Path:
    """A hall of 14 x 8 x 5 m without a roof, in OBJ."""
    floor = ph.shapes.plane(14.0, 8.0)
    walls = [
        ph.shapes.box(*size).transformed(ph.Pose(place))
        for size, place in (
            ((14, 0.2, 5), (0, 3.9, 2.5)), ((14, 0.2, 5), (0, -3.9, 2.5)), ((0.2, 8, 5), (6.9, 0, 2.5))
        )
    ]  # fmt: skip
    mesh = floor.merged([floor, *walls])
    vertices = mesh.vertices * scale
    if on_side:
        vertices = np.stack([vertices[:, 0], vertices[:, 2], -vertices[:, 1]], axis=1)
    rows = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a} {b} {c}" for a, b, c in mesh.faces + 1]
    path.write_text("\n".join(rows))
    return path


def messages(load: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load()
    return " ".join(str(one.message) for one in caught)


def test_a_hall_of_14_km_gets_a_hint(tmp_path: Path) -> None:
    path = hall(tmp_path / "hall.obj", 1000.0)
    assert "pass scale=0.001 (--scale 0.001) for 14 m" in messages(lambda: ph.World.load(path))
    assert "scale" not in messages(lambda: ph.World.load(path, scale=0.001))
    assert "scale" not in messages(lambda: ph.World.load(hall(tmp_path / "good.obj", 1.0)))
    assert unit_hint(0.004) is not None


def test_a_hall_on_its_side_gets_a_hint(tmp_path: Path) -> None:
    path = hall(tmp_path / "hall.obj", 1.0, on_side=True)
    assert "--up y" in messages(lambda: ph.World.load(path))
    for up in ("y", "z"):
        assert "--up" not in messages(lambda up=up: ph.World.load(path, up=up))
    assert "--up" not in messages(lambda: ph.World.load(hall(tmp_path / "good.obj", 1.0)))


@pytest.mark.parametrize("source", ["city", "world.yaml"])
@pytest.mark.parametrize("option", [{"up": "y"}, {"scale": 0.5}])
def test_options_of_models_are_refused_for_other_worlds(tmp_path: Path, source: str, option: dict[str, Any]) -> None:
    if source.endswith(".yaml"):
        source = str(tmp_path / source)
        Path(source).write_text("objects: []")
    with pytest.raises(ConfigError, match=f"{next(iter(option))} applies to a model file"):
        ph.World.load(source, **option)


# ---- hostile content ------------------------------------------------------------------------------------------------


def bomb(width: int, height: int) -> bytes:
    """PNG of zeros: a few kilobytes that decode to width x height pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pack = zlib.compressobj(9)
    rows = b"".join(pack.compress(bytes(width + 1)) for _ in range(height)) + pack.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def with_images(path: Path, *images: bytes) -> Path:
    glb = Glb()
    for number, image in enumerate(images):
        glb.node(mesh=glb.mesh(quad(), glb.material(f"wood {number}", baseColorTexture=glb.texture(image))))
    return glb.write(path)


def test_texture_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="20000 x 16 pixels exceed the limit of 8192 per side"):
        load_mesh(with_images(tmp_path / "wide.glb", bomb(20_000, 16)))
    with pytest.raises(ParhelionError, match="67108864 pixels exceed the limit of 33554432"):
        load_mesh(with_images(tmp_path / "large.glb", bomb(8192, 8192)))
    monkeypatch.setenv("PARHELION_MOST_MODEL_PIXELS", "5000")
    with pytest.raises(ConfigError, match="6144 model pixels exceed the limit of 5000"):
        load_mesh(with_images(tmp_path / "many.glb", *[bomb(64, 32)] * 3))


def damaged(glb: Glb, what: str) -> None:
    document = glb.document
    if what == "image outside":
        document["bufferViews"][document["images"][0]["bufferView"]]["byteLength"] = 10**9
    elif what == "colour":
        document["materials"][0]["pbrMetallicRoughness"]["baseColorFactor"] = [1, "red", 0, 1]
    elif what == "roughness":
        document["materials"][0]["pbrMetallicRoughness"]["roughnessFactor"] = 1e300
    elif what == "instances":
        count = glb.entry("accessors", {"componentType": 5126, "count": 2**30, "type": "VEC3"})
        document["nodes"][0]["extensions"] = {"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": count}}}
    elif what == "rotation":
        zeros = glb.accessor(np.zeros((2, 4), np.float32))
        document["nodes"][0]["extensions"] = {"EXT_mesh_gpu_instancing": {"attributes": {"ROTATION": zeros}}}


@pytest.mark.parametrize("what", ["image outside", "colour", "roughness", "instances", "rotation"])
def test_damaged_documents_are_refused(tmp_path: Path, what: str) -> None:
    glb = Glb()
    glb.node(mesh=glb.mesh(quad(), glb.material("wood", baseColorTexture=glb.texture(TILES))))
    damaged(glb, what)
    with pytest.raises(ParhelionError):
        load_mesh(glb.write(tmp_path / "bad.glb"))


def test_an_image_that_cannot_be_read_is_listed(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="omitted: image 0, which cannot be read as an image"):
        loaded = load_mesh(with_images(tmp_path / "a.glb", b"no image"))
    assert look_of(loaded).base_picture is None
