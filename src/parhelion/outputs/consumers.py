"""All tables by which readers of measurements know what to do with each type of record.

A new kind of sensor is finished when every one of these has a function for its records, or a reason why not; a contract
test walks kinds x readers and fails on a hole.
"""

from __future__ import annotations

from typing import Any

from parhelion.core.consumers import Consumer
from parhelion.outputs.captures import PACKETS
from parhelion.outputs.datasets.base import DATASETS
from parhelion.outputs.files import FILES
from parhelion.outputs.foxglove.rules import FOXGLOVE
from parhelion.outputs.report.collect import STREAMS
from parhelion.outputs.report.frames import FRAMES
from parhelion.outputs.ros.rules import ROS

READERS: tuple[Consumer[Any], ...] = (FILES, ROS, FOXGLOVE, PACKETS, DATASETS)
"""Those that every type of record must be known to; the viewer's table is `live.viewer.layers.VIEWER`."""
REPORT: dict[str, Consumer[Any]] = {"frames": FRAMES, "samples": STREAMS}
"""The report's tables, by what a kind of sensor gives."""
