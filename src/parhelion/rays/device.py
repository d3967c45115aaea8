"""The compute device of the ray engine. Mitsuba's variant is global to a process; it is chosen once, on first use."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shutil
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import DrJit, Float, Int, Mitsuba
from parhelion.core.errors import ConfigError, EngineError, MissingDependencyError
from parhelion.core.interrupts import uninterrupted
from parhelion.rays import kernel_cache, llvm
from parhelion.rays.lock import engine_lock

_Result = TypeVar("_Result")
_Tree = TypeVar("_Tree")

# Total size of the cached index arrays, in numbers of 4 bytes each.
_MOST_COUNTED = 8_000_000
# Tables of up to this many numbers are copied to Dr.Jit's memory; Dr.Jit borrows larger ones from NumPy.
_MOST_COPIED = 1024
# Number of kernel rows per block of work. With Dr.Jit's default of 16384, scans have few blocks, and some take much
# longer than others, so threads would wait for the last block of each kernel.
_ROWS_AT_A_TIME = 2048
# Row counts are padded to multiples of this: 64 bytes of 4-byte numbers, and the lanes of the widest SIMD unit.
_LANES = 16
# Number of cached numbers after which those that nothing uses are dropped.
_NUMBERS = 1024
DEVICES = ("auto", "cpu", "cuda", "metal")
_VARIANT = {"cpu": "llvm_ad_rgb", "cuda": "cuda_ad_rgb", "metal": "metal_ad_rgb"}


@dataclass(frozen=True)
class Engine:
    """Mitsuba and Dr.Jit, ready for use, and the device that they run on."""

    mi: Mitsuba
    """The module `mitsuba` with its variant set."""
    dr: DrJit
    """The module `drjit`."""
    device: str
    """'cpu', 'cuda' or 'metal'."""
    _numbers: dict[float, Float] = field(default_factory=dict, compare=False, repr=False)
    _integers: dict[int, Int] = field(default_factory=dict, compare=False, repr=False)
    _counting: dict[int, Int] = field(default_factory=dict, compare=False, repr=False)
    _frozen: dict[Callable[..., Any], Replayed] = field(default_factory=dict, compare=False, repr=False)

    def number(self, value: float) -> Float:
        """Return a cached number that kernels read from memory, so that another value needs no other kernel."""
        return self._cached(self._numbers, self.mi.Float, value)

    def whole(self, value: int) -> Int:
        """Return a cached non-negative integer that kernels read from memory."""
        return self._cached(self._integers, self.mi.UInt32, value)

    def _cached(self, cache: dict[Any, Any], kind: Any, value: float) -> Any:
        found = cache.get(value)
        if found is None:
            if len(cache) % _NUMBERS == _NUMBERS - 1:
                # Most of them changed from scan to scan and will not be needed again. Those that something still holds
                # stay: a recording depends on which arguments are the same array, as equal numbers are. The count
                # includes the cache and the argument of the function.
                for key in [key for key in cache if sys.getrefcount(cache[key]) <= 2]:
                    del cache[key]
            found = cache[value] = self.dr.opaque(kind, value)
        return found

    def frozen(self, function: Callable[..., _Result], *, casts: bool = False) -> Callable[..., _Result]:
        """Return a function that is traced once: later calls replay its kernels without running its Python code.

        Everything that may differ from call to call must be an argument: kernel arrays, and dataclasses, tuples and
        lists of them. Other arguments (strings, numbers, None) are constants of the kernels: other values need another
        recording. The number of rows is passed as `Rows`; its module explains why.

        Functions that cast rays set `casts` and receive the scene as `SceneArrays`.
        """
        made = self._frozen.get(function)
        if made is None:

            def run(*args: Any) -> _Result:
                # Dr.Jit inspects every global name of a frozen function at each call. This function uses none.
                return function(*(arg.values[1] if type(arg) is constant else arg for arg in args))

            constant = _Argument

            # A function may serve many kinds of sensors and weather; dropping the oldest recording only costs time.
            replay = self.dr.freeze(run, limit=256, warn_after=1 << 30)
            made = self._frozen[function] = Replayed(function, replay, casts=casts)
        return made

    def counting(self, count: int) -> Int:
        """Return the integers 0 to `count` - 1, evaluated and cached; see `Rows`."""
        known = self._counting.get(count)
        if known is None:
            if sum(self._counting) + count > _MOST_COUNTED:
                self._counting.clear()
            known = self.dr.arange(self.mi.UInt32, count)
            self.dr.eval(known)
            if count <= _MOST_COUNTED:
                self._counting[count] = known
        return known

    def table(self, values: NDArray[Any]) -> Any:
        """Return a flat copy of a NumPy array for kernels to read: float32 or uint32, aligned to 64 bytes.

        On the CPU, Dr.Jit borrows NumPy's memory and selects the gather instruction by its alignment. NumPy's own
        alignment varies, so the same kernel would be compiled in several forms. Small arrays may change with each scan
        and are copied: a thread that returns borrowed memory has to wait for the global interpreter lock.
        """
        flat = np.ascontiguousarray(values).ravel()
        floats = flat.dtype.kind == "f"
        kind, dtype = (self.mi.Float, np.float32) if floats else (self.mi.UInt32, np.uint32)
        if 0 < flat.size <= _MOST_COPIED:
            numbers = flat.astype(dtype, copy=False).tolist()
            # A single number would become a constant of the kernel.
            return kind(numbers) if len(numbers) > 1 else self.dr.opaque(kind, numbers[0])
        aligned = _aligned(flat.size, dtype)
        aligned[:] = flat
        return kind(aligned)

    def columns(self, *values: NDArray[np.float64]) -> list[Float]:
        """Return arrays (n,), n > 0, as float32, aligned to 64 bytes and padded with copies of their first row.

        Arrays of any length thus run the same kernel: Dr.Jit compiles one form per alignment, another one for single
        rows, and one per length for arrays that it takes apart by itself, such as `Point3f` of an array (3, n).
        """
        size = -(-len(values[0]) // _LANES) * _LANES
        block = _aligned(len(values) * size, np.float32).reshape(len(values), size)
        for row, value in zip(block, values, strict=True):
            row[: len(value)] = value
            row[len(value) :] = row[0]
        return [self.mi.Float(row) for row in block]


class Replayed:
    """A function whose kernels are recorded at its first call and replayed at later ones; see `Engine.frozen`."""

    def __init__(self, function: Callable[..., Any], replay: Any, *, casts: bool) -> None:
        self._function, self._replay, self._casts, self._works = function, replay, casts, True

    @property
    def n_recordings(self) -> int:
        """Number of recordings: one per combination of constants and sizes."""
        return int(self._replay.n_recordings)

    def __call__(self, *args: Any) -> Any:
        if not _no_collection.is_active:  # otherwise this call belongs to another recording
            uninterrupted.safe_point()
        if not self._works:
            return self._function(*args)
        with _no_collection:
            try:
                return self._replay(
                    *(_Argument((k, arg)) if type(arg) in _PLAIN else arg for k, arg in enumerate(args))
                )
            except RuntimeError as error:
                # Mitsuba does not document what a replayed cast reads; another version may read more than we pass.
                if not self._casts or "not specified as an input" not in f"{error} {error.__cause__}":
                    raise
                self._works = False
        return self._function(*args)


class _NoCollection:
    """Re-entrant context that disables Python's garbage collection while any thread is inside.

    Dr.Jit 1.5 crashes the process if memory borrowed from NumPy is freed during a recording.
    """

    def __init__(self) -> None:
        self._lock, self._depth, self._was_on = Lock(), 0, False

    @property
    def is_active(self) -> bool:
        """True if a thread is inside."""
        return self._depth > 0

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._was_on:
                gc.enable()


_no_collection = _NoCollection()
_PLAIN = (bool, int, float, str)
"""Types of constants that are arguments of frozen functions by themselves."""


class Static:
    """Constants that select the kernel, bundled into one argument.

    Dr.Jit inspects every argument on each call, which takes about 2 us per constant. It also takes constants that are
    the same object as an earlier one for that one without noting which: of three booleans, True, False, True and True,
    False, False would share a recording. Bundles of different places are therefore never equal.
    """

    __slots__ = ("values",)

    def __init__(self, values: tuple[Hashable, ...]) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)


class _Argument(Static):
    """A constant that is an argument of a frozen function by itself, with its position."""

    __slots__ = ()


def kernel_tree(*, fixed: tuple[str, ...] = ()) -> Callable[[type[_Tree]], type[_Tree]]:
    """Declare the fields of a dataclass that is an argument of frozen functions, so that Dr.Jit need not find them.

    `fixed` names the fields that are constants besides those of the types bool, int and str. A dataclass that frozen
    functions return needs a default for each field.
    """

    def decorate(cls: type[_Tree]) -> type[_Tree]:
        every = [(one.name, one.type) for one in fields(cls)]  # type: ignore[arg-type]
        constants = tuple(
            name for name, kind in every if name in fixed or kind in ("bool", "int", "str", bool, int, str)
        )
        names = [name for name, _ in every if name not in constants]
        if constants:
            together = cached_property(
                lambda self: Static((cls.__qualname__, *(getattr(self, name) for name in constants)))
            )
            together.__set_name__(cls, "fixed")
            cls.fixed = together  # type: ignore[attr-defined]
            names.append("fixed")
        cls.DRJIT_STRUCT = dict.fromkeys(names, object)  # type: ignore[attr-defined]
        return cls

    return decorate


def copied(values: Any) -> NDArray[Any]:
    """Return device values in NumPy's own memory. Dr.Jit's `numpy()` shares memory that other threads may free."""
    return np.array(values.numpy())


def _aligned(size: int, dtype: Any) -> NDArray[Any]:
    """Return an uninitialised array of 4-byte elements whose memory starts at a multiple of 64."""
    buffer = np.empty(4 * size + 64, np.uint8)
    start = -buffer.__array_interface__["data"][0] % 64
    return buffer[start : start + 4 * size].view(dtype)


def requested_device() -> str:
    """Value of PARHELION_DEVICE: auto (the default), cpu, cuda or metal."""
    device = os.environ.get("PARHELION_DEVICE", "auto").strip().lower() or "auto"
    if device not in DEVICES:
        raise ConfigError(f"PARHELION_DEVICE: must be one of {', '.join(DEVICES)}, got {device!r}")
    return device


@lru_cache(maxsize=1)
def engine() -> Engine:
    """Start the engine, or return the one that is running."""
    with engine_lock:
        return _started()


@lru_cache(maxsize=1)
def _started() -> Engine:
    # A second cache: two threads may both find the first one empty and then enter here one after the other.
    wanted = requested_device()
    llvm.provide()
    try:
        import drjit as dr
        import mitsuba as mi
    except (ImportError, NameError) as error:  # Dr.Jit turns a missing system library into a NameError
        raise _missing(error) from None
    device = _chosen_device(wanted, dr, mi)
    current = mi.variant()
    if current is None or not current.startswith(_VARIANT[device].split("_")[0]):
        mi.set_variant(_VARIANT[device])
    threads = os.environ.get("PARHELION_THREADS")
    if threads is not None:
        if not (threads.isdecimal() and 1 <= int(threads) <= 4096):
            raise ConfigError(f"PARHELION_THREADS: must be a whole number from 1 to 4096, got {threads!r}")
        dr.set_thread_count(int(threads))
    if device == "cpu":
        _share_work_evenly(dr)
    kernel_cache.prune(kernel_cache.folder())
    engine_lock.settle = dr.sync_thread
    return Engine(mi, dr, device)


def _chosen_device(wanted: str, dr: DrJit, mi: Mitsuba) -> str:
    """Return the device to use. By default, CUDA precedes LLVM, and Metal serves where both are missing."""
    works: dict[str, Callable[[], bool]] = {
        "cuda": lambda: _has_cuda(dr),
        "cpu": lambda: bool(dr.has_backend(dr.JitBackend.LLVM)),
        "metal": lambda: _has_metal(dr, mi),
    }
    reasons: dict[str, Exception] = {
        "cuda": EngineError("PARHELION_DEVICE=cuda, but no usable NVIDIA GPU and driver were found"),
        "cpu": MissingDependencyError(llvm.advice()),
        "metal": EngineError(
            "PARHELION_DEVICE=metal, but Mitsuba has no Metal variant here, or no Apple GPU was found"
        ),
    }
    for device in works if wanted == "auto" else (wanted,):
        if works[device]():
            return device
    raise reasons["cpu" if wanted == "auto" else wanted]


def _share_work_evenly(dr: DrJit) -> None:
    """Split kernels into smaller blocks for the threads. Results do not change; without it, scans are only slower.

    Dr.Jit offers this to C++ only, so the function is found by its mangled name on Linux.
    """
    for file in Path(dr.__file__).parent.glob("libdrjit-core.so*"):
        set_size = getattr(ctypes.CDLL(str(file)), "_Z23jit_llvm_set_block_sizej", None)
        if set_size is not None:
            set_size.argtypes, set_size.restype = [ctypes.c_uint32], None
            set_size(_ROWS_AT_A_TIME)


def _missing(error: BaseException) -> MissingDependencyError:
    """Return the error for an engine that cannot be imported: a missing system library or package."""
    reason: BaseException | None = error
    while reason is not None:
        library = re.search(r"(lib[\w.+-]*\.so[\w.]*): cannot open shared object file", str(reason))
        if library:
            package = {"libatomic.so.1": "libatomic1"}.get(library[1], "the package that holds it")
            return MissingDependencyError(
                f"the ray engine needs the system library {library[1]}: run 'sudo apt-get install {package}'"
            )
        reason = reason.__cause__ or reason.__context__
    return MissingDependencyError(
        f"the ray engine needs the packages mitsuba and drjit ({error}): run 'pip install mitsuba drjit'"
    )


def _has_metal(dr: DrJit, mi: Mitsuba) -> bool:
    backend = getattr(dr.JitBackend, "Metal", None)
    return backend is not None and _VARIANT["metal"] in mi.variants() and bool(dr.has_backend(backend))


def _has_cuda(dr: DrJit) -> bool:
    # Probing CUDA takes a while and prints nothing useful where there is no driver at all.
    if shutil.which("nvidia-smi") is None and not os.path.exists("/dev/nvidiactl"):
        return False
    return bool(dr.has_backend(dr.JitBackend.CUDA))
