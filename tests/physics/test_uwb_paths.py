"""Paths of ranging radios against closed forms: Friis, two rays, slabs, and the image sources of a room."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.waves.uwb.channel import links_of
from parhelion.sensors.waves.uwb.config import UwbConfig
from parhelion.sensors.waves.uwb.walls import THICKEST_WALL_M
from parhelion.surfaces.radio import permittivity, slab

CARRIER_HZ = 6.4896e9
LAMBDA_M = SPEED_OF_LIGHT_M_S / CARRIER_HZ
ROOM_M = np.array([8.0, 6.0, 3.0])
TAG, ANCHOR = np.array([1.7, 2.3, 1.1]), np.array([6.9, 4.2, 2.2])


def room(material: str = "concrete") -> ph.World:
    world = ph.World()
    world.add(ph.shapes.box(*ROOM_M), material=material, label="wall", pose=ph.Pose(ROOM_M / 2))
    return world


def narrow(**changes: object) -> UwbConfig:
    """Narrow-band radio, in which all paths interfere."""
    sheet = ph.Uwb("qorvo/dw1000").config.model_dump() | {
        "bandwidth_mhz": 1e-3, "sensitivity_dbm": -150.0, "tx_power_dbm": 0.0, "antenna_gain_dbi": 0.0,
        "modes": {}, "data_rate_kbps": None, **changes
    }  # fmt: skip
    return UwbConfig(**sheet)


@pytest.mark.parametrize("distance", [0.5, 3.0, 47.0, 250.0])
def test_free_space_is_friis(distance: float) -> None:
    found = ph.Uwb("qorvo/dw1000", anchors=[[distance, 0, 0]]).paths(ph.World(), [0.0, 0.0, 0.0])
    assert len(found) == 1
    expected = 20.0 * np.log10(4.0 * np.pi * distance / LAMBDA_M)
    assert found.loss_db[0] == pytest.approx(expected, abs=1e-9)
    assert found.delay[0] * SPEED_OF_LIGHT_M_S == pytest.approx(distance, abs=1e-9)
    assert found.departure[0] == pytest.approx([1, 0, 0])
    assert found.arrival[0] == pytest.approx([-1, 0, 0])


@pytest.mark.parametrize("distance", [5.0, 12.7, 40.0, 110.0])
def test_two_rays_over_ground(distance: float) -> None:
    world = ph.World()
    world.add(ph.shapes.plane(600, 600), material="concrete", label="road")
    tag_m, anchor_m = 1.5, 2.5
    sensor = ph.Uwb(narrow(), anchors=[[distance, 0, anchor_m]], noise=False)
    found = sensor.paths(world, [0.0, 0.0, tag_m])
    assert found.order.tolist() == [0, 1]
    # Vertical antennas: the field lies in the plane of incidence of the ground.
    straight, bent = np.hypot(distance, anchor_m - tag_m), np.hypot(distance, anchor_m + tag_m)
    sin = (anchor_m + tag_m) / bent
    eta = complex(permittivity("concrete", CARRIER_HZ))
    root = np.sqrt(eta - (1.0 - sin**2))
    mirror = (eta * sin - root) / (eta * sin + root)
    wave = 2.0 * np.pi / LAMBDA_M
    both = np.exp(-1j * wave * straight) / straight + mirror * np.exp(-1j * wave * bent) / bent
    expected = 20.0 * np.log10(LAMBDA_M / (4.0 * np.pi) * abs(both))
    strength = links_of(found, 1, 1, sensor.config).rssi_dbm[0, 0]
    assert strength == pytest.approx(expected, abs=0.01)
    assert 20.0 * np.log10(abs(found.gain.sum())) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("thickness", "angle_deg"), [(0.1, 0.0), (0.2, 35.0), (0.3, 60.0)])
def test_one_wall_is_one_slab(thickness: float, angle_deg: float) -> None:
    world = ph.World()
    world.add(ph.shapes.box(thickness, 40, 40), material="brick", label="wall")
    angle = np.radians(angle_deg)
    along = np.array([np.cos(angle), np.sin(angle), 0.0])
    found = ph.Uwb("qorvo/dw1000", anchors=[5.0 * along], order=0).paths(world, -5.0 * along)
    eta = permittivity("brick", CARRIER_HZ)
    # Field and wall are vertical, so the field is perpendicular to the plane of incidence.
    (_, _), (te, _) = slab(np.cos(angle), eta, thickness, CARRIER_HZ)
    free = 20.0 * np.log10(4.0 * np.pi * 10.0 / LAMBDA_M)
    assert found.loss_db[0] - free == pytest.approx(-20.0 * np.log10(abs(complex(te))), abs=1e-3)
    extra = thickness * (np.sqrt(eta.real - np.sin(angle) ** 2) - np.cos(angle))
    assert found.delay[0] * SPEED_OF_LIGHT_M_S == pytest.approx(10.0 + extra, abs=1e-6)
    assert found.surfaces[0] == 2


def test_a_closed_box_attenuates_by_both_walls() -> None:
    losses = []
    for depth in (THICKEST_WALL_M + 1.0, THICKEST_WALL_M + 4.0):
        world = ph.World()
        world.add(ph.shapes.box(depth, 20, 20), material="plaster", label="building")
        found = ph.Uwb("qorvo/dw1000", anchors=[[8.0, 0, 0]], order=0).paths(world, [-8.0, 0.0, 0.0])
        losses.append(float(found.loss_db[0]))
    (_, _), (te, _) = slab(1.0, permittivity("plasterboard", CARRIER_HZ), 0.0125, CARRIER_HZ)
    free = 20.0 * np.log10(4.0 * np.pi * 16.0 / LAMBDA_M)
    assert losses == pytest.approx([free - 40.0 * np.log10(abs(complex(te)))] * 2, abs=1e-3)


def test_metal_blocks_and_foliage_attenuates() -> None:
    world = ph.World()
    world.add(ph.shapes.box(0.01, 10, 10), material="steel", label="wall")
    assert len(ph.Uwb("qorvo/dw1000", anchors=[[3.0, 0, 0]], order=0).paths(world, [-3.0, 0, 0])) == 0
    tree = ph.World()
    tree.add(ph.shapes.box(2.0, 4, 4), material="leaf", label="vegetation")
    found = ph.Uwb("qorvo/dw1000", anchors=[[3.0, 0, 0]]).paths(tree, [-3.0, 0, 0])
    assert len(found) == 1
    free = 20.0 * np.log10(4.0 * np.pi * 6.0 / LAMBDA_M)
    assert found.loss_db[0] - free == pytest.approx(0.2 * 6489.6**0.3 * 2.0**0.6, abs=1e-3)


def images(order: int) -> list[float]:
    """Lengths of the image sources of a room of one order, by counting reflections per axis."""
    per_axis = []
    for k in range(3):
        # Image number m along an axis has |m| reflections: even images are shifted, odd ones also mirrored.
        shifted = [(abs(m), m * ROOM_M[k] + (ANCHOR[k] if m % 2 == 0 else ROOM_M[k] - ANCHOR[k])) for m in range(-2, 3)]
        per_axis.append(shifted)
    found = []
    for (a, x), (b, y), (c, z) in itertools.product(*per_axis):
        if a + b + c == order:
            found.append(float(np.linalg.norm(np.array([x, y, z]) - TAG)))
    return sorted(found)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_room_has_its_image_sources(order: int) -> None:
    found = ph.Uwb("qorvo/dw1000", anchors=[ANCHOR]).paths(room(), TAG)
    lengths = sorted(found.delay[found.order == order] * SPEED_OF_LIGHT_M_S)
    assert len(lengths) == len(images(order)) == [1, 6, 18][order]
    assert lengths == pytest.approx(images(order), abs=1e-9)


def test_map_coordinates_lose_nothing() -> None:
    shift = np.array([691_000.0, 5_335_000.0, 519.0])
    world = ph.World()
    world.add(ph.shapes.box(*ROOM_M), material="concrete", label="wall", pose=ph.Pose(shift + ROOM_M / 2))
    found = ph.Uwb("qorvo/dw1000", anchors=[shift + ANCHOR]).paths(world, shift + TAG)
    assert np.bincount(found.order).tolist() == [1, 6, 18]
    assert found.length[found.order == 2] == pytest.approx(images(2), abs=1e-4)


def test_a_room_of_metal_mirrors_all() -> None:
    found = ph.Uwb("qorvo/dw1000", anchors=[ANCHOR]).paths(room("steel"), TAG)
    # Metal preserves the amplitude; the rotation of the field relative to the vertical antenna reduces it.
    spread = 20.0 * np.log10(4.0 * np.pi * found.length / LAMBDA_M)
    assert np.all(found.loss_db - spread > -1e-6)
    along = found.departure[found.order == 1]
    upright_walls = np.abs(found.corner[found.order == 1, 0, 2] - 1.5) < 1.49
    assert (found.loss_db - spread)[found.order == 1][upright_walls] == pytest.approx(0.0, abs=0.3)
    assert np.linalg.norm(along, axis=1) == pytest.approx(1.0)


def test_paths_are_the_same_both_ways() -> None:
    there = ph.Uwb("qorvo/dw1000", anchors=[ANCHOR]).paths(room(), TAG)
    back = ph.Uwb("qorvo/dw1000", anchors=[TAG]).paths(room(), ANCHOR)
    assert np.sort(there.delay) == pytest.approx(np.sort(back.delay), abs=1e-15)
    assert np.sort(there.loss_db) == pytest.approx(np.sort(back.loss_db), abs=1e-6)


def test_paint_on_a_road_makes_no_second_path() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(100, 100), material="asphalt", label="road")
    world.add(ph.shapes.plane(6, 3), material="road-paint", label="lane-marking", pose=ph.Pose((5, 0, 0.004)))
    found = ph.Uwb("qorvo/dw1000", anchors=[[10.0, 0, 2.0]]).paths(world, [0.0, 0.0, 2.0])
    assert found.order.tolist() == [0, 1]


def test_moving_objects_block_at_their_time() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(100, 100), material="concrete", label="floor")
    passing = ph.ConstantTwist(ph.Pose((5.0, -10.0, 1.5)), velocity=(0.0, 1.0, 0.0))
    world.add_actor(ph.shapes.box(1.0, 2.0, 3.0), material="steel", label="machine", trajectory=passing)
    sensor = ph.Uwb("qorvo/dw1000", anchors=[[10.0, 0.0, 2.0]], noise=False, rate_hz=1.0)
    found = sensor.run(world, ph.Fixed(ph.Pose((0, 0, 1.0))), duration=20.0)
    blocked = np.abs(found.time - 10.0) < 0.9
    open_way = np.abs(found.time - 10.0) > 1.1
    assert not found.los[blocked].any()
    assert found.los[open_way].all()
    assert np.isnan(found.range[blocked]).all()
    assert np.isfinite(found.range[open_way]).all()


def test_a_small_plate_reflects_by_physical_optics() -> None:
    losses = []
    for side in (0.3, 30.0):
        world = ph.World()
        world.add(ph.shapes.plane(side, side), material="steel", label="plate")
        found = ph.Uwb("qorvo/dw1000", anchors=[[4.0, 0.0, 6.0]]).paths(world, [-4.0, 0.0, 6.0])
        losses.append(float(found.loss_db[found.order == 1][0]))
    leg = np.hypot(4.0, 6.0)
    share = 0.09 * (6.0 / leg) * (2.0 * leg) / (LAMBDA_M * leg * leg)
    assert losses[0] - losses[1] == pytest.approx(-20.0 * np.log10(share), abs=1e-6)
