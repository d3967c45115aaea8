"""Weather on recordings is the physics of scans in weather: what is dimmed, lost, added, and where."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import parhelion as ph
from chance import LIKELY, deviations
from parhelion.core.clouds import ORIGINS
from parhelion.makers.scales import scale_called
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.weather.air import air_contents
from parhelion.weather.media.fog import fog_extinction
from rigs import many_beams, sheet, wall
from weather_rigs import BEAM, BLOWN, DUST, FOG, NM, RAIN, SNOW, STRONG, SURFACE, of_origin, summed, yard

VLP = "velodyne/vlp-16"

# ---- what stays and what changes -----------------------------------------------------------------------------------


def test_points_that_stay_are_exact_in_fog() -> None:
    """Coordinates unchanged; intensity falls as exp(-2 alpha R) on a scale of reflectivity, in steps of 1."""
    sensor = ph.Lidar(VLP)
    scan = sensor.scan(yard(), pose=ph.Pose(), seed=1)
    alpha = fog_extinction(1500.0, wavelength_nm=903.0)
    wet = ph.Weather(visibility_m=1500).apply(scan, sensor=VLP, seed=2)
    row = {shot: k for k, shot in enumerate(scan.shot.tolist())}
    kept = np.flatnonzero(wet.origin == SURFACE)
    before = np.array([row[shot] for shot in wet.shot[kept].tolist()])
    assert len(kept) > 0.95 * len(scan)
    assert np.max(np.abs(wet.xyz[kept] - scan.xyz[before])) < 1e-4
    assert np.max(np.abs(wet.range[kept] - scan.range[before])) < 1e-4
    for name in ("ring", "column", "time", "label", "material", "instance", "velocity", "shot"):
        assert np.array_equal(wet.fields[name][kept], scan.fields[name][before]), name
    left = np.exp(-2 * alpha * scan.range[before])
    power, share = scan.power[before] * left, scan.reflectivity[before] * left
    expected = scale_called("velodyne").encode(power, share, 1.0)
    plain = (scan.intensity[before] >= 1) & (scan.intensity[before] <= 100)
    assert plain.mean() > 0.95
    # Reflectivity follows from the recorded range, whose noise of 3 cm counts twice.
    noise = 2 * deviations(len(kept)) * 0.03 * expected / scan.range[before]
    assert np.all((np.abs(wet.intensity[kept] - expected) < 0.502 + noise)[plain])
    assert wet.power[kept] == pytest.approx(power, rel=1e-3)
    assert wet.reflectivity[kept] == pytest.approx(share, rel=1e-3)
    assert np.all(wet.intensity[kept][plain] <= scan.intensity[before][plain])


def test_what_falls_below_the_threshold_is_lost() -> None:
    config = sheet(
        pattern={
            "kind": "raster",
            "rate_hz": 10,
            "azimuth_deg": (0, 0),
            "elevation_deg": (0, 0),
            "columns": 1,
            "rows": 1,
        }
    )
    distance = np.linspace(5, 95, 400)
    xyz = np.stack([distance, 0 * distance, 0 * distance], axis=1)
    cloud = ph.PointCloud(xyz, {"intensity": np.full(400, 0.9, np.float32)})
    weather = ph.Weather(visibility_m=300)
    wet = weather.apply(cloud, sensor=ph.Lidar(config, returns="last", noise=False))
    alpha = fog_extinction(300.0)
    survives = (100 / distance) ** 2 * np.exp(-2 * alpha * distance) >= 1
    assert wet.xyz[of_origin(wet, SURFACE), 0] == pytest.approx(distance[survives], abs=1e-5)
    assert wet.xyz.dtype == np.float64


@pytest.mark.parametrize(
    "preset", ["ouster/os1-32", "livox/mid-360", "hesai/pandar64", "robosense/rs-16", "sick/lms-111"]
)
def test_every_vendors_scale_is_dimmed_alike(preset: str) -> None:
    """Power in weather over power in clear air is exp(-2 alpha R), whatever the recorded number means."""
    sensor = ph.Lidar(preset, sub_rays=1, noise=False)
    scan = sensor.scan(yard(), pose=ph.Pose(), seed=1)
    alpha = fog_extinction(3000.0, wavelength_nm=sensor.config.wavelength_nm)
    fields = {name: scan.fields[name] for name in ("intensity", "power", "shot")}
    wet = ph.Weather(visibility_m=3000).apply(ph.PointCloud(scan.xyz, fields), sensor=sensor, seed=1)
    kept = of_origin(wet, SURFACE)
    strong = np.zeros(len(scan.shots))
    strong[scan.shot] = scan.power
    before = strong[wet.shot[kept]]
    expected = before * np.exp(-2 * alpha * np.linalg.norm(wet.xyz[kept], axis=1))
    # Whole intensities resolve dark surfaces only coarsely.
    bright = before > 5
    assert bright.sum() > 30
    ratio = wet.power[kept][bright] / expected[bright]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.03)


STILL = ph.Weather(rain=BLOWN.rain, fog=BLOWN.fog, snow=BLOWN.snow, dust=BLOWN.dust)
"""All kinds without wind: over a recording the weather stands still, while scans meet it as it blows by. In 3 m/s it
moves by 0.3 m within a scan, which changes the mean power of fog's echoes by a percent or two."""

