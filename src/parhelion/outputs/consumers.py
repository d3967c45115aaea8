"""All consumers of measurements, each a table from type of record to function.

A new kind of sensor is complete when every consumer has a function for its records, or a reason to skip them. A
contract test checks every kind against every consumer.
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

CONSUMERS: tuple[Consumer[Any], ...] = (FILES, ROS, FOXGLOVE, PACKETS, DATASETS)
"""Consumers that must cover every type of record; the viewer's table is `live.viewer.layers.VIEWER`."""
REPORT: dict[str, Consumer[Any]] = {"frames": FRAMES, "samples": STREAMS}
"""The report's tables, by the output of a kind of sensor."""
