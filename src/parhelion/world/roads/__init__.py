"""Roads from OpenDRIVE: reference lines, surfaces with markings and kerbs, and the graph of lanes."""

from parhelion.world.roads.lanes import Lane, LaneGraph

__all__ = ["Lane", "LaneGraph"]
