"""Where a thing's own random numbers come from: a seed of its own, or a place in a stream that others draw from, too.

A rule that draws many things from one stream notes for each thing where the stream stood. From that note the thing
is made again alone, the same to the bit, without the things before it.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from parhelion.core.random import Stream

ThingSeed = (
    Annotated[int, Field(ge=0, lt=2**63)] | Annotated[str, Field(pattern=r"^[0-9a-f]{16}:[0-9]{1,15}(:[0-9a-f]{8})?$")]
)
"""A whole number, or a place in a stream: its key, how many numbers of 64 bits were drawn, and half of one kept."""


def place_of(rng: np.random.Generator) -> str:
    """Where a generator of `Stream` stands, as text; `generator_at` goes on from there."""
    state: dict[str, Any] = dict(rng.bit_generator.state)
    key, counter = state["state"]["key"], state["state"]["counter"]
    # The counter runs ahead of what was drawn: it numbers the block of four whose first numbers are used up.
    drawn = 4 * int(counter[0]) - 4 + int(state["buffer_pos"])
    half = f":{int(state['uinteger']):08x}" if state["has_uint32"] else ""
    return f"{int(key[0]):016x}:{drawn}{half}"


def generator_at(seed: int | str, stream: str) -> np.random.Generator:
    """The generator of a thing's seed: that of `stream` for a whole number, or one that stands at a noted place."""
    if isinstance(seed, int):
        return Stream(seed, stream).generator()
    key, drawn, *half = seed.split(":")
    numbers = np.random.Philox(key=int(key, 16), counter=int(drawn) // 4)
    numbers.random_raw(int(drawn) % 4)
    if half:
        state: dict[str, Any] = dict(numbers.state)
        state["has_uint32"], state["uinteger"] = 1, int(half[0], 16)
        numbers.state = state  # type: ignore[assignment]
    return np.random.Generator(numbers)
