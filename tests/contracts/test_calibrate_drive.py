"""Calibration from drives: real recordings against published curves, and simulated ones against the truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from calibrate_rigs import (
    BIAS_M,
    CHANGED,
    changed_sheet,
    misaimed_drive,
    random_drive,
    recording,
    simulated_drive,
    tilted_drive,
)
from chance import deviations
from parhelion import Lidar, Pose, Waypoints, World
from parhelion.calibrate.drive.drive import INTERVAL, DriveCalibration, calibrate_drive
from parhelion.calibrate.range_images import RangeImage, range_image, read_drive
from parhelion.calibrate.sheet import write_sheet
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.captures import write_capture
from parhelion.sensors.optics.lidar.link_budget import overlap_share

MANY = 200
"""Points that a bin needs for the comparison with the published curve."""
PUBLISHED = {
    "os0-32": (
        (1.9, 0.045), (2.1, 0.085), (2.4, 0.14), (2.6, 0.21), (2.9, 0.33), (3.2, 0.46), (3.7, 0.63), (4.2, 0.76),
        (4.7, 0.87), (5.5, 0.93), (6.5, 1.0),
    ),
    "os1-32": (
        (2.4, 0.013), (3.2, 0.019), (3.7, 0.027), (4.2, 0.046), (4.7, 0.078), (5.5, 0.109), (6.5, 0.227), (7.5, 0.348),
        (8.5, 0.423), (9.5, 0.521), (11.0, 0.637), (13.0, 0.76), (15.4, 0.861), (18.4, 0.954), (22.0, 1.0),
    ),
}  # fmt: skip
"""Range [m] and overlap of the two families, measured earlier on more recordings."""
NOISE_CM = {"os0-32": (0.5, 0.5), "os1-32": (0.7, 0.7)}
"""Scatter of neighbours in a row at 20 photons, and above 200."""


def of_recording(name: str) -> DriveCalibration:
    return calibrate_drive(read_drive(recording(name)), Lidar(f"ouster/{name}").config, recording=name)


@pytest.mark.parametrize("name", ["os0-32", "os1-32"])
def test_real_recordings_give_the_published_curve_and_noise(name: str) -> None:
    found = of_recording(name)
    curve = found.overlap
    assert curve is not None
    at, share = np.array(PUBLISHED[name]).T
    inside = (curve.count >= MANY) & (curve.range >= at[0]) & (curve.range <= at[-1])
    assert inside.sum() >= 8
    known = np.exp(np.interp(np.log(curve.range[inside]), np.log(at), np.log(share)))
    np.testing.assert_allclose(curve.share[inside], known, rtol=0.2)
    assert found.noise is not None
    weak, strong = NOISE_CM[name]
    assert 100.0 * found.noise.sigma_m[3] == pytest.approx(weak, rel=0.3)  # 17 to 25 photons
    assert 100.0 * found.noise.sigma_m[-1] == pytest.approx(strong, rel=0.3)
    # The weakest real returns have 5 to 9 photons.
    assert found.threshold is not None
    assert 3.5 < found.threshold.photons < 9.0
    # Fields that one frame does not determine are listed with a reason.
    assert {"receiver.saturation", "beam", "noise.false_alarm_rate_hz"} <= set(found.kept)
    assert not set(found.kept) & set(found.changed)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> DriveCalibration:
    """Calibration from the packets of the changed sensor, so that counts are integers as in real captures."""
    file = tmp_path_factory.mktemp("drive") / "drive.pcap"
    write_capture(simulated_drive(), file)
    return calibrate_drive(read_drive(file), Lidar("ouster/os0-32").config, recording=file.name)


SCALARS = (
    "receiver.threshold_photons",
    "receiver.saturation",
    "noise.range_sigma_m",
    "noise.range_sigma_snr_m",
    "range.rated",
)
"""Fields of a sheet that are one number."""


def inside(found: DriveCalibration, truth: dict[str, Any]) -> tuple[list[bool], ...]:
    """Truth within the 95 % intervals: of numbers, overlap bins, errors and strengths of rings."""
    numbers = []
    for name in SCALARS:
        section, key = name.split(".")
        true, value = truth[section][key], found.changed.get(name)
        if value is not None:
            if name == "range.rated":
                true, value = true[0]["range_m"], value[0]["range_m"]
            numbers.append(abs(value - true) < found.error[name])
    curve, bias = found.overlap, found.bias
    assert curve is not None
    assert bias is not None
    off = np.abs(curve.share - overlap_share(truth["range"]["overlap"], curve.range))
    bins = off < INTERVAL * curve.error
    rows = np.abs(bias.off[::-1] - truth["noise"]["channel_bias_m"]) < INTERVAL * bias.error[::-1]
    strength = truth["receiver"].get("channel_gain", np.ones(len(rows)))
    assert curve.row_error is not None
    rings = np.abs(curve.row_factor[::-1] - strength) < INTERVAL * curve.row_error[::-1]
    return numbers, bins.tolist(), rows.tolist(), rings.tolist()


def fewest(count: int, chance: float = 1e-3) -> int:
    """Smallest number of `count` 95 % intervals that contain the truth, exceeded except with this probability."""
    return int(binom.ppf(chance, count, 0.95))


def test_a_simulated_drive_gives_its_numbers_back(simulated: DriveCalibration) -> None:
    """All five numbers within their 95 % intervals, which are narrow enough to be of use."""
    numbers, bins, rows, rings = inside(simulated, CHANGED)
    assert len(numbers) == 5
    assert all(numbers)
    for name in SCALARS[:4]:
        section, key = name.split(".")
        assert simulated.error[name] < 0.4 * CHANGED[section][key], name
    assert simulated.error["range.rated"] < 2.0
    curve = simulated.overlap
    assert curve is not None
    assert not curve.stepped
    assert np.mean(bins) > 0.8
    assert simulated.error["range.overlap"] < 0.08
    assert np.mean(rows) > 0.8
    # Its rings have equal strengths, so none are written.
    assert all(rings)
    assert "equal within their uncertainty" in simulated.kept["receiver.channel_gain"]


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Coverage of the intervals for three more random sensors, each on its own drive.

    Bins share their plateau and rows their planes, so four of them count as one independent interval.
    """
    every: list[list[bool]] = [[], [], [], []]
    for number in range(3):
        scans, truth = random_drive(number)
        frames = [range_image(scan, f"turn {k}") for k, scan in enumerate(scans)]
        found = calibrate_drive(frames, Lidar("ouster/os0-32").config)
        for kind, held in zip(every, inside(found, truth), strict=True):
            kind += held
    for kind, together in zip(every, (1, 4, 4, 4), strict=True):
        count = len(kind) // together
        assert count >= 14
        assert sum(kind) / together >= fewest(count), f"{sum(kind)} of {len(kind)}"


