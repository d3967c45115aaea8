"""Sampling of profiles in scans: the round trip from truth to truth, and sheets without a profile."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import parhelion as ph
from calibrate_rigs import changed_sheet, sheet_of
from chance import LIKELY
from parhelion.calibrate.boards.example import SETUPS, TRUTHS, make_shots
from parhelion.calibrate.boards.find import find_boards
from parhelion.calibrate.boards.profile import MaterialShots, fit_profile, shots_at
from parhelion.calibrate.boards.report import mean_and_sigma, simulate_board
from parhelion.sensors.optics.lidar.config import MaterialProfile
from parhelion.sensors.optics.lidar.profiles import UncalibratedMaterialWarning

RPLIDAR, VLP = "slamtec/rplidar-a1", "velodyne/vlp-16"
CONFIDENCE = 2.576
"""Half width of a 99 % interval in standard errors."""


def off_truth(sensor: str, name: str, shots: MaterialShots, recorded: MaterialProfile) -> np.ndarray:
    """Deviations of drop rate, mean intensity and range noise from the truth, in standard errors, per angle bin.

    Recording and simulation both have sampling errors. The last angle bin is excluded: the board ends within it.
    """
    truth = TRUTHS[sensor][name]
    profile = fit_profile(shots, gaps=False)[0]
    mean, _ = mean_and_sigma(profile)
    bins = np.clip((shots.angle_deg // 5.0).astype(int), 0, 17)
    found = []
    both = np.flatnonzero((np.asarray(profile.shots) > 200) & (np.asarray(recorded.shots) > 200))
    for k in both[:-1]:
        angle = shots.angle_deg[bins == k]
        n = 1.0 / (1.0 / profile.shots[k] + 1.0 / recorded.shots[k])
        rate = float(truth.drop_at(angle).mean())
        found.append((profile.drop[k] - rate) / np.sqrt(rate * (1.0 - rate) / n))
        returns = n * (1.0 - rate)
        spread = mean_and_sigma(recorded)[1][k]
        # Cells are integers wide: the mean may be off by half a width, uniformly distributed.
        step = 0.0 if profile.kind == "values" else 0.29 * (profile.intensity[1] - profile.intensity[0])
        found.append((mean[k] - float(truth.mean_at(angle).mean())) / np.hypot(spread / np.sqrt(returns), step))
        sigma = float(np.sqrt(np.mean(truth.sigma_at(angle) ** 2)))
        # Both planes were fitted, and the board is warped by 2 mm, which is not noise.
        found.append((profile.range_sigma_m[k] - sigma) / np.hypot(sigma / np.sqrt(2.0 * returns), 2e-4))
    return np.array(found)


def assert_intensities_are_the_truth_s(sensor: str, name: str, shots: MaterialShots, recorded: MaterialProfile) -> None:
    """Kolmogorov-Smirnov test per material, corrected for five: simulated intensities against new draws.

    The simulation samples the recording and therefore includes its sampling errors. Intensities are integers, which
    makes the test conservative.
    """
    truth = TRUTHS[sensor][name]
    seen = ~np.isnan(shots.intensity)
    angle, level = shots.angle_deg[seen], shots.intensity[seen]
    fresh = np.concatenate([truth.draw(angle, np.random.default_rng(seed)) for seed in range(10)])
    returns = sum(n * (1.0 - drop) for n, drop in zip(recorded.shots, recorded.drop, strict=True))
    worth = 1.0 / (1.0 / len(level) + 1.0 / returns + 1.0 / len(fresh))
    if recorded.kind == "cells":
        # Cells of one count are filled uniformly, and rounding is that of the sensor.
        level, fresh = np.floor(level + 0.5), np.floor(fresh + 0.5)
    apart = stats.ks_2samp(level, fresh).statistic
    assert stats.kstwobign.sf(apart * np.sqrt(worth)) > LIKELY / len(TRUTHS[sensor]), f"{name}: {apart:.4f}"


@pytest.mark.parametrize("sensor", [RPLIDAR, VLP])
def test_truth_recording_calibration_simulation_calibration_is_the_truth(sensor: str) -> None:
    """95 % of some 150 numbers within their 99 % interval: fewer by chance once in 10 000 runs."""
    setup = SETUPS[sensor]
    off, profiles = [], {}
    for number, (name, truth) in enumerate(TRUTHS[sensor].items()):
        shots = make_shots(truth, setup, sensor, seed=20 + number)
        profiles[name] = fit_profile(shots_at(find_boards(shots)[0], shots), gaps=False)[0]
    sheet = sheet_of(sensor, profiles)
    for name, recorded in profiles.items():
        again = simulate_board(sheet, name, setup.distance_m, width_m=setup.width_m, seed=5, shots=15_000)
        off.append(off_truth(sensor, name, again, recorded))
        assert_intensities_are_the_truth_s(sensor, name, again, recorded)
    every = np.concatenate(off)
    assert len(every) > 100
    inside = np.mean(np.abs(every) < CONFIDENCE)
    assert inside >= 0.95, f"{100 * inside:.1f} % of {len(every)}; worst {np.abs(every).max():.1f}"
    if sensor == RPLIDAR:
        assert set(np.unique(again.intensity[~np.isnan(again.intensity)])) <= {0.0, 47.0}


def test_a_sheet_with_a_profile_of_nothing_here_scans_the_same_bytes() -> None:
    """Materials without a profile keep the sensor's default noise if the sheet selects it, with one warning."""
    truth = make_shots(TRUTHS[VLP]["foam"], SETUPS[VLP], VLP, seed=1)
    profile = fit_profile(shots_at(find_boards(truth)[0], truth), gaps=False)[0]
    world = ph.World()
    world.add(ph.shapes.box(1, 6, 4), material="concrete", label="wall", pose=ph.Pose((6.0, 0.0, 0.0)))
    plain = ph.Lidar(changed_sheet(VLP)).scan(world, pose=ph.Pose(), seed=3)
    with_profile = ph.Lidar(sheet_of(VLP, {"foam": profile}, unknown="usual"))
    with pytest.warns(UncalibratedMaterialWarning, match="no calibrated profile of concrete"):
        scan = with_profile.scan(world, pose=ph.Pose(), seed=3)
    assert scan.xyz.tobytes() == plain.xyz.tobytes()
    for name, values in plain.fields.items():
        assert scan.fields[name].tobytes() == values.tobytes(), name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_profile.scan(world, pose=ph.Pose(), seed=4)  # no second warning


def test_profiles_follow_the_seed_and_stop_with_the_noise() -> None:
    truth = make_shots(TRUTHS[VLP]["epoxy"], SETUPS[VLP], VLP, seed=1)
    sheet = sheet_of(VLP, {"epoxy": fit_profile(shots_at(find_boards(truth)[0], truth))[0]})
    world = ph.World()
    world.add(ph.shapes.box(0.1, 4, 2), material="epoxy", label="board", pose=ph.Pose((2.05, 0.0, 0.0)))
    lidar = ph.Lidar(sheet)
    one, again, other = (lidar.scan(world, pose=ph.Pose(), seed=seed) for seed in (1, 1, 2))
    assert one.xyz.tobytes() == again.xyz.tobytes()
    assert one.xyz.tobytes() != other.xyz.tobytes()
    still = ph.Lidar(sheet, noise=False).scan(world, pose=ph.Pose(), seed=1)
    plain = ph.Lidar(changed_sheet(VLP), noise=False).scan(world, pose=ph.Pose(), seed=1)
    assert still.xyz.tobytes() == plain.xyz.tobytes()
