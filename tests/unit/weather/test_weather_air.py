"""State of the air in a weather: temperature, humidity and pressure."""

from __future__ import annotations

from pathlib import Path

import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError


def test_air_survives_files_and_changes(tmp_path: Path) -> None:
    weather = ph.Weather(temperature_c=-5, humidity_percent=80, pressure_hpa=990, rain_rate_mm_h=2)
    weather.save(tmp_path / "air.yaml")
    assert ph.Weather.load(tmp_path / "air.yaml") == weather
    assert weather != weather.replace(temperature_c=0)
    assert weather.replace(temperature_c=None, humidity_percent=None, pressure_hpa=None) == ph.Weather(rain_rate_mm_h=2)
    assert "-5 °C" in repr(weather)
    assert ph.Weather().temperature_c is None
    assert ph.Weather(temperature_c=30).is_clear()


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature_c", 70), ("humidity_percent", 101), ("pressure_hpa", 10), ("temperature_c", "hot")],
)
def test_bad_air_is_reported_with_its_field(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        ph.Weather(**{name: value})  # type: ignore[arg-type]
