"""Studies: rows of grids and draws, paths into scenarios, and messages on invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from campaign_rigs import study_in
from parhelion.campaign import Study
from parhelion.campaign.study import StudyDraws, _drawn
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.scenario.fields import with_value

RAIN = "weather.rain_rate_mm_h"


def test_rows_are_all_combinations_and_seeds_vary_fastest(tmp_path: Path) -> None:
    study = study_in(tmp_path, vary={RAIN: [0, 25], "sensors.top.options.sub_rays": [1, 5, 25]}, seeds=[7, 9])
    assert len(study) == 12
    assert study.cells == 6
    rows = [study.row(number) for number in range(12)]
    assert [(row.values[RAIN], row.values["sensors.top.options.sub_rays"], row.seed) for row in rows[:5]] == [
        (0, 1, 7), (0, 1, 9), (0, 5, 7), (0, 5, 9), (0, 25, 7)
    ]  # fmt: skip
    assert [row.cell for row in rows] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    with pytest.raises(ConfigError, match="has rows 0 to 11, not 12"):
        study.row(12)


def test_the_scenario_of_a_row_has_its_values_and_seed(tmp_path: Path) -> None:
    vary = {RAIN: [5], "sensors.top.mount.xyz": [[1, 2, 3]], "sensors.0.options.noise": [False], "world.seed": [4]}
    study = study_in(tmp_path, vary=vary, seeds=[11])
    fields = study.scenario_of(study.row(0))
    assert fields["seed"] == 11
    assert fields["weather"] == {"rain_rate_mm_h": 5}
    assert fields["world"] == {"name": "wall.yaml", "seed": 4}
    assert fields["sensors"][0]["mount"]["xyz"] == [1, 2, 3]
    assert fields["sensors"][0]["options"] == {"noise": False}
    assert study.base["weather"] == {"rain_rate_mm_h": 20}


def test_one_number_of_a_list_is_varied(tmp_path: Path) -> None:
    study = study_in(tmp_path, vary={"sensors.top.mount.xyz.2": [0.5, 2.5]})
    assert study.scenario_of(study.row(1))["sensors"][0]["mount"]["xyz"] == [0, 0, 0.5]
    fields: dict[str, Any] = {"a": [{"name": "x", "b": 1}]}
    with_value(fields, "a.x.c.d", 2)
    assert fields == {"a": [{"name": "x", "b": 1, "c": {"d": 2}}]}


def test_draws_are_joint_and_depend_on_seed_and_path_only(tmp_path: Path) -> None:
    vary = {
        RAIN: {"uniform": [0, 50], "count": 2000, "seed": 3},
        "weather.visibility_m": {"loguniform": [10, 1000]},
        "sensors.top.options.sun_klx": {"normal": [50, 20], "within": [0, 100]},
        "sensors.top.options.sub_rays": {"uniform": [0.5, 25.4], "whole": True},
        "sensors.top.options.returns": {"choice": ["strongest", "last"]},
    }
    study = study_in(tmp_path, vary=vary, seeds=2)
    assert len(study) == 4000
    assert study.row(7).draw == 3
    rain = np.array(study.drawn[RAIN])
    # The mean of 2000 uniform numbers has a standard deviation of 50 / √(12 · 2000) = 0.32: 4 of them is 1.3.
    assert abs(rain.mean() - 25) < 1.3
    assert rain.min() >= 0
    assert rain.max() <= 50
    decades = np.log10(study.drawn["weather.visibility_m"])
    assert abs(decades.mean() - 2) < 4 * 2 / np.sqrt(12 * 2000)
    light = np.array(study.drawn["sensors.top.options.sun_klx"])
    assert abs(light.mean() - 50) < 4 * 20 / np.sqrt(2000)
    assert light.min() >= 0
    assert light.max() <= 100
    assert set(study.drawn["sensors.top.options.sub_rays"]) == set(range(1, 26))
    assert set(study.drawn["sensors.top.options.returns"]) == {"strongest", "last"}
    assert abs(np.corrcoef(rain, decades)[0, 1]) < 4 / np.sqrt(2000)
    alone = study_in(tmp_path, vary={RAIN: {"uniform": [0, 50], "count": 10, "seed": 3}})
    assert alone.drawn[RAIN] == study.drawn[RAIN][:10]


def test_draws_of_every_distribution_are_its_quantiles() -> None:
    """The same seed and path give the same uniform numbers u; each distribution is its quantile function of u."""

    def drawn(**fields: Any) -> np.ndarray:
        return np.array(_drawn(StudyDraws(seed=4, **fields), "a.b", 500))

    u = drawn(uniform=(0.0, 1.0))
    words = Stream(4, "campaign/a.b").words(np.arange(500))
    assert u == pytest.approx(((words[0].astype(object) * 2**21 + words[1] // 2**11) / 2**53).astype(float), abs=2e-16)
    assert drawn(uniform=(-3.0, 5.0)) == pytest.approx(-3.0 + 8.0 * u)
    assert drawn(loguniform=(0.5, 200.0)) == pytest.approx(0.5 * 400.0**u)
    assert drawn(normal=(7.0, 2.5)) == pytest.approx(norm.ppf(u, 7.0, 2.5))
    assert drawn(normal=(7.0, 2.5), within=(6.0, 12.0)) == pytest.approx(truncnorm.ppf(u, -0.4, 2.0, 7.0, 2.5))
    assert drawn(choice=["a", "b", "c"]).tolist() == ["abc"[int(3 * one)] for one in u]
    assert drawn(uniform=(0.0, 9.0), whole=True).tolist() == [round(9.0 * one) for one in u]


def test_limits_of_distributions_are_allowed(tmp_path: Path) -> None:
    """Ends and deviations below 1, and an interval six standard deviations from the mean."""
    vary = {
        RAIN: {"loguniform": [0.5, 0.9], "count": 20, "seed": 1},
        "weather.visibility_m": {"normal": [100, 0.5], "within": [103, 110]},
    }
    found = study_in(tmp_path, vary=vary).drawn
    assert min(found[RAIN]) >= 0.5
    assert max(found[RAIN]) <= 0.9
    assert min(found["weather.visibility_m"]) >= 103
    with pytest.raises(ConfigError, match="more than six standard deviations"):
        study_in(tmp_path, vary={RAIN: {"normal": [10, 0.5], "within": [13.1, 20], "count": 3}})
    with pytest.raises(ConfigError, match="within: applies to normal"):
        study_in(tmp_path, vary={RAIN: {"uniform": [0, 1], "within": [0, 1], "count": 3}})
    with pytest.raises(ConfigError, match="whole: does not apply to choices"):
        study_in(tmp_path, vary={RAIN: {"choice": [1, 2], "whole": True, "count": 3}})


def test_a_weather_file_is_read_so_that_its_fields_can_be_varied(tmp_path: Path) -> None:
    (tmp_path / "wet.yaml").write_text("rain_rate_mm_h: 10\nvisibility_m: 500\n")
    study = study_in(tmp_path, {"weather": "wet.yaml"})
    assert study.scenario_of(study.row(0))["weather"] == {"rain_rate_mm_h": 0, "visibility_m": 500}


def test_an_inline_scenario_equals_a_file(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    inline = Study.from_mapping({"scenario": study.base, "vary": {RAIN: [0, 50, 200]}, "seeds": 4}, tmp_path)
    assert inline.scenario_of(inline.row(5)) == study.scenario_of(study.row(5))
    assert inline.sha256 == study.sha256


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({RAIN: []}, r"vary\.'weather.rain_rate_mm_h': expected a list of values, or a distribution"),
        ({RAIN: 3}, r"vary\.'weather.rain_rate_mm_h': expected \[3\], got 3"),
        ({"weather.rain_rate_mmh": [1]}, r"did you mean 'weather.rain_rate_mm_h'\?"),
        ({"sensors.topp.options.sub_rays": [1]}, r"did you mean 'sensors.top.options.sub_rays'\?"),
        ({"sensors.top.options.subrays": [1]}, r"did you mean 'sensors.top.options.sub_rays'\?"),
        ({"sensors.top.mont.xyz": [[0, 0, 0]]}, r"did you mean 'sensors.top.mount.xyz'\?"),
        ({"world.parms.size": [1]}, r"did you mean 'world.params.size'\?"),
        ({"duration_s.x": [1]}, "duration_s has no further fields"),
        ({RAIN: [0, -5]}, "must be from 0 to 500 mm/h, got -5"),
        (
            {"duration_s": [1, "long"]},
            "vary: duration_s: expected a number above 0 and up to 1000000 s",
        ),
        ({RAIN: [1, 1]}, "a value is given twice"),
        ({"seed": [1]}, "use seeds to vary the seed"),
        ({RAIN: {"uniform": [0, 1]}}, "give the number of draws"),
        ({RAIN: {"uniform": [1, 0], "count": 3}}, "uniform: the first value must be below the second"),
        ({RAIN: {"uniform": [0, 1], "cout": 3}}, "cout: unknown field; did you mean 'count'"),
        ({RAIN: {"uniform": [0, 1], "normal": [0, 1], "count": 3}}, "give one of uniform, loguniform, normal, choice"),
        ({RAIN: {"loguniform": [0, 1], "count": 3}}, "both values must be above 0"),
        ({RAIN: {"normal": [0, 0], "count": 3}}, "the standard deviation must be above 0"),
        (
            {RAIN: {"uniform": [0, 1], "count": 3}, "weather.visibility_m": {"uniform": [9, 99], "count": 4}},
            "their count must be one: got 3, 4",
        ),
        ({f"weather.wind_m_s.{k}": list(range(1000)) for k in range(3)}, "more than 10000000"),
    ],
)
def test_messages_on_invalid_variations(tmp_path: Path, vary: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        study_in(tmp_path, vary=vary)
    assert str(caught.value).startswith(str(tmp_path / "study.yaml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measures": ["point_per_scan"]}, "unknown measure 'point_per_scan': did you mean 'points_per_scan'"),
        ({"stop": {"measure": "detection", "half_width": 1}}, "did you mean 'detection_share'"),
        ({"stop": {"measure": "detection_share", "half_width": 0}}, "half_width"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": [1, 1]}, "a seed is given twice"),
        ({"sceds": 1}, "unknown field; did you mean 'seeds'"),
        ({"kind": "dataset"}, "kind: dataset and dataset:"),
        ({"scenario": "none.yaml"}, "none.yaml"),
    ],
)
def test_messages_on_invalid_studies(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        study_in(tmp_path, **changes)


def test_a_scenario_without_lidar_has_nothing_to_measure(tmp_path: Path) -> None:
    vehicle = {"name": "cart", "motion": {"fixed": {"xyz": [0, 0, 0]}}}
    imu = {"name": "imu", "type": "imu", "model": "bosch/bmi160", "vehicle": "cart"}
    with pytest.raises(ConfigError, match="has no lidar"):
        study_in(tmp_path, {"vehicles": [vehicle], "sensors": [imu]})


@pytest.mark.parametrize("name", ["drift", "fog", "rain"])
def test_studies_of_the_examples_are_complete(name: str) -> None:
    study = Study.load(Path(__file__).resolve().parents[3] / "examples" / "studies" / f"{name}.yaml")
    assert len(study) >= 30
    assert study.numbers
