"""Strengths of rings: a sensor whose rings are all g times as strong has a system constant g times as large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from calibrate_rigs import changed_sheet
from parhelion.core.clouds import ORIGINS
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import system_constant

GAIN = 1.7
RINGS = 32
WEATHERS: dict[str, dict[str, Any]] = {
    "clear": {},
    "rain": {"rain": {"rate_mm_h": 30.0}},
    "snow": {"snow": {"rate_mm_h": 5.0}},
    "fog": {"fog": {"visibility_m": 50.0}},
    "dust": {
        "dust": [{"kind": "cloud", "centre_m": [0, 0, 2], "half_size_m": [60, 60, 8], "density_kg_m3": 2e-5}],
    },
}


def sheet(gains: list[float]) -> LidarConfig:
    """An OS0-32 whose rings have these strengths."""
    return changed_sheet("ouster/os0-32", receiver={"channel_gain": gains})


def stronger(factor: float) -> LidarConfig:
    """An OS0-32 whose system constant is larger by a factor: K goes with the reflectance of its rated target."""
    rated = sheet([]).range.rated[0]
    made = changed_sheet("ouster/os0-32", range={"rated": [{**rated.model_dump(), "reflectance": 0.1 / factor}]})
    assert system_constant(made).k_m2 == pytest.approx(factor * system_constant(sheet([])).k_m2, rel=1e-12)
    return made


def scan(config: LidarConfig, weather: str = "clear") -> ph.Scan:
    """A scan on the city's street."""
    world = ph.World.load("city")
    given = WEATHERS[weather]
    world.weather = ph.Weather(**given) if given else None
    lidar = ph.Lidar(config)
    lidar.model = "ouster/os0-32"  # random streams go by the model's name
    return lidar.scan(world, seed=2)


def in_each_shot(one: ph.Scan, field: str) -> np.ndarray[Any, Any]:
    """A field by shot, NaN where there is none."""
    values = np.full(len(one.shots), np.nan)
    values[one.fields["shot"]] = one.fields[field]
    return values


@pytest.mark.parametrize("weather", WEATHERS)
def test_strong_rings_are_a_stronger_sensor(weather: str) -> None:
    """The same shots return, from the same ranges and as strong, and reflectivity is free of it.

    Tables of drops and rounding of float32 may differ in the last digits, so one shot in a thousand may.
    """
    gained, other = scan(sheet([GAIN] * RINGS), weather), scan(stronger(GAIN), weather)
    for field in ("range", "power", "reflectivity"):
        a, b = in_each_shot(gained, field), in_each_shot(other, field)
        same = np.isclose(a, b, rtol=2e-4, atol=1e-3, equal_nan=True)
        assert same.mean() > 0.999, field
    plain = scan(sheet([]), weather)
    assert len(gained) > 1.01 * len(plain) or weather in ("fog", "dust")


def test_each_ring_has_its_own_strength() -> None:
    """Rings of a mixed sensor are those of sensors that have one strength for all."""
    gains = [0.5 if ring % 2 else 2.0 for ring in range(RINGS)]
    mixed = scan(sheet(gains))
    for gain, odd in ((0.5, 1), (2.0, 0)):
        even = scan(sheet([gain] * RINGS))
        own = mixed.shots.ring % 2 == odd
        for field in ("range", "power", "intensity", "reflectivity"):
            a, b = in_each_shot(mixed, field)[own], in_each_shot(even, field)[own]
            assert np.isclose(a, b, rtol=1e-5, equal_nan=True).mean() > 0.999, field


def test_weak_rings_see_as_much_fog_as_a_weak_sensor() -> None:
    """Its cells are laid out for the strongest ring, so random numbers differ; counts differ by chance alone."""
    gains = [0.5 if ring % 2 else 2.0 for ring in range(RINGS)]
    found = []
    for given in (gains, [0.5] * RINGS):
        one = scan(sheet(given), "fog")
        found.append(np.sum((one.fields["origin"] == ORIGINS.index("fog")) & (one.fields["ring"] % 2 == 1)))
    assert min(found) > 100
    # Two counts of the same mean, four deviations apart at most.
    assert abs(int(found[0]) - int(found[1])) < 4.0 * np.sqrt(found[0] + found[1])


def test_photons_follow_the_gain_and_reflectivity_does_not() -> None:
    """Without noise: counts are the gain times those of the nominal ring, for targets that both detect."""
    world = ph.World.load("city")
    plain, gained = (ph.Lidar(sheet(gains), noise=False).scan(world) for gains in ([], [1.25] * RINGS))
    (p, q), (a, b) = ([in_each_shot(one, field) for one in (plain, gained)] for field in ("power", "reflectivity"))
    # At edges a stronger ring may see a nearer part of what the footprint meets, by itself.
    near, far = (in_each_shot(one, "range") for one in (plain, gained))
    unsaturated = (near == far) & (q < 0.9 * np.nanmax(q))
    assert unsaturated.sum() > 0.98 * np.isfinite(p).sum()
    np.testing.assert_allclose(q[unsaturated], 1.25 * p[unsaturated], rtol=1e-4)
    np.testing.assert_allclose(b[unsaturated], a[unsaturated], rtol=1e-4)


def test_waveforms_follow_the_gain() -> None:
    """Surfaces and the glow of fog alike."""
    world = ph.World.load("city")
    world.weather = ph.Weather(**WEATHERS["fog"])
    shots = np.arange(0, 2048, 64)
    plain, gained = (
        ph.Lidar(sheet(gains), noise=False).waveform(world, shots, range_m=(0.5, 30.0)).samples
        for gains in ([], [GAIN] * RINGS)
    )
    assert plain.max() > 0.1
    np.testing.assert_allclose(gained, GAIN * plain, rtol=1e-4, atol=1e-6)


def test_weather_on_recordings_knows_the_gain() -> None:
    """Rain on a recorded scan of strong rings is that of the stronger sensor."""
    rain = ph.Weather(**WEATHERS["rain"])
    made = []
    for config in (sheet([GAIN] * RINGS), stronger(GAIN)):
        lidar = ph.Lidar(config)
        lidar.model = "ouster/os0-32"
        made.append(rain.apply(scan(config), sensor=lidar, seed=4))
    assert abs(len(made[0]) - len(made[1])) <= 1e-3 * len(made[1])
    for field in ("reflectivity", "intensity"):
        a, b = (np.sort(one.fields[field]) for one in made)
        assert np.quantile(a, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(b, [0.1, 0.5, 0.9]), rel=1e-2)


@pytest.mark.parametrize(
    ("gains", "words"),
    [([1.0] * 5, "5 entries for 32 rings"), ([0.0] * RINGS, "channel_gain"), (["a"], "channel_gain")],
)
def test_wrong_lists_are_refused(gains: list[Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ph.Lidar(sheet(gains)).scan(ph.World.load("city"))
