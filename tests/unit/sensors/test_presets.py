"""Every sensor that comes with the package: its data sheet holds together, and its pattern is the maker's."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.sensors.optics.lidar.config import (
    LidarConfig,
    RasterPattern,
    RosettePattern,
    SpinningPattern,
    SwathPattern,
    TablePattern,
)
from parhelion.sensors.optics.lidar.link_budget import overlap_share
from parhelion.sensors.optics.lidar.patterns import repeats, shot_table
from parhelion.sensors.sheets import load_sheet, open_sheet

# Points per second at the default rate, vertical field of view [deg] as the makers state them (sources in the files).
SHEETS = {
    "velodyne/vlp-16": (300_000, -15, 15),
    "velodyne/vlp-32c": (600_000, -25, 15),
    "velodyne/hdl-32e": (695_000, -30.67, 10.67),
    "velodyne/hdl-64e": (1_111_000, -24.9, 2),
    "velodyne/hdl-64e-s2": (1_333_000, -24.9, 2.0),
    "velodyne/vls-128": (2_400_000, -25, 15),
    "ouster/os0-32": (327_680, -45, 45),
    "ouster/os0-64": (655_360, -45, 45),
    "ouster/os0-128": (1_310_720, -45, 45),
    "ouster/os1-32": (327_680, -22.5, 22.5),
    "ouster/os1-64": (655_360, -22.5, 22.5),
    "ouster/os1-128": (1_310_720, -22.5, 22.5),
    "ouster/os2-32": (327_680, -11.25, 11.25),
    "ouster/os2-64": (655_360, -11.25, 11.25),
    "ouster/os2-128": (1_310_720, -11.25, 11.25),
    "livox/mid-40": (100_000, -19.2, 19.2),
    "livox/avia": (240_000, -38.6, 38.6),
    "livox/mid-360": (200_000, -7, 52),
    "livox/hap": (452_000, -12.5, 12.5),
    "hesai/xt32": (640_000, -16, 15),
    "hesai/pandar64": (1_152_000, -25, 15),
    "hesai/at128": (1_530_000, -12.7, 12.9),
    "robosense/rs-16": (300_000, -15, 15),
    "robosense/helios-32": (576_000, -55, 15),
    "slamtec/rplidar-a1": (3_960, 0, 0),
    "sick/lms-111": (27_025, 0, 0),
    "hokuyo/utm-30lx": (43_240, 0, 0),
    "hokuyo/urg-04lx": (6_830, 0, 0),
    "aeva/aeries-ii": (640_000, -9.6, 9.6),
    "leica/als50-ii": (120_000, -90, -70),
    "riegl/lms-q680i": (266_000, -90, -60),
    "riegl/vq-840-gl": (50_000, -76, -70),
}
HORIZONTAL_HALF_FIELD_DEG = {
    "livox/mid-40": 19.2,
    "livox/avia": 35.2,
    "livox/hap": 60.0,
    "hesai/at128": 60.0,
    "aeva/aeries-ii": 60.0,
    "hokuyo/urg-04lx": 120.0,
}
NON_REPETITIVE = ["livox/mid-40", "livox/avia", "livox/mid-360", "livox/hap"]
MAIN_FIELDS = ["wavelength_nm", "pattern", "beam.divergence_mrad", "range.rated", "intensity"]


def sheet(name: str) -> LidarConfig:
    return ph.Lidar(name).config


def spinning(name: str) -> SpinningPattern:
    pattern = sheet(name).pattern
    assert isinstance(pattern, SpinningPattern)
    return pattern


def test_the_table_of_sheets_is_complete() -> None:
    assert ph.presets("lidar") == sorted(SHEETS)


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_points_a_second_and_field_of_view_are_the_makers(name: str) -> None:
    points_per_second, low, high = SHEETS[name]
    config = sheet(name)
    table = shot_table(config.pattern)
    # The widest gap is the rounding of "about 300 000" for sensors that fire 16 lasers every 55.3 us.
    assert len(table) * config.pattern.rate_hz == pytest.approx(points_per_second, rel=0.041)
    elevation = np.degrees(table.elevation)
    slack = 1.0 if name.startswith("velodyne/hdl-64e") else 0.01  # one real unit's calibration, not nominal angles
    assert elevation.min() >= low - slack
    assert elevation.max() <= high + slack
    half = HORIZONTAL_HALF_FIELD_DEG.get(name, 180.0)
    assert np.abs(np.degrees(table.azimuth)).max() <= half + 1e-3


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_shot_tables_are_well_formed(name: str) -> None:
    config = sheet(name)
    table = shot_table(config.pattern)
    assert table.direction.dtype == table.origin.dtype == np.float32
    assert table.ring.dtype == table.column.dtype == np.uint16
    np.testing.assert_allclose(np.linalg.norm(table.direction, axis=1), 1.0, atol=1e-6)
    assert table.time.min() == 0.0
    assert table.time.max() < 1.0 / config.pattern.rate_hz
    channels = int(np.count_nonzero(table.column == 0))
    assert len(table) % channels == 0
    np.testing.assert_array_equal(table.column, np.arange(len(table)) // channels)
    by_column = table.time.reshape(-1, channels)
    assert (np.diff(by_column, axis=0) > 0).all()
    rings = table.ring.reshape(-1, channels)
    assert (np.sort(rings, axis=1) == np.arange(channels)).all()
    np.testing.assert_allclose(np.arctan2(table.direction[:, 1], table.direction[:, 0]), table.azimuth, atol=2e-6)
    with pytest.raises(ValueError, match="read-only"):
        table.time[0] = 1.0


def at_path(config: LidarConfig, path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_every_main_field_has_a_source_or_a_reason(name: str) -> None:
    config = sheet(name)
    stated = [path for source in config.sources for path in source.covers] + list(config.assumed)
    for path in stated:
        at_path(config, path)  # no source speaks of a field that does not exist
    for field in MAIN_FIELDS:
        assert any(p == field or p.startswith(field + ".") or field.startswith(p + ".") for p in stated), field
    given = {
        f"{block}.{field}"
        for block in ("pattern", "beam", "range", "receiver", "noise")
        for field in getattr(config, block).model_fields_set
    }
    ungiven = {"pattern.kind", "beam.shape", "receiver.max_returns", "pattern.azimuth_start_deg"}
    missing = {f for f in given - ungiven if not any(f == p or f.startswith(p + ".") for p in stated)}
    assert not missing


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_two_rated_ranges_never_imply_a_negative_extinction(name: str) -> None:
    """R^2 = K rho exp(-2 gamma R) for both targets: gamma must not be negative."""
    limits = sheet(name).range
    assert all(rated.range_m <= limits.max_m for rated in limits.rated)
    if len(limits.rated) == 2:
        near, far = sorted(limits.rated, key=lambda rated: rated.range_m)
        gamma = math.log(near.range_m**2 * far.reflectance / (far.range_m**2 * near.reflectance))
        assert gamma > 0


def test_os1_rated_at_ten_percent_reaches_113_m_at_eighty() -> None:
    (rated,) = sheet("ouster/os1-128").range.rated
    assert (rated.reflectance, rated.range_m, rated.detection) == (0.1, 40.0, 0.9)
    assert rated.range_m * math.sqrt(0.8 / rated.reflectance) == pytest.approx(113.1, abs=0.1)


@pytest.mark.parametrize(
    ("name", "at_20_cm", "above_200_cm"), [("os0", 0.5, 0.5), ("os1", 0.7, 0.7), ("os2", 2.1, 1.5)]
)
@pytest.mark.parametrize("channels", ["32", "64", "128"])
def test_ousters_scatter_is_that_of_recordings(name: str, at_20_cm: float, above_200_cm: float, channels: str) -> None:
    config = sheet(f"ouster/{name}-{channels}")
    noise, receiver = config.noise, config.receiver
    assert receiver.threshold_photons == 5.5
    for photons, expected_cm in ((20.0, at_20_cm), (400.0, above_200_cm)):
        snr = photons / receiver.threshold_photons * receiver.threshold_to_noise
        sigma_cm = 100.0 * math.hypot(noise.range_sigma_m, noise.range_sigma_snr_m / snr)
        assert expected_cm / 1.5 < sigma_cm < 1.5 * expected_cm


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_every_preset_says_how_much_its_receiver_collects_close_by(name: str) -> None:
    config = sheet(name)
    assert config.range.overlap is not None
    shares = overlap_share(config.range.overlap, np.linspace(0.05, config.range.max_m, 500))
    assert np.all((shares >= 0.0) & (shares <= 1.0))
    assert shares.max() == pytest.approx(1.0)
    if name != "slamtec/rplidar-a1":
        assert overlap_share(config.range.overlap, 0.5) < 0.2


def test_vlp16_sequence_by_hand() -> None:
    table = shot_table(spinning("velodyne/vlp-16"))
    assert len(table) == 16 * 1808  # floor(0.1 s / 55.296 us)
    # Laser 5 of sequence 1000 fires at 1000 * 55.296 + 5 * 2.304 us; the head turns clockwise at 3600 deg/s.
    shot = 1000 * 16 + 5
    time = (1000 * 55.296 + 5 * 2.304) * 1e-6
    assert table.time[shot] == pytest.approx(time, abs=1e-12)
    turned = -3600.0 * time
    expected = (turned + 180.0) % 360.0 - 180.0
    assert np.degrees(table.azimuth[shot]) == pytest.approx(expected, abs=1e-4)
    assert np.degrees(table.elevation[shot]) == pytest.approx(5.0, abs=1e-5)
    assert table.ring[shot] == 10  # -15, -13 ... 5: the eleventh from below
    assert table.origin[shot] == pytest.approx([0.0, 0.0, -0.00367], abs=1e-8)


def test_vlp16_at_other_rates() -> None:
    pattern = spinning("velodyne/vlp-16")
    assert len(shot_table(pattern, rate_hz=20.0)) == 16 * 904
    assert len(shot_table(pattern, rate_hz=5.0)) == 16 * 3616
    with pytest.raises(ConfigError, match=r"rate_hz: 25 Hz is not offered; offered: 5, 6, .*20"):
        shot_table(pattern, rate_hz=25.0)
    with pytest.raises(ConfigError, match=r"fires every 55\.296 us"):
        shot_table(pattern, columns=1024)


def test_ouster_fires_a_column_at_once_from_off_the_axis() -> None:
    pattern = spinning("ouster/os1-128")
    table = shot_table(pattern)
    first = table.column == 0
    assert (table.time[first] == 0.0).all()
    head = np.array([-15.806e-3, 0.0, 36.18e-3])  # column 0 looks back, towards the connector
    np.testing.assert_allclose(table.origin[first], np.tile(head, (128, 1)), atol=1e-8)
    assert np.degrees(table.azimuth[0]) == pytest.approx(180.0 - 4.21, abs=1e-4)
    assert table.time[table.column == 1][0] == pytest.approx(0.1 / 1024, rel=1e-12)
    np.testing.assert_array_equal(table.ring[first], np.arange(127, -1, -1))


def test_modes_are_kept_together() -> None:
    ouster, sick = spinning("ouster/os0-32"), spinning("sick/lms-111")
    assert len(shot_table(ouster, columns=2048)) == 32 * 2048
    assert len(shot_table(ouster, rate_hz=20.0, columns=512)) == 32 * 512
    with pytest.raises(ConfigError, match=r"2048 at 20 Hz is not offered.*512x10, 1024x10, 2048x10, 512x20, 1024x20"):
        shot_table(ouster, rate_hz=20.0, columns=2048)
    with pytest.raises(ConfigError, match="columns: 1000 at 10 Hz is not offered"):
        shot_table(ouster, columns=1000)
    assert len(shot_table(sick, rate_hz=50.0)) == 541  # the faster mode has half the steps
    fast = shot_table(sick, columns=720)
    assert fast.time[-1] == pytest.approx(0.75 / 50.0)
    assert np.degrees(np.diff(fast.azimuth)) == pytest.approx(np.full(540, 0.5), abs=1e-4)


def test_hdl64_offsets_are_the_makers_formula() -> None:
    """The manual's point formula for a laser, with its offsets across the beam, gives the ray of our table."""
    channels = spinning("velodyne/hdl-64e").channels
    table = shot_table(spinning("velodyne/hdl-64e"))
    laser, distance = 32, 30.0  # elevation -21.77, azimuth -7.45 deg, offsets 159 mm up and 26 mm across
    elevation, azimuth = math.radians(channels.elevation_deg[laser]), math.radians(channels.azimuth_deg[laser])
    across, up = 0.026, 0.159
    level = distance * math.cos(elevation) - up * math.sin(elevation)
    expected = [
        level * math.cos(azimuth) - across * math.sin(azimuth),
        level * math.sin(azimuth) + across * math.cos(azimuth),
        distance * math.sin(elevation) + up * math.cos(elevation),
    ]
    np.testing.assert_allclose(table.origin[laser] + distance * table.direction[laser], expected, atol=1e-4)


