"""Edits of a world or a scenario without a browser: documents, undo, and files.

A document holds the fields of a world file or a scenario file. Every edit makes a new document and builds the world
from it, as a reader of the saved file does. The saved file therefore gives the same world, bit for bit.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from parhelion.core import config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.files import write_whole
from parhelion.core.pose import Pose
from parhelion.live.viewer.session import Session
from parhelion.live.viewer.stages import ScenarioStage, WorldStage
from parhelion.scenario.scenario import Scenario
from parhelion.scenario.schema import ScenarioFile
from parhelion.surfaces import library
from parhelion.surfaces.material import Material, SpectrumTable
from parhelion.world.file import build_world, pose_fields
from parhelion.world.parts import WorldObject
from parhelion.world.schema import PoseEntry, WorldFile
from parhelion.world.sources import source_of

MOST_STEPS = 200
"""Number of edits that can be undone."""
SHAPES: dict[str, dict[str, Any]] = {
    "box": {"kind": "box", "size_m": [1.0, 1.0, 1.0]},
    "cylinder": {"kind": "cylinder", "radius_m": 0.3, "height_m": 1.0},
    "cone": {"kind": "cone", "radius_m": 0.3, "height_m": 0.7},
    "sphere": {"kind": "sphere", "radius_m": 0.5},
    "board": {"kind": "board", "width_m": 1.0, "height_m": 1.0},
    "anchor": {"kind": "box", "size_m": [0.08, 0.08, 0.04]},
}
"""Objects that can be placed. Ranging radios use static objects whose names begin with `anchor`."""
BRDFS: dict[str, dict[str, Any]] = {
    "lambert": {"model": "lambert"},
    "oren-nayar": {"model": "oren-nayar", "roughness_deg": 20.0},
    "phong": {"model": "phong", "specular_share": 0.3, "exponent": 20.0},
    "cook-torrance": {"model": "cook-torrance", "roughness": 0.3, "refractive_index": 1.5},
}
"""Reflection models with the parameters that they start with."""
_PATHS = ("mesh", "texture", "spectrum_file", "file")

LIDAR = "lidar"
"""Name of the lidar of a world, whose pose is the viewpoint of the world file."""

Fields = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """Something that can be selected."""

    name: str
    """Name in the list."""
    kind: str
    """'object', 'sensor' or 'anchor'."""
    pose: Pose
    """Pose of the handle in the world."""
    item: WorldObject | None = None
    moves: bool = False
    """True for actors, whose motion cannot be edited here."""
    turns: bool = True
    """False for anchors, which have no direction."""


def _handle(item: WorldObject) -> Pose:
    """Pose of the handle of an object: at its pose if that is near its triangles, otherwise below their centre."""
    lower, upper = item.bounds()
    inside = np.all(item.pose.xyz >= lower - 0.5) and np.all(item.pose.xyz <= upper + 0.5)
    middle = (lower + upper) / 2.0
    return item.pose if inside and not item.is_actor else Pose((middle[0], middle[1], lower[2]), item.pose.quat_xyzw)


# ---- worlds ---------------------------------------------------------------------------------------------------------


class WorldDocument:
    """Fields of a world file, the world built from them, and the entry of each of its objects."""

    def __init__(self, fields: Fields, home: Path) -> None:
        self.fields, self.home = fields, home
        self._content = config.parse(WorldFile, fields, home)
        self.world = build_world(self._content, home)
        entries = len(self._content.objects) + len(self._content.actors)
        # Each entry adds one object, after those of the base.
        added = self.world.objects[len(self.world.objects) - entries :] if entries else []
        self._rows = {item.index: row for row, item in enumerate(added)}
        self._own = frozenset(item.index for item in self.world.objects)

    @classmethod
    def of_source(cls, source: str, seed: int | None, params: Mapping[str, Any]) -> WorldDocument:
        """Document of a world by name or path, with its parameters."""
        from parhelion.world.procedural.build import is_list

        path = Path(source)
        is_yaml = path.suffix.lower() in (".yaml", ".yml") and source_of(path) is None and not is_list(path)
        if is_yaml and not params and seed is None:
            return cls(config.read_yaml(path), path)
        home = Path.cwd() / "world.yaml"
        base = os.path.relpath(path.absolute(), home.parent) if path.suffix else source
        fields: Fields = {"base": Path(base).as_posix()}
        fields |= {"seed": seed} if seed else {}
        fields |= {"params": dict(params)} if params else {}
        return cls(fields, home)

    def targets(self) -> list[Target]:
        """All objects and actors."""
        return [
            Target(f"{item.index} {item.name}", "object", _handle(item), item, moves=item.is_actor)
            for item in self.world.objects
            if item.index in self._own  # a scenario adds others to its world
        ]

    def with_fields(self, fields: Fields) -> WorldDocument:
        """Document with other fields."""
        return WorldDocument(fields, self.home)

    def changed(self, item: WorldObject, **values: Any) -> WorldDocument:
        """Document with other fields of one object: pose, label, material, or remove."""
        fields = copy.deepcopy(self.fields)
        row = self._rows.get(item.index)
        if row is None:
            rows = fields.setdefault("changes", [])
            entry = next((one for one in rows if one["object"] == item.index), None)
            if entry is None:
                entry = {"object": item.index, "name": item.name}
                rows.append(entry)
            if values.get("remove"):
                rows[rows.index(entry)] = {"object": item.index, "name": item.name, "remove": True}
            else:
                entry.update(values)
            rows.sort(key=lambda one: int(one["object"]))
            return self.with_fields(fields)
        fixed = len(fields.get("objects") or [])
        listed, at = (fields["objects"], row) if row < fixed else (fields["actors"], row - fixed)
        if values.get("remove"):
            del listed[at]
        else:
            listed[at].update(values)
            if "material" in values:
                listed[at].pop("materials", None)
        return self.with_fields(fields)

    def added(self, entry: Fields) -> WorldDocument:
        """Document with one more static object."""
        fields = copy.deepcopy(self.fields)
        fields.setdefault("objects", []).append(entry)
        return self.with_fields(fields)

    def copied(self, item: WorldObject, pose: Pose) -> WorldDocument:
        """Document with a copy of an object that a world file describes at another pose."""
        row = self._rows.get(item.index)
        if row is None or row >= len(self.fields.get("objects") or []):
            raise ConfigError(f"{item.name}: only objects that the world file lists can be copied")
        entry = copy.deepcopy(self.fields["objects"][row])
        entry.pop("instance", None)
        return self.added({**entry, "name": self.free_name(item.name), "pose": pose_fields(pose)})

    def free_name(self, stem: str) -> str:
        """Name of an object that is not in use."""
        used = {item.name for item in self.world.objects}
        stem = stem.rstrip("0123456789").rstrip("-") or "object"
        return next(name for k in range(1, 10**6) if (name := f"{stem}-{k}") not in used)

    def with_material(self, name: str, entry: Fields) -> WorldDocument:
        """Document with a material of its own."""
        fields = copy.deepcopy(self.fields)
        fields.setdefault("materials", {})[name] = entry
        return self.with_fields(fields)

    def relocated(self, target: Path) -> Fields:
        """Fields with paths relative to the folder of another file."""
        here, there = self.home.absolute().parent, target.absolute().parent
        fields = copy.deepcopy(self.fields)
        if here == there:
            return fields

        def moved(name: str) -> str:
            return Path(os.path.relpath(here / name, there)).as_posix()

        for entry in [*_lists(fields, "objects", "actors", "sounds"), *(fields.get("materials") or {}).values()]:
            for key in _PATHS:
                if isinstance(entry.get(key), str):
                    entry[key] = moved(entry[key])
        for key in ("base", "weather"):
            if isinstance(fields.get(key), str) and (key == "weather" or Path(fields[key]).suffix):
                fields[key] = moved(fields[key])
        return fields

    def save(self, target: Path, *, replace: bool = False) -> list[Path]:
        """Write the world file; an existing file is replaced only with `replace`."""
        _check_target(target, replace)
        _write(target, self.relocated(target), WorldFile)
        return [target]


def _lists(fields: Fields, *names: str) -> list[Fields]:
    return [entry for name in names for entry in fields.get(name) or []]


def _check_target(target: Path, replace: bool) -> None:
    if target.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(f"{target}: the name of the file must end in .yaml")
    if not target.absolute().parent.is_dir():
        raise ConfigError(f"{target}: the folder {target.absolute().parent} does not exist")
    if target.exists() and not replace:
        raise ConfigError(f"{target}: exists; tick 'replace' or choose another name")


def _write(target: Path, fields: Fields, model: type[WorldFile] | type[ScenarioFile]) -> None:
    """Write checked fields, all or nothing; numbers keep every digit."""
    config.parse(model, fields, target)
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    write_whole(target, text.encode("utf-8"))


# ---- scenarios ------------------------------------------------------------------------------------------------------


class ScenarioDocument:
    """Fields of a scenario file and of the file of its world, and the scenario built from them."""

    def __init__(self, fields: Fields, home: Path, world: WorldDocument, *, own_world: bool) -> None:
        self.fields, self.home, self.place, self.own_world = fields, home, world, own_world
        settings = config.parse(ScenarioFile, fields, home)
        self.scenario = Scenario(settings, home.parent, str(home), place=world.world)
        self.world = self.scenario.world

    @classmethod
    def of_file(cls, path: Path) -> ScenarioDocument:
        """Document of a scenario file."""
        fields = config.read_yaml(path)
        entry = fields.get("world")
        name = entry if isinstance(entry, str) else str(entry["name"])
        seed, params = (None, {}) if isinstance(entry, str) else (entry.get("seed"), entry.get("params") or {})
        source = str(path.parent / name) if Path(name).suffix else name
        return cls(fields, path, WorldDocument.of_source(source, seed, params), own_world=False)

    def with_fields(self, fields: Fields) -> ScenarioDocument:
        """Document with other fields of the scenario. The world is built again, because scenarios add to it."""
        return ScenarioDocument(fields, self.home, self.place.with_fields(self.place.fields), own_world=self.own_world)

    def with_world(self, place: WorldDocument) -> ScenarioDocument:
        """Document with an edited world."""
        return ScenarioDocument(self.fields, self.home, place, own_world=True)

    def targets(self) -> list[Target]:
        """Sensors with their poses at the start, anchors, and the objects of the world."""
        from parhelion.core.trajectory import pose_at

        found = []
        for row, sensor in enumerate(self.scenario.sensors):
            found.append(Target(f"sensor {sensor.name}", "sensor", pose_at(sensor.motion, 0.0)))
            anchors = (self.fields["sensors"][row].get("options") or {}).get("anchors")
            if isinstance(anchors, dict):
                found += [
                    Target(f"anchor {sensor.name}/{name}", "anchor", Pose(xyz), turns=False)
                    for name, xyz in anchors.items()
                ]
        return found + self.place.targets()

    def moved_sensor(self, name: str, pose: Pose) -> ScenarioDocument:
        """Document with a sensor at another pose in the world at the start."""
        from parhelion.core.trajectory import pose_at

        fields = copy.deepcopy(self.fields)
        row = self._sensor_row(name)
        sensor = self.scenario.sensors[row]
        if fields["sensors"][row].get("link"):
            raise ConfigError(
                f"{name}: is mounted on the link {fields['sensors'][row]['link']!r}; edit its mount there"
            )
        carrier = Pose() if sensor.body is None else pose_at(sensor.body.motion, 0.0)
        fields["sensors"][row]["mount"] = pose_fields(carrier.inverse() @ pose)
        return self.with_fields(fields)

    def _sensor_row(self, name: str) -> int:
        names = [str(one["name"]) for one in self.fields["sensors"]]
        if name not in names:
            raise unknown_name("sensor", name, names)
        return names.index(name)

    def without_sensor(self, name: str) -> ScenarioDocument:
        """Document without a sensor."""
        fields = copy.deepcopy(self.fields)
        if len(fields["sensors"]) == 1:
            raise ConfigError(f"{name}: is the only sensor; a scenario needs one")
        del fields["sensors"][self._sensor_row(name)]
        return self.with_fields(fields)

    def copied_sensor(self, name: str) -> ScenarioDocument:
        """Document with a second sensor like one of the scenario, half a metre above it."""
        fields = copy.deepcopy(self.fields)
        entry = copy.deepcopy(fields["sensors"][self._sensor_row(name)])
        used = {one["name"] for one in fields["sensors"]}
        entry["name"] = next(new for k in range(2, 1000) if (new := f"{name}-{k}") not in used)
        entry.pop("folder", None)
        mount = config.parse(PoseEntry, entry.get("mount") or {}, self.home).pose()
        entry["mount"] = pose_fields(Pose(mount.xyz + np.array([0.0, 0.0, 0.5]), mount.quat_xyzw))
        fields["sensors"].append(entry)
        return self.with_fields(fields)

    def with_anchor(self, sensor: str, name: str, xyz: Any) -> ScenarioDocument:
        """Document with an anchor of a sensor at a position [m]; None removes it."""
        fields = copy.deepcopy(self.fields)
        anchors = fields["sensors"][self._sensor_row(sensor)]["options"]["anchors"]
        if xyz is None:
            del anchors[name]
        else:
            anchors[name] = [float(value) for value in xyz]
        return self.with_fields(fields)

    def save(self, target: Path, *, replace: bool = False) -> list[Path]:
        """Write the scenario file and, if the world was edited, its world file `<name>-world.yaml`."""
        if target.absolute().parent != self.home.absolute().parent:
            raise ConfigError(
                f"{target}: save it in {self.home.absolute().parent}, because paths in the scenario are relative"
            )
        _check_target(target, replace)
        if not self.own_world:
            _write(target, self.fields, ScenarioFile)
            return [target]
        file = target.with_name(f"{target.stem}-world.yaml")
        _check_target(file, replace)
        _write(file, self.place.relocated(file), WorldFile)
        _write(target, {**self.fields, "world": file.name}, ScenarioFile)
        return [file, target]


# ---- edits ----------------------------------------------------------------------------------------------------------


class Edits:
    """Edits of the world or the scenario of a session, with undo and redo. Only the measuring thread calls it."""

    def __init__(self, document: WorldDocument | ScenarioDocument, session: Session) -> None:
        self._session = session
        self._past: list[WorldDocument | ScenarioDocument] = []
        self._future: list[WorldDocument | ScenarioDocument] = []
        self.document = self._first = document
        self.saved: WorldDocument | ScenarioDocument = document
        """Last saved document."""
        self._show(document)

    @property
    def is_saved(self) -> bool:
        """True if all edits are saved."""
        return self.document is self.saved

    @property
    def counts(self) -> tuple[int, int]:
        """Number of edits that can be undone and redone."""
        return len(self._past), len(self._future)

    def _show(self, document: WorldDocument | ScenarioDocument) -> None:
        stage = self._session.stage
        if isinstance(document, ScenarioDocument):
            document.world.weather = stage.base_weather
            renewed = ScenarioStage(document.scenario, stage.title)
            renewed.base_weather = stage.base_weather
            self._session.renew(renewed)
        else:
            assert isinstance(stage, WorldStage)
            edited = document.fields.get("viewpoint") != self._first.fields.get("viewpoint")
            stage.replace_world(document.world, document.world.viewpoint if edited else None)
            self._session.renew(stage)
        self.document = document

    def apply(self, document: WorldDocument | ScenarioDocument) -> None:
        """Show an edited document; the one before can be restored."""
        before = self.document
        self._show(document)
        self._past = [*self._past, before][-MOST_STEPS:]
        self._future.clear()

    def undo(self) -> None:
        """Restore the document before the last edit."""
        if self._past:
            before = self.document
            self._show(self._past.pop())
            self._future.append(before)

    def redo(self) -> None:
        """Repeat the edit that was undone last."""
        if self._future:
            before = self.document
            self._show(self._future.pop())
            self._past.append(before)

    def targets(self) -> list[Target]:
        """Everything that can be selected."""
        lidar = []
        if isinstance(self.document, WorldDocument) and isinstance(self._session.stage, WorldStage):
            mount = self._session.stage.viewpoint
            lidar = [] if mount is None else [Target(LIDAR, "sensor", mount)]
        return [*lidar, *self.document.targets()]

    # ---- single edits ------------------------------------------------------------------------------------------

    def target(self, name: str) -> Target:
        """Target by its name in the list."""
        found = {one.name: one for one in self.targets()}
        if name not in found:
            raise unknown_name("object", name, found)
        return found[name]

    def _on_world(self, edit: Callable[[WorldDocument], WorldDocument]) -> None:
        document = self.document
        if isinstance(document, ScenarioDocument):
            self.apply(document.with_world(edit(document.place)))
        else:
            self.apply(edit(document))

    def move(self, target: Target, pose: Pose) -> None:
        """Move the handle of a target to another pose in the world."""
        document = self.document
        if isinstance(document, WorldDocument) and target.kind == "sensor":
            self.apply(document.with_fields({**document.fields, "viewpoint": pose_fields(pose)}))
            return
        if target.kind != "object":
            assert isinstance(document, ScenarioDocument)
            if target.kind == "sensor":
                self.apply(document.moved_sensor(target.name.partition(" ")[2], pose))
            else:
                self.apply(document.with_anchor(*_anchor(target), pose.xyz))
            return
        item = target.item
        assert item is not None
        if target.moves:
            raise ConfigError(f"{item.name}: moves along its trajectory, which is edited in the file")
        new = pose if item.pose == target.pose else pose @ target.pose.inverse() @ item.pose
        self._on_world(lambda place: place.changed(item, pose=pose_fields(new)))

    def delete(self, target: Target) -> None:
        """Delete a target."""
        document, item = self.document, target.item
        if target.kind == "object" and item is not None:
            self._on_world(lambda place: place.changed(item, remove=True))
        elif isinstance(document, ScenarioDocument) and target.kind == "sensor":
            self.apply(document.without_sensor(target.name.partition(" ")[2]))
        elif isinstance(document, ScenarioDocument):
            self.apply(document.with_anchor(*_anchor(target), None))
        else:
            raise ConfigError("the lidar of a world cannot be deleted")

    def duplicate(self, target: Target) -> None:
        """Copy a target, beside it."""
        document, item = self.document, target.item
        if target.kind == "object" and item is not None:
            pose = Pose(item.pose.xyz + np.array([1.0, 1.0, 0.0]), item.pose.quat_xyzw)
            self._on_world(lambda place: place.copied(item, pose))
        elif isinstance(document, ScenarioDocument) and target.kind == "sensor":
            self.apply(document.copied_sensor(target.name.partition(" ")[2]))
        elif isinstance(document, ScenarioDocument):
            sensor, name = _anchor(target)
            used = {one.name for one in document.targets()}
            new = next(one for k in range(2, 1000) if f"anchor {sensor}/{(one := f'{name}-{k}')}" not in used)
            self.apply(document.with_anchor(sensor, new, target.pose.xyz + np.array([0.5, 0.5, 0.0])))

    def add(self, kind: str, pose: Pose, *, material: str = "plastic", label: str = "object") -> None:
        """Place one of `SHAPES`; its lower face is at the pose."""
        if kind not in SHAPES:
            raise unknown_name("shape", kind, SHAPES)
        shape = SHAPES[kind]
        size = shape.get("size_m", [0, 0, shape.get("height_m", 2.0 * shape.get("radius_m", 0.0))])
        raised = Pose(pose.xyz + np.array([0.0, 0.0, float(size[2]) / 2.0]), pose.quat_xyzw)

        def edit(place: WorldDocument) -> WorldDocument:
            name = place.free_name(kind)
            entry = {"shape": dict(shape), "name": name, "label": label, "material": material}
            return place.added({**entry, "pose": pose_fields(raised)})

        self._on_world(edit)

    def set_label(self, target: Target, label: str) -> None:
        """Change the label of an object."""
        item = _object(target)
        self._on_world(lambda place: place.changed(item, label=label.strip()))

    def set_material(self, target: Target, name: str) -> None:
        """Give all parts of an object a material of the library or of the file."""
        item = _object(target)
        self._on_world(lambda place: place.changed(item, material=name))

    def edit_material(
        self,
        target: Target,
        wavelength_nm: float,
        *,
        reflectance: float | None = None,
        brdf: Mapping[str, Any] | None = None,
        spectrum_file: str = "",
    ) -> str:
        """Give an object a changed copy of its material, and return the name of the copy.

        Args:
            target: The object.
            wavelength_nm: Wavelength of `reflectance` [nm].
            reflectance: Hemispherical reflectance at that wavelength; the whole spectrum is scaled with it.
            brdf: Fields of another reflection model.
            spectrum_file: Spectrum file that replaces the spectrum.
        """
        item = _object(target)
        before = item.parts[0].material
        entry = before.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        entry["sources"] = [*before.sources, "edited in the viewer"]
        if spectrum_file:
            entry["spectrum"] = Material.from_spectrum(spectrum_file).spectrum.model_dump(mode="json")
        if reflectance is not None:
            table = SpectrumTable(**entry["spectrum"])
            now = before.model_copy(update={"spectrum": table}).reflectance_at(wavelength_nm)
            values = np.full(len(table.reflectance), reflectance)
            if now > 0.0:
                values = np.clip(np.array(table.reflectance) * (reflectance / now), 0.0, 1.0)
            entry["spectrum"]["reflectance"] = [float(value) for value in values]
        if brdf is not None:
            entry["brdf"] = dict(brdf)
        stem = before.name.partition("-edited")[0]

        def edit(place: WorldDocument) -> WorldDocument:
            used = {*place.fields.get("materials", {}), *(one.name for one in place.world.materials)}
            name = next(one for k in range(1, 10**6) if (one := f"{stem}-edited-{k}") not in used)
            return place.with_material(name, entry).changed(item, material=name)

        self._on_world(edit)
        place = self.document.place if isinstance(self.document, ScenarioDocument) else self.document
        return str(list(place.fields["materials"])[-1])

    def material_names(self) -> list[str]:
        """Materials that an object can have: those of the file and of the library."""
        place = self.document.place if isinstance(self.document, ScenarioDocument) else self.document
        return [*place.fields.get("materials", {}), *library.material_names()]

    def save(self, target: Path, *, replace: bool = False) -> list[Path]:
        """Write the files of the document; return their paths."""
        written = self.document.save(target, replace=replace)
        self.saved = self.document
        return written


def _object(target: Target) -> WorldObject:
    if target.item is None:
        raise ConfigError(f"{target.name}: only objects have a material and a label")
    return target.item


def _anchor(target: Target) -> tuple[str, str]:
    """Sensor and name of an anchor."""
    sensor, _, name = target.name.partition(" ")[2].partition("/")
    return sensor, name
