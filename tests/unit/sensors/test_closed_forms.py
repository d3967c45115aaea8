"""Parts of wave sensors and depth cameras against closed forms, standards and identities."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.special import ndtr
from scipy.stats import f

import parhelion as ph
from parhelion.core.image import Intrinsics
from parhelion.core.streams import DIFFERENTIAL, RTK_FIXED, RTK_FLOAT, SINGLE
from parhelion.sensors.optics.camera import depth
from parhelion.sensors.optics.camera.calibration_files import save_ros
from parhelion.sensors.optics.camera.depth import StereoCalibration
from parhelion.sensors.waves.gnss import earth, fix, rtk
from parhelion.sensors.waves.radar.baseband import oscillator_noise, phase_noise_cube
from parhelion.sensors.waves.radar.cube import Axes, responses_of
from parhelion.sensors.waves.radar.detection import _between, _Levels, mean_chance, training_correlation
from parhelion.sensors.waves.radar.rcs import rcs
from parhelion.sensors.waves.radio import Wave, foliage_loss_db, slab_delay_m, transmit
from parhelion.sensors.waves.uwb import solve, walls
from pins import check, even

# ---- GNSS ------------------------------------------------------------------------------------------------------------


def test_a_carrier_is_locked_after_the_lock_time_itself() -> None:
    strong = np.array([[False, True], [True, True], [True, False], [True, True]])
    times = np.array([0.0, 0.5, 1.0, 1.5])
    assert rtk._locked(strong, times, 1.0).tolist() == [[False, True], [False, True], [True, False], [True, False]]


def corrected(
    code: int = 12,
    carriers: tuple[int, int] = (12, 12),
    locked: tuple[int, int] = (12, 12),
    baseline_km: float = 4.0,
    error_m: float = 0.003,
) -> fix.Fix:
    """Solution with corrections for twelve satellites, so many of which have a code, carriers, and locked carriers."""
    random, config = np.random.default_rng(3), ph.Gnss("u-blox/f9p").config
    assert config.rtk is not None
    azimuth, elevation = random.uniform(0.0, 6.28, 12), np.append(random.uniform(0.3, 1.5, 11), 0.05)
    toward = np.stack(
        [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], axis=1
    )
    number, bands = np.arange(12), []
    for count, wave in zip(carriers, (0.19, 0.244), strict=True):
        cycles = wave * random.integers(-4, 5, 12)
        bands.append(
            SimpleNamespace(
                code_error=np.where(number < code, random.normal(0.0, 0.1, 12), np.nan)[None],
                carrier_error=np.where(number < count, random.normal(0.0, error_m, 12) + cycles, np.nan)[None],
                cn0=np.where(number == 3, 33.0, random.uniform(46.0, 52.0, 12))[None],
            )
        )
    observed: Any = SimpleNamespace(seen=SimpleNamespace(elevation=elevation[None], toward=toward[None]), bands=bands)
    single = fix.Fix(np.zeros(3), 0.0, np.zeros(3), 0.0, np.eye(3), np.ones(4), False, number[:0], np.zeros(0))
    return rtk._solve(
        observed, 0, config.fix, config.rtk, single, np.array([1e6, 2e6, 3e6]), random.normal(0.0, 0.002, 12),
        [np.full(12, 0.19), np.full(12, 0.244)], baseline_km, [number < count for count in locked],
    )  # fmt: skip


def test_solutions_with_corrections() -> None:
    """Single, differential, float and fixed, by what is received; the lowest satellite is below the mask."""
    least = rtk.LEAST_CARRIERS
    cases = {
        "all": ({}, RTK_FIXED), "few codes": ({"code": least - 1}, SINGLE),
        "codes": ({"carriers": (0, 0)}, DIFFERENTIAL), "few": ({"carriers": (least - 1, 12)}, DIFFERENTIAL),
        "one band": ({"carriers": (12, 3), "locked": (12, 3)}, None), "second": ({"carriers": (least, 0)}, None),
        "unlocked": ({"locked": (0, 0)}, RTK_FLOAT), "far": ({"baseline_km": 50.001}, RTK_FLOAT),
        "near": ({"baseline_km": 50.0}, None), "rough": ({"error_m": 0.08}, None),
        "some": ({"locked": (least, least)}, None), "fewer": ({"locked": (least - 1, least - 1)}, RTK_FLOAT),
    }  # fmt: skip
    for name, (how, quality) in cases.items():
        found = corrected(**how)  # type: ignore[arg-type]
        assert quality in (None, found.quality), name
        check(
            f"gnss/solution-{name}", rel=1e-6, xyz=found.xyz - [1e6, 2e6, 3e6], covariance=even(found.covariance),
            used=found.used, residual=even(found.residual), quality=found.quality, consistent=found.consistent,
        )  # fmt: skip
    best, code = corrected(), corrected(carriers=(0, 0))
    assert np.linalg.norm(best.xyz - [1e6, 2e6, 3e6]) < 0.02 < np.linalg.norm(code.xyz - [1e6, 2e6, 3e6])
    assert 11 not in best.used
    assert corrected(locked=(0, 0)).xyz - [1e6, 2e6, 3e6] == pytest.approx(
        0.32 * (code.xyz - [1e6, 2e6, 3e6]), rel=1e-5
    )


def test_rows_of_the_position_equations() -> None:
    toward = np.array([[0.0, 0.6, 0.8], [1.0, 0.0, 0.0]])
    assert rtk._design(toward).tolist() == [[0.0, -0.6, -0.8, 1.0], [-1.0, 0.0, 0.0, 1.0]]


@pytest.mark.parametrize("code_m", [0.0, 0.05])
def test_the_success_rate_of_one_ambiguity_is_that_of_rounding(code_m: float) -> None:
    """Two satellites have one difference. A normal error of sigma cycles rounds well with 2 Phi(1 / (2 sigma)) - 1."""
    toward, wave, variances = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), 0.19, np.array([2e-3, 3e-3])
    sigma = np.sqrt(variances.sum() + 2.0 * code_m**2) / wave  # the lines of sight differ by sqrt(2)
    found = rtk.success_rate([toward], code_m**2 * np.eye(3), [variances], [np.full(2, wave)])
    assert found == pytest.approx(2.0 * ndtr(0.5 / sigma) - 1.0, rel=1e-12)
    assert rtk.success_rate([toward[:1]], np.eye(3), [variances[:1]], [np.full(1, wave)]) == 0.0


def test_niell_s_coefficients_are_constant_beyond_15_and_75_degrees() -> None:
    def factors(latitude_deg: float) -> Any:
        return np.concatenate([np.atleast_1d(one) for one in earth.niell(np.radians(latitude_deg), 0.0, 0.2, 100.0)])

    assert factors(75.0) == pytest.approx(factors(89.0), rel=1e-12)
    assert factors(15.0) == pytest.approx(factors(0.0), rel=1e-12)
    assert np.all(factors(74.0) != factors(75.0))


def test_broadcast_accuracies_lie_midway_between_their_nominal_values() -> None:
    """IS-GPS-200, 20.3.3.3.1.3: nominal 2^(1 + N/2) up to class 6, 2^(N - 2) above."""
    classes = np.arange(15)
    assert fix._ACCURACY_M[:6] == pytest.approx(2.0 ** (1.25 + classes[:6] / 2), rel=0.021)
    assert fix._ACCURACY_M[6:] == pytest.approx(1.5 * 2.0 ** (classes[6:] - 2.0))


# ---- radar -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.1, 0.3, 0.45])
def test_peaks_between_cells(offset: float) -> None:
    """Powers of a Gaussian lobe, and of a tone without a window over a whole and over a few channels."""
    here = SimpleNamespace(config=SimpleNamespace(array=SimpleNamespace(elevation_channels=1, azimuth_channels=4)))
    axes: Any = here

    def place(kind: str, power: Any, axis: int) -> tuple[float, float]:
        below, own, above = (np.array([power(x)]) for x in (-1.0 - offset, -offset, 1.0 - offset))
        found = _between(kind, own, below, above, axes, axis)
        return float(found[0][0]), float(found[1][0])

    for width in (0.4, 1.7):
        found = place("taylor", lambda x, k=width: np.exp(-k * x**2), 0)
        assert found == pytest.approx((offset, np.exp(-width * offset**2)), rel=1e-9)
    assert place("none", lambda x: np.sinc(x) ** 2, 0) == pytest.approx((offset, np.sinc(offset) ** 2), rel=1e-9)
    # The share in the cell of four channels is Dirichlet's kernel, whatever the neighbours are.
    share = (np.sin(np.pi * offset) / (4.0 * np.sin(np.pi * offset / 4.0))) ** 2
    assert place("none", lambda x: np.sinc(x) ** 2, 3)[1] == pytest.approx(share, rel=1e-9)


def test_the_noise_bandwidth_of_an_array_multiplies_over_its_axes() -> None:
    """1.5 cells for Hann's window (Harris 1978, table 1), so 2.25 for an array in two axes."""
    config: Any = SimpleNamespace(array=SimpleNamespace(window="hann"))
    assert Axes(config, np.zeros(8), np.zeros(1)).beam_noise_bandwidth == pytest.approx(1.5)
    assert Axes(config, np.zeros(8), np.zeros(4)).beam_noise_bandwidth == pytest.approx(2.25)


