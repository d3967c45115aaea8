"""Effects of weather on scans, against closed forms and independent integrals. Noise is off throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import parhelion as ph
from chance import LIKELY, deviations, unsalted
from parhelion.core.config import parse
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.weather.air import air_contents
from parhelion.weather.media.fog import fog_extinction
from parhelion.weather.media.rain import (
    RAIN_MODELS,
    rain_extinction,
    rain_range_shift,
    range_in_extinction,
    vane_longest_range,
)
from parhelion.weather.media.snow import snow_extinction
from parhelion.weather.volume_echo import soft_echo
from rigs import add_wall, many_beams, one_beam, sheet, wall
from weather_rigs import (
    BEAM,
    FOG,
    NM,
    RECEIVER,
    STRONG,
    SURFACE,
    depth,
    fan,
    open_at_1_m,
    seen,
    shares_taken,
    summed,
)

# ---- extinction of even weather ------------------------------------------------------------------------------------


@pytest.mark.parametrize("beam", [{}, BEAM])
@pytest.mark.parametrize(
    ("model", "visibility"), [("kim", 50.0), ("kim", 700.0), ("kruse", 200.0), ("hahner2021", 100.0)]
)
def test_fog_dims_by_beer_and_lambert(beam: dict[str, Any], model: str, visibility: float) -> None:
    weather = ph.Weather(fog=ph.Fog(visibility_m=visibility, model=model))
    alpha = fog_extinction(visibility, model)
    for distance in (12.0, 30.0):
        config = one_beam(range=STRONG, **({"beam": beam} if beam else {}))
        tau = depth(weather, wall(distance), config)
        assert np.exp(-2 * tau) == pytest.approx(np.exp(-2 * alpha * distance), rel=1e-4)


@pytest.mark.parametrize("model", [name for name in RAIN_MODELS if name != "vane"])
def test_rain_dims_by_its_model(model: str) -> None:
    """Beams without width hold no drops, so that nothing is left to chance."""
    weather = ph.Weather(rain=ph.Rain(rate_mm_h=25, model=model))
    tau = depth(weather, wall(30.0), one_beam(range=STRONG))
    assert tau == pytest.approx(30.0 * rain_extinction(25, model), rel=1e-4)


def test_snow_dims_and_extinctions_add() -> None:
    parts = {"rain_rate_mm_h": 40, "visibility_m": 300, "snow_rate_mm_h": 4}
    alone = [depth(ph.Weather(**{name: value}), wall(30.0), one_beam(range=STRONG)) for name, value in parts.items()]
    expected = [30.0 * value for value in (rain_extinction(40), fog_extinction(300.0), snow_extinction(4))]
    assert np.concatenate(alone) == pytest.approx(expected, rel=1e-4)
    together = depth(ph.Weather(**parts), wall(30.0), one_beam(range=STRONG))
    assert together == pytest.approx(sum(alone), rel=1e-4)


def test_the_air_in_which_ranges_were_rated_stays() -> None:
    rated = [{"reflectance": 0.9, "range_m": 1000.0}, {"reflectance": 0.1, "range_m": 350.0}]
    config = one_beam(range={**STRONG, "rated": rated})
    assert ph.Lidar(config).system_constant.gamma_per_m > 1e-5
    assert depth(ph.Weather(visibility_m=300), wall(40.0), config) == pytest.approx(
        40 * fog_extinction(300.0), rel=1e-4
    )


# ---- range shifts --------------------------------------------------------------------------------------------------


def test_rain_shifts_ranges_by_less_than_twenty_centimetres_and_more_where_it_rains_more() -> None:
    shifts = []
    for rate in (1.0, 10.0, 50.0, 200.0):
        # Drops alone shift nothing: the shift of Filgueira et al. 2017 is asked for by name.
        plain = seen(ph.Weather(rain_rate_mm_h=rate), wall(60.0), one_beam(range=STRONG), returns="last")
        assert plain.range[0] == pytest.approx(60.0, abs=2e-5)
        rain = ph.Rain(rate_mm_h=rate, range_shift="filgueira2017")
        scan = seen(ph.Weather(rain=rain), wall(60.0), one_beam(range=STRONG), returns="last")
        shifts.append(float(scan.range[0]) - 60.0)
        assert shifts[-1] == pytest.approx(rain_range_shift(60.0 * rain_extinction(rate)), abs=2e-5)
    assert np.all(np.diff([0.0, *shifts]) > 1e-3)
    assert shifts[-1] < 0.2


def test_fog_snow_and_dust_leave_ranges_alone() -> None:
    dust = ph.DustCloud(centre_m=(15, 0, 0), half_size_m=(4, 4, 4), density_kg_m3=3e-5)
    weather = ph.Weather(visibility_m=300, snow_rate_mm_h=3, dust=[dust])
    assert seen(weather, wall(30.0), one_beam(range=STRONG), returns="last").range[0] == pytest.approx(30.0, abs=1e-4)


# ---- how far it sees -----------------------------------------------------------------------------------------------


def board_fan(config: LidarConfig, nearest: float, farthest: float) -> tuple[ph.World, np.ndarray]:
    """A white board straight before each level beam of a sensor, each a little farther away than the last."""
    shots = ph.Lidar(config).shots()
    axis = shots.direction.astype(float)
    distance = np.geomspace(nearest, farthest, len(axis))
    left, up = np.cross([0.0, 0.0, 1.0], axis) * 0.004, np.array([0.0, 0.0, 0.004])
    corners = [axis + a * left + b * up for a, b in ((1, -1), (-1, -1), (-1, 1), (1, 1))]
    vertices = np.stack(corners, axis=1) * distance[:, None, None]
    first = 4 * np.arange(len(axis))[:, None]
    faces = np.concatenate([first + np.array(corners) for corners in ([0, 1, 2], [0, 2, 3])])
    world = ph.World()
    world.add((vertices.reshape(-1, 3), faces), material="lambert-90")
    return world, distance


def longest(world: ph.World, distance: np.ndarray, lidar: ph.Lidar, weather: ph.Weather | None, frames: int) -> float:
    """Distance of the farthest board that any of some frames returns."""
    world.weather = weather
    scans = lidar.scan_many(world, [ph.Pose()] * frames, frames=range(frames))
    return float(max(distance[scan.shot[scan.origin == SURFACE]].max(initial=0.0) for scan in scans))


def level(rated_m: float) -> LidarConfig:
    pattern = {**fan(500, 1, 170.0), "elevation_deg": (0, 0)}
    limits = {"min_m": 1.0, "max_m": 150, "rated": [{"reflectance": 0.9, "range_m": rated_m}]}
    return sheet(pattern=pattern, beam={**BEAM, "divergence_mrad": (0.5, 0.5)}, range=limits)


@pytest.mark.parametrize("rate", [1.0, 6.4, 25.4])
def test_longest_range_of_a_white_board_in_vanes_rain(rate: float) -> None:
    config = level(120.0)
    expected = vane_longest_range(rate, 120.0)
    world, distance = board_fan(config, 0.8 * expected, 1.2 * expected)
    weather = ph.Weather(rain=ph.Rain(rate_mm_h=rate, model="vane"))
    frames = 60
    found = longest(world, distance, ph.Lidar(config, noise=False), weather, frames)
    # A pulse meets U of the extinction 0.003 rate, U even in (0.5, 1), and sees a board at d where
    # (120 / d)^2 exp(-0.006 rate U d) is at least 1. The most favourable pulse gives the longest range. Where boards
    # beyond a distance are expected to be seen 9.2 times in all frames, none is with a chance of exp(-9.2).
    most_noise = np.log(120.0 / distance) / (0.003 * rate * distance)
    seen_often = frames * np.cumsum(np.clip((most_noise - 0.5) / 0.5, 0.0, 1.0)[::-1])[::-1]
    # A beam that holds no drop is spared their part of the depth, and sees farther by exp(it) at most.
    drops, share = shares_taken("rain", rate, config)
    farthest = 1.001 * expected * np.exp(drops * share.mean())
    assert distance[seen_often > -np.log(LIKELY)].max() <= found < farthest


@pytest.mark.parametrize("model", RAIN_MODELS)
def test_more_rain_shortens_the_range_in_every_model(model: str) -> None:
    config = level(100.0)
    world, distance = board_fan(config, 6.0, 110.0)
    lidar = ph.Lidar(config, noise=False)
    rates = (0.0, 2.0, 10.0, 40.0, 150.0)
    ranges = []
    for rate in rates:
        weather = ph.Weather(rain=ph.Rain(rate_mm_h=rate, model=model))
        ranges.append(longest(world, distance, lidar, weather, 30 if model == "vane" else 1))
        if model != "vane":
            # A beam that holds no drop is spared their part of the depth, and sees farther by exp(it) at most. A drop
            # may hide a board: so many in a row that all of them do with a chance of 1e-4.
            last = range_in_extinction(100.0, rain_extinction(rate, model))
            drops, share = shares_taken("rain", rate, config) if rate > 0 else (0.0, np.zeros(1))
            hidden = np.ceil(np.log(LIKELY) / np.log(-np.expm1(-drops))) if drops > 0 else 0.0
            step = distance[1] / distance[0]
            assert last / step ** (hidden + 1.01) < ranges[-1] < 1.001 * last * np.exp(drops * share.mean())
    assert np.all(np.diff(ranges) < 0)


def test_vanes_table_6_1_in_the_city() -> None:
    """Longest range of a 120 m lidar in a complex scene; retro-reflecting sheeting, which VANE's has not, left out."""
    data = ph.Lidar("velodyne/vlp-16").config.model_dump(mode="python")
    data["range"] |= {"rated": [{"reflectance": 0.9, "range_m": 120.0}], "max_m": 120.0}
    lidar = ph.Lidar(parse(LidarConfig, data, "120 m lidar"))
    with unsalted():
        world = ph.World.load("city")
    assert isinstance(world.path, ph.Waypoints)
    places = zip(*world.path.sample(np.linspace(world.path.times[0], world.path.times[-1], 40)), strict=True)
    poses = [ph.Pose(xyz, quat) for xyz, quat in places]
    found = []
    for rate in (0.0, 1.0, 6.4, 25.4):
        world.weather = ph.Weather(rain=ph.Rain(rate_mm_h=rate, model="vane"))
        best = 0.0
        # In the heaviest rain few surfaces are both near and bright enough: more places are asked there.
        for scan in lidar.scan_many(world, poses if rate > 10 else poses[::3], seed=1):
            sheeting = [number for number, name in scan.names["material"].items() if name == "retro-sheeting"]
            best = max(best, scan.range[(scan.origin == SURFACE) & ~np.isin(scan.material, sheeting)].max())
        found.append(best)
    assert found == pytest.approx([118.8, 116.0, 73.9, 40.4], rel=0.15)


