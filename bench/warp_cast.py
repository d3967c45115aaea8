"""Ray query of Warp, in a separate module because Warp compiles whole modules and evaluates their annotations."""

# Annotations are values for Warp, and its kernels are a language of their own.

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

# Warp's banner and compile messages would appear between the tables; older versions have `quiet`, newer ones
# `log_level`.
wp.config.quiet = True
wp.config.log_level = 40
wp.config.optimization_level = 3


@wp.kernel
def _cast(
    mesh: wp.uint64,
    origin: wp.array(dtype=wp.vec3),
    direction: wp.array(dtype=wp.vec3),
    limit: float,
    distance: wp.array(dtype=float),
):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, origin[i], direction[i], limit)
    distance[i] = limit
    if hit.result:
        distance[i] = hit.t


def caster(
    vertices: Any, faces: Any, origin: Any, direction: Any, limit_m: float
) -> tuple[Callable[[], None], Callable[[], Any]]:
    """A launch over rays that are already in Warp arrays, and a function that reads the distances [m]."""
    mesh = wp.Mesh(
        points=wp.array(vertices.astype(np.float32), dtype=wp.vec3, device="cpu"),
        indices=wp.array(faces.astype(np.int32).ravel(), dtype=int, device="cpu"),
    )
    origins, directions = (wp.array(a, dtype=wp.vec3, device="cpu") for a in (origin, direction))
    distance = wp.zeros(len(origin), dtype=float, device="cpu")

    def run() -> None:
        inputs = [mesh.id, origins, directions, limit_m]
        wp.launch(_cast, dim=len(origin), inputs=inputs, outputs=[distance], device="cpu")

    return run, distance.numpy
