"""World files: reading, writing, and error messages."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist, Waypoints, pose_at
from parhelion.surfaces.library import material
from parhelion.surfaces.material import LambertModel, Material, SpectrumTable
from parhelion.weather import DustTrail, Fog, Heterogeneity, Rain, Weather
from parhelion.world import World, shapes
from parhelion.world.file import Base

YARD: dict[str, Any] = {
    "name": "my-yard",
    "materials": {
        "my-paint": {"reflectance": 0.4, "brdf": {"model": "lambert"}},
        "my-ore": {"spectrum_file": "ore.csv"},
        "my-tin": {"spectrum": {"wavelength_um": [0.4, 1.6], "reflectance": [0.3, 0.6]}},
    },
    "objects": [
        {"shape": {"kind": "plane", "size_m": [20, 20]}, "material": "asphalt", "label": "road", "texture": "grey.png"},
        {
            "mesh": "hall.ply",
            "material": "my-paint",
            "label": "building",
            "pose": {"xyz": [5, 0, 0], "rpy_deg": [0, 0, 90]},
            "scale": 2.0,
            "hidden_from": ["radar"],
            "name": "hall",
        },
        {"shape": {"kind": "box", "size_m": [2, 1, 1]}, "material": "my-ore", "label": "robot-arm", "instance": 77},
        {"shape": {"kind": "cylinder", "radius_m": 0.5, "height_m": 2}, "material": "my-tin"},
        {"shape": {"kind": "sphere", "radius_m": 0.5, "subdivisions": 1}, "material": "lambert-50"},
        {"shape": {"kind": "cone", "radius_m": 0.5, "height_m": 1, "segments": 8}},
        {"shape": {"kind": "board", "width_m": 1, "height_m": 2}},
    ],
    "actors": [
        {
            "shape": {"kind": "box", "size_m": [4, 2, 2]},
            "label": "truck",
            "material": "car-paint-white",
            "trajectory": {"waypoints": [{"time_s": 0, "xyz": [0, 0, 1]}, {"time_s": 2, "xyz": [8, 0, 1]}]},
        },
        {
            "mesh": "hall.ply",
            "material": "steel",
            "trajectory": {"constant": {"xyz": [0, 3, 0], "velocity_m_s": [1, 0, 0], "turn_rate_deg_s": 90}},
        },
    ],
    "viewpoint": {"xyz": [0, 0, 1.8]},
    "path": {"waypoints": [{"time_s": 0, "xyz": [0, 0, 2]}, {"time_s": 9, "xyz": [9, 0, 2], "rpy_deg": [0, 0, 45]}]},
    "weather": {
        "rain": {"rate_mm_h": [[0, 0], [60, 25]], "model": "vane", "heterogeneity": {"contrast": 0.8}},
        "visibility_m": 800,
        "dust": [{"kind": "trail", "path": [[0, 0, 0, 0], [5, 30, 0, 0]]}],
        "wind_m_s": [3, 0, 0],
    },
}


@pytest.fixture(scope="module")
def yard_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("yard")
    trimesh.creation.box((1, 2, 3)).export(folder / "hall.ply")
    Image.fromarray(np.array([[0, 255], [128, 64]], dtype=np.uint8)).save(folder / "grey.png")
    (folder / "ore.csv").write_text("wavelength_um,reflectance\n0.4,0.2\n1.6,0.8\n")
    (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
    return folder


def assert_same_scene(a: World, b: World) -> None:
    """The same triangles with the same materials, labels and instances, seen by the same sensors."""
    for sensor in ("lidar", "radar"):
        one, two = a.geometry(sensor), b.geometry(sensor)
        for left, right in zip(
            [one.static, *(actor.triangles for actor in one.actors)],
            [two.static, *(actor.triangles for actor in two.actors)],
            strict=True,
        ):
            np.testing.assert_array_equal(left.vertices[left.faces], right.vertices[right.faces])
            np.testing.assert_array_equal(a.parts.label[left.part], b.parts.label[right.part])
            np.testing.assert_array_equal(a.parts.instance[left.part], b.parts.instance[right.part])
            names_a = [a.materials[k] for k in a.parts.material[left.part]]
            assert names_a == [b.materials[k] for k in b.parts.material[right.part]]
            assert (left.uv is None) == (right.uv is None)
            if left.uv is not None and right.uv is not None:
                np.testing.assert_array_equal(left.uv, right.uv)
    assert a.label_names == b.label_names
    np.testing.assert_array_equal(a.viewpoint.matrix, b.viewpoint.matrix)


def test_a_world_file_gives_what_it_says(yard_folder: Path) -> None:
    world = World.load(yard_folder / "yard.yaml")
    assert world.name == "my-yard"
    ground, hall, arm, *_rest = world.objects
    assert (ground.label, hall.name, arm.instance) == ("road", "hall", 77)
    np.testing.assert_allclose(hall.bounds(), [[3, -1, -3], [7, 1, 3]], atol=1e-12)
    assert hall.parts[0].material.reflectance_at(905.0) == pytest.approx(0.4)
    tin = next(m for m in world.materials if m.name == "my-tin")
    assert tin.reflectance_at(1000.0) == pytest.approx(0.45)
    assert arm.parts[0].material.reflectance_at(1000.0) == pytest.approx(0.5)
    np.testing.assert_allclose(world.textures[0], np.array([[0, 255], [128, 64]]) / 255.0, atol=1e-6)
    assert world.parts.texture[ground.parts[0].number] == 0
    assert len(world.geometry("radar").static) == len(world.geometry("lidar").static) - 12
    first, second = world.geometry().actors
    np.testing.assert_allclose(pose_at(first.trajectory, 1.0).xyz, [4, 0, 1])
    np.testing.assert_allclose(pose_at(second.trajectory, 1.0).rpy_deg, [0, 0, 90], atol=1e-9)
    np.testing.assert_allclose(world.viewpoint.xyz, [0, 0, 1.8])
    assert world.path is not None
    np.testing.assert_allclose(pose_at(world.path, 9.0).rpy_deg[2], 45)
    assert world.weather == Weather(
        rain=Rain(rate_mm_h=[[0, 0], [60, 25]], model="vane", heterogeneity=Heterogeneity(scale_m=300, contrast=0.8)),
        fog=Fog(visibility_m=800),
        dust=[DustTrail(path=[[0, 0, 0, 0], [5, 30, 0, 0]])],
        wind_m_s=(3, 0, 0),
    )


def test_saving_and_loading_gives_the_same_world(yard_folder: Path, tmp_path: Path) -> None:
    world = World.load(yard_folder / "yard.yaml")
    world.save(tmp_path / "copy.yaml")
    again = World.load(tmp_path / "copy.yaml")
    assert again.name == "my-yard"
    assert [item.name for item in again.objects] == [item.name for item in world.objects]
    assert_same_scene(world, again)
    assert again.weather == world.weather is not None
    times = np.linspace(-1.0, 4.0, 11)
    for a, b in zip(world.geometry().actors, again.geometry().actors, strict=True):
        np.testing.assert_allclose(a.trajectory.sample(times)[0], b.trajectory.sample(times)[0], atol=1e-12)
        np.testing.assert_allclose(a.trajectory.sample(times)[1], b.trajectory.sample(times)[1], atol=1e-12)
    assert not list(tmp_path.glob("copy-files/*")), "files are named, not copied"


def test_materials_of_the_library_are_named_and_others_written_out(tmp_path: Path) -> None:
    world = World("two")
    own = material("brick").model_copy(update={"name": "old-brick"})
    for one in ("concrete", own):
        world.add(shapes.box(1, 1, 1), material=one)
    world.save(tmp_path / "two.yaml")
    text = yaml.safe_load((tmp_path / "two.yaml").read_text())
    assert [row["material"] for row in text["objects"]] == ["concrete", "old-brick"]
    assert list(text["materials"]) == ["old-brick"]
    again = World.load(tmp_path / "two.yaml")
    assert [item.parts[0].material for item in again.objects] == [material("concrete"), own]


def test_meshes_from_code_are_written_beside_the_file(tmp_path: Path) -> None:
    world = World("code")
    odd = Pose(xyz=(0.1, 0.2, 1 / 3), rpy_deg=(1 / 3, 2 / 7, 77.7))
    paint = Material(
        name="own",
        sources=["test"],
        spectrum=SpectrumTable(wavelength_um=[0.4, 2.0], reflectance=[0.1, 0.2]),
        brdf=LambertModel(),
    )
    ball = shapes.sphere(1 / 3, 1)
    world.add(ball, material=paint, label="thing", pose=odd)
    world.add(ball, material="steel", scale=1.0, pose=Pose(xyz=(1, 1, 1)))
    world.add(shapes.box(1, 1, 1), texture=np.array([[0, 255]], dtype=np.uint8), hidden_from=["radar"])
    world.add_actor(shapes.box(2, 1, 1), scale=0.5, trajectory=Waypoints([0.0, 1.0], [Pose(), odd]))
    world.add_actor(ball, trajectory=Pose(xyz=(3, 0, 0)))
    world.save(tmp_path / "code.yaml")
    again = World.load(tmp_path / "code.yaml")
    assert_same_scene(world, again)
    np.testing.assert_array_equal(again.textures[0], world.textures[0])
    files = sorted(path.name for path in (tmp_path / "code-files").iterdir())
    assert len(files) == 4, "the ball's mesh is written once"
    first = (tmp_path / "code.yaml").read_text()
    world.save(tmp_path / "code.yaml")
    assert (tmp_path / "code.yaml").read_text() == first
    assert sorted(path.name for path in (tmp_path / "code-files").iterdir()) == files


def test_a_mesh_with_several_materials_is_saved_by_name(tmp_path: Path) -> None:
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nusemtl A\nf 1 2 3\nusemtl B\nf 1 3 4\n")
    world = World("two")
    world.add(tmp_path / "m.obj", materials={"A": "grass", "B": "steel"})
    (tmp_path / "sub").mkdir()
    world.save(tmp_path / "sub" / "two.yaml")
    assert yaml.safe_load((tmp_path / "sub" / "two.yaml").read_text())["objects"][0]["mesh"] == "../m.obj"
    assert_same_scene(world, World.load(tmp_path / "sub" / "two.yaml"))


class Spiral:
    """A motion that a world file cannot store."""

    def sample(self, times: Any) -> tuple[Any, Any]:
        n = len(np.asarray(times))
        return np.zeros((n, 3)), np.tile([0.0, 0, 0, 1], (n, 1))


def test_what_a_file_cannot_hold_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("name: before\n")
    world = World()
    actor = world.add_actor(shapes.box(1, 1, 1), name="whirl", trajectory=Spiral())
    with pytest.raises(ConfigError, match=r"'whirl'.*Spiral"):
        world.save(tmp_path / "w.yaml")
    assert (tmp_path / "w.yaml").read_text() == "name: before\n"
    world.remove(actor)
    world.add_actor(shapes.box(1, 1, 1), trajectory=ConstantTwist(Pose(), angular_velocity=(1.0, 0, 0)))
    with pytest.raises(ConfigError, match="rotation about z"):
        world.save(tmp_path / "w.yaml")
    with pytest.raises(ConfigError, match=r"must end in \.yaml"):
        world.save(tmp_path / "w.json")


# ---- built-in bases ----------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A built-in world `tiny` of `count` boxes whose sizes depend on the seed."""
    from parhelion.world import builtin

    def build(name: str, seed: int = 0, *, count: int = 2) -> World:
        world = World(name)
        for row in range(count):
            world.add(shapes.box(1 + seed, 1, 1), material="brick", label="building", pose=Pose(xyz=(0, 3 * row, 0)))
        world.path = Spiral()
        return world

    monkeypatch.setattr(builtin, "BUILTIN", {"tiny": None}, raising=False)
    monkeypatch.setattr(builtin, "build", build, raising=False)


