"""SDF and MJCF worlds: poses, includes, shapes and colours, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from model_rigs import one, quad
from parhelion.core.errors import ConfigError, FormatError, ParhelionError

WORLD = """<?xml version="1.0"?>
<sdf version="1.9"><world name="yard">
  <light type="directional" name="sun"/>
  <model name="ground_plane"><static>true</static><link name="link"><visual name="visual">
    <geometry><plane><normal>0 0 1</normal><size>40 30</size></plane></geometry>
    <material><diffuse>0.8 0.8 0.8 1</diffuse></material></visual></link></model>
  <frame name="dock"><pose>10 0 0 0 0 1.5707963267948966</pose></frame>
  <model name="crate"><pose relative_to="dock">2 0 0.5 0 0 0</pose>
    <link name="body"><visual name="box"><geometry><box><size>1 2 1</size></box></geometry>
      <material><diffuse>0.8 0.05 0.05 1</diffuse></material></visual></link>
    <link name="lid"><pose relative_to="body">0 0 0.6 0 0 0</pose><visual name="ball">
      <pose>0 0 0.1 0 0 0</pose><geometry><sphere><radius>0.1</radius></sphere></geometry></visual></link></model>
  <include><uri>model://barrel</uri><name>first</name><pose>-3 4 0 0 0 0</pose></include>
  <include><uri>model://barrel</uri><name>second</name><pose>-3 8 0 0 0 0</pose></include>
</world></sdf>"""
BARREL = """<sdf version="1.9"><model name="barrel"><link name="link">
  <visual name="drum"><pose>0 0 0.45 0 0 0</pose>
    <geometry><cylinder><radius>0.3</radius><length>0.9</length></cylinder></geometry></visual>
  <visual name="label"><geometry><mesh><uri>meshes/label.glb</uri><scale>2 2 2</scale></mesh></geometry></visual>
</link></model></sdf>"""


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    (tmp_path / "barrel" / "meshes").mkdir(parents=True)
    one(tmp_path / "barrel" / "meshes" / "label.glb", quad(0.1), "Paper", baseColorFactor=[0.9, 0.9, 0.2, 1])
    (tmp_path / "barrel" / "model.sdf").write_text(BARREL)
    (tmp_path / "yard.sdf").write_text(WORLD)
    return tmp_path / "yard.sdf"


def centre(world: ph.World, name: str) -> list[float]:
    item = next(item for item in world.objects if item.name == name)
    lower, upper = item.bounds()
    return ((lower + upper) / 2).round(6).tolist()


def test_every_visual_is_where_its_frames_put_it(yard: Path) -> None:
    with pytest.warns(UserWarning, match=r"guessed|omitted") as caught:
        world = ph.World.load(yard)
    assert [item.name for item in world.objects] == [
        "ground_plane/link/visual", "crate/body/box", "crate/lid/ball",
        "first/link/drum", "first/link/label", "second/link/drum", "second/link/label",
    ]  # fmt: skip
    assert centre(world, "crate/body/box") == [10.0, 2.0, 0.5]
    assert centre(world, "crate/lid/ball") == [10.0, 2.0, 1.2]
    assert centre(world, "second/link/drum") == [-3.0, 8.0, 0.45]
    crate = next(item for item in world.objects if item.name == "crate/body/box")
    lower, upper = crate.bounds()
    assert upper - lower == pytest.approx([2.0, 1.0, 1.0])  # turned by the frame
    assert crate.parts[0].material.name == "car-paint-red"
    assert crate.parts[0].appearance is not None
    instances = [item.instance for item in world.objects]
    assert instances == [1, 2, 2, 3, 3, 4, 4]
    assert world.height(5.0, 5.0) == pytest.approx(0.0, abs=1e-5)
    label = next(item for item in world.objects if item.name == "first/link/label")
    assert np.ptp(label.bounds(), axis=0) == pytest.approx([[0.2, 0.2, 0.0]][0])
    text = " ".join(str(one.message) for one in caught)
    assert "omitted: 1 <light>" in text
    assert "'colour 0.80 0.05 0.05' -> 'car-paint-red'" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('relative_to="dock"', 'relative_to="dok"', "no such link, frame or model"),
        ('<frame name="dock"><pose>', '<frame name="dock"><pose relative_to="crate">', "leads back to itself"),
        ("model://barrel", "http://example.org/barrel", "not downloaded"),
        ("model://barrel", "model://barel", "no package 'barel'"),
        ("<size>1 2 1</size>", "<size>1 2 -1</size>", "size must be positive"),
        ("<size>1 2 1</size>", "<size>1 2</size>", "3 finite numbers"),
        ("<sdf version", "<!DOCTYPE x><sdf version", "not allowed"),
        ("</world></sdf>", "", "not whole XML"),
    ],
)
def test_wrong_worlds_are_refused(yard: Path, old: str, new: str, message: str) -> None:
    yard.write_text(yard.read_text().replace(old, new))
    with pytest.raises(ParhelionError, match=message):
        ph.World.load(yard)


def test_a_model_that_includes_itself_is_refused(yard: Path) -> None:
    file = yard.parent / "barrel" / "model.sdf"
    file.write_text(BARREL.replace("</model>", "<include><uri>model://barrel</uri></include></model>"))
    with pytest.raises(ConfigError, match="deeper than 8"):
        ph.World.load(yard)


def test_options_of_models_are_refused(yard: Path) -> None:
    with pytest.raises(ConfigError, match="scale applies to a model file"):
        ph.World.load(yard, scale=0.001)


def test_bodies_of_mujoco_models_become_objects(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    file = tmp_path / "scene.xml"
    file.write_text(
        """<mujoco><asset><material name="red_paint" rgba="0.8 0.05 0.05 1"/></asset><worldbody>
        <geom name="floor" type="plane" size="5 5 0.1"/>
        <body name="box" pos="1 2 0.5"><freejoint/>
        <geom name="cube" type="box" size="0.5 0.5 0.5" material="red_paint"/></body></worldbody></mujoco>"""
    )
    with pytest.warns(UserWarning, match="materials guessed"):
        world = ph.World.load(file)
    assert [item.label for item in world.objects] == ["ground", "object"]
    assert centre(world, "box/cube") == [1.0, 2.0, 0.5]
    assert world.objects[1].parts[0].material.name == "car-paint-red"


def test_xml_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.sdf").write_text("<robot name='a'/>")
    with pytest.raises(FormatError, match="its root must be <sdf>"):
        ph.World.load(tmp_path / "other.sdf")


@pytest.mark.parametrize("suffix", [".fbx", ".blend", ".max", ".ifc"])
def test_other_formats_are_refused_with_advice(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"model{suffix}"
    file.write_bytes(b"data")
    with pytest.raises(ConfigError, match=r"not supported; (convert|export) it"):
        ph.World.load(file)
    with pytest.raises(ConfigError, match=r"not supported; (convert|export) it"):
        ph.World().add(file)
