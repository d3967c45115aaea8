"""Paths in a street canyon against Sionna RT: its stored answer, and the backend that runs it where it is installed.

`PARHELION_SIONNA_PYTHON` names a Python that has sionna-rt, if this one has not; it needs an LLVM of 17 or later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import fresnel

import parhelion as ph
from oracles import missing
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import MissingDependencyError
from parhelion.core.trajectory import Fixed
from parhelion.sensors.waves.uwb.paths import RadioPaths
from parhelion.surfaces.radio import fresnel as mirror
from parhelion.surfaces.radio import permittivity

CARRIER_HZ = 6.4896e9
WAVE_M = SPEED_OF_LIGHT_M_S / CARRIER_HZ
BOXES = {
    "left": ((60, 8, 12), (0, 12, 6)),
    "right": ((60, 8, 15), (0, -12, 7.5)),
    "end": ((6, 10, 9), (22, 2.5, 4.5)),
    "ground": ((200, 200, 0.2), (0, 0, -0.1)),
}
TAG = [-14.3, 1.2, 1.7]
ANCHORS = [[10.1, -4.3, 4.9], [-3.7, 6.1, 3.3], [17.2, -6.4, 2.2]]
STORED = (
    {25.2161: 76.73, 25.8683: 90.24, 27.7851: 81.46, 28.3783: 93.37, 31.1514: 83.67, 31.6817: 94.03, 36.1642: 91.96,
     44.8537: 95.44, 46.4316: 92.90},
    {11.7869: 70.12, 12.7031: 103.73, 13.8062: 76.75, 14.5962: 99.56, 25.6478: 84.29, 26.0816: 93.75, 29.1433: 93.14,
     38.4256: 95.99, 56.2367: 91.76, 56.4359: 95.80, 56.6944: 93.05},
    {32.4077: 78.91, 32.6377: 84.41, 33.3038: 81.85, 33.5276: 87.20, 37.9729: 84.91, 38.1694: 89.58, 39.8480: 90.83,
     50.6030: 95.61},
)  # fmt: skip
"""By anchor: loss [dB] by length [m] of all paths up to second order, Sionna RT 2.2.0, infinite concrete."""


def street() -> ph.World:
    world = ph.World()
    for name, (size, place) in BOXES.items():
        world.add(ph.shapes.box(*size), material="concrete", label="building", name=name, pose=ph.Pose(place))
    return world


def own(anchor: int) -> RadioPaths:
    found = ph.Uwb("qorvo/dw1000", anchors=ANCHORS).paths(street(), TAG)
    return found.rows(found.anchor == anchor)


@pytest.mark.parametrize("anchor", range(3))
def test_paths_equal_the_stored_answer_of_sionna(anchor: int) -> None:
    found, expected = own(anchor), STORED[anchor]
    assert len(found) == len(expected)
    # Single precision at 50 m, and four stored digits.
    assert found.length == pytest.approx(np.array(list(expected)), abs=1e-4)
    assert found.loss_db == pytest.approx(np.array(list(expected.values())), abs=0.02)


# ---- the backend, where Sionna RT is installed ---------------------------------------------------------------------


def theirs(world: ph.World, anchors: Any, tag: Any, **options: Any) -> RadioPaths:
    try:
        return ph.Uwb("qorvo/dw1000", anchors=anchors, backend="sionna", **options).paths(world, tag)
    except MissingDependencyError as error:
        missing(str(error))


def free_db(length: float) -> float:
    return float(20.0 * np.log10(4.0 * np.pi * length / WAVE_M))


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("polarisation", ["vertical", "horizontal"])
def test_both_backends_find_the_same_paths(polarisation: Any) -> None:
    world = street()
    ours = ph.Uwb("qorvo/dw1000", anchors=ANCHORS, polarisation=polarisation).paths(world, TAG)
    found = theirs(world, ANCHORS, TAG, polarisation=polarisation)
    assert (found.anchor.tolist(), found.order.tolist()) == (ours.anchor.tolist(), ours.order.tolist())
    # Sionna RT is in single precision; 0.1 mm are 0.014 rad of the carrier.
    assert found.length == pytest.approx(ours.length, abs=1e-4)
    assert found.loss_db == pytest.approx(ours.loss_db, abs=0.02)
    assert np.abs(np.angle(found.gain / ours.gain)) == pytest.approx(0.0, abs=0.014)
    assert found.departure == pytest.approx(ours.departure, abs=1e-4)
    assert found.arrival == pytest.approx(ours.arrival, abs=1e-4)
    assert found.corner == pytest.approx(ours.corner, abs=1e-2, nan_ok=True)


@pytest.mark.oracle
@pytest.mark.slow
def test_two_rays_over_ground_with_paint_and_friis_by_sionna() -> None:
    world = ph.World()
    world.add(ph.shapes.box(400, 400, 1), material="concrete", label="road", name="ground", pose=ph.Pose((0, 0, -0.5)))
    # Paint 4 mm above it is a layer of the same surface, so there is no third path.
    world.add(ph.shapes.box(400, 0.2, 0.002), material="concrete", label="paint", name="paint",
              pose=ph.Pose((0, 0, 0.003)))  # fmt: skip
    found = theirs(world, [[30.0, 0.0, 3.0], [80.0, 0.0, 3.0]], [-20.0, 0.0, 2.0])
    assert found.order.tolist() == [0, 1, 0, 1]
    found = found.rows(found.anchor == 0)
    direct, bounced = np.hypot(50.0, 1.0), np.hypot(50.0, 5.0 - 0.008)
    assert found.length == pytest.approx([direct, bounced], abs=1e-4)
    assert found.loss_db[0] == pytest.approx(free_db(direct), abs=0.001)
    # Antennas and plane of incidence are vertical: TM only.
    tm = complex(mirror((5.0 - 0.008) / bounced, permittivity("concrete", CARRIER_HZ))[1])
    assert found.loss_db[1] == pytest.approx(free_db(bounced) - 20 * np.log10(abs(tm)), abs=0.02)
    wave = 2j * np.pi / WAVE_M
    both = np.exp(-wave * direct) / direct + tm * np.exp(-wave * bounced) / bounced
    loss = -20.0 * np.log10(WAVE_M / (4.0 * np.pi) * abs(both))
    assert -20.0 * np.log10(abs(np.sum(found.gain))) == pytest.approx(loss, abs=0.02)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("height", [0.3, 3.0])
def test_a_knife_edge_by_sionna(height: float) -> None:
    found = theirs(screen(height), [[100.0, 0.0, 0.0]], [0.0, 0.0, 0.0], order=0, diffraction=True)
    over = found.rows(np.abs(found.corner[:, 0, 2] - height) < 1e-3)
    assert len(over) == 1
    assert over.edges[0] == 1
    assert over.loss_db[0] - free_db(100.0) == pytest.approx(fresnel_loss(height), abs=1.0)


@pytest.mark.oracle
@pytest.mark.slow
def test_runs_by_sionna_repeat_and_may_be_split() -> None:
    world, motion = street(), Fixed(ph.Pose(tuple(TAG)))
    theirs(world, ANCHORS, TAG, order=0)
    sensors = [ph.Uwb("qorvo/dw1000", anchors=ANCHORS, backend="sionna", order=1) for _ in range(2)]
    whole = sensors[0].run(world, motion, 0.0, 0.3, seed=5)
    parts = [sensors[1].run(world, motion, start, 0.1, seed=5) for start in (0.2, 0.0, 0.1)]
    split = np.concatenate([part.range for part in (parts[1], parts[2], parts[0])])
    assert whole.range.tobytes() == split.tobytes()
    assert np.abs(whole.error).max() < 0.5


# ---- own edge model   ----------------------------------------------------------------------------------------------


def screen(height: float) -> ph.World:
    """A thin screen half-way between tag and anchor, 100 m apart, with its edge above the line."""
    corners = np.array([[50, -200, -100], [50, 200, -100], [50, 200, height], [50, -200, height]], float)
    world = ph.World()
    world.add((corners, np.array([[0, 1, 2], [0, 2, 3]])), material="steel", label="wall", name="screen")
    return world


def fresnel_loss(height: float) -> float:
    """Loss [dB] behind that screen by the Fresnel integral."""
    s, c = fresnel(height * np.sqrt(2.0 / WAVE_M * (1 / 50 + 1 / 50)))
    return float(-20.0 * np.log10(np.sqrt((1 - c - s) ** 2 + (c - s) ** 2) / 2.0))


@pytest.mark.parametrize("height", [0.03, 0.3, 1.0, 3.0, 9.0])
def test_a_knife_edge_against_the_fresnel_integral(height: float) -> None:
    found = ph.Uwb("qorvo/dw1000", anchors=[[100.0, 0.0, 0.0]], order=0, diffraction=True).paths(
        screen(height), [0, 0, 0]
    )
    assert (found.edges.tolist(), found.order.tolist(), found.surfaces.tolist()) == ([1], [0], [0])
    # J(nu) is good to 0.15 dB, and its detour to 0.05 dB at these angles. Rays give the edge to a millimetre.
    assert found.loss_db[0] - free_db(100.0) == pytest.approx(fresnel_loss(height), abs=0.2)
    assert found.corner[0, 0] == pytest.approx([50.0, 0.0, height], abs=2e-3)
    assert found.length[0] == pytest.approx(2.0 * np.hypot(50.0, height), abs=1e-3)