def test_a_simulated_drive_gives_its_channel_errors_back(simulated: DriveCalibration) -> None:
    bias = simulated.bias
    assert bias is not None
    assert bias.known
    off = (bias.off[::-1] - BIAS_M) / bias.error[::-1]
    assert np.abs(off).max() < 3.5
    steps = (np.diff(bias.off) - np.diff(BIAS_M[::-1])) / bias.step_error
    assert np.abs(steps).max() < 4.5
    # The errors must be small enough to be useful: a dozen neighbours are distinguished to 5 mm.
    assert np.sum(bias.step_error < 0.005) >= 12


def test_the_sheet_is_a_sensor_with_errors_and_sources(simulated: DriveCalibration, tmp_path: Path) -> None:
    file = tmp_path / "my-lidar.yaml"
    write_sheet(simulated.sheet, file)
    lidar = Lidar(file)
    assert lidar.config == simulated.sheet
    assert lidar.config.receiver.threshold_photons == simulated.changed["receiver.threshold_photons"]
    assert lidar.max_range(0.1) == pytest.approx(Lidar("ouster/os0-32").max_range(0.1) * 20.0 / 15.0, rel=0.1)
    section = lidar.config.calibration
    assert section is not None
    assert section.version == 1
    assert section.confidence == 0.95
    assert len(section.constants) == 2  # from the rated range, and from the signal
    assert "range.overlap" in section.error
    assert "range.overlap" in lidar.config.sources[-1].covers
    assert file.stat().st_size < 20_000


