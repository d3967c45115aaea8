"""Every type of record: files, equality, tables, pictures, a one-line repr, and validation of file contents."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion.core
from parhelion.core.clouds import PointCloud, Scan, Shots, Waveform
from parhelion.core.errors import FormatError, ParhelionError
from parhelion.core.frames import CrossSections, EchoScan, EchoWaveform, FramePoints, RadarCube, RadarScan
from parhelion.core.image import TRUTH, Image, Intrinsics, SeenObject
from parhelion.core.pose import Floats, Pose
from parhelion.core.records import Record, column
from parhelion.core.streams import BarometerData, GnssData, ImuData, MagnetometerData, OdometryData, Samples, UwbData
from parhelion.core.trajectory import Waypoints

FACTS = {"sensor": "maker/model", "seed": 7, "nested": {"list": [1, "two", None], "half": 0.5}}


@dataclass(frozen=True, eq=False)
class ThirdParty(Samples):
    """A record of another package: one declared column."""

    moisture: Floats = field(metadata=column("%", "", "n"))
    """Soil moisture [%], shape (n,)."""


def filled(kind: type[Record], sizes: dict[str, int], **given: Any) -> Any:
    """A record whose declared arrays hold random numbers; letters of their shapes have these sizes."""
    rng = np.random.default_rng(5)
    arrays: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if "shape" not in one.metadata or one.name in given:
            continue
        shape, dtype = [sizes.get(size, size) for size in one.metadata["shape"]], np.dtype(one.metadata["dtype"])
        values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.kind == "c" else 0.0)
        if not one.metadata["finite"] and dtype.kind == "f":
            values = np.where(rng.random(shape) < 0.1, np.nan, values)
        arrays[one.name] = (np.abs(values * 3) if dtype.kind == "u" else values).astype(dtype)
    if "time" in arrays and issubclass(kind, Samples):
        arrays["time"] = np.linspace(0.0, 1.0, sizes["n"])
    return kind(**arrays, **given)


def points(n: int, *names: str) -> tuple[Any, ...]:
    """Fields common to clouds: coordinates, fields, frame, names and metadata."""
    rng = np.random.default_rng(6)
    known: dict[str, NDArray[Any]] = {name: rng.normal(size=n).astype(np.float32) for name in names}
    coded = {"label": (np.arange(n) % 3).astype(np.uint16), "velocity": np.ones((n, 3), np.float32)}
    xyz = rng.normal(0, 9, (n, 3)).astype(np.float32)
    return xyz, {**known, **coded}, "sensor", {"label": {0: "ground", 1: "tree", 2: "car"}}, FACTS


def scan(n: int) -> Scan:
    shots = filled(Shots, {"n": n}, time=np.linspace(0, 0.1, n, dtype=np.float32))
    way = Waypoints([0.0, 3.05, 9.0], [Pose((i, i * i, 0), rpy_deg=(0, 0, 20 * i)) for i in range(3)])
    xyz, known, *rest = points(n, "range", "intensity")
    known["shot"] = np.arange(n, dtype=np.uint32)
    return Scan(xyz, known, *rest, shots=shots, motion=way, start_time=3.0)


def image() -> Image:
    lens = Intrinsics(6, 4, 5.0, 5.0, 2.5, 1.5, distortion=(0.1, -0.01))
    seen = SeenObject(3, 1, (0.0, 0.0, 2.0, 2.0), (0.0, 0.0, 3.0, 3.0), 4, 0.5, 0.1, Pose((4, 1, 0)), (2.0, 1.0, 1.5))
    colour = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    return filled(  # type: ignore[no-any-return]
        Image, {"h": 4, "w": 6}, colour=colour, bands=("red", "green", "blue"), intrinsics=lens, objects=(seen,),
        pose=Pose((1, 2, 3), rpy_deg=(0, 0, 30)), start_time=1.25, right=colour[::-1].copy(),
        names={"label": {1: "car"}}, metadata=FACTS,
    )  # fmt: skip


def frame(kind: Any, n: int, *names: str, **given: Any) -> Any:
    place = Pose((1, 2, 3), rpy_deg=(10, 20, 30))
    return kind(*points(n, *names), pose=place, start_time=2.5, duration=0.05, **given)


CUBE = filled(RadarCube, {"r": 8, "d": 6, "e": 2, "a": 5}, range=np.arange(8.0), azimuth=np.linspace(-0.5, 0.5, 5))
SOUND = filled(EchoWaveform, {"m": 2, "t": 50}, rate_hz=8000.0)
RADAR_FIELDS = ("range", "azimuth", "elevation", "radial_velocity", "rcs", "snr")
EXAMPLES: dict[type[Record], Callable[[int], Any]] = {
    Samples: lambda n: filled(Samples, {"n": n}),
    ThirdParty: lambda n: filled(ThirdParty, {"n": n}),
    ImuData: lambda n: filled(ImuData, {"n": n}, metadata=FACTS),
    OdometryData: lambda n: filled(OdometryData, {"n": n, "w": 2}, wheels=("left", "right"), metadata=FACTS),
    BarometerData: lambda n: filled(BarometerData, {"n": n}, pressure_variance=2.0, metadata=FACTS),
    MagnetometerData: lambda n: filled(MagnetometerData, {"n": n}, metadata=FACTS),
    GnssData: lambda n: filled(GnssData, {"n": n, "s": 3}, satellites=("G01", "E02", "R03"), metadata=FACTS),
    UwbData: lambda n: filled(
        UwbData, {"n": n, "a": 2, "t": 6}, anchors=("door", "wall 2"), method="tdoa", metadata=FACTS
    ),
    PointCloud: lambda n: PointCloud(*points(n, "intensity")),
    Shots: lambda n: filled(Shots, {"n": n}),
    Scan: scan,
    FramePoints: lambda n: frame(FramePoints, n),
    RadarScan: lambda n: frame(RadarScan, n, *RADAR_FIELDS, cube=CUBE),
    EchoScan: lambda n: frame(EchoScan, n, "range", "snr", waveform=SOUND, nearest=0.5),
    RadarCube: lambda n: CUBE,
    CrossSections: lambda n: filled(CrossSections, {"n": n}, frequency_ghz=77.0),
    Waveform: lambda n: filled(Waveform, {"s": n, "b": 40}, range_start=1.0, bin_size=0.15, noise_floor=0.1),
    EchoWaveform: lambda n: SOUND,
    Image: lambda n: image(),
}
"""An example of every type, with n rows if it has rows."""
every = pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)


def with_rows(kind: type[Record]) -> bool:
    """Return True if records of a type are a table of rows, which can be stored as CSV."""
    return issubclass(kind, PointCloud) or bool(EXAMPLES[kind](3)._columns())


def defined() -> Iterator[type[Record]]:
    """All types of record in the core."""
    for module in iter_modules(parhelion.core.__path__):
        import_module(f"parhelion.core.{module.name}")
    waiting = Record.__subclasses__()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("parhelion."):
            yield kind


def test_every_type_has_an_example() -> None:
    assert {kind.__name__ for kind in defined()} <= {kind.__name__ for kind in EXAMPLES}


@every
@pytest.mark.parametrize("n", [0, 1, 70])
def test_npz_holds_every_record_completely(tmp_path: Path, kind: Any, n: int) -> None:
    record = EXAMPLES[kind](n)
    assert type(record) is kind
    record.save(tmp_path / "a.npz")
    for reader in (kind, Record):
        back = reader.load(tmp_path / "a.npz")
        assert type(back) is kind
        assert back.equals(record)
        assert back.units == record.units
    record.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes(), "same record, same bytes"
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert all(archive[name] is not None for name in archive.files), "NumPy reads it without pickle"


@every
def test_any_other_value_makes_records_unequal(kind: Any) -> None:
    record = EXAMPLES[kind](9)
    assert record.equals(EXAMPLES[kind](9))
    assert not record.equals(0)
    assert not record.equals(filled(Samples, {"n": 8}))
    checked = 0
    for one in fields(kind):
        values = getattr(record, one.name)
        if isinstance(values, np.ndarray) and values.size:
            other = values.copy()
            first = other.flat[0]
            other.flat[0] = not first if other.dtype == bool else first + 1 if np.isfinite(first) else 0
            assert not record.equals(replace(record, **{one.name: other})), one.name
            checked += 1
    assert checked


@every
def test_csv_holds_rows_and_refuses_others(tmp_path: Path, kind: Any) -> None:
    record, path = EXAMPLES[kind](12), tmp_path / "a.csv"
    if issubclass(kind, Image) or not with_rows(kind):
        with pytest.raises(FormatError):
            record.save(path)
        assert not path.exists()
        return
    record.save(path)
    if not issubclass(kind, PointCloud):  # CSV of clouds holds the points only
        assert kind.load(path).equals(record)
        return
    back = PointCloud.load(path)
    np.testing.assert_array_equal(back.xyz.astype(np.float32), record.xyz)
    assert set(back.fields) == set(record.fields)


@every
@pytest.mark.parametrize("n", [0, 5])
def test_a_table_of_every_record(kind: Any, n: int) -> None:
    pytest.importorskip("pandas")
    record = EXAMPLES[kind](n)
    table = record.to_dataframe()
    assert len(set(table.columns)) == len(table.columns) > 0
    assert set(table.attrs["units"]) == set(table.columns)
    if with_rows(kind):
        assert len(table) == n
    assert not any(values.dtype == object for _, values in table.items() if values.name not in ("field", "unit"))


def test_components_are_columns_with_units() -> None:
    pytest.importorskip("pandas")
    imu, wheels = EXAMPLES[ImuData](4), EXAMPLES[OdometryData](4)
    table = imu.to_dataframe()
    np.testing.assert_array_equal(table["angular_rate_y"], imu.angular_rate[:, 1])
    assert table.attrs["units"]["angular_rate_y"] == "rad/s"
    np.testing.assert_array_equal(wheels.to_dataframe()["ticks_right"], wheels.ticks[:, 1])
    uwb, gnss = EXAMPLES[UwbData](4), EXAMPLES[GnssData](4)
    np.testing.assert_array_equal(uwb.to_dataframe()["range_wall 2"], uwb.range[:, 1])
    np.testing.assert_array_equal(gnss.to_dataframe()["cn0_E02"], gnss.cn0[:, 1])


@every
@pytest.mark.parametrize("n", [0, 1, 40])
def test_every_record_draws_itself(tmp_path: Path, kind: Any, n: int) -> None:
    import matplotlib.pyplot as plt

    record = EXAMPLES[kind](n)
    figure = record.plot(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "center")]
    assert n == 0 or any(titles), "a record with values has at least one panel"
    own = plt.figure().add_subplot()
    assert record.plot(ax=own) is own
    plt.close("all")


def test_a_picture_of_an_unknown_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParhelionError, match=r"\.xyz"):
        EXAMPLES[ImuData](3).plot(tmp_path / "a.xyz")


@every
@pytest.mark.parametrize("n", [0, 4000])
def test_the_repr_is_one_short_line(kind: Any, n: int) -> None:
    record = EXAMPLES[kind](n)
    if hasattr(record, "metadata"):
        record = replace(record, metadata={"sensor": "a\n" * 300})
    assert kind.__name__ in repr(record)
    assert len(repr(record)) < 200
    assert repr(record).isprintable()


@every
def test_arrays_are_read_only_and_survive_pickling_between_processes(kind: Any) -> None:
    record = EXAMPLES[kind](5)
    for one in fields(kind):
        values = getattr(record, one.name)
        assert not (isinstance(values, np.ndarray) and values.flags.writeable), one.name
    assert pickle.loads(pickle.dumps(record)).equals(record)


@every
def test_every_field_with_numbers_has_a_unit(kind: Any) -> None:
    record = EXAMPLES[kind](5)
    arrays = {one.name for one in fields(kind) if isinstance(getattr(record, one.name), np.ndarray)}
    assert arrays - {"right"} <= set(record.units)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (RadarScan, RADAR_FIELDS),
        (GnssData, ("position", "satellites_used", "cn0")),
        (UwbData, ("range", "rssi", "cir")),
        (Image, ("colour", "depth", "normal", "label", "instance")),
    ],
)
def test_published_field_names(kind: Any, names: tuple[str, ...]) -> None:
    record = EXAMPLES[kind](5)
    assert all(isinstance(getattr(record, name), np.ndarray) for name in names)


# ---- files that are not what they claim ------------------------------------------------------------------------------


def changed(path: Path, **arrays: Any) -> Path:
    """The archive with some arrays replaced; None removes one."""
    with np.load(path) as archive:
        members = {**archive, **arrays}
    np.savez(path, **{name: values for name, values in members.items() if values is not None})
    return path


def described(path: Path, change: Callable[[Any], Any]) -> Path:
    """The archive with another description."""
    with np.load(path) as archive:
        facts = json.loads(archive["parhelion"].tobytes())
    text = json.dumps(change(facts) or facts).encode()
    return changed(path, parhelion=np.frombuffer(text, np.uint8))


def overwritten(path: Path, content: bytes) -> Path:
    """The file with other content."""
    path.write_bytes(content)
    return path


class Trap:
    """An object whose unpickling would run code."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("trapped"),)


