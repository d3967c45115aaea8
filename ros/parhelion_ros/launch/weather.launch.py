"""Put rain on live clouds: `ros2 launch parhelion_ros weather.launch.py input:=/velodyne_points rain:=25.0`."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import LaunchConfiguration


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("input", default_value="/velodyne_points", description="Topic of the clouds."),
            DeclareLaunchArgument("output", default_value="/noisy_points", description="Topic of the result."),
            DeclareLaunchArgument("sensor", default_value="velodyne/vlp-16", description="Preset of the lidar."),
            DeclareLaunchArgument("rain", default_value="25.0", description="Rain rate [mm/h]."),
            ExecuteProcess(
                cmd=[
                    "parhelion", "weather", "--ros2", LaunchConfiguration("input"), LaunchConfiguration("output"),
                    "--sensor", LaunchConfiguration("sensor"), "--rain", LaunchConfiguration("rain"),
                ],
                output="screen",
            ),
        ]
    )  # fmt: skip
