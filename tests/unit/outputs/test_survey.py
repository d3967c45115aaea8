"""Surveys as LAS 1.4, read back by laspy: coordinates, times, angles, returns, classes and waveforms."""

from __future__ import annotations

import struct
from pathlib import Path

import laspy
import numpy as np
import pytest

import parhelion as ph
from parhelion.outputs.survey import SAMPLES, SurveyWriter, zone_of
from parhelion.surfaces.library import material
from parhelion.world.sources import GeoOrigin

EPOCH_S = 1_700_000_000.0
ORIGIN = GeoOrigin(latitude_deg=48.1, longitude_deg=11.5, altitude_m=100.0, x_azimuth_deg=0.0)
SPEED_M_S = 40.0


def lake() -> ph.World:
    world = ph.World()
    world.add(ph.shapes.plane(300, 300), material="sand", label="terrain", pose=ph.Pose((0, 0, -4)))
    world.add(ph.shapes.plane(300, 300), material="clear-water", label="water")
    world.add(ph.shapes.box(10, 300, 1), material="concrete", label="building", pose=ph.Pose((15, 0, 8)))
    world.origin = ORIGIN
    return world


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> tuple[laspy.LasData, ph.Scan, Path]:
    world, path = lake(), tmp_path_factory.mktemp("survey") / "lake.las"
    lidar = ph.Lidar("riegl/vq-840-gl", noise=False)
    flight = ph.ConstantTwist(ph.Pose((0, 0, 75)), velocity=(SPEED_M_S, 0, 0))
    with SurveyWriter(path, world, lidar=lidar, epoch_s=EPOCH_S) as writer:
        for number in range(2):
            scan = lidar.scan(world, trajectory=flight, time=0.1 * number, seed=3)
            writer.add(scan, line=7)
    return laspy.read(path), scan, path


def test_header_times_and_returns(survey: tuple[laspy.LasData, ph.Scan, Path]) -> None:
    las, scan, _ = survey
    assert (str(las.header.version), las.header.point_format.id) == ("1.4", 9)
    assert las.header.global_encoding.gps_time_type == laspy.header.GpsTimeType.STANDARD
    last = las.points[-len(scan) :]
    # 2023-11-14 22:13:20 UTC is 1 384 035 218 s of GPS time (leap seconds: 18), minus 10^9.
    np.testing.assert_allclose(last["gps_time"], 384_035_218.0 + 0.1 + scan.fields["time"], atol=1e-6)
    np.testing.assert_array_equal(last["return_number"], scan.fields["return_index"] + 1)
    np.testing.assert_array_equal(last["number_of_returns"], scan.fields["return_count"])
    np.testing.assert_array_equal(np.unique(las.point_source_id), [7])
    np.testing.assert_array_equal(last["power"], scan.fields["power"])


def test_scan_angles_are_negative_on_the_left(survey: tuple[laspy.LasData, ph.Scan, Path]) -> None:
    las, scan, _ = survey
    last = las.points[-len(scan) :]
    beam = scan.shots.direction[scan.fields["shot"]].astype(float)
    across = -np.degrees(np.arctan2(beam[:, 1], -beam[:, 2]))
    np.testing.assert_allclose(0.006 * np.asarray(last["scan_angle"], float), across, atol=0.0031)
    assert 19.9 < 0.006 * np.abs(np.asarray(las.scan_angle, int)).max() < 20.01


def test_coordinates_are_those_of_the_zone(survey: tuple[laspy.LasData, ph.Scan, Path]) -> None:
    """x points north, y west; the origin is projected by Redfearn's series instead of Krueger's."""
    las, scan, _ = survey
    assert zone_of(ORIGIN) == 32
    text = next(vlr for vlr in las.header.vlrs if vlr.record_id == 2112).record_data_bytes().decode()
    assert 'AUTHORITY["EPSG","32632"]' in text
    east, north = redfearn(ORIGIN.latitude_deg, ORIGIN.longitude_deg, 9.0)
    last = las.points[-len(scan) :]
    roof = np.asarray(last["classification"]) == 6
    assert np.count_nonzero(roof) > 100
    xyz = scan.in_world().xyz
    # True north lies west of the grid's north here, by the convergence; the scale is within 4e-4 of 1.
    convergence = np.arctan(np.tan(np.radians(2.5)) * np.sin(np.radians(ORIGIN.latitude_deg)))
    dx, dy = np.asarray(last["x"]) - east, np.asarray(last["y"]) - north
    rotated = np.stack([dx, dy], axis=1) @ np.array(
        [[np.cos(convergence), -np.sin(convergence)], [np.sin(convergence), np.cos(convergence)]]
    )
    np.testing.assert_allclose(rotated[roof, 0], -xyz[roof, 1], atol=0.05)
    np.testing.assert_allclose(rotated[roof, 1], xyz[roof, 0], atol=0.05)
    np.testing.assert_allclose(np.asarray(last["z"])[roof], 100.0 + xyz[roof, 2], atol=1e-3)


