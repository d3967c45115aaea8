"""Stream a scenario as ROS 2 topics: `ros2 launch parhelion_ros stream.launch.py scenario:=drive.yaml speed:=0.5`.

Topics: those of the sensors as their drivers name them, /tf, /tf_static, /clock, and ground truth:
/ground_truth/odom, /ground_truth/objects (vision_msgs/Detection3DArray), /actors/<name>/odom,
/<camera>/ground_truth/objects (vision_msgs/Detection2DArray).
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import EnvironmentVariable, LaunchConfiguration


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("scenario", description="Scenario file (.yaml)."),
            DeclareLaunchArgument("speed", default_value="1.0", description="Simulated seconds per second."),
            DeclareLaunchArgument("domain", default_value="0", description="DDS domain."),
            DeclareLaunchArgument(
                "ros_distro",
                default_value=EnvironmentVariable("ROS_DISTRO", default_value="jazzy"),
                description="Distribution of the subscribers: sensor_msgs/Range has another layout in humble.",
            ),
            ExecuteProcess(
                cmd=[
                    "parhelion", "stream", LaunchConfiguration("scenario"), "--ros2",
                    "--speed", LaunchConfiguration("speed"), "--domain", LaunchConfiguration("domain"),
                    "--ros-distro", LaunchConfiguration("ros_distro"),
                ],
                output="screen",
            ),
        ]
    )  # fmt: skip
