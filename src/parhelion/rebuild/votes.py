"""Votes of the recorded shots on surfels: each shot states where a surface is, and that nothing lies before it.

Every shot is cast through the surfels. A surfel that is hit near the recorded range is confirmed; one that is hit well
before it is contradicted, because the light passed through. Votes are counted by distance from the centre of the disk,
so that one maximum decides per surfel whether it stays, shrinks or is removed: moving objects leave, and disks that
reach beyond the edge of their surface become smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.rebuild.frames import Floats, FrameShots, Mask, Path
from parhelion.rebuild.surfels import Surfels
from parhelion.world.rebuilt import TRIANGLES

MARGIN_M, MARGIN_SLANT_M, MOST_MARGIN_M = 0.04, 0.04, 0.3
"""Distance before the recorded return from which a surfel is contradicted: constant part [m], part that is divided by
the cosine of incidence [m], and largest value [m]."""
LAYERS = 8
"""Largest number of surfels that one shot contradicts in a round."""
BEYOND_M = 1e-3
"""Distance behind a surfel from which a shot continues [m]."""
RIMS = 4
"""Number of zones of equal width between the centre and the rim of a disk."""
LEAST_PASSED = 0.5
"""Smallest number of contradicting frames that shrink a disk."""
PRIOR_SHOTS = 2.0
"""Weight of the fitted plane against confirming returns, in returns, when a disk moves to them."""
REACH_M = 200.0
"""Range up to which lost shots are cast [m]."""


@dataclass(frozen=True, eq=False)
class Cast:
    """Surfel hits of shots."""

    surfel: NDArray[np.int64]
    """Surfel of each shot; -1 for misses, shape (n,)."""
    range_m: Floats
    """Distance from the beam exit to the surfel [m]; inf for misses, shape (n,)."""
    rim: Floats
    """Distance from the centre of the disk in units of its radius, shape (n,)."""
    cos: Floats
    """Cosine of incidence in [0, 1], shape (n,)."""


class SurfelScene:
    """Ray scene of surfels."""

    def __init__(self, surfels: Surfels) -> None:
        self.surfels = surfels
        vertices, faces = surfels.triangles()
        part = np.zeros(len(faces), np.uint32)
        self._scene = RayScene(SceneGeometry(Triangles(vertices, faces, part)))

    def cast(self, start: Floats, along: Floats, limit: float = REACH_M) -> Cast:
        """Nearest surfel on each ray."""
        count = len(start)
        time = np.zeros(count)
        hits = self._scene.cast(Rays(start, along, time, np.full(count, limit)))
        surfel = np.where(hits.found, hits.triangle // TRIANGLES, -1)
        row = np.maximum(surfel, 0)
        t = np.where(hits.found, hits.range, 0.0)
        off = start + t[:, None] * along - self.surfels.centre[row]
        cos = np.abs(np.einsum("ij,ij->i", along, self.surfels.normal[row].astype(np.float64)))
        rim = np.linalg.norm(off, axis=1) / self.surfels.radius[row]
        return Cast(surfel, hits.range, np.where(hits.found, rim, 0.0), np.where(hits.found, cos, 1.0))


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes on each surfel by zone, from the centre to the rim, shape (n, RIMS).

    A frame has one vote per surfel that it sees, divided between its shots: otherwise near frames, which have more
    shots, would decide.
    """

    confirmed: Floats
    passed: Floats
    lost: NDArray[np.int64]
    """Lost shots that hit the surfel: its surface may be dark, or absent."""
    shots: NDArray[np.int64]
    """Number of shots that confirm or contradict each surfel, shape (n,)."""
    behind_m: Floats
    """Mean distance of the confirming returns behind the disk, along its normal [m], shape (n,)."""


def margin_m(cos: Floats) -> Floats:
    """Distance before a return from which a surfel is contradicted [m]."""
    return np.minimum(MARGIN_M + MARGIN_SLANT_M / np.maximum(cos, 0.02), MOST_MARGIN_M)


