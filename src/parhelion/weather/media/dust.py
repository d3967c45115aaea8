"""Vehicle dust: emission, drag in air, and extinction of light.

The model is that of the VANE simulator (Carrillo, Goodin and Fernandez 2020, chapter 8) with misprints corrected: the
weight in the emission formula is in short tons (AP-42), not pounds; the number of particles is mass divided by particle
mass; the optical depth is -ln(I / I_0), which is positive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import (
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from parhelion.core.arrays import Reals, is_drjit, namespace
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory, Waypoints
from parhelion.weather.media import Amount, Effects, Light, Medium, MediumPart, Slider, Triple
from parhelion.weather.parts import Coordinate, Number, PlacedCloud, Schedule, Time, increasing, within

if TYPE_CHECKING:
    from parhelion.weather.grids import DensityGrid
    from parhelion.weather.raised import RaisedPart
    from parhelion.weather.weather import Weather

KG_PER_SHORT_TON = 907.18474
KG_PER_M_FROM_LB_PER_MILE = 0.45359237 / 1609.344
"""2.8185e-4; VANE rounds it to 2.82e-4."""

VEHICLE_DUST_EXTINCTION_M2_KG = 2600.0
"""Extinction per mass of vehicle dust [m^2/kg]: VANE's visual fit to field tests."""

DUST_LIFETIME_S = 10.0
DRAG_PER_M = 1.0
DRAG_GROWTH = 4.6
"""-ln(0.01), rounded as in VANE: at the end of its life, a particle has 99 % of the full drag."""


def check_number(
    name: str, value: Any, *, above: float = -np.inf, least: float = -np.inf, most: float = np.inf
) -> float:
    """Return `value` as a finite float within the limits, or raise a ConfigError that names the field."""
    limits = [f"above {above:g}"] if above > -np.inf else []
    limits += [f"at least {least:g}"] if least > -np.inf else []
    limits += [f"at most {most:g}"] if most < np.inf else []
    allowed = " and ".join(["a finite number", *limits])
    try:
        number = np.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name}: must be {allowed}, got {value!r}") from None
    if not (np.isfinite(number) and above < number and least <= number <= most):
        raise ConfigError(f"{name}: must be {allowed}, got {value!r}")
    return number


def check_vector(name: str, value: Any, *, above: float = -np.inf) -> Floats:
    """Return `value` as three finite numbers above the limit, or raise a ConfigError that names the field."""
    words = "3 finite numbers" + (f", each above {above:g}" if above > -np.inf else "")
    try:
        vector = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name}: must be {words}, got {value!r}") from None
    if vector.shape != (3,) or not np.all(np.isfinite(vector)) or np.any(vector <= above):
        raise ConfigError(f"{name}: must be {words}, got {value!r}")
    return vector


def check_not_negative(name: str, value: Any) -> Any:
    """Return `value`, or raise a ConfigError if any of it is negative or not finite. Kernel arrays are not checked."""
    if not is_drjit(value):
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"{name}: must hold numbers, got {value!r}") from None
        bad = array[~(np.isfinite(array) & (array >= 0.0))]
        if bad.size:
            raise ConfigError(f"{name}: must be finite and not negative, got {bad.flat[0]}")
    return value


def emission_factor_lb_per_mile(silt_percent: float, weight_kg: float, moisture_percent: float) -> float:
    """Dust raised by one vehicle on an unpaved road [lb per vehicle mile]: 10 (s/12)^0.8 (W/3)^0.5 / (M/0.2)^0.4.

    EPA AP-42 section 13.2.2 in its 1998 form, with s the silt and M the moisture of the surface [%] and W the weight
    in short tons. The constants are those of PM30, particles of up to 30 um (Tong 2014; VANE eq. 8.1).
    AP-42's own data cover silt of 1.8 to 35 %, weights of 1.4 to 260 t, moisture of 0.03 to 13 % and 8 to 88 km/h;
    outside these limits the formula is an extrapolation. It does not depend on speed: mass grows with the distance.
    """
    silt = check_number("silt_percent", silt_percent, least=0.0, most=100.0)
    tons = check_number("weight_kg", weight_kg, above=0.0) / KG_PER_SHORT_TON
    moisture = check_number("moisture_percent", moisture_percent, above=0.0, most=100.0)
    return float(10.0 * (silt / 12.0) ** 0.8 * (tons / 3.0) ** 0.5 / (moisture / 0.2) ** 0.4)


def emitted_mass_kg(emission_factor: Reals, speed_m_s: Reals, dt_s: Reals) -> Reals:
    """Mass [kg] raised in a time `dt_s` by a vehicle of `speed_m_s` (VANE eq. 8.2), factor in lb per mile."""
    check_not_negative("emission_factor", emission_factor)
    check_not_negative("speed_m_s", speed_m_s)
    check_not_negative("dt_s", dt_s)
    return KG_PER_M_FROM_LB_PER_MILE * emission_factor * speed_m_s * dt_s


