"""Golden hashes: SHA-256 of what every sensor measures and every writer stores, to show that results stay the same.

    python tests/golden/run.py --write tests/golden/hashes.json
    python tests/golden/run.py --compare tests/golden/hashes.json [--only 'lidar/.*/rain']

Each key is one array of one measurement, one topic of a bag or one group of files; `--only` selects cases by a regular
expression. The comparison lists the keys that differ or are gone, and exits 1 if there are any; new keys are counted
only. Compiled kernels may round differently on another CPU or LLVM, so compare on the machine that wrote the file; the
file names both.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import inspect
import json
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import parhelion as ph

Found = Iterator[tuple[str, Any]]
"""Part of a key, and the value to hash."""
SEEDS = (1, 2)
RAIN_MODELS = ("mie", "vane", "goodin2019", "guo2015", "ulbrich-atlas")
MOTION = ph.ConstantTwist(ph.Pose((0.3, -0.2, 1.7), rpy_deg=(1, -2, 20)), velocity=(2.0, 0.3, 0.0))
TEXT_FIELDS = {"model", "sensor", "name", "kind", "metadata", "world", "product", "maker", "frame_id"}
"""Fields that contain names: renames do not change a measurement."""
_worlds: dict[str, ph.World] = {}


# ---- one API for old and new code ------------------------------------------------------------------------------------


def key_of(preset: str) -> str:
    return preset.replace("/", "-")


def preset(kind: str, key: str) -> str:
    """Name of a preset by its normalised name, independent of the spelling in this version."""
    return next(name for name in ph.sensors()[kind] if key_of(name) == key)


def frame(sensor: Any, world: ph.World, **where: Any) -> Any:
    verb = next(getattr(sensor, name) for name in ("scan", "shoot", "ping", "measure") if hasattr(sensor, name))
    return verb(world, **where)


def stream(sensor: Any, world: ph.World, start: float, duration: float, seed: int) -> Any:
    if next(iter(inspect.signature(sensor.run).parameters)) == "world":
        return sensor.run(world, MOTION, start=start, duration=duration, seed=seed)
    return sensor.run(MOTION, start=start, duration=duration, seed=seed)


def heterogeneous_fog(visibility_m: float) -> Any:
    if hasattr(ph, "Heterogeneity"):
        return ph.Fog(visibility_m=visibility_m, heterogeneity=ph.Heterogeneity(scale_m=15.0))
    return ph.Fog(visibility_m=visibility_m, uneven=ph.Uneven(scale_m=15.0))  # wording: ok


def weathers() -> dict[str, ph.Weather]:
    cloud = ph.DustCloud(centre_m=(10, 0, 1), half_size_m=(6, 6, 4), density_kg_m3=2e-4)
    trail = ph.DustTrail(path=[[-4, 14, -6, 0], [2, 10, 6, 0]], silt_percent=20)
    return {
        **{f"rain-{model}": ph.Weather(rain=ph.Rain(rate_mm_h=40, model=model)) for model in RAIN_MODELS},
        "fog": ph.Weather(visibility_m=120),
        "heterogeneous-fog": ph.Weather(fog=heterogeneous_fog(120.0), wind_m_s=(2, 1, 0)),
        "snow": ph.Weather(snow_rate_mm_h=4),
        "dust-cloud": ph.Weather(dust=[cloud]),
        "dust-trail": ph.Weather(dust=[trail], wind_m_s=(1, 0, 0)),
        "mixed": ph.Weather(rain_rate_mm_h=20, fog=heterogeneous_fog(400.0), dust=[cloud]),
    }


# ---- worlds ----------------------------------------------------------------------------------------------------------

YARD: dict[str, Any] = {
    "name": "yard",
    "objects": [
        {"shape": {"kind": "plane", "size_m": [120, 80]}, "material": "concrete", "label": "road"},
        {"shape": {"kind": "box", "size_m": [40, 1, 5]}, "material": "brick", "label": "wall",
         "pose": {"xyz": [10, 14, 2.5]}},
        {"shape": {"kind": "box", "size_m": [40, 1, 5]}, "material": "brick", "label": "building",
         "pose": {"xyz": [10, -12, 2.5]}},
        {"shape": {"kind": "box", "size_m": [1, 8, 3]}, "material": "steel", "label": "container",
         "pose": {"xyz": [20, 3, 1.5]}},
        {"shape": {"kind": "box", "size_m": [0.02, 6, 4]}, "material": "window", "label": "building",
         "pose": {"xyz": [8, -4, 2]}},
    ],
}  # fmt: skip


def yard(weather: ph.Weather | None = None) -> ph.World:
    """Ground, two walls, a container, a pane, a passing car, inclined boxes and four anchors."""
    if "yard" not in _worlds:
        world = ph.World("yard")
        for one in YARD["objects"]:
            size, place = one["shape"]["size_m"], one.get("pose", {"xyz": [0, 0, 0]})["xyz"]
            shape = ph.shapes.box(*size) if one["shape"]["kind"] == "box" else ph.shapes.plane(*size)
            world.add(shape, material=one["material"], label=one["label"], pose=ph.Pose(place))
        rng = np.random.default_rng(3)
        for _ in range(12):
            place = ph.Pose((*rng.uniform(-12, 12, 2), 0.5), rpy_deg=(0, 0, rng.uniform(0, 90)))
            world.add(ph.shapes.box(*rng.uniform(0.3, 1.5, 3)), material="asphalt", label="box", pose=place)
        for k, (x, y) in enumerate([(9, 9), (9, -9), (-9, 9), (-9, -9)]):
            anchor = ph.shapes.box(0.1, 0.1, 0.1)
            world.add(anchor, material="plastic", name=f"anchor-{k}", pose=ph.Pose((x, y, 3.0 + k)))
        world.add_actor(
            ph.shapes.box(4, 2, 1.5), material="car-paint-red", label="car",
            trajectory=ph.ConstantTwist(ph.Pose((12, 5, 0.8)), (-8, 0, 0)),
        )  # fmt: skip
        _worlds["yard"] = world
    _worlds["yard"].weather = weather
    return _worlds["yard"]


# ---- hashing ---------------------------------------------------------------------------------------------------------


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, bytes]]:
    """Every array and number in a value, each under a name, as bytes with type and shape."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            if one.name not in TEXT_FIELDS and not one.name.startswith("_"):
                yield from leaves(getattr(value, one.name), f"{path}/{one.name}")
    elif isinstance(value, Mapping) and all(isinstance(one, (str, int, float)) for one in value.values()):
        yield path, json.dumps(sorted((str(name), one) for name, one in value.items())).encode()
    elif isinstance(value, Mapping):
        for name in value:
            if name not in TEXT_FIELDS:
                yield from leaves(value[name], f"{path.removesuffix('/fields')}/{name}")
    elif isinstance(value, (bytes, bytearray)):
        yield path, bytes(value)
    elif isinstance(value, (list, tuple)) and any(dataclasses.is_dataclass(one) for one in value):
        for number, one in enumerate(value):
            yield from leaves(one, f"{path}/{number}")
    elif value is not None:
        array = np.ascontiguousarray(np.asarray(value) if not hasattr(value, "numpy") else value.numpy())
        if array.dtype != object:
            yield path, f"{array.dtype.str}{array.shape}".encode() + array.tobytes()


def digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(struct.pack("<Q", len(part)) + part)
    return whole.hexdigest()[:16]


def of_files(folder: Path, leave_out: str = "") -> Found:
    """One value per folder and kind of file: names and bytes of all its files."""
    groups: dict[str, list[bytes]] = {}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder).as_posix()
        if path.is_file() and not (leave_out and re.search(leave_out, place)):
            group = f"{Path(place).parent.as_posix()}/*{path.suffix}".removeprefix("./")
            groups.setdefault(group, []).extend((place.encode(), payload(path)))
    for group, parts in groups.items():
        yield group, digest(*parts).encode()


def payload(path: Path) -> bytes:
    """Bytes of a file without the time of writing: arrays of NPZ, points of LAS, packets of a capture."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            return b"".join(
                name.encode() + stored[name].tobytes() for name in sorted(stored.files) if name != "parhelion"
            )
    if path.suffix in (".las", ".laz"):
        import laspy

        return bytes(laspy.read(path).points.array.tobytes())
    if path.suffix == ".pcap":
        return b"".join(packets(path))
    return path.read_bytes()


def packets(path: Path) -> Iterator[bytes]:
    """UDP payloads of a capture with Ethernet, IPv4 and UDP headers."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        yield data[at + 16 + 42 : at + 16 + size]
        at += 16 + size


