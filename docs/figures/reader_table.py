"""Write the table of docs/architecture.md with the output of every consumer for every kind of sensor.

The script builds a scenario with one sensor of each kind and looks up its records in the table of each consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import parhelion as ph
from parhelion.core.consumers import Consumer
from parhelion.live.viewer.layers import VIEWER
from parhelion.outputs.captures import PACKETS
from parhelion.outputs.consumers import REPORT
from parhelion.outputs.datasets.base import DATASETS
from parhelion.outputs.files import FILES
from parhelion.outputs.foxglove.rules import FOXGLOVE
from parhelion.outputs.ros.rules import ROS, TopicContext
from parhelion.scenario.sensors import OnBoard, StreamOnBoard
from parhelion.sensors.kinds import kinds

PAGE = Path(__file__).resolve().parents[1] / "architecture.md"
BEGIN, END = "<!-- readers: begin -->", "<!-- readers: end -->"

Cell = Callable[[OnBoard], str]


def table() -> str:
    """Markdown table of consumers by kind, followed by the reasons for empty cells."""
    options: dict[str, Any] = {"uwb": {"anchors": [[5.0, 0.0, 2.0]]}}
    fields = [
        {
            "name": kind.name, "type": kind.name, "model": kind.preset_names()[0], "vehicle": "it",
            "options": options.get(kind.name, {}),
        }
        for kind in kinds().values()
        if kind.class_path.startswith("parhelion.")  # without kinds of other installed packages
    ]  # fmt: skip
    place = {"name": "it", "motion": {"fixed": {}}}
    scenario = ph.Scenario.from_mapping(
        {"duration_s": 1, "world": "test-range", "vehicles": [place], "sensors": fields}
    )

    def ros_type(sensor: OnBoard) -> str:
        context = TopicContext(sensor, "/a/b", "a", "driver", round)
        return f"`{ROS.require(sensor.record_type).topics(context)['/a/b'].replace('/msg/', '/')}`"

    def first_words(function: Any) -> str:
        text = function.__doc__.rstrip(".")
        return text[0].lower() + text[1:]

    def report(sensor: OnBoard) -> str:
        rule = REPORT[sensor.kind.output].require(sensor.record_type)
        if not isinstance(sensor, StreamOnBoard):
            return "pictures"
        drawn = rule(sensor.example(scenario.world, 0))
        return ", ".join(words.lower() for _, words, _, _ in drawn)

    def viewer(sensor: OnBoard) -> str:
        layer = VIEWER.require(sensor.record_type)
        if layer.picture is not None:
            return "a picture in the scene and the panel"
        if layer.segments is not None:
            return "lines in the scene, a line of numbers"
        if layer.dots is not None:
            return "points next to the cloud, a line of numbers"
        return "points in the scene" if layer.in_scene else "a line of numbers"

    rows: list[tuple[str, str, Consumer[Any] | None, Cell]] = [
        ("files", "outputs/files.py", FILES, lambda s: f"`{FILES.require(s.record_type).ending(s, scenario)}`"),
        (
            "ROS", "outputs/ros/rules.py", ROS,
            ros_type,
        ),
        (
            "Foxglove", "outputs/foxglove/rules.py", FOXGLOVE,
            lambda s: f"`{FOXGLOVE.require(s.record_type).schemas(s, scenario, '/a/b')['/a/b'].name}`",
        ),
        ("packets", "outputs/captures.py", PACKETS, lambda s: first_words(PACKETS.require(s.record_type))),
        ("data sets", "outputs/datasets/__init__.py", DATASETS, lambda s: DATASETS.require(s.record_type).summary),
        ("report", "outputs/report/", None, report),
        (
            "viewer", "live/viewer/layers.py", VIEWER,
            viewer,
        ),
    ]  # fmt: skip
    lines = [
        f"| consumer | {' | '.join(sensor.name for sensor in scenario.sensors)} |",
        f"| --- |{' --- |' * len(scenario.sensors)}",
    ]
    reasons: dict[str, None] = {}
    for name, file, consumer, cell in rows:
        cells = []
        for sensor in scenario.sensors:
            reason = None if consumer is None else consumer.reason(sensor.record_type)
            if reason is not None:
                reasons[f"{name[0].upper()}{name[1:]}: {reason}"] = None
            cells.append("–" if reason is not None else cell(sensor))
        lines.append(f"| {name}, `{file}` | {' | '.join(cells)} |")
    listed = "\n".join(f"- {reason}." for reason in reasons)
    return "\n".join([*lines, "", "Reasons for empty cells, as registered with each consumer:", "", listed])


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
