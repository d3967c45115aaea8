"""Weather on recorded clouds: every form of cloud, remaining points, notes, and the same physics as in scans."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.core.errors import ConfigError
from parhelion.sensors.check import same_bits
from weather_rigs import BLOWN, FOG, RAIN, SNOW, SURFACE, of_origin, yard

VLP = "velodyne/vlp-16"
RAINY = ph.Weather(rain_rate_mm_h=300)
FOGGY = ph.Weather(visibility_m=70)


@lru_cache(maxsize=8)
def lidar(returns: str = "strongest", preset: str = VLP) -> ph.Lidar:
    return ph.Lidar(preset, returns=returns)


@lru_cache(maxsize=8)
def recorded(returns: str = "strongest", preset: str = VLP) -> ph.Scan:
    """A scan in clear air, noise included."""
    return lidar(returns, preset).scan(yard(), pose=ph.Pose(), seed=1)


def cloud_of(scan: ph.Scan, *names: str, **more: Any) -> ph.PointCloud:
    return ph.PointCloud(scan.xyz, {name: scan.fields[name] for name in names}, **more)


def notes(cloud: ph.PointCloud) -> str:
    return "; ".join(cloud.metadata["weather_notes"])


# ---- forms of clouds -----------------------------------------------------------------------------------------------


def forms() -> dict[str, ph.PointCloud]:
    scan = recorded()
    everything = scan.with_lost_shots()
    zeros = np.nan_to_num(everything.xyz, nan=0.0)
    return {
        "scan": scan,
        "ring and time": cloud_of(scan, "intensity", "ring", "time"),
        "ring and column": cloud_of(scan, "intensity", "ring", "column"),
        "a clock's time": cloud_of(scan, "intensity", "ring").with_fields(time=1.7e9 + scan.time.astype(np.float64)),
        "NaN rows with direction": everything,
        "NaN rows with ring and column": ph.PointCloud(
            everything.xyz, {name: everything.fields[name] for name in ("intensity", "ring", "column")}
        ),
        "rows of zeros": ph.PointCloud(
            zeros, {name: everything.fields[name] for name in ("intensity", "ring", "column")}
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", forms())
def test_all_forms_of_one_recording_give_one_answer(name: str) -> None:
    cloud = forms()[name]
    # Received power, where it is recorded, is more exact than what follows from whole intensities.
    alike = forms()["scan" if "power" in cloud.fields else "ring and column"]
    wet, reference = RAINY.apply(cloud, sensor=lidar(), seed=5), RAINY.apply(alike, sensor=lidar(), seed=5)
    assert type(wet) is type(cloud)
    seen = np.isfinite(wet.xyz).all(axis=1) & np.any(wet.xyz != 0, axis=1)
    assert seen.sum() == len(reference)
    assert of_origin(wet, RAIN).sum() == (reference.origin == RAIN).sum() > 500
    # The exits of the beams lie 1 cm off the centre, which only a scan knows.
    off = np.sort(np.linalg.norm(wet.xyz[seen], axis=1)) - np.sort(np.linalg.norm(reference.xyz, axis=1))
    assert np.max(np.abs(off)) < 0.015
    for field, values in cloud.fields.items():
        assert wet.fields[field].dtype == values.dtype, field
        assert wet.fields[field].shape[1:] == values.shape[1:]
    assert wet.names["origin"] == dict(enumerate(ORIGINS))
    assert wet.frame == "sensor"
    if len(cloud) > len(recorded()):
        assert len(wet) == len(cloud)  # a row for every shot, as before
        assert np.isnan(wet.xyz).any() == np.isnan(cloud.xyz).any()


def test_points_of_the_air_take_ring_and_time_of_their_shot() -> None:
    shots = lidar().shots()
    for name, cloud in forms().items():
        wet = RAINY.apply(cloud, sensor=lidar(), seed=5)
        rain = of_origin(wet, RAIN)
        ring = wet.fields["ring"][rain].astype(int)
        elevation = np.degrees(np.arcsin(wet.xyz[rain, 2] / np.linalg.norm(wet.xyz[rain], axis=1)))
        assert np.all(np.abs(elevation - (2.0 * ring - 15.0)) < 0.7), name
        if "column" in wet.fields:
            table = np.zeros((16, shots.column.max() + 1))
            table[shots.ring, shots.column] = np.arctan2(shots.direction[:, 1], shots.direction[:, 0])
            expected = table[ring, wet.fields["column"][rain]]
            off = np.angle(np.exp(1j * (np.arctan2(wet.xyz[rain, 1], wet.xyz[rain, 0]) - expected)))
            assert np.max(np.abs(off)) < np.radians(0.1), name


def test_a_scan_stays_a_scan() -> None:
    wet = FOGGY.apply(recorded("dual"), sensor=lidar("dual"), seed=2)
    assert isinstance(wet, ph.Scan)
    assert np.array_equal(np.bincount(wet.shot, minlength=len(wet.shots)), wet.shots.return_count)
    assert np.array_equal(wet.return_count, wet.shots.return_count[wet.shot])
    assert np.array_equal(wet.shots.direction, recorded("dual").shots.direction)
    along = wet.shots.origin[wet.shot] + wet.range[:, None] * wet.shots.direction[wet.shot]
    assert np.max(np.abs(wet.xyz - along)) < 0.02  # steps of the encoder
    air = wet.origin == FOG
    assert {wet.names["material"][code] for code in np.unique(wet.material[air])} == {"none"}
    for name in ("label", "instance"):
        assert np.all(wet.fields[name][air] == 0)
    assert np.all(wet.label[wet.origin == SURFACE] > 0)
    assert wet.metadata["seed"] == 1


@pytest.mark.parametrize("returns", ["dual", "all"])
@pytest.mark.parametrize("fields", [("shot",), ("ring", "column"), ("ring", "time")])
def test_clouds_of_several_returns(returns: str, fields: tuple[str, ...]) -> None:
    """A shot's returns stay together, and each is dimmed by its own range."""
    preset = VLP if returns == "dual" else "hesai/pandar64"
    sensor = ph.Lidar(preset, returns=returns, max_returns=3)
    scan = sensor.scan(yard(), pose=ph.Pose(), seed=1)
    assert scan.return_count.max() >= 2
    cloud = cloud_of(scan, "intensity", "return_count", "return_index", *fields)
    # Hardly any weather: all returns stay what they were, those closer together than the receiver merges too.
    dry = ph.Weather(visibility_m=300_000).apply(cloud, sensor=sensor, seed=3)
    kept = of_origin(dry, SURFACE)
    assert kept.sum() > 0.9995 * len(scan)
    before = {tuple(p) for p in scan.xyz.round(3).tolist()}
    assert np.mean([tuple(p) in before for p in dry.xyz[kept].round(3).tolist()]) > 0.9
    assert np.all(dry.return_index < dry.return_count)
    pairs = [np.sum(out.return_index[chosen] == 1) for out, chosen in ((scan, slice(None)), (dry, kept))]
    assert pairs[1] == pytest.approx(pairs[0], abs=0.1 * pairs[0] + 5)
    wet = RAINY.apply(cloud, sensor=sensor, seed=3)
    assert np.all(wet.return_index < wet.return_count)
    assert np.sum(1.0 / wet.return_count) == pytest.approx(np.sum(wet.return_index == 0))
    assert of_origin(wet, SURFACE).sum() > 0.5 * len(scan)
    # A Pandar64 collects little from close by: few drops.
    assert of_origin(wet, RAIN).sum() > (500 if preset == VLP else 10)