def of_mcap(path: Path) -> Found:
    """One value per topic: times and bytes of its messages."""
    from mcap.reader import make_reader

    topics: dict[str, list[bytes]] = {}
    with path.open("rb") as file:
        for _, channel, message in make_reader(file).iter_messages(log_time_order=False):
            topics.setdefault(channel.topic, []).extend((struct.pack("<Q", message.log_time), message.data))
    for topic, parts in topics.items():
        yield topic.strip("/"), digest(*parts).encode()


# ---- cases -----------------------------------------------------------------------------------------------------------


def cases() -> dict[str, Callable[[], Found]]:
    """Every case by name, in the order in which they run."""
    found: dict[str, Callable[[], Found]] = {}
    for kind, names in ph.sensors().items():
        for name in names:
            found[f"{kind}/{key_of(name)}/clear"] = lambda kind=kind, name=name: clear_air(kind, name)
    for kind, name, options in IN_WEATHER:
        for air in weathers():
            for seed in SEEDS:
                found[f"{kind}/{key_of(name)}/{air}/seed-{seed}"] = (
                    lambda kind=kind, name=name, options=options, air=air, seed=seed: in_weather(
                        kind, name, options, air, seed
                    )
                )
    for name in ("velodyne/vlp-16", "ouster/os1-32"):
        for air in weathers():
            found[f"apply/{key_of(name)}/{air}"] = lambda name=name, air=air: applied(name, air)
    found |= {
        "waveform": waveform, "scan-many": scan_many, "scan-tensors": scan_tensors, "variants": variants,
        "cloud-files": cloud_files,
        "packets/velodyne": lambda: capture("velodyne/vlp-16"), "packets/ouster": lambda: capture("ouster/os1-32"),
        "scenario": scenario, "campaign": campaign, "kernels": lambda: child("kernels"),
    }  # fmt: skip
    for name in ("kitti-odometry", "kitti-object", "semantic-kitti", "nuscenes", "coco-panoptic"):
        found[f"dataset/{name}"] = lambda name=name: dataset(name)
    for name in ("city", "harbour", "warehouse"):
        found[f"world/{name}"] = lambda name=name: built_in(name)
    return found


IN_WEATHER: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("lidar", "velodyne/vlp-16", {"returns": "dual"}),
    ("lidar", "ouster/os1-32", {"columns": 512}),
    ("lidar", "livox/mid-40", {}),
    ("lidar", "sick/lms-111", {}),
    ("camera", "generic/vga", {"width": 160, "height": 120, "samples": 2}),
    ("radar", "ti/iwr6843", {}),
)
SMALL: dict[str, dict[str, Any]] = {
    "camera": {"samples": 1}, "sony/imx586-phone": {"samples": 1, "width": 400, "height": 300},
}  # fmt: skip


def sensor_class(kind: str) -> Any:
    return getattr(ph, kind.capitalize())


def clear_air(kind: str, name: str) -> Found:
    sensor = sensor_class(kind)(name, name="it", **SMALL.get(name, SMALL.get(kind, {})))
    if hasattr(sensor, "run"):
        yield "1s", stream(sensor, yard(), 0.4, 1.0, 5)
    else:
        yield "frame", frame(sensor, yard(), trajectory=MOTION, time=0.3, seed=5)


def in_weather(kind: str, name: str, options: dict[str, Any], air: str, seed: int) -> Found:
    sensor = sensor_class(kind)(name, name="it", **options)
    yield "frame", frame(sensor, yard(weathers()[air]), trajectory=MOTION, time=1.3, seed=seed)


def applied(name: str, air: str) -> Found:
    lidar = ph.Lidar(name, returns="dual" if name.startswith("velodyne") else None)
    cloud = lidar.scan(yard(), pose=ph.Pose((0, 0, 1.7)), seed=4)
    yield "cloud", weathers()[air].apply(cloud, sensor=lidar, seed=6)


def waveform() -> Found:
    lidar = ph.Lidar("velodyne/vlp-16")
    for air in ("clear", "fog", "rain-mie"):
        world = yard(weathers().get(air))
        yield air, lidar.waveform(world, range(100, 200, 7), trajectory=MOTION, time=0.2, seed=3)


def scan_many() -> Found:
    lidar = ph.Lidar("velodyne/vlp-16")
    places = [ph.Pose((x, 0.5 * x, 1.7)) for x in range(4)] + [MOTION]
    for air in ("clear", "mixed"):
        times = [0.1 * k for k in range(len(places))]
        yield air, lidar.scan_many(yard(weathers().get(air)), places, time=times, seed=9)


