"""Runs where ROS 2 is installed: the launch files describe the commands."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("launch", reason="needs ROS 2")

LAUNCH = Path(__file__).resolve().parents[1] / "launch"


@pytest.mark.parametrize("file", sorted(LAUNCH.glob("*.launch.py")), ids=lambda file: file.name)
def test_launch_file_starts_parhelion(file: Path) -> None:
    from launch.actions import ExecuteProcess

    spec = importlib.util.spec_from_file_location("launched", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    processes = [one for one in module.generate_launch_description().entities if isinstance(one, ExecuteProcess)]
    assert [one.cmd[0][0].text for one in processes] == ["parhelion"]