# ---- fog's own echo ------------------------------------------------------------------------------------------------


def fog_scan(returns: str, visibility: float, distance: float = 15.0, **options: Any) -> ph.Scan:
    config = many_beams(300, beam=BEAM, receiver={"returns": returns, **RECEIVER})
    return seen(ph.Weather(visibility_m=visibility), wall(distance), config, seed=4, **options)


@pytest.mark.parametrize("visibility", [50.0, 80.0])
def test_dense_fog_answers_first_and_strongest_while_the_last_return_is_the_wall(visibility: float) -> None:
    for returns in ("first", "strongest"):
        scan = fog_scan(returns, visibility)
        assert np.mean(scan.origin == FOG) > 0.95
        assert np.median(scan.range[scan.origin == FOG]) < 4.0
    last = fog_scan("last", visibility)
    assert np.all(last.origin == SURFACE)
    assert last.range == pytest.approx(np.full(300, 15.0), abs=1e-3)
    dual = fog_scan("dual", visibility)
    assert np.array_equal(dual.origin.reshape(-1, 2), np.tile([FOG, SURFACE], (300, 1)))


def test_fog_too_dense_for_the_wall_leaves_the_fog_alone() -> None:
    clear = 0.5 / 0.9 * (100 / 15) ** 2
    assert clear * np.exp(-2 * 15 * fog_extinction(30.0)) < 1 < clear * np.exp(-2 * 15 * fog_extinction(50.0))
    assert np.all(fog_scan("last", 30.0).origin == FOG)


