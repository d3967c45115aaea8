"""Weather in files, alone and within a world: exact round trips, and invalid content reported in one line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Fixed
from parhelion.weather import DustCloud, DustTrail, Fog, Heterogeneity, Rain, Snow, Weather, value_at
from parhelion.world import World

CLOUD = {"kind": "cloud", "centre_m": [0, 0, 1], "half_size_m": [3, 3, 2], "density_kg_m3": 1e-4}
TRAIL = {"kind": "trail", "path": [[0, 0, 0, 0], [10, 50, 0, 0]]}


TIMES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5, unique=True).map(sorted)


def schedules(low: float, high: float) -> st.SearchStrategy[Any]:
    value = st.floats(low, high)
    pairs = TIMES.flatmap(lambda times: st.tuples(*[st.tuples(st.just(time), value) for time in times]))
    return st.one_of(value, pairs, st.integers(math.ceil(low), math.floor(high)))


@given(schedules(0, 500), st.floats(-2e6, 2e6))
def test_a_schedule_never_leaves_the_range_of_its_values(schedule: Any, time: float) -> None:
    values = [value for _, value in schedule] if isinstance(schedule, tuple) else [schedule]
    assert min(values) <= value_at(schedule, time) <= max(values)


def test_only_what_is_not_default_is_written() -> None:
    assert Weather().to_mapping() == {}
    assert Weather(rain_rate_mm_h=25, visibility_m=800).to_mapping() == {"rain_rate_mm_h": 25, "visibility_m": 800}
    weather = Weather(
        rain=Rain(rate_mm_h=[[0, 1], [2, 3]], model="vane"),
        fog=Fog(visibility_m=90, heterogeneity=Heterogeneity(octaves=2)),
        dust=[CLOUD, TRAIL],
        seed=1,
    )
    assert weather.to_mapping() == {
        "rain": {"rate_mm_h": [[0, 1], [2, 3]], "model": "vane"},
        "fog": {"visibility_m": 90, "heterogeneity": {"scale_m": 40, "octaves": 2}},
        "dust": [CLOUD, TRAIL],
        "seed": 1,
    }


HETEROGENEOUS = st.builds(
    Heterogeneity,
    scale_m=st.floats(0.1, 1e5),
    octaves=st.integers(1, 6),
    roughness=st.floats(0, 1),
    contrast=st.floats(0, 1),
)
HETEROGENEOUS_OR_NOT = st.one_of(
    st.none(), HETEROGENEOUS, st.just(Heterogeneity()), st.just(Heterogeneity(scale_m=40.0))
)
PLACE = st.tuples(*[st.floats(-1e9, 1e9)] * 3)
CLOUDS = st.builds(
    DustCloud,
    centre_m=PLACE,
    half_size_m=st.tuples(*[st.floats(0.01, 1e5)] * 3),
    density_kg_m3=schedules(0, 1),
    mass_extinction_m2_kg=st.sampled_from([650.0, 2600.0]),
    drifts=st.booleans(),
)
TRAILS = st.builds(
    DustTrail,
    path=TIMES.filter(lambda t: len(t) > 1).flatmap(
        lambda times: st.tuples(*[st.tuples(st.just(time), *[st.floats(-1e9, 1e9)] * 3) for time in times])
    ),
    weight_kg=st.floats(1, 1e6),
    silt_percent=st.floats(0, 100),
    moisture_percent=st.floats(0.01, 100),
    end_s=st.one_of(st.none(), st.just(2e6)),
)
RAIN = st.builds(
    Rain,
    rate_mm_h=schedules(0, 500),
    drop_sizes=st.sampled_from(["marshall-palmer", "feingold-levin", "deirmendjian"]),
    model=st.sampled_from(["mie", "vane", "goodin2019", "guo2015", "ulbrich-atlas"]),
    heterogeneity=HETEROGENEOUS_OR_NOT,
)
FOG = st.builds(
    Fog,
    visibility_m=schedules(5, 300_000),
    model=st.sampled_from(["kim", "kruse", "koschmieder", "hahner2021"]),
    backscatter=st.floats(0.023, 0.092),
    heterogeneity=HETEROGENEOUS_OR_NOT,
)
WEATHERS = st.builds(
    Weather,
    rain=st.none() | RAIN,
    fog=st.none() | FOG,
    snow=st.none() | st.builds(Snow, rate_mm_h=schedules(0, 50), heterogeneity=HETEROGENEOUS_OR_NOT),
    dust=st.lists(CLOUDS | TRAILS, max_size=2),
    wind_m_s=st.tuples(*[st.floats(-100, 100)] * 3),
    seed=st.integers(0, 2**64 - 1),
)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(WEATHERS)
def test_a_file_gives_back_the_very_same_weather(tmp_path: Path, weather: Weather) -> None:
    weather.save(tmp_path / "w.yaml")
    again = Weather.load(tmp_path / "w.yaml")
    assert again == weather
    assert hash(again) == hash(weather)
    assert again.to_mapping() == weather.to_mapping()
    assert weather.replace() == weather
    assert "\n" not in repr(weather)
    assert [path.name for path in tmp_path.iterdir()] == ["w.yaml"], "no temporary file stays"


def test_wrong_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    for text, message in (
        ("rain_rate_mm_h: .nan\n", "rain_rate_mm_h: .*, got nan"),
        ("visibility_m: 1e3\n", ""),  # YAML's reading of it is a word; it is a number all the same
        ("rain_rate_mm_h: yes\n", "rain_rate_mm_h: must be a number, got true"),
        ("rain: {rate_mm_h: 5, model: mei}\n", r"rain\.model: .*did you mean 'mie'"),
        ("- 1\n", "expected a mapping"),
        ("", "expected a mapping"),
        ("a: [\n", "line"),
    ):
        file.write_text(text)
        if message:
            with pytest.raises(ConfigError, match=message) as caught:
                Weather.load(file)
            assert str(caught.value).startswith(str(file))
        else:
            assert Weather.load(file) == Weather(visibility_m=1000)
    with pytest.raises(ConfigError, match="no such file"):
        Weather.load(tmp_path / "none.yaml")


def test_saving_leaves_an_earlier_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "deep" / "er" / "w.yaml"
    Weather(rain_rate_mm_h=5).save(file)
    before = file.read_text()
    with pytest.raises(ConfigError, match=r"ends in \.yaml"):
        Weather().save(tmp_path / "w.json")
    with pytest.raises(ConfigError, match="got a Fixed"):
        Weather(dust=[DustTrail(path=Fixed(Pose()), end_s=1)]).save(file)

    def full_disk(self: Path, *_args: Any, **_options: Any) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(ConfigError, match=r"w\.yaml: cannot be written \(No space left on device\)"):
        Weather().save(file)
    assert file.read_text() == before
    assert [path.name for path in file.parent.iterdir()] == ["w.yaml"]
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        Weather().save(tmp_path / "file" / "w.yaml")


ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([[], {}, [[]], "cloud", "mie", 10**400, {"kind": "cloud"}, [[0, 1], [1, 1]], "\0"]),
    st.lists(st.floats(), max_size=4),
)
NAMES = ["rain", "fog", "snow", "rain_rate_mm_h", "visibility_m", "snow_rate_mm_h", "dust", "wind_m_s", "seed", "x"]
INNER = ["rate_mm_h", "visibility_m", "model", "cells", "uneven", "kind", "path", "centre_m", "octaves", "end_s"]


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        ODD_VALUES | st.dictionaries(st.sampled_from(INNER), ODD_VALUES, max_size=3),
        max_size=3,
    )
)
def test_odd_fields_make_a_weather_or_one_clear_error(fields: dict[str, Any]) -> None:
    try:
        weather = Weather.from_mapping(fields)
    except ParhelionError as error:
        complaint = str(error)
    else:
        assert Weather.from_mapping(weather.to_mapping()) == weather
        return
    assert complaint.startswith("weather: ")
    assert "\n" not in complaint


# ---- the weather of a world ----------------------------------------------------------------------------------------


def test_weather_from_a_file_beside_the_world(tmp_path: Path) -> None:
    (tmp_path / "air").mkdir()
    storm = Weather(rain_rate_mm_h=[[0, 5], [10, 50]], wind_m_s=(12, 0, 0), seed=3)
    storm.save(tmp_path / "air" / "storm.yaml")
    (tmp_path / "w.yaml").write_text("weather: air/storm.yaml\n")
    world = World.load(tmp_path / "w.yaml")
    assert world.weather == storm
    world.save(tmp_path / "copy.yaml")
    assert World.load(tmp_path / "copy.yaml").weather == storm
    (tmp_path / "air" / "storm.yaml").write_text("rain_rate_mm_h: -1\n")
    with pytest.raises(ConfigError, match=r"^.*w\.yaml: weather: .*storm\.yaml: rain_rate_mm_h: .*, got -1$"):
        World.load(tmp_path / "w.yaml")


@pytest.mark.parametrize("weather", [None, Weather(), Weather(visibility_m=80)])
def test_clear_air_is_saved_as_it_is(tmp_path: Path, weather: Weather | None) -> None:
    world = World("w")
    world.weather = weather
    world.save(tmp_path / "w.yaml")
    assert World.load(tmp_path / "w.yaml").weather == weather
    assert ("weather" in yaml.safe_load((tmp_path / "w.yaml").read_text())) == (weather is not None)


def test_weather_of_a_world_is_checked_when_it_is_set() -> None:
    world = World()
    assert world.weather is None
    for wrong in ({"rain_rate_mm_h": 5}, 25.0, "rain", Weather):
        with pytest.raises(ConfigError, match="world: weather must be a Weather, or None for clear air, got"):
            world.weather = wrong  # type: ignore[assignment]
    world.weather = Weather(rain_rate_mm_h=5)
    assert world.weather.at(0.0).rain_rate_mm_h == 5.0
    world.weather = None
    assert world.weather is None


def test_a_weather_that_no_file_can_hold_leaves_the_earlier_file_whole(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("name: before\n")
    world = World()
    cloud = DustCloud(centre_m=(0, 0, 1), half_size_m=(1, 1, 1), density_kg_m3=1e-4)
    world.weather = Weather(dust=[cloud, DustTrail(path=Fixed(Pose()), end_s=9.0)])
    with pytest.raises(ConfigError, match=r"dust\[1\]\.path: .* got a Fixed"):
        world.save(tmp_path / "w.yaml")
    assert (tmp_path / "w.yaml").read_text() == "name: before\n"
