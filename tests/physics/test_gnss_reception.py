"""Reception of GNSS signals in towns: diffuse scattering, skyline, foliage, bodies, RTK, and recordings."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import parhelion as ph
from chance import LIKELY, deviations
from gnss_rigs import canyon, plain, sheet
from parhelion.core.errors import ConfigError
from parhelion.core.streams import DIFFERENTIAL, REFLECTED, RTK_FIXED, RTK_FLOAT, SINGLE, GnssData
from parhelion.io.gnss import sentences
from parhelion.sensors.check import same_bits
from parhelion.sensors.waves.diffraction import knife_edge_loss_db
from parhelion.sensors.waves.gnss.fix import Fix
from parhelion.sensors.waves.gnss.paths import SCATTERING, DiffusePaths, find_paths
from parhelion.sensors.waves.gnss.reception import code_sigma, foliage_db, gain, receive
from parhelion.sensors.waves.gnss.rtk import _robust, _solve, success_rate
from parhelion.sensors.waves.gnss.satellites import band_of
from parhelion.sensors.waves.gnss.skyline import WIDTH_M, Skyline, skyline_of
from parhelion.sensors.waves.radio import satellite_scene

FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "gnss_real.py"


def figure_module() -> Any:
    """The script that draws recordings against simulation; it reads the recordings."""
    if not FIGURE.exists():
        pytest.skip("docs/figures is not part of this checkout")
    spec = importlib.util.spec_from_file_location("gnss_real", FIGURE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gnss_real"] = module
    spec.loader.exec_module(module)
    if not module.F9K.exists():
        pytest.skip("the recordings of ../shared/data are not available")
    return module


def city_run(seed: int = 2) -> GnssData:
    world = ph.World.load("city")
    assert world.path is not None
    return ph.Gnss("u-blox/f9p", rate_hz=0.5).run(world, world.path, duration=60.0, seed=seed)


# ---- towns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [2, 5])
def test_signals_without_a_direct_path_spread_widely_and_are_tracked(seed: int) -> None:
    # Recorded in towns: 20 dB between the 10th and the 90th percentile.
    found = city_run(seed)
    reflected = found.status == REFLECTED
    tracked = reflected & found.tracked
    low, middle, high = np.percentile(found.cn0[tracked], [10, 50, 90])
    assert 14.0 < high - low < 28.0
    assert 20.0 < middle < 34.0
    assert tracked.sum() > 0.4 * reflected.sum()


def test_low_satellites_are_weak_in_a_town() -> None:
    found = city_run()
    low = found.tracked & (np.degrees(found.elevation) < 10.0) & (found.elevation > 0.0)
    high = found.tracked & (np.degrees(found.elevation) > 60.0)
    assert np.median(found.cn0[high]) - np.median(found.cn0[low]) > 12.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["u-blox/f9p", "u-blox/m8", "generic/survey", "generic/automotive"])
def test_an_antenna_on_a_ground_plane_has_the_pattern_of_a_patch(name: str) -> None:
    # RHCP of a patch is (V + H) / 2: H falls as sin(elevation), V from 1 to 0.75 at the horizon.
    # Choke rings and other ground planes suppress low elevations further, by up to 4 dB (assumed).
    receiver = ph.Gnss(sheet(name, cn0_spread_db=0.0, **({"rtk": None} if name == "generic/survey" else {})))
    found = receiver.run(ph.World(), ph.Fixed(ph.Pose((0, 0, 2))), duration=1.0, seed=1)
    elevation, level = found.elevation.ravel(), found.cn0.ravel() - receiver.config.cn0_zenith_dbhz
    seen = found.tracked.ravel() & (elevation > 0.0)
    assert np.degrees(elevation[seen]).min() < 15.0
    assert np.degrees(elevation[seen]).max() > 70.0
    sine = np.sin(elevation[seen])
    # The estimate of C/N0 scatters by 0.3 dB.
    above = 20.0 * np.log10((1.0 + sine) / 2.0) + deviations(seen.sum()) * 0.3
    below = 20.0 * np.log10((0.75 + sine) / 2.0) - 4.0 - deviations(seen.sum()) * 0.3
    assert np.all(level[seen] < above)
    assert np.all(level[seen] > below)


def test_signals_by_elevation_are_those_of_a_recording() -> None:
    # Predicted: the world is not that of the recording. Fitted: C/N0 at the zenith and its spread.
    real = figure_module()
    recorded = real.recorded_signals()
    expected = real.by_elevation(recorded[:, 0], recorded[:, 1])
    found = real.by_elevation(*real.signals_of(real.simulated(4)))
    assert np.abs(found[:, 2] - expected[:, 2]).max() < 6.0
    # The spread below 15 degrees, from the 10th to the 90th percentile.
    assert np.abs((found[:3, 3] - found[:3, 1]) - (expected[:3, 3] - expected[:3, 1])).max() < 6.0
    assert np.all(found[1:, 0] > 0.9)


def test_noise_of_a_phone_is_that_of_a_log() -> None:
    real = figure_module()
    phone, _ = real.recorded_phone()
    phone = phone[phone[:, 1] > 24.0]
    loops = ph.Gnss("generic/phone-2016").config.loops
    sigma = code_sigma(phone[:, 1], 293.05, loops.spacing_chips, loops.code_bandwidth_hz, loops.dwell_s)
    assert np.exp(np.mean(np.abs(np.log(sigma / phone[:, 2])))) < 1.25


# ---- diffuse scattering ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elevation", [90.0, 40.0])
def test_a_rough_plane_scatters_as_lambert_s_law(elevation: float) -> None:
    # Radiance S^2 W sin(elevation) / pi from all of the lower hemisphere: 2 S^2 sin(elevation) of the direct power.
    angle = np.radians(elevation)
    toward = np.array([[[np.cos(angle), 0.0, np.sin(angle)]]])
    scene = satellite_scene(plain(), ("gnss",))
    found = find_paths(scene, np.array([[0.0, 0.0, 2.0]]), np.zeros(1), toward, np.ones((1, 1), bool), 1, diffuse=True)
    power = float(np.sum(found.diffuse.amplitude**2))
    assert power == pytest.approx(2.0 * SCATTERING**2 * np.sin(angle), rel=0.05)
    assert np.all(found.diffuse.arrival[:, 2] < 0.0)


@pytest.mark.parametrize(("speed", "spread_db"), [(0.0, 5.57), (10.0, 5.57 / np.sqrt(1.0 + 10.0 / 0.09515))])
def test_diffuse_signals_fade_as_rayleigh_s_and_average_in_motion(speed: float, spread_db: float) -> None:
    # The power of a Rayleigh signal has a deviation of 5.57 dB; over N half wavelengths it is 1 / sqrt(N) of it.
    n, rays, draw = 2000, 24, np.random.default_rng(5)
    time = np.repeat(np.arange(n), rays)
    arrival = np.tile([0.6, 0.0, 0.8], (n * rays, 1))
    one = np.zeros(n * rays, np.int64)
    diffuse = DiffusePaths(
        time, one, draw.uniform(0.0, 9.0, n * rays), arrival, np.full(n * rays, 0.02),
        draw.integers(0, 2**32, n * rays),
    )  # fmt: skip
    nothing = find_paths(
        satellite_scene(ph.World(), ("gnss",)), np.zeros((1, 3)), np.zeros(1), np.zeros((1, 0, 3)),
        np.zeros((1, 0), bool), 0,
    )  # fmt: skip
    sight = replace(nothing, diffuse=diffuse, clear=np.zeros((n, 1), bool))
    found = receive(
        sight, np.ones((n, 1), bool), np.tile([0.0, 0.0, 0.0, 1.0], (n, 1)), ph.Gnss("u-blox/f9p").config, "L1",
        band_of("L1", ("G01",)), 7, np.full(n, speed),
    )  # fmt: skip
    assert np.std(found.level_db) == pytest.approx(spread_db, rel=0.1)
    # Only the deepest fades, 40 dB below the zenith, count as blocked.
    assert np.mean(found.status == REFLECTED) > 0.95


# ---- skyline ---------------------------------------------------------------------------------------------------------


def test_the_skyline_blocks_as_rayleigh_heights_do() -> None:
    # ITU-R P.681: a share exp(-h^2 / (2 h_b^2)) of buildings is higher than the line of sight at height h.
    line = Skyline(np.array([-500.0, -500.0]), np.array([500.0, 500.0]), 0.0, 12.0)
    azimuth = np.linspace(0.0, 2.0 * np.pi, 721)[:-1]
    for elevation in (0.5, 1.0, 2.0):
        angle = np.radians(elevation)
        toward = np.stack([np.cos(azimuth), np.sin(azimuth), np.full(720, np.tan(angle))], axis=1) * np.cos(angle)
        place = np.array([[0.0, 0.0, 1.6]])
        blocked = np.mean([line.loss_db(place, toward[None], seed, 0.19)[1].mean() for seed in range(20)])
        distance = 500.0 / np.maximum(np.abs(np.cos(azimuth)), np.abs(np.sin(azimuth)))
        height = 1.6 + distance * np.tan(angle)
        expected = np.mean(np.exp(-(height**2) / (2.0 * 12.0**2)))
        # About 20 seeds of 4000 m / 15 m buildings: a standard error below 0.7 %.
        assert blocked == pytest.approx(expected, abs=0.025)


def test_the_skyline_diffracts_as_a_knife_edge() -> None:
    line = Skyline(np.array([-100.0, -100.0]), np.array([100.0, 100.0]), 0.0, 10.0)
    toward = np.array([[[1.0, 0.0, 0.0]]])
    loss, blocked = line.loss_db(np.array([[0.0, 0.0, 1.6]]), toward, 3, 0.19)
    # Every place on the same building has the same height, so the losses of two antennas determine it.
    lower, _ = line.loss_db(np.array([[0.0, 0.0, 1.1]]), toward, 3, 0.19)
    heights = np.linspace(0.0, 60.0, 60_001)
    fits = np.abs(knife_edge_loss_db(np.maximum((heights - 1.6) * np.sqrt(2.0 / (0.19 * 100.0)), -0.78)) - loss[0, 0])
    height = heights[np.argmin(fits)]
    assert blocked[0, 0] == (height > 1.6)
    assert lower[0, 0] == pytest.approx(float(knife_edge_loss_db((height - 1.1) * np.sqrt(2.0 / 19.0))), abs=0.05)
    outside, _ = line.loss_db(np.array([[150.0, 0.0, 1.6]]), toward, 3, 0.19)
    assert outside[0, 0] == 0.0
    assert WIDTH_M > 0.0


def test_only_worlds_with_buildings_have_a_skyline() -> None:
    assert skyline_of(plain(), ("gnss",)) is None
    found = skyline_of(canyon(20.0, height=25.0), ("gnss",))
    assert found is not None
    assert found.height_m == pytest.approx(25.0 / np.sqrt(np.pi / 2.0))
    assert found.ground_m == 0.0


# ---- foliage, bodies, antennas ---------------------------------------------------------------------------------------


def test_foliage_saturates() -> None:
    loss = foliage_db(np.array([0.0, 1.0, 10.0, 100.0]), 1_575.42e6, 30.0)
    assert loss == pytest.approx([0.0, 1.75, 9.31, 16.56], abs=0.02)


@pytest.mark.slow
def test_a_crown_overhead_attenuates_by_its_length_of_path() -> None:
    # A sphere of leaves 10 m above the antenna: the path of a signal inside it is the chord of its direction.
    height, radius = 10.0, 5.0
    tree = ph.World()
    tree.add(ph.shapes.sphere(radius), material="leaf", label="vegetation", pose=ph.Pose((0, 0, 2.0 + height)))
    receiver = ph.Gnss("u-blox/f9p", rate_hz=1.0, noise=False)
    free, shaded = (
        receiver.run(world, ph.Fixed(ph.Pose((0, 0, 2))), duration=1.0, seed=1) for world in (ph.World(), tree)
    )
    off = height * np.cos(free.elevation[0])  # distance of the line from the middle of the crown
    chord = 2.0 * np.sqrt(np.maximum(radius**2 - off**2, 0.0))
    below = (chord > 2.0) & (free.elevation[0] > 0.0) & shaded.tracked[0]
    assert below.sum() >= 2
    loss = (free.cn0 - shaded.cn0)[0][below]
    expected = foliage_db(chord[below], 1575.42e6, np.degrees(free.elevation[0][below]))
    # Branches scatter the loss from place to place by 30 % if random; the facets of the sphere shorten chords by 5 %.
    assert loss == pytest.approx(expected, rel=0.1, abs=0.5)


def test_a_body_shadows_the_half_space_behind_the_phone() -> None:
    antenna = ph.Gnss("generic/phone").config.antenna
    assert antenna.body is not None
    direction = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    right, _ = gain(antenna, direction)
    free, _ = gain(antenna.model_copy(update={"body": None}), direction)
    assert 20 * np.log10(free / right) == pytest.approx([0.0, antenna.body.loss_db, 0.0, 0.0], abs=1e-9)


def test_antennas_have_as_many_gains_as_elevations() -> None:
    with pytest.raises(ValueError, match="one value per elevation_deg"):
        sheet("u-blox/m8", antenna={"rhcp_db": [0.0, -5.0]})
    with pytest.raises(ValueError, match="must decrease from 90 to -90"):
        sheet("u-blox/m8", antenna={"elevation_deg": [90.0, 0.0, 10.0], "rhcp_db": [0.0] * 3, "lhcp_db": [0.0] * 3})


def test_the_heading_of_a_phone_matters() -> None:
    north, south = (
        ph.Gnss("generic/phone", noise=False, order=0).run(
            ph.World(), ph.Fixed(ph.Pose((0, 0, 1.5), rpy_deg=(0, 0, yaw))), duration=1.0
        )
        for yaw in (0.0, 180.0)
    )
    both = north.tracked & south.tracked
    assert np.abs(north.cn0 - south.cn0)[both].max() > 4.0


# ---- real-time kinematics --------------------------------------------------------------------------------------------


def test_rtk_is_fixed_to_centimetres_under_open_sky() -> None:
    receiver = ph.Gnss("u-blox/f9p", rate_hz=1.0, rtk_baseline_km=5.0)
    found = receiver.run(plain(), ph.ConstantTwist(ph.Pose((0, 0, 2)), velocity=(3.0, 1.0, 0.0)), duration=20.0, seed=3)
    assert found.quality is not None
    assert (found.quality == RTK_FIXED).all()
    # The data sheet: 0.01 m + 1 ppm CEP, 15 mm at 5 km.
    assert np.median(np.linalg.norm(found.error[:, :2], axis=1)) < 0.015
    assert ",4," in next(iter(sentences(found)))


def test_rtk_is_lost_and_found_in_a_narrow_street() -> None:
    receiver = ph.Gnss("u-blox/f9p", rate_hz=0.5, rtk_baseline_km=5.0)
    drive = ph.ConstantTwist(ph.Pose((-20, -3, 1.6)), velocity=(0.3, 0.0, 0.0))
    found = receiver.run(canyon(15.0), drive, duration=120.0, seed=2)
    assert found.quality is not None
    counts = {int(quality): int(np.sum(found.quality == quality)) for quality in np.unique(found.quality)}
    assert counts.get(RTK_FLOAT, 0) > 10
    assert counts.get(RTK_FIXED, 0) > 3
    error = np.linalg.norm(found.error, axis=1)
    floating, fixed = found.quality == RTK_FLOAT, found.quality == RTK_FIXED
    assert np.median(error[floating]) > 4.0 * np.median(error[fixed])


def test_ambiguities_are_not_resolved_far_from_the_base_station() -> None:
    receiver = ph.Gnss("u-blox/f9p", rate_hz=1.0, rtk_baseline_km=80.0)
    found = receiver.run(plain(), ph.Fixed(ph.Pose((0, 0, 2))), duration=3.0, seed=3)
    assert found.quality is not None
    assert (found.quality == RTK_FLOAT).all()
    assert np.linalg.norm(found.error, axis=1).max() < 2.0


def test_split_rtk_runs_give_the_same_bits() -> None:
    receiver = ph.Gnss("u-blox/f9p", rate_hz=1.0, rtk_baseline_km=5.0)
    drive, world = ph.ConstantTwist(ph.Pose((-20, -3, 1.6)), velocity=(0.5, 0.0, 0.0)), canyon(14.0)
    whole = receiver.run(world, drive, start=20.0, duration=6.0, seed=4)
    for k in range(2):
        part = receiver.run(world, drive, start=20.0 + 3 * k, duration=3.0, seed=4)
        assert same_bits(whole.select(slice(3 * k, 3 * k + 3)), part)


def test_receivers_without_rtk_say_which_have_it() -> None:
    with pytest.raises(ConfigError, match=r"rtk_baseline_km: u-blox/m8 has no RTK; use one of .*u-blox/f9p"):
        ph.Gnss("u-blox/m8", rtk_baseline_km=5.0)
    with pytest.raises(ConfigError, match="rtk_baseline_km: must be from 0 to 1000 km"):
        ph.Gnss("u-blox/f9p", rtk_baseline_km=-1.0)
    found = ph.Gnss("u-blox/m8").run(plain(), ph.Fixed(ph.Pose((0, 0, 2))), duration=0.2)
    assert found.quality is not None
    assert found.quality.tolist() == [SINGLE]


def test_only_modern_satellites_have_a_second_band() -> None:
    names = ("G01", "G02", "G05", "E01", "R01", "C20")
    assert np.isfinite(band_of("L1", names).frequency_hz).all()
    assert np.isfinite(band_of("L2", names).frequency_hz).tolist() == [True, False, True, True, True, True]
    assert np.isfinite(band_of("L5", names).frequency_hz).tolist() == [True, False, False, True, False, True]
    assert not np.isfinite(band_of("L2", names, ["beidou"]).frequency_hz[-1])


def test_fixes_become_likelier_with_satellites_locked_in_both_bands() -> None:
    # Recorded: 15 % with 6 to 9 satellites, 97 % with 16 to 17.
    config = ph.Gnss("u-blox/f9p").config
    assert config.rtk is not None
    shares = []
    for count in (6.0, 11.5, 17.0):
        # The need of the receiver is moved, so that the sky of the test stands for another number of satellites.
        open_sky = ph.Gnss("u-blox/f9p", rate_hz=1.0, rtk_baseline_km=1.0)
        base = open_sky.run(plain(), ph.Fixed(ph.Pose((0, 0, 2))), duration=1.0, seed=1)
        assert base.cn0_2 is not None
        both = (base.cn0 > 30.0) & (base.cn0_2 > 30.0) & (np.degrees(base.elevation) > 10.0)
        needed = float(both.sum()) - count + config.rtk.satellites_for_fix
        moved = ph.Gnss(
            sheet("u-blox/f9p", rtk={"satellites_for_fix": max(needed, 0.0)}), rate_hz=0.05, rtk_baseline_km=1.0
        )
        found = moved.run(plain(), ph.Fixed(ph.Pose((0, 0, 2))), duration=1200.0, seed=3)
        assert found.quality is not None
        shares.append(np.mean(found.quality == RTK_FIXED))
    assert shares[0] < 0.3
    assert 0.2 < shares[1] < 0.85
    assert shares[2] > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("margin", [-20.0, 20.0])
def test_the_number_of_satellites_that_a_receiver_needs_varies(margin: float) -> None:
    # A sky with `margin` more satellites than the mean need is fixed in the share Phi(margin / spread) of the epochs.
    # The spread is large, so that satellites that rise and set do not matter; about 20 are locked in both bands.
    config = sheet("u-blox/f9p", rtk={"satellites_for_fix": max(20.0 - margin, 0.0), "satellites_spread": 30.0})
    receiver, epochs = ph.Gnss(config, rate_hz=0.04, rtk_baseline_km=1.0), 60
    found = receiver.run(ph.World(), ph.Fixed(ph.Pose((0, 0, 2))), duration=25.0 * epochs, seed=4)
    assert found.quality is not None
    # Epochs 25 s apart, of a need that changes within 10 s, are independent to 8 %.
    mean = 20.0 - config.rtk.satellites_for_fix if config.rtk else 0.0
    low, high = binom.ppf([0.5 * LIKELY, 1.0 - 0.5 * LIKELY], epochs, norm.cdf((mean + np.array([-6.0, 6.0])) / 30.0))
    assert low <= np.sum(found.quality == RTK_FIXED) <= high
    assert low > 0
    assert high < epochs


@pytest.mark.slow
def test_carriers_with_noise_of_half_a_cycle_stay_unresolved() -> None:
    # 10 cm of carrier noise against wavelengths of 19 and 24 cm: no ambiguity can be resolved, although all residuals
    # are consistent.
    receiver = ph.Gnss(sheet("u-blox/f9p", rtk={"sigma_m": 0.1}), rate_hz=1.0, rtk_baseline_km=1.0)
    found = receiver.run(ph.World(), ph.Fixed(ph.Pose((0, 0, 2))), duration=5.0, seed=3)
    assert found.quality is not None
    assert (found.quality == RTK_FLOAT).all()


@pytest.mark.slow
def test_carriers_smooth_the_code_of_a_float_solution() -> None:
    # Ten seconds of smoothing average the code over ten independent errors: 1 / sqrt(10) of those of single epochs.
    error = {}
    for name, threshold in (("float", 30.0), ("differential", 60.0)):
        rtk = {"distance_ppm": 0.0, "max_baseline_km": 0.5, "phase_threshold_dbhz": threshold}
        receiver = ph.Gnss(sheet("u-blox/f9p", rtk=rtk), rate_hz=0.2, rtk_baseline_km=1.0)
        run = receiver.run(ph.World(), ph.Fixed(ph.Pose((0, 0, 2))), duration=100.0, seed=3)
        assert run.quality is not None
        assert (run.quality == (RTK_FLOAT if name == "float" else DIFFERENTIAL)).all()
        error[name] = run.error
    assert error["float"] == pytest.approx(error["differential"] / np.sqrt(10.0), rel=0.02, abs=1e-4)


def test_an_inconsistent_range_is_excluded_by_the_chi_square_test() -> None:
    draw = np.random.default_rng(3)
    toward = draw.normal(size=(12, 3))
    toward[:, 2] = np.abs(toward[:, 2])
    rows = np.concatenate([-toward / np.linalg.norm(toward, axis=1, keepdims=True), np.ones((12, 1))], axis=1)
    error = draw.normal(scale=0.01, size=12)
    error[4] += 1.0
    found = _robust(rows, error, np.full(12, 0.01**2))
    assert found is not None
    assert 4 not in found[2]
    assert len(found[2]) >= 10
    assert np.linalg.norm(found[0]) < 0.1


def test_whole_cycles_of_a_carrier_are_resolved_and_its_fraction_is_not() -> None:
    # A carrier that is wrong by whole wavelengths gives the same fixed solution; by a third of one, it is excluded.
    config, draw = ph.Gnss("u-blox/f9p").config, np.random.default_rng(5)
    assert config.rtk is not None
    toward = draw.normal((0.0, 0.0, 0.5), 1.0, (14, 3))
    toward[:, 2] = np.abs(toward[:, 2])
    toward /= np.linalg.norm(toward, axis=1, keepdims=True)
    wave, strong, noise = np.array([0.190, 0.244]), np.full((1, 14), 48.0), draw.normal(scale=0.003, size=(2, 1, 14))
    seen = SimpleNamespace(elevation=np.full((1, 14), 0.7), toward=toward[None])
    start = Fix(np.zeros(3), 0.0, np.zeros(3), 0.0, np.eye(3), np.ones(4), True, np.arange(14), np.zeros(14))

    def solved(cycles: float) -> Fix:
        wrong = noise.copy()
        wrong[:, 0, 3] += cycles * wave
        wrong[:, 0, 9] -= 2.0 * cycles * wave
        bands = [SimpleNamespace(cn0=strong, code_error=100.0 * noise[0], carrier_error=one) for one in wrong]
        found: Any = SimpleNamespace(seen=seen, bands=bands)
        locked, waves = [np.full(14, True)] * 2, [np.full(14, one) for one in wave]
        return _solve(found, 0, config.fix, config.rtk, start, np.zeros(3), np.zeros(14), waves, 1.0, locked)  # type: ignore[arg-type]

    plain_fix, whole, third = solved(0.0), solved(3.0), solved(1.0 / 3.0)
    assert (plain_fix.quality, whole.quality) == (RTK_FIXED, RTK_FIXED)
    np.testing.assert_allclose(whole.xyz, plain_fix.xyz, atol=1e-9)
    assert np.linalg.norm(plain_fix.xyz) < 0.01
    assert not {3, 9} & set(third.used.tolist())


def test_success_rate_of_one_ambiguity() -> None:
    # One double difference with a known position: its deviation is sqrt(2) 0.02 m / 0.19 m, and P = 2 Phi(1 / 2 s) - 1.
    toward = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    found = success_rate([toward], np.zeros((3, 3)), [np.full(2, 0.02**2)], [np.full(2, 0.19)])
    assert found == pytest.approx(0.99921, abs=1e-4)


# ---- bits ------------------------------------------------------------------------------------------------------------


def test_gaps_have_the_same_bits_in_split_runs() -> None:
    world, receiver = canyon(12.0), ph.Gnss("u-blox/f9p", rate_hz=5.0)
    drive = ph.ConstantTwist(ph.Pose((-20, -3, 1.6)), velocity=(2.0, 0.0, 0.0))
    whole = receiver.run(world, drive, duration=1.4, seed=4)
    for name in ("doppler", "doppler_2", "carrier", "pseudorange", "cn0"):
        values = getattr(whole, name)
        bits = values[np.isnan(values)].view(np.uint64)
        assert len(bits) > 0
        assert np.all(bits == np.float64(np.nan).view(np.uint64))
    parts = [receiver.run(world, drive, start=0.2 * k, duration=0.2, seed=4) for k in range(7)]
    assert all(same_bits(whole.select(slice(k, k + 1)), part) for k, part in enumerate(parts))


def test_messages_state_the_solution() -> None:
    import struct

    from parhelion.io.gnss import messages
    from parhelion.io.ros.messages import nav_sat_fix

    fixed, single = (
        ph.Gnss("u-blox/f9p", rate_hz=1.0, rtk_baseline_km=baseline).run(
            plain(), ph.Fixed(ph.Pose((0, 0, 2))), duration=1.0, seed=3
        )
        for baseline in (5.0, None)
    )
    # NAV-PVT: flags are byte 21 of the payload, after 6 bytes of frame; fixed carriers and corrections.
    assert [next(messages(one))[6 + 21] for one in (fixed, single)] == [0x83, 0x01]
    # CDR: 4 bytes of header, stamp of 8, frame of 4 + 2 (padded to 20), then the status.
    raw = nav_sat_fix(0, "g", 1.0, 2.0, 3.0, fix=True, service=1, covariance_enu=np.eye(3), corrected=True)
    assert struct.unpack_from("<b", raw, 4 + 8 + 4 + 2)[0] == 2


def test_long_runs_are_measured_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.sensors.waves.gnss import gnss as module

    receiver = ph.Gnss("u-blox/f9p", rate_hz=1.0, rtk_baseline_km=5.0)
    drive, world = ph.ConstantTwist(ph.Pose((-20, -3, 1.6)), velocity=(0.5, 0.0, 0.0)), canyon(14.0)
    whole = receiver.run(world, drive, duration=7.0, seed=4)
    monkeypatch.setattr(module, "BLOCK", 3)
    assert same_bits(receiver.run(world, drive, duration=7.0, seed=4), whole)
