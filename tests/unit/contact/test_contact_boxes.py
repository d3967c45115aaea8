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


def _hull(x: float, y: float = 0.0, speed: float = 0.0, yaw: float = 0.0, mass: float = 10.0) -> pairs.Hull:
    quat = np.array([0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)])
    return pairs.Hull(
        mass, np.array([1.0, 2.0, 3.0]), HALF, np.zeros(3), 0.3, 0.0, np.array([x, y, 0.0]), boxes.rotation(quat),
        np.array([speed, 0.0, 0.0]), np.zeros(3),
    )  # fmt: skip


def test_separation_of_boxes() -> None:
    normal, gap = pairs.separation(_hull(3.0), _hull(0.0))
    assert gap == pytest.approx(1.0)
    assert normal.tolist() == [1.0, 0.0, 0.0]
    normal, gap = pairs.separation(_hull(0.0, 0.9), _hull(0.0))
    assert gap == pytest.approx(-0.1)
    assert normal.tolist() == [0.0, 1.0, 0.0]
    normal, gap = pairs.separation(_hull(2.5, yaw=math.pi / 4), _hull(0.0))
    assert gap == pytest.approx(2.5 - 1.0 - 1.5 / math.sqrt(2.0))


def test_gaps_of_many_pairs_are_those_of_each() -> None:
    rng = np.random.default_rng(8)
    ones, others = ([_hull(*rng.uniform(-2, 2, 2), 0.0, rng.uniform(-3, 3)) for _ in range(40)] for _ in range(2))
    found = pairs.gaps(
        *(
            tuple(np.array([getattr(h, name) for h in side]) for side in (ones, others))
            for name in ("middle", "turn", "half")
        )
    )
    assert found == pytest.approx([pairs.separation(a, b)[1] for a, b in zip(ones, others, strict=True)], abs=1.1e-3)


def test_collisions_conserve_momentum_and_angular_momentum() -> None:
    a, b = _hull(-2.3, 0.3, 50.0, 0.2), _hull(0.0, mass=30.0)
    spins = lambda one: one.turn @ (one.inertia * (one.turn.T @ one.spin))  # noqa: E731
    both = lambda: sum(np.cross(one.place, one.mass * one.velocity) + spins(one) for one in (a, b))  # noqa: E731
    momentum, moment = a.mass * a.velocity + b.mass * b.velocity, both()
    impulse, point, normal = pairs.collide(a, b, 0.01)
    assert impulse > 100.0
    assert a.mass * a.velocity + b.mass * b.velocity == pytest.approx(momentum)
    assert both() == pytest.approx(moment)
    assert normal @ (a.speed_at(point) - b.speed_at(point)) >= -pairs.separation(a, b)[1] / 0.01 - 1e-9


def test_distant_boxes_do_not_collide() -> None:
    a, b = _hull(-5.0, speed=50.0), _hull(0.0)
    assert pairs.collide(a, b, 0.01)[0] == 0.0
    assert a.velocity.tolist() == [50.0, 0.0, 0.0]
