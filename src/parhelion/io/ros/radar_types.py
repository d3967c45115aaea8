"""Messages that ROS 2 Humble does not have by itself, as text."""

from __future__ import annotations

DEFINITIONS = {
    "radar_msgs/msg/RadarReturn": (
        "float32 range\nfloat32 azimuth\nfloat32 elevation\nfloat32 doppler_velocity\nfloat32 amplitude\n"
    ),
    "radar_msgs/msg/RadarScan": "std_msgs/Header header\nradar_msgs/RadarReturn[] returns\n",
}
"""Fields of radar_msgs, which is no part of ROS 2 Humble itself (m, rad, m/s, dB)."""
