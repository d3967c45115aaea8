"""Table of media in the air: rain, fog, snow, dust, spray, smoke, and those of other packages.

A medium is one file with a part (its section of weather files), its effects and a `Medium`, plus one row of `_BUILTIN`.
Sensors, viewer, shell, studies, pictures and reports iterate over the table. Another package adds a medium by an entry
point of the group `parhelion.media` that names a `Medium`, or by `register_medium`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from parhelion.core.arrays import Reals
from parhelion.core.clouds import forget_origin, register_origin
from parhelion.core.errors import ConfigError
from parhelion.weather.ground import AMOUNTS as GROUND
from parhelion.weather.parts import Amount as Amount
from parhelion.weather.parts import MediumPart as MediumPart
from parhelion.weather.parts import Slider as Slider

if TYPE_CHECKING:
    from parhelion.weather.fields import DensityField
    from parhelion.weather.grids import DensityGrid
    from parhelion.weather.particles import DropSizes
    from parhelion.weather.weather import Weather

GROUP = "parhelion.media"
"""Entry points that name a `Medium`."""
_BUILTIN = ("rain:RAIN", "fog:FOG", "snow:SNOW", "dust:DUST", "spray:SPRAY", "smoke:SMOKE")

Triple = tuple[float, float, float]
PulseLaw = Callable[[Reals, Reals], Reals]
"""Extinction of one pulse from that of `light` and a uniform random number; NumPy or Dr.Jit arrays."""
ShiftLaw = Callable[[Reals, Any, Reals, Reals], Reals]
"""Apparent range [m] from range, four random words, amount and extinction [1/m]; NumPy or Dr.Jit arrays."""


@dataclass(frozen=True)
class Light:
    """Effect of a medium on light of one wavelength."""

    extinction_per_m: float
    """One-way extinction [1/m]; for density on a grid, at a density of 1 kg/m^3."""
    backscatter_per_m_sr: float = 0.0
    """Backscatter of the volume [1/(m sr)]: a lidar reports the medium where this echo passes its threshold. 0 for
    media on grids and for media of individually drawn particles."""
    lidar_ratio_sr: float = 50.0
    """Extinction over backscatter [sr] of a medium on a grid."""
    by_own_power: bool = False
    """True if a lidar detects a medium on a grid by the power of its echo alone; False raises echoes that VANE's rule
    for dust selects to the threshold."""
    asymmetry: float = 0.8
    """Mean cosine of the scattering angle."""
    albedo: float = 1.0
    """Single-scattering albedo: share of the extinction that is scattering. The rest is absorbed."""
    layer_m: float | None = None
    """Thickness of the layer above a camera [m]; None means the whole haze layer."""


@dataclass(frozen=True, eq=False)
class Particles:
    """Particles that are drawn one by one: those that a lidar detects, and those that a camera shows as streaks.

    Functions of diameter use the diameter of `sizes` [mm].
    """

    sizes: DropSizes
    backscatter: Callable[[NDArray[Any], float], NDArray[Any]]
    """Backscatter of one particle [m^2/sr] by diameter and wavelength [nm]."""
    cross_section: Callable[[NDArray[Any], float], NDArray[Any]]
    """Extinction cross section of one particle [m^2] by diameter and wavelength [nm]."""
    diameter_m: Callable[[Any], Any]
    """Diameter in the air [m]."""
    speed_m_s: Callable[[Any], Any]
    """Fall speed by diameter in the air [m]."""
    edges_mm: tuple[float, ...]
    """Edges of the size classes of streaks; each class falls at one mean speed. Smaller particles are not drawn."""
    largest_typical_mm: float
    """Upper edge of the last class for its typical size."""
    flutter_m_s: float = 0.0
    """Largest sideways speed."""
    cover: float = 1.0
    """Share of the circumscribed disc that a particle covers."""
    brightness: float = 1.0
    """Radiance relative to the mean of the surroundings."""
    vane: tuple[float, float] | None = None
    """Number [1/m^3] and single diameter [m] of VANE's streaks; None if VANE has none."""


@dataclass(frozen=True)
class RangeShift:
    """Apparent change of the range of surfaces."""

    law: ShiftLaw
    amount: float
    extinction_per_m: float


@dataclass(frozen=True)
class Sky:
    """Effect of a medium on the light of sun and sky."""

    cloud_optical_depth: float = 0.0
    """Optical depth of the cloud from which the medium falls."""
    haze: float = 0.0
    """Share (0 to 1) of `visibility_m` that is due to haze in the whole atmosphere rather than a ground layer."""
    visibility_m: float = float("inf")
    layer_extinction_per_m: float = 0.0
    """Extinction of the ground layer at 550 nm [1/m]."""


@dataclass(frozen=True)
class Cover:
    """Effect of a medium on surfaces."""

    labels: tuple[str, ...] = ()
    """Labels of the surfaces that the medium covers."""
    material: str = ""
    """Library material of covered surfaces."""
    wets: bool = False
    """True if porous surfaces are wet."""


@dataclass(frozen=True)
class Radio:
    """Effect of a medium on radio waves of one frequency."""

    loss_db_per_km: float
    """One-way loss."""
    reflectivity_m2_m3: float = 0.0
    """Backscatter cross-section per volume of air."""