@pytest.mark.parametrize("kind", [ImuData, RadarScan, Scan, Image, PointCloud], ids=lambda kind: kind.__name__)
def test_pickled_arrays_are_refused_and_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.npz"
    EXAMPLES[kind](3).save(path)
    with np.load(path) as archive:
        first = archive.files[0]
    trap = np.empty(1, object)
    trap[0] = Trap()
    with pytest.raises(FormatError, match="Python objects") as caught:
        kind.load(changed(path, **{first: trap}))
    assert one_sentence(caught.value, path)
    assert not (tmp_path / "trapped").exists()


def test_objects_are_not_written(tmp_path: Path) -> None:
    for kind in (PointCloud, FramePoints):
        with pytest.raises(FormatError, match="Python objects"):
            kind(np.zeros((2, 3)), {"thing": np.array([None, Trap()])}).save(tmp_path / "a.npz")
    with pytest.raises(FormatError, match="cannot be written"):
        filled(ImuData, {"n": 2}, metadata={"sensor": Trap()}).save(tmp_path / "a.npz")
    assert not any(tmp_path.iterdir())


def one_sentence(error: Exception, path: Path) -> bool:
    """Return True if a message names the file, is short and has no line break."""
    text = str(error)
    return str(path) in text and "\n" not in text and len(text.replace(str(path), "")) < 200


