"""Dust in scans, and what surfaces hide of the air. Noise is off throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.weather.air import air_contents
from rigs import add_wall, many_beams, one_beam, sheet, wall
from weather_rigs import BEAM, DUST, NM, RECEIVER, SNOW, STRONG, SURFACE, depth, fan, seen

# ---- dust ----------------------------------------------------------------------------------------------------------


def cloud(centre: Any, half: Any, density: float = 3e-5, **values: Any) -> ph.DustCloud:
    return ph.DustCloud(centre_m=tuple(centre), half_size_m=tuple(half), density_kg_m3=density, **values)


DUST_CLOUDS = {
    "wide": [cloud((25, 0, 0), (10, 12, 5))],
    "small and far": [cloud((45, 4, 0.5), (1, 3, 2), 1e-4)],
    "around the sensor": [cloud((0, 0, 0), (8, 8, 4))],
    "behind the wall in part": [cloud((55, 0, 0), (8, 20, 6))],
    "two, one behind the other": [
        cloud((20, 2, 0), (3, 6, 3)),
        cloud((42, 1, 0), (2, 6, 3), mass_extinction_m2_kg=650),
    ],
}


@pytest.mark.parametrize("name", DUST_CLOUDS)
@pytest.mark.parametrize("offset", [0.0, 1.0e6])
def test_dust_dims_as_its_grid_says(name: str, offset: float) -> None:
    shift = np.array([offset, -0.5 * offset, 0.0])
    weather = ph.Weather(
        dust=[
            part.model_copy(update={"centre_m": tuple(np.array(part.centre_m) + shift)}) for part in DUST_CLOUDS[name]
        ]
    )
    config = sheet(pattern=fan(), range=STRONG)
    world = ph.World()
    world.add(ph.shapes.box(0.1, 200, 60), material="lambert-90", pose=ph.Pose(shift + np.array([55.05, 0, 0])))
    way = ph.Lidar(config).shots().direction.astype(float)
    length = 55.0 / way[:, 0]
    grids = air_contents(weather, 0.0, NM).grids
    expected = sum(
        one.grid.optical_depth(shift, way / np.linalg.norm(way, axis=1)[:, None], length, one.per_mass) for one in grids
    )
    found = depth(weather, world, config, pose=ph.Pose(shift))
    assert expected.max() > 0.1
    assert np.max(np.abs(found - expected)) < 0.01 * expected.max() + 1e-3
    assert np.all(found[expected == 0] < 1e-3)


def test_a_ray_through_the_middle_meets_its_closed_form() -> None:
    """16/15 of the central density times the half size."""
    tau = depth(ph.Weather(dust=[cloud((30, 0, 0), (4, 4, 4), 2e-5)]), wall(60.0), one_beam(range=STRONG))
    assert tau == pytest.approx(2600 * 2e-5 * 4 * 16 / 15, rel=0.01)


def test_dust_drifts_with_the_wind_if_enabled() -> None:
    config, moved = one_beam(range=STRONG), cloud((30, -20, 0), (4, 4, 4), drifts=True)
    weather = ph.Weather(dust=[moved], wind_m_s=(0, 2, 0))
    full = depth(ph.Weather(dust=[cloud((30, 0, 0), (4, 4, 4))]), wall(60.0), config)
    assert depth(weather, wall(60.0), config, time=0.0) == pytest.approx(0.0, abs=1e-6)
    assert depth(weather, wall(60.0), config, time=10.0) == pytest.approx(full, rel=1e-3)


def test_points_of_dust_lie_in_the_cloud_and_before_the_wall() -> None:
    clouds = [cloud((20, 0, 0), (5, 6, 3), 1e-4), cloud((47, -22, 0), (2, 4, 3), 3e-4)]
    config = sheet(pattern=fan(120, 8), beam=BEAM, receiver={"returns": "first", **RECEIVER})
    scan = seen(ph.Weather(dust=clouds), wall(48.0, size=120.0), config, seed=1)
    dust = scan.xyz[scan.origin == DUST]
    assert len(dust) > 150
    inside = [np.sum(((dust - part.centre_m) / (np.array(part.half_size_m) + 0.7)) ** 2, axis=1) < 1 for part in clouds]
    assert np.all(inside[0] | inside[1])
    assert inside[0].sum() > 50
    assert inside[1].sum() > 10
    assert np.all(dust[:, 0] < 48.0)
    behind = seen(ph.Weather(dust=[cloud((60, 0, 0), (5, 30, 5), 1e-3)]), wall(48.0, size=120.0), config)
    assert np.all(behind.origin == SURFACE)


def test_a_vehicle_leaves_a_trail_of_dust_that_settles() -> None:
    trail = ph.DustTrail(path=[[0, -60, 30, -1.8], [30, 240, 30, -1.8]], weight_kg=15000, silt_percent=12)
    world = ph.World()
    world.add(ph.shapes.plane(1000, 1000), material="soil", pose=ph.Pose((0, 0, -1.8)))
    pattern = {**fan(360, 16, 179.0), "elevation_deg": (-3, 6)}
    config = sheet(
        pattern=pattern, beam=BEAM, receiver={"returns": "first", **RECEIVER}, range={**STRONG, "max_m": 200}
    )
    pose = ph.Pose((130, 0, 0))
    for time in (10.0, 30.0):
        scan = seen(ph.Weather(dust=[trail]), world, config, time=time, pose=pose)
        dust = scan.in_world().xyz[scan.origin == DUST]
        assert len(dust) > 15
        vehicle = -60 + 10 * time
        # Raised within the last ten seconds, thrown some metres ahead and to the sides.
        assert np.all((dust[:, 0] > vehicle - 105) & (dust[:, 0] < vehicle + 15))
        assert np.all(np.abs(dust[:, 1] - 30) < 15)
        assert np.all(dust[:, 2] < 12)
    for time in (0.0, 41.0):
        assert not np.any(seen(ph.Weather(dust=[trail]), world, config, time=time, pose=pose).origin == DUST)


# ---- what lies behind a surface is not there -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "weather",
    [
        ph.Weather(rain_rate_mm_h=200),
        ph.Weather(snow_rate_mm_h=30),
        ph.Weather(visibility_m=30),
        ph.Weather(fog=ph.Fog(visibility_m=30, heterogeneity=ph.Heterogeneity(scale_m=10))),
        ph.Weather(dust=[cloud((10, 0, 0), (5, 5, 5), 1e-3)]),
    ],
)
@pytest.mark.parametrize("material", ["lambert-50", "lambert-5"])
def test_surfaces_hide_the_air_behind_them(weather: ph.Weather, material: str) -> None:
    # Of fog, which is everywhere, the last return is the one that a surface would hide.
    returns = "all" if weather.fog is None else "last"
    config = many_beams(2000, beam=BEAM, receiver={"returns": returns, "max_returns": 8, **RECEIVER})
    open_air = seen(weather, ph.World(), config, seed=6)
    assert np.mean(open_air.range > 1.2) > 0.2
    hidden = seen(weather, wall(1.2, material, size=3.0), config, seed=6)
    assert np.all(hidden.range[hidden.origin != SURFACE] < 1.2)
    assert np.all(hidden.range < 1.3)


def test_what_lies_beside_a_small_surface_is_there() -> None:
    """Half of the beam passes the edge of a board: drops behind it can be seen there."""
    config = many_beams(
        5000, beam={**BEAM, "divergence_mrad": (20, 20)}, receiver={"returns": "last", **RECEIVER}, range=STRONG
    )
    world = ph.World()
    add_wall(world, 1.5, "lambert-5", size=2.0, y=1.0)
    scan = seen(ph.Weather(snow_rate_mm_h=30), world, config, seed=6)
    assert np.any((scan.origin == SNOW) & (scan.range > 2.0))
