"""How good detections are against labels."""

from parhelion.evaluate.detections.boxes import Boxes, frames_of, overlaps, read_boxes
from parhelion.evaluate.detections.nuscenes_files import NuScenesPair, read_pair
from parhelion.evaluate.detections.nuscenes_score import evaluate_pair
from parhelion.evaluate.detections.precision import (
    DIFFICULTIES,
    Difficulty,
    Precision,
    average_precision,
    evaluate_frames,
)

__all__ = [
    "DIFFICULTIES", "Boxes", "Difficulty", "NuScenesPair", "Precision", "average_precision", "evaluate_frames",
    "evaluate_pair", "frames_of", "overlaps", "read_boxes", "read_pair",
]  # fmt: skip