@pytest.mark.usefixtures("tiny_builtin")
def test_a_built_in_base_is_saved_by_name(tmp_path: Path) -> None:
    world = World.load("tiny", seed=4, count=np.int64(3))
    assert isinstance(world.base, Base)
    world.add(shapes.box(1, 1, 1), material="wood", pose=Pose(xyz=(9, 9, 9)))
    world.save(tmp_path / "w.yaml")
    text = yaml.safe_load((tmp_path / "w.yaml").read_text())
    assert (text["base"], text["seed"], text["params"]) == ("tiny", 4, {"count": 3})
    assert len(text["objects"]) == 1
    assert_same_scene(world, World.load(tmp_path / "w.yaml"))
    assert World.load(tmp_path / "w.yaml", seed=5, count=1).triangle_count == 24
    # A base that has lost an object is not the base any more: all is written out.
    world.remove(world.objects[0])
    world.path = None
    world.save(tmp_path / "w.yaml")
    assert "base" not in yaml.safe_load((tmp_path / "w.yaml").read_text())
    assert_same_scene(world, World.load(tmp_path / "w.yaml"))


@pytest.mark.usefixtures("tiny_builtin")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: tinny\n", r"w\.yaml: base: unknown world 'tinny': did you mean 'tiny'"),
        ("base: other.yaml\n", r"base: .*other\.yaml: no such file"),
        ("base: w.yaml\n", "starts from this file itself"),
        ("changes: [{object: 0, name: a, remove: true}]\n", "give base as well"),
        ("base: tiny\nchanges: [{object: 999, name: a, remove: true}]\n", "there is none: the base has changed"),
        ("base: tiny\nchanges: [{object: 0, name: a}]\n", "give remove: true, or at least one of"),
        ("params: {count: 3}\n", "give base as well"),
        ("seed: -1\n", "seed: expected a whole number from 0"),
        ("objcts: []\n", "objcts: unknown field; did you mean 'objects'"),
        ("objects: [{label: car}]\n", r"objects\[0\]: give either mesh or shape"),
        ("objects: [{mesh: a.ply, shape: {kind: box, size_m: [1, 1, 1]}}]\n", "either mesh or shape"),
        ("objects: [{mesh: absent.ply}]\n", r"objects\[0\]: .*absent\.ply: no such file"),
        ("objects: [{shape: {kind: torus}}]\n", r"objects\[0\].*'box', 'cylinder', 'cone', 'sphere'"),
        (
            "objects: [{shape: {kind: box, size_m: [1, 1]}}]\n",
            r"objects\[0\]\.shape\.size_m: expected a list of 3 numbers above 0 and up to 1000000 m, got \[1, 1\]",
        ),
        ("objects: [{shape: {kind: box, size_m: [1, -1, 1]}}]\n", r"size_m\[1\]: expected a number above 0 .*, got -1"),
        (
            "objects: [{shape: {kind: box, size_m: [1, 1, 1]}, material: stel}]\n",
            r"objects\[0\]\.material: unknown .*'steel'",
        ),
        ("objects: [{shape: {kind: box, size_m: [1, 1, 1]}, pose: {xyz: [.nan, 0, 0]}}]\n", r"pose\.xyz\[0\]"),
        ("objects: [{shape: {kind: sphere, radius_m: 1}, texture: x.png}]\n", "UV"),
        ("actors: [{shape: {kind: sphere, radius_m: 1}}]\n", r"actors\[0\]\.trajectory: is required"),
        ("actors: [{shape: {kind: sphere, radius_m: 1}, trajectory: {}}]\n", "one of waypoints, constant, fixed"),
        (
            "actors: [{shape: {kind: sphere, radius_m: 1}, trajectory: {waypoints: [{time_s: 1}, {time_s: 1}]}}]\n",
            r"actors\[0\]: trajectory: times must be",
        ),
        ("materials: {m: {reflectance: 1.4}}\n", r"materials\.m\.reflectance: expected a number from 0 to 1, got 1.4"),
        ("materials: {m: {}}\n", "give one of reflectance, spectrum, spectrum_file"),
        ("materials: {m: {spectrum_file: no.csv}}\n", r"materials\.m: .*no\.csv"),
        ("viewpoint: {xyz: [0, 0, 0], quat_xyzw: [0, 0, 0, 0]}\n", "viewpoint: pose: quat_xyzw must not be zero"),
        ("weather: {rain_rate: 5}\n", r"weather\.rain_rate: unknown field; did you mean 'rain_rate_mm_h'"),
        ("weather: {rain: {rate_mm_h: -5}}\n", r"weather\.rain\.rate_mm_h: must be from 0 to 500 mm/h, got -5"),
        ("weather: {fog: {visibility_m: 100, model: kimm}}\n", r"weather\.fog\.model: .*did you mean 'kim'"),
        ("weather: {1: 2}\n", r"weather"),
        ("weather: 25\n", "weather: give the fields of the weather, or the name of a weather file, got 25"),
        ("weather: storm.yaml\n", r"weather: .*storm\.yaml: no such file"),
        ("- 1\n", "expected a mapping"),
        ("a: [\n", "line"),
    ],
)
def test_wrong_files_are_reported(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "w.yaml").write_text(text)
    with pytest.raises(ParhelionError, match=message) as caught:
        World.load(tmp_path / "w.yaml")
    assert str(caught.value).startswith(str(tmp_path / "w.yaml"))


