"""The audit of sources in presets, tools/assumed.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[3] / "tools" / "assumed.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    if not TOOL.exists():
        pytest.skip("tools is not part of this checkout")
    spec = importlib.util.spec_from_file_location("assumed", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KINDS = sorted(folder.name for folder in (TOOL.parents[1] / "src/parhelion/sensors/presets").glob("*/"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_source_or_a_reason(tool: Any, kind: str) -> None:
    rows = tool.audit(kind)
    assert len(rows) > 10
    assert [row[:2] for row in rows if row[2] == "unstated"] == []
    assert all(len(reason) > 5 for _, _, state, reason in rows if state == "assumed")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lidar"])
def test_no_number_is_only_quoted(tool: Any, kind: str) -> None:
    assert [row[:2] for row in tool.audit(kind) if row[2] == "quoted"] == []


def test_the_counts_in_the_docs_are_those_of_the_tool(tool: Any) -> None:
    page = TOOL.parents[1] / "docs" / "sensors.md"
    if not page.exists():
        pytest.skip("docs is not part of this checkout")
    assert tool.table({kind: tool.audit(kind) for kind in KINDS}) in page.read_text(encoding="utf-8")
    for kind in ("gnss", "radar"):
        rows = tool.audit(kind)
        count = f"{sum(row[2] == 'assumed' for row in rows)} of {len(rows)}"
        assert count in (page.parent / "models" / f"{kind}.md").read_text(encoding="utf-8")


def test_the_longest_path_decides(tool: Any) -> None:
    sheet = {
        "rate_hz": 1.0,
        "loops": {"spacing_chips": 0.1, "dwell_s": 0.02},
        "gain_db": [1.0, 2.0],
        "mask_deg": 5,
        "on": True,
        "sources": [
            {"title": "a", "covers": ["loops.dwell_s"]},
            {"title": "b", "covers": ["rate_hz"], "quoted": True},
        ],
        "assumed": {"loops": "typical", "gain_db": "typical"},
    }
    assert list(tool.numbers(sheet)) == ["rate_hz", "loops.spacing_chips", "loops.dwell_s", "gain_db", "mask_deg"]
    states = {path: tool.state_of(path, sheet)[0] for path in tool.numbers(sheet)}
    assert states == {
        "rate_hz": "quoted", "loops.spacing_chips": "assumed", "loops.dwell_s": "opened", "gain_db": "assumed",
        "mask_deg": "unstated",
    }  # fmt: skip


def test_the_command_counts_per_kind(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check", "gnss", "imu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| kind | presets | numbers | opened | quoted | assumed | unstated |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["gnss", "imu"]
    assert all(line.endswith("| 0 |") for line in lines[2:])
