"""Realism of simulated frames: a classifier separates them from real ones, and shots are compared one by one."""

from parhelion.evaluate.realism import report
from parhelion.evaluate.realism.features import FEATURES, Feature
from parhelion.evaluate.realism.rings import Frame, frame_of
from parhelion.evaluate.realism.shots import ShotMeasures, ShotPair, measures, pair_of
from parhelion.evaluate.realism.study import Options, Realism, compare
from parhelion.evaluate.realism.two_sample import FeatureResult, TwoSample, auc_of

__all__ = [
    "FEATURES", "Feature", "FeatureResult", "Frame", "Options", "Realism", "ShotMeasures", "ShotPair", "TwoSample",
    "auc_of", "compare", "frame_of", "measures", "pair_of", "report",
]  # fmt: skip
