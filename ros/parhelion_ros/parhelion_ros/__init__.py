"""Launch files and executables of Parhelion for ROS 2."""