def test_thin_fog_gives_hardly_any_points() -> None:
    for returns in ("last", "strongest"):
        scan = fog_scan(returns, 1000.0)
        assert np.mean(scan.origin == FOG) < 0.01
        assert len(scan) == 300
    assert len(seen(ph.Weather(visibility_m=5000), ph.World(), many_beams(300, beam=BEAM))) == 0


def test_a_bank_of_fog_answers_where_it_is() -> None:
    """From a hole in the fog the echo comes from where the fog begins, not from before the sensor.

    Ranges and powers are those of the same fog drawn by NumPy: cells of half a pulse, each read at a place of its own,
    each fluctuating by 15 %, of which the strongest is taken.
    """
    heterogeneous = ph.Heterogeneity(scale_m=8, contrast=1.0, octaves=3)
    weather = ph.Weather(fog=ph.Fog(visibility_m=60, heterogeneity=heterogeneous), seed=1)
    air = air_contents(weather, 0.0, NM)
    field = air.components[0].field
    assert field is not None
    hole = np.array(np.unravel_index(field.table[..., 0].argmin(), field.table.shape[:3])) * field.cell_m
    limits = {**STRONG, "max_m": 60.0, "rated": [{"reflectance": 0.9, "range_m": 100}]}
    config = sheet(pattern=fan(144, 4, 180.0), beam=BEAM, receiver={"returns": "strongest", **RECEIVER}, range=limits)
    scan = seen(weather, ph.World(), config, pose=ph.Pose(hole))
    assert np.all(scan.origin == FOG)
    cell, reach, times = 0.5 * 299_792_458.0 * 6e-9, 16.0, 20
    draw = np.random.default_rng(5)
    way, start = scan.shots.direction.astype(float), np.arange(0.5, reach, cell)
    at = start + draw.uniform(size=(len(way), times, len(start))) * cell
    # Even fog before it is dimmed, how dense it is there, and what the way to it takes.
    alpha, grid = fog_extinction(60.0), np.linspace(0.4, reach + cell, 2000)
    signal = soft_echo(
        grid, extinction_per_m=alpha, backscatter_per_m_sr=air.backscatter_per_m_sr, pulse_length_m=2 * cell,
        overlap=open_at_1_m,
    )  # fmt: skip
    even = np.interp(at, grid, signal * np.exp(2 * alpha * grid)) / ph.Lidar(config).system_constant.threshold
    density = field.at((hole + at[..., None] * way[:, None, None, :]).reshape(-1, 3)).reshape(at.shape)
    passed = summed(weather, hole, way, at.reshape(len(way), -1), reach=60.0).reshape(at.shape)
    reading = even * density * np.exp(-2 * passed) * (1 + 0.15 * draw.normal(size=at.shape))
    best = reading.argmax(axis=-1)[..., None]
    found, where = (np.take_along_axis(values, best, -1).ravel() for values in (reading, at))
    passes = found >= 1.0
    share = passes.mean()
    n = len(scan.shots)
    error = np.sqrt(share * (1 - share) * (1 + 1 / times) / n)
    assert len(scan) / n == pytest.approx(share, abs=deviations() * error + 1e-9)
    assert stats.ks_2samp(scan.range, where[passes]).pvalue > LIKELY
    assert stats.ks_2samp(scan.power, found[passes]).pvalue > LIKELY
    # Uniform fog, or a missing hole, would differ from it.
    plain = (even * np.exp(-2 * alpha * at)).argmax(axis=-1)[..., None]
    assert stats.ks_2samp(scan.range, np.take_along_axis(at, plain, -1).ravel()).pvalue < LIKELY


