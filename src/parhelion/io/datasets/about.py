"""What each data set's README.txt says."""

from __future__ import annotations

_CAMERA = """

image_2 is the first camera on the lidar's vehicle, image_3 its second lens where it has two: the picture nearest in
time to the scan's start, with the distortion of the lens taken out. P0 and P2 are the left picture, P1 and P3 the right
one. Without a camera there are no pictures, and the camera of the calibration is a nominal one that sits in the lidar
and looks along its x axis. The sensor's own motion during a scan is taken out: points are in the lidar's frame at the
scan's start. Intensity is that of Velodyne's scale, 0 to 255, divided by 255.
"""

TITLES = {
    "kitti-odometry": "KITTI odometry",
    "semantic-kitti": "SemanticKITTI",
    "kitti-object": "KITTI object",
    "nuscenes": "nuScenes",
    "coco-panoptic": "COCO panoptic",
}
"""The sets by kind."""

ABOUT = {
    "kitti-odometry": """
A sequence for every lidar, times on the run's clock [s], and the poses of the camera in its first frame.
"""
    + _CAMERA,
    "semantic-kitti": """
As KITTI odometry, with a class and an instance for every point. semantic-kitti.yaml is for the set's own tools,
label-map.yaml says what the words of this run became.
"""
    + _CAMERA,
    "kitti-object": """
frames.csv says which scan a frame is. label_2 holds what is in the picture, label_360 all around. Tr_velo_to_cam goes
from the lidar at the scan's start to the camera at the picture's. A nominal camera is level, whatever the lidar is, so
that boxes stand upright in its frame; a real one is as it is mounted, and rotation_y is about its y axis.
"""
    + _CAMERA,
    "nuscenes": """
Load it as version v1.0-mini. The global frame is the world's, timestamps are on the run's clock in microseconds.
Lidars, cameras and radars are there; LIDAR_TOP is the first lidar of a vehicle, CAM_FRONT a camera called front and
RADAR_FRONT such a radar, whose velocities are those along the line of sight. Points are in the lidar's frame at the
scan's start, the vehicle's motion during it taken out; intensity is that of Velodyne's scale, 0 to 255. Pictures are
PNG files with the distortion of the lens taken out.
""",
    "coco-panoptic": """
images holds the pictures of all cameras, as their lenses saw them, annotations/panoptic the segments of each as a PNG
file, and annotations/panoptic.json what they are. A segment's number is red + 256 green + 65536 blue: the number of the
label for stuff, 65536 + the instance for things, 0 where nothing is seen. Things are labels of what moves or can be
moved.
""",
}
"""What is in a set, by kind."""