@pytest.mark.parametrize("rank", [6, 12])
def test_false_alarms_of_an_ordered_statistic_in_independent_noise(rank: int) -> None:
    """Rohling 1983 (IEEE Trans. AES 19, 608): the product of (n - i) / (n - i + T) over i below the rank."""
    cells = 16 - np.arange(rank)
    for multiple in (3.0, 8.0):
        expected = np.prod(cells / (cells + multiple))
        assert _Levels(np.eye(16), rank, 1).chance(multiple) == pytest.approx(expected, rel=0.03)


def test_noise_of_training_cells_is_correlated_by_their_distance() -> None:
    """Hann's window correlates neighbours by -2/3 and the next but one by 1/6: cells count from the window's start."""
    place = np.array([0, -2, -1, 1, 2])
    by_distance = np.array([1.0, -2.0 / 3.0, 1.0 / 6.0, 0.0, 0.0])
    expected = by_distance[np.abs(place[:, None] - place)]
    assert training_correlation(4, 0, "hann") == pytest.approx(expected)
    wide = np.array([0, -4, -3, 3, 4])
    assert training_correlation(4, 2, "hann") == pytest.approx(
        np.append(by_distance, [0.0] * 5)[np.abs(wide[:, None] - wide)]
    )


@pytest.mark.parametrize("looks", [1, 2, 5])
def test_chances_of_means_depend_on_no_unit(looks: int) -> None:
    """The same chance for noise of any power; independent cells give Fisher's distribution, correlated ones less."""
    mixed = training_correlation(8, 0, "hann")
    for multiple in (2.0, 6.0):
        expected = f.sf(multiple, 2 * looks, 2 * looks * 8)
        assert mean_chance(multiple, np.eye(9), looks) == pytest.approx(expected, rel=1e-9)
        assert mean_chance(multiple, 7.0 * mixed, looks) == pytest.approx(mean_chance(multiple, mixed, looks), rel=1e-9)
        assert mean_chance(multiple, mixed, looks) < expected
    random = np.random.default_rng(3)
    root = np.linalg.cholesky(mixed + 1e-12 * np.eye(9))
    power = sum(np.sum((root @ random.normal(size=(2, 9, 60_000))) ** 2, axis=0) for _ in range(looks))
    found = np.mean(power[0] > 2.0 * power[1:].mean(axis=0))
    chance = mean_chance(2.0, mixed, looks)
    assert found == pytest.approx(chance, abs=4.0 * np.sqrt(chance / 60_000))


