"""Measurements and truth as ROS 2 messages, for bags and for live topics."""
