"""Trees: a trunk with limbs, and a crown of many leaves in clumps, each a blade or a triangle for a spray of them."""

from __future__ import annotations

import numpy as np

from parhelion.core.geometry import GOLDEN_ANGLE_RAD
from parhelion.core.pose import Floats
from parhelion.world.kit.instances import struts
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import circle, loft


def tree(
    rng: np.random.Generator,
    height: float = 8.0,
    crown_radius: float = 2.2,
    clear_trunk: float = 2.4,
    leaves: int = 1600,
    leaf_size: float = 0.24,
    blades: bool = False,
) -> list[KitPart]:
    """A broad-leaved tree on z = 0.

    `clear_trunk` [m] is the height below the crown, `leaf_size` [m] the mean length of a leaf triangle. Leaves keep
    inside the ellipsoid of the crown, `crown_radius` [m] wide, up to half a leaf. With `blades`, each leaf is a pointed
    blade, folded along its midrib, of two triangles.
    """
    middle = (height + clear_trunk) / 2
    half_height = (height - clear_trunk) / 2
    reach = np.array([crown_radius, crown_radius, half_height])
    clumps = _clumps(rng, 18)
    trunk, top = _trunk(rng, height, clear_trunk)
    limb_ends = clumps[:12] * 0.8 * reach + [0.0, 0.0, middle]
    lift = rng.uniform(0.0, 0.55, 12)
    limb_starts = np.column_stack([top[0] * lift, top[1] * lift, clear_trunk + lift * (top[2] - clear_trunk) - 0.2])
    thickness = 0.028 * height**0.5
    limbs = struts(limb_starts, limb_ends, np.tile([[thickness, 0.25 * thickness]], (12, 1)), 5)
    return [
        KitPart("trunk", Mesh.merged([trunk, limbs]), "bark", "trunk"),
        KitPart(
            "leaves",
            _leaves(rng, clumps * 0.72 * reach + [0.0, 0.0, middle], reach, middle, leaves, leaf_size, blades),
            "leaf",
            "vegetation",
        ),
    ]


def _clumps(rng: np.random.Generator, count: int) -> Floats:
    """Middles of leaf clumps in the unit ball: evenly distributed in direction (a spiral), most near its surface."""
    k = np.arange(count)
    z = 1.0 - 2.0 * (k + 0.5) / count
    turn = k * GOLDEN_ANGLE_RAD + rng.uniform(0, 2 * np.pi)
    flat = np.sqrt(1.0 - z * z)
    radius = rng.uniform(0.6, 1.0, count)[:, None]
    order = rng.permutation(count)
    return (radius * np.column_stack([flat * np.cos(turn), flat * np.sin(turn), z]))[order]


def _trunk(rng: np.random.Generator, height: float, clear_trunk: float) -> tuple[Mesh, Floats]:
    """Slightly crooked tapering trunk up to the middle of the crown, and its upper end."""
    z = np.array([0.0, 0.35, 0.5 * clear_trunk, clear_trunk, 0.55 * height, 0.8 * height])
    z = np.maximum.accumulate(z + 0.05 * np.arange(6))
    bend = np.vstack([np.zeros((2, 2)), np.cumsum(rng.normal(0, 0.06, (4, 2)), axis=0)])
    foot = 0.055 * height**0.55
    radius = foot * np.array([1.45, 1.0, 0.9, 0.8, 0.5, 0.12])
    points = np.column_stack([bend, z])
    rings = np.empty((6, 9, 3))
    rings[..., :2] = radius[:, None, None] * circle(1.0, 9) + bend[:, None, :]
    rings[..., 2] = z[:, None]
    return loft(rings), points[-1]


def _leaves(
    rng: np.random.Generator, clumps: Floats, reach: Floats, middle: float, count: int, leaf_size: float, blades: bool
) -> Mesh:
    """`count` leaves around the clumps, each with a random attitude that favours facing up."""
    of = rng.integers(0, len(clumps), count)
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    spread = 0.42 * reach * np.cbrt(rng.uniform(0.05, 1.0, count))[:, None]
    centre = clumps[of] + spread * direction
    # Leaves outside of the crown are projected onto its surface.
    relative = (centre - [0.0, 0.0, middle]) / reach
    far = np.maximum(1.0, np.linalg.norm(relative, axis=1, keepdims=True))
    centre = relative / far * reach + [0.0, 0.0, middle]
    normal = rng.normal(size=(count, 3))
    normal[:, 2] += 0.8
    along = np.cross(normal, rng.normal(size=(count, 3)))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.cross(normal, along)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    length = leaf_size * rng.uniform(0.7, 1.3, count)[:, None]
    if blades:
        # Widest at 0.45 of the length, 0.65 of it wide; the halves rise by 20 degrees from the midrib.
        up = np.cross(along, across)
        up *= np.sign(up[:, 2:])
        edge = centre - 0.05 * length * along + 0.118 * length * up
        side = 0.325 * length * across
        corners = np.stack(
            [centre - 0.5 * length * along, edge - side, centre + 0.5 * length * along, edge + side], axis=1
        )
        rows = 4 * np.arange(count, dtype=np.int32)[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]], np.int32)
        return Mesh(corners.reshape(-1, 3), rows.reshape(-1, 3))
    corners = np.stack(
        [
            centre + 0.55 * length * along,
            centre - 0.45 * length * along + 0.4 * length * across,
            centre - 0.45 * length * along - 0.4 * length * across,
        ],
        axis=1,
    )
    return Mesh(corners.reshape(-1, 3), np.arange(3 * count, dtype=np.int32).reshape(-1, 3))