def test_responses_of_a_turning_antenna_cover_each_cell_once() -> None:
    """However wide they are: up to half of the circle on each side, and 1.3 times the wider pattern."""

    def covered(width: float, azimuths: int) -> Any:
        pattern = SimpleNamespace(azimuth_width_deg=width)
        narrow = SimpleNamespace(azimuth_width_deg=0.5 * width)
        axes: Any = SimpleNamespace(
            config=SimpleNamespace(transmit=pattern, receive=narrow, array=None), shape=(1, 1, 1, azimuths),
            azimuth_offset=lambda direction, row: np.array([0.3, azimuths - 0.8]),
            turning_response=lambda offset: 1.0 / (1.0 + np.abs(offset)),
        )  # fmt: skip
        scatterers: Any = type("S", (), {"__len__": lambda self: 2, "direction": None})()
        return responses_of(scatterers, axes).toarray()

    found = covered(200.0, 9)
    offset = np.abs((np.arange(9) - 0.3 + 4.5) % 9 - 4.5)
    assert found[0] == pytest.approx(1.0 / (1.0 + offset), rel=1e-6)
    assert found[1, [0, 8]] == pytest.approx([1.0 / 1.8, 1.0 / 1.2], rel=1e-6)
    assert np.count_nonzero(covered(20.0, 72), axis=1).tolist() == [13, 13]  # 1.3 x 20 / 5 cells, rounded up, each side