def scan_tensors() -> Found:
    batches = ph.Lidar("sick/lms-111").scan_tensors(yard(), [ph.Pose((0, 0, 1)), MOTION], seed=2)
    for number, batch in enumerate(batches):
        for name, values in batch.fields.items():
            yield f"{number}/{name}", np.array(values)


def variants() -> Found:
    """Options that choose other code: fixed sampling, no noise, all returns, no bounces, sun."""
    where = {"pose": ph.Pose((0, 0, 1.7)), "time": 0.5, "seed": 8}
    for label, options in {
        "fixed": {"sampling": "fixed"}, "quiet": {"noise": False}, "all": {"returns": "all"},
        "direct": {"bounces": 0}, "sunny": {"sun_klx": 90.0}, "one-ray": {"sub_rays": 1},
    }.items():  # fmt: skip
        yield label, ph.Lidar("velodyne/vlp-16", **options).scan(yard(), **where)
    yield "radar-clusters", ph.Radar("ti/iwr6843", mode="cluster").scan(yard(), **where)
    yield "echo-waveform", ph.Echo("generic/ultrasonic-ranger", waveform=True).ping(yard(), **where)
    yield "gnss-vane", stream(ph.Gnss("u-blox/m8", rule="vane", diffraction=True), yard(), 0.0, 2.0, 3)
    yield "uwb-diffraction", stream(ph.Uwb("qorvo/dw1000", diffraction=True), yard(), 0.0, 1.0, 3)