DAMAGE: list[tuple[type[Record], Callable[[Path], Path], str]] = [
    (ImuData, lambda p: changed(p, angular_rate=None), "the array 'angular_rate' is missing"),
    (ImuData, lambda p: changed(p, angular_rate=np.zeros((3, 2))), r"angular_rate must have shape \(3, 3\)"),
    (ImuData, lambda p: changed(p, angular_rate=np.zeros((3, 3), "U2")), "angular_rate must be"),
    (ImuData, lambda p: changed(p, time=np.full(3, np.nan)), "time must be finite"),
    (ImuData, lambda p: changed(p, parhelion=np.frombuffer(b"{]", np.uint8)), "parhelion description is damaged"),
    (ImuData, lambda p: changed(p, parhelion=np.frombuffer(b"[1]", np.uint8)), "parhelion description is damaged"),
    (ImuData, lambda p: changed(p, parhelion=None), "has no array 'parhelion'"),
    (ImuData, lambda p: described(p, lambda f: f.pop("values") and None), "damaged"),
    (ImuData, lambda p: described(p, lambda f: f["values"].pop("time") and None), "time"),
    (ImuData, lambda p: described(p, lambda f: f["values"].update(extra=1)), "extra"),
    (ImuData, lambda p: described(p, lambda f: f["values"].update(time=[1, 2])), "time must be"),
    (ImuData, lambda p: described(p, lambda f: f["values"].update(metadata="text")), "metadata must be"),
    (ImuData, lambda p: described(p, lambda f: f.update(record="Path")), "'Path', a type of record that no"),
    (ImuData, lambda p: described(p, lambda f: f.update(record="GnssData")), "contains GnssData, expected ImuData"),
    (GnssData, lambda p: described(p, lambda f: f["values"].update(satellites={"tuple": [1]})), "satellites must be"),
    (RadarScan, lambda p: changed(p, **{"cube.power": None}), "the array 'cube.power' is missing"),
    (RadarScan, lambda p: described(p, lambda f: f["values"].update(cube=f["values"]["pose"])), "cube must be"),
    (RadarScan, lambda p: described(p, lambda f: f["values"]["pose"].update(type="Popen")), "unknown type 'Popen'"),
    (RadarScan, lambda p: changed(p, xyz=np.zeros((3, 2), np.float32)), r"xyz must have shape \(n, 3\)"),
    (Image, lambda p: changed(p, colour=None), "colour"),
    (Image, lambda p: changed(p, depth=np.zeros((1, 1), np.float32)), "depth must have shape"),
    (Scan, lambda p: changed(p, **{"shots.time": None}), "'shots.time' is missing"),
    (UwbData, lambda p: overwritten(p, b""), "empty"),
    (UwbData, lambda p: overwritten(p, b"PK nonsense"), "not an NPZ file"),
]


