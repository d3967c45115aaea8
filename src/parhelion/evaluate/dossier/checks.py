"""Checks of sensor models: the quantity, the data it was compared with, the tolerance and the verdict of each.

A check applies to all presets of a kind, or to those whose names match. `tests/unit/evaluate/test_dossier.py` verifies
that every test and page exists and that every pattern matches a preset.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

Basis = Literal["closed form", "publication", "recording"]
Verdict = Literal["agrees", "partly", "differs"]


@dataclass(frozen=True)
class Check:
    """One comparison of a model with a reference."""

    kind: str
    """Sensor kind."""
    models: tuple[str, ...]
    """Patterns of preset names."""
    quantity: str
    fields: tuple[str, ...]
    """Patterns of the fields of data sheets that decide the quantity."""
    basis: Basis
    reference: str
    tolerance: str
    verdict: Verdict
    test: str
    """Test file, or test, below `tests/`; '' if a script of the page computes the comparison."""
    page: str
    """Page below `docs/`, with its heading if it has one."""

    def applies(self, kind: str, model: str) -> bool:
        """True if the check concerns a preset of a kind."""
        return self.kind == kind and any(fnmatch(model, pattern) for pattern in self.models)


def _check(
    kind: str, models: str, quantity: str, fields: str, basis: Basis, reference: str, tolerance: str, verdict: Verdict,
    test: str, page: str,
) -> Check:  # fmt: skip
    return Check(
        kind, tuple(models.split()), quantity, tuple(fields.split()), basis, reference, tolerance, verdict, test, page
    )


_LIDAR_RECORDED = "physics/test_lidar_recordings.py"
CHECKS: tuple[Check, ...] = (
    # ---- lidar
    _check("lidar", "*", "longest range by reflectance", "range.rated range.max_m receiver.threshold_to_noise",
           "closed form", "radar equation; half of the shots detect a target at its rated range", "binomial, 1e-4",
           "agrees", "physics/test_lidar_rated_table.py", "models/lidar-link-budget.md"),
    _check("lidar", "*", "power of flat walls, with and without divergence",
           "beam.divergence_mrad beam.exit_diameter_mm beam.shape beam.profile", "closed form",
           "integral over the footprint", "sampling error of the sub-rays",
           "agrees", "physics/test_lidar_link_budget.py", "models/lidar-link-budget.md"),
    _check("lidar", "*", "attenuation in rain, fog, snow and dust", "wavelength_nm", "publication",
           "Beer-Lambert law with published extinctions", "printed digits", "agrees", "physics/test_lidar_weather.py",
           "weather-validation.md"),
    _check("lidar", "*", "extinction and system constant from two targets", "range.rated", "publication",
           "Huang et al. 2023, Table II: 80 % at 120 m, 10 % at 50 m", "printed digits", "agrees",
           "physics/test_lidar_link_budget.py::test_huang_velodyne_16", "models/lidar-link-budget.md"),
    _check("lidar", "hesai/xt32", "range noise by intensity", "noise.range_sigma*", "recording",
           "four revolutions of an XT32 (tier4/nebula)", "30 % above 16 counts (fitted), 40 % below (predicted)",
           "agrees",
           f"{_LIDAR_RECORDED}::test_noise_of_an_xt32_by_intensity_is_the_recorded_one",
           "recordings.md#xt32-pandar40p-and-qt64-in-one-room"),
    _check("lidar", "hesai/xt32 hesai/pandar64", "distance of two returns of a shot", "receiver.merge_distance_m",
           "recording", "dual returns of XT32, QT64 and Pandar40P (tier4/nebula)",
           "0.15 m; XT32 fitted, Pandar64 predicted",
           "agrees", f"{_LIDAR_RECORDED}::test_two_returns_of_a_shot_are_apart_by_the_merge_distance",
           "recordings.md#xt32-pandar40p-and-qt64-in-one-room"),
    _check("lidar", "hesai/xt32 hesai/pandar64 velodyne/vlp-32c velodyne/vls-128", "columns and firing period",
           "pattern.columns pattern.rate_hz pattern.firing*", "recording", "packets of tier4/nebula",
           "the recorded VLS-128 fires every 55.2 µs instead of 53.3 µs", "partly",
           f"{_LIDAR_RECORDED}::test_columns_and_times_of_hesai_and_velodyne_packets_are_those_of_the_presets",
           "recordings.md#vlp-32c-and-vls-128"),
    _check("lidar", "velodyne/vlp-32c", "range noise", "noise.range_sigma*", "recording",
           "revolutions of a VLP-32C (tier4/nebula)", "25 %; fitted", "agrees",
           f"{_LIDAR_RECORDED}::test_noise_of_a_vlp_32c_is_the_recorded_one", "recordings.md#vlp-32c-and-vls-128"),
    _check("lidar", "hesai/pandar64", "intensity and range noise in a street", "intensity* noise.range_sigma*",
           "recording", "two places held out of four (PJLab)",
           "noise 30 %, intensity a factor of 1.5; found 20 % and 43 %",
           "partly", f"{_LIDAR_RECORDED}::test_a_pandar64_in_the_city_reads_and_scatters_as_recorded",
           "recordings.md#pandar64-on-cars"),
    _check("lidar", "velodyne/hdl-64e-s2", "range noise of a drive that was not fitted", "noise.range_sigma*",
           "recording", "KITTI 0926; elevations and noise fitted to KITTI 0005", "25 %; found 1 %", "agrees",
           f"{_LIDAR_RECORDED}::test_noise_of_an_hdl_64e_is_that_of_another_drive", "recordings.md#hdl-64e-s2"),
    _check("lidar", "velodyne/hdl-64e-s2", "intensity of a street", "intensity*", "recording", "KITTI 0005 and 0926",
           "see the page", "partly", "physics/test_lidar_intensity_recorded.py",
           "models/lidar-intensity.md#hdl-64e-against-kitti"),
    _check("lidar", "velodyne/hdl-64e-s2", "local features of points in a street", "*", "recording",
           "two-sample test of the city against KITTI 0005", "AUC 0.95 by shape; two KITTI drives 0.72", "differs",
           "unit/evaluate/test_realism.py", "realism.md#measured"),
    _check("lidar", "ouster/os0-64", "signal and range noise by range",
           "range.overlap receiver.threshold_photons noise.range_sigma*", "recording", "hand-held OS0 (hku-mars/BALM)",
           "signal within 25 % from 3 to 30 m; noise 1.2 to 1.9 times too large", "partly",
           f"{_LIDAR_RECORDED}::test_signal_and_noise_of_a_hand_held_os0_are_those_of_the_preset",
           "recordings.md#hand-held-os0"),
    _check("lidar", "ouster/os0-32 ouster/os1-32 ouster/os0-128 ouster/os1-128", "photons by range and lost pixels",
           "range.overlap receiver.threshold_photons receiver.saturation noise.range_sigma*", "recording",
           "captures of ouster-sdk", "photons within 16 %; too many lost pixels below 8 photons", "partly",
           "", "models/lidar-near-field.md"),
    # ---- camera
    _check("camera", "*", "lens and picture geometry", "lens* width_px height_px pixel*", "closed form",
           "OpenCV calibrates rendered boards; lidar points lie on their objects", "see the test", "agrees",
           "physics/test_camera_geometry.py", "models/camera.md"),
    _check("camera", "*", "noise of the pixels", "noise* electronics* sensor* full_well* read_noise*", "closed form",
           "photon transfer: shot, read and quantisation noise", "chi-square, 1e-4", "agrees",
           "statistics/test_camera_noise.py", "models/camera-electronics.md"),
    _check("camera", "intel/*", "depth noise by distance", "depth*", "closed form", "noise of the disparity",
           "see the test", "agrees", "physics/test_camera_depth.py::test_noise_of_depth_is_that_of_disparity",
           "models/camera.md"),
    _check("camera", "intel/*", "scatter of the mean depth of a wall", "depth*", "recording", "D435 (student report)",
           "correlation and pattern fitted; third distance predicted", "agrees",
           "physics/test_camera_depth.py::test_mean_depth_of_a_wall_scatters_as_recorded_with_a_d435",
           "models/camera.md#real-against-simulated"),
    # ---- radar
    _check("radar", "*", "radar equation, cross-sections, Doppler and mirrors", "*", "closed form",
           "plates, spheres, corners and two-ray propagation", "see the test", "agrees",
           "physics/test_radar_physics.py", "models/radar.md"),
    _check("radar", "*", "false alarms and noise of the cube", "detection* noise*", "closed form",
           "constant false alarm rate", "binomial, 1e-4", "agrees", "statistics/test_radar_noise.py",
           "models/radar.md"),
    _check("radar", "ti/iwr6843", "leakage and ridge of still objects in raw samples", "leakage*", "recording",
           "raw samples of a 77 GHz radar of the same maker (OpenRadar)", "0.5 dB; leakage fitted", "partly",
           "physics/test_radar_adc.py::test_leakage_and_static_ridge_are_those_of_a_recording",
           "models/radar.md#real-against-simulated"),
    # ---- sound
    _check("echo", "*", "absorption, image sources and target strength", "*", "publication",
           "ISO 9613, Ainslie and McColm 1998, Knudsen; image sources of a shoebox", "printed digits", "agrees",
           "physics/test_echo_physics.py", "models/echo.md"),
    # ---- inertial and other streams
    _check("imu", "*", "readings in known motions, and fixed errors", "*", "closed form",
           "rest, free fall, turntable, sine; matrix, bias and g-sensitivity", "see the test", "agrees",
           "physics/test_imu.py", "models/imu.md"),
    _check("imu", "*", "Allan deviation", "gyroscope* accelerometer* noise* bias*", "closed form",
           "white noise, bias instability and random walk", "chi-square, 1e-4", "agrees",
           "statistics/test_imu_allan.py", "models/imu.md"),
    _check("odometry", "*", "wheel kinematics and errors", "*", "closed form", "circles, Ackermann steering, slip",
           "see the test", "agrees", "physics/test_odometry_barometer_magnetometer.py", "models/small-sensors.md"),
    _check("barometer", "*", "pressure by height", "*", "publication", "tables of the standard atmosphere",
           "printed digits", "agrees", "physics/test_odometry_barometer_magnetometer.py", "models/small-sensors.md"),
    _check("magnetometer", "*", "Earth's field and errors", "*", "publication", "tables and closed forms",
           "printed digits", "agrees", "physics/test_odometry_barometer_magnetometer.py", "models/small-sensors.md"),
    _check("gnss", "*", "orbits, air and loops", "*", "publication", "RTKLIB's unit test, closed forms",
           "printed digits", "agrees", "physics/test_gnss_models.py", "models/gnss.md"),
    _check("gnss", "u-blox/f9*", "C/N0 by elevation", "cn0* antenna* loops*", "recording",
           "u-blox F9K on a drive (gps-measurement-tools)", "C/N0 and thresholds fitted", "agrees",
           "physics/test_gnss_reception.py::test_signals_by_elevation_are_those_of_a_recording",
           "models/gnss.md#real-against-simulated"),
    _check("uwb", "*", "propagation and losses", "*", "closed form", "image sources, and Sionna RT if installed",
           "see the test", "agrees", "physics/test_uwb_paths.py", "models/uwb.md"),
    _check("uwb", "*dw1000*", "range bias, level and losses outdoors", "*", "recording", "DW1000 (UWB-dataset)",
           "3 cm, 1.5 dB; nine fields of the receiver fitted", "agrees",
           "physics/test_uwb_recordings.py::test_outdoor_losses_bias_and_level_agree_with_recordings",
           "models/uwb.md#real-against-simulated"),
)  # fmt: skip


def checks_of(kind: str, model: str) -> list[Check]:
    """Checks that concern a preset."""
    return [check for check in CHECKS if check.applies(kind, model)]