def test_phase_noise_is_left_out_only_where_it_is_weak() -> None:
    """A hundredth of the noise of a cell, by a bound on the noise at any frequency."""
    config = ph.Radar("ti/iwr6843").config
    wave, metres, beams = config.waveform, 3.0, np.ones((1, 2))
    loop = 1e3 * config.baseband.loop_khz
    bound = 4.0 * float(oscillator_noise(config, 0.0)) * min(1.0, (2.0 * np.pi * loop * metres / 299_792_458.0) ** 2)
    least = 0.01 / (bound * 1.5 * 1e6 / wave.ramp_us / wave.ramps)

    def cube(power: float) -> Any:
        made: Any = SimpleNamespace(range_m=np.array([metres]), power=np.array([power]))
        return phase_noise_cube(config, made, beams, 1.5)

    assert cube(0.99 * least) is None
    found = cube(1.01 * least)
    assert found.shape == (wave.range_bins, 2)
    assert cube(2.02 * least) == pytest.approx(2.0 * found)
    check("radar/phase-noise", rel=1e-6, found=found)


# ---- UWB -------------------------------------------------------------------------------------------------------------

ANCHORS = np.array([[0.0, 0.0, 3.0], [10.0, 0.0, 2.0], [10.0, 8.0, 3.5], [0.0, 8.0, 0.5], [5.0, 4.0, 4.0]])


def test_the_search_for_a_position_starts_below_the_middle_of_the_anchors() -> None:
    assert solve._start(ANCHORS, 1.7) == pytest.approx([5.0, 4.0, 1.7])


def test_the_covariance_is_that_of_ranges_good_to_a_tenth_of_a_metre() -> None:
    place = np.array([3.0, 2.0, 1.2])
    found = solve.locate(ANCHORS, np.linalg.norm(ANCHORS - place, axis=1)[None])
    assert found.position[0] == pytest.approx(place, abs=1e-6)
    rows = (place - ANCHORS) / np.linalg.norm(place - ANCHORS, axis=1, keepdims=True)
    assert found.covariance[0] == pytest.approx(0.1**2 * np.linalg.inv(rows.T @ rows), rel=1e-5)


def test_a_line_through_as_many_surfaces_as_are_followed_is_blocked() -> None:
    nothing: Any = None
    assert walls._attenuated(nothing, np.array([1.0, 0.0, 0.0]), [nothing] * walls.MOST_SURFACES, nothing) == (0j, 0.0)


def test_hits_on_planes_are_exact() -> None:
    """The first plane too; hits on curved surfaces and along a plane keep the distance of the ray."""
    planes = type("P", (), {"__len__": lambda self: 2})()
    planes.patch_of = lambda triangle: np.array([0, 1, -1, 1])
    planes.normal, planes.offset = np.array([[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), np.array([-5.0, 3.0])
    hits: Any = SimpleNamespace(triangle=None, normal=np.full((4, 3), 9.0))
    radio: Any = SimpleNamespace(patches=planes)
    start = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, 0, 0], [0, 0, 1.0]])
    along = np.array([[0.8, 0.6, 0.0], [0.0, 0.6, 0.8], [1.0, 0.0, 0.0], [1.0, 0.0, 0.5e-4]])
    found, normal = walls._exact(radio, start, along, np.array([5.01, 2.51, 7.0, 8.0]), hits)
    assert found == pytest.approx([5.0, 2.5, 7.0, 8.0], abs=1e-12)
    assert normal.tolist() == [[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [9.0] * 3, [0.0, 0.0, 1.0]]


def radio_of(**changes: Any) -> Any:
    """Parts 0 to 4: both faces of a wall, a sheet, a crown, and a closed surface."""
    fields = {
        "foliage": np.arange(5) == 3, "closed": np.arange(5) == 4, "thickness": np.array([0.1, 0.1, 0.02, 0.0, 0.1]),
        "permittivity": np.array([5.0 - 0.3j, 5.0 - 0.3j, 2.5 - 0.1j, 1.0, 1.0]),
        "object_index": np.array([0, 0, 1, 2, 3]),
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **changes})


