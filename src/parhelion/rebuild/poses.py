"""Poses of the frames of a drive: estimated from the scans or given, then refined jointly.

Point-to-plane registration as for calibration (`calibrate/drive/registration.py`), with points whose normals are
spread over all directions. Each frame is first registered to a local map of the preceding ones, and then, in several
rounds, to its neighbours on both sides. The sensor moves during a frame: whether and in which order its shots have to
be deskewed is decided by the residual of the first frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.drive.registration import even_sample, match_planes
from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_conjugate, quat_multiply, quat_rotate, quats_from_matrices
from parhelion.rebuild.frames import Floats, FrameShots, Path
from parhelion.rebuild.surfels import plane

MAP_FRAMES = 6
"""Number of preceding frames of the local map."""
NEIGHBOUR_FRAMES = 8
"""Number of frames on each side to which a frame is registered in the refinement."""
TRIED_FRAMES = 8
"""Number of frames that decide about the deskewing."""
START_NEAR_M, NEAR_M, LAST_NEAR_M, SHRINK = 2.0, 1.0, 0.3, 0.8
"""Matching distances [m]: for the first motion, for later frames, at the end; and the factor per step."""
STEPS = 20
REFINE_ROUNDS = 3
REFINE_STEPS = 6
SETTLED_M = 0.002
ALIKE = 1.15
"""Ratio of residuals that do not decide about the deskewing."""
MOST_APART_M = 0.15
"""Largest root mean square distance from matched planes of a frame whose pose agrees with the scans."""
CELL_M = 0.25
"""Size of the cells that contribute one point per frame."""
FLATTEST = 0.08
MOST_CELLS = 12_000
Advance = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Planes:
    """Points of one frame on flat surfaces, in the sensor frame, before deskewing."""

    point: Floats
    normal: Floats
    delay_s: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Registered:
    """Poses with their residuals."""

    path: Path
    apart_m: Floats
    """Root mean square distance of each frame from the planes of its neighbours [m]; inf if it does not match."""
    skew: float
    """Factor on the delays of shots: 1, 0 for snapshots, -1 for recordings with reversed times."""


def planes_of(frame: FrameShots, seed: int = 1) -> Planes:
    """Points on flat surfaces with normals in balanced directions."""
    from scipy.spatial import cKDTree

    own = frame.rows(frame.returned)
    points = own.origin.astype(np.float64) + own.range_m.astype(np.float64)[:, None] * own.direction
    random = np.random.default_rng(seed)
    order = random.permutation(len(points))
    _, first = np.unique(np.floor(points[order] / CELL_M).astype(np.int64), axis=0, return_index=True)
    some = order[first]
    if len(some) > MOST_CELLS:
        some = random.choice(some, MOST_CELLS, replace=False)
    if len(points) < 20:
        return Planes(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0, np.float32))
    distance, near = cKDTree(points).query(points[some], k=16, workers=-1)
    # Rings lie apart at long range: neighbours of a single ring form no plane.
    normal, middle, flatness = plane(points[near], np.ones(near.shape))
    off = np.abs(np.einsum("ij,ij->i", points[some] - middle, normal))
    spread = points[near] - middle[:, None]
    values = np.linalg.eigvalsh(np.einsum("nki,nkj->nij", spread, spread) / near.shape[1])
    broad = values[:, 1] > 0.02 * values[:, 2]
    good = (flatness < FLATTEST) & broad & (off < 0.05) & (distance[:, -1] < 2.0)
    some, normal = some[good], normal[good]
    chosen = even_sample(normal, random)
    return Planes(points[some[chosen]], normal[chosen], own.delay_s[some[chosen]])


def placed(planes: Planes, path: Path, number: int) -> tuple[Floats, Floats]:
    """Points and normals of a frame in the world."""
    xyz, quat = path.motion(number, planes.delay_s)
    return xyz + quat_rotate(quat, planes.point), quat_rotate(quat, planes.normal)


def estimated(frames: Sequence[FrameShots], advance: Advance = lambda: None) -> Registered:
    """Estimate the poses of all frames from their scans, and refine them."""
    if len(frames) < 2:
        raise ConfigError("rebuild: poses cannot be estimated from a single frame; record at least two revolutions")
    planes = [planes_of(frame) for frame in frames]
    times = _times(frames)
    skew = _skew(planes, times)
    planes = [replace(one, delay_s=np.float32(skew) * one.delay_s) for one in planes]
    path = _odometry(planes, times, advance)
    return _refined(planes, times, path, skew)


def refined(frames: Sequence[FrameShots], path: Path, rounds: int = REFINE_ROUNDS) -> Registered:
    """Refine given poses jointly with the scans. `rounds` 0 leaves them and computes their residuals."""
    planes = [planes_of(frame) for frame in frames]
    times = _times(frames)
    tried: list[tuple[float, float]] = []
    moves = any(np.any(frame.delay_s) for frame in frames)
    for skew in (1.0, 0.0, -1.0) if moves else (0.0,):
        some = [replace(one, delay_s=np.float32(skew) * one.delay_s) for one in planes[:TRIED_FRAMES]]
        found = _refined(some, times[: len(some)], path.rows(np.arange(len(some))), skew, 1 if rounds else 0)
        tried.append((float(np.median(found.apart_m)), skew))
    skew = _preferred(tried)
    planes = [replace(one, delay_s=np.float32(skew) * one.delay_s) for one in planes]
    return _refined(planes, times, path, skew, rounds)


def _preferred(tried: list[tuple[float, float]]) -> float:
    """Skew with the smallest residual; the recorded order of shots is preferred where residuals are alike."""
    best = min(apart for apart, _ in tried)
    return next(skew for apart, skew in tried if apart <= ALIKE * best or not np.isfinite(best))


def _times(frames: Sequence[FrameShots]) -> Floats:
    times = np.array([frame.time_s for frame in frames])
    if np.any(np.diff(times) <= 0.0):
        return 0.1 * np.arange(len(frames), dtype=np.float64)
    return times


def _skew(planes: Sequence[Planes], times: Floats) -> float:
    if not any(np.any(one.delay_s) for one in planes):
        return 0.0
    tried = []
    for skew in (1.0, 0.0, -1.0):
        some = [replace(one, delay_s=np.float32(skew) * one.delay_s) for one in planes[:TRIED_FRAMES]]
        path = _odometry(some, times, lambda: None)
        apart = _refined(some, times[: len(some)], path, skew).apart_m
        tried.append((float(np.median(apart)), skew))
    return _preferred(tried)


def _odometry(planes: Sequence[Planes], times: Floats, advance: Advance) -> Path:
    """Register each frame to a local map of the preceding ones."""
    xyz, quat = np.zeros((1, 3)), np.array([[0.0, 0.0, 0.0, 1.0]])
    path = with_motion(xyz, quat, times[:1])
    advance()
    for number in range(1, len(planes)):
        guess_xyz, guess_quat = _predicted(xyz, quat, times, number)
        near = START_NEAR_M if number < 3 else NEAR_M
        # Placed again for every frame: the motion during a frame is known only from the frames around it.
        mapped = [placed(planes[k], path, k) for k in range(max(0, number - MAP_FRAMES), number)]
        found_xyz, found_quat = _fit(planes[number], (xyz, quat), (guess_xyz, guess_quat), times, mapped, near)
        xyz, quat = np.vstack([xyz, found_xyz]), np.vstack([quat, found_quat])
        path = with_motion(xyz, quat, times[: number + 1])
        advance()
    return path


def _predicted(xyz: Floats, quat: Floats, times: Floats, number: int) -> tuple[Floats, Floats]:
    """Pose extrapolated at constant velocity."""
    if number < 2:
        return xyz[-1], quat[-1]
    share = (times[number] - times[number - 1]) / (times[number - 1] - times[number - 2])
    turn = _vector(quat_multiply(quat_conjugate(quat[-2]), quat[-1]))
    ahead: Floats = xyz[-1] + share * (xyz[-1] - xyz[-2])
    turned: Floats = quat_multiply(quat[-1], _quaternion(share * turn))
    return ahead, turned


def _fit(
    planes: Planes,
    before: tuple[Floats, Floats],
    guess: tuple[Floats, Floats],
    times: Floats,
    mapped: Sequence[tuple[Floats, Floats]],
    near: float,
) -> tuple[Floats, Floats]:
    from scipy.spatial import cKDTree

    places, normals = (np.concatenate(part) for part in zip(*mapped, strict=True))
    if not len(places) or not len(planes.point):
        return guess
    tree, (xyz, quat) = cKDTree(places), guess
    number = len(before[0])
    for _ in range(STEPS):
        path = with_motion(np.vstack([before[0], xyz]), np.vstack([before[1], quat]), times[: number + 1])
        here, facing = placed(planes, path, number)
        rotated, moved, apart, _ = match_planes(here, facing, places, normals, tree, near)
        if not np.isfinite(apart):
            break
        after, quat = rotated @ xyz + moved, quat_multiply(quats_from_matrices(rotated[None])[0], quat)
        settled = near <= LAST_NEAR_M and float(np.linalg.norm(after - xyz)) < SETTLED_M
        xyz, near = after, max(LAST_NEAR_M, SHRINK * near)
        if settled:
            break
    return xyz, quat


def _refined(
    planes: Sequence[Planes], times: Floats, path: Path, skew: float, rounds: int = REFINE_ROUNDS
) -> Registered:
    """Register each frame to its neighbours on both sides, in several rounds; the first frame stays."""
    from scipy.spatial import cKDTree

    count = len(planes)
    xyz, quat = path.xyz.copy(), path.quat_xyzw.copy()
    apart_m = np.full(count, np.inf)
    for number_of_round in range(rounds + 1):
        path = with_motion(xyz, quat, times)
        every = [placed(one, path, number) for number, one in enumerate(planes)]
        last = number_of_round == rounds
        for number in range(count):
            around = [k for k in range(number - NEIGHBOUR_FRAMES, number + NEIGHBOUR_FRAMES + 1) if k != number]
            others = [every[k] for k in around if 0 <= k < count]
            places, normals = (np.concatenate(part) for part in zip(*others, strict=True))
            if not len(places) or not len(planes[number].point):
                continue
            tree, (here, facing) = cKDTree(places), every[number]
            for _ in range(1 if last else REFINE_STEPS):
                rotated, moved, apart, _ = match_planes(here, facing, places, normals, tree, LAST_NEAR_M)
                apart_m[number] = apart
                if last or number == 0 or not np.isfinite(apart):
                    break
                here, facing = here @ rotated.T + moved, facing @ rotated.T
                step = rotated @ xyz[number] + moved
                quat[number] = quat_multiply(quats_from_matrices(rotated[None])[0], quat[number])
                settled = float(np.linalg.norm(step - xyz[number])) < SETTLED_M
                xyz[number] = step
                if settled:
                    break
            if not last:
                every[number] = here, facing
    return Registered(with_motion(xyz, quat, times), apart_m, skew)


def localised(frames: Sequence[FrameShots], guess: Path, reference: Sequence[FrameShots], path: Path) -> Path:
    """Poses of frames registered to reference frames of known poses, one by one, for held-out frames."""
    from scipy.spatial import cKDTree

    mapped = [placed(planes_of(frame), path, number) for number, frame in enumerate(reference)]
    xyz, quat = guess.xyz.copy(), guess.quat_xyzw.copy()
    for number, frame in enumerate(frames):
        nearest = np.argsort(np.linalg.norm(path.xyz - xyz[number], axis=1))[: 2 * NEIGHBOUR_FRAMES]
        places, normals = (np.concatenate(part) for part in zip(*(mapped[k] for k in nearest), strict=True))
        here, facing = placed(planes_of(frame), guess, number)
        tree, near = cKDTree(places), NEAR_M
        for _ in range(STEPS):
            rotated, moved, apart, _ = match_planes(here, facing, places, normals, tree, near)
            if not np.isfinite(apart):
                break
            here, facing = here @ rotated.T + moved, facing @ rotated.T
            xyz[number] = rotated @ xyz[number] + moved
            quat[number] = quat_multiply(quats_from_matrices(rotated[None])[0], quat[number])
            near = max(LAST_NEAR_M, SHRINK * near)
    return Path(xyz, quat, guess.velocity, guess.rate)


def with_motion(xyz: Floats, quat: Floats, times: Floats) -> Path:
    """Path with velocities and rates by central differences of the poses."""
    count = len(xyz)
    if count < 2:
        return Path(xyz, quat, np.zeros((count, 3)), np.zeros((count, 3)))
    low, high = np.maximum(np.arange(count) - 1, 0), np.minimum(np.arange(count) + 1, count - 1)
    took = (times[high] - times[low])[:, None]
    turn = _vector(quat_multiply(quat_conjugate(quat[low]), quat[high]))
    return Path(xyz, quat, (xyz[high] - xyz[low]) / took, turn / took)


def _vector(quat: Floats) -> Floats:
    """Rotation vectors [rad] of quaternions, shapes (..., 3) and (..., 4)."""
    quat = np.where(quat[..., 3:] < 0.0, -quat, quat)
    sine = np.linalg.norm(quat[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, quat[..., 3:])
    return np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 2.0) * quat[..., :3]


def _quaternion(turn: Floats) -> Floats:
    """Quaternion of a rotation vector [rad]."""
    angle = float(np.linalg.norm(turn))
    half = np.sinc(0.5 * angle / np.pi) * 0.5
    return np.asarray(np.append(half * turn, np.cos(0.5 * angle)), np.float64)
