"""Realism of simulated frames: two-sample test with its floor, and comparison shot by shot.

result = ph.evaluate.realism.compare("recorded/", "simulated/")
result.shape.auc, result.floor["alternate frames"].auc
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.evaluate.realism.features import RESOLUTION_M, range_step
from parhelion.evaluate.realism.rings import Frame, frame_of
from parhelion.evaluate.realism.shots import ShotMeasures, chamfer_of, measures, pair_of
from parhelion.evaluate.realism.two_sample import (
    MOST_POINTS,
    Sample,
    TwoSample,
    common_features,
    samples_of,
    two_sample,
)

MOST_FRAMES = 20
"""Frames of each set that are used; longer recordings are sampled evenly."""

Clouds = str | PathLike[str] | Iterable[PointCloud]


@dataclass(frozen=True)
class Options:
    """Options of the comparison."""

    resolution_m: float | None = None
    """Common range resolution [m]; 0 for none; by default 3 mm, or the step of the real ranges if it is larger."""
    most_frames: int = MOST_FRAMES
    most_points: int = MOST_POINTS
    """Points of each set that are classified."""
    paired: bool = True
    """Frames correspond by order, if both sets have the same number."""
    sensor: str | None = None
    """Model of captures that do not state it."""
    topics: tuple[str | None, str | None] = (None, None)
    """Topics of the clouds in bags, real and simulated."""
    also_real: Clouds | None = None
    """Another recording of the same sensor, as a further floor."""
    seed: int = 0


@dataclass(eq=False)
class Realism:
    """Result of the comparison."""

    frames: dict[str, int]
    points: dict[str, int]
    rings_from: dict[str, str]
    range_step_m: dict[str, float]
    """Step in which the ranges of each set are stored [m]; 0 if none is found."""
    resolution_m: float
    """Resolution to which both sets were brought [m]."""
    shape: TwoSample
    """Test by the shape alone."""
    everything: TwoSample | None
    """Test with the intensity; None if one set has none."""
    floor: dict[str, dict[str, TwoSample]]
    """Real against real, by split (such as 'alternate frames') and by 'shape' or 'everything'."""
    omitted: list[str]
    """Features without values in one of the sets."""
    shots: ShotMeasures | None
    unmatched: str
    """Reason why shots were not compared; '' if they were."""
    chamfer: dict[str, float] | None
    samples: tuple[Sample, Sample] = field(repr=False)
    sets: tuple[list[Frame], list[Frame]] = field(repr=False)

    @property
    def best(self) -> TwoSample:
        """Test with the most features."""
        return self.everything or self.shape

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in the JSON file."""
        return {
            **{name: getattr(self, name) for name in ("frames", "points", "rings_from", "range_step_m")},
            "resolution_m": self.resolution_m,
            "auc": {name: one.summary() for name, one in self.tests().items()},
            "floor": {
                split: {name: one.summary() for name, one in found.items()} for split, found in self.floor.items()
            },
            "features": {name: [asdict(row) for row in one.features] for name, one in self.tests().items()},
            "omitted_features": self.omitted,
            "shots": None if self.shots is None else asdict(self.shots),
            "shots_omitted": self.unmatched,
            "chamfer": self.chamfer,
        }

    def tests(self) -> dict[str, TwoSample]:
        """Tests by name: 'shape', and 'everything' if intensities are known."""
        return {"shape": self.shape} | ({"everything": self.everything} if self.everything else {})


