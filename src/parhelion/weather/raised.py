"""Dust and spray that vehicles raise while they drive, from the ground below their wheels.

A plume follows from the motion of its vehicle up to the time of the query: its parcels are numbered by their time of
emission, and nothing is stored between queries. The motion of a driven vehicle grows step by step, and so does its
plume. A query for the same time returns the same parcels at any later time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.core.trajectory import Trajectory
from parhelion.weather.grids import CELL_M, DensityGrid
from parhelion.weather.media.dust import VEHICLE_DUST_EXTINCTION_M2_KG
from parhelion.weather.media.spray import TYRE_WIDTH_M, film_depth_mm
from parhelion.weather.parts import value_at
from parhelion.weather.plume import DustPlume, Ground, Particles
from parhelion.weather.spray_plume import SprayPlume

if TYPE_CHECKING:
    from parhelion.weather.parts import Amount
    from parhelion.weather.weather import Weather

SLOTS = 4
"""Grids per medium. Plumes of more vehicles share grids, so that kernels do not grow with the number of vehicles."""
PARCELS_PER_S = 500.0
"""Parcels of one vehicle, as in a trail."""
SHARED_BY = 4
"""Number of vehicles with all of their parcels; more vehicles share these, with LEAST_PARCELS_PER_S or more each."""
LEAST_PARCELS_PER_S = 50.0
_CACHED = 4


class Raiser(Protocol):
    """A vehicle that raises a medium."""

    @property
    def name(self) -> str:
        """Name of the vehicle."""
        ...

    @property
    def words(self) -> str:
        """Settings as text, for reports."""
        ...

    def particles(self, weather: Weather, time: float, parcels_per_s: float) -> Particles:
        """Parcels emitted until a time [s]."""
        ...


@dataclass(frozen=True, eq=False)
class Chassis:
    """Size of a vehicle that raises dust or spray, and its motion on the ground."""

    name: str
    motion: Trajectory
    """Motion of the vehicle's frame, x forward; known up to the time of a query."""
    ground: Ground
    """Height of the ground below points, and 1 where the ground emits, otherwise 0."""
    weight_kg: float = 2000.0
    width_m: float = 2.0
    length_m: float = 5.0
    height_m: float = 1.5


@dataclass(frozen=True, eq=False)
class DustRaiser:
    """A vehicle that raises dust on unpaved ground."""

    vehicle: Chassis
    silt_percent: float = 8.5
    moisture_percent: float = 0.2

    @property
    def name(self) -> str:
        """Name of the vehicle."""
        return self.vehicle.name

    @property
    def words(self) -> str:
        """Settings as text, for reports."""
        return f"{self.vehicle.weight_kg:g} kg, silt {self.silt_percent:g} %, moisture {self.moisture_percent:g} %"

    def particles(self, weather: Weather, time: float, parcels_per_s: float) -> Particles:
        """Parcels emitted until a time [s]; none from wet ground."""
        one = self.vehicle
        plume = DustPlume(
            one.motion,
            0.0,
            np.inf,
            seed=weather.seed,
            name=f"raised/{one.name}",
            weight_kg=one.weight_kg,
            silt_percent=self.silt_percent,
            moisture_percent=self.moisture_percent,
            width_m=one.width_m,
            length_m=one.length_m,
            ground=one.ground,
            live=True,
            wind_m_s=weather.wind_m_s,
            parcels_per_s=parcels_per_s,
        )
        return plume.particles(-1.0 if weather.is_wet else time)


@dataclass(frozen=True, eq=False)
class SprayRaiser:
    """A vehicle that raises spray on wet paved roads."""

    vehicle: Chassis
    film_mm: float | None = None
    """Depth of water on the road; None for that of the rain at each time."""
    tyre_width_m: float = TYRE_WIDTH_M

    @property
    def name(self) -> str:
        """Name of the vehicle."""
        return self.vehicle.name

    @property
    def words(self) -> str:
        """Settings as text, for reports."""
        return "film of the rain" if self.film_mm is None else f"film of {self.film_mm:g} mm"

    def particles(self, weather: Weather, time: float, parcels_per_s: float) -> Particles:
        """Parcels emitted until a time [s]."""
        one, rain = self.vehicle, weather.rain

        def film(times: Floats) -> Floats:
            if self.film_mm is not None:
                return np.full(times.shape, self.film_mm)
            return np.zeros(times.shape) if rain is None else film_depth_mm(value_at(rain.rate_mm_h, times))

        plume = SprayPlume(
            one.motion,
            one.ground,
            film,
            weather.seed,
            one.name,
            one.width_m,
            one.length_m,
            one.height_m,
            self.tyre_width_m,
            weather.wind_m_s,
            parcels_per_s,
        )
        return plume.particles(time)