def test_a_stationary_drive_is_rejected_unless_declared(tmp_path: Path) -> None:
    preset = Lidar("ouster/os0-32").config
    scan = simulated_drive()[0]
    frames = [range_image(scan, "a"), range_image(scan, "b")]
    with pytest.raises(ConfigError, match="stationary in 2 frames"):
        calibrate_drive(frames, preset, recording="parked.pcap")


def test_repeated_observations_of_a_stationary_sensor_give_its_range_noise() -> None:
    """Four frames from one position; both parameters of the law within their 95 % intervals, which are bounded."""
    lidar = Lidar(changed_sheet("ouster/os0-32", **CHANGED))
    world = World.load("city")
    place = Pose((*world.viewpoint.xyz[:2], 1.4))
    scans = lidar.scan_many(world, [place] * 4, seed=3, frames=list(range(4)))
    frames = [range_image(scan, f"turn {k}") for k, scan in enumerate(scans)]
    found = calibrate_drive(frames, Lidar("ouster/os0-32").config, standing=True)
    for name, most in (("range_sigma_m", 0.05), ("range_sigma_snr_m", 0.5)):
        value, error = found.changed[f"noise.{name}"], found.error[f"noise.{name}"]
        true = CHANGED["noise"][name]
        assert abs(value - true) < error, f"{name}: {value} ± {error:.3g}, true {true}"
        assert error < most * true


def test_recordings_of_other_or_several_sensors_are_refused(tmp_path: Path) -> None:
    scan = simulated_drive()[0]
    other = replace(scan, metadata={**scan.metadata, "sensor": "ouster/os1-64"})
    for number, one in enumerate((scan, other)):
        one.save(tmp_path / f"{number}.npz")
    with pytest.raises(FormatError, match="mixes recordings of several sensors"):
        read_drive(tmp_path)
    with pytest.raises(ConfigError, match="another sensor"):
        calibrate_drive(read_drive(tmp_path / "0.npz"), Lidar("velodyne/vlp-16").config)


def test_clouds_without_lost_shots_report_an_unknown_drop_rate(tmp_path: Path) -> None:
    simulated_drive()[0].save(tmp_path / "0.pcd")
    found = calibrate_drive(read_drive(tmp_path), Lidar("ouster/os0-32").config)
    assert "contains no lost shots" in found.kept["receiver.threshold_photons"]
    assert found.overlap is not None


@pytest.fixture(scope="module")
def misaimed() -> tuple[DriveCalibration, dict[str, Any]]:
    """Unit in a warehouse with unknown beam errors in elevation, azimuth and range at once."""
    random = np.random.default_rng(3)
    off = {
        name: random.normal(0.0, much, 32) for name, much in (("elevation", 0.06), ("azimuth", 0.06), ("bias", 0.01))
    }
    scans = misaimed_drive(off["elevation"], off["azimuth"], off["bias"], world="warehouse")
    frames = [range_image(scan, "misaimed") for scan in scans]
    return calibrate_drive(frames, Lidar("ouster/os0-32").config, recording="misaimed.pcap"), off


