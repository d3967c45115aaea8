"""Scores of detections against labels."""

from parhelion.evaluate.detections.kitti import (
    DIFFICULTIES,
    Boxes,
    Difficulty,
    Precision,
    average_precision,
    evaluate_frames,
    frames_of,
    overlaps,
    read_boxes,
)
from parhelion.evaluate.detections.nuscenes import evaluate_pair
from parhelion.evaluate.detections.nuscenes_files import NuScenesPair, read_pair

__all__ = [
    "DIFFICULTIES", "Boxes", "Difficulty", "NuScenesPair", "Precision", "average_precision", "evaluate_frames",
    "evaluate_pair", "frames_of", "overlaps", "read_boxes", "read_pair",
]  # fmt: skip
