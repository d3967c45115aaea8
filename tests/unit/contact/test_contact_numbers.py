"""Recorded numbers of drives in contact with the ground, walls, soil, slopes and each other."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from contact_rigs import flat, run, wall
from parhelion.contact.driver import ContactDriver
from parhelion.core.pose import Floats
from parhelion.motion.vehicles.base import DriveCommand
from parhelion.motion.vehicles.library import vehicle
from pins import check, of_this_processor

pytestmark = of_this_processor


def yard(kind: str = "asphalt", slope_deg: float = 0.0) -> ph.World:
    """A plane with a wall, low steps, boxes and a tree."""
    world = flat(kind, 60.0, slope_deg)
    if slope_deg == 0.0:
        wall(world, 4.0)
        for n in range(6):
            place = ph.Pose((1.0 + 0.3 * n, -3.0 + n, 0.02), rpy_deg=(0, 0, 20 * n))
            world.add(ph.shapes.box(0.3, 0.5, 0.04 + 0.01 * n), material="wood", label="box", pose=place)
        world.add(ph.shapes.cylinder(0.2, 3.0), material="bark", label="tree", pose=ph.Pose((2.5, -4.0, 1.5)))
    return world


COMMANDS = [DriveCommand(0.9, 0.3), DriveCommand(4.0, -0.2), DriveCommand(0.5, -0.5)]


@pytest.mark.parametrize(
    ("kind", "slope_deg"), [("asphalt", 0.0), ("sand", 0.0), ("mud", 0.0), ("grass", 12.0)], ids=str
)
def test_drives(kind: str, slope_deg: float) -> None:
    driver = ContactDriver(yard(kind, slope_deg))
    for n, name in enumerate(("clearpath/husky", "bmw/320i", "agreenculture/ceol")):
        driver.add(f"v{n}", vehicle(name), ph.Pose((-1.5, 3.5 * (n - 1), 0), rpy_deg=(0, 0, 10 * n)))
    rows: list[Floats] = []
    hits = run(driver, COMMANDS, 2.5, watch=lambda row, _: rows.append(row.copy()))
    table = np.array(rows)
    check(
        f"contact/{kind}-{slope_deg:g}", rel=1e-4, rows=table[::10], wheels=driver.wheel_rates(),
        clearance=driver.clearances(), hits=len(hits), impulses=[one.impulse_n_s for one in hits],
        places=[one.xyz for one in hits], normals=[one.normal for one in hits],
    )  # fmt: skip


def test_vehicles_hit_each_other_and_the_edge_of_the_world() -> None:
    driver = ContactDriver(flat(size=16.0))
    driver.add("a", vehicle("clearpath/husky"), ph.Pose((-1.5, 0.1, 0)))
    driver.add("b", vehicle("clearpath/husky"), ph.Pose((1.5, -0.1, 0), rpy_deg=(0, 0, 180)))
    driver.add("c", vehicle("pioneer/p3-dx"), ph.Pose((6.5, 3.0, 0)))
    rows: list[Floats] = []
    hits = run(driver, [DriveCommand(1.0)] * 3, 3.0, watch=lambda row, _: rows.append(row.copy()))
    assert {one.other for one in hits} >= {"a", "b"}
    check(
        "contact/pairs", rel=1e-4, rows=np.array(rows)[::10], hits=len(hits),
        impulses=[one.impulse_n_s for one in hits], clearance=driver.clearances(),
    )  # fmt: skip
