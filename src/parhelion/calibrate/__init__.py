"""Calibration: data sheets with the noise of the user's own sensor, measured from drives or from boards.

frames = ph.calibrate.read_drive("drive.pcap")
found = ph.calibrate.calibrate_drive(frames, ph.Lidar("ouster/os1-128").config)
ph.calibrate.write_sheet(found.sheet, "my-lidar.yaml")
"""

from parhelion.calibrate.boards.boards import BoardCalibration, calibrate_boards
from parhelion.calibrate.boards.example import write_example
from parhelion.calibrate.drive.compare import compare_drives
from parhelion.calibrate.drive.drive import DriveCalibration, calibrate_drive
from parhelion.calibrate.identify import Identified, identify
from parhelion.calibrate.range_images import read_drive
from parhelion.calibrate.sheet import with_changes, write_sheet

__all__ = [
    "BoardCalibration",
    "DriveCalibration",
    "Identified",
    "calibrate_boards",
    "calibrate_drive",
    "compare_drives",
    "identify",
    "read_drive",
    "with_changes",
    "write_example",
    "write_sheet",
]
