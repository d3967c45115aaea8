"""`parhelion verify` as users run it, and names from files that contain commands for the terminal."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import parhelion
from parhelion.cli import screen
from parhelion.outputs import manifest
from parhelion.outputs.verify import verify

EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e\x9b2J"
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def _folder_with_manifest(place: Path, **content: Any) -> Path:
    place.mkdir()
    (place / "a.csv").write_text("1\n")
    hashes = {"a.csv": hashlib.sha256(b"1\n").hexdigest()}
    (place / "manifest.json").write_text(json.dumps({"complete": True, "files": hashes, **content}))
    return place


def test_verify_command(run: Callable[..., Any], fails: Callable[..., str], tmp_path: Path) -> None:
    out = _folder_with_manifest(tmp_path / "out")
    good = run("verify", out)
    assert good.exit_code == 0
    assert "1 of 1 files are as they were written" in good.stdout
    (out / "a.csv").write_text("2\n")
    assert "1 changed" in fails("verify", out)
    assert "changed  a.csv" in run("verify", out).stdout
    (out / "a.csv").unlink()
    assert "1 missing" in fails("verify", out)
    assert "contains no manifest.json" in fails("verify", tmp_path)
    assert "does not exist" in fails("verify", tmp_path / "none")
    incomplete = _folder_with_manifest(tmp_path / "incomplete", complete=False)
    assert "the run is incomplete" in fails("verify", incomplete)


NO_FILES = ["b" * 300, "a.csv/b", "a\0b", ".", "a/" * 3000 + "b"]
"""Names in damaged lists: too long, below a file, with NUL, of a folder, and a path that is too long."""


def test_lists_with_names_that_cannot_be_files(tmp_path: Path) -> None:
    out = _folder_with_manifest(tmp_path / "out")
    content = json.loads((out / "manifest.json").read_text())
    good = content["files"]["a.csv"]
    bad = dict.fromkeys(NO_FILES, good)
    content["files"] |= bad
    (out / "manifest.json").write_text(json.dumps(content))
    found = verify(out)
    assert (found.intact, len(found.missing) + len(found.problems)) == (1, len(NO_FILES))
    earlier = manifest.EarlierRun(out, content["files"])
    assert earlier.has(out / "a.csv")
    assert not any(earlier.has(out / name) for name in NO_FILES)
    (out / "inputs.json").write_text(json.dumps({"files": bad | {"a.csv": "0" * 64}}))
    assert manifest.changed_inputs(out, out) == ["a.csv changed since"]
    assert manifest.finished(out, out / "a.csv", {}) is None
    manifest.EarlierRun.replaced(out, {}, any_scenario=True)  # removes the listed files
    assert sorted(file.name for file in out.iterdir()) == ["inputs.json", "manifest.json"]


@pytest.mark.parametrize("text", ["plain", "Ä µ 漢 🙂", "two\nlines\tand tabs"])
def test_ordinary_text_is_printed_verbatim(text: str) -> None:
    assert screen.printable(text) == text


def test_control_characters_are_quoted() -> None:
    assert screen.printable(EVIL) == r"\x1b]0;owned\x07\x1b[31mred\u202e\x9b2J"
    assert screen.printable("a\udcffb") == r"a\udcffb"


@pytest.mark.parametrize("print_it", [
    screen.print_line, screen.warn, screen.print_error,
    lambda text: screen.facts(text, [(text, text)]),
    lambda text: screen.table(text, [text], [[text]]),
])  # fmt: skip
def test_no_printing_function_sends_commands_to_the_terminal(
    print_it: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    print_it(EVIL)
    printed = "".join(capsys.readouterr())
    assert "owned" in printed
    assert not COMMANDS.search(printed)


def test_names_from_files_reach_the_terminal_quoted(run: Callable[..., Any], tmp_path: Path) -> None:
    names = {
        "worlds": {"ground": EVIL, EVIL: 1},
        "run": {"name": EVIL, "world": EVIL, "duration_s": 1, "sensors": []},
        "sensors": {"name": EVIL, "maker": EVIL},
        "campaign": {"name": EVIL, "scenario": EVIL},
    }
    for command, fields in names.items():
        file = tmp_path / f"{command}.yaml"
        file.write_text(yaml.safe_dump(fields))
        result = run(command, file, *(["-o", tmp_path / "out"] if command in ("run", "campaign") else []))
        assert result.exit_code == 1
        assert not COMMANDS.search(result.output), command
    place = _folder_with_manifest(tmp_path / "verified", files={EVIL: "0" * 64})
    assert not COMMANDS.search(run("verify", place).output)


def test_only_one_module_prints() -> None:
    source = Path(parhelion.__file__).parent
    printing = re.compile(r"^\s*(typer\.echo|click\.echo|print|sys\.std(out|err)\.write)\(", re.MULTILINE)
    found = {
        file.relative_to(source).as_posix()
        for folder in ("cli", "campaign", "outputs", "live", "core", "scenario")
        for file in (source / folder).rglob("*.py")
        if printing.search(re.sub(r'""".*?"""', "", file.read_text(), flags=re.DOTALL))
    }
    assert found == {"cli/screen.py", "cli/__init__.py"}  # the latter prints a constant
