"""Rated ranges as a table, and the link budget in watts and photons."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from chance import deviations
from parhelion.core.constants import PLANCK_J_S, SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.link_budget import absolute_budget
from parhelion.surfaces.library import material
from rigs import many_beams, wall

TABLE = [(0.05, 30.0), (0.1, 50.0), (0.2, 65.0), (0.4, 85.0), (0.8, 120.0)]
"""Reflectance and range [m], as Cosys-AirSim's function of reflectance limits: no constant and extinction meet all."""


def limits(**more: object) -> dict[str, object]:
    rated = [{"reflectance": rho, "range_m": metres} for rho, metres in TABLE]
    return {"min_m": 0.5, "max_m": 200.0, "rated": rated, **more}


@pytest.mark.parametrize("overlap", [None, 0, 12.0, [(3.0, 0.1), (10.0, 0.6), (40.0, 1.0)]])
def test_each_rated_range_is_met(overlap: object) -> None:
    lidar = ph.Lidar(many_beams(10, range=limits(overlap=overlap)))
    for reflectance, metres in TABLE:
        assert lidar.max_range(reflectance) == pytest.approx(metres, rel=1e-3)
    between = lidar.max_range(0.15)
    assert 50.0 < between < 65.0


@pytest.mark.parametrize(("reflectance", "metres"), TABLE[1:4])
def test_half_of_the_shots_detect_a_target_at_its_rated_range(reflectance: float, metres: float) -> None:
    n = 20_000
    lidar = ph.Lidar(many_beams(n, range=limits()))
    scan = lidar.scan(wall(metres, material=f"lambert-{round(100 * reflectance)}"), pose=ph.Pose(), seed=2)
    assert np.mean(~scan.lost) == pytest.approx(0.5, abs=deviations() * 0.5 / np.sqrt(n) + 0.01)


def test_two_rated_ranges_fix_constant_and_extinction_as_before() -> None:
    config = many_beams(10, range={"min_m": 0.5, "max_m": 200.0, "rated": limits()["rated"][:2]})  # type: ignore[index]
    assert ph.Lidar(config).config.range.rated == config.range.rated


def test_link_budget_in_watts_and_photons() -> None:
    """A white wall at the threshold: the radar equation of a Lambertian target, by hand."""
    optics = {"peak_power_w": 80.0, "aperture_mm": 30.0, "efficiency": 0.6, "quantum_efficiency": 0.5}
    config = many_beams(10, transmitter=optics, receiver={"pulse_length_ns": 8.0})
    lidar = ph.Lidar(config)
    metres = lidar.max_range(1.0)
    by_hand = 80.0 * 0.6 * (1.0 / np.pi) * (np.pi * 0.015**2) / metres**2
    budget = lidar.absolute_budget
    assert budget.threshold_w == pytest.approx(by_hand, rel=1e-6)
    energy = by_hand * 8e-9
    photons = 0.5 * energy * config.wavelength_nm * 1e-9 / (PLANCK_J_S * SPEED_OF_LIGHT_M_S)
    assert budget.threshold_photons == pytest.approx(photons, rel=1e-6)
    assert budget.watts(3.0) == pytest.approx(3.0 * by_hand)
    assert budget.photons(3.0) == pytest.approx(3.0 * photons)
    with pytest.raises(ConfigError, match="section transmitter"):
        absolute_budget(many_beams(10))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("metal", 0.57, 0.82), ("person", 0.45, 0.75), ("glass", 0.17, 0.22), ("wall", 0.32, 0.44), ("road", 0.16, 0.27)],
)
def test_materials_of_huangs_table(name: str, low: float, high: float) -> None:
    assert low < material(f"huang-{name}").reflectance_at(905.0) < high
