"""What each data set's README.txt says."""

from __future__ import annotations

_NO_CAMERA = """

Cameras are not simulated: there are no pictures. The camera of the calibration is a nominal one that sits in the lidar
and looks along its x axis. The sensor's own motion during a scan is taken out: points are in the lidar's frame at the
scan's start. Intensity is that of Velodyne's scale, 0 to 255, divided by 255.
"""

TITLES = {
    "kitti-odometry": "KITTI odometry",
    "semantic-kitti": "SemanticKITTI",
    "kitti-object": "KITTI object",
    "nuscenes": "nuScenes",
}
"""The sets by kind."""

ABOUT = {
    "kitti-odometry": """
A sequence for every lidar, times on the run's clock [s], and the poses of the nominal camera in its first frame.
"""
    + _NO_CAMERA,
    "semantic-kitti": """
As KITTI odometry, with a class and an instance for every point. semantic-kitti.yaml is for the set's own tools,
label-map.yaml says what the words of this run became.
"""
    + _NO_CAMERA,
    "kitti-object": """
frames.csv says which scan a frame is. label_2 holds what is in the nominal picture, label_360 all around. The camera is
level, whatever the lidar is, so that boxes stand upright in its frame.
"""
    + _NO_CAMERA,
    "nuscenes": """
Load it as version v1.0-mini. The global frame is the world's, timestamps are on the run's clock in microseconds. Only
lidars are there; LIDAR_TOP is the first of a vehicle. Points are in the lidar's frame at the scan's start, the
vehicle's motion during it taken out; intensity is that of Velodyne's scale, 0 to 255.
""",
}
"""What is in a set, by kind."""
