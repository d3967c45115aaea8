"""Scans on a GPU: agreement with the CPU, reproducible bits for the same seed, and selection of the device."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.rays.device import _started, requested_device

Array = NDArray[Any]

TESTS = Path(__file__).resolve().parents[1]


@lru_cache(maxsize=1)
def has_cuda() -> bool:
    import drjit as dr

    return bool(dr.has_backend(dr.JitBackend.CUDA))


@pytest.fixture
def gpu() -> None:
    """Options that request an NVIDIA GPU."""
    if not has_cuda():
        pytest.skip("needs an NVIDIA GPU with its driver (Dr.Jit finds no CUDA)")


# A moving sensor with a wide beam, a moving lorry, glass, retro-reflectors and a texture, all in one scan.
SCAN = """
import sys
import numpy as np
import parhelion as ph
from parhelion.rays.device import engine
from rigs import sheet

out, noise, shift = sys.argv[1], sys.argv[2] == "noisy", float(sys.argv[3])
config = sheet(
    pattern={"kind": "raster", "rate_hz": 10, "azimuth_deg": (-180, 180), "elevation_deg": (-20, 12),
             "columns": 1024, "rows": 32},
    beam={"divergence_mrad": (3, 3), "sub_rays": 25}, receiver={"returns": "strongest", "merge_distance_m": 0.5},
    noise={"range_sigma_m": 0.02, "intensity_sigma": 0.1, "azimuth_jitter_deg": 0.02, "false_alarm_rate_hz": 20.0},
)
world = ph.World.load("mixed-objects")
world.add(ph.shapes.board(3, 3), material="lambert-80", texture=np.indices((6, 6)).sum(0) % 2 * 0.5 + 0.25,
          pose=ph.Pose((8 + shift, 0, 1.5)))
world.add_actor(ph.shapes.box(4, 2, 2), material="car-paint-red", label="car",
                trajectory=ph.ConstantTwist(ph.Pose((12 + shift, 6, 1)), (-8, 0, 0), (0, 0, 0.4)))
drive = ph.ConstantTwist(ph.Pose((0, 0, 1.7)), (6, 0, 0), (0, 0, 0.2))
scan = ph.Lidar(config, noise=noise).scan(world, trajectory=drive, time=0.3, seed=7)
np.savez(out, device=engine().device, xyz=scan.xyz, returns=scan.shots.return_count,
         **{f"field_{name}": values for name, values in scan.fields.items()})