def test_load_refuses_what_a_world_file_cannot_take(yard_folder: Path) -> None:
    with pytest.raises(ConfigError, match="no built-in base"):
        World.load(yard_folder / "yard.yaml", count=3)
    with pytest.raises(ConfigError, match="maps materials in the field materials"):
        World.load(yard_folder / "yard.yaml", materials={"a": "steel"})
    with pytest.raises(ConfigError, match="did you mean 'scale'"):
        World.load(yard_folder / "hall.ply", scal=3)
    world = World.load(yard_folder / "hall.ply", material="steel", label="machine", scale=2.0)
    assert world.label_names == {109: "machine"}
    assert world.bounds is not None
    np.testing.assert_allclose(world.bounds[1], [1, 2, 3])


# ---- mutations ---------------------------------------------------------------------------------------------------

ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["steel", "hall.ply", "box", "../", "\0", "x" * 300, 1e308, -1, 0, [], {}, [[]], {"kind": "box"}]),
    st.lists(st.integers(-2, 2), max_size=4),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        found += _places(value, (*path, key))
    return found


PLACES = _places(YARD)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(["set", "drop", "rename"]), ODD_VALUES),
        min_size=1,
        max_size=3,
    )
)
def test_changed_files_load_or_say_why_not(yard_folder: Path, changes: list[tuple[tuple[Any, ...], str, Any]]) -> None:
    data = copy.deepcopy(YARD)
    for path, action, value in changes:
        holder: Any = data
        try:
            for key in path[:-1]:
                holder = holder[key]
            if action == "set":
                holder[path[-1]] = copy.deepcopy(value)
            elif action == "drop":
                del holder[path[-1]]
            elif isinstance(holder, dict):
                holder[str(value)] = holder.pop(path[-1])
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    file = yard_folder / "changed.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            world = World.load(file)
        except ParhelionError as error:
            complaint = str(error)
        else:
            assert np.isfinite(world.geometry().static.vertices).all()
            return
    assert complaint.startswith(str(file))
