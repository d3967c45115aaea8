"""Ranging radio from a scenario file to all consumers: table, bag, Foxglove, report and viewer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.highlevel import AnyReader

import parhelion as ph
from parhelion.core.errors import ConfigError

ANCHORS = {
    "north": [0, 9, 3.0],
    "east": [9, 0, 2.0],
    "south": [0, -9, 4.0],
    "west": [-9, 0, 2.5],
    "far": [2000, 0, 3.0],
}


def scene(**options: Any) -> dict[str, Any]:
    return {
        "duration_s": 0.5, "seed": 4, "world": "test-range",
        "vehicles": [{
            "name": "robot", "model": "clearpath/husky", "follow": {"points": [[5, 1, 0]]},
            "body": {"shape": {"kind": "box", "size_m": [0.9, 0.6, 0.4]}, "pose": {"xyz": [0, 0, 1.0]}},
        }, {
            "name": "other", "model": "clearpath/husky", "start": {"xyz": [-4, -3, 0]},
            "follow": {"points": [[0, -5, 0]]}, "body": {"shape": {"kind": "box", "size_m": [0.9, 0.6, 0.4]}},
        }],
        "sensors": [
            {"name": "lidar", "type": "lidar", "model": "sick/lms-111", "vehicle": "robot",
             "mount": {"xyz": [0, 0, 1]}},
            {"name": "tag", "type": "uwb", "model": "qorvo/dw1000", "vehicle": "robot", "mount": {"xyz": [0, 0, 1]},
             "options": {"anchors": ANCHORS, **options}},
        ],
        "outputs": [{"kind": "bag"}, {"kind": "foxglove"}],
    }  # fmt: skip


@pytest.mark.slow
def test_ranges_reach_every_consumer(tmp_path: Path) -> None:
    summary = ph.Scenario.from_mapping(scene()).run(tmp_path / "out")
    rows = np.genfromtxt(tmp_path / "out" / "tag.csv", delimiter=",", names=True, deletechars="")
    assert len(rows) == 5
    assert np.isnan(rows["range_far"]).all()
    # The tag sits inside its own vehicle, which does not hide it.
    assert np.all(rows["los_north"] == 1.0)
    assert np.abs(rows["range_north"] - rows["true_range_north"]).max() < 0.5
    with AnyReader([tmp_path / "out" / "bag"]) as bag:
        assert {"/uwb/ranges", "/uwb/position"} <= set(bag.topics)
        stored = {
            topic: [
                bag.deserialize(raw, one.msgtype)
                for one, _, raw in bag.messages([c for c in bag.connections if c.topic == topic])
            ]
            for topic in ("/uwb/ranges", "/uwb/position")
        }
    cloud, fix = stored["/uwb/ranges"][0], stored["/uwb/position"][0]
    assert [field.name for field in cloud.fields] == [
        "x", "y", "z", "range", "range_std", "rssi", "snr", "first_path_power", "los"
    ]  # fmt: skip
    assert (cloud.width, cloud.header.frame_id) == (5, "map")
    names = ["x", "y", "z", "range", "range_std", "rssi", "snr", "first_path_power"]
    table = np.frombuffer(cloud.data.tobytes(), dtype=[*((name, "<f4") for name in names), ("los", "u1")])
    assert table["range"][:4] == pytest.approx([rows[f"range_{name}"][0] for name in list(ANCHORS)[:4]], rel=1e-6)
    assert table["x"].tolist() == [0.0, 9.0, 0.0, -9.0, 2000.0]
    assert fix.pose.pose.position.x == pytest.approx(rows["position_x"][0])
    assert fix.pose.covariance[0] > 0
    assert summary.report is not None
    page = summary.report.read_text()
    assert "tag: range error" in page
    assert "error, NLOS" in page
    assert list((tmp_path / "out").glob("*foxglove*")) or list((tmp_path / "out").rglob("*.mcap"))


def test_foxglove_writes_null_for_lost_ranges() -> None:
    from parhelion.outputs.foxglove.messages import as_json, samples_content, samples_schema

    found = ph.Uwb("qorvo/dw1000", anchors=ANCHORS).measure(ph.World(), ph.Fixed(ph.Pose((1, 1, 1))), 0.0, 3)
    _, content = next(iter(samples_content(found)))
    message = json.loads(as_json(content))
    assert message["range"][4] is None
    assert message["range"][0] == pytest.approx(found.range[0, 0])
    assert message["los"] == [1, 1, 1, 1, 1]
    assert set(message["position"]) == set("xyz")
    assert b"dBm" in samples_schema(found).data


def test_the_viewer_draws_anchors_and_lines_to_them() -> None:
    from parhelion.live.viewer.layers import HIDDEN, IN_SIGHT, NOT_HEARD, VIEWER

    world = ph.World()
    world.add(ph.shapes.box(0.1, 3, 3), material="plaster", label="wall", pose=ph.Pose((5.0, 0.0, 1.5)))
    found = ph.Uwb("qorvo/dw1000", anchors=ANCHORS).measure(world, ph.Fixed(ph.Pose((1, 0, 1.5))), 0.0, 3)
    layer = VIEWER.require(ph.UwbData)
    assert layer.segments is not None
    drawn = layer.segments(found)
    assert drawn is not None
    heard = int(np.isfinite(found.range[0]).sum())
    assert drawn.ends.shape == (5 + heard, 2, 3)
    assert [tuple(one) for one in drawn.colours[:5, 0].tolist()] == [IN_SIGHT, HIDDEN, IN_SIGHT, IN_SIGHT, NOT_HEARD]
    assert drawn.ends[5:, 0] == pytest.approx(np.tile(found.position[0], (heard, 1)))
    assert layer.lines("tag", found)[0].startswith(
        "tag: 4 of 5 anchors heard, 3 of them in sight; strongest first path -80.6 dBm; position "
    )


@pytest.mark.slow
def test_a_stage_shows_them() -> None:
    from parhelion.live.viewer.stages import ScenarioStage

    stage = ScenarioStage(ph.Scenario.from_mapping(scene()), time=0.3)
    shown = stage.measure(stage.places["lidar"])
    assert len(shown.segments) == 1
    assert any(note.startswith("tag: 4 of 5 anchors heard") for note in shown.notes)


def test_anchors_of_a_scenario_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"sensors\[\d\]\.options\.anchors: the list is empty"):
        ph.Scenario.from_mapping(scene(anchors=[]))
    with pytest.raises(ConfigError, match=r"sensors\[\d\]\.options\.method: must be two-way"):
        ph.Scenario.from_mapping(scene(method="sonar"))
