"""Trees, bushes and boulders, as parts in their own frame: foot at z = 0 in the middle.

A handful of forms of each sort is made once; every plant is one of them, stretched to its own size, so that a forest
of hundreds is built in a fraction of a second.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.kit.many import struts
from parhelion.world.kit.props import Part
from parhelion.world.mesh import Mesh
from parhelion.world.procedural.kinds import BushParams, RockParams, TreeParams
from parhelion.world.shapes import circle, loft, sphere

FORMS = 6
"""Different forms of each sort of plant."""
_LEAF_M = 0.3
"""Mean length of a leaf triangle; each stands for a spray of leaves or needles."""


def tree_parts(length: float, width: float, height: float, params: TreeParams) -> list[Part]:
    """Trunk with limbs, and the crown: an ellipsoid of leaves, or a cone of needles."""
    form = params.seed % FORMS
    clear = params.clear_trunk_share
    if params.species == "conifer":
        leaves = _needles(form, params.leaves)
        foliage = "needles"
        limbs = _limbs(form, 18, rising=False)
    else:
        leaves = _leaves(form, params.leaves)
        foliage = "leaf"
        limbs = _limbs(form, 10, rising=True)
    crown_size = np.array([length, width, height * (1.0 - clear)])
    foot = np.array([0.0, 0.0, height * clear])
    radius = params.trunk_radius_m
    trunk = _trunk().scaled((radius, radius, height * (0.8 if params.species == "broadleaf" else 0.97)))
    starts, ends = limbs
    thick = np.tile([[0.28 * radius, 0.08 * radius]], (len(starts), 1))
    wood = Mesh.merged([trunk, struts(starts * crown_size + foot, ends * crown_size + foot, thick, 4)])
    return [
        Part("trunk", wood, "bark", "trunk"),
        Part("crown", _foliage(leaves, crown_size, foot, _LEAF_M), foliage, "vegetation"),
    ]


def bush_parts(length: float, width: float, height: float, params: BushParams) -> list[Part]:
    """Leaves in half an ellipsoid on the ground."""
    leaves = _bush(params.seed % FORMS, params.leaves)
    mesh = _foliage(leaves, np.array([length, width, height]), np.zeros(3), min(_LEAF_M, height / 4))
    return [Part("leaves", mesh, "leaf", "vegetation")]


def rock_parts(length: float, width: float, height: float, params: RockParams) -> list[Part]:
    """A boulder: a dented sphere, cut off at its foot."""
    form = _boulder(params.seed % FORMS)
    return [Part("rock", form.scaled((length, width, height)), params.material, "rock")]


def _foliage(leaves: tuple[Floats, Floats], size: Floats, foot: Floats, leaf_m: float) -> Mesh:
    """Leaves of mean length `leaf_m` at their places in a box of `size` [m] on `foot` [m]."""
    centre, tips = leaves
    corners = (centre * size + foot)[:, None, :] + leaf_m * tips
    return Mesh(corners.reshape(-1, 3), np.arange(3 * len(centre), dtype=np.int32).reshape(-1, 3))


@lru_cache(maxsize=1)
def _trunk() -> Mesh:
    """A tapering trunk of foot radius 1 and height 1."""
    z = np.array([0.0, 0.05, 0.4, 0.75, 1.0])
    radius = np.array([1.0, 0.8, 0.65, 0.4, 0.08])
    rings = np.empty((5, 9, 3))
    rings[..., :2] = radius[:, None, None] * circle(1.0, 9)
    rings[..., 2] = z[:, None]
    return loft(rings)


@lru_cache(maxsize=64)
def _limbs(form: int, count: int, *, rising: bool) -> tuple[Floats, Floats]:
    """Starts and ends of limbs in the crown's unit box (x, y in -0.5 to 0.5, z in 0 to 1)."""
    rng = Stream(form, f"world/limbs/{count}").generator()
    turn = np.arange(count) * (np.pi * (3.0 - np.sqrt(5.0))) + rng.uniform(0.0, 2 * np.pi)
    low = np.linspace(0.02, 0.55 if rising else 0.9, count)
    far = 0.38 * np.sqrt(1.0 - low**2) if rising else 0.42 * (1.0 - low)
    up = low + (rng.uniform(0.1, 0.3, count) if rising else -0.02)
    starts = np.column_stack([np.zeros((count, 2)), low])
    return starts, np.column_stack([far * np.cos(turn), far * np.sin(turn), np.clip(up, 0.0, 0.95)])


