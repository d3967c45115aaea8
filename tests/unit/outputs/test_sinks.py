"""Several outputs of one run: if one fails, the others are abandoned, and the first error is raised."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parhelion.core.errors import FormatError
from parhelion.outputs import sinks
from parhelion.outputs.sinks import Sinks


class Recorder:
    """Records its calls, and fails on request."""

    def __init__(self, name: str, fails_at: str = "") -> None:
        self.name, self.fails_at, self.asked = name, fails_at, []  # type: ignore[var-annotated]
        if fails_at == "open":
            raise FormatError(f"{name} cannot be opened")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.fails_at == what:
            raise FormatError(f"{self.name}: {what}")

    def take(self, step: Any) -> None:
        self._ask("take")

    def close(self) -> list[Path]:
        self._ask("close")
        return [Path(self.name)]

    def abandon(self) -> None:
        self._ask("abandon")


def opened(monkeypatch: pytest.MonkeyPatch, *recorders: Any) -> Sinks:
    makers = iter(recorders)
    monkeypatch.setattr(sinks, "_sink", lambda entry, scenario, folder: next(makers)())
    settings = SimpleNamespace(outputs=[None] * len(recorders))
    return Sinks(SimpleNamespace(settings=settings), Path())  # type: ignore[arg-type]


def test_all_are_taken_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = Recorder("a"), Recorder("b")
    both = opened(monkeypatch, lambda: a, lambda: b)
    both.take(None)  # type: ignore[arg-type]
    assert both.close() == [Path("a"), Path("b")]
    assert a.asked == b.asked == ["take", "close"]


def test_one_that_cannot_be_opened_leaves_off_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Recorder("a")
    with pytest.raises(FormatError, match="b cannot be opened"):
        opened(monkeypatch, lambda: a, lambda: Recorder("b", "open"))
    assert a.asked == ["abandon"]


def test_one_that_cannot_be_closed_leaves_off_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = Recorder("a"), Recorder("b", "close"), Recorder("c")
    three = opened(monkeypatch, lambda: a, lambda: b, lambda: c)
    with pytest.raises(FormatError, match="b: close"):
        three.close()
    assert (a.asked, b.asked, c.asked) == (["close"], ["close", "abandon"], ["abandon"])


def test_trouble_in_leaving_off_does_not_keep_the_others_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = Recorder("a", "abandon"), Recorder("b")
    both = opened(monkeypatch, lambda: a, lambda: b)
    both.abandon()
    assert b.asked == ["abandon"]
    assert not both
