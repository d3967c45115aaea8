"""The form that all sensors share: arguments, old call forms with a warning, and errors in one sentence."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.sensors.check import same_bits
from parhelion.sensors.kinds import SensorKind, add_kind, kind_called, kind_named, kinds
from parhelion.sensors.sheets import RENAMED

WORLD = ph.World("here")
DRIVE = ph.ConstantTwist(ph.Pose(), velocity=(1.0, 0.0, 0.0))
IMU, GNSS, LIDAR = ph.Imu("bosch/bmi160"), ph.Gnss("u-blox/m8"), ph.Lidar("sick/lms-111")
SOME = ph.Pose((0.1, 0.0, 0.5))


@pytest.mark.parametrize("kind", list(ph.sensors()))
def test_every_class_has_the_same_first_arguments(kind: str) -> None:
    made = kind_named(kind).sensor
    first = list(inspect.signature(made).parameters.values())[:4]
    assert [(one.name, one.default) for one in first[1:]] == [("name", ""), ("rate_hz", None), ("noise", True)]
    assert first[0].name == "model"
    assert {one.kind for one in first[1:]} == {inspect.Parameter.KEYWORD_ONLY}
    assert issubclass(made, ph.Sensor)  # type: ignore[arg-type]
    described = inspect.getdoc(made)
    assert described is not None
    for name in inspect.signature(made).parameters:
        assert f"\n    {name}: " in described, f"{made.__name__} does not describe {name}"


def test_one_run_form_for_all_stream_kinds() -> None:
    runs = {
        inspect.signature(kind.sensor.run)  # type: ignore[attr-defined]
        for kind in kinds().values()
        if kind.output == "samples"
    }
    assert [list(one.parameters) for one in runs] == [["self", "world", "motion", "start", "duration", "seed", "mount"]]


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (lambda: IMU.run(DRIVE), lambda: IMU.run(None, DRIVE), r"Imu\.run\(motion\)"),
        (lambda: IMU.run(motion=DRIVE), lambda: IMU.run(WORLD, DRIVE), r"Imu\.run\(motion\)"),
        (lambda: IMU.run(DRIVE, 2.0, 0.5, 3), lambda: IMU.run(None, DRIVE, 2.0, 0.5, 3), r"Imu\.run\(motion\)"),
        (
            lambda: GNSS.run(WORLD, DRIVE, 0.0, 0.2, 3, SOME),
            lambda: GNSS.run(WORLD, DRIVE, 0.0, 0.2, 3, mount=SOME),
            "mount by position",
        ),
        (
            lambda: LIDAR.measure(WORLD, DRIVE, 0.0, 1, 5),
            lambda: LIDAR.scan(WORLD, trajectory=DRIVE, seed=1, frame=5),
            "frame by position",
        ),
        (
            lambda: IMU.samples(WORLD, DRIVE, 0.0, 0.5, 3, SOME),
            lambda: IMU.run(WORLD, DRIVE, 0.0, 0.5, 3, mount=SOME),
            r"Imu\.samples\(\)",
        ),
        (
            lambda: ph.Imu("bosch/bmi160", 50.0).run(None, DRIVE),
            lambda: ph.Imu("bosch/bmi160", rate_hz=50.0).run(None, DRIVE),
            "rate_hz by position",
        ),
    ],
)
def test_old_call_forms_work_with_a_warning(old: Callable[[], Any], new: Callable[[], Any], warning: str) -> None:
    with pytest.warns(DeprecationWarning, match=warning) as caught:
        found = old()
    assert {one.filename for one in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same_bits(found, new())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GNSS.run(DRIVE, WORLD), r"run\(world, motion\): got a trajectory first"),
        (lambda: GNSS.run(DRIVE), r"run\(world, motion\): got a trajectory first"),
        (lambda: IMU.run(DRIVE, WORLD), r"run\(world, motion\): got a trajectory first"),
        (lambda: GNSS.run(None, DRIVE), "world: expected a parhelion World, got NoneType"),
        (lambda: GNSS.run(WORLD, WORLD), r"motion: expected an object with sample\(times\), got World"),
        (lambda: IMU.run(WORLD, DRIVE, "now"), r"start, duration: must be numbers \[s\], got 'now'"),
        (lambda: IMU.run(WORLD, DRIVE, 0.0, 0.0), "duration: must be finite and above 0 s"),
        (lambda: IMU.run(WORLD, DRIVE, mount=(0, 0, 1)), "mount: expected a parhelion Pose, got tuple"),
        (lambda: LIDAR.measure(DRIVE, WORLD), "got a trajectory first"),
        (lambda: LIDAR.scan(WORLD, pose=DRIVE), "pose: expected a parhelion Pose, got ConstantTwist"),
        (lambda: LIDAR.scan(WORLD, pose=SOME, trajectory=DRIVE), "give pose or trajectory, not both"),
        (lambda: IMU.measure(None), "motion: give a pose or a trajectory"),
        (lambda: ph.Imu("sick/lms-111"), "'sick/lms-111' is a sensor of the kind 'lidar', not 'imu'"),
        (lambda: ph.sensor("lidr", "sick/lms-111"), "did you mean 'lidar'"),
    ],
)
def test_mixed_up_arguments_are_one_sentence(call: Callable[[], Any], message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigError, match=message):
            call()


@pytest.mark.parametrize(("kind", "old", "new"), [(k, a, b) for k, names in RENAMED.items() for a, b in names.items()])
def test_renamed_presets_keep_their_random_numbers(kind: str, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"the {kind} preset '{old}' is deprecated .* use '{new}'") as caught:
        before = ph.sensor(kind, old)
    assert before.model == new
    assert before._streams == f"{kind}/{old}/"
    assert caught[0].category is DeprecationWarning
    assert same_bits(before.run(None, DRIVE, seed=4), ph.sensor(kind, new).run(None, DRIVE, seed=4))


def test_a_pose_stands_for_a_sensor_at_rest() -> None:
    assert same_bits(IMU.run(None, SOME, seed=2), IMU.run(None, ph.Fixed(SOME), seed=2))
    assert len(IMU.run(None, DRIVE, 0.001, 0.002)) == 0


def test_old_names_of_kinds_and_lists_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r'imu_names\(\) is deprecated .* use presets\("imu"\)'):
        assert ph.imu_names() == ph.presets("imu")
    with pytest.warns(DeprecationWarning, match="kind_called"):
        kind: SensorKind = kind_called("imu")
    with pytest.warns(DeprecationWarning, match=r"SensorKind\.gives is deprecated .* use SensorKind\.output"):
        assert kind.gives == "samples"
    with pytest.warns(DeprecationWarning, match="add_kind"), pytest.raises(ConfigError, match="a kind of Parhelion"):
        add_kind(kind)
    with pytest.warns(DeprecationWarning, match="known_as"):
        assert np.array_equal(IMU.known_as, IMU.visibility_keys)
