"""Which machine casts the rays. Mitsuba's variant is global to a process: it is chosen once, on first use."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from parhelion.core.errors import ConfigError, EngineError, MissingDependencyError

DEVICES = ("auto", "cpu", "cuda")
_VARIANT = {"cpu": "llvm_ad_rgb", "cuda": "cuda_ad_rgb"}

LLVM_ADVICE = (
    "the LLVM shared library, which the CPU engine compiles with, was not found: run "
    "'sudo apt-get install libllvm14' (or any later libllvm), or name the file in DRJIT_LIBLLVM_PATH"
)


@dataclass(frozen=True)
class Engine:
    """The two modules that make kernels, ready for use, and the device they run on."""

    mi: Any
    """The module `mitsuba`, its variant set."""
    dr: Any
    """The module `drjit`."""
    device: str
    """'cpu' or 'cuda'."""


def requested_device() -> str:
    """What PARHELION_DEVICE asks for: auto (the default), cpu or cuda."""
    device = os.environ.get("PARHELION_DEVICE", "auto").strip().lower() or "auto"
    if device not in DEVICES:
        raise ConfigError(f"PARHELION_DEVICE: must be one of {', '.join(DEVICES)}, got {device!r}")
    return device


@lru_cache(maxsize=1)
def engine() -> Engine:
    """Start the engine, or return the one that is running."""
    wanted = requested_device()
    try:
        import drjit as dr
        import mitsuba as mi
    except ImportError as error:
        raise MissingDependencyError(
            f"the ray engine needs the packages mitsuba and drjit ({error}): run 'pip install mitsuba drjit'"
        ) from None
    device = wanted
    if wanted == "auto":
        device = "cuda" if _has_cuda(dr) else "cpu"
    elif wanted == "cuda" and not _has_cuda(dr):
        raise EngineError("PARHELION_DEVICE=cuda, but no usable NVIDIA GPU and driver were found")
    if device == "cpu" and not dr.has_backend(dr.JitBackend.LLVM):
        raise MissingDependencyError(LLVM_ADVICE)
    current = mi.variant()
    if current is None or not current.startswith(_VARIANT[device].split("_")[0]):
        mi.set_variant(_VARIANT[device])
    threads = os.environ.get("PARHELION_THREADS")
    if threads is not None:
        if not threads.isdigit() or int(threads) < 1:
            raise ConfigError(f"PARHELION_THREADS: must be a whole number of at least 1, got {threads!r}")
        dr.set_thread_count(int(threads))
    return Engine(mi, dr, device)


def _has_cuda(dr: Any) -> bool:
    # Probing CUDA takes a while and prints nothing useful where there is no driver at all.
    if shutil.which("nvidia-smi") is None and not os.path.exists("/dev/nvidiactl"):
        return False
    return bool(dr.has_backend(dr.JitBackend.CUDA))