def test_losses_along_a_line_multiply() -> None:
    """Two faces of one object within half a metre are one wall of that thickness; all others are sheets."""
    wave, x = Wave(3e9), np.array([1.0, 0.0, 0.0])

    def passed(*surfaces: tuple[float, int, float], radio: Any = None) -> tuple[complex, float]:
        return walls._attenuated(radio or radio_of(), x, [(at, part, side * x) for at, part, side in surfaces], wave)

    enter, leave, sheet, other = (1.0, 0, -1.0), (1.15, 1, 1.0), (2.0, 2, -1.0), (4.0, 2, 1.0)
    wall, one = passed(enter, leave), passed(sheet)
    eta = radio_of().permittivity
    for found, part, thickness in ((wall, 0, 0.15), (one, 2, 0.02)):
        field = transmit(
            np.array([[0.0, 0.0, 1.0 + 0j]]), x[None], -x[None], eta[part : part + 1], np.array([thickness]), 3e9
        )
        assert abs(found[0]) == pytest.approx(float(np.linalg.norm(field)), rel=1e-9)
        assert found[1] == pytest.approx(float(slab_delay_m(1.0, eta[part], thickness)), rel=1e-9)
    both = passed(enter, leave, sheet)
    assert both == (pytest.approx(wall[0] * one[0]), pytest.approx(wall[1] + one[1]))
    three = passed(sheet, enter, leave, other)
    assert three == (pytest.approx(wall[0] * one[0] ** 2), pytest.approx(wall[1] + 2.0 * one[1]))
    # Faces too far apart, of another object, or both entered, are sheets of their own.
    alone, back = passed(enter), passed((1.6, 1, 1.0))
    for apart in ((enter, (1.6, 1, 1.0)), (leave, enter)):
        assert passed(*apart) == (pytest.approx(alone[0] * back[0]), pytest.approx(alone[1] + back[1]))
    strange = radio_of(object_index=np.array([0, 7, 1, 2, 3]))
    assert passed(enter, leave, radio=strange)[0] == pytest.approx(alone[0] ** 2)
    assert passed(enter, (1.5, 1, 1.0))[1] == pytest.approx(float(slab_delay_m(1.0, eta[0], 0.5)))
    # Crowns count from face to face, unless air of three metres fills the gap.
    for length, crowns in (
        (2.0, [(5.0, 3), (7.0, 3)]),
        (4.9, [(5.0, 3), (7.0, 3), (9.9, 3)]),
        (2.0, [(5.0, 3), (7.0, 3), (10.0, 3)]),
    ):
        gain, extra = passed(*[(at, part, 1.0) for at, part in crowns])
        assert -20.0 * np.log10(abs(gain)) == pytest.approx(float(foliage_loss_db(length, 3e9)))
        assert extra == 0.0
    assert passed(sheet, (3.0, 4, -1.0)) == (0j, 0.0)
    assert passed() == (1.0, 0.0)
    assert passed(*[(float(k), 0, -1.0) for k in range(47)], radio=radio_of(permittivity=np.full(5, 40.0 - 90j))) == (
        0j,
        0.0,
    )