def count_votes(
    surfels: Surfels, frames: Sequence[FrameShots], path: Path, usable: Sequence[Mask] | None = None
) -> Votes:
    """Votes of all shots of frames; `usable` masks shots that may vote."""
    scene = SurfelScene(surfels)
    count = len(surfels)
    confirmed, passed, lost = (np.zeros((count, RIMS)) for _ in range(3))
    shots, returns, behind = np.zeros(count), np.zeros(count), np.zeros(count)
    for number, frame in enumerate(frames):
        start, along = path.rays(number, frame)
        if usable is not None:
            start, along, frame = start[usable[number]], along[usable[number]], frame.rows(usable[number])
        near, through, gone = (np.zeros((count, RIMS)) for _ in range(3))
        for ahead, hit in _layers(scene, start, along, frame.range_m.astype(np.float64)):
            with np.errstate(invalid="ignore"):
                margin = margin_m(hit.cos)
                kinds = (np.abs(ahead) <= margin, ahead > margin, np.isnan(ahead))
            place = hit.surfel * RIMS + np.minimum((hit.rim * RIMS).astype(np.int64), RIMS - 1)
            for table, kind in zip((near, through, gone), kinds, strict=True):
                np.add.at(table.reshape(-1), place[kind], 1.0)
            np.add.at(behind, hit.surfel[kinds[0]], (ahead * hit.cos)[kinds[0]])
        total = near.sum(axis=1) + through.sum(axis=1)
        weight = 1.0 / np.maximum(total, 1.0)
        confirmed += weight[:, None] * near
        passed += weight[:, None] * through
        lost += gone
        shots += total
        returns += near.sum(axis=1)
    mean = behind / (returns + PRIOR_SHOTS)
    return Votes(confirmed, passed, lost.astype(np.int64), shots.astype(np.int64), mean)


def _layers(scene: SurfelScene, start: Floats, along: Floats, range_m: Floats) -> Iterator[tuple[Floats, Cast]]:
    """Surfels that shots meet one after the other, up to their returns, and the distance from there to the return."""
    passed = np.zeros(len(range_m))
    for _ in range(LAYERS):
        hit = scene.cast(start + passed[:, None] * along, along)
        rows = np.flatnonzero(hit.surfel >= 0)
        hit = Cast(hit.surfel[rows], hit.range_m[rows], hit.rim[rows], hit.cos[rows])
        ahead = range_m[rows] - passed[rows] - hit.range_m
        yield ahead, hit
        with np.errstate(invalid="ignore"):
            onward = ahead > margin_m(hit.cos)
        if not onward.any():
            return
        rows = rows[onward]
        passed = passed[rows] + hit.range_m[onward] + BEYOND_M
        start, along, range_m = start[rows], along[rows], range_m[rows]


def decided(surfels: Surfels, votes: Votes) -> tuple[Surfels, NDArray[np.int64]]:
    """Surfels shrunk or removed by their votes, and the rows of those that remain.

    The radius maximises the confirmations minus the contradictions within it. A disk without contradictions keeps its
    size. Disks move along their normal towards the returns that confirm them, since smoothing has rounded edges.
    """
    gain = np.cumsum(votes.confirmed - votes.passed, axis=1)
    zones = np.argmax(np.concatenate([np.zeros((len(surfels), 1)), gain], axis=1), axis=1)
    # Zones beyond the best one without contradictions are kept as well.
    whole = votes.passed.sum(axis=1) < LEAST_PASSED
    zones = np.where(whole, RIMS, zones)
    keep = np.flatnonzero(zones > 0)
    share = (zones[keep] / RIMS).astype(np.float32)
    kept = surfels.rows(keep)
    centre = kept.centre - votes.behind_m[keep, None] * kept.normal
    return replace(kept, centre=centre, radius=kept.radius * share), keep