# ---- the same physics as in scans ----------------------------------------------------------------------------------


def plain_lidar(returns: str, noise: bool) -> ph.Lidar:
    """Without rounding, so that the recording is complete."""
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (-180, 179.1), "elevation_deg": (-14, 14), "columns": 400,
        "rows": 16,
    }  # fmt: skip
    receiver = {"returns": returns, "max_returns": 3, "pulse_length_ns": 6.0}
    config: LidarConfig = sheet(pattern=pattern, beam=BEAM, receiver=receiver)
    return ph.Lidar(config, noise=noise)


def both_ways(
    weather: ph.Weather, pose: ph.Pose, returns: str = "strongest", *, noise: bool = False
) -> tuple[ph.Scan, ph.PointCloud]:
    """A scan simulated in weather, and the clear scan with the weather applied afterwards."""
    world, sensor = ph.World("copy"), plain_lidar(returns, noise)
    world.add(ph.shapes.plane(90, 90), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.8)))
    for turn in (0, 90, 180):
        at = ph.Pose(rpy_deg=(0, 0, turn)) @ ph.Pose((25 + turn / 20, 0, 0))
        world.add(ph.shapes.box(1, 40, 8), material="lambert-50", label="building", pose=at)
    clear = sensor.scan(world, pose=pose, seed=1)
    world.weather = weather
    return sensor.scan(world, pose=pose, seed=2), weather.apply(clear, sensor=sensor, seed=3, pose=pose)


def agree(a: int, b: int) -> bool:
    """Return True if two independent counts are consistent with draws of one Poisson law."""
    return bool(abs(a - b) <= deviations() * np.sqrt(a + b + 1))


@pytest.mark.parametrize(
    "weather",
    [
        ph.Weather(rain_rate_mm_h=80),
        ph.Weather(snow_rate_mm_h=4),
        ph.Weather(visibility_m=300),
        ph.Weather(visibility_m=60),
        ph.Weather(rain=ph.Rain(rate_mm_h=20, model="vane")),
        ph.Weather(rain=ph.Rain(rate_mm_h=20, model="goodin2019")),
        STILL,
    ],
)
@pytest.mark.parametrize("noise", [False, True])
def test_a_recording_in_weather_is_like_a_scan_in_it(weather: ph.Weather, noise: bool) -> None:
    """Number, range and power of the points of every origin, with weak echoes that noise lets pass or hides too."""
    pose = ph.Pose((2.0, 1.0, 0.0), rpy_deg=(0, 0, 30))
    simulated, applied = both_ways(weather, pose, noise=noise)
    for origin in (SURFACE, RAIN, FOG, SNOW, DUST):
        a, b = (int((cloud.fields["origin"] == origin).sum()) for cloud in (simulated, applied))
        assert agree(a, b), (ORIGINS[origin], a, b)
    for origin in (SURFACE, RAIN, FOG, SNOW):
        a, b = (cloud.select(cloud.fields["origin"] == origin) for cloud in (simulated, applied))
        if len(a) > 300:
            for name in ("range", "power"):
                x, y = np.log(a.fields[name].astype(float)), np.log(b.fields[name].astype(float))
                error = np.hypot(x.std() / np.sqrt(len(a)), y.std() / np.sqrt(len(b)))
                assert abs(x.mean() - y.mean()) < deviations() * error, (ORIGINS[origin], name)


@pytest.mark.parametrize("weather", [ph.Weather(rain_rate_mm_h=100), ph.Weather(snow_rate_mm_h=3)])
def test_weak_drops_add_up_and_pass_with_noise_as_in_scans(weather: ph.Weather) -> None:
    sensor, world = ph.Lidar(many_beams(40_000, beam=BEAM)), ph.World()
    clear = sensor.scan(world, pose=ph.Pose(), seed=1)
    world.weather = weather
    simulated, applied = sensor.scan(world, pose=ph.Pose(), seed=2), weather.apply(clear, sensor=sensor, seed=3)
    assert agree(len(simulated), len(applied))
    assert stats.ks_2samp(simulated.range, applied.range).pvalue > LIKELY
    assert stats.ks_2samp(simulated.power, applied.power).pvalue > LIKELY


