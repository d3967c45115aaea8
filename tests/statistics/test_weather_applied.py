"""Weather applied to a clear scan against a scan in the same weather, for every lidar preset, by range band.

McNemar's test: of the shots that return a surface in only one of the two, each side has half. With received power, in
front of boards, one percent of the points is allowed in addition to the statistical error, for shots at edges. With
intensity alone, the power within one step is unknown, as are second surfaces of a shot: in the city, where both spread
widely, six percent are allowed.
"""

from __future__ import annotations

import lzma
import struct
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

import parhelion as ph
from chance import deviations
from parhelion.makers.scales import scale_called
from rigs import many_beams, wall

KITTI = Path(__file__).parents[3] / "shared/data/kitti0005_hdl64_pose/lidar"
WEATHERS = {
    "rain": ph.Weather(rain_rate_mm_h=25),
    "fog": ph.Weather(visibility_m=200),
    "snow": ph.Weather(snow_rate_mm_h=2),
}
FRACTIONS = (0.04, 0.08, 0.14, 0.2, 0.28, 0.36, 0.45, 0.55, 0.66, 0.78, 0.9, 1.0)
"""Distances of the boards over the longest range of a board of 50 %."""
COMPARISONS = 30 * 3 * 8
"""Presets, weathers and bands, which share the chance of a failure."""
FEWEST = 300


def boards(farthest_m: float) -> ph.World:
    """Boards of 50 and 10 % around the sensor, each filling a sector of 30 degrees."""
    world = ph.World("boards")
    for k, fraction in enumerate(FRACTIONS):
        at = max(fraction * farthest_m, 1.5)
        pose = ph.Pose(rpy_deg=(0, 0, 30.0 * k)) @ ph.Pose((at + 0.05, 0, 0))
        board = ph.shapes.box(0.1, 2.0 * at * np.tan(np.radians(14.5)), 4.0 * at)
        world.add(board, material=("lambert-50", "lambert-10")[k % 2], label="board", pose=pose)
    return world


def returned(scan: ph.PointCloud, low: float, high: float, shots: int) -> NDArray[np.bool_]:
    """Shots that return a surface between two ranges."""
    found = np.zeros(shots, bool)
    found[scan.shot[(scan.origin == 0) & (scan.range >= low) & (scan.range < high)]] = True
    return found


def compare(
    lidar: ph.Lidar,
    world: ph.World,
    pose: ph.Pose,
    edges: NDArray[np.float64],
    *,
    without: tuple[str, ...],
    allowed: float,
) -> None:
    """Compare a scan in each weather with the clear scan, less some fields, to which the weather is applied."""
    world.weather = None
    clear = lidar.scan(world, pose=pose, seed=1)
    fields = {name: values for name, values in clear.fields.items() if name not in without}
    recorded = ph.Scan(
        clear.xyz, fields, clear.frame, clear.names, clear.metadata, shots=clear.shots, motion=clear.motion,
        start_time=clear.start_time,
    )  # fmt: skip
    shots, most = len(clear.shots), deviations(COMPARISONS)
    for name, weather in WEATHERS.items():
        world.weather = weather
        direct = lidar.scan(world, pose=pose, seed=2)
        applied = weather.apply(recorded, sensor=lidar, seed=3, pose=pose)
        for low, high in pairwise(edges):
            count = int(returned(clear, low, high, shots).sum())
            if count < FEWEST:
                continue
            here, there = returned(applied, low, high, shots), returned(direct, low, high, shots)
            gained, lost = int(np.sum(here & ~there)), int(np.sum(there & ~here))
            bound = most * np.sqrt(gained + lost + 1) + allowed * count
            assert abs(gained - lost) <= bound, f"{name}, {low:.0f} to {high:.0f} m of {count}: +{gained} -{lost}"
        mine, theirs = int(np.sum(applied.origin > 0)), int(np.sum(direct.origin > 0))
        assert abs(mine - theirs) <= most * np.sqrt(mine + theirs + 1) + allowed * theirs, (name, mine, theirs)


@pytest.mark.parametrize("preset", ph.presets("lidar"))
def test_applied_weather_equals_a_scan_in_weather(preset: str) -> None:
    lidar = ph.Lidar(preset)
    farthest = lidar.max_range(0.5)
    edges = np.array([0.0, 0.11, 0.24, 0.4, 0.6, 0.84, 2.0]) * farthest
    # Sensors with a narrow field of view look at the boards that weather matters for.
    pose = ph.Pose(rpy_deg=(0, 0, 0 if lidar.config.pattern.kind == "spinning" else 180))
    compare(lidar, boards(farthest), pose, edges, without=(), allowed=0.01)


@pytest.mark.parametrize(
    "preset", ["velodyne/vlp-16", "velodyne/hdl-32e", "velodyne/vlp-32c", "robosense/rs-16", "livox/avia"]
)
def test_applied_weather_equals_a_scan_by_intensity_alone(preset: str) -> None:
    lidar = ph.Lidar(preset)
    assert scale_called(lidar.config.intensity.scale).typical_reflectance is None
    world, edges = ph.World.load("city"), np.array([0.0, 15.0, 30.0, 50.0, 120.0])
    compare(lidar, world, world.viewpoint, edges, without=("power", "reflectivity"), allowed=0.06)


