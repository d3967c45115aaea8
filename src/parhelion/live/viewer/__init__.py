"""The viewer in the browser: a world, a lidar in it, and its cloud as weather, mount and time are changed."""

from parhelion.live.viewer.server import Viewer
from parhelion.live.viewer.session import Session
from parhelion.live.viewer.stages import CloudStage, FramesStage, Request, ScenarioStage, ViewFrame, WorldStage

__all__ = ["CloudStage", "Request", "ScenarioStage", "Session", "FramesStage", "ViewFrame", "Viewer", "WorldStage"]
