"""A detector of cars, pedestrians and cyclists, its training on simulated scans, and scores of any detector by weather.

found = ph.detect.Pillars().detect(scan)
result = ph.detect.evaluate(detector, "velodyne/hdl-64e-s2", ["clear", "fog=1000..5000"])
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Detections": "detector",
    "Detector": "detector",
    "Pillars": "detector",
    "TrainingStudy": "scenes",
    "evaluate": "study",
    "street": "scenes",
    "street_scans": "scenes",
    "train": "training",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
