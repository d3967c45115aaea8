"""Recorded numbers of results: tests compare with `pins.json`.

A pin notices any change of a result, on purpose or not. Closed forms show that a result is right; pins show that it
stays so. After a change on purpose, run the tests with PARHELION_PINS=write and check the difference of the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parhelion.rays.device import engine

FILE = Path(__file__).with_suffix(".json")


def processor() -> str:
    """Name of this processor, with what selects other instructions of the ray engine."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown"
    lines = dict(line.split("\t:", 1) if "\t:" in line else (line, "") for line in text.split("\n\n")[0].splitlines())
    known = {key.strip(): value.strip() for key, value in lines.items()}
    wide = "avx512f" if " avx512f" in known.get("flags", "") else ""
    return " ".join([known.get(key, "") for key in ("model name", "cpu family", "model")] + [wide]).strip()


def _stored() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


of_this_processor = pytest.mark.skipif(
    os.environ.get("PARHELION_PINS") != "write" and _stored().get("processor") != processor(),
    reason="recorded on another processor, whose last digits may flip a ray or a contact",
)
"""Mark of tests whose numbers come from rays or contacts."""


def fingerprint(values: Any) -> list[float]:
    """Number of finite values and two weighted sums of them; any changed value changes a sum."""
    flat = np.asarray(values)
    flat = np.concatenate([flat.real.ravel(), flat.imag.ravel()]) if np.iscomplexobj(flat) else flat.ravel()
    flat = flat.astype(np.float64)
    place = np.flatnonzero(np.isfinite(flat))
    known = flat[place]
    return [float(len(place)), float(known @ np.cos(place + 1.0)), float(known @ np.sin(0.7 * (place + 1.0)))]


def even(values: Any) -> Any:
    """Signed logarithms of values, so that a change of a small one shows beside large ones."""
    flat = np.ravel(np.asarray(values, np.float64))
    return np.sign(flat) * np.log1p(1e9 * np.abs(flat))


def check(name: str, rel: float = 1e-6, **values: Any) -> None:
    """Compare arrays or numbers with those recorded under a name, on the CPU."""
    if engine().device != "cpu":
        pytest.skip("numbers are recorded on the CPU")
    found = {key: fingerprint(value) for key, value in values.items()}
    stored = _stored()
    if os.environ.get("PARHELION_PINS") == "write":
        stored[name] = {key: [float(f"{number:.12g}") for number in numbers] for key, numbers in found.items()}
        stored["processor"] = processor()
        lines = [f'"{key}": {json.dumps(stored[key])}' for key in sorted(stored)]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for key, numbers in found.items():
        # Sums may cancel, so that the tolerance refers to the sum of magnitudes as well.
        size = float(np.nansum(np.abs(np.asarray(values[key], np.complex128)), where=np.isfinite(values[key])))
        assert numbers == pytest.approx(stored[name][key], rel=rel, abs=rel * 1e-2 * size), f"{name}: {key}"