def coverage(name: str, seconds: float, cell_deg: float = 0.2) -> float:
    """Part of the field of view's cells, where a beam passed within `seconds`."""
    pattern = sheet(name).pattern
    frames = [shot_table(pattern, frame_start_s=k / pattern.rate_hz) for k in range(round(seconds * pattern.rate_hz))]
    azimuth = np.degrees(np.concatenate([frame.azimuth for frame in frames]))
    elevation = np.degrees(np.concatenate([frame.elevation for frame in frames]))
    _, low, high = SHEETS[name]
    half = HORIZONTAL_HALF_FIELD_DEG.get(name, 180.0)
    assert elevation.min() >= low - 1e-3
    assert elevation.max() <= high + 1e-3
    assert np.abs(azimuth).max() <= half + 1e-3
    shape = (math.ceil(2 * half / cell_deg), math.ceil((high - low) / cell_deg))
    field = [(-half, half), (low, high)]
    cells, _, _ = np.histogram2d(azimuth, elevation, bins=shape, range=field)
    return float(np.count_nonzero(cells) / cells.size)


@pytest.mark.parametrize("name", NON_REPETITIVE)
def test_non_repetitive_patterns_fill_their_field_with_time(name: str) -> None:
    short, long = coverage(name, 0.1), coverage(name, 1.0)
    assert long > 2.0 * short
    assert long > 0.25
    pattern = sheet(name).pattern
    assert not repeats(pattern)
    again = shot_table(pattern, frame_start_s=0.1)
    assert not np.array_equal(again.direction, shot_table(pattern).direction)
    np.testing.assert_array_equal(again.direction, shot_table(pattern, frame_start_s=0.1).direction)


