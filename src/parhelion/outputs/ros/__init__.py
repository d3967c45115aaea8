"""Measurements and truth as ROS 2 has them, for bags and for live topics."""
