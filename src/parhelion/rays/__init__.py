"""The ray engine: `cast(rays) -> hits`, fast on Mitsuba and Dr.Jit, slow and plain in NumPy."""

from parhelion.rays.geometry import MovingTriangles, SceneGeometry, Triangles
from parhelion.rays.records import Caster, Hits, Rays
from parhelion.rays.reference import ReferenceScene
from parhelion.rays.scene import RayScene

__all__ = ["Caster", "Hits", "MovingTriangles", "RayScene", "Rays", "ReferenceScene", "SceneGeometry", "Triangles"]
