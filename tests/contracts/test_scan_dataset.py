"""Scans that stay on the device, and data sets that generate them on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from oracles import oracle
from parhelion.core.errors import ConfigError
from parhelion.motion.actors import add_car, add_person
from parhelion.motion.actors.vehicles import car_size_m
from parhelion.sensors.optics.lidar.points import DEFAULT_TENSORS, KNOWN
from rigs import sheet

WEATHERS = [None, {"rain_rate_mm_h": 80.0}, ph.Weather(visibility_m=60.0)]


@pytest.fixture(scope="module")
def world() -> ph.World:
    made = ph.World("yard")
    made.add(ph.shapes.plane(80, 80), material="asphalt", label="road")
    made.add(ph.shapes.box(2, 4, 3), material="lambert-50", label="wall", pose=ph.Pose((9, 0, 1.5)), instance=7)
    drive = [ph.Pose((0, 0, 1.5)), ph.Pose((3, 3, 1.5), rpy_deg=(0, 0, 40))]
    made.path = ph.Waypoints([0.0, 4.0], drive)
    return made


@pytest.fixture(scope="module")
def lidar() -> ph.Lidar:
    return ph.Lidar("velodyne/vlp-16", sub_rays=5)


def host(values: Any) -> np.ndarray[Any, Any]:
    """NumPy array of values on any device."""
    return np.asarray(values.numpy() if hasattr(values, "numpy") else values)


def assert_same_points(tensors: dict[str, Any], scan: ph.Scan) -> None:
    for name, values in tensors.items():
        expected = scan.xyz if name == "xyz" else scan.fields[name]
        np.testing.assert_array_equal(host(values), expected, err_msg=name)


def test_tensors_hold_the_bits_of_scans(world: ph.World, lidar: ph.Lidar) -> None:
    poses = [ph.Pose((0, 0, 1.5)), ph.Pose((2, 1, 1.5)), ph.Pose((200, 0, 60))]  # the last one has no returns
    fields = [name for name in KNOWN if name not in ("near_ir", "radial_velocity")]
    for weather in (None, ph.Weather(rain_rate_mm_h=100.0)):
        world.weather = weather
        scans = lidar.scan_many(world, poses, seed=4)
        pieces = lidar.scan_tensors(world, poses, seed=4, fields=fields)
        assert sum(map(len, pieces)) == len(scans)
        first = 0
        for piece in pieces:
            for row in range(len(piece)):
                part = slice(*piece.first[row : row + 2].tolist())
                assert_same_points({n: host(piece[n])[part] for n in fields}, scans[first + row])
            first += len(piece)
    world.weather = None
    assert len(scans[-1]) < len(scans[0])


def test_near_infrared_where_the_sensor_reports_it(world: ph.World, lidar: ph.Lidar) -> None:
    ouster = ph.Lidar("ouster/os0-32", columns=512, rate_hz=10, sub_rays=1)
    pose = ph.Pose((0, 0, 1.5))
    piece = ouster.scan_tensors(world, [pose], seed=1, fields=["near_ir", "label"])[0]
    assert_same_points({n: piece[n] for n in ("near_ir", "label")}, ouster.scan(world, pose=pose, seed=1))
    with pytest.raises(ConfigError, match="near_ir: this sensor does not report it"):
        lidar.scan_tensors(world, [pose], fields=["near_ir"])


def test_scans_cut_into_several_launches_are_whole(
    world: ph.World, lidar: ph.Lidar, monkeypatch: pytest.MonkeyPatch
) -> None:
    poses = [ph.Pose((0.3 * k, 0, 1.5)) for k in range(5)]
    whole = lidar.scan_tensors(world, poses, seed=2)
    monkeypatch.setattr("parhelion.sensors.optics.lidar.device._SLOTS_PER_LAUNCH", {"cpu": 1, "cuda": 1})
    apart = lidar.scan_tensors(world, poses, seed=2)
    assert [len(piece) for piece in apart] == [1] * 5
    for name in DEFAULT_TENSORS:
        np.testing.assert_array_equal(
            np.concatenate([host(piece[name]) for piece in whole]), np.concatenate([host(one[name]) for one in apart])
        )


def test_an_item_is_the_scan_of_its_sample(world: ph.World, lidar: ph.Lidar) -> None:
    data = ph.ScanDataset(lidar, [world, "test-range"], length=40, weathers=WEATHERS, seed=5, form="arrays")
    assert len(data) == 40
    samples = [data.sample(k) for k in range(40)]
    assert {s.world for s in samples} == {0, 1}
    assert {s.weather for s in samples} == {0, 1, 2}
    asked = [17, 3, 38, 3]
    for index, item in zip(asked, data.__getitems__(asked), strict=True):
        sample = samples[index]
        place = data.worlds[sample.world]
        air = WEATHERS[sample.weather]
        before = place.weather
        place.weather = ph.Weather(**air) if isinstance(air, dict) else air
        scan = lidar.scan(place, pose=sample.pose, seed=5, frame=index)
        place.weather = before
        assert_same_points(item, scan)
        assert_same_points(data[index], scan)
    assert world.weather is None  # unchanged


def test_all_items_occur_once_in_large_batches(world: ph.World, lidar: ph.Lidar) -> None:
    data = ph.ScanDataset(lidar, [world], length=23, weathers=[None, {"rain_rate_mm_h": 20}], seed=1, form="arrays")
    seen: list[int] = []
    for numbers, piece in data.batches(5):
        assert len(numbers) == len(piece) <= 5
        assert len({data.sample(number).weather for number in numbers}) == 1
        row = len(numbers) - 1
        part = slice(*piece.first[row : row + 2].tolist())
        np.testing.assert_array_equal(host(piece["xyz"])[part], host(data[numbers[row]]["xyz"]))
        seen += numbers
    assert sorted(seen) == list(range(23))


def test_places_are_drawn_along_the_drive_or_from_poses(world: ph.World, lidar: ph.Lidar) -> None:
    drawn = np.array([ph.ScanDataset(lidar, [world], length=400, form="arrays").sample(k).pose.xyz for k in range(400)])
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 1], atol=1e-9)
    # Uniform over [0, 3]: the mean of 400 has a standard deviation of 3 / sqrt(12 * 400) = 0.043; the bound is 4 of
    # them.
    assert abs(drawn[:, 0].mean() - 1.5) < 0.173
    assert drawn[:, 0].min() >= 0.0
    assert drawn[:, 0].max() <= 3.0
    poses = [ph.Pose((k, 0, 2)) for k in range(3)]
    given = ph.ScanDataset(lidar, [world], length=60, places=poses, form="arrays")
    assert {given.sample(k).pose for k in range(60)} == set(poses)
    made = ph.ScanDataset(lidar, [world], length=9, places=lambda _, n: ph.Pose((n, 0, 2)), form="arrays")
    assert [made.sample(k).pose.xyz[0] for k in range(9)] == list(range(9))


def test_it_has_the_protocol_of_loaders(world: ph.World) -> None:
    """Any map-style loader: length, items by number, IndexError at the end, negative numbers from the end."""
    data = ph.ScanDataset(sheet(), [world], length=3, form="arrays", fields=["xyz", "label"])
    assert [set(item) for item in data] == [{"xyz", "label"}] * 3  # type: ignore[attr-defined]
    np.testing.assert_array_equal(host(data[-1]["xyz"]), host(data[2]["xyz"]))
    with pytest.raises(IndexError):
        data[3]


@pytest.mark.oracle
def test_torch_tensors() -> None:
    torch = oracle("torch")
    data = ph.ScanDataset(sheet(), ["test-range"], length=8, form="torch")
    loader = torch.utils.data.DataLoader(data, batch_size=4, collate_fn=list)
    batches = list(loader)
    assert [len(batch) for batch in batches] == [4, 4]
    item = batches[1][2]
    assert item["xyz"].dtype == torch.float32
    assert item["label"].dtype == torch.int32
    plain = ph.ScanDataset(sheet(), ["test-range"], length=8, form="arrays")[6]
    for name in DEFAULT_TENSORS:
        np.testing.assert_array_equal(item[name].cpu().numpy(), host(plain[name]))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"worlds": []}, "worlds: give a list of worlds, at least one"),
        ({"worlds": "city"}, "worlds: give a list of worlds, at least one"),
        ({"length": 0}, "length: must be a whole number from 1 to"),
        ({"length": 2.5}, "length: must be a whole number"),
        ({"weathers": []}, "weathers: give a list of weathers"),
        ({"weathers": ["rain"]}, r"weathers\[0\]: must be a Weather"),
        ({"weathers": [{"rain_rate": 3}]}, r"weathers\[0\]: .*rain_rate"),
        ({"places": []}, "places: give poses to draw from"),
        ({"fields": ["xyz", "colour"]}, "unknown field 'colour'"),
        ({"fields": "xyz"}, "fields: expected a list of names"),
        ({"form": "jax"}, "form: must be 'torch' or 'arrays'"),
    ],
)
def test_bad_arguments_are_reported(changes: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"worlds": ["test-range"], "length": 4, **changes}
    worlds: Sequence[Any] = given.pop("worlds")
    with pytest.raises(ConfigError, match=sentence):
        ph.ScanDataset(sheet(), worlds, **given)


# ---- boxes ----------------------------------------------------------------------------------------------------------


def crossing() -> ph.World:
    """A car 12 m ahead that drives to the left, and a wall that hides a person."""
    made = ph.World("crossing")
    made.add(ph.shapes.plane(80, 80), material="asphalt", label="road")
    start = ph.Pose((12, -4, 0), rpy_deg=(0, 0, 90))
    add_car(made, ph.ConstantTwist(start, velocity=(0.0, 2.0, 0.0)), "sedan")
    made.add(ph.shapes.box(0.2, 3, 3), material="concrete", label="wall", pose=ph.Pose((-6, 0, 1.5)))
    add_person(made, ph.Pose((-9, 0, 0)))
    return made


def test_items_have_boxes_at_their_times(lidar: ph.Lidar) -> None:
    built: list[int] = []

    def build() -> ph.World:
        built.append(1)
        return crossing()

    places = [ph.Pose((0, 0, 1.5), rpy_deg=(0, 0, 30))]
    data = ph.ScanDataset(
        lidar, [build], length=6, places=places, times=[0.0, 2.0], fields=["xyz"], form="arrays",
        boxes=["Car", "Pedestrian"], visibility=True,
    )  # fmt: skip
    times = {data.sample(row).time for row in range(6)}
    assert times == {0.0, 2.0}
    for row, item in enumerate(data[k] for k in range(6)):
        assert sorted(item) == ["box_class", "box_points", "box_visible", "boxes", "xyz"]
        car, _ = item["boxes"]
        assert item["box_class"].tolist() == [0, 1]
        # In the frame of the sensor, which is turned by 30 degrees: the heading of the car is 90 - 30 degrees.
        y = -4.0 + 2.0 * data.sample(row).time
        turned = ph.Pose((0, 0, 1.5), rpy_deg=(0, 0, 30)).inverse().apply([[12.0, y, 0.75]])[0]
        np.testing.assert_allclose(car[:2], turned[:2], atol=0.02)
        assert car[6] == pytest.approx(np.radians(60.0), abs=1e-5)
        assert car[3:5] == pytest.approx([car_size_m("sedan")[0], 2.04], abs=0.1)
        inside = np.abs(item["xyz"].astype(float) - car[:3]).max(axis=1) < 3.5
        assert 20 < item["box_points"][0] <= np.count_nonzero(inside)
        assert item["box_visible"][0] > 0.9
        assert item["box_points"][1] == 0
        assert item["box_visible"][1] < 0.1
    assert built == [1]


def test_boxes_do_not_change_the_points(lidar: ph.Lidar) -> None:
    plain = ph.ScanDataset(lidar, [crossing()], length=2, fields=["xyz", "ring"], form="arrays", seed=3)
    boxed = ph.ScanDataset(lidar, [crossing()], length=2, fields=["xyz", "ring"], form="arrays", seed=3, boxes=["Car"])
    for row in range(2):
        for name in ("xyz", "ring"):
            np.testing.assert_array_equal(plain[row][name], boxed[row][name])


def test_further_sensors_measure_at_the_same_place(lidar: ph.Lidar, world: ph.World) -> None:
    radar, mount = ph.Radar("ti/iwr6843"), ph.Pose((0.5, 0.0, 0.0))
    data = ph.ScanDataset(lidar, [world], length=2, others={"front": (radar, mount)}, form="arrays", seed=5)
    sample = data.sample(1)
    expected = radar.measure(world, sample.pose @ mount, sample.time, 5, frame=1)
    assert len(expected)
    assert data[1]["front"].equals(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boxes": ["car"]}, "unknown type of boxes 'car'"),
        ({"times": []}, "times: give a list of times in seconds"),
        ({"times": [np.nan]}, "times: give a list of times in seconds"),
    ],
)
def test_wrong_boxes_and_times(lidar: ph.Lidar, world: ph.World, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ph.ScanDataset(lidar, [world], length=1, **options)
