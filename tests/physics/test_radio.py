"""Radio at surfaces: permittivity by the recommendation, Fresnel, circular waves, slabs by an independent method."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.surfaces import library, radio

L1_HZ = 1575.42e6


def test_concrete_at_l1_by_hand() -> None:
    # 5.24 - j 17.98 * 0.0462 * 1.57542^0.7822 / 1.57542, with ITU's own rounded constant 17.98.
    expected = 5.24 - 17.98j * 0.0462 * 1.57542**0.7822 / 1.57542
    assert radio.permittivity("concrete", L1_HZ) == pytest.approx(expected, rel=2e-4)


def test_every_material_of_the_library_has_a_permittivity_from_l5_to_77_ghz() -> None:
    assert set(radio.RADIO_NAME) == set(library.material_names())
    for material in library.material_names():
        found = radio.permittivity(radio.radio_name(material), [1176.45e6, L1_HZ, 6.5e9, 24e9, 77e9])
        assert np.all(found.real >= 1.0)
        assert np.all(found.imag <= 0.0)


def test_frequencies_out_of_the_table_are_reported() -> None:
    with pytest.raises(ConfigError, match=r"'concrete': no permittivity at 0.433 GHz; its bands are 1 to 100 GHz"):
        radio.permittivity("concrete", 433e6)
    with pytest.raises(ConfigError, match=r"'glass'.*150 GHz; its bands are 0.1 to 100 GHz and 220 to 450 GHz"):
        radio.permittivity("glass", [1e9, 150e9])
    with pytest.raises(ConfigError, match="unknown radio material 'concret': did you mean 'concrete'"):
        radio.permittivity("concret", 1e9)


def test_names_that_hold_a_known_one() -> None:
    assert radio.radio_name("mossy-brick") == "brick"
    assert radio.radio_name("car-paint-red") == "metal"
    assert radio.radio_name("lambert-30") == "concrete"


def test_water_at_its_relaxation() -> None:
    # Static permittivity of water at 15 C is 82 (Kaatze 1989: 81.95), and the loss peaks near 14.9 GHz.
    assert radio.water_permittivity(1e6).real == pytest.approx(82.0, abs=0.3)
    grid = np.linspace(5e9, 40e9, 701)
    assert grid[np.argmax(-radio.water_permittivity(grid).imag)] == pytest.approx(14.9e9, abs=0.3e9)


@pytest.mark.parametrize("name", ["very-dry-ground", "medium-dry-ground", "wet-ground"])
def test_soil_joins_the_recommendation_at_10_ghz(name: str) -> None:
    below, above = radio.permittivity(name, [9.999e9, 10.001e9])
    assert above.real == pytest.approx(below.real, rel=0.01)


def test_fresnel_limits() -> None:
    te, tm = radio.fresnel([1.0, 1e-6], 4.0)
    assert te == pytest.approx([-1 / 3, -1.0], abs=1e-5)
    assert tm == pytest.approx([1 / 3, -1.0], abs=1e-4)
    brewster = np.cos(np.arctan(2.0))
    assert abs(radio.fresnel(brewster, 4.0)[1]) < 1e-12


def test_circular_waves_change_hand_below_brewster_and_keep_it_beyond() -> None:
    cos = np.cos(np.radians([0.0, 40.0, 63.43494882, 80.0]))
    same, other = radio.circular(*radio.fresnel(cos, 4.0))
    assert abs(same[0]) < 1e-12
    assert abs(same[1]) < abs(other[1])
    assert abs(same[2]) == pytest.approx(abs(other[2]))
    assert abs(same[3]) > abs(other[3])
    metal = radio.circular(*radio.fresnel(cos[:2], radio.permittivity("metal", L1_HZ)))
    assert np.abs(metal[1]) == pytest.approx([1.0, 1.0], abs=1e-3)


def transfer_matrix(cos: float, eta: complex, thickness: float, frequency: float, tm: bool) -> tuple[complex, complex]:
    """Reflection and transmission of a slab by its characteristic matrix (Born and Wolf 1.6)."""
    k = 2 * np.pi * frequency / SPEED_OF_LIGHT_M_S
    root = np.sqrt(eta - (1 - cos**2) + 0j)
    outside, inside = (cos, root) if not tm else (1 / cos, eta / root)
    delta = k * thickness * root
    matrix = np.array([[np.cos(delta), 1j * np.sin(delta) / inside], [1j * inside * np.sin(delta), np.cos(delta)]])
    b, c = matrix @ np.array([1.0, outside])
    return (outside * b - c) / (outside * b + c), 2 * outside / (outside * b + c)


@pytest.mark.parametrize("material", ["concrete", "glass", "brick", "plywood", "medium-dry-ground"])
@pytest.mark.parametrize("frequency", [L1_HZ, 6.4896e9])
def test_slabs_against_the_transfer_matrix(material: str, frequency: float) -> None:
    eta = complex(radio.permittivity(material, frequency))
    for thickness in (0.004, 0.1, 0.2):
        for cos in (1.0, 0.7, 0.2):
            reflected, passed = radio.slab(cos, eta, thickness, frequency)
            for row in range(2):
                r, t = transfer_matrix(cos, eta, thickness, frequency, tm=bool(row))
                decibel = 20 * np.log10(np.abs([reflected[row] / r, passed[row] / t]))
                assert np.abs(decibel).max() < 1e-3
            power = np.mean(
                [abs(transfer_matrix(cos, eta, thickness, frequency, tm=tm)[1]) ** 2 for tm in (True, False)]
            )
            assert radio.slab_loss_db(cos, eta, thickness, frequency) == pytest.approx(-10 * np.log10(power), abs=1e-3)


def test_a_slab_without_loss_keeps_the_power() -> None:
    reflected, passed = radio.slab(0.6, 5.0, 0.07, 3e9)
    assert [abs(r) ** 2 + abs(t) ** 2 for r, t in zip(reflected, passed, strict=True)] == pytest.approx([1.0, 1.0])