def found_shots(cloud: ph.PointCloud) -> int:
    """Number of shots without a return according to the notes."""
    return int(notes(cloud).partition(" shots without a return were found")[0].rpartition(" ")[2])


def test_coordinates_and_intensity_alone() -> None:
    """As KITTI keeps its scans: rings follow from elevation, lost shots from the steps of azimuth."""
    wet, whole = (RAINY.apply(c, sensor=VLP, seed=5) for c in (cloud_of(recorded(), "intensity"), recorded()))
    assert set(wet.fields) == {"intensity", "origin"}
    assert found_shots(wet) == pytest.approx(int(recorded().lost.sum()), rel=0.005)
    drops = [of_origin(cloud, RAIN).sum() for cloud in (wet, whole)]
    assert drops[0] == pytest.approx(drops[1], abs=5.0 * np.sqrt(2.0 * drops[1]))  # other drops, as many
    assert "between the points, by the rings and azimuth steps" in notes(wet)


def test_a_cloud_that_is_no_pattern_gives_no_shots() -> None:
    rng = np.random.default_rng(1)
    anywhere = ph.PointCloud(
        rng.normal(0.0, 10.0, (5000, 3)).astype(np.float32), {"intensity": np.full(5000, 50.0, np.float32)}
    )
    wet = RAINY.apply(anywhere, sensor=VLP, seed=5)
    assert "do not lie in the rings of velodyne/vlp-16" in notes(wet)
    assert "only along shots with a return" in notes(wet)


