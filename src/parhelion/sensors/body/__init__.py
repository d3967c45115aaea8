"""The inertial measurement unit: `imu.py` is the sensor, `errors.py` what it does to the truth, `allan.py` the test."""
