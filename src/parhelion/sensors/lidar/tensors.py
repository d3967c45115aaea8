"""Scans that stay on the device: fields of many scans as arrays that other libraries take over by DLPack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, MissingDependencyError, unknown_name
from parhelion.core.records import FIELDS
from parhelion.rays.device import Engine, copied
from parhelion.rays.device import engine as running_engine
from parhelion.rays.rows import Rows
from parhelion.rays.turns import OnDevice, engine_turn
from parhelion.sensors.lidar.emit import ShotArrays
from parhelion.sensors.lidar.points import PointsExpected, Returns, Tables, looked_up
from parhelion.sensors.light.beams import Beams
from parhelion.sensors.light.target import Target

USUAL = ("xyz", "intensity", "ring", "time", "label", "instance")
"""Fields that labelled scans have where none are asked for."""
KNOWN = (
    "xyz", "range", "intensity", "reflectivity", "power", "near_ir", "ring", "column", "time", "return_index",
    "return_count", "material", "label", "instance", "velocity", "origin", "shot",
)  # fmt: skip
_WHOLE = (
    "ring", "column", "return_index", "return_count", "material", "label", "instance", "origin", "shot",
)  # fmt: skip
_THREE = ("xyz", "velocity")


@dataclass(frozen=True, eq=False)
class ScanTensors(OnDevice):
    """Some scans, their points one after the other.

    On a GPU a field is an array of Dr.Jit in the GPU's memory, on the CPU an array of NumPy; both have `__dlpack__`.
    Numbers are float32, names, rings and other whole numbers int32. `xyz` and `velocity` have shape (points, 3), all
    others (points,).

    Who takes a field over by DLPack shares Dr.Jit's memory, and has to drop it in the thread that scans. `torch` makes
    copies, on the same device, that any thread may drop.
    """

    fields: dict[str, Any]
    first: NDArray[np.int64]
    """Row of each scan's first point, and at the end the number of all points; on the host, shape (scans + 1,)."""
    device: str
    """'cpu' or 'cuda'."""
    names: dict[str, dict[int, str]] = field(default_factory=dict)
    """What the numbers of labels and materials mean."""

    def __len__(self) -> int:
        """How many scans there are."""
        return len(self.first) - 1

    def __getitem__(self, name: str) -> Any:
        """A field of all points."""
        if name not in self.fields:
            raise unknown_name("field", name, self.fields)
        return self.fields[name]

    def torch(self) -> dict[str, Any]:
        """The fields as tensors of PyTorch on the same device, in memory of its own."""
        try:
            import torch
        except ImportError:
            raise MissingDependencyError("tensors of PyTorch need the package torch: run 'pip install torch'") from None
        with engine_turn:
            made = {name: torch.from_dlpack(values).clone() for name, values in self.fields.items()}
            if self.device == "cuda":
                # The next scan may use this memory again, in another stream than the copies.
                torch.cuda.current_stream().synchronize()
        return made

    def torch_scans(self) -> Iterator[dict[str, Any]]:
        """The same, scan by scan."""
        tensors = self.torch()
        for first, last in zip(self.first[:-1].tolist(), self.first[1:].tolist(), strict=True):
            yield {name: values[first:last] for name, values in tensors.items()}


def chosen_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """The names of fields, checked."""
    if isinstance(fields, str) or not len(fields):
        raise ConfigError(f"fields: give a list of names, such as {list(USUAL)}, got {fields!r}")
    for name in fields:
        if name not in KNOWN:
            raise unknown_name("field", name, KNOWN)
    return tuple(dict.fromkeys(fields))


def tensors_of(
    target: Target,
    found: Returns,
    beams: Beams,
    shots: ShotArrays,
    tables: Tables,
    expected: PointsExpected,
    fields: tuple[str, ...],
) -> ScanTensors:
    """The points of a launch, looked up on the device; the host is told how many each scan has, and no more."""
    engine, most = target.engine, beams.count * len(found.rows)
    dr = engine.dr
    if "near_ir" in fields and tables[-1] is None:
        raise ConfigError("fields: near_ir: this sensor does not report it")

    def look_up(room_for: int) -> dict[str, Any]:
        returns, points = Rows.kept(engine, most), Rows.kept(engine, room_for)
        return engine.frozen(_chosen)(found, tables, returns, points, beams.count, fields)

    room_for = expected.room(beams.count, most)
    values = look_up(room_for)
    counts = copied(dr.block_sum(found.counts, shots.count)).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(counts)])
    count = int(first[-1])
    expected.learn(beams.count, count)
    if count > room_for:
        values = look_up(expected.room(beams.count, most))
    names = {"label": target.label_names, "material": target.material_names}
    return ScanTensors(
        {name: _shaped(engine, name, values.get(name), count) for name in fields}, first, engine.device, names
    )


def _chosen(
    found: Returns, tables: Tables, returns: Rows, points: Rows, beams: int, fields: tuple[str, ...]
) -> dict[str, Any]:
    """The fields that are asked for; traced once."""
    mi, dr = running_engine().mi, running_engine().dr
    values = looked_up(found, tables, returns, points, beams)
    # Labels and the like are below 2^31, and few libraries know unsigned numbers.
    chosen = {name: mi.Int32(values[name]) if name in _WHOLE else values[name] for name in fields if name in values}
    dr.eval(chosen)
    return chosen


def _shaped(engine: Engine, name: str, values: Any, count: int) -> Any:
    """The rows that there are, in the field's shape: on a GPU a tensor there, else NumPy's own memory."""
    mi, dr = engine.mi, engine.dr
    columns = 3 if name in _THREE else 1
    shape = (count, 3) if columns == 3 else (count,)
    if values is None:  # nothing moves, so no speed was looked up
        assert FIELDS[name].columns == 3
        values = dr.zeros(mi.Float, max(1, columns * count))
    if engine.device == "cpu":
        return copied(values)[: columns * count].reshape(shape)
    kind = mi.TensorXi if name in _WHOLE else mi.TensorXf
    if not count:
        return kind(dr.zeros(mi.Int32 if name in _WHOLE else mi.Float, 0), shape=shape)
    return kind(dr.reshape(values, columns * count, shrink=True), shape=shape)