def redfearn(latitude_deg: float, longitude_deg: float, meridian_deg: float) -> tuple[float, float]:
    """Easting and northing by the series of Redfearn (1948) on WGS 84, independent of the package's."""
    a, f = 6378137.0, 1.0 / 298.257223563
    e2 = f * (2 - f)
    lat, w = np.radians(latitude_deg), np.radians(longitude_deg - meridian_deg)
    a0, a2 = 1 - e2 / 4 - 3 * e2**2 / 64 - 5 * e2**3 / 256, 3 / 8 * (e2 + e2**2 / 4 + 15 * e2**3 / 128)
    a4, a6 = 15 / 256 * (e2**2 + 3 * e2**3 / 4), 35 * e2**3 / 3072
    m = a * (a0 * lat - a2 * np.sin(2 * lat) + a4 * np.sin(4 * lat) - a6 * np.sin(6 * lat))
    nu, c, t = a / np.sqrt(1 - e2 * np.sin(lat) ** 2), np.cos(lat), np.tan(lat)
    psi = nu / (a * (1 - e2) / (1 - e2 * np.sin(lat) ** 2) ** 1.5)
    east = (
        nu
        * w
        * c
        * (
            1
            + w**2 / 6 * c**2 * (psi - t**2)
            + w**4 / 120 * c**4 * (4 * psi**3 * (1 - 6 * t**2) + psi**2 * (1 + 8 * t**2) - psi * 2 * t**2 + t**4)
        )
    )
    north = m + nu * np.sin(lat) * w**2 / 2 * c * (1 + w**2 / 12 * c**2 * (4 * psi**2 + psi - t**2))
    return 500_000.0 + 0.9996 * float(east), 0.9996 * float(north)


def test_bottom_is_corrected_and_classified(survey: tuple[laspy.LasData, ph.Scan, Path]) -> None:
    las, _, _ = survey
    kind, height = np.asarray(las.classification), np.asarray(las.z) - 100.0
    assert set(kind.tolist()) == {6, 40, 41}
    assert np.abs(height[kind == 40] + 4.0).max() < 0.02
    assert np.abs(height[kind == 41]).max() < 0.02


def test_waveforms_hold_each_return_at_its_place(survey: tuple[laspy.LasData, ph.Scan, Path]) -> None:
    las, _, path = survey
    (about,) = [vlr.record_data_bytes() for vlr in las.header.vlrs if vlr.record_id == 100]
    bits, compression, count, spacing_ps, gain, _ = struct.unpack("<BBIIdd", about)
    assert (bits, compression, count, spacing_ps) == (16, 0, SAMPLES, 1000)
    data = path.with_suffix(".wdp").read_bytes()
    signature, size = data[2:18], int.from_bytes(data[20:28], "little")
    assert signature.rstrip(b"\0") == b"LASF_Spec"
    assert 60 + size == len(data)
    # Beams that the edge of the roof cuts in two are sampled more coarsely in scans than in waveforms.
    whole = np.asarray(las.wavepacket_offset)
    cut = np.isin(whole, whole[(np.asarray(las.classification) == 6) & (np.asarray(las.number_of_returns) > 1)])
    points = las.points[~cut][:: max(1, len(las.points) // 200)]
    for one in range(len(points)):
        start = int(points["wavepacket_offset"][one])
        samples = np.frombuffer(data, "<u2", SAMPLES, start)
        at = points["return_point_wave_location"][one] / 1000.0
        around = samples[max(0, int(at) - 3) : int(at) + 5]
        # The peak is within a sample of the return and, where it did not saturate, as high as its power.
        assert around.max() * gain == pytest.approx(min(points["power"][one], 3276.75), rel=0.25)
    # Later samples lie farther along the beam, at half the speed of light per picosecond.
    steps = np.stack([points[name] for name in ("x_t", "y_t", "z_t")], axis=1)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), 1.49896e-4, rtol=1e-4)
    assert (steps[:, 2] < 0).all()


def test_without_origin_and_waveforms_coordinates_are_local(tmp_path: Path) -> None:
    world = lake()
    world.origin = None
    scan = ph.Lidar("riegl/lms-q680i").scan(world, pose=ph.Pose((0, 0, 100)))
    with SurveyWriter(tmp_path / "local.las", world, index=None) as writer:
        writer.add(scan)
    las = laspy.read(tmp_path / "local.las")
    assert las.header.point_format.id == 6
    assert not [vlr for vlr in las.header.vlrs if vlr.record_id == 2112]
    np.testing.assert_allclose(las.xyz, scan.in_world().xyz, atol=5.1e-4)


def test_an_interrupted_survey_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), SurveyWriter(tmp_path / "broken.las", lake(), lidar=ph.Lidar("riegl/vq-840-gl")):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_clear_water_is_seen_through_only_in_the_visible() -> None:
    world = lake()
    world.remove(world.objects[2])
    pose = ph.Pose((0, 0, 60))
    green = ph.Lidar("riegl/vq-840-gl", noise=False).scan(world, pose=pose)
    infrared = ph.Lidar("riegl/lms-q680i", noise=False).scan(world, pose=pose)
    assert np.mean(green.fields["label"] == 72) > 0.4
    assert not np.any(infrared.fields["label"] == 72)
    assert material("clear-water").specular is not None