def _scattered(rng: np.random.Generator, centre: Floats) -> tuple[Floats, Floats]:
    """The centres (n, 3), and about each one triangle (n, 3, 3) of random attitude, on average of unit length."""
    count = len(centre)
    normal = rng.normal(size=(count, 3)) + np.array([0.0, 0.0, 0.8])
    along = np.cross(normal, rng.normal(size=(count, 3)))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.cross(normal, along)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    length = rng.uniform(0.7, 1.3, (count, 1, 1))
    tips = np.stack([0.55 * along, -0.45 * along + 0.4 * across, -0.45 * along - 0.4 * across], axis=1)
    return centre, length * tips


def _ball(rng: np.random.Generator, count: int) -> Floats:
    """Points in the unit ball, gathered in clumps that lie far out."""
    clump = rng.normal(size=(16, 3))
    clump *= rng.uniform(0.45, 0.75, (16, 1)) / np.linalg.norm(clump, axis=1, keepdims=True)
    points = clump[rng.integers(0, 16, count)] + 0.2 * rng.normal(size=(count, 3))
    return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True) / 0.95)


@lru_cache(maxsize=64)
def _leaves(form: int, count: int) -> tuple[Floats, Floats]:
    """A broad crown in its unit box."""
    rng = Stream(form, "world/leaves").generator()
    return _scattered(rng, 0.47 * _ball(rng, count) + [0.0, 0.0, 0.5])


@lru_cache(maxsize=64)
def _needles(form: int, count: int) -> tuple[Floats, Floats]:
    """A conical crown in its unit box: whorls of sprays that grow shorter towards the tip."""
    rng = Stream(form, "world/needles").generator()
    z = 1.0 - np.sqrt(rng.uniform(0.0005, 1.0, count))
    whorl = np.round(z * 14) / 14
    z = np.clip(0.6 * whorl + 0.4 * z, 0.0, 0.97)
    turn, out = rng.uniform(0.0, 2 * np.pi, count), np.sqrt(rng.uniform(0.05, 1.0, count))
    flat = 0.46 * (1.0 - z) * out
    centre = np.column_stack([flat * np.cos(turn), flat * np.sin(turn), np.maximum(0.02, z - 0.05 * out * (1.0 - z))])
    return _scattered(rng, centre)


@lru_cache(maxsize=64)
def _bush(form: int, count: int) -> tuple[Floats, Floats]:
    """Half a ball of leaves in the unit box on z = 0."""
    rng = Stream(form, "world/bush").generator()
    centre = _ball(rng, count) * [0.46, 0.46, 0.9]
    return _scattered(rng, np.column_stack([centre[:, :2], 0.05 + np.abs(centre[:, 2])]))


@lru_cache(maxsize=FORMS)
def _boulder(form: int) -> Mesh:
    """A dented ball in the unit box, its lower part flat on z = 0."""
    rng = Stream(form, "world/boulder").generator()
    ball = sphere(1.0, 2)
    direction = rng.normal(size=(10, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    # Each plane cuts a cap off: points beyond it are drawn back onto it.
    cut = np.max(ball.vertices @ direction.T / rng.uniform(0.7, 0.95, 10), axis=1)
    points = ball.vertices / np.maximum(1.0, cut)[:, None]
    z = np.maximum(points[:, 2], -0.35 + 0.02 * points[:, 0])
    points = np.column_stack([points[:, :2], z])
    low, high = points.min(axis=0), points.max(axis=0)
    unit = (points - low) / (high - low) - [0.5, 0.5, 0.0]
    radius = np.hypot(unit[:, 0], unit[:, 1])
    unit[:, :2] *= 0.5 / np.maximum(0.5, radius.max())
    mesh, _ = Mesh.cleaned(unit, ball.faces)
    assert mesh is not None  # a ball is not flat
    return mesh