def cloud_files() -> Found:
    scan = ph.Lidar("velodyne/vlp-16").scan(yard(), trajectory=MOTION, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("pcd", "ply", "csv", "bin", "npz", "las", "laz"):
            scan.save(Path(folder) / f"scan.{ending}")
        yield from of_files(Path(folder))


def built_in(name: str) -> Found:
    yield "scan", ph.Lidar("velodyne/vlp-16", sub_rays=1).scan(ph.World.load(name), time=1.0, seed=1)


# ---- files of runs ---------------------------------------------------------------------------------------------------


def command(*words: str | Path) -> None:
    """Run `parhelion WORDS` with the package that this process imported."""
    source = str(Path(ph.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "parhelion", *map(str, words)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"parhelion {words[0]}: {(done.stderr or done.stdout).strip()[-600:]}")


def capture(name: str) -> Found:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
        command("scan", "--world", folder / "yard.yaml", "--sensor", name, "--pose", "0,0,1.7", "--scans", "2",
                "--seed", "3", "-o", folder / "out", "--format", "pcap")  # fmt: skip
        for path in sorted((folder / "out").rglob("*.pcap")):
            yield path.name, digest(*packets(path)).encode()


def base_scenario(**more: Any) -> dict[str, Any]:
    def sensor(name: str, kind: str, key: str, **extra: Any) -> dict[str, Any]:
        mount = {"xyz": [0.4, 0, 1.8], "rpy_deg": [1, 6, 10]}
        return {"name": name, "type": kind, "model": preset(kind, key), "vehicle": "carrier", "mount": mount, **extra}

    camera = {"width": 160, "height": 120, "samples": 1}
    return {
        "name": "golden", "seed": 11, "duration_s": 0.4, "world": "yard.yaml", "report": False,
        "vehicles": [
            {"name": "carrier",
             "motion": {"constant": {"xyz": [1, 0, 0], "velocity_m_s": [4, 0, 0], "turn_rate_deg_s": 8}}},
        ],
        "people": [
            {"name": "walker", "spline": {"points": [[8, -6, 0], [14, -5, 0], [20, -5, 0]], "max_speed_m_s": 1.4}},
        ],
        "machines": [
            {"kind": "car", "name": "driven", "model": "sedan",
             "motion": {"constant": {"xyz": [16, 3, 0], "rpy_deg": [0, 0, 180], "velocity_m_s": [-5, 0, 0]}}},
        ],
        "sensors": [
            sensor("top", "lidar", "velodyne-vlp-16", options={"sub_rays": 1}),
            *more.pop("lidars", ()),
            sensor("eye", "camera", "generic-vga", rate_hz=10, options=camera),
            sensor("radar", "radar", "ti-iwr6843"),
        ],
        **more,
    }  # fmt: skip


def run_scenario(folder: Path, fields: dict[str, Any]) -> Path:
    (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
    (folder / "golden.yaml").write_text(yaml.safe_dump(fields))
    command("run", folder / "golden.yaml", "-o", folder / "out")
    return folder / "out"


def scenario() -> Found:
    """All kinds of sensors on one vehicle in rain, with a bag, a recording for Foxglove and captures."""
    with tempfile.TemporaryDirectory() as place:
        ouster = {"name": "ring", "type": "lidar", "model": preset("lidar", "ouster-os1-32"), "vehicle": "carrier",
                  "mount": {"xyz": [0, 0, 2]}, "options": {"columns": 512}}  # fmt: skip
        fields = base_scenario(
            lidars=[ouster],
            weather={"rain_rate_mm_h": 20, "visibility_m": 500},
            outputs=[{"kind": "bag"}, {"kind": "foxglove"}, {"kind": "pcap"}],
            objects=[
                {"name": f"anchor-{k}", "shape": {"kind": "box", "size_m": [0.1, 0.1, 0.1]}, "material": "plastic",
                 "label": "anchor", "pose": {"xyz": [*xy, 3.0 + k]}}
                for k, xy in enumerate([(9, 9), (9, -9), (-9, 9), (-9, -9)])
            ],
        )  # fmt: skip
        for kind, key in {
            "imu": "xsens-mti-3", "odometry": "generic-passenger-car", "barometer": "bosch-bmp388",
            "magnetometer": "bosch-bmm150", "gnss": "u-blox-m8", "uwb": "qorvo-dw1000",
            "echo": "generic-ultrasonic-ranger",
        }.items():  # fmt: skip
            fields["sensors"].append({"name": kind, "type": kind, "model": preset(kind, key), "vehicle": "carrier",
                                      "mount": {"xyz": [0, 0, 1.0]}})  # fmt: skip
        out = run_scenario(Path(place), fields)
        for path in sorted(out.rglob("*.mcap")):
            where = "bag" if path.parent != out else "foxglove"
            for topic, value in of_mcap(path):
                yield f"{where}/{topic}", value
        for group, value in of_files(out, r"\.mcap$|metadata\.yaml$|manifest\.json$|report|\.glb$"):
            yield f"folder/{group}", value


def dataset(name: str) -> Found:
    with tempfile.TemporaryDirectory() as place:
        out = run_scenario(Path(place), base_scenario(outputs=[{"kind": name}]))
        inner = [path for path in out.iterdir() if path.is_dir() and path.name not in ("top", "eye", "radar")]
        for folder in sorted(inner):
            for group, value in of_files(folder, r"(?i)readme|manifest|about"):
                yield f"{folder.name}/{group}", value


def campaign() -> Found:
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
        fields = base_scenario(duration_s=0.2, outputs=[], weather={"rain_rate_mm_h": 0})
        fields["sensors"] = [
            {"name": "top", "type": "lidar", "model": "sick/lms-111", "mount": {"xyz": [0, 0, 1]}},
        ]  # fmt: skip
        study = {
            "name": "golden", "scenario": fields, "vary": {"weather.rain_rate_mm_h": [0, 50]}, "seeds": 2,
            "measures": ["points_per_scan", "detection_share", "range_statistics", "mean_intensity", "air_points"],
        }  # fmt: skip
        (folder / "study.yaml").write_text(yaml.safe_dump(study))
        command("campaign", folder / "study.yaml", "-o", folder / "out")
        table = pq.read_table(next((folder / "out").rglob("*.parquet")))
        table = table.sort_by([(name, "ascending") for name in ("row",) if name in table.column_names])
        for name in table.column_names:
            values = table[name].to_pylist()
            if all(isinstance(value, (int, float, bool)) or value is None for value in values):
                yield name, json.dumps(values).encode()


# ---- kernels ---------------------------------------------------------------------------------------------------------


def child(task: str) -> Found:
    """Run a task in a separate process, because earlier work in a process affects the result."""
    source = str(Path(ph.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, __file__, "--child", task], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-600:])
    yield from json.loads(done.stdout.splitlines()[-1]).items()


def kernels() -> dict[str, int]:
    """Number of kernels that are new to the process: in the first frame, and in nineteen more."""
    import drjit as dr

    lidar, camera = ph.Lidar("velodyne/vlp-16"), ph.Camera("generic/vga", width=160, height=120, samples=1)
    counts = {}
    for label, sensor, air in (
        ("lidar-clear", lidar, None), ("lidar-mixed", lidar, "mixed"), ("lidar-snow", lidar, "snow"),
        ("camera-rain", camera, "rain-mie"), ("radar", ph.Radar("ti/iwr6843"), None),
    ):  # fmt: skip
        world = yard(None if air is None else weathers()[air])
        frame(sensor, world, trajectory=MOTION, time=0.0, seed=0)
        dr.set_flag(dr.JitFlag.KernelHistory, True)
        dr.kernel_history_clear()
        for number in range(1, 20):
            frame(sensor, world, trajectory=MOTION, time=0.1 * number, seed=number)
        history = [one for one in dr.kernel_history() if str(one["type"]).endswith("JIT")]
        dr.set_flag(dr.JitFlag.KernelHistory, False)
        counts[f"{label}/new"] = sum(not one["cache_hit"] for one in history)
        counts[f"{label}/launches"] = len(history)
    return counts


# ---- the command -----------------------------------------------------------------------------------------------------


def collect(only: str) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Hashes by case and key, and the cases that failed."""
    found: dict[str, dict[str, str]] = {}
    failed: list[str] = []
    chosen = {name: case for name, case in cases().items() if re.search(only, name)}
    for number, (name, case) in enumerate(chosen.items(), 1):
        start = time.perf_counter()
        hashes = found[name] = {}
        try:
            for part, value in case():
                if isinstance(value, int):
                    hashes[part] = str(value)  # A number that people can compare by eye.
                else:
                    hashes.update((path, digest(data)) for path, data in leaves(value, part))
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
        print(f"[{number}/{len(chosen)}] {name} {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return found, failed


def machine() -> dict[str, str]:
    # Names such as "AMD EPYC" stand for several generations; BLAS has kernels for each.
    rows = (line.partition(":")[::2] for line in Path("/proc/cpuinfo").read_text().splitlines())
    first: dict[str, str] = {}
    for name, value in rows:
        first.setdefault(name.strip(), value.strip())
    words = (first.get(name, "") for name in ("model name", "cpu family", "model"))
    cpu = " / ".join(word for word in words if word) or platform.processor()
    import drjit as dr

    version = dr.detail.llvm_version() if hasattr(dr.detail, "llvm_version") else "unknown"
    return {"cpu": cpu, "llvm": str(version), "numpy": np.__version__, "drjit": dr.__version__}


def compare(stored: dict[str, dict[str, str]], now: dict[str, dict[str, str]], failed: list[str], only: str) -> int:
    """Print the differences; return the exit status."""
    before = flat({name: hashes for name, hashes in stored.items() if re.search(only, name)})
    after = flat(now)
    differing = sorted(key for key in before.keys() & after.keys() if before[key] != after[key])
    gone = sorted(before.keys() - after.keys())
    for title, keys in (("differs", differing), ("gone", gone), ("failed", failed)):
        for key in keys:
            print(f"{title}: {key}")
    same, new = len(before.keys() & after.keys()) - len(differing), len(after.keys() - before.keys())
    print(f"{same} equal, {len(differing)} differ, {len(gone)} gone, {new} new, {len(failed)} cases failed")
    return 1 if differing or gone or failed else 0


def flat(hashes: dict[str, dict[str, str]]) -> dict[str, str]:
    return {f"{case}/{key}": value for case, keys in hashes.items() for key, value in keys.items()}


def as_text(now: Mapping[str, Mapping[str, str]]) -> str:
    """JSON with one line per case."""
    lines = [f"{json.dumps(case)}: {json.dumps(now[case], sort_keys=True)}" for case in sorted(now)]
    return f'{{"machine": {json.dumps(machine(), sort_keys=True)},\n"hashes": {{\n' + ",\n".join(lines) + "\n}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="store the hashes")
    parser.add_argument(
        "--compare", type=Path, metavar="FILE", help="compare with stored hashes; exit 1 on a difference"
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--child", choices=["kernels"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.child:
        print(json.dumps(kernels()))
        return 0
    if options.list:
        print("\n".join(name for name in cases() if re.search(options.only, name)))
        return 0
    if (options.write is None) == (options.compare is None):
        parser.error("give --write FILE or --compare FILE")
    stored = json.loads(options.compare.read_text()) if options.compare else None
    if stored and stored["machine"] != machine():
        print(f"note: the hashes were written on {stored['machine']}, this is {machine()}", file=sys.stderr)
    now, failed = collect(options.only)
    if stored:
        return compare(stored["hashes"], now, failed, options.only)
    options.write.write_text(as_text(now))
    print("\n".join([*(f"failed: {one}" for one in failed), f"{len(flat(now))} hashes written to {options.write}"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
