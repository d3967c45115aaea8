"""Formulas of soft soil."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid

from parhelion.contact import soil
from parhelion.contact.terrain import GROUND, ground_properties, soil_of


def test_pressure_is_bekkers_equation() -> None:
    k = soil.stiffness(1e3, 2e6, 0.1)
    assert k == pytest.approx(2.01e6)
    assert soil.pressure(0.04, k, 0.5) == pytest.approx(2.01e6 * 0.2)


@pytest.mark.parametrize("name", ["dry sand", "sandy loam", "clayey soil"])
def test_sinkage_carries_the_load_of_a_wheel(name: str) -> None:
    """The load is the integral of the pressure below the wheel; the formula of Bekker is its first terms."""
    one, width, diameter, load = soil.SOILS[name], 0.2, 0.6, 1500.0
    k = soil.stiffness(one.k_c, one.k_phi, width)
    depth = float(soil.sinkage(load, width, diameter, k, one.exponent))
    x = np.linspace(0.0, math.sqrt(diameter * depth), 20_001)
    below = depth - x**2 / diameter  # circle as a parabola
    carried = trapezoid(width * k * np.maximum(below, 0.0) ** one.exponent, x)
    assert carried == pytest.approx(load, rel=0.08)


def test_compaction_resistance_is_the_work_per_distance() -> None:
    one, width, depth = soil.SOILS["sandy loam"], 0.3, 0.05
    k = soil.stiffness(one.k_c, one.k_phi, width)
    z = np.linspace(0.0, depth, 100_001)
    work = trapezoid(width * soil.pressure(z, k, one.exponent), z)
    assert soil.compaction_resistance(depth, width, k, one.exponent) == pytest.approx(work, rel=1e-4)


def test_mobilised_shear_is_the_mean_of_janosi_and_hanamoto() -> None:
    j = np.linspace(0.0, 0.05, 100_001)
    mean = trapezoid(1.0 - np.exp(-j / 0.02), j) / 0.05
    assert soil.mobilised(np.array(0.05), 0.02) == pytest.approx(mean, rel=1e-6)
    assert soil.mobilised(np.array(0.0), 0.02) == pytest.approx(0.0, abs=1e-4)
    assert soil.mobilised(np.array(10.0), 0.02) == pytest.approx(1.0, abs=0.01)


def test_shear_strength_and_contact_length() -> None:
    assert soil.shear_strength(1000.0, 0.02, 1e3, math.tan(math.radians(30.0))) == pytest.approx(
        20.0 + 577.35, abs=0.01
    )
    assert soil.contact_length(np.array(0.3), 0.3) == pytest.approx(0.3 * math.pi / 2)


def test_materials_have_ground_properties_dry_and_wet() -> None:
    assert ground_properties("asphalt") == (0.85, 0.012)
    assert ground_properties("asphalt-dark", wet=True) == (0.6, 0.012)
    assert ground_properties("something else") == (0.6, 0.012)
    assert soil_of("soil") is None
    assert soil_of("soil", wet=True) is soil.SOILS["sandy loam"]
    assert soil_of("mud") is soil.SOILS["clayey soil"]
    assert soil_of("concrete") is None
    assert all(wet <= dry for dry, wet, _ in GROUND.values())


def _rating_cone_index(moisture_percent: float, clay_percent: float) -> float:
    """Rating cone index by moisture and clay (Collins 1971, as given by Anderson, Applied Geography 3, 1983)."""
    moist = math.log(moisture_percent)
    return math.exp(4.605 + (2.123 + 0.008 * clay_percent - 0.693 * moist) / (0.149 + 0.002 * clay_percent))


@pytest.mark.parametrize("clay_percent", [10.0, 18.0, 25.0])
def test_dry_loam_is_firm_and_wet_loam_is_soft_by_its_cone_index(clay_percent: float) -> None:
    """Cone penetrometers end at 300; a car or truck needs 25 to 60 for one pass. Loam at 15 % moisture exceeds 300."""
    assert _rating_cone_index(10.0, clay_percent) > 1000.0
    assert _rating_cone_index(15.0, clay_percent) > 300.0
    assert _rating_cone_index(32.0, clay_percent) < 100.0
    assert soil_of("soil") is None
    assert soil_of("soil", wet=True) is soil.SOILS["sandy loam"]
