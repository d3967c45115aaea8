"""Tests for each part of the source: the first row whose prefix matches a file applies."""

from __future__ import annotations

ROOMS: list[tuple[str, list[str]]] = [
    ("core/random.py", ["unit/core/test_random.py"]),
    ("core/pose.py", ["unit/core/test_pose.py"]),
    ("core/trajectory.py", ["unit/core/test_trajectory.py"]),
    ("core/clouds.py", ["unit/core/test_clouds.py"]),
    ("core/image.py", ["unit/core/test_image.py"]),
    ("core/arrays.py", ["unit/core/test_arrays.py"]),
    ("core/config.py", ["unit/core/test_config.py"]),
    ("core/explain.py", ["contracts/test_wrong_entries.py", "unit/core/test_config.py"]),
    ("makers/velodyne/models.py", ["unit/io/test_velodyne_models.py", "unit/io/test_velodyne.py"]),
    ("makers/velodyne/", ["unit/io/test_velodyne.py", "unit/io/test_velodyne_files.py", "unit/io/test_turns.py"]),
    ("io/ply.py", ["unit/io/test_ply.py"]),
    ("io/pcd.py", ["unit/io/test_pcd.py", "unit/io/test_lzf.py"]),
    ("io/npz.py", ["unit/io/test_npz.py"]),
    ("io/las.py", ["unit/io/test_las.py"]),
    ("motion/actors/person.py", ["unit/motion/test_gait.py", "physics/test_actor_motion.py"]),
    ("motion/actors/person.py", ["unit/motion/test_gait.py", "physics/test_actor_motion.py"]),
    ("core/schedule.py", ["unit/motion/test_actors.py", "physics/test_actor_motion.py"]),
    ("motion/actors/body.py", ["unit/motion/test_actors.py", "physics/test_actor_motion.py"]),
    ("motion/actors/body.py", ["unit/motion/test_actors.py", "physics/test_actor_motion.py"]),
    ("motion/actors/traffic.py", ["physics/test_actor_motion.py", "unit/motion/test_actors.py"]),
    ("motion/vehicles/base.py", ["unit/motion/test_vehicles_by_hand.py", "physics/test_vehicles_ground.py"]),
    ("motion/vehicles/ground.py", ["unit/motion/test_vehicles_by_hand.py", "physics/test_vehicles_ground.py"]),
    ("motion/vehicles/multirotor.py",
     ["unit/motion/test_vehicles_by_hand.py", "physics/test_vehicles_multirotor.py"]),
    ("motion/vehicles/ground.py", ["physics/test_vehicles_ground.py", "physics/test_vehicles_drive.py"]),
    ("motion/vehicles/vessel.py", ["physics/test_vehicles_vessel.py"]),
    ("motion/vehicles/vessel.py", ["physics/test_vehicles_vessel.py"]),
    ("motion/sea_spectrum.py", ["physics/test_water.py"]),
    ("motion/spline.py", ["unit/motion/test_motion_spline.py"]),
    ("motion/state.py", ["unit/motion/test_motion_state.py"]),
    ("motion/recorded.py", ["unit/motion/test_motion_recorded.py"]),
    ("calibrate/imu.py", ["statistics/test_imu_allan.py"]),
    ("sensors/body/imu", ["unit/sensors/test_samples.py", "physics/test_imu.py", "statistics/test_imu_allan.py"]),
    ("sensors/body/odometry.py", ["unit/sensors/test_samples.py", "physics/test_odometry_barometer_magnetometer.py"]),
    ("sensors/body/barometer.py", ["physics/test_odometry_barometer_magnetometer.py"]),
    ("sensors/body/magnetometer.py", ["physics/test_odometry_barometer_magnetometer.py"]),
    ("surfaces/spectra.py", ["unit/surfaces/test_spectra.py"]),
    ("surfaces/brdf.py", ["physics/test_brdf.py", "physics/test_brdf_curves.py"]),
    ("weather/media/fog.py", ["physics/test_weather_fog.py"]),
    ("weather/mie.py", ["physics/test_weather_mie.py"]),
    ("weather/media/rain.py", ["physics/test_weather_rain.py"]),
    ("weather/media/snow.py", ["physics/test_weather_snow.py"]),
    ("weather/particles.py", ["physics/test_weather_drop_sizes.py", "statistics/test_weather_detectable.py"]),
    ("weather/media/dust.py", ["physics/test_weather_dust.py", "statistics/test_weather_dust_trail.py"]),
    ("weather/grids.py", ["physics/test_weather_dust.py"]),
    ("weather/plume.py", ["statistics/test_weather_dust_trail.py"]),
    ("motion/wake.py", ["physics/test_wake.py"]),
    ("weather/media/spray.py", ["physics/test_weather_spray.py"]),
    ("weather/spray_plume.py", ["physics/test_weather_spray.py"]),
    ("weather/raised.py", ["unit/scenario/test_raised_dust.py", "unit/scenario/test_raised_spray.py"]),
    ("weather/fields.py", ["unit/weather/test_weather_fields.py"]),
    ("world/file.py", ["unit/world/test_world_file.py"]),
    ("world/loaders.py", ["unit/world/test_loaders.py"]),
    ("world/mesh.py", ["unit/world/test_mesh.py"]),
    ("world/shapes.py", ["unit/world/test_shapes.py"]),
    ("world/procedural/relief.py", ["unit/world/test_relief.py"]),
    ("world/procedural/countryside.py", ["unit/world/test_woods.py"]),
]  # fmt: skip
"""Prefix of the path under src/parhelion, and the tests under tests/ that cover it, the most sensitive ones first.

Kernels, live feeds, pictures and the command line are not listed, because only tests of whole runs cover them, which
take minutes each. Bodies of people, machines and objects are not listed either, because their dimensions were chosen
freely.
"""


def held_by(path: str) -> list[str]:
    """Tests of a source file by its path under src/parhelion; none if it is not in the table."""
    return next((tests for start, tests in ROOMS if path.startswith(start)), [])
