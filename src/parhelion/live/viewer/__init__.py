"""Browser viewer: a world, a lidar and its cloud, with controls for weather, mount and time."""

from parhelion.live.viewer.server import Viewer
from parhelion.live.viewer.session import Session
from parhelion.live.viewer.stages import CloudStage, FramesStage, Request, ScenarioStage, ViewFrame, WorldStage

__all__ = ["CloudStage", "Request", "ScenarioStage", "Session", "FramesStage", "ViewFrame", "Viewer", "WorldStage"]
