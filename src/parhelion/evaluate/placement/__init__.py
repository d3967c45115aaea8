"""Placement of sensors on a vehicle, or of anchors in a building."""

from parhelion.evaluate.placement.objectives import gdop
from parhelion.evaluate.placement.report import result_of
from parhelion.evaluate.placement.schema import PlacementFile, json_schema
from parhelion.evaluate.placement.study import Answer, Placement

__all__ = ["Answer", "Placement", "PlacementFile", "gdop", "json_schema", "result_of"]
