"""Browser viewer: a world, a lidar and its cloud, with controls for weather, mount and time."""

from parhelion.live.viewer.recordings import BagStage, CloudStage, FramesStage, RecordingStage, recording_stage
from parhelion.live.viewer.server import Viewer
from parhelion.live.viewer.session import Session
from parhelion.live.viewer.stages import Request, ScenarioStage, ViewFrame, WorldStage

__all__ = [
    "BagStage", "CloudStage", "FramesStage", "RecordingStage", "Request", "ScenarioStage", "Session", "ViewFrame",
    "Viewer", "WorldStage", "recording_stage",
]  # fmt: skip
