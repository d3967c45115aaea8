"""Wrong entries in YAML files: each message names the field as in the file and states what to write."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import parhelion as ph
from parhelion.campaign.study import Study
from parhelion.motion.vehicles.library import vehicle_sheet

PACKAGE = Path(ph.__file__).parent
MISSING = "(missing)"

FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "scenario": (
        """
        duration_s: 0.1
        world: boards-u
        vehicles: [{name: cart, model: clearpath/husky, start: {xyz: [0, 0, 0]}, follow: {points: [[1, 0, 0]]}}]
        sensors: [{name: top, type: lidar, model: velodyne/vlp-16, vehicle: cart, mount: {xyz: [0, 0, 1]}}]
        """,
        ph.Scenario.load,
    ),
    "world": (
        """
        materials: {mine: {reflectance: 0.5}}
        objects: [{shape: {kind: box, size_m: [1, 1, 1]}, pose: {xyz: [1, 0, 0]}, material: steel}]
        """,
        ph.World.load,
    ),
    "lidar": (next(PACKAGE.rglob("vlp-16.yaml")).read_text(), ph.Lidar),
    "camera": (next(PACKAGE.rglob("vga.yaml")).read_text(), ph.Camera),
    "imu": (next(PACKAGE.rglob("bmi160.yaml")).read_text(), ph.Imu),
    "vehicle": (next((PACKAGE / "motion").rglob("husky.yaml")).read_text(), vehicle_sheet),
    "study": (
        """
        scenario: {duration_s: 0.1, world: boards-u, sensors: [{name: top, type: lidar, model: velodyne/vlp-16}]}
        vary: {duration_s: [0.1, 0.2]}
        measures: [points_per_scan]
        """,
        Study.load,
    ),
}  # fmt: skip

# File, field, entry, and the message after the file's name.
WRONG = [
    # short forms
    ("scenario", "outputs", "[bag]", "outputs[0]: expected {kind: bag}, got 'bag'"),
    ("scenario", "outputs", "bag", "outputs: expected [{kind: bag}], got 'bag'"),
    ("scenario", "outputs", "{kind: bag}", "outputs: expected [{kind: bag}], got {kind: bag}"),
    ("scenario", "weather", "{rain: 10}",
     "weather.rain: expected {rate_mm_h: 10}, got 10; or write rain_rate_mm_h: 10"),
    ("scenario", "weather", "{fog: 100}",
     "weather.fog: expected {visibility_m: 100}, got 100; or write visibility_m: 100"),
    ("scenario", "sensors.0.mount", "[0, 0, 1]", "sensors[0].mount: expected {xyz: [0, 0, 1]}, got [0, 0, 1]"),
    ("scenario", "vehicles.0.follow", "[[1, 0, 0]]",
     "vehicles[0].follow: expected {points: [[1, 0, 0]]}, got [[1, 0, 0]]"),
    ("scenario", "water", "calm", "water: expected {kind: calm}, got 'calm'"),
    ("scenario", "machines", "[forklift]",
     "machines[0]: expected {kind: forklift, motion: ...}, got 'forklift'"),
    ("world", "objects.0.shape", "box", "objects[0].shape: expected {kind: box, size_m: ...}, got 'box'"),
    ("world", "objects.0.pose", "[1, 0, 0]", "objects[0].pose: expected {xyz: [1, 0, 0]}, got [1, 0, 0]"),
    ("world", "materials.mine", "0.5", "materials.mine: expected {reflectance: 0.5}, got 0.5"),
    ("world", "weather", "{snow: 3}",
     "weather.snow: expected {rate_mm_h: 3}, got 3; or write snow_rate_mm_h: 3"),
    ("lidar", "receiver", "strongest", "receiver: expected {returns: strongest}, got 'strongest'"),
    ("lidar", "pattern.channels.elevation_deg", "3", "pattern.channels.elevation_deg: expected [3], got 3"),
    ("study", "measures", "points_per_scan", "measures: expected [points_per_scan], got 'points_per_scan'"),
    ("study", "vary.duration_s", "3", "vary.duration_s: expected [3], got 3"),
    ("study", "stop", "points_per_scan",
     "stop: expected {measure: points_per_scan, half_width: ...}, got 'points_per_scan'"),
    # names
    ("scenario", "outputs", "[{kind: rosbag}]",
     "outputs[0].kind: expected 'bag', 'pcap', 'kitti-odometry', 'kitti-object', 'semantic-kitti', 'nuscenes', "
     "'coco-panoptic', 'foxglove' or 'las', got 'rosbag'; did you mean 'bag'?"),
    ("scenario", "sensors.0.type", "laser",
     "sensors[0].type: must be one of lidar, camera, radar, echo, imu, odometry, barometer, magnetometer, gnss, uwb "
     "(did you mean 'lidar'?), got 'laser'"),
    ("scenario", "sensors.0.vehicle", "car",
     "sensors[0].vehicle: expected the name of a vehicle (cart), got 'car'"),
    ("scenario", "boxes", "true", "boxes: expected 'none', 'kitti' or 'nuscenes', got true"),
    ("world", "objects.0.shape.kind", "cube",
     "objects[0].shape.kind: expected 'box', 'cylinder', 'cone', 'sphere', 'plane', 'board' or 'marker', got 'cube'; "
     "did you mean 'cone'?"),
    ("lidar", "pattern.direction", "left",
     "pattern.direction: expected 'clockwise' or 'counter-clockwise', got 'left'"),
    ("vehicle", "kind", "boat",
     "kind: expected 'differential', 'car', 'multirotor' or 'vessel', got 'boat'"),
    ("study", "kind", "data", "kind: expected 'measures' or 'dataset', got 'data'; did you mean 'dataset'?"),
    # unknown fields
    ("scenario", "duration", "3", "duration: unknown field; did you mean 'duration_s'?"),
    ("scenario", "sensors.0.mount", "{rpy: [0, 0, 90]}",
     "sensors[0].mount.rpy: unknown field; did you mean 'rpy_deg'?"),
    ("scenario", "weather", "{rain_rate: 10}", "weather.rain_rate: unknown field; did you mean 'rain_rate_mm_h'?"),
    ("scenario", "sensors.0.options", "{sub_ray: 3}",
     "sensors[0].options.sub_ray: unknown option of this sensor 'sub_ray': did you mean 'sub_rays'?"),
    ("lidar", "beam.divergence", "3", "beam.divergence: unknown field; did you mean 'divergence_mrad'?"),
    ("study", "vary.duration_s", "{gauss: [0, 1]}",
     "vary.duration_s.gauss: unknown field; known: uniform, loguniform, normal, choice, count, seed, within, whole"),
    # missing fields
    ("scenario", "sensors", MISSING,
     "sensors: is required (a non-empty list of mappings {name: ..., type: ..., model: ...})"),
    ("lidar", "range.max_m", MISSING, "range.max_m: is required (a number above 0 and up to 1e9 m)"),
    ("lidar", "pattern.kind", MISSING,
     "pattern.kind: is required ('spinning', 'raster', 'rosette', 'non-repetitive', 'swath' or 'table')"),
    ("study", "scenario", MISSING, "scenario: is required (text or a mapping)"),
    # numbers, units and lists
    ("scenario", "duration_s", "10 s",
     "duration_s: expected a number above 0 and up to 1000000 s, got '10 s'; write 10"),
    ("scenario", "duration_s", "-1", "duration_s: expected a number above 0 and up to 1000000 s, got -1"),
    ("scenario", "sensors.0.mount.xyz", "[0, 0]",
     "sensors[0].mount.xyz: expected a list of 3 numbers from -1e9 to 1e9 m, got [0, 0]"),
    ("scenario", "sensors.0.name", "my lidar!",
     "sensors[0].name: expected 1 to 64 letters, digits, '_', '.' or '-', got 'my lidar!'"),
    ("scenario", "world", "{name: city, params: {blocks: many}}",
     "world: world 'city': blocks: expected a whole number, got 'many'"),
    ("world", "objects.0.shape.size_m", "[1, 1, 0]",
     "objects[0].shape.size_m[2]: expected a number above 0 and up to 1000000 m, got 0"),
    ("world", "daylight", "{sun_elevation_deg: 200}",
     "daylight.sun_elevation_deg: expected a number from -90 to 90 degrees, got 200"),
    ("lidar", "wavelength_nm", "red", "wavelength_nm: expected a number from 350 to 2500 nm, got 'red'"),
    ("camera", "rate_hz", "fast", "rate_hz: expected a number from 0.01 to 100000 Hz, got 'fast'"),
    ("imu", "accelerometer", "[1]", "accelerometer: expected {range_g: ...}, got [1]"),
    ("study", "confidence", "95", "confidence: expected a number above 0 and below 1, got 95"),
    ("study", "vary.duration_s", "[0.1, ten]",
     "vary: duration_s: expected a number above 0 and up to 1000000 s, got 'ten'"),
    ("study", "scenario.outputs", "[bag]", "scenario.outputs[0]: expected {kind: bag}, got 'bag'"),
    ("study", "vary", "{weather.rain: [0]}",
     "vary: weather.rain: expected {rate_mm_h: 0}, got 0; or write rain_rate_mm_h: 0"),
    # units of other sizes, and of other quantities
    ("scenario", "duration_s", "2 min",
     "duration_s: expected a number above 0 and up to 1000000 s, got '2 min'; write 120"),
    ("scenario", "duration_s", "3 m", "duration_s: expected a number above 0 and up to 1000000 s, got '3 m'"),
    ("scenario", "sensors.0.rate_hz", "5 kHz",
     "sensors[0].rate_hz: expected a number above 0 and up to 1000000 Hz, got '5 kHz'; write 5000"),
    ("scenario", "sensors.0.mount.xyz", "[0, 0, 30 cm]",
     "sensors[0].mount.xyz[2]: expected a number from -1e9 to 1e9 m, got '30 cm'; write 0.3"),
    # fields at another place, and names that are not alike
    ("lidar", "rate_hz", "20", "rate_hz: unknown field; write pattern: {rate_hz: 20}"),
    ("scenario", "start_time", "noon",
     "start_time: unknown field; known: name, seed, duration_s, step_s, world, weather, daylight, water, vehicles, "
     "objects, actors, people, ..."),
    ("world", "materials.mine", "{reflectivity: 1}",
     "materials.mine.reflectivity: unknown field; did you mean 'reflectance'?"),
    # words where fields are expected
    ("scenario", "weather", "heavy rain",
     "weather: expected fields such as {rain_rate_mm_h: 10} or the name of a weather file, got 'heavy rain'"),
    ("world", "weather", "foggy",
     "weather: expected fields such as {rain_rate_mm_h: 10} or the name of a weather file, got 'foggy'"),
    ("scenario", "weather", "{rain_rate_mm_h: heavy}",
     "weather.rain_rate_mm_h: expected a number from 0 to 500 mm/h, or pairs [[time_s, value], ...], got 'heavy'"),
    ("world", "daylight", "noon",
     "daylight: expected a mapping with some of: time, latitude_deg, longitude_deg, sun_elevation_deg, "
     "sun_azimuth_deg, turbidity, cloud_optical_depth, ground_albedo, got 'noon'"),
    ("scenario", "sensors.0.options", "{noise: none}",
     "sensors[0].options.noise: expected true or false, got 'none'"),
]  # fmt: skip


def fields_of(kind: str) -> Any:
    return yaml.safe_load(FILES[kind][0])


def with_entry(fields: Any, place: tuple[Any, ...], value: Any) -> None:
    """Write a value at a place of nested mappings and lists."""
    for part in place[:-1]:
        fields = fields[part]
    if value == MISSING:
        del fields[place[-1]]
    else:
        fields[place[-1]] = value


def message_of(kind: str, fields: Any, folder: Path) -> str | None:
    """Error that loading a file reports, without the file's name; None where it is accepted."""
    file = folder / f"{kind}.yaml"
    file.write_text(yaml.safe_dump(fields))
    try:
        FILES[kind][1](file)
    except ph.ParhelionError as error:
        message = str(error)
    else:
        return None
    assert message.startswith(f"{file}: ")
    return message.removeprefix(f"{file}: ")