@pytest.mark.parametrize(("kind", "damage", "problem"), DAMAGE)
def test_damaged_archives_give_one_clear_sentence(
    tmp_path: Path, kind: Any, damage: Callable[[Path], Path], problem: str
) -> None:
    path = tmp_path / "a.npz"
    EXAMPLES[kind](3).save(path)
    with pytest.raises(FormatError, match=problem) as caught:
        kind.load(damage(path))
    assert one_sentence(caught.value, path), str(caught.value)


@pytest.mark.parametrize(
    ("saved", "wanted"), [(ImuData, GnssData), (RadarScan, Scan), (Image, UwbData), (ImuData, PointCloud)]
)
def test_a_record_of_another_type_is_named(tmp_path: Path, saved: Any, wanted: Any) -> None:
    EXAMPLES[saved](3).save(tmp_path / "a.npz")
    expected = f"contains {saved.__name__}, expected {wanted.__name__}; read it with {saved.__name__}.load"
    with pytest.raises(FormatError, match=re.escape(expected)):
        wanted.load(tmp_path / "a.npz")


def test_unknown_endings_and_options_are_refused(tmp_path: Path) -> None:
    record = EXAMPLES[ImuData](3)
    with pytest.raises(FormatError, match=r"use \.csv or \.npz"):
        record.save(tmp_path / "a.pcd")
    with pytest.raises(ParhelionError, match="xml"):
        record.save(tmp_path / "a", format="xml")
    with pytest.raises(ParhelionError, match="colour"):
        record.save(tmp_path / "a.npz", colour="red")
    record.save(tmp_path / "a", format="npz", compress=True)
    assert ImuData.load(tmp_path / "a", format="npz").equals(record)
    with pytest.raises(FormatError, match=r"missing\.npz"):
        ImuData.load(tmp_path / "missing.npz")


