"""Sensors: each one emits and receives; data sheets are data."""

from __future__ import annotations


def lidar_names() -> list[str]:
    """Names of the lidars that come with the package, such as `velodyne/vlp-16`, sorted."""
    from parhelion.sensors.lidar.presets import preset_names

    return preset_names()