def test_beam_errors_of_all_kinds_are_found(misaimed: tuple[DriveCalibration, dict[str, Any]]) -> None:
    """Rows within their 95 % intervals by a binomial bound, four as one; steps between neighbours to 0.02 degrees."""
    found, off = misaimed
    assert found.angles is not None
    assert found.azimuths is not None
    assert found.bias is not None
    held = np.abs(found.bias.off - off["bias"] + off["bias"].mean()) < INTERVAL * found.bias.error
    assert held.sum() / 4 >= fewest(8)
    for name, angles in (("elevation", found.angles), ("azimuth", found.azimuths)):
        true = off[name] - off[name].mean()
        held = np.abs(angles.off - true) < INTERVAL * angles.error
        assert held.sum() / 4 >= fewest(8), f"{name}: {held.sum()} of 32"
        steps = angles.steps_resolved
        assert steps.sum() >= 12
        assert np.median(angles.step_error[steps]) < 0.02
        wrong = np.diff(angles.off - true)[steps] / angles.step_error[steps]
        assert np.abs(wrong).max() < deviations(int(steps.sum()))


def test_both_angles_of_beams_are_in_the_sheet(misaimed: tuple[DriveCalibration, dict[str, Any]]) -> None:
    """Resolved channels are close to the truth; the others keep their angles exactly."""
    found, off = misaimed
    preset, sheet = (one.pattern.channels for one in (found.preset, found.sheet))  # type: ignore[union-attr]
    for name, angles in (("elevation", found.angles), ("azimuth", found.azimuths)):
        assert angles is not None
        resolved, field = angles.resolved, f"{name}_deg"
        before, made = (np.array(getattr(one, field)) for one in (preset, sheet))
        wrong = made - before - off[name]
        assert np.std(wrong[resolved]) < 0.5 * np.std(off[name][resolved])
        np.testing.assert_array_equal(made[~resolved], before[~resolved])
        assert found.error[f"pattern.channels.{field}"] < 0.1


def test_right_beams_stay() -> None:
    frames = [range_image(scan, "straight") for scan in tilted_drive(np.zeros(32), frames=3, world="warehouse")]
    found = calibrate_drive(frames, Lidar("ouster/os0-32").config, recording="straight.pcap")
    assert found.kept["pattern.channels.elevation_deg"] == "inclined planes agree with the preset"
    assert found.kept["pattern.channels.azimuth_deg"] == "oblique walls agree with the preset"
    assert "rows differ by no more" in found.kept["noise.channel_bias_m"]


def test_a_street_without_walls_does_not_separate_range_from_elevation() -> None:
    """On a level road range and elevation errors of a row are degenerate: few rows are resolved."""
    off = np.random.default_rng(3).normal(0.0, 0.06, 32)
    frames = [range_image(scan, "tilted") for scan in tilted_drive(off)]
    found = calibrate_drive(frames, Lidar("ouster/os0-32").config, recording="tilted.pcap")
    assert found.angles is not None
    held = np.abs(found.angles.off - (off - off.mean())) < INTERVAL * found.angles.error
    assert held.sum() / 4 >= fewest(8)
    assert "pattern.channels.azimuth_deg" in found.kept


def test_strengths_of_rings_are_recovered_and_simulated() -> None:
    """To one percent in a hall, where walls show all rings the same ranges; scans with the new sheet reproduce them."""
    strength = np.exp(np.random.default_rng(5).normal(0.0, 0.2, 32))
    strength /= np.exp(np.mean(np.log(strength)))
    world = World.load("warehouse")
    x, y, _ = world.viewpoint.xyz
    poses = [Pose((x + 2.0 * k, y, 1.4)) for k in range(3)]
    lidar = Lidar(changed_sheet("ouster/os1-32", receiver={"channel_gain": strength.tolist()}))
    frames = [range_image(scan, "hall") for scan in lidar.scan_many(world, poses, seed=2, time=[0.0, 0.1, 0.2])]
    found = calibrate_drive(frames, Lidar("ouster/os1-32").config)
    made = np.array(found.sheet.receiver.channel_gain)
    assert found.error["receiver.channel_gain"] < 0.05
    np.testing.assert_allclose(made, strength, rtol=0.02)
    again = Lidar(found.sheet).scan(world, pose=poses[0], seed=9)
    plain = Lidar(changed_sheet("ouster/os1-32")).scan(world, pose=poses[0], seed=9)
    both = np.intersect1d(again.fields["shot"], plain.fields["shot"])
    ratio = [one.fields["intensity"][np.searchsorted(one.fields["shot"], both)] for one in (again, plain)]
    ring = again.shots.ring[both]
    seen = [float(np.median(ratio[0][ring == k] / ratio[1][ring == k])) for k in (8, 16, 24)]
    assert np.array(seen) / seen[0] == pytest.approx(made[[8, 16, 24]] / made[8], rel=0.1)


