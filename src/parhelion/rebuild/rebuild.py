"""A drive becomes a place: poses, surfels, votes, reflectance and coverage, in this order.

drive = read_frames(File("drive.pcap"), ph.Lidar("ouster/os1-128"))
place = rebuilt(drive.frames, ph.Lidar("ouster/os1-128"))
write_place(place, File("place"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.rebuild.frames import Floats, FrameShots, Mask, Path, Singles
from parhelion.rebuild.poses import MOST_APART_M, Registered, estimated, refined, with_motion
from parhelion.rebuild.reading import LEAST_FRAMES_OF_MASK, blind_cells, cell_of, scaled_delays
from parhelion.rebuild.reflectance import LOST_CELL, Reflectances, fitted_reflectances, shadowed
from parhelion.rebuild.surfels import Surfels, Voxels, fitted
from parhelion.rebuild.votes import SurfelScene, count_votes, decided
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.world.coverage import Coverage, packed_cells

LEAST_VOXEL_M, MOST_VOXEL_M, RANGE_PER_VOXEL = 0.05, 0.1, 125.0
"""Limits of the voxel size [m], and the median range of the returns in voxels."""
VOTE_ROUNDS = 5
FEW_CHANGES = 0.002
"""Share of surfels whose removal ends the votes."""
REFLECTANCE_CELL_VOXELS = 4.0
COVERAGE_CELL_M = 0.5
COVERAGE_REACH_M = 60.0
COVERAGE_EVERY = 3
"""Every n-th shot marks the space that it passed; coprime with the number of rings of common sensors."""
LEAST_PATH_M = 0.3
LEAST_SEEN = 4
"""Smallest number of votes that make a surfel thin."""
THIN_COVER = 0.75
BIAS_NEAR_M = 0.3
LEAST_OF_RING = 200
GROUND_UP, GROUND_LAYER_M, GROUND_CELL_M, GROUND_BELOW_M = 0.85, 0.3, 2.0, 0.3
"""Ground: least upward component of the normal, height above the lowest surface of its cell [m], size of the cells
[m], and least distance below the sensor [m]."""
STAGES = ("poses", "channels", "surfels", "votes", "reflectance", "coverage")


@dataclass(frozen=True)
class Options:
    """Choices of a rebuild."""

    voxel_m: float | None = None
    """Size of the voxels [m]; None chooses it from the ranges."""
    refine_poses: bool = True
    """Refine given poses; estimated ones always are."""
    keep_moving: bool = False
    """Leave out the votes, so that moving objects and wide disks stay."""


@dataclass(frozen=True, eq=False)
class RebuiltPlace:
    """Rebuilt world before it is written."""

    surfels: Surfels
    cover: Singles
    """Share of the light that each surfel stops, shape (n,)."""
    ground: Mask
    """Mask of the surfels on the ground, shape (n,)."""
    reflectances: Reflectances
    coverage: Coverage
    frames: list[FrameShots]
    """Frames as used: with the delays and ranges of the unit corrected."""
    registered: Registered
    voxel_m: float
    ring_bias_m: Floats
    """Range error of each ring that was corrected [m]; empty without rings."""
    blind: Mask
    """Mask of the directions that never return anything, or that the carrier of the sensor hides."""
    blind_share: float
    """Share of the shots in these directions."""
    removed: dict[str, int]
    """Counts of surfels that were removed or shrunk, by reason."""
    notes: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """Poses of the frames."""
        return self.registered.path


def rebuilt(
    frames: Sequence[FrameShots],
    lidar: Lidar,
    poses: tuple[Floats, Floats] | None = None,
    options: Options = Options(),
    watch: Callable[[str], None] = lambda stage: None,
) -> RebuiltPlace:
    """Rebuild the place that frames of one drive have seen. `poses` are positions and quaternions of the frames."""
    frames, notes = list(frames), list[str]()
    _check_frames(frames)
    watch("poses")
    registered = _registered(frames, poses, options, notes)
    _check_motion(frames, registered, notes)
    frames = scaled_delays(frames, registered.skew)
    voxel_m = options.voxel_m or _voxel_m(frames)
    watch("channels")
    bias = ring_biases(frames, registered.path, 2.0 * voxel_m)
    if np.any(bias):
        frames = [corrected(frame, bias) for frame in frames]
    blind = blind_cells(frames)
    usable = [~blind[cell_of(frame.direction)] for frame in frames]
    watch("surfels")
    surfels = surfels_of(frames, registered.path, voxel_m)
    watch("votes")
    surfels, cover, removed = _voted(surfels, frames, registered.path, usable, options)
    watch("reflectance")
    cell_m = REFLECTANCE_CELL_VOXELS * voxel_m
    if len(frames) >= LEAST_FRAMES_OF_MASK:
        blind = shadowed(surfels, frames, registered.path, blind, LOST_CELL * cell_m)
        usable = [~blind[cell_of(frame.direction)] for frame in frames]
    reflectances = fitted_reflectances(surfels, frames, registered.path, lidar, cell_m, usable)
    if not reflectances.known:
        notes.append("the recording has no intensities that determine the reflectance; surfaces are uniformly grey")
    watch("coverage")
    coverage = covered(surfels, frames, registered.path, usable)
    blind_share = float(np.mean(np.concatenate([~mask for mask in usable])))
    ground = ground_of(surfels, registered.path)
    return RebuiltPlace(
        surfels,
        cover,
        ground,
        reflectances,
        coverage,
        frames,
        registered,
        voxel_m,
        bias,
        blind,
        blind_share,
        removed,
        notes,
    )


# ---- poses -----------------------------------------------------------------------------------------------------------


def _check_frames(frames: Sequence[FrameShots]) -> None:
    if len(frames) < 2:
        name = frames[0].name if frames else "the recording"
        raise ConfigError(
            f"{name}: one revolution shows each surface from one place only; record at least two from a moving sensor"
        )


def _registered(
    frames: list[FrameShots], poses: tuple[Floats, Floats] | None, options: Options, notes: list[str]
) -> Registered:
    if poses is None:
        return estimated(frames)
    given = with_motion(*poses, np.array([frame.time_s for frame in frames]))
    if not options.refine_poses:
        return refined(frames, given, rounds=0)
    before = refined(frames, given, rounds=0)
    after = refined(frames, given)
    if float(np.median(after.apart_m)) > float(np.median(before.apart_m)):
        return before
    shift = np.linalg.norm(after.path.xyz - given.xyz, axis=1)
    far = int(np.argmax(shift))
    if shift[far] > 0.1:
        x, y, z = after.path.xyz[far]
        notes.append(
            f"the given poses disagree with the scans by up to {shift[far]:.2f} m, at {frames[far].name} "
            f"(x {x:.1f}, y {y:.1f}, z {z:.1f} m); they were refined"
        )
    return after


def _check_motion(frames: list[FrameShots], registered: Registered, notes: list[str]) -> None:
    xyz = registered.path.xyz
    spread = float(np.linalg.norm(xyz.max(axis=0) - xyz.min(axis=0)))
    if spread < LEAST_PATH_M:
        notes.append(
            f"the sensor moved by only {spread:.2f} m: surfaces are known between its rings as far as neighbouring "
            "rings overlap, and from one side only"
        )
    bad = ~(registered.apart_m < MOST_APART_M)
    if bad.all():
        raise ConfigError(
            f"{frames[0].name}: no revolution matches its neighbours within {MOST_APART_M} m: the poses disagree with "
            "the scans everywhere; give other poses, or none to estimate them"
        )
    if bad.any():
        first = int(np.argmax(bad))
        x, y, z = xyz[first]
        notes.append(
            f"{int(bad.sum())} of {len(frames)} revolutions disagree with their neighbours by more than "
            f"{MOST_APART_M} m, the first at {frames[first].name} (x {x:.1f}, y {y:.1f}, z {z:.1f} m)"
        )


# ---- geometry --------------------------------------------------------------------------------------------------------


def _voxel_m(frames: Sequence[FrameShots]) -> float:
    middle = float(np.median([np.nanmedian(frame.range_m) for frame in frames]))
    return float(np.clip(middle / RANGE_PER_VOXEL, LEAST_VOXEL_M, MOST_VOXEL_M))


def surfels_of(frames: Sequence[FrameShots], path: Path, voxel_m: float) -> Surfels:
    """Surfels through the returns of frames, without votes."""
    voxels = Voxels.empty(voxel_m)
    for number, frame in enumerate(frames):
        own = frame.rows(frame.returned)
        voxels = voxels.with_points(*path.points(number, own), own.range_m)
    return fitted(voxels)


def ring_biases(frames: Sequence[FrameShots], path: Path, voxel_m: float) -> Floats:
    """Range error of each ring [m], from its distance to the surface that all rings see; their median is 0.

    Rings without enough returns have 0; the result is empty if rings are unknown.
    """
    if min(int(frame.ring.min(initial=0)) for frame in frames) < 0:
        return np.zeros(0)
    some = list(range(0, len(frames), max(1, len(frames) // 20)))
    scene = SurfelScene(surfels_of([frames[k] for k in some], path.rows(some), voxel_m))
    rings, off = [], []
    for number in some:
        own = frames[number].rows(frames[number].returned)
        hit = scene.cast(*path.rays(number, own))
        ahead = own.range_m - hit.range_m
        near = (hit.surfel >= 0) & (np.abs(ahead) < BIAS_NEAR_M) & (hit.cos > 0.2)
        rings.append(own.ring[near].astype(np.int64))
        off.append(ahead[near])
    ring, every = np.concatenate(rings), np.concatenate(off)
    count = max(int(frame.ring.max()) for frame in frames) + 1
    order = np.argsort(ring, kind="stable")
    parts = np.split(every[order], np.cumsum(np.bincount(ring, minlength=count))[:-1])
    known = np.array([len(part) >= LEAST_OF_RING for part in parts])
    if known.sum() < 2:
        return np.zeros(count)
    bias = np.array([np.median(part) if len(part) >= LEAST_OF_RING else np.nan for part in parts])
    return np.where(known, bias - np.nanmedian(bias), 0.0)


def corrected(frame: FrameShots, bias: Floats) -> FrameShots:
    """Frame with ranges from which the errors of the rings were subtracted."""
    return replace(frame, range_m=(frame.range_m - bias[frame.ring]).astype(np.float32))


def _voted(
    surfels: Surfels, frames: Sequence[FrameShots], path: Path, usable: Sequence[Mask], options: Options
) -> tuple[Surfels, Singles, dict[str, int]]:
    """Surfels after the votes, the share of the light that each stops, and counts of the changes."""
    removed = {"before": len(surfels), "removed": 0, "shrunk": 0, "thin": 0}
    if options.keep_moving:
        return surfels, np.ones(len(surfels), np.float32), removed
    for _ in range(VOTE_ROUNDS):
        votes = count_votes(surfels, frames, path, usable)
        after, keep = decided(surfels, votes)
        removed["removed"] += len(surfels) - len(after)
        removed["shrunk"] += int(np.sum(after.radius < surfels.radius[keep]))
        settled = len(surfels) - len(after) < FEW_CHANGES * len(surfels)
        surfels = after
        if settled:
            break
    votes = count_votes(surfels, frames, path, usable)
    confirmed, passed = votes.confirmed.sum(axis=1), votes.passed.sum(axis=1)
    share = (confirmed + 0.5) / (confirmed + passed + 0.5)
    thin = (votes.shots >= LEAST_SEEN) & (share < THIN_COVER)
    removed["thin"] = int(thin.sum())
    return surfels, np.where(thin, share, 1.0).astype(np.float32), removed


def ground_of(surfels: Surfels, path: Path) -> Mask:
    """Mask of surfels on the ground: flat, the lowest of their surroundings, and below the sensor."""
    from scipy.spatial import cKDTree

    upward = np.flatnonzero(surfels.normal[:, 2] > GROUND_UP)
    found = np.zeros(len(surfels), bool)
    if not len(upward):
        return found
    place = surfels.centre[upward]
    _, nearest = cKDTree(path.xyz[:, :2]).query(place[:, :2])
    below = place[:, 2] < path.xyz[nearest, 2] - GROUND_BELOW_M
    upward, place = upward[below], place[below]
    if not len(upward):
        return found
    flat = np.column_stack([place[:, :2], np.zeros(len(place))])
    _, cell = np.unique(packed_cells(flat, GROUND_CELL_M), return_inverse=True)
    lowest = np.full(int(cell.max()) + 1, np.inf)
    np.minimum.at(lowest, cell.ravel(), place[:, 2])
    found[upward[place[:, 2] < lowest[cell.ravel()] + GROUND_LAYER_M]] = True
    return found


# ---- coverage --------------------------------------------------------------------------------------------------------


def covered(surfels: Surfels, frames: Sequence[FrameShots], path: Path, usable: Sequence[Mask]) -> Coverage:
    """Space that shots passed, up to their return, to the surfel that they met, or to a limit."""
    scene = SurfelScene(surfels)
    found: list[NDArray[np.int64]] = []
    for number, frame in enumerate(frames):
        rows = np.flatnonzero(usable[number])[::COVERAGE_EVERY]
        start, along = path.rays(number, frame.rows(rows))
        range_m = frame.range_m[rows].astype(np.float64)
        lost = ~np.isfinite(range_m)
        if lost.any():
            range_m[lost] = scene.cast(start[lost], along[lost], COVERAGE_REACH_M).range_m
        end = np.minimum(np.where(np.isfinite(range_m), range_m, COVERAGE_REACH_M), COVERAGE_REACH_M)
        found.append(_passed(start, along, end))
        if len(found) >= 16:
            found = [np.unique(np.concatenate(found))]
    cells = np.unique(np.concatenate([*found, packed_cells(surfels.centre, COVERAGE_CELL_M)]))
    return Coverage(COVERAGE_CELL_M, cells, COVERAGE_REACH_M)


def _passed(start: Floats, along: Floats, end: Floats) -> NDArray[np.int64]:
    """Cells along rays, by samples at steps of half a cell."""
    step = 0.5 * COVERAGE_CELL_M
    parts = []
    for number in range(int(COVERAGE_REACH_M / step) + 1):
        going = end > number * step
        if not going.any():
            break
        parts.append(np.unique(packed_cells(start[going] + number * step * along[going], COVERAGE_CELL_M)))
    parts.append(np.unique(packed_cells(start + end[:, None] * along, COVERAGE_CELL_M)))
    return np.unique(np.concatenate(parts))