def turned_cloud(*fields: str, keep_lost: bool = False) -> ph.PointCloud:
    """A recording that begins at another azimuth: columns and times count from there, rings from above."""
    scan = recorded()
    cloud = scan.with_lost_shots() if keep_lost else scan
    x, y, z = cloud.xyz.T
    angle = np.radians(110.0)
    xyz = np.stack([np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y, z], axis=1)
    values = {**cloud.fields, "ring": (15 - cloud.ring.astype(int)).astype(np.uint16)}
    return ph.PointCloud(xyz.astype(np.float32), {name: values[name] for name in ("intensity", *fields)})


def test_a_recording_may_begin_at_any_azimuth_and_count_rings_from_above() -> None:
    cloud = turned_cloud("ring", "column")
    wet = RAINY.apply(cloud, sensor=VLP, seed=5)
    assert found_shots(wet) == pytest.approx(int(recorded().lost.sum()), rel=0.005)
    rain = of_origin(wet, RAIN)
    elevation = np.degrees(np.arcsin(wet.xyz[rain, 2] / np.linalg.norm(wet.xyz[rain], axis=1)))
    assert np.all(np.abs(elevation - (15.0 - 2.0 * wet.ring[rain])) < 0.7)
    # Columns of drops are those of points at the same azimuth.
    step = 2.0 * np.pi / (recorded().shots.column.max() + 1)
    azimuth = np.radians(110.0) - wet.column[rain] * step
    off = np.angle(np.exp(1j * (np.arctan2(wet.xyz[rain, 1], wet.xyz[rain, 0]) - azimuth)))
    assert np.median(np.abs(off)) < np.radians(0.5)


def test_rows_without_coordinates_have_directions_at_any_azimuth() -> None:
    cloud = turned_cloud("ring", "column", keep_lost=True)
    wet = RAINY.apply(cloud, sensor=VLP, seed=5)
    lost = int(recorded().lost.sum())
    assert f"directions of {lost} shots without a return follow from ring and column" in notes(wet)
    assert len(wet) == len(cloud)
    rain = of_origin(wet, RAIN)
    azimuth = np.radians(110.0) - wet.column[rain] * 2.0 * np.pi / (1.0 / (10.0 * 55.296e-6))
    off = np.angle(np.exp(1j * (np.arctan2(wet.xyz[rain, 1], wet.xyz[rain, 0]) - azimuth)))
    assert np.max(np.abs(off)) < np.radians(0.3)