def test_mid40_radius_follows_the_two_prisms() -> None:
    """Two equal deflections a: the angle from the axis is 2 a |cos((phase1 - phase2) / 2)|."""
    pattern = sheet("livox/mid-40").pattern
    assert isinstance(pattern, RosettePattern)
    assert np.asarray(pattern.prism_hz) * 60.0 == pytest.approx([7294.0, -4664.0], abs=0.01)
    table = shot_table(pattern)
    angle = np.degrees(np.arccos(np.clip(table.direction[:, 0].astype(float), -1.0, 1.0)))
    half_phase = np.pi * (pattern.prism_hz[0] - pattern.prism_hz[1]) * table.time
    np.testing.assert_allclose(angle, 19.2 * np.abs(np.cos(half_phase)), atol=0.03)  # float32 near the axis


def test_patterns_that_repeat_ignore_the_frame() -> None:
    for name in ("velodyne/vlp-16", "hesai/at128"):
        pattern = sheet(name).pattern
        assert repeats(pattern)
        np.testing.assert_array_equal(shot_table(pattern, frame_start_s=3.7).direction, shot_table(pattern).direction)


def test_raster_row_after_row_and_flash() -> None:
    base = {"kind": "raster", "rate_hz": 10.0, "azimuth_deg": (10.0, -10.0), "elevation_deg": (-2.0, 2.0)}
    rows = shot_table(RasterPattern(**base, columns=5, rows=4, simultaneous_rows=False))
    np.testing.assert_allclose(rows.time, np.arange(20) * 0.005, atol=1e-15)
    np.testing.assert_array_equal(rows.ring[:4], [0, 1, 2, 3])
    np.testing.assert_allclose(np.degrees(rows.azimuth[::4]), [10, 5, 0, -5, -10], atol=1e-5)
    flash = shot_table(RasterPattern(**base, columns=5, rows=4, flash=True))
    assert not flash.time.any()
    with pytest.raises(ConfigError, match="columns: a raster pattern has no choice"):
        shot_table(RasterPattern(**base, columns=5, rows=4), columns=6)