def compare(
    real: Clouds, simulated: Clouds, options: Options | None = None, advance: Callable[[], None] = lambda: None
) -> Realism:
    """Compare two sets of frames: files, folders, bags, captures, or iterables of clouds in the sensor's frame."""
    how = options or Options()
    clouds = tuple(
        _clouds(one, name, how, topic)
        for one, name, topic in zip((real, simulated), ("real", "simulated"), how.topics, strict=True)
    )
    frames = tuple([frame_of(cloud, name) for name, cloud in found] for found in clouds)
    advance()
    sets = (frames[0], frames[1])
    steps = {name: range_step(one) for name, one in zip(("real", "simulated"), sets, strict=True)}
    resolution = max(RESOLUTION_M, steps["real"]) if how.resolution_m is None else how.resolution_m
    samples = samples_of(sets, resolution, how.seed, how.most_points)
    advance()
    columns = common_features(*samples, intensity=False)
    if not columns:
        raise ConfigError("two-sample test: the sets have no feature in common")
    with_intensity = common_features(*samples, intensity=True)
    shape = two_sample(*samples, columns, how.seed)
    everything = two_sample(*samples, with_intensity, how.seed) if len(with_intensity) > len(columns) else None
    advance()
    other = None
    if how.also_real is not None:
        other = [frame_of(cloud, name) for name, cloud in _clouds(how.also_real, "other real", how, how.topics[0])]
    floor = _floor(sets[0], other, resolution, how, intensity=everything is not None)
    advance()
    shots, reason, distance = _by_shots(clouds, sets, how)
    advance()
    from parhelion.evaluate.realism.features import FEATURES

    return Realism(
        {name: len(one) for name, one in zip(("real", "simulated"), sets, strict=True)},
        {name: sum(map(len, one)) for name, one in zip(("real", "simulated"), sets, strict=True)},
        {name: one[0].rings_from for name, one in zip(("real", "simulated"), sets, strict=True)},
        steps,
        resolution,
        shape,
        everything,
        floor,
        [one.name for k, one in enumerate(FEATURES) if k not in with_intensity],
        shots,
        reason,
        distance,
        samples,
        sets,
    )


STEPS = 5
"""Number of calls of `advance`."""


def _clouds(source: Clouds, name: str, how: Options, topic: str | None) -> list[tuple[str, PointCloud]]:
    """Frames of a set with their names, sampled evenly."""
    from parhelion.io.recordings import clouds_of

    if isinstance(source, (str, PathLike)):
        found = [
            (f"{Path(label).name} ({number})", cloud)
            for number, (label, cloud) in enumerate(clouds_of(source, topic=topic, sensor=how.sensor, keep_lost=True))
        ]
        where = str(source)
    else:
        found = [(f"{name} {number}", cloud) for number, cloud in enumerate(source)]
        where = f"{name} set"
    if not found:
        raise ConfigError(f"{where}: has no frames")
    # The first and last frame of a capture may be partial; they are dropped if complete frames exist.
    most = max(len(cloud) for _, cloud in found)
    whole = [one for one in found if len(one[1]) > 0.5 * most]
    chosen = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), how.most_frames)).astype(int))
    return [whole[k] for k in chosen]


def _floor(
    real: Sequence[Frame], other: Sequence[Frame] | None, resolution: float, how: Options, *, intensity: bool
) -> dict[str, dict[str, TwoSample]]:
    """Real against real: alternate frames, the first against the second half, and another recording."""
    half = len(real) // 2
    splits = {"alternate frames": (real[::2][:half], real[1::2][:half])} if half else {}
    if half > 1:
        splits["halves"] = (real[:half], real[-half:])
    if other:
        splits["another recording"] = (real, other)
    found: dict[str, dict[str, TwoSample]] = {}
    for name, pair in splits.items():
        samples = samples_of(pair, resolution, how.seed, how.most_points)
        shape, every = (common_features(*samples, intensity=with_it) for with_it in (False, True))
        found[name] = {"shape": two_sample(*samples, shape, how.seed, explain=False)}
        if intensity and len(every) > len(shape):
            found[name]["everything"] = two_sample(*samples, every, how.seed, explain=False)
    return found


def _by_shots(
    clouds: Sequence[Sequence[tuple[str, PointCloud]]], sets: tuple[list[Frame], list[Frame]], how: Options
) -> tuple[ShotMeasures | None, str, dict[str, float] | None]:
    """Measures of corresponding shots, the reason if there are none, and distances of the points."""
    if not how.paired:
        return None, "the frames do not correspond (--unpaired)", None
    if len(sets[0]) != len(sets[1]):
        return None, f"{len(sets[0])} real and {len(sets[1])} simulated frames do not correspond", None
    each = [chamfer_of(a, b) for a, b in zip(*sets, strict=True)]
    distance = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    pairs = [pair_of(a, b, frames) for (_, a), (_, b), frames in zip(*clouds, zip(*sets, strict=True), strict=True)]
    known = [one for one in pairs if one is not None]
    if not known:
        return None, "the shots of both sets have no common numbers and no common rings", distance
    same = [one for one in known if one.same_view]
    if len(same) < len(pairs):
        return None, f"{len(pairs) - len(same)} of {len(pairs)} pairs of frames do not show the same view", distance
    return measures(same), "", distance