def drag_coefficient(age_s: Reals, *, lifetime_s: float = DUST_LIFETIME_S, drag_per_m: float = DRAG_PER_M) -> Reals:
    """Drag factor [1/m] of a dust parcel by age: C_d (1 - exp(-4.6 t / t_max)); NumPy or Dr.Jit arrays.

    The deceleration is this factor times the square of the speed through the air (VANE eqs. 8.6, 8.10). Valid for ages
    from 0 to `lifetime_s`. The law is empirical: it starts without drag so that the wake can lift the dust, and ends at
    a fall speed of sqrt(g / C_d), 3.1 m/s by default, far above that of any real grain of this size.
    """
    lifetime = check_number("lifetime_s", lifetime_s, above=0.0)
    full = check_number("drag_per_m", drag_per_m, least=0.0)
    age = check_not_negative("age_s", age_s)
    return full * (1.0 - namespace(age).exp(age * (-DRAG_GROWTH / lifetime)))


# ---- the medium ----------------------------------------------------------------------------------------------------

LIDAR_RATIO_SR = 50.0
"""Extinction over backscatter of mineral dust [sr], as measured by atmospheric lidars (40 to 60)."""
ALBEDO = (440.0, 670.0, 870.0, 1020.0), (0.92, 0.96, 0.97, 0.97)
"""Wavelengths [nm] and single-scattering albedo of desert dust there (quoted from Dubovik et al. 2002)."""
DENSITY = Amount(
    "density_kg_m3",
    "",
    "--dust",
    "X,Y,Z,R[,KG_M3]",
    "Dust cloud: centre and radius in m, density (0.0001 by default). May be repeated.",
    "kg/m^3",
    0.0,
    1.0,
    Slider(1000.0, 10.0, unit="mg/m³", scale=1e-6, hint="a cloud ahead of the sensor's first position"),
    report_unit="kg/m³",
    default=1e-4,
)
"""Mass of dust per volume of air. The default density has a visibility of about 15 m, as behind a vehicle on a dry dirt
road."""

_ROWS: TypeAdapter[tuple[tuple[float, float, float, float], ...]] = TypeAdapter(
    Annotated[tuple[tuple[Time, Coordinate, Coordinate, Coordinate], ...], Field(min_length=2)]
)


def _checked_path(value: Any) -> Any:
    if isinstance(value, Waypoints):
        value = np.column_stack([value.times, value.xyz]).tolist()
    elif isinstance(value, Trajectory) and not isinstance(value, type):
        return value
    elif not isinstance(value, (list, tuple)):
        raise ValueError("must be a list of [time_s, x, y, z] rows, or in code a trajectory")
    rows = _ROWS.validate_python(value)
    increasing(rows)
    return rows


class DustPart(MediumPart):
    """Base of dust clouds and trails."""

    kind: str
    mass_extinction_m2_kg: Annotated[Number, within(1.0, 1e5, "m^2/kg")] = 2600.0
    """Extinction per mass [m^2/kg]: 2600 for dust that vehicles raise, 650 for fine atmospheric dust (VANE)."""

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Files distinguish the kinds by this field, so it is always written.
        return {"kind": self.kind, **handler(self)}


class DustCloud(PlacedCloud, DustPart):
    """Manually placed dust cloud: an axis-aligned ellipsoid, densest at the centre.

    >>> cloud = ph.DustCloud(centre_m=(10, 0, 1), half_size_m=(6, 6, 4), density_kg_m3=2e-4)
    >>> len(ph.Weather(dust=[cloud]).dust)
    1
    """

    kind: Literal["cloud"] = "cloud"
    density_kg_m3: Annotated[Schedule, DENSITY.check]
    """Mass of dust per volume of air at the centre, 0 to 1."""


