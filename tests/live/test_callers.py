"""Callers that servers on this machine answer."""

from __future__ import annotations

import pytest

from parhelion.live.web import is_allowed_origin


@pytest.mark.parametrize("host", [None, "localhost", "LOCALHOST:8080", "127.0.0.1:80", "127.8.9.1", "[::1]:8080"])
@pytest.mark.parametrize("origin", [None, "http://localhost", "http://127.0.0.1:3000", "https://[::1]:1"])
def test_this_machine_may_ask(host: str | None, origin: str | None) -> None:
    assert is_allowed_origin("127.0.0.1", host, origin)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("elsewhere.example", None),
        ("localhost.elsewhere.example", None),
        ("10.0.0.1", None),
        ("127.0.0.1", "https://elsewhere.example"),
        ("127.0.0.1", "http://127.0.0.1.elsewhere.example"),
        ("127.0.0.1", "null"),
        ("127.0.0.1", ""),
        ("127.0.0.1", "http://[half"),
        ("[half", None),
    ],
)
def test_others_may_not(host: str, origin: str | None) -> None:
    assert not is_allowed_origin("127.0.0.1", host, origin)


def test_a_server_open_to_others_answers_its_own_pages() -> None:
    assert is_allowed_origin("0.0.0.0", "lab.example:8080", "http://lab.example:8080")
    assert is_allowed_origin("0.0.0.0", "10.0.0.1", None)
    assert not is_allowed_origin("0.0.0.0", "lab.example:8080", "http://elsewhere.example")