def test_a_failed_write_leaves_the_earlier_file(tmp_path: Path) -> None:
    record, path = EXAMPLES[ImuData](3), tmp_path / "a.npz"
    record.save(path)
    before = path.read_bytes()
    with pytest.raises(FormatError):
        replace(record, metadata={"sensor": Trap()}).save(path)
    assert path.read_bytes() == before


# ---- files of earlier versions ---------------------------------------------------------------------------------------


def archive_of(path: Path, text: dict[str, Any], **arrays: NDArray[Any]) -> Path:
    """An archive as version 0.1 wrote it."""
    description = np.frombuffer(json.dumps(text).encode("ascii"), np.uint8)
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in {**arrays, "parhelion": description}.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, values, allow_pickle=False)
    return path


OLD_SCAN: dict[str, Any] = {
    "frame": "sensor", "names": {"label": {"3": "tree"}}, "metadata": {"sensor": "ouster/os1-32"}, "layout": {},
    "extras": {"fields": {"shot": "shot"}, "start_time": 3.0},
}  # fmt: skip


def test_old_scans_and_clouds_are_read(tmp_path: Path) -> None:
    made = scan(4)
    shots = {f"shots.{one.name}": getattr(made.shots, one.name) for one in fields(made.shots)}
    motion = dict(zip(("motion.times", "motion.xyz", "motion.quat_xyzw"), made.motion_knots(), strict=True))
    path = archive_of(tmp_path / "a.npz", OLD_SCAN, xyz=made.xyz, shot=made.shot, **shots, **motion)
    back = Scan.load(path)
    expected = replace(made, fields={"shot": made.shot}, names={"label": {3: "tree"}}, metadata=OLD_SCAN["metadata"])
    assert back.equals(expected)
    back.save(tmp_path / "b.npz")
    with np.load(path) as old, np.load(tmp_path / "b.npz") as new:
        assert old.files == new.files, "scans have the same layout as before"
    cloud = archive_of(tmp_path / "c.npz", {**OLD_SCAN, "extras": {"fields": {"a b": "field.0"}}},
                       xyz=made.xyz, **{"field.0": made.shot})  # fmt: skip
    assert type(PointCloud.load(cloud)) is PointCloud
    np.testing.assert_array_equal(PointCloud.load(cloud).fields["a b"], made.shot)


