"""Similarity of simulated and real clouds."""

from parhelion.evaluate.clouds.compare import Comparison, Options, compare, compare_files, pairs_of
from parhelion.evaluate.clouds.distances import EarthMover, chamfer, earth_mover, kolmogorov_smirnov, wasserstein
from parhelion.evaluate.clouds.objects import DistanceRow, SeenObject, by_distance, objects_in
from parhelion.evaluate.clouds.rates import (
    Detections,
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
    "Comparison", "Detections", "DistanceRow", "EarthMover", "Options", "SeenObject", "by_distance", "chamfer",
    "compare", "compare_files", "density", "detections", "earth_mover", "kolmogorov_smirnov", "mape_percent",
    "objects_in", "pairs_of", "range_error", "scan_area", "snr_db", "snr_of_shots", "sparsity_percent", "wasserstein",
]  # fmt: skip
