"""The window of a lidar or camera: drops, film, mud, ice and scratches, and the light that passes through them.

Dirt lies in patches that stay in place and grow with their share of the area. A beam crosses the window as a disc; the
covered share of the disc is dimmed. Patches far smaller than the disc dim evenly, larger ones block whole shots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PlainValidator

from parhelion.core.config import Config, parse
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.weather.ground import FROM_RAIN, patch_field
from parhelion.weather.media.rain import terminal_velocity
from parhelion.weather.parts import Schedule, plain, scheduled, value_at

if TYPE_CHECKING:
    from parhelion.weather.weather import Weather


class Dirt(NamedTuple):
    """Optical properties of one kind of dirt. All numbers are assumed; measured ones depend on the window."""

    transmittance: float
    """Share of light that passes undeflected."""
    scattered: float
    """Share of light that is scattered forward, as glare of cameras."""
    sizes_mm: tuple[float, float]
    """Distance between patches across and along the window."""
    near: bool
    """True if it returns enough light for an echo of the window."""


KINDS: Mapping[str, Dirt] = {
    # A drop is a lens of a few millimetres' focal length: all but its centre leaves the field of the receiver.
    "drops": Dirt(0.1, 0.6, (4.0, 4.0), False),
    # A film of varying depth deflects a part of the light by more than the divergence of the beam.
    "film": Dirt(0.7, 0.3, (25.0, 25.0), False),
    "mud": Dirt(0.0, 0.0, (15.0, 15.0), True),
    "ice": Dirt(0.25, 0.6, (20.0, 20.0), True),
    "scratches": Dirt(0.4, 0.6, (1.5, 25.0), False),
}
"""Kinds of dirt by name. Adhering drops remove points and weaken others (W. Y. Pao et al., Sensors 24, 2997, 2024)."""
STEP = 0.01
"""Steps of the shares; each new state needs a new map of the window."""

# ---- shares over time -----------------------------------------------------------------------------------------------


MOST_DROPS, MOST_DROPS_BLOWN = 0.35, 0.1
"""Largest share of drops before they run off, and with a blower (assumed)."""
DROP_MM, SPREAD = 1.5, 1.5
"""Diameter of the drops that wet a window, about the volume median at 5 mm/h, and diameter of the wetted disc over that
of the drop (assumed: contact angles of 60 to 90 degrees)."""


def drop_growth_per_s(rain_rate_mm_h: float, speed_m_s: float) -> float:
    """Growth of the share of a bare vertical window that drops cover [1/s].

        g = 1.5 s^2 / D  R v / v_t

    Drops fall at v_t, so the air holds water R / v_t, and a window that moves at v meets R v / v_t of it. A volume of
    water in drops of diameter D covers 1.5 s^2 / D times itself. 0.1 % per second at 5 mm/h and 10 m/s.
    """
    fall = float(terminal_velocity(DROP_MM * 1e-3))
    depth_m_s = rain_rate_mm_h * 1e-3 / 3600.0 * max(speed_m_s, 0.0) / fall
    return 1.5 * SPREAD**2 / (DROP_MM * 1e-3) * depth_m_s


def drop_share(growth_per_s: float, seconds: float, *, most: float = MOST_DROPS) -> float:
    """Share of a window that drops cover after some time: most (1 - exp(-g t / most)); what exceeds it runs off."""
    return most * (1.0 - float(np.exp(-growth_per_s * max(seconds, 0.0) / most)))


def _share_check() -> PlainValidator:
    number = scheduled(0.0, 1.0, "")

    def check(value: Any) -> Any:
        return value if value == FROM_RAIN else number.func(plain(value))  # type: ignore[call-arg]

    return PlainValidator(check)


_Share = Annotated[Schedule, scheduled(0.0, 1.0, "")]


class Window(Config):
    """State of a window: the share of its area that each kind of dirt covers, a number or pairs of time [s] and share.

    >>> ph.Lidar("velodyne/vlp-16", window={"mud": 0.1, "drops": "from-rain", "wiper_s": 2.0}).window.mud
    0.1
    """

    drops: Annotated[Schedule | str, _share_check()] = 0.0
    """Drops of water, or `from-rain`: by rain and speed since the last wipe."""
    film: _Share = 0.0
    """Film of water of varying depth."""
    mud: _Share = 0.0
    ice: _Share = 0.0
    scratches: _Share = 0.0
    wiper_s: Annotated[float, Field(gt=0.0, le=3600.0)] | None = None
    """Time between two wipes [s], which remove drops and film; None for no wiper. It wipes at multiples of it."""
    blower: bool = False
    """True if air blows drops off before they become large."""
    near_returns: bool = False
    """True if the firmware of a lidar reports mud and ice on the window as points, instead of hiding them."""
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    """Places the patches."""

    @property
    def is_clean(self) -> bool:
        """True if there is never any dirt."""
        return all(getattr(self, name) == 0.0 for name in KINDS)

    def shares(self, time: float, weather: Weather | None, speed_m_s: float) -> tuple[float, ...]:
        """Share of each kind of `KINDS` at a time [s], in steps of STEP."""
        since = time if self.wiper_s is None else time % self.wiper_s
        found = []
        for name in KINDS:
            value = getattr(self, name)
            share = self._drops(time, since, weather, speed_m_s) if value == FROM_RAIN else value_at(value, time)
            if name in ("drops", "film") and self.wiper_s is not None and value != FROM_RAIN:
                share *= since / self.wiper_s
            found.append(round(round(share / STEP) * STEP, 2))
        return tuple(found)

    def _drops(self, time: float, since: float, weather: Weather | None, speed_m_s: float) -> float:
        rain = None if weather is None else weather.rain
        if rain is None:
            return 0.0
        most = MOST_DROPS_BLOWN if self.blower else MOST_DROPS
        schedule = rain.rate_mm_h
        if not isinstance(schedule, Sequence) and self.wiper_s is None:
            return most if schedule > 0.0 and speed_m_s > 0.0 else 0.0  # it has rained since long ago
        first = schedule[0][0] if isinstance(schedule, Sequence) else time - since
        # At most the time since the last wipe, in which the rate is taken as its mean.
        begin = max(time - since, float(first)) if self.wiper_s is not None else float(first)
        if time <= begin:
            return 0.0
        rate = float(np.mean(value_at(schedule, np.linspace(begin, time, 33))))
        return drop_share(drop_growth_per_s(rate, speed_m_s), time - begin, most=most)


def window_of(given: Window | Mapping[str, Any] | None) -> Window | None:
    """Window of an option of a sensor; None for a clean one."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        given = parse(Window, plain(given), "window")
    if not isinstance(given, Window):
        raise ConfigError(f"window: expected fields such as {{mud: 0.1}}, got {given!r}")
    return None if given.is_clean else given