@pytest.mark.parametrize("kind", FILES)
def test_the_files_themselves_are_accepted(kind: str, tmp_path: Path) -> None:
    assert message_of(kind, fields_of(kind), tmp_path) is None


@pytest.mark.parametrize(("kind", "field", "written", "message"), WRONG)
def test_a_wrong_entry_is_answered_by_what_to_write(
    kind: str, field: str, written: str, message: str, tmp_path: Path
) -> None:
    fields = fields_of(kind)
    place = tuple(int(part) if part.isdigit() else part for part in field.split("."))
    with_entry(fields, place, MISSING if written == MISSING else yaml.safe_load(written))
    assert message_of(kind, fields, tmp_path) == message


# ---- whatever is written -------------------------------------------------------------------------------------------

LIBRARY_PHRASES = re.compile(
    r"(?i:pydantic|https?://|input should|valid (dictionary|string|number|integer|boolean|list|tuple)|value error|"
    r"type=|extra inputs|field required|unable to (parse|extract)|\btuple\b|\bdict\b|discriminator|\btag\b)|"
    r"\bNone\b|NoneType|BaseModel|Traceback|__init__|object at 0x|\n"
)
SCALARS = st.sampled_from([None, True, -1, 0, 1e30, float("nan"), float("inf"), "", "x", "12 m", 2**70, "2020-01-01"])
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "xyz", "name", "a.b", "x y"]), inner)
    ),
    max_leaves=4,
)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places below a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    return [place for key, entry in inside for place in ((*here, key), *places(entry, (*here, key)))]


PLACES = [(kind, place) for kind in FILES for place in places(fields_of(kind))]


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(at=st.sampled_from(PLACES), value=ANYTHING)
def test_no_message_has_words_of_a_library(at: tuple[str, tuple[Any, ...]], value: Any, tmp_path: Path) -> None:
    kind, place = at
    fields = copy.deepcopy(fields_of(kind))
    with_entry(fields, place, value)
    message = message_of(kind, fields, tmp_path)
    if message is not None:
        assert not LIBRARY_PHRASES.search(message), message
        # The path begins with the changed field, or with a field that depends on it.
        assert re.match(r"[A-Za-z_]\w*(\[\d+\])?[.:]", message), message
