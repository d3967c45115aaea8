"""Radar: ray paths, radar cube, detections and cross-sections."""
