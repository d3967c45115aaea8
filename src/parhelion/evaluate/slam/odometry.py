"""Odometry under test: the protocol that one keeps, and the table of those that are known by name.

A method of your own is a class with one function:

    class MyOdometry:
        def register(self, scan: PointCloud, imu: ImuData | None) -> Pose:
            ...                                  # where the lidar is, in the frame of the first scan

It is made anew for each run: with the `Setup` of the run where its constructor takes an argument, else without.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from parhelion.core.errors import ConfigError, MissingDependencyError, unknown_name
from parhelion.core.inertial import ImuData
from parhelion.core.pose import Pose
from parhelion.core.records import PointCloud


class Odometry(Protocol):
    """Finds the way of a lidar, one scan after the other.

    Where the class has an attribute `pose_at`, from 0 to 1, the poses hold at that share of the time from one scan's
    start to the next one's; without it they hold at the start.
    """

    def register(self, scan: PointCloud, imu: ImuData | None) -> Pose:
        """Pose of the lidar in any fixed frame. `imu` has the samples since the scan before."""
        ...


@dataclass(frozen=True)
class Setup:
    """What a method is told before the first scan."""

    period_s: float
    """Time from one scan to the next [s]."""
    lidar_from_imu: Pose | None = None
    """Pose of the IMU in the lidar's frame, where there is one."""
    max_range_m: float = 100.0
    """Points beyond are not used."""
    threads: int = 0
    """Threads that a method may use; 0 for as many as it likes."""


@dataclass(frozen=True)
class Method:
    """A method that has a name."""

    name: str
    package: str
    """What to install."""
    place: str
    """'module:Class' of its adapter."""
    words: str
    needs_imu: bool = False


_HERE = "parhelion.evaluate.slam.methods"
METHODS = {
    method.name: method
    for method in (
        Method("kiss-icp", "kiss-icp", f"{_HERE}:KissIcp", "point-to-point ICP (Vizzo et al. 2023)"),
        Method("genz-icp", "genz-icp", f"{_HERE}:GenzIcp", "ICP that weighs planes and points (Lee et al. 2025)"),
        Method("small-gicp", "small-gicp", f"{_HERE}:SmallGicp", "scan to map by VGICP (Koide 2024)"),
        Method("rko-lio", "rko-lio", f"{_HERE}:RkoLio", "lidar and IMU (Malladi et al. 2025)", needs_imu=True),
    )
}


def method_maker(name: str) -> Callable[[Setup], Odometry]:
    """What makes a method, by its name or as 'module:Class' for one of your own."""
    if ":" in name:
        return _own(name)
    if name not in METHODS:
        raise unknown_name("method", name, METHODS, "(a class of your own is 'module:Class')")
    method = METHODS[name]

    def make(setup: Setup) -> Odometry:
        if method.needs_imu and setup.lidar_from_imu is None:
            raise ConfigError(f"{name} needs an IMU, and there is none beside the lidar")
        try:
            found: Odometry = _class_at(method.place)(setup)
            return found
        except ImportError as error:
            raise MissingDependencyError(
                f"the method {name} needs the package {method.package} ({error}): run 'pip install {method.package}'"
            ) from None

    return make


def _own(name: str) -> Callable[[Setup], Odometry]:
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        kind = _class_at(name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"method {name!r}: cannot be imported ({error})") from None
    finally:
        if added:
            sys.path.remove(here)
    if not callable(getattr(kind, "register", None)):
        raise ConfigError(f"method {name!r}: has no function register(scan, imu)")
    takes_setup = any(
        one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        for one in inspect.signature(kind).parameters.values()
    )
    return lambda setup: kind(setup) if takes_setup else kind()


def _class_at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
