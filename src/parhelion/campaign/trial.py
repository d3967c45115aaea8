"""One run of a campaign in any process: a job in, a result out, both as JSON text.

A job has all that the run needs: the fields of the scenario, the folder of its files, its measures, and the version
of the program. A result contains the numbers, or the error message; errors are never raised.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from parhelion.campaign.measures import MeasuredRun, measure_called
from parhelion.core import config
from parhelion.core.clouds import Scan
from parhelion.core.errors import ParhelionError
from parhelion.outputs.manifest import version_of
from parhelion.scenario.scenario import Scenario
from parhelion.scenario.schema import ScenarioFile
from parhelion.sensors.optics.lidar.validity import as_plain

# ---- Program version: all rows of one table must come from the same one ---------------------------------------------


_PACKAGES = ("parhelion", "mitsuba", "drjit", "numpy", "scipy")


@cache
def identity(further: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions of everything that affects the numbers of a run, and a hash of our source, which may be modified.

    `further` are packages that the measures of a study need.
    """
    return {**{name: version_of(name) for name in (*_PACKAGES, *further)}, "source": _source()}


def version_words(known: dict[str, str]) -> str:
    """Version as written in a row of the table."""
    return f"{known['parhelion']}+source.{known['source']}"


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str | None:
    """Difference of another program from this one, as text; None if there is none."""
    for name, mine in ours.items():
        other = theirs.get(name)
        if other != mine:
            what = "another source of parhelion" if name == "source" else f"{name} {other}"
            return f"it has {what}, but this campaign has {mine}"
    return None


@cache
def _source() -> str:
    folder = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".yaml", ".csv", ".npy") and "__pycache__" not in file.parts:
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


# ---- trial ----------------------------------------------------------------------------------------------------------


_LONGEST_ERROR = 500

_cached: dict[str, Any] = {}
"""World of the last run, which the next run may reuse: loading it and building its acceleration structure can cost more
than the scans."""


def run_job(text: str) -> str:
    """Run one job."""
    began = time.perf_counter()
    job = json.loads(text)
    result: dict[str, Any] = {"row": job["row"], "worker": f"{platform.node()}:{os.getpid()}"}
    refused = difference(job["identity"], identity(tuple(job.get("packages", ()))))
    if refused is not None:
        return json.dumps({**result, "status": "refused", "error": refused})
    result |= {"version": version_words(identity()), "scenario_sha256": None, "device": None}
    try:
        from parhelion.rays.device import engine

        result["device"] = engine().device
        settings = config.parse(ScenarioFile, job["scenario"], f"row {job['row']}")
        result["scenario_sha256"] = scenario_hash(settings)
        if "dataset" in job:
            from parhelion.campaign.dataset import write_sequence

            scenario, numbers = write_sequence(job, settings)
        else:
            scenario = scenario_in_cached_world(settings, Path(job["folder"]))
            numbers = _measured(job, scenario)
        grades = json.dumps(as_plain(scenario.weather_validity), sort_keys=True)
        result |= {"status": "done", "error": None, "weather_validity": grades, "numbers": numbers}
    except Exception as error:  # a failed run is a row of the table, and the others continue
        _cached.clear()
        result |= {"status": "failed", "error": _sentence(error), "numbers": {}}
    return json.dumps({**result, "seconds": round(time.perf_counter() - began, 4)})


def scenario_hash(settings: ScenarioFile) -> str:
    """SHA-256 of a resolved scenario, the same as in the manifest of `parhelion run`."""
    return hashlib.sha256(json.dumps(settings.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def _sentence(error: Exception) -> str:
    words = str(error) if isinstance(error, ParhelionError) else f"{type(error).__name__}: {error}"
    return " ".join(words.split())[:_LONGEST_ERROR]


# ---- measuring -----------------------------------------------------------------------------------------------------


def _measured(job: dict[str, Any], scenario: Scenario) -> dict[str, float | None]:
    chosen = [measure_called(name) for name in job["measures"]]
    of_scans = [(measure, measure.function) for measure in chosen if measure.of == "scan"]
    of_pairs = [(measure, measure.function) for measure in chosen if measure.of == "pair"]
    of_runs = [measure for measure in chosen if measure.of == "run"]
    lidars = [sensor.name for sensor in scenario.giving(Scan)]
    sums: dict[str, list[float]] = {}
    scans: dict[str, list[Scan]] = {name: [] for name in lidars}

    def column(lidar: str, number: str) -> str:
        return number if len(lidars) == 1 else f"{lidar}.{number}"

    for step in scenario.walk(lambda sensor, number: sensor in scans):
        for lidar, found in step.scans.items():
            for number, scan in found:
                every = [_numbers(measure, function(scan)) for measure, function in of_scans]
                if of_pairs:
                    clear = _in_clear_air(scenario, lidar, number, scan)
                    every += [_numbers(measure, function(scan, clear)) for measure, function in of_pairs]
                for numbers_of_scan in every:
                    for name, value in numbers_of_scan.items():
                        sums.setdefault(column(lidar, name), []).append(value)
                if of_runs:
                    scans[lidar].append(scan)
    numbers = {name: _mean(values) for name, values in sums.items()}
    for measure in of_runs:
        for lidar in lidars:
            run = MeasuredRun(scenario, lidar, tuple(scans[lidar]))
            found_numbers = _numbers(measure, measure.function(run))
            numbers |= {column(lidar, name): _mean([value]) for name, value in found_numbers.items()}
    return numbers


def _in_clear_air(scenario: Scenario, lidar: str, number: int, scan: Scan) -> Scan:
    """Twin of the current scan: the same world, motion, time and seed, without the weather."""
    world = scenario.world
    weather = world.weather
    if weather is None:
        return scan
    sensor = next(one for one in scenario.giving(Scan) if one.name == lidar)
    world.weather = None
    try:
        clear: Scan = sensor.measure(world, number, scenario.seed)
    finally:
        world.weather = weather
    return clear


def _numbers(measure: Any, found: Mapping[str, float]) -> dict[str, float]:
    """Numbers of a measure, checked against those that it declares."""
    missing = [number.name for number in measure.gives if number.name not in found]
    if missing:
        raise ParhelionError(f"measure {measure.name}: did not return {', '.join(missing)}")
    return {number.name: float(found[number.name]) for number in measure.gives}


def _mean(values: list[float]) -> float | None:
    """Mean over scans, excluding those without the number."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None


def scenario_in_cached_world(settings: ScenarioFile, folder: Path) -> Scenario:
    """Scenario that reuses the last world if only weather, sensors or seed differ.

    Worlds with water, vehicle bodies or living objects are loaded again, because they depend on the seed and on the
    run.
    """
    key = _world_key(settings, folder)
    if key is not None and _cached.get("key") == key:
        world = _cached["world"]
        world.weather = _cached["weather"]
        return Scenario(settings, folder, world=world)
    _cached.clear()
    if key is None:
        return Scenario(settings, folder)
    scenario = Scenario(settings.model_copy(update={"weather": None}), folder)
    _cached.update(key=key, world=scenario.world, weather=scenario.world.weather)
    return Scenario(settings, folder, world=scenario.world)


_LIVING = ("water", "objects", "actors", "people", "traffic", "pedestrians", "machines", "scatter", "sounds")


def _world_key(settings: ScenarioFile, folder: Path) -> str | None:
    if any(getattr(settings, name) for name in _LIVING):
        return None
    if any(vehicle.body is not None or vehicle.urdf is not None for vehicle in settings.vehicles):
        return None
    fields = settings.model_dump(mode="json", include={"world", "daylight"})
    return json.dumps([str(folder), fields], sort_keys=True)