@pytest.mark.parametrize("preset", ["velodyne/hdl-32e", "hesai/pandar64", "livox/avia"])
@pytest.mark.parametrize("returns", ["dual", "all"])
def test_no_particle_is_drawn_behind_the_surfaces_of_several_returns(
    preset: str, returns: Literal["dual", "all"]
) -> None:
    """In the city, some shots have two returns; the others have an unused row."""
    lidar, world = ph.Lidar(preset, returns=returns), ph.World.load("city")
    clear = lidar.scan(world, seed=1)
    assert clear.return_count.max() > 1
    world.weather = WEATHERS["snow"]
    direct = lidar.scan(world, seed=2)
    applied = world.weather.apply(clear, sensor=lidar, seed=3)
    mine, theirs = int(np.sum(applied.origin > 0)), int(np.sum(direct.origin > 0))
    # Beams that meet several surfaces, of which not all were recorded, see flakes between them: six percent.
    assert abs(mine - theirs) <= deviations(6) * np.sqrt(mine + theirs) + 0.06 * theirs, (mine, theirs)
    farthest = np.zeros(len(clear.shots))
    np.maximum.at(farthest, clear.shot, clear.range)
    flakes = applied.shot[applied.origin > 0]
    behind = (farthest[flakes] > 0) & (applied.range[applied.origin > 0] > farthest[flakes] + 0.5)
    assert not behind.any()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_weak_points_survive_with_the_probability_given_that_they_were_detected(share: float) -> None:
    """A wall of which a `share` of the shots returns: fog that attenuates by q leaves P(q p) / P(p) of the points.

    Detection without this condition would leave P(q p) of them, and a decision by power alone all or none.
    """
    beams, distance, threshold_to_noise = 20_000, 60.0, 6.0
    # Power at which noise of one sixth of the threshold lets this share pass.
    power = 1.0 + norm.ppf(share) / threshold_to_noise
    reflectance = 0.5
    rated = [{"reflectance": reflectance, "range_m": distance * np.sqrt(power)}]
    limits = {"min_m": 0.5, "max_m": 300.0, "rated": rated}
    lidar = ph.Lidar(many_beams(beams, range=limits))
    clear = lidar.scan(wall(distance), pose=ph.Pose(), seed=1)
    assert len(clear) / beams == pytest.approx(share, abs=deviations(6) * np.sqrt(share * (1 - share) / beams) + 0.01)
    fog = ph.Weather(visibility_m=7000.0)
    applied = fog.apply(clear, sensor=lidar, seed=2)
    kept = int(np.sum(applied.origin == 0)) / len(clear)
    quiet, near = ph.Lidar(many_beams(1, range=limits), noise=False), wall(0.5 * distance)
    through = quiet.scan(near, pose=ph.Pose()).power[0]
    near.weather = fog
    # Twice the distance squares the attenuation.
    dimmed = power * (quiet.scan(near, pose=ph.Pose()).power[0] / through) ** 2
    assert 0.9 < dimmed / power < 0.97
    expected = norm.cdf((dimmed - 1.0) * threshold_to_noise) / share
    assert kept == pytest.approx(expected, abs=deviations(6) * np.sqrt(expected * (1 - expected) / len(clear)) + 0.01)


@pytest.mark.skipif(not KITTI.is_dir(), reason=f"needs the recording {KITTI}")
def test_drizzle_of_no_amount_leaves_a_recording_as_it_is() -> None:
    """KITTI's intensities are hundredths of full scale, which are not steps of the sensor's byte."""
    file = sorted(KITTI.glob("*.dz"))[0].read_bytes()
    count, scale = struct.unpack("<4sII", file[:12])[1:]
    data = lzma.decompress(file[12:])
    planes = np.frombuffer(data, np.uint8, 12 * count).reshape(3, 4, count).transpose(0, 2, 1)
    millimetres = np.ascontiguousarray(planes).view("<i4")[:, :, 0].astype(np.int64).cumsum(axis=1).T
    intensity = np.frombuffer(data, "<u2", count, 12 * count) / np.float32(scale)
    cloud = ph.PointCloud((millimetres / 1000.0).astype(np.float32), {"intensity": intensity.astype(np.float32)})
    wet = ph.Weather(rain_rate_mm_h=1e-6).apply(cloud, sensor="velodyne/hdl-64e", seed=1)
    # A point at the threshold is lost with a probability of about 1e-5 times its share of the density of powers there:
    # less than one of 122 942 points is expected, and four have a probability below 1e-4.
    assert len(cloud) - len(wet) <= 3
    before, after = (rows(one) for one in (cloud, wet))
    assert np.isin(after, before).all()


def rows(cloud: ph.PointCloud) -> np.ndarray:
    """Coordinates and intensity of each point as one value, for comparison to the bit."""
    table = np.ascontiguousarray(np.column_stack([cloud.xyz, cloud.intensity]).astype(np.float32))
    return table.view(f"V{table.itemsize * table.shape[1]}")[:, 0]
