"""Edits of worlds and scenarios without a browser: the saved file gives the same bits, undo, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.live.viewer import Session, WorldStage
from parhelion.live.viewer.editing import BRDFS, Edits, ScenarioDocument, Target, WorldDocument
from parhelion.live.viewer.stages import ScenarioStage
from parhelion.surfaces import library

PLACE = ph.Pose((1.0, -0.5, 1.2))
SCENARIO: dict[str, Any] = {
    "duration_s": 0.5, "seed": 3, "world": "cuboids",
    "vehicles": [{"name": "robot", "motion": {"fixed": {"xyz": [0.5, 0, 0], "rpy_deg": [0, 0, 20]}}}],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot", "mount": {"xyz": [0, 0, 1]}},
        {"name": "tag", "type": "uwb", "model": "qorvo/dw1000", "vehicle": "robot", "mount": {"xyz": [0, 0, 0.5]},
         "options": {"anchors": {"door": [1, 2, 3], "gate": [3, 2, 3], "desk": [2, -2, 1]}}},
    ],
}  # fmt: skip


def cloud(session: Session) -> ph.PointCloud:
    session.update()
    assert session.error == ""
    assert session.measured is not None
    return session.measured.cloud


def opened(world: ph.World, pose: ph.Pose | None = PLACE) -> Session:
    return Session(WorldStage(world, "velodyne/vlp-16", pose=pose, seed=5))


def same_bits(one: ph.PointCloud, other: ph.PointCloud) -> bool:
    return (
        one.xyz.tobytes() == other.xyz.tobytes()
        and {name: values.tobytes() for name, values in one.fields.items()}
        == {name: values.tobytes() for name, values in other.fields.items()}
        and one.names == other.names
    )


def objects(edits: Edits) -> list[Target]:
    return [one for one in edits.targets() if one.item is not None]


def test_every_edit_of_a_world_is_saved_with_the_same_bits(tmp_path: Path) -> None:
    session = opened(ph.World.load("cuboids"))
    before = cloud(session)
    edits = Edits(WorldDocument.of_source("cuboids", None, {}), session)
    assert same_bits(cloud(session), before)
    _, a, b, c = objects(edits)[:4]
    assert a.item is not None
    edits.move(a, a.pose @ ph.Pose((0.3, 0.2, 0.1), rpy_deg=(1 / 3, 2 / 7, 33.3)))
    edits.delete(edits.target(b.name))
    edits.set_label(edits.target(c.name), "odd kind")
    edits.add("box", ph.Pose((2.0, 1.0, 0.0)), material="brick")
    box = objects(edits)[-1]
    edits.set_label(box, "another kind")
    name = edits.edit_material(edits.target(box.name), 905.0, reflectance=0.15, brdf=BRDFS["phong"])
    edits.duplicate(edits.target(box.name))
    edited = cloud(session)
    assert not same_bits(edited, before)
    assert {"odd kind", "another kind"} & set(edited.names["label"].values())
    (file,) = edits.save(tmp_path / "edited.yaml")
    again = ph.World.load(file)
    assert same_bits(cloud(opened(again)), edited)
    found = next(item for item in again.objects if item.name == "box-1").parts[0].material
    assert found.name == name
    assert found.reflectance_at(905.0) == pytest.approx(0.15)
    assert found.brdf.model == "phong"
    ratio = found.reflectance_at(1550.0) / library.material("brick").reflectance_at(1550.0)
    assert ratio == pytest.approx(0.15 / library.material("brick").reflectance_at(905.0))
    # The saved file can be edited further, also from another folder.
    (tmp_path / "sub").mkdir()
    further = Edits(WorldDocument.of_source(str(file), None, {}), opened(again))
    further.move(next(one for one in objects(further) if one.name.endswith("box-2")), ph.Pose((3.0, 2.0, 0.5)))
    further.save(tmp_path / "sub" / "more.yaml")
    assert same_bits(cloud(opened(ph.World.load(tmp_path / "sub" / "more.yaml"))), cloud(further._session))
    for _ in range(7):
        edits.undo()
    assert same_bits(cloud(session), before)
    for _ in range(7):
        edits.redo()
    assert same_bits(cloud(session), edited)
    assert edits.is_saved


def test_a_model_file_and_its_viewpoint_are_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mesh = ph.shapes.box(2, 2, 2)
    world = ph.World("one")
    world.add(mesh, material="wood", pose=ph.Pose((4, 0, 1)))
    world.save(tmp_path / "world.yaml")
    model = next((tmp_path / "world-files").glob("*.ply")).rename(tmp_path / "crate.ply")
    session = opened(ph.World.load(model, material="wood"), None)
    edits = Edits(WorldDocument.of_source("crate.ply", None, {"material": "wood"}), session)
    lidar, crate = edits.targets()
    edits.move(lidar, ph.Pose((0.0, 0.0, 0.5), rpy_deg=(0, 0, 10)))
    edits.move(edits.target(crate.name), ph.Pose((5.0, 1.0, 0.0)))
    (tmp_path / "sub").mkdir()
    edits.save(tmp_path / "sub" / "crate.yaml")
    again = ph.World.load(tmp_path / "sub" / "crate.yaml")
    assert model.exists()
    assert again.viewpoint == ph.Pose((0.0, 0.0, 0.5), rpy_deg=(0, 0, 10))
    assert same_bits(cloud(opened(again, None)), cloud(session))


def test_sensors_anchors_and_objects_of_a_scenario_are_saved(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(SCENARIO))
    session = Session(ScenarioStage(ph.Scenario.load(file)))
    before = cloud(session)
    edits = Edits(ScenarioDocument.of_file(file), session)
    assert same_bits(cloud(session), before)
    edits.move(edits.target("sensor top"), ph.Pose((0.7, 0.1, 1.4), rpy_deg=(0, 5, 20)))
    edits.duplicate(edits.target("sensor top"))
    edits.move(edits.target("anchor tag/door"), ph.Pose((1.5, 2.0, 2.5)))
    edits.duplicate(edits.target("anchor tag/gate"))
    edits.delete(edits.target("anchor tag/gate-2"))
    edits.save(tmp_path / "moved.yaml")
    assert yaml.safe_load((tmp_path / "moved.yaml").read_text())["world"] == "cuboids"
    crate = next(one for one in objects(edits) if not one.moves and one.pose.xyz[2] < 1.0 and "floor" not in one.name)
    edits.move(crate, crate.pose @ ph.Pose((0.2, 0.4, 0.0)))
    edited = cloud(session)
    written = edits.save(tmp_path / "edited.yaml")
    assert [one.name for one in written] == ["edited-world.yaml", "edited.yaml"]
    assert same_bits(cloud(Session(ScenarioStage(ph.Scenario.load(tmp_path / "edited.yaml")))), edited)
    saved = yaml.safe_load((tmp_path / "edited.yaml").read_text())["sensors"]
    assert [one["name"] for one in saved] == ["top", "tag", "top-2"]
    assert saved[1]["options"]["anchors"] == {"door": [1.5, 2.0, 2.5], "gate": [3, 2, 3], "desk": [2, -2, 1]}
    np.testing.assert_allclose(
        ph.Pose((0.5, 0, 0), rpy_deg=(0, 0, 20)).apply(saved[0]["mount"]["xyz"]), (0.7, 0.1, 1.4)
    )
    with pytest.raises(ConfigError, match="save it in"):
        edits.save(tmp_path.parent / "elsewhere.yaml")


def test_nothing_is_written_over_another_file_without_being_asked(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("name: mine\n")
    edits = Edits(WorldDocument.of_source("cuboids", None, {}), opened(ph.World.load("cuboids")))
    with pytest.raises(ConfigError, match=r"w\.yaml: exists; tick 'replace'"):
        edits.save(file)
    assert file.read_text() == "name: mine\n"
    with pytest.raises(ConfigError, match=r"must end in \.yaml"):
        edits.save(tmp_path / "w.txt")
    with pytest.raises(ConfigError, match="does not exist"):
        edits.save(tmp_path / "none" / "w.yaml")
    edits.save(file, replace=True)
    assert "cuboids" in file.read_text()
    with pytest.raises(ConfigError, match="unknown object"):
        edits.target("no such object")
    with pytest.raises(ConfigError, match="unknown material"):
        edits.set_material(objects(edits)[1], "gold dust")
    assert edits.counts == (0, 0)  # a failed edit changes nothing


def test_the_base_must_be_the_one_that_was_edited(tmp_path: Path) -> None:
    edits = Edits(WorldDocument.of_source("cuboids", None, {}), opened(ph.World.load("cuboids")))
    edits.delete(objects(edits)[1])
    (file,) = edits.save(tmp_path / "w.yaml")
    content = yaml.safe_load(file.read_text())
    content["changes"][0]["name"] = "another"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(
        ConfigError, match=r"changes\[0\]: object \d+ must be 'another', but it is .*the base has changed"
    ):
        ph.World.load(file)
    # A world with changed objects is saved in full by `World.save`.
    world = ph.World.load("cuboids")
    world.revise(world.objects[1], label="odd kind")
    world.save(tmp_path / "full.yaml")
    assert "odd kind" in ph.World.load(tmp_path / "full.yaml").label_names.values()