print(engine().device)
"""


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def scanned(folder: Path, name: str, device: str, *, noise: bool = False, shift: float = 0.0) -> dict[str, Array]:
    """All arrays of the scan, made in a separate process on the device."""
    file = folder / f"{name}.npz"
    done = run(SCAN, str(file), "noisy" if noise else "quiet", str(shift), PARHELION_DEVICE=device)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == device
    with np.load(file) as arrays:
        return {key: arrays[key] for key in arrays.files}


def agreement(a: dict[str, Array], b: dict[str, Array]) -> dict[str, float]:
    """Share of shots with the same outcome, and share of these with the same object, range within 1 mm and power within
    1 %.
    """
    count = len(a["returns"])
    hit, instance, range_m, power = (np.zeros((2, count)) for _ in range(4))
    for row, scan in enumerate((a, b)):
        shot = scan["field_shot"]
        hit[row, shot] = 1
        instance[row, shot] = scan["field_instance"]
        range_m[row, shot] = scan["field_range"]
        power[row, shot] = scan["field_power"]
    same = (hit[0] == hit[1]) & (instance[0] == instance[1])
    both = same & (hit[0] == 1)
    return {
        "points": float(both.sum()),
        "hits": float(same.mean()),
        "range": float(np.mean(np.abs(range_m[0] - range_m[1])[both] <= 1e-3)),
        "power": float(np.mean(np.abs(power[0] / np.maximum(power[1], 1e-9) - 1)[both] <= 0.01)),
    }


# ---- with a GPU ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("gpu")
def test_a_scan_on_the_gpu_agrees_with_the_cpus(tmp_path: Path) -> None:
    """Embree and OptiX round differently, so beams along edges may hit either side; no other beams may differ."""
    shares = agreement(scanned(tmp_path, "cpu", "cpu"), scanned(tmp_path, "cuda", "cuda"))
    assert shares["points"] > 20_000
    assert shares["hits"] > 0.999
    assert shares["range"] > 0.999
    assert shares["power"] > 0.999


@pytest.mark.usefixtures("gpu")
def test_the_same_seed_gives_the_same_bits_on_the_gpu(tmp_path: Path) -> None:
    first, second = (scanned(tmp_path, name, "cuda", noise=True) for name in ("first", "second"))
    assert len(first["xyz"]) > 20_000
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert np.array_equal(values, second[name]), name


@pytest.mark.usefixtures("gpu")
def test_a_gpu_is_taken_where_there_is_one() -> None:
    done = run("from parhelion.rays.device import engine; print(engine().device)", PARHELION_DEVICE="auto")
    assert done.stdout.strip() == "cuda"


# ---- without one ---------------------------------------------------------------------------------------------------


def test_the_comparison_passes_equal_scans_and_fails_others(tmp_path: Path) -> None:
    quiet, moved = scanned(tmp_path, "quiet", "cpu"), scanned(tmp_path, "moved", "cpu", noise=True, shift=0.02)
    same = agreement(quiet, quiet)
    assert same["points"] > 20_000
    assert same["hits"] == same["range"] == same["power"] == 1.0
    other = agreement(quiet, moved)  # with noise, and with a board and a car 2 cm farther away
    assert other["hits"] < 0.999
    assert other["range"] < 0.2
    assert other["power"] < 0.99  # received power has no noise; the moved board and car change it


CHOOSE = """
import parhelion as ph
try:
    from parhelion.rays.device import engine
    print("device", engine().device)
except ph.ParhelionError as error:
    print(type(error).__name__, error)
"""


def chosen(**environment: str) -> str:
    done = run(CHOOSE, **environment)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    return done.stdout.strip()


def test_an_unknown_device_is_refused() -> None:
    assert chosen(PARHELION_DEVICE="bogus") == (
        "ConfigError PARHELION_DEVICE: must be one of auto, cpu, cuda, metal, got 'bogus'"
    )


def test_a_missing_gpu_is_reported_in_one_sentence() -> None:
    if has_cuda():
        pytest.skip("there is an NVIDIA GPU here")
    assert chosen(PARHELION_DEVICE="cuda") == (
        "EngineError PARHELION_DEVICE=cuda, but no usable NVIDIA GPU and driver were found"
    )


def test_no_thread_at_all_is_refused() -> None:
    assert chosen(PARHELION_DEVICE="cpu", PARHELION_THREADS="0") == (
        "ConfigError PARHELION_THREADS: must be a whole number from 1 to 4096, got '0'"
    )


@pytest.mark.parametrize("threads", ["-1", "two", "1.5", "", "²", "99999999999"])
def test_a_number_of_threads_that_is_none_is_refused(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_THREADS", threads)
    with pytest.raises(ConfigError, match="PARHELION_THREADS: must be a whole number from 1 to 4096"):
        _started.__wrapped__()  # a new start that ignores the running engine


def test_the_device_is_as_asked() -> None:
    assert chosen(PARHELION_DEVICE=" CPU ", PARHELION_THREADS="1") == "device cpu"


@pytest.mark.parametrize(("written", "device"), [("", "auto"), ("auto", "auto"), ("CUDA", "cuda"), ("cpu\n", "cpu")])
def test_case_and_blanks_do_not_matter(written: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_DEVICE", written)
    assert requested_device() == device


def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    if has_cuda():
        pytest.skip("there is an NVIDIA GPU here")
    assert chosen(PARHELION_DEVICE="auto") == "device cpu"
