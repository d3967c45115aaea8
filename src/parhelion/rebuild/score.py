"""Score of a rebuilt place on frames that were not used: ranges, and returns against lost shots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_slerp
from parhelion.rebuild.frames import Floats, FrameShots, Path
from parhelion.rebuild.poses import localised
from parhelion.rebuild.reading import cell_of, scaled_delays
from parhelion.rebuild.rebuild import Options, RebuiltPlace, corrected, rebuilt
from parhelion.rebuild.votes import SurfelScene
from parhelion.sensors.optics.lidar.lidar import Lidar

NEAR_M = 0.1
HELD_OUT_EVERY = 5


@dataclass(frozen=True)
class Score:
    """Agreement of held-out shots with a rebuilt place."""

    shots: int
    median_m: float
    """Median of the absolute range error of shots that return in both [m]."""
    near_of_hits: float
    """Share of the shots that return in both whose ranges agree within 0.1 m."""
    near_of_all: float
    """The same share of all shots that really returned; a hole counts as a failure."""
    returned_hit: float
    """Share of the real returns that meet a surfel."""
    lost_hit: float
    """Share of the lost shots that meet a surfel that mostly returns."""
    agreement: float
    """Share of all shots with the same outcome, return or none."""


def score(place: RebuiltPlace, frames: Sequence[FrameShots], path: Path) -> Score:
    """Cast the shots of held-out frames through the surfels of a place, at known poses.

    A shot is predicted to return if it meets a surfel on whose surroundings most shots returned, in a direction in
    which the sensor is not blind.
    """
    scene = SurfelScene(place.surfels)
    near = both = returns = hits = lost = lost_hits = same = shots = 0
    errors = []
    for number, frame in enumerate(frames):
        own = corrected(frame, place.ring_bias_m) if len(place.ring_bias_m) else frame
        hit = scene.cast(*path.rays(number, own))
        found, back = hit.surfel >= 0, own.returned
        off = np.abs(hit.range_m - own.range_m)[found & back]
        likely = found & (place.reflectances.return_rate[np.maximum(hit.surfel, 0)] > 0.5)
        likely &= ~place.blind[cell_of(own.direction)]
        errors.append(off)
        near += int((off < NEAR_M).sum())
        both, returns, hits = both + len(off), returns + int(back.sum()), hits + int((found & back).sum())
        lost, lost_hits = lost + int((~back).sum()), lost_hits + int((likely & ~back).sum())
        same, shots = same + int((likely == back).sum()), shots + len(own)
    return Score(
        shots,
        float(np.median(np.concatenate(errors))),
        near / max(both, 1),
        near / max(returns, 1),
        hits / max(returns, 1),
        lost_hits / max(lost, 1),
        same / max(shots, 1),
    )


def held_out_score(
    frames: Sequence[FrameShots],
    lidar: Lidar,
    poses: tuple[Floats, Floats] | None,
    options: Options,
    watch: Callable[[str], None] = lambda stage: None,
) -> Score:
    """Score of a place that was rebuilt without every fifth frame, on these frames.

    The held-out frames are registered to the others.
    """
    number = np.arange(len(frames))
    test = number[number % HELD_OUT_EVERY == HELD_OUT_EVERY // 2]
    train = np.setdiff1d(number, test)
    if len(train) < 2 or not len(test):
        raise ConfigError(f"{frames[0].name}: a check needs at least {HELD_OUT_EVERY} revolutions, got {len(frames)}")
    chosen = None if poses is None else (poses[0][train], poses[1][train])
    place = rebuilt([frames[k] for k in train], lidar, chosen, options, watch)
    return score(place, *held_out(place, [frames[k] for k in test]))


def held_out(place: RebuiltPlace, frames: Sequence[FrameShots]) -> tuple[list[FrameShots], Path]:
    """Held-out frames with the delays of the place, and their poses by registration to its frames."""
    times = np.array([frame.time_s for frame in place.frames])
    wanted = np.array([frame.time_s for frame in frames])
    path = place.path
    after = np.clip(np.searchsorted(times, wanted), 1, len(times) - 1)
    before = after - 1
    share = np.clip((wanted - times[before]) / np.maximum(times[after] - times[before], 1e-9), 0.0, 1.0)
    part = share[:, None]

    def between(values: Floats) -> Floats:
        return np.asarray(values[before] + part * (values[after] - values[before]))

    quat = quat_slerp(path.quat_xyzw[before], path.quat_xyzw[after], share)
    guess = Path(between(path.xyz), quat, between(path.velocity), between(path.rate))
    delayed = scaled_delays(list(frames), place.registered.skew)
    own = [corrected(frame, place.ring_bias_m) for frame in delayed] if len(place.ring_bias_m) else delayed
    return delayed, localised(own, guess, place.frames, path)