ROWS = [[0.0, 10.0, 0.0, 1.0], [90.0, -10.0, 0.0, 0.0], [180.0, 0.0, 0.02, 1.0]]


def table_pattern(file: str) -> TablePattern:
    return TablePattern(kind="table", rate_hz=10.0, file=file)


def test_tables_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "shots.npy", np.array(ROWS))
    text = "azimuth_deg,elevation_deg,time_s,ring\n" + "\n".join(",".join(map(str, row)) for row in ROWS)
    (tmp_path / "shots.csv").write_text(text + "\n")
    tables = [shot_table(table_pattern(f"shots.{kind}"), folder=tmp_path) for kind in ("npy", "csv")]
    for table in tables:
        np.testing.assert_array_equal(table.ring, [1, 0, 1])
        np.testing.assert_array_equal(table.column, [0, 0, 1])
        np.testing.assert_allclose(table.time, [0.0, 0.0, 0.02])
        c, s = math.cos(math.radians(10)), math.sin(math.radians(10))
        np.testing.assert_allclose(table.direction, [[c, 0.0, s], [0.0, c, -s], [-1.0, 0.0, 0.0]], atol=1e-7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("azimuth,elevation,time\n0,0,0\n", "first line must be azimuth_deg,elevation_deg,time_s"),
        ("azimuth_deg,elevation_deg,time_s\n0,0\n", "every row must hold 3 numbers"),
        ("azimuth_deg,elevation_deg,time_s\n0,x,0\n", "every row must hold 3 numbers"),
        ("azimuth_deg,elevation_deg,time_s\n0,0,0\n0,nan,0\n", "row 1 contains a value that is not finite"),
        ("azimuth_deg,elevation_deg,time_s\n0,91,0\n", "within -90 and 90"),
        ("azimuth_deg,elevation_deg,time_s\n0,0,0.1\n", "the frame period, 0.1 s"),
        ("azimuth_deg,elevation_deg,time_s\n0,0,0.05\n0,0,0.01\n", "must not decrease"),
        ("azimuth_deg,elevation_deg,time_s,ring\n0,0,0,-1\n", "ring must hold whole numbers"),
        ("azimuth_deg,elevation_deg,time_s,ring\n0,0,0,0.5\n", "ring must hold whole numbers"),
        ("azimuth_deg,elevation_deg,time_s\n", "expected rows of"),
    ],
)
def test_bad_table_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(FormatError, match=message) as error:
        shot_table(table_pattern("bad.csv"), folder=tmp_path)
    assert "bad.csv" in str(error.value)


