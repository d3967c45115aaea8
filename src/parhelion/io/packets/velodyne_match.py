"""Which Velodyne a table of shots is that of: the one whose lasers point and fire alike.

Packets tell neither angles nor times of single lasers: who reads them takes those of the model that the packet names.
So a sensor may send the packets of a model only if it has the model's lasers and firing sequence, up to the calibration
of a single unit.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.io.packets.velodyne_models import MODELS, VelodyneModel

Floats = NDArray[np.float64]

ANGLE_TOLERANCE_DEG = 0.15
"""Units differ from the nominal angles by some 0.01 deg; neighbouring lasers of a VLP-32C are 0.333 deg apart."""
PERIOD_TOLERANCE_US = 0.05
FIRE_TOLERANCE_US = 0.3
"""Firings of an HDL-32E are 1.152 us apart."""


class Shots(Protocol):
    """What is asked of a table of shots: of a scan, or of a sensor. Rings count from the lowest laser."""

    @property
    def direction(self) -> NDArray[Any]: ...
    @property
    def time(self) -> NDArray[Any]: ...
    @property
    def ring(self) -> NDArray[Any]: ...
    @property
    def column(self) -> NDArray[Any]: ...


def matching_model(shots: Shots) -> VelodyneModel:
    """The model whose packets can hold these shots; the error says in what they differ from the nearest one."""
    channels = int(shots.ring.max()) + 1 if len(shots.ring) else 0
    known = [model for model in MODELS.values() if model.channels == channels]
    if not known:
        numbers = ", ".join(f"{model.channels} ({model.name})" for model in MODELS.values())
        raise ConfigError(f"its number of channels is {channels}, and Velodyne packets are known for {numbers}")
    sequences = len(shots.ring) // channels
    order = np.lexsort((shots.ring, shots.column))
    whole = np.tile(np.arange(channels), sequences)
    if sequences < 2 or len(order) != len(whole) or not np.array_equal(shots.ring[order], whole):
        raise ConfigError(f"its {len(shots.ring)} shots are not whole firing sequences of {channels} channels")
    shape = (sequences, channels)
    time_us = 1e6 * shots.time[order].astype(np.float64).reshape(shape)
    direction = shots.direction[order].astype(np.float64).reshape(*shape, 3)
    reasons = [_difference(model, time_us, direction) for model in known]
    for model, reason in zip(known, reasons, strict=True):
        if not reason:
            return model
    told = (f"of a {model.name}, since {reason}" for model, reason in zip(known, reasons, strict=True))
    raise ConfigError(f"it cannot send the packets {', nor '.join(told)}")


def _difference(model: VelodyneModel, time_us: Floats, direction: Floats) -> str:
    """In what shots, by firing sequence and ring, differ from a model's; empty if in nothing."""
    laser = model.laser_of_ring
    first = int(model.ring[0])
    elevation = np.degrees(np.arcsin(np.clip(direction[..., 2], -1.0, 1.0))).mean(axis=0)
    off = np.abs(elevation - np.asarray(model.elevation_deg)[laser])
    if off.max() > ANGLE_TOLERANCE_DEG:
        return f"channel {int(off.argmax())} points {off.max():.2f} deg beside its elevation"
    period = (time_us[-1, first] - time_us[0, first]) / (len(time_us) - 1)
    if abs(period - model.period_us) > PERIOD_TOLERANCE_US:
        return f"it fires every {period:.3f} us, not every {model.period_us:g} us"
    late = np.abs(np.median(time_us - time_us[:, [first]], axis=0) - 1e6 * model.fire_time_s[laser])
    if late.max() > FIRE_TOLERANCE_US:
        return f"channel {int(late.argmax())} fires {late.max():.2f} us beside its time"
    # The head turns at an even rate, so that azimuths less its turn are the lasers' own.
    azimuth = np.degrees(np.unwrap(np.arctan2(direction[..., 1], direction[..., 0]), axis=0))
    rate = (azimuth[-1, first] - azimuth[0, first]) / (time_us[-1, first] - time_us[0, first])
    if rate >= 0.0:
        return "it turns counter-clockwise"
    own = azimuth - rate * time_us
    apart = np.median((own - own[:, [first]] + 180.0) % 360.0 - 180.0, axis=0)
    aside = np.abs(apart - (model.offset_deg[laser] - model.offset_deg[0]))
    if aside.max() > ANGLE_TOLERANCE_DEG:
        return f"channel {int(aside.argmax())} points {aside.max():.2f} deg beside its azimuth"
    return ""
