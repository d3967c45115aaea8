"""Chassis of the presets on flat ground: height, speed, and turning on the spot by closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.contact.chassis import chassis_of, wheel_loads
from parhelion.contact.driver import ContactDriver
from parhelion.motion.vehicles import DriveCommand, vehicle
from parhelion.motion.vehicles.library import vehicle_names, vehicle_sheet
from parhelion.motion.vehicles.sheets import CarConfig, ChassisConfig, DifferentialConfig

GROUND = [name for name in vehicle_names() if isinstance(vehicle_sheet(name), CarConfig | DifferentialConfig)]


@pytest.fixture(scope="module")
def flat() -> ph.World:
    world = ph.World("flat")
    world.add(ph.shapes.plane(200, 200), material="concrete", label="road")
    return world


def turned(flat: ph.World, names: list[str], command: DriveCommand) -> dict[str, np.ndarray]:
    """Rows of vehicles 20 m apart after 2.5 s of a command."""
    driver = ContactDriver(flat)
    for k, name in enumerate(names):
        driver.add(name, vehicle(name), ph.Pose((0, 20 * k - 40, 0)))
    for _ in range(250):
        driver.step([command] * len(names), 0.01)
    return dict(zip(names, driver.rows().copy(), strict=True))


@pytest.mark.parametrize("name", GROUND)
def test_all_wheels_of_the_presets_carry_load(name: str) -> None:
    sheet = vehicle_sheet(name)
    assert isinstance(sheet, CarConfig | DifferentialConfig)
    assert sheet.chassis is not None
    loads = wheel_loads(sheet.mass_kg, chassis_of(sheet))
    assert loads.min() > 0.05 * loads.max()
    assert loads.sum() == pytest.approx(sheet.mass_kg * 9.80665)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("inertia_kg_m2", (1.0, 1.0, 2.1), "inertia_kg_m2: 2.1 exceeds the sum of the other two, 2; no rigid body"),
        (
            "centre_of_mass_m",
            (0.3, 0.0, 0.2),
            r"centre_of_mass_m\[0\]: 0.3 m is not between the wheels, which are at -0",
        ),
        ("centre_of_mass_m", (0.0, -0.5, 0.2), r"centre_of_mass_m\[1\]: -0.5 m is not between the wheels"),
    ],
)
def test_bodies_that_cannot_exist_or_stand_are_refused(field: str, value: object, text: str) -> None:
    sheet = vehicle_sheet("clearpath/husky")
    assert isinstance(sheet, DifferentialConfig)
    assert sheet.chassis is not None
    with pytest.raises(ValueError, match=text):
        ChassisConfig(**{**sheet.chassis.model_dump(), field: value})


def test_presets_stand_and_drive_at_their_nominal_height(flat: ph.World) -> None:
    for name, row in turned(flat, GROUND, DriveCommand(0.5)).items():
        assert row[3] == pytest.approx(0.0, abs=0.003), name
        # The speed control of cars is proportional: rolling resistance lowers the speed by up to 0.1 m/s.
        assert row[8] == pytest.approx(0.5, abs=0.1 if isinstance(vehicle_sheet(name), CarConfig) else 0.01), name


def test_robots_turn_by_the_closed_form_of_skid_steering(flat: ph.World) -> None:
    rows = turned(flat, ["clearpath/husky", "agreenculture/ceol", "pioneer/p3-dx"], DriveCommand(0.0, 0.5))
    a, b = 0.256, 0.2854
    husky = 0.5 * 1.07025 / (2 * b) * b**2 / (a**2 + b**2)
    assert rows["clearpath/husky"][13] == pytest.approx(husky, rel=0.01)
    # The effective track of the tracks is that of the balance of moments; the P3-DX does not skid.
    assert rows["agreenculture/ceol"][13] == pytest.approx(0.5, rel=0.02)
    assert rows["pioneer/p3-dx"][13] == pytest.approx(0.5, rel=0.02)