def test_bad_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", np.zeros(6))
    (tmp_path / "text.npy").write_text("not an array")
    for file, message in (("flat.npy", "got shape"), ("text.npy", "not an array"), ("none.npy", "no such file")):
        with pytest.raises(FormatError, match=message):
            shot_table(table_pattern(file), folder=tmp_path)


def test_loading_by_name_path_and_nothing(tmp_path: Path) -> None:
    preset = open_sheet("lidar", LidarConfig, "velodyne/vlp-16")
    config, file = preset.config, preset.file
    assert file is not None
    assert ph.Lidar("Velodyne/VLP-16").config is config
    assert file.name == "vlp-16.yaml"
    copy = tmp_path / "mine.yaml"
    copy.write_text(file.read_text())
    mine = open_sheet("lidar", LidarConfig, copy)
    assert (mine.config, mine.preset, mine.file) == (config, None, copy)
    assert load_sheet("lidar", LidarConfig, str(copy)) is mine.config
    copy.write_text(file.read_text().replace("wavelength_nm: 903.0", "wavelength_nm: 1550.0"))
    assert ph.Lidar(copy).config.wavelength_nm == 1550.0
    with pytest.raises(ConfigError, match=r"unknown lidar 'velodyne/vlp16': did you mean 'velodyne/vlp-16'\?"):
        load_sheet("lidar", LidarConfig, "velodyne/vlp16")
    with pytest.raises(ConfigError, match="no such file"):
        load_sheet("lidar", LidarConfig, tmp_path / "absent.yaml")
    copy.write_text(file.read_text().replace("divergence_mrad", "divergence_rad"))
    with pytest.raises(
        ConfigError, match=r"mine\.yaml: beam\.divergence_rad: unknown field; did you mean 'divergence_mrad'\?"
    ):
        load_sheet("lidar", LidarConfig, copy)