class Raised:
    """A medium that vehicles raise, as density on a fixed number of grids.

    Args:
        raisers: Vehicles.
        extinction_m2_kg: Extinction per mass.
        parcels_per_s: Parcels of one vehicle, if there are few.
        lumps_per_s: Lumps of one vehicle, of several parcels each; a parcel is a lump by default.
    """

    def __init__(
        self,
        raisers: Sequence[Raiser],
        extinction_m2_kg: float = VEHICLE_DUST_EXTINCTION_M2_KG,
        parcels_per_s: float = PARCELS_PER_S,
        lumps_per_s: float | None = None,
    ) -> None:
        self.raisers, self.extinction_m2_kg = tuple(raisers), extinction_m2_kg
        share = parcels_per_s * SHARED_BY / max(len(self.raisers), 1)
        self.parcels_per_s = float(np.clip(share, LEAST_PARCELS_PER_S, parcels_per_s))
        # As many lumps per cell as those of a single vehicle, so that fewer parcels do not make a plume lumpier.
        lumps = parcels_per_s if lumps_per_s is None else lumps_per_s
        self.cell_m = CELL_M * float(np.cbrt(lumps / min(lumps, self.parcels_per_s)))
        self._grids: dict[Any, tuple[DensityGrid, ...]] = {}

    def parts(self) -> tuple[RaisedPart, ...]:
        """Parts of a weather, one per grid."""
        return tuple(RaisedPart(self, slot) for slot in range(min(len(self.raisers), SLOTS)))

    def restart(self) -> None:
        """Forget the plumes of an earlier run, whose motions differ."""
        self._grids.clear()

    def particles(self, weather: Weather, time: float) -> list[Particles]:
        """Parcels of each vehicle at a time [s], including those on the ground."""
        return [one.particles(weather, time, self.parcels_per_s) for one in self.raisers]

    def grids(self, weather: Weather, time: float) -> tuple[DensityGrid, ...]:
        """Density of the airborne parcels at a time [s]; empty if there are none, otherwise as many as slots."""
        rain = weather.rain
        key = time, weather.wind_m_s, weather.seed, weather.is_wet, None if rain is None else rain.rate_mm_h
        if key not in self._grids:
            if len(self._grids) >= _CACHED:  # bands of a camera, and sensors that measure at the same time
                self._grids.pop(next(iter(self._grids)))
            self._grids[key] = self._made(weather, time)
        return self._grids[key]

    def _made(self, weather: Weather, time: float) -> tuple[DensityGrid, ...]:
        plumes = [one.airborne for one in self.particles(weather, time)]
        if not any(len(plume.mass_kg) for plume in plumes):
            return ()
        if len(plumes) <= SLOTS:
            groups = [[row] for row in range(len(plumes))]
        else:
            seen = [row for row, plume in enumerate(plumes) if len(plume.mass_kg)]
            groups = neighbours(np.array([plumes[row].xyz[:, :2].mean(axis=0) for row in seen]), np.array(seen))
        return tuple(
            DensityGrid.from_parcels(
                np.concatenate([np.zeros((0, 3)), *(plumes[row].xyz for row in group)]),
                np.concatenate([np.zeros(0), *(plumes[row].optical_mass_kg for row in group)]),
                cell_m=self.cell_m,
            )
            for group in groups
        )


def neighbours(places: Floats, rows: NDArray[np.int64], count: int = SLOTS) -> list[list[int]]:
    """Divide rows at places (n, 2) into `count` groups, a power of two, by halving along the longer side."""
    if count == 1:
        return [rows.tolist()]
    if len(rows) == 0:
        return [[] for _ in range(count)]
    order = np.argsort(places[:, int(np.argmax(np.ptp(places, axis=0)))], kind="stable")
    half = (len(rows) + 1) // 2
    return [
        group for some in (order[:half], order[half:]) for group in neighbours(places[some], rows[some], count // 2)
    ]


@dataclass(frozen=True, eq=False)
class RaisedPart:
    """One grid of a medium that vehicles raise, as a part of a weather."""

    raised: Raised
    slot: int
    kind: str = "plume"
    padded: bool = True
    """True if an empty grid counts, so that the number of grids stays the same while vehicles start and stop."""

    @property
    def mass_extinction_m2_kg(self) -> float:
        """Extinction per mass [m^2/kg]."""
        return self.raised.extinction_m2_kg

    def grid(self, weather: Weather, time: float) -> DensityGrid | None:
        """Density at a time [s]; None if no vehicle has anything in the air."""
        grids = self.raised.grids(weather, time)
        return grids[self.slot] if grids else None

    def is_there(self, amount: Amount, time: float | None = None) -> bool:
        """Return True from the start of the run."""
        return time is None or time > 0.0

    def is_constant(self, amount: Amount) -> bool:
        """Return False: a plume grows and settles."""
        return False

    def summary(self, name: str, amount: Amount) -> tuple[str, str, str]:
        """Vehicles and settings for a report."""
        raisers = self.raised.raisers
        if len(raisers) <= SLOTS:
            return f"{name} behind {raisers[self.slot].name}", raisers[self.slot].words, "while it drives"
        return f"{name} behind {len(raisers)} vehicles", f"grid {self.slot + 1} of {SLOTS}", "while they drive"