def test_part_of_a_turn_is_left_as_it_is() -> None:
    """No echoes of the air where nothing was recorded."""
    scan = recorded()
    azimuth = np.degrees(np.arctan2(scan.xyz[:, 1], scan.xyz[:, 0]))
    part = ph.PointCloud(scan.xyz, {"intensity": scan.intensity}).select(np.abs(azimuth) < 60.0)
    wet = FOGGY.apply(part, sensor=VLP, seed=5)
    assert "degrees of azimuth have no points" in notes(wet)
    fog = of_origin(wet, FOG)
    assert fog.sum() > 1000
    assert np.abs(np.degrees(np.arctan2(wet.xyz[fog, 1], wet.xyz[fog, 0]))).max() < 61.0


def test_another_sensors_pattern_is_reported() -> None:
    wet = RAINY.apply(cloud_of(recorded(), "intensity", "ring", "time"), sensor="velodyne/hdl-32e", seed=5)
    assert "shots without a return are unknown" in notes(wet)


def test_several_turns_at_once_are_refused() -> None:
    scan = recorded()
    two = cloud_of(scan, "intensity", "ring", "column").with_fields(turn=(np.arange(len(scan)) % 2).astype(np.uint16))
    with pytest.raises(
        ConfigError, match=r"contains 2 frames; apply weather to each frame separately \(parhelion\.read_frames"
    ):
        RAINY.apply(two, sensor=VLP)
    one = two.with_fields(turn=np.zeros(len(scan), np.uint16))
    assert of_origin(RAINY.apply(one, sensor=VLP), RAIN).sum() > 500


def test_weather_on_weather_is_reported() -> None:
    once = RAINY.apply(recorded(), sensor=lidar(), seed=5)
    assert "already" not in notes(once)
    drops = int((once.origin == RAIN).sum())
    twice = FOGGY.apply(once, sensor=lidar(), seed=5)
    assert f"contains weather already ({drops} points of rain); the new weather was added to it" in notes(twice)
    bare = ph.PointCloud(
        recorded().xyz, {"intensity": recorded().intensity}, metadata={"weather_notes": once.metadata["weather_notes"]}
    )
    assert "weather was applied to this cloud before" in notes(FOGGY.apply(bare, sensor=lidar()))


def test_points_of_the_air_are_outliers_among_labels_without_words() -> None:
    scan = recorded()
    labels = (np.arange(len(scan)) % 40 + 10).astype(np.uint16)
    cloud = cloud_of(scan, "intensity").with_fields(label=labels, instance=labels)
    wet = FOGGY.apply(cloud, sensor=VLP, seed=5)
    air = of_origin(wet, FOG)
    assert air.sum() > 1000
    assert np.all(wet.label[air] == 1)
    assert np.all(wet.instance[air] == 0)
    assert np.array_equal(wet.label[~air], wet.instance[~air])
    assert wet.label[~air].min() >= 10


# ---- reflectivity in place of intensity ----------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [False, True])
def test_reflectivity_stands_for_intensity(counts: bool) -> None:
    """An Ouster's low data rate has no signal, but a reflectivity that it follows from."""
    from parhelion.makers.ouster.scale import reflectivity_counts, reflectivity_of_counts

    sensor = ph.Lidar("ouster/os0-32", columns=512)
    scan = sensor.scan(yard(), pose=ph.Pose(), seed=1)
    reported = reflectivity_counts(scan.reflectivity)
    field = reported.astype(np.uint16) if counts else reflectivity_of_counts(reported)
    cloud = cloud_of(scan, "ring", "column").with_fields(reflectivity=field)
    wet, reference = (FOGGY.apply(c, sensor=sensor, seed=5) for c in (cloud, scan))
    assert "its reflectivity was used" in notes(wet)
    assert "intensity" not in wet.fields
    assert wet.reflectivity.dtype == field.dtype
    kept = [of_origin(c, SURFACE).sum() for c in (wet, reference)]
    assert kept[0] == pytest.approx(kept[1], rel=0.02)
    assert 0 < kept[1] < 0.95 * len(scan)
    # The driver fills the field intensity with zeros.
    dark = FOGGY.apply(cloud.with_fields(intensity=np.zeros(len(cloud), np.float32)), sensor=sensor, seed=5)
    assert not dark.intensity.any()
    assert np.array_equal(dark.reflectivity, wet.reflectivity)
    assert "its reflectivity was used" in notes(dark)
    seen = wet.reflectivity[of_origin(wet, SURFACE)]
    assert np.median(seen) < np.median(field)
    assert np.median(seen) > 0