@pytest.mark.slow
def test_the_page_of_sensors_is_up_to_date() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs"
    if not (docs / "sensors.md").exists():
        pytest.skip("the documentation is not here")
    page = runpy.run_path(str(docs / "figures" / "sensor_table.py"))["page"]
    assert (docs / "sensors.md").read_text(encoding="utf-8") == page()


def test_a_mode_that_lacks_the_default_is_refused() -> None:
    data = spinning("ouster/os0-32").model_dump() | {"modes": [(512, 10.0)]}
    with pytest.raises(ValueError, match="modes must contain the default"):
        SpinningPattern.model_validate(data)


def test_mirrors_of_airborne_scanners_draw_their_lines() -> None:
    """Sine, parallel lines and an ellipse around nadir, in whole cycles per frame."""
    table = shot_table(sheet("leica/als50-ii").pattern)
    across = np.degrees(np.arctan2(table.direction[:, 1], -table.direction[:, 2]).astype(float))
    np.testing.assert_allclose(across, 20.0 * np.sin(2.0 * np.pi * 40.0 * table.time), atol=1e-4)
    table = shot_table(sheet("riegl/lms-q680i").pattern)
    across = np.degrees(np.arctan2(table.direction[:, 1], -table.direction[:, 2]).astype(float))
    backwards = np.diff(across) < 0.0
    assert np.count_nonzero(backwards) == 19  # 20 lines in 0.1 s, each from right to left
    np.testing.assert_allclose(np.diff(across)[~backwards], 60.0 / 1330, atol=1e-4)
    np.testing.assert_allclose(np.diff(table.time)[~backwards], 1.0 / 400e3, rtol=1e-6)
    table = shot_table(sheet("riegl/vq-840-gl").pattern)
    x, y = (table.direction[:, k] / -table.direction[:, 2] for k in (0, 1))
    ellipse = (x / np.tan(np.radians(14.0))) ** 2 + (y / np.tan(np.radians(20.0))) ** 2
    np.testing.assert_allclose(ellipse, 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scan_hz": 25.0}, "multiple of the frame rate"),
        ({"duty": 0.5}, "duty is for a polygon"),
        ({"along_angle_deg": 5.0}, "for a palmer mirror"),
    ],
)
def test_impossible_swaths_are_refused(change: dict[str, float], message: str) -> None:
    fields = {"kind": "swath", "mirror": "oscillating", "rate_hz": 10.0, "points_per_second": 1e4, "scan_hz": 20.0}
    with pytest.raises(ValueError, match=message):
        SwathPattern(**{**fields, "half_angle_deg": 20.0, **change})  # type: ignore[arg-type]
