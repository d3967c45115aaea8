"""The sensor checker: it accepts sensors that follow the contract, and names each kind of violation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.random import Stream, to_normal
from parhelion.core.streams import column


@dataclass(frozen=True, eq=False)
class Levels(ph.Samples):
    """Samples of a level gauge."""

    level: Any = field(metadata=column("m", "world", "n"))


@dataclass(frozen=True, eq=False)
class Bare(ph.Samples):
    """Samples whose array has no unit."""

    level: Any


class Gauge:
    """A stream sensor that follows the contract without the base class."""

    rate_hz, name, noise = 10.0, "", True

    def run(
        self, world: Any, motion: Any, start: float, duration: float, seed: int, *, mount: Any = None
    ) -> ph.Samples:
        first, last = (int(np.ceil(time * self.rate_hz - 1e-6)) for time in (start, start + duration))
        number = np.arange(first, last)
        return self.record(number / self.rate_hz, to_normal(*Stream(seed, "gauge").words(number)[:2])[0])

    def record(self, time: Any, level: Any) -> ph.Samples:
        return Levels(time, level)

    def stream(self, world: Any, motion: Any, seed: int, *, mount: Any = None, start: float = 0.0) -> Any:
        gauge = self

        class _Stream:
            sent = start

            def until(self, time: float) -> ph.Samples:
                begin, self.sent = self.sent, time
                return gauge.run(world, motion, begin, time - begin, seed)

        return _Stream()


class WithoutUnits(Gauge):
    def record(self, time: Any, level: Any) -> ph.Samples:
        return Bare(time, level)


class Unchecked(Gauge):
    """Sensor whose record has an array of another shape and type than declared."""

    value: Any = np.float32(0.0)

    def record(self, time: Any, level: Any) -> ph.Samples:
        found = Levels(time, level)
        wrong = np.append(level, 0.0) if self.value is None else level.astype(type(self.value)) + self.value
        wrong.setflags(write=False)
        object.__setattr__(found, "level", wrong)
        return found


class Deaf(Gauge):
    """Sensor with the same noise for every seed."""

    def run(self, world: Any, motion: Any, start: float, duration: float, seed: int, *, mount: Any = None) -> Any:
        return super().run(world, motion, start, duration, 0)


class Anew(Gauge):
    """Sensor whose noise depends on the sample number within the run, so that a run in parts differs."""

    def record(self, time: Any, level: Any) -> ph.Samples:
        return Levels(time, level + np.arange(len(level)))


class Backwards(Gauge):
    def record(self, time: Any, level: Any) -> ph.Samples:
        return Levels(time[::-1], level)


class MotionFirst(Gauge):
    def run(self, motion: Any, start: float, duration: float, seed: int) -> Any:  # type: ignore[override]
        return Levels(np.zeros(1), np.zeros(1))


class Plain:
    """Frame sensor whose measurement is not a record."""

    rate_hz, name, noise, frame_duration_s, visibility_keys = 10.0, "", False, 0.0, ("plain",)

    def measure(self, world: Any, motion: Any, time: float, seed: int, *, frame: int | None = None) -> Any:
        return {"range": np.zeros(3)}


class Inventive(Plain):
    """Sensor that reports a point in an empty world."""

    def measure(self, world: Any, motion: Any, time: float, seed: int, *, frame: int | None = None) -> Any:
        return ph.PointCloud(np.zeros((1, 3)))


class Forgetful(Plain):
    count = 0

    def measure(self, world: Any, motion: Any, time: float, seed: int, *, frame: int | None = None) -> Any:
        self.count += 1
        return ph.PointCloud(np.full((1, 3), float(self.count)))


class Unnamed(Plain):
    visibility_keys = "plain"  # type: ignore[assignment]


def made(base: type[Any], **changes: Any) -> Any:
    sensor = base()
    vars(sensor).update(changes)
    return sensor


def test_sensors_that_follow_the_contract_pass() -> None:
    ph.check_sensor(Gauge())
    ph.check_sensor(ph.Imu("bosch/bmi160"))
    ph.check_sensor(ph.Odometry("clearpath/husky"), time=2.0)


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        (WithoutUnits(), "array 'level' has no unit"),
        (Unchecked(), "array 'level' is float32, not float64"),
        (made(Unchecked, value=np.nan), "array 'level' is not finite"),
        (made(Unchecked, value=None), r"array 'level' has shape \(4,\)"),
        (Deaf(), "another seed gave the same bits"),
        (Anew(), "a run in two parts gave other bits"),
        (Backwards(), "not in the order of time"),
        (MotionFirst(), r"MotionFirst must have run\(world, motion, start, duration, seed"),
        (made(Gauge, rate_hz=None), "rate_hz must be a number above 0"),
        (made(Gauge, name=None), "name must be a string"),
        (made(Gauge, kind="imu"), "the kind 'imu' declares ImuData, got Levels"),
        (Plain(), "a measurement must be a Record, got dict"),
        (Forgetful(), "the same seed gave different bits"),
        (Inventive(), "an empty world gave 1 points"),
        (Unnamed(), "visibility_keys must be a tuple of strings"),
        (made(Plain, frame_duration_s=None), "frame_duration_s must be a number"),
        (object(), "rate_hz"),
    ],
)
def test_each_way_to_break_the_contract_is_named(sensor: Any, message: str) -> None:
    with pytest.raises(ph.ContractError, match=message):
        ph.check_sensor(sensor)
