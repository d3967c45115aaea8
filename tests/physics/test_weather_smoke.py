"""Smoke: extinction by mass, light through a cloud, echoes of the volume."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.weather.media.smoke import SmokeCloud, smoke_extinction_m2_kg


def test_extinction_by_mass() -> None:
    """8.7 m^2/g at 633 nm, inversely proportional to the wavelength."""
    assert smoke_extinction_m2_kg(633.0) == 8700.0
    assert smoke_extinction_m2_kg(1266.0) == 4350.0


@pytest.mark.slow
def test_light_through_a_cloud_and_its_echo() -> None:
    """Power of a wall behind a cloud falls by exp(-2 tau) with tau from the density on the beam; dense smoke
    returns."""
    world = ph.World()
    world.add(ph.shapes.box(0.2, 60, 60), material="concrete", label="wall", pose=ph.Pose(xyz=(20, 0, 0)))
    lidar = ph.Lidar("ouster/os1-64", noise=False)

    def scan(density: float) -> ph.Scan:
        cloud = SmokeCloud(centre_m=(10, 0, 0), half_size_m=(4, 30, 30), density_kg_m3=density)
        world.weather = ph.Weather(smoke=[cloud])
        return lidar.scan(world, pose=ph.Pose(), seed=1)

    clear, thin = scan(0.0), scan(5e-6)
    _, first, second = np.intersect1d(clear.fields["shot"], thin.fields["shot"], return_indices=True)
    ahead = np.abs(clear.xyz[first, 1:]).max(axis=1) < 1.0
    ratio = thin.fields["power"][second][ahead] / clear.fields["power"][first][ahead]
    assert len(ratio) > 20
    # The density falls from the centre to the edge, so the depth lies below that of an even cloud of 8 m.
    depth = -0.5 * np.log(ratio)
    even = smoke_extinction_m2_kg(lidar.config.wavelength_nm) * 5e-6 * 8.0
    assert np.all((depth > 0.3 * even) & (depth < 0.9 * even))
    doubled = scan(1e-5)
    _, first, third = np.intersect1d(clear.fields["shot"], doubled.fields["shot"], return_indices=True)
    ahead = np.abs(clear.xyz[first, 1:]).max(axis=1) < 1.0
    twice = -0.5 * np.log(doubled.fields["power"][third][ahead] / clear.fields["power"][first][ahead])
    assert np.median(twice) == pytest.approx(2.0 * np.median(depth), rel=0.02)
    dense = scan(5e-4)
    origins = dense.fields["origin"]
    assert (origins == ORIGINS.index("smoke")).mean() > 0.3
    assert dense.names["origin"][9] == "smoke"
    assert np.abs(dense.xyz[origins == 9, 0] - 10.0).max() < 4.1