class Effects:
    """Effects of a medium. Every default means no effect; `amount` is the value at one time."""

    flat = False
    """True if density is the same at all heights."""

    def light(self, part: Any, amount: float, wavelength_nm: float) -> Light:
        """Effect on light."""
        return Light(0.0)

    def per_pulse(self, part: Any) -> PulseLaw | None:
        """Law of the extinction's variation from pulse to pulse, as a module-level function, or None."""
        return None

    def density(
        self, part: Any, weather: Weather, time: float, name: str, row: int = 0
    ) -> DensityField | DensityGrid | None:
        """Factor on density, or density on a grid [kg/m^3] for a placed medium; None if it is uniform.

        `name` is that of the medium, `row` the number of the part among those of a placed medium.
        """
        from parhelion.weather.fields import density_field

        settings = getattr(part, "heterogeneity", None)
        if settings is None or settings.contrast == 0.0:
            return None
        return density_field(settings, seed=weather.seed, name=name, flat=self.flat)

    def particles(self, part: Any, amount: float) -> Particles | None:
        """Particles that are drawn one by one."""
        return None

    def range_shift(self, part: Any, amount: float, extinction_per_m: float) -> RangeShift | None:
        """Change of the range of surfaces."""
        return None

    def sky(self, part: Any, amount: float) -> Sky:
        """Effect on sun and sky."""
        return Sky()

    def cover(self, part: Any) -> Cover | None:
        """Effect on surfaces, constant in time."""
        return None

    def radio(self, part: Any, amount: float, frequency_hz: float) -> Radio | None:
        """Effect on radio waves."""
        return None

    def radio_per_mass(self, part: Any, frequency_hz: float) -> Radio | None:
        """Effect of a density of 1 kg/m^3 of a medium on a grid on radio waves."""
        return None

    def sound(self, part: Any, amount: float, frequency_hz: float) -> float:
        """One-way loss of sound in air [dB/m]."""
        return 0.0

    def conditions(self, medium: Medium, parts: Sequence[Any], time: float) -> dict[str, Any]:
        """Entries of `Conditions` at a time [s]; those of clear air if there are no parts."""
        amount = medium.amount
        if medium.place is not None:
            return {f"{medium.name}_{amount.field}": tuple(amount.at(part, time) for part in parts)}
        return {amount.short: amount.at(parts[0] if parts else None, time)}


@dataclass(frozen=True)
class Option:
    """Additional shell option of a medium, which changes one field of the part."""

    flag: str
    field: str
    help: str
    choices: tuple[str, ...] = ()
    value: Any = None
    """Value that a flag without choices sets if the part has none yet."""
    old: str = ""
    """Earlier spelling, still accepted."""


@dataclass(frozen=True, eq=False)
class Medium:
    """Medium in the air, for example rain.

    >>> from parhelion.weather import media
    >>> media.table()["rain"].label
    'Rain'
    """

    name: str
    """Name in weather files, in the field `origin` of points, and in random streams."""
    code: int
    """Value of the field `origin`: 1 to 4, 7 and 9 for built-in media, 16 to 255 for others."""
    label: str
    colour: str
    """Colour as `#rrggbb`."""
    part: Any
    """Type of its section in weather files: a `MediumPart`, or a union of some for a placed medium."""
    amount: Amount
    effects: Effects
    place: Callable[[Triple, Triple, float], MediumPart] | None = None
    """For a placed medium, whose section is a list: creates a part from a centre [m], half sizes [m] and an amount."""
    parts_word: str = "parts"
    """Name of the parts of a placed medium in error messages."""
    first_draw: int = 0
    """First random draw in lidar kernels; 0 means 10000 + 1000 * code."""
    options: tuple[Option, ...] = ()
    unchecked: str = ""
    """Reason why points of lidars in it count as assumed; empty if they depend on the receiver alone."""

    @property
    def draw(self) -> int:
        """First random draw in lidar kernels; each medium owns 500 draw numbers."""
        return self.first_draw or 10000 + 1000 * self.code

    @property
    def word(self) -> str:
        """Name of its amount in text."""
        return self.amount.word or self.label.lower()


_table: dict[str, Medium] = {}


def table() -> Mapping[str, Medium]:
    """All media by name, in the order in which their effects are summed."""
    if not _table:
        for place in _BUILTIN:
            module, _, name = place.partition(":")
            medium = getattr(import_module(f"{__name__}.{module}"), name)
            _table[medium.name] = medium
        for entry in entry_points(group=GROUP):
            medium = entry.load()
            if not isinstance(medium, Medium):
                raise ConfigError(f"media: the entry point {entry.name!r} names {entry.value}, which is not a Medium")
            register_medium(medium)
    return MappingProxyType(_table)


def register_medium(medium: Medium) -> None:
    """Add a medium of another package to the table, in this process."""
    known = table()
    if medium.name in known:
        raise ConfigError(f"media: {medium.name!r} is registered already")
    if not 16 <= medium.code <= 255:
        raise ConfigError(f"media: {medium.name}: the code must be from 16 to 255, got {medium.code}")
    register_origin(medium.code, medium.name)
    _table[medium.name] = medium


def unregister_medium(name: str) -> None:
    """Remove a medium that `register_medium` added."""
    if name not in _table or _table[name].code < 16:
        raise ConfigError(f"media: no medium {name!r} is registered")
    forget_origin(_table.pop(name).code)


def whole_amounts() -> dict[str, Amount]:
    """Amounts that one number states for the whole air or the whole ground, by their name in weather files."""
    return {one.amount.short: one.amount for one in table().values() if one.place is None} | GROUND


def names() -> tuple[str, ...]:
    """Names of all media, as in the field `origin` of points."""
    return tuple(table())


def codes() -> tuple[int, ...]:
    """Values of the field `origin` of points in the air."""
    return tuple(medium.code for medium in table().values())


def colours() -> dict[str, str]:
    """Colour of each medium, as `#rrggbb`."""
    return {name: medium.colour for name, medium in table().items()}
