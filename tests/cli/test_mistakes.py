"""Typical mistakes of users in their files: one line with the file, the field as in the file, and the remedy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

DRIVE: dict[str, Any] = {
    "name": "yard",
    "seed": 7,
    "duration_s": 0.2,
    "world": "yard.yaml",
    "outputs": [],
    "vehicles": [{"name": "husky", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0]], "speed_m_s": 0.9}}],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "husky", "mount": {"xyz": [0, 0, 1]}},
        {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "husky"},
    ],
}
YARD: dict[str, Any] = {
    "objects": [
        {"shape": {"kind": "plane", "size_m": [60, 60]}, "material": "concrete", "label": "road"},
        {"shape": {"kind": "box", "size_m": [1, 20, 4]}, "material": "brick", "pose": {"xyz": [12, 0, 2]}},
    ]
}
SHEET: dict[str, Any] = {
    "name": "own",
    "wavelength_nm": 905,
    "pattern": {"kind": "spinning", "rate_hz": 10, "direction": "clockwise", "columns": 1800,
                "channels": {"elevation_deg": [-10, 0, 10]}},
    "beam": {"divergence_mrad": [3, 1.5]},
    "range": {"min_m": 0.4, "max_m": 100, "rated": [{"range_m": 80, "reflectance": 0.8}]},
    "intensity": {"scale": "reflectance"},
    "sources": [{"title": "own measurements", "covers": ["range"]}],
}  # fmt: skip
STUDY: dict[str, Any] = {"scenario": "drive.yaml", "vary": {"weather.rain_rate_mm_h": [0, 25]}, "seeds": 2}
FILES = {"drive.yaml": DRIVE, "yard.yaml": YARD, "own.yaml": SHEET, "study.yaml": STUDY}
COMMANDS = {
    "drive.yaml": ("run", "drive.yaml", "-o", "out"),
    "yard.yaml": ("run", "drive.yaml", "-o", "out"),
    "own.yaml": ("sensors", "own.yaml"),
    "study.yaml": ("campaign", "study.yaml", "-o", "out"),
}

REMOVED = object()
"""Stands for a field that is missing."""

# File, path of the field (steps between slashes), wrong value, and the message after 'error: FILE: '. Dots stand for
# any text.
MISTAKES = (
    ("drive.yaml", "duraton_s", 3, "duraton_s: unknown field; did you mean 'duration_s'?"),
    ("drive.yaml", "duration_s", "ten", "duration_s: expected a number above 0 and up to 1000000 s, got 'ten'"),
    ("drive.yaml", "duration_s", -1, "duration_s: expected a number above 0 and up to 1000000 s, got -1"),
    ("drive.yaml", "duration_s", REMOVED, "duration_s: is required (a number above 0 and up to 1000000 s)"),
    ("drive.yaml", "seed", 1.5, "seed: expected a whole number from 0 ..., got 1.5"),
    ("drive.yaml", "seed", -1, "seed: expected a whole number from 0 ..., got -1"),
    ("drive.yaml", "world", "yrad.yaml", "world: yrad.yaml: no such file"),
    ("drive.yaml", "world", "cuboidz", "world: unknown world 'cuboidz': did you mean 'cuboids'? (or give the path ..."),
    ("drive.yaml", "world", ["yard.yaml"],
     "world: expected the name or file of a world, or {name: ..., got [yard.yaml]"),
    ("drive.yaml", "outputs", ["bag"], "outputs[0]: expected {kind: bag}, got 'bag'"),
    ("drive.yaml", "outputs", [{"kind": "bags"}], "outputs[0].kind: expected 'bag', ...; did you mean 'bag'?"),
    ("drive.yaml", "outputs", "bag", "outputs: expected [{kind: bag}], got 'bag'"),
    ("drive.yaml", "vehicles/0/model", "clearpath/huski",
     "vehicles[0].model: unknown vehicle 'clearpath/huski': did you mean 'clearpath/husky'? ..."),
    ("drive.yaml", "vehicles/0/name", "my robot",
     "vehicles[0].name: expected 1 to 64 letters, digits, ..., got 'my robot'"),
    ("drive.yaml", "vehicles/0/follow/points", [[5, 0]],
     "vehicles[0].follow.points[0]: expected a list of 3 numbers from -1e9 to 1e9, got [5, 0]"),
    ("drive.yaml", "vehicles/0/follow/points", [], "vehicles[0].follow.points: expected a non-empty list ..., got []"),
    ("drive.yaml", "vehicles/0/follow/speed", 0.5,
     "vehicles[0].follow.speed: unknown field; did you mean 'speed_m_s'?"),
    ("drive.yaml", "vehicles/0/follow/speed_m_s", 0,
     "vehicles[0].follow.speed_m_s: expected a number above 0 ... m/s, got 0"),
    ("drive.yaml", "vehicles/0/follow/speed_m_s", "fast",
     "vehicles[0].follow.speed_m_s: expected a number ..., got 'fast'"),
    ("drive.yaml", "sensors/0/type", "lider",
     "sensors[0].type: must be one of lidar, ... (did you mean 'lidar'?), got 'lider'"),
    ("drive.yaml", "sensors/0/model", "velodyne/vlp-61",
     "sensors[0].model: unknown lidar 'velodyne/vlp-61': did you mean 'velodyne/vlp-16'? ..."),
    ("drive.yaml", "sensors/0/model", "ti/iwr6843",
     "sensors[0].model: 'ti/iwr6843' is a radar, not a lidar; write type: radar"),
    ("drive.yaml", "sensors/0/model", "none.yaml", "sensors[0].model: none.yaml: no such file"),
    ("drive.yaml", "sensors/0/vehicle", "husk",
     "sensors[0].vehicle: expected the name of a vehicle (husky), got 'husk'"),
    ("drive.yaml", "sensors/0/mount", [0, 0, 1], "sensors[0].mount: expected {xyz: [0, 0, 1]}, got [0, 0, 1]"),
    ("drive.yaml", "sensors/0/mount/xyz", [0, 0],
     "sensors[0].mount.xyz: expected a list of 3 numbers ... m, got [0, 0]"),
    ("drive.yaml", "sensors/0/mount/rpy", [0, 0, 90], "sensors[0].mount.rpy: unknown field; did you mean 'rpy_deg'?"),
    ("drive.yaml", "sensors/0/rate_hz", 1e4, "sensors[0].rate_hz: 10000 Hz is not offered; offered: 5, 6, ..., 20"),
    ("drive.yaml", "sensors/0/options", {"sub_ray": 3},
     "sensors[0].options.sub_ray: unknown option of this sensor 'sub_ray': did you mean 'sub_rays'?"),
    ("drive.yaml", "sensors/0/options", {"sub_rays": 0},
     "sensors[0].options.sub_rays: expected a whole number from 1 to 1024, got 0"),
    ("drive.yaml", "sensors/0/options", {"returns": "second"},
     "sensors[0].options.returns: expected 'first', 'strongest', 'last', 'dual' or 'all', got 'second'"),
    ("drive.yaml", "sensors/1/name", "top", "sensors: the name 'top' is given twice"),
    ("drive.yaml", "sensors/0", "velodyne/vlp-16",
     "sensors[0]: expected {model: velodyne/vlp-16, name: ..., type: ...}, got 'velodyne/vlp-16'"),
    ("drive.yaml", "sensors", {}, "sensors: expected a non-empty list of mappings {name: ..., type: ..., got {}"),
    ("drive.yaml", "weather", {"rain": 25},
     "weather.rain: expected {rate_mm_h: 25}, got 25; or write rain_rate_mm_h: 25"),
    ("drive.yaml", "weather", {"rain_rate_mm_h": -5}, "weather.rain_rate_mm_h: must be from 0 to 500 mm/h, got -5"),
    ("drive.yaml", "weather", {"rain_rate_mm_h": "heavy"},
     "weather.rain_rate_mm_h: expected a number from 0 to 500 mm/h..., got 'heavy'"),
    ("drive.yaml", "weather", {"visibility_m": 0}, "weather.visibility_m: must be from 5 to 300000 m ..., got 0"),
    ("drive.yaml", "weather", {"rain_rate_mm_h": [[0, 5], [0, 6]]},
     "weather.rain_rate_mm_h: times must increase, but 0 s follows 0 s"),
    ("drive.yaml", "weather", "storm.yaml", "weather: storm.yaml: no such file"),
    ("drive.yaml", "", "name: [unclosed", "line ..., column ... did not find expected ',' or ']'"),
    ("drive.yaml", "", "\tname: yard", "line 1, column 1 found character that cannot start any token"),
    ("drive.yaml", "", "- a\n- b\n", "expected a mapping of fields, got [a, b]"),
    ("drive.yaml", "", "", "expected a mapping of fields, got null; the file is empty: `parhelion new` writes ..."),
    ("yard.yaml", "objects/0/material", "concret",
     "objects[0].material: unknown material 'concret': did you mean 'concrete'?"),
    ("yard.yaml", "objects/0/shape/kind", "cube",
     "objects[0].shape.kind: expected 'box', ..., got 'cube'; did you mean ..."),
    ("yard.yaml", "objects/0/shape/size_m", [60],
     "objects[0].shape.size_m: expected a list of 2 numbers above 0 ... m, got [60]"),
    ("yard.yaml", "objects/1/shape/size_m", [1, -20, 4],
     "objects[1].shape.size_m[1]: expected a number above 0 ..., got -20"),
    ("yard.yaml", "objects/1/pose", {"xyz": "12 0 2"},
     "objects[1].pose.xyz: expected a list of 3 numbers ..., got '12 0 2'"),
    ("yard.yaml", "objects/0/mesh", "hall.obj", "objects[0]: give either mesh or shape"),
    ("yard.yaml", "objects", {}, "objects: expected a list of mappings with some of: mesh, shape, ..., got {}"),
    ("yard.yaml", "objects/0/colour", "red", "objects[0].colour: unknown field; known: mesh, shape, ..."),
    ("own.yaml", "pattern/kind", "spinnning",
     "pattern.kind: expected 'spinning', ..., got 'spinnning'; did you mean 'spinning'?"),
    ("own.yaml", "pattern/channels", [-10, 0], "pattern.channels: expected {elevation_deg: [-10, 0]}, got [-10, 0]"),
    ("own.yaml", "pattern/channels", {"elevation": [1, 2]},
     "pattern.channels.elevation: unknown field; did you mean 'elevation_deg'?"),
    ("own.yaml", "pattern/columns", "1800x", "pattern.columns: expected a whole number ..., got '1800x'; write 1800"),
    ("own.yaml", "pattern", REMOVED, "pattern: is required (a mapping with kind: 'spinning', ..."),
    ("own.yaml", "beam/divergence_mrad", 3, "beam.divergence_mrad: expected a list of 2 numbers ... mrad, got 3"),
    ("own.yaml", "range/rated", [], "range.rated: expected a non-empty list of mappings {reflectance: ..., got []"),
    ("own.yaml", "range/rated", [{"range_m": 80}],
     "range.rated[0].reflectance: is required (a number above 0 and up to 1)"),
    ("own.yaml", "range/rated/0/reflectance", 80,
     "range.rated[0].reflectance: expected a number above 0 and up to 1, got 80"),
    ("own.yaml", "range/max_m", 0.2, "range: max_m (0.2) must exceed min_m (0.4)"),
    ("own.yaml", "wavelength_nm", 0.905, "wavelength_nm: expected a number from 350 to 2500 nm, got 0.905"),
    ("own.yaml", "sources", REMOVED, "sources: is required (a non-empty list of mappings {title: ..., covers: ...})"),
    ("own.yaml", "intensity", "reflectance", "intensity: expected {scale: reflectance}, got 'reflectance'"),
    ("own.yaml", "noise", {"range_sigma": 0.02}, "noise.range_sigma: unknown field; did you mean 'range_sigma_m'?"),
    ("study.yaml", "vary", {"weather.rain": [1]}, "vary: weather.rain: ... or write rain_rate_mm_h: 1"),
    ("study.yaml", "vary", {"weather.rain_rate_mm_h": 25}, "vary.'weather.rain_rate_mm_h': expected [25], got 25"),
    ("study.yaml", "vary", {"weather.rain_rate_mm_h": {"uniform": [5, 1], "count": 3}},
     "vary.'weather.rain_rate_mm_h': uniform: the first value must be below the second, got [5.0, 1.0]"),
    ("study.yaml", "vary", {"weather.rain_rate_mm_h": {"uniform": [0, 1]}},
     "vary: give the number of draws: count, in one of the distributions"),
    ("study.yaml", "vary", {"sensors.roof.rate_hz": [5]},
     "vary: 'sensors.roof.rate_hz' is not in the scenario; sensors has: top, imu, 0, 1"),
    ("study.yaml", "vary", {"seed": [1, 2]}, "vary: use seeds to vary the seed of the scenario"),
    ("study.yaml", "seeds", 0, "seeds: expected a whole number from 1 to 1000000 or ..., got 0"),
    ("study.yaml", "scenario", "drvie.yaml", "scenario: ...drvie.yaml: no such file"),
    ("study.yaml", "measures", ["points"], "measures: unknown measure 'points': did you mean 'air_points'?"),
    ("study.yaml", "stop", {"measure": "detections", "half_width": 0.1},
     "stop.measure: unknown number 'detections': did you mean 'detection_share'?"),
)  # fmt: skip

INTERNALS = (
    "instance of",
    "input tag",
    "Input should",
    "pydantic",
    "validator",
    "union",
    "Traceback",
    "NoneType",
    "<class",
)
"""Words of a validator or of Python that no user needs."""


def with_mistake(fields: Any, path: str, value: Any) -> str:
    """Text of a file with one wrong field; without a path, the value is the whole text."""
    if not path:
        return str(value)
    changed = here = copy.deepcopy(fields)
    *way, last = (int(step) if step.isdigit() else step for step in path.split("/"))
    for step in way:
        here = here[step]
    if value is REMOVED:
        del here[last]
    else:
        here[last] = value
    return yaml.safe_dump(changed, sort_keys=False)


def test_there_are_sixty_and_none_is_twice() -> None:
    assert len({(file, path, repr(value)) for file, path, value, _ in MISTAKES}) == len(MISTAKES) >= 60


@pytest.mark.parametrize(
    ("file", "path", "value", "message"), MISTAKES, ids=[f"{one[0]}-{one[1]}-{k}" for k, one in enumerate(MISTAKES)]
)
def test_a_mistake_is_named_with_file_field_and_remedy(
    fails: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    file: str, path: str, value: Any, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, fields in FILES.items():
        text = with_mistake(fields, path, value) if name == file else yaml.safe_dump(fields, sort_keys=False)
        Path(name).write_text(text, encoding="utf-8")
    line = fails(*COMMANDS[file])
    start = f"error: {file}: " if file != "yard.yaml" else "error: drive.yaml: world: yard.yaml: "
    assert line.startswith(start), line
    rest = line.removeprefix(start)
    first, *others = message.split("...")
    assert rest.startswith(first), line
    for part in others:
        assert part.strip() in rest, (part, line)
    assert not any(word in line for word in INTERNALS), line
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(FILES), "nothing half written"