def test_shots_without_a_return_can_be_left_out() -> None:
    for cloud in forms().values():
        wet = RAINY.apply(cloud, sensor=lidar(), seed=5, no_returns="none")
        assert "were ignored (no_returns='none')" in notes(wet)
        rain = of_origin(wet, RAIN)
        assert np.all(np.linalg.norm(wet.xyz[rain], axis=1) > 0.5)
        every = RAINY.apply(cloud, sensor=lidar(), seed=5)
        assert len(cloud) == len(recorded()) or len(wet) == len(cloud)
        assert 0 < rain.sum() < of_origin(every, RAIN).sum()
        far = [np.linalg.norm(np.nan_to_num(out.xyz), axis=1) > 0 for out in (wet, every)]
        assert (of_origin(wet, SURFACE) & far[0]).sum() == (of_origin(every, SURFACE) & far[1]).sum()


def test_rows_of_which_the_direction_is_not_known_stay_empty() -> None:
    everything = recorded().with_lost_shots()
    blind = ph.PointCloud(everything.xyz, {"intensity": everything.intensity})
    wet = RAINY.apply(blind, sensor=lidar(), seed=5)
    assert "have no direction" in notes(wet)
    assert len(wet) == len(blind)
    seen = np.isfinite(wet.xyz).all(axis=1)
    assert np.linalg.norm(wet.xyz[seen], axis=1).min() > 0.5
    assert seen.sum() < len(recorded()) + 10


# ---- nothing, and nothing but the air ------------------------------------------------------------------------------


@pytest.mark.parametrize("weather", [ph.Weather(), ph.Weather(rain_rate_mm_h=0), ph.Weather(wind_m_s=(5, 0, 0))])
def test_clear_weather_gives_the_cloud_itself(weather: ph.Weather) -> None:
    for cloud in forms().values():
        same = weather.apply(cloud, sensor=VLP)
        # All that it may gain is the field that every answer has: surfaces made all points.
        assert same is cloud or set(same.fields) - set(cloud.fields) == {"origin"}
        assert np.array_equal(same.xyz, cloud.xyz, equal_nan=True)
        assert all(np.array_equal(same.fields[name], cloud.fields[name], equal_nan=True) for name in cloud.fields)
        assert np.all(same.origin[np.isfinite(same.xyz).all(axis=1)] == SURFACE)
    later = ph.Weather(rain_rate_mm_h=[[10, 0], [20, 30]])
    assert later.apply(recorded(), sensor=VLP, time=5.0) is recorded()
    assert later.apply(recorded(), sensor=VLP, time=15.0) is not recorded()


@pytest.mark.parametrize("fields", [{}, {"intensity": np.zeros(0, np.float32), "ring": np.zeros(0, np.uint16)}])
def test_an_empty_cloud_stays_empty(fields: dict[str, np.ndarray]) -> None:
    wet = RAINY.apply(ph.PointCloud(np.zeros((0, 3), np.float32), fields), sensor=VLP)
    assert len(wet) == 0


