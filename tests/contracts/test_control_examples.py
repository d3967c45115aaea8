"""The programs in `examples/control`."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path
from typing import Any

import pytest

from control_rigs import yard
from parhelion.scenario import Scenario
from parhelion.scenario.control import Control
from parhelion.scenario.events import read_events
from parhelion.scenario.verbs import Quit

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "control"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_loop_with_edits_runs_and_repeats(tmp_path: Path) -> None:
    program, log = example("edit_loop"), tmp_path / "events.jsonl"
    found = program.main(log)
    assert [round(time, 1) for time, _, _ in found] == [0.1 * k for k in range(1, 11)] or len(found) == 10
    assert [drops > 0 for _, _, drops in found] == [False] * 2 + [True] * 6 + [False] * 2
    again = Scenario.from_mapping(program.SCENARIO)
    counts: list[int] = []
    control = Control(again, script=read_events(log, again))
    control.listeners.append(lambda sensor, n, t, record: counts.append(len(record)) if sensor == "top" else None)
    control.run()
    assert counts == [points for _, points, _ in found]


def test_the_remote_program_sees_its_box() -> None:
    pytest.importorskip("websockets", reason="the client needs websockets")
    from parhelion.live.control_server import ControlServer

    control = Control(yard(outputs=[]), speed=float("inf"), playing=False)
    counts: list[int] = []
    with ControlServer(control, port=0) as server:

        def work() -> None:
            try:
                counts.extend(example("remote").main(server.url))
            finally:
                control.call(Quit(), 60.0)

        thread = threading.Thread(target=work)
        thread.start()
        control.run()
        thread.join()
    assert counts[0] > counts[1] > counts[2] > 0
