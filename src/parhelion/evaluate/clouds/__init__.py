"""Similarity of simulated and real clouds."""

from parhelion.evaluate.clouds.compare import Comparison, Options, compare, compare_files, pairs_of
from parhelion.evaluate.clouds.cutouts import Boxes, CutOut, boxes_of, compare_objects, cut_out, geometric, random_drop
from parhelion.evaluate.clouds.distances import EarthMover, chamfer, earth_mover, kolmogorov_smirnov, wasserstein
from parhelion.evaluate.clouds.objects import DistanceRow, SampledObject, by_distance, objects_in
from parhelion.evaluate.clouds.rates import (
    PointsByOrigin,
    density,
    detections,
    mape_percent,
    range_error,
    scan_area,
    snr_db,
    snr_of_shots,
    sparsity_percent,
)

__all__ = [
    "Boxes", "Comparison", "CutOut", "DistanceRow", "EarthMover", "Options", "PointsByOrigin", "SampledObject",
    "boxes_of",
    "by_distance", "chamfer", "compare", "compare_files", "compare_objects", "cut_out", "density", "detections",
    "earth_mover", "geometric", "kolmogorov_smirnov", "mape_percent", "objects_in", "pairs_of", "random_drop",
    "range_error", "scan_area", "snr_db", "snr_of_shots", "sparsity_percent", "wasserstein",
]  # fmt: skip