def test_both_lenses_must_see_the_same_disparity() -> None:
    """At the nearest pixel of the second picture, within one pixel of disparity; outside of it at its border."""
    true = np.array([[5.0, 5.0, 5.0, 5.0, 5.0]])
    other = np.array([[6.0, 9.0, 4.0, 3.9, 5.5]])
    uv = np.stack([np.array([[0.4, 0.6, 1.6, 2.6, 7.0]]), np.zeros((1, 5))], axis=-1)
    inside = np.array([[True, True, True, True, True]])
    assert depth._agrees(true, other, uv, inside).tolist() == [[True, False, True, False, True]]
    assert depth._agrees(true, other, uv, ~inside).tolist() == [[True] * 5]
    tall = np.array([[5.0], [9.0], [5.0]])
    rows = np.stack([np.zeros((3, 1)), np.array([[0.4], [0.6], [9.0]])], axis=-1)
    assert depth._agrees(np.full((3, 1), 5.0), tall, rows, np.ones((3, 1), bool)).tolist() == [[True], [False], [True]]


# ---- depth cameras and lenses ----------------------------------------------------------------------------------------


def test_calibration_errors_of_a_stereo_unit_are_linear_in_the_image() -> None:
    assert not StereoCalibration().error_px((3, 4)).any()
    unit = StereoCalibration(0.5, (0.1, 0.02))
    assert unit.error_px((2, 2)) == pytest.approx(np.array([[0.38, 0.58], [0.42, 0.62]]))
    assert unit.error_px((1, 1)).tolist() == [[0.5]]


def test_a_lens_of_one_camera_is_not_rectified(tmp_path: Path) -> None:
    save_ros(tmp_path / "lens.yaml", Intrinsics(64, 48, 60.0, 61.0, 31.0, 24.0))
    stored = yaml.safe_load((tmp_path / "lens.yaml").read_text())["rectification_matrix"]
    assert np.reshape(stored["data"], (3, 3)).tolist() == np.eye(3).tolist()


# ---- ultrasonic rangers ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_timer_counts_whole_ticks() -> None:
    world = ph.World()
    world.add(ph.shapes.board(4, 4, 0.01), material="concrete", label="wall", pose=ph.Pose(xyz=(1.2, 0, 0)))
    config = ph.Echo("generic/ultrasonic-ranger").config
    assert config.ranger is not None
    ranger = config.ranger.model_copy(update={"timer_us": 58.0, "spurious_share": 0.0})
    sensor = ph.Echo(config.model_copy(update={"ranger": ranger}))
    nearest = np.array([sensor.ping(world, pose=ph.Pose(), time=0.05 * k, seed=4).nearest for k in range(4)])
    ticks = 2.0 * nearest / config.medium.speed_m_s / 58e-6
    assert ticks == pytest.approx(np.rint(ticks), abs=1e-6)


def test_a_turning_antenna_weighs_directions_by_both_of_its_patterns() -> None:
    """Gaussian beams of the stated half-power widths: each halves the power at half its width."""
    config = ph.Radar("navtech/cts350-x").config
    axes = Axes.of(config)
    step = 360.0 / len(axes.azimuth)
    offset = np.array([0.0, 0.5, 1.0, 3.0])
    widths = np.array([[config.transmit.azimuth_width_deg], [config.receive.azimuth_width_deg]])
    power = np.prod(2.0 ** -((2.0 * offset * step / widths) ** 2), axis=0)
    assert axes.turning_response(offset) ** 2 == pytest.approx(power)


@pytest.mark.slow
def test_bistatic_echoes_are_reciprocal() -> None:
    """Transmitter and receiver may change places, in azimuth or elevation alone."""
    plate = ph.shapes.box(0.02, 0.4, 0.3)

    def sigma(azimuth: float, elevation: float, **receiver: float) -> float:
        found = rcs(
            plate, material="steel", frequency_ghz=24.0, azimuth_deg=azimuth, elevation_deg=elevation, **receiver
        )
        return float(found.sigma[0])

    assert sigma(3.0, 2.0, receiver_azimuth_deg=9.0) == pytest.approx(
        sigma(9.0, 2.0, receiver_azimuth_deg=3.0), rel=0.02
    )
    one, other = sigma(3.0, 2.0, receiver_elevation_deg=7.0), sigma(3.0, 7.0, receiver_elevation_deg=2.0)
    assert one == pytest.approx(other, rel=0.02)
    assert abs(one / sigma(3.0, 2.0) - 1.0) > 0.1