class DustTrail(DustPart):
    """Dust trail of a vehicle on an unpaved road.

    >>> ph.DustTrail(path=[[-4, 14, -6, 0], [2, 10, 6, 0]], silt_percent=20).silt_percent
    20.0
    """

    kind: Literal["trail"] = "trail"
    path: Annotated[Sequence[Sequence[float]] | Trajectory, PlainValidator(_checked_path)]
    """Path of the vehicle: rows of time [s] and x, y, z [m], with straight lines in between and the vehicle facing
    forward, or in code a trajectory. Of `Waypoints`, the times and positions are used."""
    weight_kg: Annotated[Number, within(1.0, 1e6, "kg")] = 2000.0
    """Weight of the vehicle; the emission formula is fitted to 1800 to 260 000 kg (EPA AP-42, 13.2.2)."""
    width_m: Annotated[Number, within(0.1, 50.0, "m")] = 2.0
    length_m: Annotated[Number, within(0.1, 100.0, "m")] = 5.0
    silt_percent: Annotated[Number, within(0.0, 100.0, "%")] = 8.5
    """Share of silt in the road's surface; fitted to 1.8 to 25.2, 8.5 is the mean of construction sites (AP-42)."""
    moisture_percent: Annotated[Number, within(0.01, 100.0, "%")] = 0.2
    """Water in the road's surface; fitted to 0.03 to 13, 0.2 is a dry road (AP-42)."""
    start_s: Time | None = None
    """Start of the emission; by default the start of the path, or 0 if it has none."""
    end_s: Time | None = None
    """End of the emission; by default the end of the path. Required for a trajectory other than `Waypoints`."""

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> DustTrail:
        start, end = self.span_s
        if math.isinf(end):
            raise ValueError("end_s is required: this path has no end")
        if not start < end:
            raise ValueError(f"must start before it ends, but starts at {start:.12g} s and ends at {end:.12g} s")
        return self

    @property
    def span_s(self) -> tuple[float, float]:
        """First and last time [s] of the emission."""
        first, last = (self.path[0][0], self.path[-1][0]) if isinstance(self.path, tuple) else (0.0, math.inf)
        return (first if self.start_s is None else self.start_s), (last if self.end_s is None else self.end_s)

    def trajectory(self) -> Trajectory:
        """Motion of the vehicle; along rows it is level and faces forward."""
        if not isinstance(self.path, tuple):
            assert isinstance(self.path, Trajectory)  # ensured by the validator
            return self.path
        rows = np.asarray(self.path, dtype=np.float64)
        step = np.diff(rows[:, 1:3], axis=0)
        yaw_deg = np.degrees(np.arctan2(step[:, 1], step[:, 0]))
        moving = np.flatnonzero(np.any(step != 0.0, axis=1))
        if len(moving):
            # While it waits, it keeps its heading; before its first motion, it has the heading of that motion.
            latest = np.searchsorted(moving, np.arange(len(rows)), side="right") - 1
            yaw_deg = yaw_deg[moving[np.maximum(latest, 0)]]
        else:
            yaw_deg = np.zeros(len(rows))
        poses = [Pose(xyz, rpy_deg=(0.0, 0.0, yaw)) for xyz, yaw in zip(rows[:, 1:], yaw_deg.tolist(), strict=True)]
        return Waypoints(rows[:, 0].tolist(), poses)

    def is_there(self, amount: Amount, time: float | None = None) -> bool:
        """Return True once the trail has started; its dust remains after it ends."""
        return time is None or self.span_s[0] <= time

    def is_constant(self, amount: Amount) -> bool:
        """Return False: a trail grows and settles."""
        return False

    def summary(self, name: str, amount: Amount) -> tuple[str, str, str]:
        """Vehicle and times for a report."""
        start, end = self.span_s
        return f"{name} behind a vehicle", f"{self.weight_kg:g} kg", f"{start:g} to {end:g} s"

    def to_mapping(self) -> dict[str, Any]:
        """Fields that differ from their defaults, as in a file."""
        if not isinstance(self.path, tuple):
            raise ConfigError(f"path: a file needs rows of [time_s, x, y, z], got a {type(self.path).__name__}")
        return super().to_mapping()


class DustEffects(Effects):
    """Effects of dust, whose density is on grids."""

    def light(self, part: DustPart | RaisedPart, amount: float, wavelength_nm: float) -> Light:
        """Extinction per mass, the same at all wavelengths, and absorption, which makes dust brown."""
        albedo = float(np.interp(wavelength_nm, *ALBEDO))
        return Light(part.mass_extinction_m2_kg, lidar_ratio_sr=LIDAR_RATIO_SR, albedo=albedo)

    def density(
        self, part: DustCloud | DustTrail | RaisedPart, weather: Weather, time: float, name: str, row: int = 0
    ) -> DensityGrid | None:
        """Density of the cloud or the plume at a time [s]."""
        from parhelion.weather.plume import DustPlume
        from parhelion.weather.raised import RaisedPart

        if isinstance(part, RaisedPart):
            return part.grid(weather, time)
        if isinstance(part, DustCloud):
            return part.grid(weather, time, DENSITY)
        start, end = part.span_s
        if time <= start:
            return None
        trail = DustPlume(
            part.trajectory(),
            start,
            end,
            seed=weather.seed,
            name=f"trail-{row}",
            weight_kg=part.weight_kg,
            silt_percent=part.silt_percent,
            moisture_percent=part.moisture_percent,
            width_m=part.width_m,
            length_m=part.length_m,
            ground_z_m=None,
            wind_m_s=weather.wind_m_s,
        )
        return trail.grid(time)

    def conditions(self, medium: Medium, parts: Sequence[Any], time: float) -> dict[str, Any]:
        """Density at the centre of each cloud, and the number of trails that have started."""
        clouds = [part for part in parts if isinstance(part, DustCloud)]
        trails = [part for part in parts if isinstance(part, DustTrail)]
        return {
            "cloud_density_kg_m3": tuple(DENSITY.at(cloud, time) for cloud in clouds),
            "trails_begun": sum(trail.span_s[0] <= time for trail in trails),
        }


def _cloud(centre_m: Triple, half_size_m: Triple, density_kg_m3: float) -> DustCloud:
    return DustCloud(centre_m=centre_m, half_size_m=half_size_m, density_kg_m3=density_kg_m3)


DUST = Medium(
    "dust",
    4,
    "Dust",
    "#e08a3c",
    Annotated[DustCloud | DustTrail, Field(discriminator="kind")],
    DENSITY,
    DustEffects(),
    place=_cloud,
    parts_word="dust clouds and trails",
    first_draw=7500,
    unchecked="VANE's rule for dust; no recording is available",
)