@pytest.mark.parametrize("photons", [None, 9.0])
@pytest.mark.parametrize("clear_power", [0.9, 1.1, 1.5])
def test_near_the_threshold_as_many_are_lost_as_in_scans(clear_power: float, photons: float | None) -> None:
    """The noise of a point in clear air is not drawn again; without weather no point is lost."""
    sensor = ph.Lidar(many_beams(20_000, receiver={"returns": "last", "threshold_photons": photons}))
    world = wall(100.0 * np.sqrt(0.5 / 0.9 / clear_power))
    clear = sensor.scan(world, pose=ph.Pose(), seed=1)
    assert clear.power == pytest.approx(np.full(len(clear), clear_power), rel=1e-3)
    assert len(ph.Weather(visibility_m=300_000).apply(clear, sensor=sensor, seed=3)) > 0.99 * len(clear)
    for visibility in (50_000.0, 10_000.0, 3_000.0):
        world.weather = ph.Weather(visibility_m=visibility)
        simulated = sensor.scan(world, pose=ph.Pose(), seed=2)
        applied = world.weather.apply(clear, sensor=sensor, seed=3)
        simulated, applied = (cloud.select(of_origin(cloud, SURFACE)) for cloud in (simulated, applied))
        assert np.all(applied.power < clear_power)
        assert agree(len(simulated), len(applied)), visibility


def test_in_fog_the_surviving_surfaces_are_the_very_same() -> None:
    simulated, applied = both_ways(ph.Weather(visibility_m=500), ph.Pose(), "last")
    power = []
    for cloud in (simulated, applied):
        values, surface = np.zeros(len(simulated.shots)), cloud.fields["origin"] == SURFACE
        values[cloud.fields["shot"][surface]] = cloud.fields["power"][surface]
        power.append(values)
    assert np.mean((power[0] > 0) == (power[1] > 0)) > 0.999
    both = (power[0] > 0) & (power[1] > 0)
    assert both.sum() > 2000
    # Beams on the ground hold a stretch of ranges, of which a recording keeps the mean.
    assert np.median(np.abs(power[1][both] / power[0][both] - 1)) < 1e-4
    assert np.max(np.abs(power[1][both] / power[0][both] - 1)) < 0.05


def test_heterogeneous_fog_and_dust_are_where_the_pose_says() -> None:
    """One column of points ahead: their dimming is the integral from where the sensor stood, turned as it was."""
    cloud = ph.DustCloud(centre_m=(0, 20, 0), half_size_m=(3, 3, 3), density_kg_m3=4e-5)
    weather = ph.Weather(
        fog=ph.Fog(visibility_m=400, heterogeneity=ph.Heterogeneity(scale_m=20, contrast=0.8)), dust=[cloud], seed=3
    )
    sensor = ph.Lidar(sheet(range=STRONG, receiver={"returns": "last"}))
    pose = ph.Pose((0.0, 5.0, 0.0), rpy_deg=(0, 0, 90))  # looks along y, through the cloud
    azimuth = np.linspace(-0.5, 0.5, 60)
    xyz = 40.0 * np.stack([np.cos(azimuth), np.sin(azimuth), 0 * azimuth], axis=1).astype(np.float32)
    record = ph.PointCloud(xyz, {"intensity": np.full(60, 0.5, np.float32), "power": np.zeros(60, np.float32)})
    wet = weather.apply(record, sensor=sensor, pose=pose)
    kept = wet.select(of_origin(wet, SURFACE))
    assert len(kept) == 60
    clear = 0.5 / 0.9 * (1000 / 40) ** 2
    tau = -0.5 * np.log(kept.power / clear)
    way = (pose.apply(xyz.astype(float)) - pose.xyz) / 40.0
    fog = summed(ph.Weather(fog=weather.fog, seed=3), pose.xyz, way, np.full(60, 40.0))
    (placed,) = air_contents(weather, 0.0, NM).grids
    grid, per_mass = placed.grid, placed.per_mass
    passed = np.asarray(grid.optical_depth(pose.xyz, way, np.full(60, 40.0), per_mass))
    assert np.ptp(fog + passed) > 0.1
    # Fog is the sum of its steps; dust is summed in 32 steps through its grid, see the test of dust in scans.
    assert np.max(np.abs(tau - fog - passed)) < 0.01 * passed.max() + 1e-3
    elsewhere = weather.apply(record, sensor=sensor, pose=ph.Pose((300.0, 77.0, 0.0)))
    assert not np.allclose(elsewhere.power[of_origin(elsewhere, SURFACE)], kept.power, rtol=0.05)