OLD_FRAME = {"start_time": 2.5, "duration": 0.05, "pose": [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]}


def test_old_frames_of_radars_and_sounders_are_read(tmp_path: Path) -> None:
    made: RadarScan = EXAMPLES[RadarScan](4)
    text = {**OLD_SCAN, "extras": {"fields": {name: name for name in RADAR_FIELDS}, "frame_points": OLD_FRAME}}
    known = {name: made.fields[name] for name in RADAR_FIELDS}
    cube = {f"cube.{one.name}": getattr(CUBE, one.name) for one in fields(RadarCube)}
    back = RadarScan.load(archive_of(tmp_path / "a.npz", text, xyz=made.xyz, **known, **cube))
    assert (back.start_time, back.duration) == (2.5, 0.05)
    np.testing.assert_array_equal(back.pose.xyz, (1, 2, 3))
    assert back.cube is not None
    assert back.cube.equals(CUBE)
    text["extras"] = {"fields": {"range": "range"}, "frame_points": OLD_FRAME}
    sound = {f"waveform.{one.name}": np.asarray(getattr(SOUND, one.name)) for one in fields(EchoWaveform)}
    echo = EchoScan.load(archive_of(tmp_path / "b.npz", text, xyz=made.xyz, range=np.arange(2.0, 6.0), **sound))
    assert echo.nearest == 2.0
    assert echo.waveform is not None
    assert echo.waveform.equals(SOUND)


def test_old_images_are_read(tmp_path: Path) -> None:
    made = image()
    arrays = {name: getattr(made, name) for name in ("colour", "right", *TRUTH)}
    seen = made.objects[0]
    pose = {"xyz": [1.0, 2.0, 3.0], "quat_xyzw": made.pose.quat_xyzw.tolist()}
    text = {
        "start_time": 1.25, "pose": pose, "bands": ["red", "green", "blue"],
        "intrinsics": {"width": 6, "height": 4, "fx": 5.0, "fy": 5.0, "cx": 2.5, "cy": 1.5, "skew": 0.0,
                       "model": "plumb_bob", "distortion": [0.1, -0.01], "baseline_m": 0.0},
        "objects": [{
            "instance": 3, "label": 1, "visible_box": list(seen.visible_box), "full_box": list(seen.full_box),
            "pixels": 4, "occlusion": 0.5, "truncation": 0.1, "size_m": list(seen.size_m),
            "pose": {"xyz": [4.0, 1.0, 0.0], "quat_xyzw": [0.0, 0.0, 0.0, 1.0]},
        }],
        "names": {"label": {"1": "car"}}, "metadata": FACTS,
    }  # fmt: skip
    assert Image.load(archive_of(tmp_path / "a.npz", text, **arrays)).equals(made)


def test_impulse_responses_stay_out_of_json_and_tables_of_rows() -> None:
    pytest.importorskip("foxglove")
    from parhelion.outputs.foxglove.messages import samples_content

    ranges = EXAMPLES[UwbData](3)
    rows = [content for _, content in samples_content(ranges)]
    assert len(rows) == 3
    assert "range" in rows[0]
    assert "cir" not in json.loads(json.dumps(rows[0]))
    assert not any(part.name.startswith("cir") for part in ranges.table())
