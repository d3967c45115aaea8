"""Evaluation of clouds, realism, detections, odometry, sensor placement and sensor models, with their reports.

    ph.evaluate.clouds.compare(real, simulated)
    ph.evaluate.slam.ate(estimate, truth)

Each part is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["clouds", "detections", "dossier", "placement", "realism", "slam"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
