"""Boxes and triangles on the host."""

from __future__ import annotations

import math

import numpy as np
import pytest

from parhelion.contact import boxes, pairs
from parhelion.core.pose import Floats, quat_rotate

HALF = np.array([1.0, 0.5, 0.25])


def _wall(x: float, size: float = 5.0) -> Floats:
    return np.array([[[x, -size, -size], [x, size, -size], [x, 0.0, size]]])


def test_rotation_matrices_match_quaternions() -> None:
    quats = np.random.default_rng(1).normal(size=(20, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    v = np.array([0.3, -1.0, 2.0])
    assert np.allclose(boxes.rotation(quats) @ v, quat_rotate(quats, np.tile(v, (20, 1))))


def test_a_box_is_closed_and_has_the_faces_of_its_sides() -> None:
    corners = boxes.CORNERS[boxes.FACES]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.all((normal * corners.mean(axis=1)).sum(axis=1) > 0.0)  # outward
    assert np.linalg.norm(normal, axis=1).sum() / 2.0 == pytest.approx(24.0)


@pytest.mark.parametrize(("x", "inside"), [(0.0, True), (0.99, True), (1.01, False), (-0.99, True), (-1.01, False)])
def test_a_triangle_that_cuts_a_box_overlaps_it(x: float, inside: bool) -> None:
    assert boxes.overlaps(_wall(x), HALF).tolist() == [inside]


def test_overlaps_agrees_with_sampled_points() -> None:
    rng = np.random.default_rng(3)
    corners = rng.normal(size=(400, 3, 3)) * 1.2
    share = rng.dirichlet(np.ones(3), 4000)
    points = np.einsum("sk,mkj->msj", share, corners)
    sampled = np.all(np.abs(points) < HALF, axis=2).any(axis=1)
    found = boxes.overlaps(corners, HALF)
    assert np.all(found[sampled])
    assert (found & ~sampled).mean() < 0.02  # samples miss small overlaps


def test_gap_bounds_never_exceed_the_distance() -> None:
    rng = np.random.default_rng(4)
    corners = rng.normal(size=(300, 3, 3)) * 0.5 + rng.normal(size=(300, 1, 3)) * 2.0
    points = np.einsum("sk,mkj->msj", rng.dirichlet(np.ones(3), 2000), corners)
    distance = np.linalg.norm(np.maximum(np.abs(points) - HALF, 0.0), axis=2).min(axis=1)
    assert np.all(boxes.gap_bounds(corners, HALF) <= distance + 1e-12)


def test_clearance_counts_only_surfaces_at_the_height_of_the_box() -> None:
    assert boxes.clearance(_wall(3.0), HALF) == pytest.approx(2.0)
    ground = np.array([[[-9.0, -9.0, -0.3], [9.0, -9.0, -0.3], [0.0, 9.0, -0.3]]])
    assert boxes.clearance(ground, HALF) == math.inf
    corner = np.array([[[4.0, 4.5, -1.0], [4.0, 4.5, 1.0], [9.0, 9.0, 0.0]]])
    assert boxes.clearance(corner, HALF) == pytest.approx(5.0)  # 3 and 4 from the corner of the box
    assert boxes.clearance(_wall(0.5), HALF) == 0.0
    ramp = np.array(
        [[[2.0, -9.0, -1.25], [6.0, -9.0, 2.75], [2.0, 9.0, -1.25]]]
    )  # at the lower side of the box at x = 3
    assert boxes.clearance(ramp, HALF) == pytest.approx(2.0)


def test_clearance_agrees_with_sampled_points() -> None:
    rng = np.random.default_rng(5)
    corners = rng.normal(size=(200, 3, 3)) + rng.normal(size=(200, 1, 3)) * 2.0
    share = rng.dirichlet(np.ones(3) * 0.5, 20_000)
    for one in corners:
        points = share @ one
        points = points[np.abs(points[:, 2]) < HALF[2]]
        if len(points) < 200:
            continue
        sampled = np.linalg.norm(np.maximum(np.abs(points[:, :2]) - HALF[:2], 0.0), axis=1).min()
        found = boxes.clearance(one[None], HALF)
        assert found <= sampled + 1e-9
        assert found == pytest.approx(sampled, abs=0.08)


def _hulls(*rows: dict[str, float]) -> pairs.Hulls:
    """Boxes at x, y with a speed along x, a yaw angle and a mass."""
    count = len(rows)
    x, y, speed, yaw, mass = (
        np.array([row.get(name, least) for row in rows])
        for name, least in (("x", 0.0), ("y", 0.0), ("speed", 0.0), ("yaw", 0.0), ("mass", 10.0))
    )
    quat = np.column_stack([0 * x, 0 * x, np.sin(yaw / 2), np.cos(yaw / 2)])
    zeros = np.zeros((count, 3))
    return pairs.Hulls(
        mass, np.tile([1.0, 2.0, 3.0], (count, 1)), np.tile(HALF, (count, 1)), zeros, np.full(count, 0.3),
        np.zeros(count), np.column_stack([x, y, 0 * x]), boxes.rotation(quat), np.column_stack([speed, 0 * x, 0 * x]),
        zeros.copy(), np.arange(count),
    )  # fmt: skip


def test_separation_of_boxes() -> None:
    others = _hulls({}, {}, {})
    normal, gap = pairs.separation(_hulls({"x": 3.0}, {"y": 0.9}, {"x": 2.5, "yaw": math.pi / 4}), others)
    assert gap == pytest.approx([1.0, -0.1, 2.5 - 1.0 - 1.5 / math.sqrt(2.0)])
    assert normal[:2].tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


FIRST, SECOND = np.array([0]), np.array([1])


def test_collisions_conserve_momentum_and_angular_momentum() -> None:
    both = _hulls({"x": -2.3, "y": 0.3, "speed": 50.0, "yaw": 0.2}, {"mass": 30.0})

    def sums() -> tuple[Floats, Floats]:
        momentum = both.mass[:, None] * both.velocity
        own = [
            turn @ (mass * (turn.T @ spin)) for turn, mass, spin in zip(both.turn, both.inertia, both.spin, strict=True)
        ]
        return momentum.sum(axis=0), (np.cross(both.place, momentum) + own).sum(axis=0)

    before = sums()
    rows, impulse, point, normal = pairs.collide(both, FIRST, SECOND, 0.01)
    assert rows.tolist() == [0]
    assert impulse[0] > 100.0
    for one, other in zip(sums(), before, strict=True):
        assert one == pytest.approx(other)
    a, b = both[FIRST], both[SECOND]
    closing = (normal * (a.speed_at(point) - b.speed_at(point))).sum()
    assert closing >= -pairs.separation(a, b)[1][0] / 0.01 - 1e-9


def test_distant_boxes_do_not_collide() -> None:
    both = _hulls({"x": -5.0, "speed": 50.0}, {})
    assert len(pairs.collide(both, FIRST, SECOND, 0.01)[0]) == 0
    assert both.velocity[0].tolist() == [50.0, 0.0, 0.0]


def test_many_pairs_collide_as_each_alone() -> None:
    """Pairs without a common hull do not depend on each other; pairs with one follow in the next round."""
    ones = [{"x": 10.0 * k - 2.01, "speed": 3.0 + k} for k in range(4)]
    others = [{"x": 10.0 * k, "mass": 20.0} for k in range(4)]
    every = _hulls(*ones, *others)
    first, second = np.arange(4), np.arange(4) + 4
    pairs.collide(every, first, second, 0.01)
    for k in range(4):
        alone = _hulls(ones[k], others[k])
        pairs.collide(alone, FIRST, SECOND, 0.01)
        assert every.velocity[[k, k + 4]] == pytest.approx(alone.velocity)
    found = pairs.rounds(np.array([0, 2, 0, 1]), np.array([1, 3, 2, 3]))
    assert [rows.tolist() for rows in found] == [[0, 1], [2, 3]]


def test_hulls_of_one_body_move_together() -> None:
    """A box against two boxes of one body feels the mass of the body once."""
    every = _hulls({"x": -2.005, "speed": 4.0}, {"y": 0.2, "mass": 30.0}, {"y": -0.2, "mass": 30.0})
    every.inertia[:] = np.inf
    every.body = np.array([0, 1, 1])
    pairs.collide(every, np.array([0, 0]), np.array([1, 2]), 0.01)
    assert every.velocity[1].tolist() == every.velocity[2].tolist()
    assert 10.0 * every.velocity[0, 0] + 30.0 * every.velocity[1, 0] == pytest.approx(40.0)
