"""Keeps viser from filling the terminal: whoever can reach the port decides how much it has to say."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import traceback
from collections.abc import Iterator
from typing import Any

MOST_ERRORS = 3
"""Errors that pages cause and that are printed; those that follow are not."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what viser prints within the block to itself."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def hush() -> None:
    """Keep viser from printing a line for each page that comes, goes or is of another version, and for each error.

    Its server prints from threads of its own, at any time. It calls `rich.print` through the module, so that is where
    its lines can be told from those of others. Errors in what a page sets off it prints by a module of its own.
    """
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)  # a page that goes away is no error
    import rich

    plain = rich.print
    if not getattr(plain, "leaves_out_viser", False):

        def print_others(*words: Any, **options: Any) -> None:
            if not (words and "(viser)" in str(words[0])):
                plain(*words, **options)

        print_others.leaves_out_viser = True  # type: ignore[attr-defined]
        rich.print = print_others
    printer = sys.modules.get("viser._threadpool_exceptions")
    if getattr(printer, "traceback", None) is traceback:
        # Its names, before those of Python, decide what it calls.
        printer.traceback, printer.print = _FewErrors(), lambda *_, **__: None  # type: ignore[union-attr]


def hush_loop(loop: Any) -> None:
    """The same for the loop in which messages of pages are read, which tells of each that cannot be."""
    told = 0

    def tell(loop: Any, context: dict[str, Any]) -> None:
        nonlocal told
        told += 1
        if told <= MOST_ERRORS:
            loop.default_exception_handler(context)

    if loop is not None:
        loop.set_exception_handler(tell)


class _FewErrors:
    """Stands for the module `traceback`, where errors are printed."""

    def __init__(self) -> None:
        self._told = 0

    def print_exception(self, *error: Any, **options: Any) -> None:
        self._told += 1
        if self._told <= MOST_ERRORS:
            traceback.print_exception(*error, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)
