"""Sensors that measure the motion of their body: IMU, wheel odometry, barometer and magnetometer."""
