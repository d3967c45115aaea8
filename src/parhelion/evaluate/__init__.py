"""Evaluation: clouds against clouds, detections against labels, odometry against the truth."""
