"""Radars: rays, cube, detections."""
