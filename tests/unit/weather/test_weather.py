"""The weather object: arguments, errors, schedules, copies and files."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist, Fixed, Waypoints, pose_at
from parhelion.weather import Conditions, DustCloud, DustTrail, Fog, Heterogeneity, Rain, Snow, Weather, value_at

NAN, INF = float("nan"), float("inf")
CLOUD = {"kind": "cloud", "centre_m": [0, 0, 1], "half_size_m": [3, 3, 2], "density_kg_m3": 1e-4}
FOG = {"visibility_m": 90}
TRAIL = {"kind": "trail", "path": [[0, 0, 0, 0], [10, 50, 0, 0]]}


# ---- what it takes -------------------------------------------------------------------------------------------------


def test_short_and_full_forms_are_the_same_weather() -> None:
    short = Weather(rain_rate_mm_h=25, visibility_m=800, snow_rate_mm_h=2, wind_m_s=(3, 0, 0), seed=5)
    full = Weather(
        rain=Rain(rate_mm_h=25.0),
        fog=Fog(visibility_m=800),
        snow={"rate_mm_h": 2},
        wind_m_s=[3, 0, 0],
        seed=5,
    )
    assert short == full
    assert hash(short) == hash(full)
    assert short != full.replace(seed=6)
    assert short.rain is not None
    assert short.fog is not None
    assert (short.rain.drop_sizes, short.rain.model, short.rain.heterogeneity) == ("marshall-palmer", "mie", None)
    assert (short.fog.model, short.fog.backscatter, short.fog.heterogeneity) == ("kim", None, None)


def test_numpy_values_are_taken_as_plain_ones() -> None:
    weather = Weather(
        rain_rate_mm_h=np.float32(2.5),
        visibility_m=np.array([[0.0, 100.0], [10.0, 200.0]]),
        wind_m_s=np.array([1, 2, 3]),
        dust=[DustCloud(centre_m=np.zeros(3), half_size_m=np.ones(3), density_kg_m3=np.float64(0.1))],
        seed=np.int64(4),
    )
    assert weather == Weather(
        rain_rate_mm_h=2.5,
        visibility_m=[[0, 100], [10, 200]],
        wind_m_s=(1, 2, 3),
        dust=[DustCloud(centre_m=(0, 0, 0), half_size_m=(1, 1, 1), density_kg_m3=0.1)],
        seed=4,
    )
    assert type(weather.seed) is int
    assert yaml.safe_load(yaml.safe_dump(weather.to_mapping())) == weather.to_mapping()


def test_limits_are_allowed() -> None:
    Weather(rain_rate_mm_h=500, snow_rate_mm_h=50, visibility_m=5, seed=2**64 - 1, wind_m_s=(100, -100, 0))
    Weather(rain_rate_mm_h=0, snow_rate_mm_h=0, visibility_m=300_000)
    for backscatter in (0.01, 0.046, 0.6):
        Fog(visibility_m=100, backscatter=backscatter)
    Heterogeneity(scale_m=0.1, octaves=6, roughness=1, contrast=1)
    Heterogeneity(octaves=1, roughness=0, contrast=0)


def test_the_default_scale_depends_on_what_is_heterogeneous() -> None:
    default, own = Heterogeneity(contrast=0.2), Heterogeneity(scale_m=40.0, contrast=0.2)
    rain, snow, fog = (
        Rain(rate_mm_h=5, heterogeneity=default),
        Snow(rate_mm_h=5, heterogeneity=default),
        Fog(visibility_m=50, heterogeneity=default),
    )
    assert rain.heterogeneity is not None
    assert snow.heterogeneity is not None
    assert fog.heterogeneity is not None
    assert (rain.heterogeneity.scale_m, snow.heterogeneity.scale_m, fog.heterogeneity.scale_m) == (300.0, 300.0, 40.0)
    assert Rain(rate_mm_h=5, heterogeneity=own).heterogeneity == own, "an explicit scale is kept"
    for part in (rain, Rain(rate_mm_h=5, heterogeneity=own)):
        weather = Weather(rain=part)
        assert Weather.from_mapping(weather.to_mapping()) == weather


@pytest.mark.parametrize(("part", "old"), [(Rain, "cells"), (Snow, "cells"), (Fog, "uneven")])
def test_earlier_names_of_fields_still_work_with_a_warning(part: type[Any], old: str) -> None:
    amount = {"visibility_m": 50} if part is Fog else {"rate_mm_h": 5}
    with pytest.warns(DeprecationWarning, match=f"the field '{old}' is deprecated .* use 'heterogeneity'"):
        made = part(**amount, **{old: {"contrast": 0.2}})
    assert made == part(**amount, heterogeneity={"contrast": 0.2})
    with pytest.warns(DeprecationWarning, match=f"{part.__name__}.{old} is deprecated"):
        assert getattr(made, old) is made.heterogeneity


def test_earlier_names_of_the_weather_still_work_with_a_warning() -> None:
    weather = Weather(rain_rate_mm_h=5)
    with pytest.warns(DeprecationWarning, match=r"Weather\.replace"):
        assert weather.but(seed=3) == weather.replace(seed=3)
    with pytest.warns(DeprecationWarning, match=r"Weather\.is_constant"):
        assert weather.is_still is weather.is_constant
    with pytest.warns(DeprecationWarning, match="Heterogeneity"):
        assert ph.Uneven is Heterogeneity  # wording: ok


def test_public_names() -> None:
    names = (ph.Weather, ph.Rain, ph.Fog, ph.Snow, ph.DustCloud, ph.DustTrail, ph.Heterogeneity)
    assert names == (Weather, Rain, Fog, Snow, DustCloud, DustTrail, Heterogeneity)


def test_a_weather_does_not_change() -> None:
    weather = Weather(rain_rate_mm_h=5)
    with pytest.raises(AttributeError):
        weather.rain = None  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        weather.rain.rate_mm_h = 6  # type: ignore[union-attr, misc]
    assert copy.deepcopy(weather) == weather == pickle.loads(pickle.dumps(weather))


# ---- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rain_rate_mm_h": -1}, "rain_rate_mm_h: must be from 0 to 500 mm/h, got -1"),
        ({"rain": {"rate_mm_h": -1}}, r"rain\.rate_mm_h: must be from 0 to 500 mm/h, got -1"),
        ({"rain_rate_mm_h": 500.1}, "rain_rate_mm_h: must be from 0 to 500 mm/h, got 500.1"),
        ({"rain_rate_mm_h": NAN}, "rain_rate_mm_h: expected a finite number from 0 to 500 mm/h, or pairs .*, got nan"),
        ({"rain_rate_mm_h": INF}, "rain_rate_mm_h: expected a finite number from 0 to 500 mm/h, or pairs .*, got inf"),
        ({"rain_rate_mm_h": "heavy"}, "rain_rate_mm_h: expected a number from 0 to 500 mm/h, or pairs .*, got 'heavy'"),
        ({"rain_rate_mm_h": True}, "rain_rate_mm_h: must be a number, got true"),
        ({"rain_rate_mm_h": {}}, "rain_rate_mm_h: expected a number from 0 to 500 mm/h, or pairs"),
        ({"rain_rate_mm_h": []}, r"rain_rate_mm_h: expected a number .* or pairs .*, got \[\]"),
        ({"rain_rate_mm_h": [[0, 1], [5]]}, r"rain_rate_mm_h\[1\]: expected another entry, got \[5\]"),
        ({"rain_rate_mm_h": [[0, 1], [5, NAN]]}, r"rain_rate_mm_h\[1\]\[1\]: .*finite number, got nan"),
        ({"rain_rate_mm_h": [[NAN, 1], [5, 1]]}, r"rain_rate_mm_h\[0\]\[0\]: .*finite number, got nan"),
        ({"rain_rate_mm_h": [[0, 1], [5, -2]]}, "rain_rate_mm_h: must be from 0 to 500 mm/h, got -2 at 5 s"),
        ({"rain_rate_mm_h": [[0, 1], [5, 2], [5, 3]]}, "rain_rate_mm_h: times must increase, but 5 s follows 5 s"),
        ({"rain_rate_mm_h": [[5, 1], [0, 2]]}, "rain_rate_mm_h: times must increase, but 0 s follows 5 s"),
        ({"rain": 25}, r"rain: expected \{rate_mm_h: 25\}, got 25; or write rain_rate_mm_h: 25"),
        ({"rain": {}}, r"rain\.rate_mm_h: is required"),
        ({"rain": {"rate_mm_h": 5, "rate": 5}}, r"rain\.rate: unknown field; did you mean 'rate_mm_h'\?"),
        ({"rain": {"rate_mm_h": 5, "model": "vain"}}, r"rain\.model: must be one of mie, .*did you mean 'vane'\?\)"),
        ({"rain": {"rate_mm_h": 5, "model": None}}, r"rain\.model: must be one of mie, vane, goodin2019, .*, got null"),
        ({"rain": {"rate_mm_h": 5, "drop_sizes": "marshal-palmer"}}, r"rain\.drop_sizes: .*'marshall-palmer'"),
        ({"fog": {"visibility_m": 9, "heterogeneity": {"octave": 5}}}, r"heterogeneity\.octave: unknown .*'octaves'"),
        ({"fog": {**FOG, "heterogeneity": {"octaves": 7}}}, r"heterogeneity\.octaves: must be from 1 to 6, got 7"),
        ({"fog": {**FOG, "heterogeneity": {"octaves": 2.5}}}, r"heterogeneity\.octaves: expected a whole number"),
        ({"fog": {**FOG, "heterogeneity": {"scale_m": 0}}}, r"heterogeneity\.scale_m: must be from 0.1 .*, got 0"),
        ({"fog": {**FOG, "heterogeneity": {"contrast": 1.1}}}, r"heterogeneity\.contrast: must be from 0 to 1, got"),
        ({"fog": {**FOG, "heterogeneity": {"roughness": NAN}}}, r"heterogeneity\.roughness: expected a finite number"),
        ({"visibility_m": 0}, r"visibility_m: must be from 5 to 300000 m \(air without fog has .*\), got 0"),
        ({"visibility_m": 4.9}, "visibility_m: must be from 5 to 300000 m"),
        ({"visibility_m": INF}, "visibility_m: expected a finite number from 5 to 300000 m, or pairs .*, got inf"),
        ({"visibility_m": [[0, 100], [9, 0]]}, "visibility_m: must be from 5 .*, got 0 at 9 s"),
        ({"fog": {"visibility_m": 3e6}}, r"fog\.visibility_m: must be from 5 to 300000 m"),
        ({"fog": {"visibility_m": 90, "model": "krause"}}, r"fog\.model: .*did you mean 'kruse'\?\), got 'krause'"),
        ({"fog": {"visibility_m": 90, "backscatter": 0.9}}, r"fog\.backscatter: must be from 0.01 to 0.6, got 0.9"),
        ({"fog": {"visibility_m": 90, "cells": {}}}, r"fog\.cells: unknown field"),
        ({"snow_rate_mm_h": 51}, "snow_rate_mm_h: must be from 0 to 50 mm/h of melted water, got 51"),
        ({"snow": {"rate_mm_h": -1}}, r"snow\.rate_mm_h: must be from 0 to 50"),
        ({"rain_rate": 5}, r"rain_rate: unknown field; did you mean 'rain_rate_mm_h'\?"),
        ({"wind": (1, 0, 0)}, r"wind: unknown field; did you mean 'wind_m_s'\?"),
        ({"wind_m_s": (1, 0)}, r"wind_m_s: expected a list of 3 numbers in m/s, got \[1, 0\]"),
        ({"wind_m_s": (1, NAN, 0)}, r"wind_m_s\[1\]: expected a finite number in m/s, got nan"),
        ({"wind_m_s": (1, 101, 0)}, r"wind_m_s\[1\]: must be from -100 to 100 m/s, got 101"),
        ({"wind_m_s": 3}, "wind_m_s: "),
        ({"seed": -1}, "seed: must be from 0 to 18446744073709551615, got -1"),
        ({"seed": 1.5}, "seed: expected a whole number, got 1.5"),
        ({"seed": False}, "seed: must be a number, got false"),
        ({"rain": {"rate_mm_h": 5}, "rain_rate_mm_h": 5}, "rain_rate_mm_h: set rain or rain_rate_mm_h, not both"),
        ({"fog": {"visibility_m": 50}, "visibility_m": 5}, "visibility_m: set fog or visibility_m, not both"),
        ({"snow": {"rate_mm_h": 5}, "snow_rate_mm_h": 5}, "snow_rate_mm_h: set snow or snow_rate_mm_h, not both"),
        ({"dust": CLOUD}, "dust: must be a list of dust clouds and trails"),
        ({"dust": [{**CLOUD, "kind": "clod"}]}, r"dust\[0\]\.kind: expected 'cloud' or 'trail', got 'clod'"),
        ({"dust": [{"centre_m": [0, 0, 0]}]}, r"dust\[0\]\.kind: is required \('cloud' or 'trail'\)"),
        ({"dust": [CLOUD, {**CLOUD, "density_kg_m3": -1}]}, r"dust\[1\]\.density_kg_m3: .* 1 kg/m\^3, got -1"),
        ({"dust": [{**CLOUD, "half_size_m": [1, 0, 1]}]}, r"dust\[0\]\.half_size_m\[1\]: must be from 0.01"),
        ({"dust": [{**CLOUD, "centre": 1}]}, r"dust\[0\]\.centre: unknown field; did you mean 'centre_m'\?"),
        ({"dust": [{**CLOUD, "mass_extinction_m2_kg": 0}]}, r"mass_extinction_m2_kg: must be from 1 .*, got 0"),
        ({"dust": [{**TRAIL, "weight_kg": 0}]}, r"dust\[0\]\.weight_kg: must be from 1 to 1000000 kg, got 0"),
        ({"dust": [{**TRAIL, "width_m": -1}]}, r"width_m: must be from 0.1 to 50 m, got -1"),
        ({"dust": [{**TRAIL, "length_m": NAN}]}, r"length_m: expected a finite number in m, got nan"),
        ({"dust": [{**TRAIL, "silt_percent": 101}]}, r"silt_percent: must be from 0 to 100 %, got 101"),
        ({"dust": [{**TRAIL, "moisture_percent": 0}]}, r"moisture_percent: must be from 0.01 to 100 %, got 0"),
        ({"dust": [{**TRAIL, "path": [[0, 0, 0, 0]]}]}, r"path: expected a list of lists of numbers, got"),
        ({"dust": [{**TRAIL, "path": [[0, 0, 0, 0], [1, 2, 3]]}]}, r"path\[1\]: expected another entry, got"),
        ({"dust": [{**TRAIL, "path": [[0, 0, 0, 0], [0, 1, 0, 0]]}]}, r"path: times must increase"),
        ({"dust": [{**TRAIL, "path": "road.csv"}]}, r"path: must be a list of \[time_s, x, y, z\] rows"),
        ({"dust": [{**TRAIL, "path": Fixed}]}, r"path: must be a list"),
        ({"dust": [{**TRAIL, "path": Fixed(Pose())}]}, r"dust\[0\]: end_s is required"),
        ({"dust": [{**TRAIL, "start_s": 10}]}, r"dust\[0\]: must start before it ends, .*10 s and ends at 10 s"),
        ({"dust": [{**TRAIL, "end_s": INF}]}, r"end_s: expected a finite number in s, got inf"),
    ],
)  # fmt: skip
def test_bad_values_are_reported_in_one_line_with_their_place(fields: dict[str, Any], message: str) -> None:
    for make in (lambda: Weather(**fields), lambda: Weather.from_mapping(fields), lambda: Weather().replace(**fields)):
        with pytest.raises(ConfigError, match=rf"^weather: (dust\[0\]\.|fog\.)?{message}") as caught:
            make()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rain(rate_mm_h=-1), "^Rain: rate_mm_h: must be from 0 to 500 mm/h, got -1$"),
        (lambda: Rain(), r"^Rain: rate_mm_h: is required \(a number from 0 to 500 mm/h, or .*\)$"),
        (lambda: Rain(rate_mm_h=1, modell="mie"), "^Rain: modell: unknown field; did you mean 'model'"),
        (lambda: Fog(visibility_m=0), "^Fog: visibility_m: must be from 5"),
        (
            lambda: Fog(visibility_m=9, heterogeneity={"octaves": 0}),
            r"^Fog: heterogeneity\.octaves: must be from 1 to 6, got 0",
        ),
        (lambda: Snow(rate_mm_h=NAN), "^Snow: rate_mm_h: expected a finite number .* mm/h, or pairs .*, got nan"),
        (lambda: Heterogeneity(contrast=-0.1), "^Heterogeneity: contrast: must be from 0 to 1, got -0.1"),
        (lambda: DustCloud(centre_m=(0, 0, 0), half_size_m=(1, 1, 1)), "^DustCloud: density_kg_m3: is required"),
        (lambda: DustTrail(path=3), "^DustTrail: path: must be a list"),
        (lambda: Weather.from_mapping([1]), r"^weather: expected a mapping of fields, got \[1\]"),
        (lambda: Weather.from_mapping({1: 2}), "^weather: expected text as the name of a field, got 1"),
        (lambda: Weather.from_mapping({"seed": -1}, "storm"), "^storm: seed: "),
        (lambda: Weather().at(NAN), "^weather: time must be a number of seconds, got nan"),
        (lambda: Weather().at("noon"), "^weather: time must be a number of seconds, got 'noon'"),
        (lambda: Weather().is_clear(NAN), "^weather: time must be a number"),
    ],
)
def test_parts_and_questions_in_code_raise_the_same_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


# ---- schedules -----------------------------------------------------------------------------------------------------


def test_a_schedule_is_linear_between_its_points_and_level_outside() -> None:
    schedule = [[10.0, 0.0], [20.0, 25.0], [40.0, 5.0]]
    for time, value in ((-5, 0), (10, 0), (12, 5), (20, 25), (30, 15), (40, 5), (1e9, 5), (INF, 5), (-INF, 0)):
        assert value_at(schedule, time) == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(value_at(schedule, np.array([[0.0, 12.0], [30.0, 99.0]])), [[0, 5], [15, 5]], atol=1e-12)
    assert value_at(7, 3.0) == 7.0
    assert isinstance(value_at(7, 3.0), float)
    np.testing.assert_array_equal(value_at(7.0, np.arange(3)), [7.0, 7.0, 7.0])
    assert value_at([[4, 2]], 0.0) == 2.0


# ---- asking --------------------------------------------------------------------------------------------------------


def test_conditions_at_a_time() -> None:
    weather = Weather(
        rain_rate_mm_h=[[0, 0], [10, 20]],
        dust=[TRAIL | {"start_s": 4}, CLOUD, CLOUD | {"density_kg_m3": [[0, 0], [10, 1e-3]]}],
        wind_m_s=(1, 2, 0),
    )
    assert weather.at(5) == Conditions(
        time_s=5.0,
        rain_rate_mm_h=10.0,
        visibility_m=INF,
        snow_rate_mm_h=0.0,
        cloud_density_kg_m3=(1e-4, 5e-4),
        trails_begun=1,
        wind_m_s=(1.0, 2.0, 0.0),
    )
    assert weather.at(3.9).trails_begun == 0
    assert Weather().at(0) == Conditions(time_s=0.0)
    assert Weather(visibility_m=[[0, 100], [10, 300]], snow_rate_mm_h=3).at(5) == Conditions(
        time_s=5.0, visibility_m=200.0, snow_rate_mm_h=3.0
    )


def test_clear_air() -> None:
    ramp = [[0, 0], [10, 0], [20, 5]]
    cases: list[tuple[Weather, bool, bool, bool]] = [  # weather, clear ever, at 5 s, at 15 s
        (Weather(), True, True, True),
        (Weather(wind_m_s=(9, 0, 0), seed=3), True, True, True),
        (Weather(rain_rate_mm_h=0, snow_rate_mm_h=[[0, 0], [9, 0]]), True, True, True),
        (Weather(rain_rate_mm_h=ramp), False, True, False),
        (Weather(snow_rate_mm_h=ramp), False, True, False),
        (Weather(visibility_m=300_000), False, False, False),
        (Weather(dust=[CLOUD]), False, False, False),
        (Weather(dust=[CLOUD | {"density_kg_m3": 0}]), True, True, True),
        (Weather(dust=[TRAIL | {"start_s": 8}]), False, True, False),
    ]
    for weather, ever, early, late in cases:
        assert (weather.is_clear(), weather.is_clear(5), weather.is_clear(15)) == (ever, early, late), weather


def test_repr_is_one_line() -> None:
    assert repr(Weather()) == "<Weather clear>"
    assert repr(Weather(rain_rate_mm_h=25, visibility_m=800)) == "<Weather rain 25 mm/h, visibility 800 m>"
    many = Weather(
        rain_rate_mm_h=[[0, 5], [9, 12.5]], snow_rate_mm_h=2, dust=[CLOUD, CLOUD, TRAIL], wind_m_s=(3, -0.5, 0)
    )
    assert repr(many) == (
        "<Weather rain 5 to 12.5 mm/h, snow 2 mm/h, 2 dust clouds, 1 dust trail, wind (3, -0.5, 0) m/s>"
    )


# ---- a vehicle's way -----------------------------------------------------------------------------------------------


def test_a_trail_faces_the_way_it_goes() -> None:
    rows = [[0, 0, 0, 0], [1, 0, 0, 0], [2, 10, 0, 0], [3, 10, 0, 0], [4, 10, 5, 1], [5, 0, 5, 1]]
    trail = DustTrail(path=rows, start_s=2.5)
    assert trail.span_s == (2.5, 5.0)
    motion = trail.trajectory()
    assert isinstance(motion, Waypoints)
    np.testing.assert_array_equal(motion.xyz, np.array(rows)[:, 1:])
    # It waits in the first and the third stretch: turned as it will leave, and as it came.
    yaw = [pose_at(motion, time).rpy_deg[2] for time in range(6)]
    np.testing.assert_allclose(yaw, [0, 0, 0, 90, 180, 180], atol=1e-9)
    np.testing.assert_allclose(pose_at(motion, 3.5).xyz, [10, 2.5, 0.5], atol=1e-12)
    standing = DustTrail(path=[[0, 1, 2, 3], [9, 1, 2, 3]]).trajectory()
    assert pose_at(standing, 4.0) == Pose(xyz=(1, 2, 3))


def test_a_trail_takes_trajectories_in_code() -> None:
    drive = ConstantTwist(Pose(), velocity=(5.0, 0.0, 0.0))
    trail = DustTrail(path=drive, end_s=20)
    assert trail.trajectory() is drive
    assert trail.span_s == (0.0, 20.0)
    weather = Weather(dust=[trail])
    assert weather == Weather(dust=[DustTrail(path=drive, end_s=20)])
    with pytest.raises(ConfigError, match=r"^weather: dust\[0\]\.path: a file needs rows .*got a ConstantTwist"):
        weather.to_mapping()
    waypoints = Waypoints([1.0, 3.0], [Pose(xyz=(0, 0, 0)), Pose(xyz=(0, 8, 0))])
    assert DustTrail(path=waypoints) == DustTrail(path=[[1, 0, 0, 0], [3, 0, 8, 0]])


# ---- changed copies ------------------------------------------------------------------------------------------------


def test_but_changes_what_is_named_and_nothing_else() -> None:
    weather = Weather(rain=Rain(rate_mm_h=25, model="vane"), visibility_m=800, dust=[CLOUD], wind_m_s=(3, 0, 0), seed=2)
    slower = weather.replace(rain_rate_mm_h=5)
    assert slower.rain == Rain(rate_mm_h=5, model="vane")
    assert slower.replace(rain_rate_mm_h=25) == weather
    assert weather.rain == Rain(rate_mm_h=25, model="vane"), "the weather itself is as it was"
    assert weather.replace() == weather
    assert weather.replace(snow_rate_mm_h=1).snow == Snow(rate_mm_h=1)
    assert weather.replace(rain=None).rain is weather.replace(rain_rate_mm_h=None).rain is None
    assert weather.replace(visibility_m=None, rain=None, dust=[], wind_m_s=(0, 0, 0), seed=0) == Weather()
    assert weather.replace(rain=Rain(rate_mm_h=1), rain_rate_mm_h=None).rain == Rain(rate_mm_h=1)
    assert weather.replace(fog={"visibility_m": 50, "model": "kruse"}).fog == Fog(visibility_m=50, model="kruse")
    with pytest.raises(ConfigError, match="set rain or rain_rate_mm_h, not both"):
        weather.replace(rain=Rain(rate_mm_h=5), rain_rate_mm_h=5)
