"""Starting the ray engine so that a missing library is told in our one sentence, and not in the loader's lines too."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parhelion.rays.device import Engine


def start_engine() -> Engine:
    """The running engine; raises MissingDependencyError with the install line where the LLVM library is missing."""
    from parhelion.rays.device import engine

    with _native_messages_only_on_success():
        return engine()


@contextmanager
def _native_messages_only_on_success() -> Iterator[None]:
    """What native code prints on stderr in the block is passed on at its end, or left out where the block fails."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # stderr is closed, so there is nothing to hold back
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        held.seek(0)
        os.write(2, held.read())