# ---- maps -----------------------------------------------------------------------------------------------------------

CELL_MM, CELLS = 0.5, (256, 512)
"""Size and number of the cells of a map: 128 mm by 256 mm."""
RADIUS_MM = 40.75
"""Distance of a lidar's window from the origin of its beams; 256 mm is then a full turn (assumed, small spinning
sensors)."""
LENS_MM = 20.0
"""Distance of a camera's window from its lens (assumed)."""


@lru_cache(maxsize=64)
def covered_disc(seed: int, name: str, share: float, diameter_mm: float) -> NDArray[np.float64]:
    """Share of a disc around each cell that a kind of dirt covers, shape CELLS, periodic."""
    dirt = patch_field(Stream(seed, f"window/{name}"), CELLS, CELL_MM, KINDS[name].sizes_mm) < share
    return _over_disc(dirt.astype(np.float64), diameter_mm)


def _over_disc(values: NDArray[np.float64], diameter_mm: float) -> NDArray[np.float64]:
    """Mean over a disc around each cell, of at least three cells, which smooths the edges of patches."""
    diameter_mm = max(diameter_mm, 3.0 * CELL_MM)
    v, u = (np.minimum(np.arange(n), n - np.arange(n)) * CELL_MM for n in CELLS)
    # The soft rim of half a cell keeps the area of small discs.
    disc = np.clip((0.5 * diameter_mm - np.hypot(v[:, None], u)) / CELL_MM + 0.5, 0.0, 1.0)
    found = np.fft.irfft2(np.fft.rfft2(values) * np.fft.rfft2(disc / disc.sum()), CELLS)
    return np.clip(found, 0.0, 1.0)


class WindowMap(NamedTuple):
    """Light through the places of a window, shape CELLS."""

    transmittance: NDArray[np.float64]
    """Share of the light of a disc that passes undeflected."""
    scattered: NDArray[np.float64]
    """Share that is scattered forward."""
    near: NDArray[np.float64]
    """Share of the disc that mud or ice covers."""


@lru_cache(maxsize=8)
def window_map(seed: int, shares: tuple[float, ...], diameter_mm: float) -> WindowMap:
    """Map for beams or pupils of a diameter; kinds of dirt lie independently of each other."""
    passed, scattered, clear = (np.ones(CELLS), np.zeros(CELLS), np.ones(CELLS))
    for (name, dirt), share in zip(KINDS.items(), shares, strict=True):
        if share:
            covered = covered_disc(seed, name, share, diameter_mm)
            scattered += passed * covered * dirt.scattered
            passed = passed * (1.0 - covered * (1.0 - dirt.transmittance))
            clear = clear * (1.0 - covered) if dirt.near else clear
    return WindowMap(passed, np.minimum(scattered, 1.0 - passed), 1.0 - clear)


def drops_in_picture(share: float, width: int, height: int, radius_px: tuple[float, float]) -> int:
    """Number of drops with log-uniform radii that cover a share of a picture, where they overlap: a Boolean model."""
    low, high = radius_px
    mean_square = (high * high - low * low) / (2.0 * np.log(high / low))
    return round(-float(np.log(1.0 - min(share, 0.99))) * width * height / (np.pi * mean_square))


def through(values: NDArray[np.float64], direction: NDArray[Any], distance_mm: float) -> NDArray[np.float64]:
    """Values of a map where directions (n, 3) in the sensor frame cross a cylinder around the sensor's upright axis."""
    level = np.maximum(np.hypot(direction[:, 0], direction[:, 1]), 1e-3)
    u = np.arctan2(direction[:, 1], direction[:, 0]) * distance_mm
    v = np.clip(direction[:, 2] / level, -1.5, 1.5) * distance_mm
    row, column = v / CELL_MM, u / CELL_MM
    i, j = np.floor(row).astype(np.int64), np.floor(column).astype(np.int64)
    a, b = row - i, column - j
    near, far = (
        (1.0 - b) * values[(i + k) % CELLS[0], j % CELLS[1]] + b * values[(i + k) % CELLS[0], (j + 1) % CELLS[1]]
        for k in (0, 1)
    )
    return np.asarray((1.0 - a) * near + a * far)
