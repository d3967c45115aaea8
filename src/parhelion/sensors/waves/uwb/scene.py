"""The world as a ranging radio sees it: rays, planes, and what each part does to a wave at the carrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.scene import RayScene
from parhelion.surfaces.radio import Complexes, permittivity, radio_name, slab_loss_db
from parhelion.world.planes import Patches, patches_of
from parhelion.world.world import World

HOUSING = "anchor"
"""Objects whose names begin so are housings of anchors: radio passes them, and sensors without anchors take them."""

SHEET_THICKNESS_M: Mapping[str, float] = {
    "brick": 0.12,
    "concrete": 0.15,
    "glass": 0.006,
    "plasterboard": 0.0125,
    "wood": 0.03,
    "plywood": 0.018,
    "chipboard": 0.018,
    "ceiling-board": 0.015,
    "marble": 0.03,
    "asphalt": 0.1,
    "plastic": 0.003,
    "rubber": 0.01,
    "cloth": 0.002,
    "skin": 0.2,
}
"""Thickness [m] of a surface that has no second face nearby. Assumed: common sizes of walls, panes and boards."""
OTHER_THICKNESS_M = 0.1
"""The same for all other materials, as Sionna RT has it for all."""
FOLIAGE = "foliage"
CLOSED_DB = 120.0
"""What weakens by more passes nothing: no link of ours has so much to spare."""


@dataclass(frozen=True, eq=False)
class RadioScene:
    """What the paths of one carrier need of a world."""

    scene: RayScene
    standing: RayScene
    """Without what moves, for the search of mirrors."""
    patches: Patches
    permittivity: Complexes
    """Complex relative permittivity of each part, shape (parts,)."""
    thickness: Floats
    """Of each part where it is a mere sheet [m], shape (parts,)."""
    foliage: NDArray[np.bool_]
    """Parts that are leaves: they mirror nothing, and weaken by the length inside."""
    closed: NDArray[np.bool_]
    """Parts that nothing passes: metal."""
    object_index: NDArray[np.int32]
    """The object of each part."""
    object_names: Mapping[int, str]

    @property
    def changes(self) -> bool:
        """Whether anything in it moves with time."""
        return self.scene.changes

    def patch_of(self, triangle: NDArray[np.int64]) -> NDArray[np.int64]:
        """The patch of each triangle number of `Hits`; -1 for misses and for what moves."""
        known = self.patches.of_triangle
        if not len(known):
            return np.full(len(triangle), -1, np.int64)
        standing = (triangle >= 0) & (triangle < len(known))
        return np.where(standing, known[np.clip(triangle, 0, len(known) - 1)], -1).astype(np.int64)


_kept: WeakKeyDictionary[World, dict[object, RadioScene]] = WeakKeyDictionary()


def radio_scene(world: World, names: tuple[str, ...], carrier_hz: float) -> RadioScene:
    """The scene for sensors of these names and a carrier [Hz], made once for each state of the world."""
    geometry = world.geometry(*names)
    cache = _kept.setdefault(world, {})
    key = (world.version, id(geometry), carrier_hz)
    if key not in cache:
        for old in [k for k in cache if isinstance(k, tuple) and k[0] != world.version]:
            del cache[old]
        like = next((v for k, v in cache.items() if isinstance(k, tuple) and k[1] == id(geometry)), None)
        cache[key] = _made(world, geometry, carrier_hz, like)
    return cache[key]


def housings(world: World) -> dict[str, Floats]:
    """Anchors that stand in a world: the middle [m] of each housing, by the name before a slash."""
    found = {}
    for item in world.objects:
        if not item.is_actor and item.name.lower().startswith(HOUSING):
            lower, upper = item.bounds()
            found[item.name.partition("/")[0]] = np.asarray((lower + upper) / 2.0)
    return found


def _made(world: World, geometry: SceneGeometry, carrier_hz: float, like: RadioScene | None) -> RadioScene:
    parts = world.parts
    radio = [radio_name(material.name) for material in world.materials]
    known = {name: complex(permittivity(name, carrier_hz)) for name in sorted(set(radio))}
    of_material = np.array([known[name] for name in radio], dtype=np.complex128)
    sheet = np.array([SHEET_THICKNESS_M.get(name, OTHER_THICKNESS_M) for name in radio])
    leaves = np.array([name == FOLIAGE for name in radio], dtype=bool)
    closed = np.asarray(slab_loss_db(1.0, of_material, 1e-4, carrier_hz) > CLOSED_DB)
    if like is None:
        seen = SceneGeometry(without_housings(world, geometry.static), geometry.actors, geometry.surface)
        scene = RayScene(seen)
        standing = RayScene(SceneGeometry(seen.static), zero=scene.origin) if scene.changes else scene
        patches = patches_of(seen, parts.material)
    else:
        scene, standing, patches = like.scene, like.standing, like.patches
    return RadioScene(
        scene, standing, patches, of_material[parts.material], sheet[parts.material], leaves[parts.material],
        closed[parts.material], parts.object_index, {item.index: item.name for item in world.objects},
    )  # fmt: skip


def without_housings(world: World, triangles: Triangles) -> Triangles:
    """A world's standing triangles less the housings of anchors, which radio passes."""
    hidden = {item.index for item in world.objects if item.name.lower().startswith(HOUSING)}
    if not hidden:
        return triangles
    keep = ~np.isin(world.parts.object_index, list(hidden))[triangles.part]
    return Triangles(triangles.vertices, triangles.faces[keep], triangles.part[keep])