# ---- energy and records --------------------------------------------------------------------------------------------


def test_no_surface_is_brighter_in_fog() -> None:
    world = wall(20.0)
    add_wall(world, 12.0, "retro-sheeting", size=2.0, y=2.0)
    add_wall(world, 8.0, "lambert-5", size=1.0, y=-1.0, turn_deg=50.0)
    config = sheet(pattern=fan(), beam=BEAM, receiver={"returns": "all", "max_returns": 8, **RECEIVER}, range=STRONG)
    clear, foggy = (seen(air, world, config) for air in (None, ph.Weather(visibility_m=2000)))
    surface = foggy.origin == SURFACE
    assert np.array_equal(foggy.shot[surface], clear.shot)
    alpha = fog_extinction(2000.0)
    assert np.all(foggy.power[surface] < clear.power)
    # Returns of several surfaces are a mixture of ranges, so their own range is only nearly the one that counts.
    assert foggy.power[surface] == pytest.approx(clear.power * np.exp(-2 * alpha * clear.range), rel=2e-3)


def test_modes_differ_in_fog() -> None:
    scans = {returns: fog_scan(returns, 60.0) for returns in ("first", "strongest", "last", "dual")}
    assert len(scans["dual"]) == 2 * len(scans["last"])
    assert not np.array_equal(scans["first"].range, scans["last"].range)
    for scan in scans.values():
        assert set(np.unique(scan.origin)) <= {SURFACE, FOG}
        air = scan.origin == FOG
        assert np.all(scan.label[air] == 0)
        assert np.all(scan.material[air] == 65535)


def test_intensity_of_dimmed_surfaces_is_that_of_darker_ones() -> None:
    scan = fog_scan("last", 100.0)
    expected = 0.5 * np.exp(-2 * 15 * fog_extinction(100.0))
    assert scan.reflectivity == pytest.approx(np.full(300, expected), rel=1e-3)