def test_no_returns_alone_give_points_of_the_air_alone() -> None:
    empty = lidar().scan(ph.World(), pose=ph.Pose(), seed=1)
    assert len(empty) == 0
    rows = empty.with_lost_shots()
    for cloud in (empty, rows):
        for weather, origins in ((RAINY, {RAIN}), (FOGGY, {FOG}), (ph.Weather(snow_rate_mm_h=3), {SNOW})):
            wet = weather.apply(cloud, sensor=lidar(), seed=4)
            seen = np.isfinite(wet.xyz).all(axis=1)
            assert set(wet.origin[seen].tolist()) == origins
            assert seen.sum() > 500
            assert len(wet) == (len(rows) if cloud is rows else seen.sum())


# ---- fields ----------------------------------------------------------------------------------------------------------


def test_intensities_from_0_to_1() -> None:
    scan = recorded()
    shares = cloud_of(scan, "ring", "time").with_fields(intensity=scan.intensity / np.float32(255))
    whole = cloud_of(scan, "ring", "time", "intensity")
    a, b = (RAINY.apply(cloud, sensor=lidar(), seed=5) for cloud in (shares, whole))
    assert "shares of 255" in notes(a)
    assert "shares of 255" not in notes(b)
    assert len(a) == len(b)
    assert a.intensity.max() <= 1.0
    assert a.intensity == pytest.approx(b.intensity / 255.0, abs=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64"])
def test_fields_keep_their_type_and_further_ones_stay(dtype: str) -> None:
    scan = recorded()
    number = np.arange(len(scan), dtype=np.int64)
    cloud = ph.PointCloud(
        scan.xyz.astype(np.float64),
        {
            "intensity": scan.intensity.astype(dtype), "ring": scan.ring.astype(np.uint8),
            "time": scan.time.astype(np.float64), "number": number + 1,
            "colour": np.tile(np.array([[9, 8, 7]], np.uint8), (len(scan), 1)),
        },
        names={"label": {1: "road"}}, metadata={"file": "a.pcd"},
    )  # fmt: skip
    wet = RAINY.apply(cloud, sensor=lidar(), seed=5)
    for name, values in cloud.fields.items():
        assert wet.fields[name].dtype == values.dtype
    assert wet.xyz.dtype == np.float64
    kept = of_origin(wet, SURFACE)
    assert np.array_equal(wet.ring[kept], cloud.ring[wet.number[kept] - 1])
    assert np.all(wet.colour[kept] == [9, 8, 7])
    assert np.all(wet.number[~kept] == 0)
    assert np.all(wet.colour[~kept] == 0)
    assert wet.metadata["file"] == "a.pcd"
    assert wet.names["label"] == {1: "road"}
    assert len(np.unique(wet.number[kept])) == kept.sum()


def test_reflectance_stands_for_intensity() -> None:
    bare = cloud_of(recorded(), "ring", "time")
    with pytest.raises(ConfigError, match="no field intensity; pass a reflectance") as caught:
        RAINY.apply(bare, sensor=lidar())
    assert "\n" not in str(caught.value)
    dark, bright = (FOGGY.apply(bare, sensor=lidar(), reflectance=value) for value in (0.1, 0.9))
    assert 0 < of_origin(dark, SURFACE).sum() <= of_origin(bright, SURFACE).sum()
    assert "intensity" not in bright.fields
    assert np.array_equal(bright.origin.dtype, np.uint8)
    # A driver without intensities may write zeros.
    zeros = bare.with_fields(intensity=np.zeros(len(bare), np.float32))
    assert np.array_equal(FOGGY.apply(zeros, sensor=lidar(), reflectance=0.9).xyz, bright.xyz)
    assert "all intensities are 0; pass a reflectance" in notes(FOGGY.apply(zeros, sensor=lidar()))


# ---- wrong input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cloud": "world"}, "world frame"),
        ({"cloud": "array"}, "expected a parhelion PointCloud, got ndarray"),
        ({"cloud": "nan intensity"}, "intensity contains values that are not finite"),
        ({"no_returns": "all"}, "no_returns: must be 'auto' or 'none', got 'all'"),
        ({"reflectance": 0.0}, "reflectance: must be above 0 and at most 1, got 0.0"),
        ({"reflectance": float("nan")}, "reflectance: must be above 0 and at most 1, got nan"),
        ({"sensor": "velodyne/vlp16"}, "velodyne/vlp-16"),
        ({"seed": -1}, "seed: must be a whole number"),
        ({"frame": 1.5}, "frame: must be a whole number"),
        ({"time": float("nan")}, "time must be a number of seconds"),
    ],
)
def test_bad_input_is_one_clear_sentence(change: dict[str, Any], words: str) -> None:
    scan = recorded()
    clouds: dict[str, Any] = {
        "world": scan.in_world(), "array": scan.xyz,
        "nan intensity": ph.PointCloud(scan.xyz, {"intensity": np.full(len(scan), np.nan, np.float32)}),
    }  # fmt: skip
    options = {"sensor": VLP, **change}
    cloud = clouds[options.pop("cloud")] if "cloud" in options else scan
    with pytest.raises(ConfigError, match=words) as caught:
        RAINY.apply(cloud, **options)
    assert "\n" not in str(caught.value)