def test_a_drive_without_reflectivity_gives_the_overlap_from_revisits() -> None:
    """Signal alone, from a sensor that moves during its revolution; fields that need reflectivity are listed."""
    lidar, world = Lidar(changed_sheet("ouster/os0-32", **CHANGED)), World.load("off-road")
    x, y, _ = world.viewpoint.xyz
    way = Waypoints([0.0, 2.0], [Pose((x, y, 1.4)), Pose((x + 14.0, y, 1.4))])
    scans = [lidar.scan(world, trajectory=way, time=0.1 * k, seed=3) for k in range(14)]
    frames = [replace(range_image(scan, "turn"), reflectivity=np.full((32, 1024), np.nan)) for scan in scans]
    found = calibrate_drive(frames, Lidar("ouster/os0-32").config, recording="raw.pcap")
    curve = found.overlap
    assert curve is not None
    points = np.array(found.changed["range.overlap"])
    assert len(points) >= 10
    true = overlap_share(CHANGED["range"]["overlap"], curve.range)
    resolved = curve.error / curve.share < 0.3
    assert np.mean((np.abs(curve.share - true) < INTERVAL * curve.error)[resolved]) > 0.8
    assert found.error["range.overlap"] < 0.5
    for name in ("range.rated", "receiver.channel_gain"):
        assert found.kept[name] == "needs reflectivity in addition to the signal"
    assert found.constant is None
    # A single frame does not determine it.
    alone = calibrate_drive(frames[:1], Lidar("ouster/os0-32").config, recording="raw.pcap")
    assert "4 frames of a moving sensor are needed" in alone.kept["range.overlap"]


def test_a_million_pulses_take_seconds() -> None:
    """Processor time of one more frame of the same drive: at most 10 us per pulse."""
    preset = Lidar("ouster/os0-32").config
    frames = [range_image(scan, f"turn {k}") for k, scan in enumerate(simulated_drive())]
    used = []
    for number in (2, 6):
        start = process_time()
        calibrate_drive(frames[:number], preset)
        used.append(process_time() - start)
    assert used[1] - used[0] < 10e-6 * 4 * frames[0].range.size


def low_byte(frames: list[RangeImage], factor: float) -> list[RangeImage]:
    """Reflectivity as read from early Ouster firmware: the low byte of a 16-bit value proportional to signal R^2."""
    return [
        replace(one, reflectivity=np.where(one.returned, np.floor(factor * one.signal * one.range**2) % 256.0, np.nan))
        for one in frames
    ]


@pytest.mark.parametrize("source", ["simulated", "os0-32", "os1-32"])
def test_an_overlap_fit_is_refused_where_reflectivity_does_not_follow_the_signal(source: str) -> None:
    if source == "simulated":
        frames = [range_image(scan, f"frame {k}") for k, scan in enumerate(simulated_drive(2))]
    else:
        frames = read_drive(recording(source))
    preset = Lidar(f"ouster/{'os0-32' if source == 'simulated' else source}").config
    assert "range.overlap" in calibrate_drive(frames, preset).changed
    found = calibrate_drive(low_byte(frames, 3.0), preset)
    assert found.overlap is None
    for field in ("range.overlap", "range.rated", "receiver.channel_gain"):
        assert field not in found.changed
        assert "reflectivity does not follow the signal" in found.kept[field]
