"""The ray engine: `cast(rays) -> hits` on Mitsuba and Dr.Jit, and a slow float64 reference in NumPy."""

from parhelion.rays.geometry import MovingTriangles, SceneGeometry, Triangles
from parhelion.rays.records import Caster, Hits, Rays
from parhelion.rays.reference import ReferenceScene
from parhelion.rays.scene import RayScene

__all__ = ["Caster", "Hits", "MovingTriangles", "RayScene", "Rays", "ReferenceScene", "SceneGeometry", "Triangles"]