# ---- same seed, same result ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weather", [RAINY, BLOWN, ph.Weather(rain=ph.Rain(rate_mm_h=20, model="vane"))])
def test_seed_and_frame_choose_the_drops(weather: ph.Weather) -> None:
    cloud = cloud_of(recorded(), "intensity", "ring", "time")
    first = weather.apply(cloud, sensor=lidar(), seed=5, frame=3)
    assert same_bits(first, weather.apply(cloud, sensor=lidar(), seed=5, frame=3))
    assert same_bits(first, weather.apply(cloud, sensor=VLP, seed=5, frame=3))
    assert not same_bits(first, weather.apply(cloud, sensor=lidar(), seed=6, frame=3))
    assert not same_bits(first, weather.apply(cloud, sensor=lidar(), seed=5, frame=4))


def test_the_recording_itself_is_left_alone() -> None:
    scan = recorded()
    xyz, intensity = scan.xyz.copy(), scan.intensity.copy()
    BLOWN.apply(scan, sensor=lidar())
    assert np.array_equal(xyz, scan.xyz)
    assert np.array_equal(intensity, scan.intensity)


def test_no_kernel_is_compiled_for_clouds_of_other_sizes() -> None:
    import drjit as dr

    scan = recorded("dual")

    def run(k: int) -> None:
        rows = slice(0, len(scan) - 37 * k)
        cloud = cloud_of(scan, "intensity", "ring", "column", "return_count").select(rows)
        BLOWN.apply(cloud, sensor=lidar("dual"), frame=k, time=0.1 * k, pose=ph.Pose((k, 0, 0), rpy_deg=(0, 0, 10 * k)))
        # Without lost shots: with them there are as many shots in all, and what was counted once is kept.
        several = cloud_of(scan, "intensity", "shot", "return_count").select(rows)
        RAINY.apply(several, sensor=lidar("dual"), frame=k, no_returns="none")
        plain = cloud_of(scan, "intensity").select(rows)
        RAINY.apply(plain, sensor=lidar(), frame=k, no_returns="none")
        bare = ph.PointCloud(plain.xyz)
        FOGGY.apply(bare, sensor=lidar(), frame=k, reflectance=0.2 + 0.05 * k, no_returns="none")

    run(0)
    run(1)
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        frames = []
        for k in range(2, 6):
            dr.kernel_history_clear()
            run(k)
            frames.append([entry for entry in dr.kernel_history() if str(entry["type"]).endswith("JIT")])
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)
    assert all(len(frame) >= 10 for frame in frames)
    assert [entry["hash"] for frame in frames for entry in frame if not entry["cache_hit"]] == []
    # Not even kernels that the disk remembers from an earlier run.
    assert len({tuple(sorted({entry["hash"] for entry in frame})) for frame in frames}) == 1
