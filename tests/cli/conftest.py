"""The commands run in this process, as a user types them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from parhelion.cli.app import app


@pytest.fixture
def run() -> Callable[..., Any]:
    """`run("scan", "--world", ...)`: the result with exit_code, stdout and stderr."""

    def invoke(*arguments: object) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="parhelion")

    return invoke


@pytest.fixture
def fails(run: Callable[..., Any]) -> Callable[..., str]:
    """`fails("scan", ...)`: the one line that a failing command prints on stderr, its exit code checked."""

    def invoke(*arguments: object, code: int = 1) -> str:
        result = run(*arguments)
        assert result.exit_code == code, result.output
        lines = [line for line in result.stderr.splitlines() if line.startswith("error:")]
        assert len(lines) == 1, result.stderr
        assert "Traceback" not in result.output
        return str(lines[0])

    return invoke
