"""How good detections are against labels."""

from parhelion.evaluate.detections.boxes import Boxes, frames_of, overlaps, read_boxes
from parhelion.evaluate.detections.precision import (
    DIFFICULTIES,
    Difficulty,
    Precision,
    average_precision,
    evaluate_frames,
)

__all__ = [
    "DIFFICULTIES", "Boxes", "Difficulty", "Precision", "average_precision", "evaluate_frames", "frames_of", "overlaps",
    "read_boxes",
]  # fmt: skip
