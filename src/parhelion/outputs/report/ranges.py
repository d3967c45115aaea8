"""What the report of a run tells of ranges to radio anchors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parhelion.core.inertial import Samples
from parhelion.core.ranges import UwbData
from parhelion.core.readers import Readers
from parhelion.pictures import run_page as html


def ranges_table(found: UwbData) -> str:
    """Each anchor: how often it was heard and seen, and the errors of its ranges in and out of sight."""
    rows = []
    for k, name in enumerate(found.anchors):
        heard = np.isfinite(found.range[:, k])
        sight, error = found.los[:, k], found.error[:, k]
        place = "(" + ", ".join(f"{value:.4g}" for value in found.anchor_xyz[k].tolist()) + ")"
        strength = f"{np.mean(found.rssi[heard, k]):.1f} dBm" if heard.any() else ""
        errors = _error(error[heard & sight]), _error(error[heard & ~sight])
        rows.append((name, place, _share(heard), _share(sight), strength, *errors))
    columns = ("anchor", "place [m]", "heard", "in sight", "RSSI", "error in sight", "error out of sight")
    note = ""
    fixed = np.all(np.isfinite(found.position), axis=1)
    if len(found):
        note = f'<p class="note">Positions from {int(fixed.sum())} of {len(found)} measurements'
        note += f"; median GDOP {np.median(found.gdop[fixed]):.2f}.</p>" if fixed.any() else ".</p>"
    return html.table(columns, rows, kinds="--nnnnn") + note


def _share(which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    return f"{100.0 * float(np.mean(which)):.0f} %" if len(which) else ""


def _error(error: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    return f"{np.mean(error):+.3f} ± {np.std(error):.3f} m" if len(error) else ""


TABLES: Readers[Callable[[Any], str]] = Readers(
    "report, tables of streams", {Samples: lambda samples: "", UwbData: ranges_table}
)
"""A table of what a stream of samples says, by type of record; most have none."""
