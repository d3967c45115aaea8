"""Stream a scenario as ROS 2 topics: `ros2 launch parhelion_ros stream.launch.py scenario:=drive.yaml speed:=0.5`."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import LaunchConfiguration


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("scenario", description="Scenario file (.yaml)."),
            DeclareLaunchArgument("speed", default_value="1.0", description="Simulated seconds per second."),
            DeclareLaunchArgument("domain", default_value="0", description="DDS domain."),
            ExecuteProcess(
                cmd=[
                    "parhelion", "stream", LaunchConfiguration("scenario"), "--ros2",
                    "--speed", LaunchConfiguration("speed"), "--domain", LaunchConfiguration("domain"),
                ],
                output="screen",
            ),
        ]
    )  # fmt: skip
