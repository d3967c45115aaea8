"""What makes a canal: its measures and the pattern of its quays; their gear, the bridge, and the houses behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parhelion.core.random import Stream
from parhelion.world.kit.buildings import building_draws
from parhelion.world.procedural import street, water
from parhelion.world.procedural.draws import place_of
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.procedural.pieces import BRIDGE_ROAD_M
from parhelion.world.procedural.placing import natural, placed
from parhelion.world.procedural.town_things import bands_of

PATTERN_M = 300.0
"""Length of quay after which the plan comes again."""
QUAY_M = 1.6
DEPTH_M = 3.0
LAND_M = 70.0
"""Depth of the land beyond each quay."""
ENDS_M = 40.0
BERTHS = 13
"""Places for vessels in one pattern."""
_STORE = (
    street.StoreysParams(storeys=1, storey_height_m=4.6, pitch_m=5.2, window_width_m=2.2, sill_m=1.3,
                         window_height_m=2.3, recess_m=0.3),
    street.StoreysParams(bottom_m=4.6, storeys=3, storey_height_m=3.8, pitch_m=5.2, window_width_m=1.7, sill_m=1.1,
                         window_height_m=1.9, recess_m=0.3),
)  # fmt: skip
_HALL = (
    street.StoreysParams(storeys=1, storey_height_m=7.0, pitch_m=7.0, window_width_m=3.2, sill_m=3.6,
                         window_height_m=1.8, recess_m=0.2),
)  # fmt: skip
_OFFICE = (
    street.StoreysParams(storeys=1, storey_height_m=4.0, pitch_m=4.0, window_width_m=2.8, sill_m=0.5,
                         window_height_m=2.8, recess_m=0.2),
    street.StoreysParams(bottom_m=4.0, storeys=6, storey_height_m=3.3, pitch_m=3.0, window_width_m=2.0, sill_m=0.8,
                         window_height_m=1.8),
)  # fmt: skip


@dataclass(frozen=True)
class Canal:
    """All that follows from the parameters, before anything is drawn."""

    seed: int
    half_length: float
    half_width: float
    bridge_x: float | None

    def patterns(self) -> Iterator[tuple[int, float]]:
        """Number and shift along x [m] of each pattern that has a part on this canal, the middle one first."""
        most = int(np.ceil(self.half_length / PATTERN_M - 0.5))
        for k in sorted(range(-most, most + 1), key=abs):
            yield k, k * PATTERN_M

    def stream(self, name: str, pattern: int) -> np.random.Generator:
        """Random numbers for one pattern."""
        tail = f"/{pattern}" if pattern else ""
        return Stream(self.seed, f"world/harbour/{name}{tail}").generator()

    def fits(self, x: float, half: float = 0.0) -> bool:
        """Whether something at `x` that reaches `half` to both sides is on the canal's length."""
        return abs(x) + half <= self.half_length

    def off_bridge(self, x: float, gap: float) -> bool:
        """Whether `x` is more than `gap` from the bridge's middle."""
        return self.bridge_x is None or abs(x - self.bridge_x) > gap


def quay_gear(canal: Canal, spacing: float) -> list[LayoutObject]:
    """Bollards, rubber strips on the wall, ladders, crane rails, and dolphins of piles in the water."""
    origin = (0.0, 0.0, 0.0)
    half, end = canal.half_width, canal.half_length
    gaps = int(2 * 0.92 * end / spacing + 1e-9)
    along = spacing * (np.arange(gaps + 1) - gaps / 2)
    along = along[[canal.off_bridge(x, 6.0) for x in along.tolist()]]
    sides = np.repeat([-1.0, 1.0], len(along))
    both = np.tile(along, 2)
    at = np.column_stack([both, sides * (half + 0.55), np.full(len(both), QUAY_M)])
    pads = at + np.column_stack([np.full(len(both), spacing / 2), -sides * 0.65, np.full(len(both), -0.9)])
    pads = pads[np.abs(pads[:, 0]) < end - 1.0]
    ladders = np.arange(-130.0, 131.0, 40.0)
    ladders = np.concatenate([ladders + shift for _, shift in canal.patterns()])
    ladders = ladders[np.abs(ladders) < end - 1.0]
    rungs = tuple((float(x), side * (half - 0.12)) for x in ladders for side in (-1.0, 1.0))
    rails = tuple((0.0, -half - d, QUAY_M + 0.03) for d in (3.5, 12.5))
    length, span = 2 * end, (2 * end, 2 * half + 2.0)
    things = [
        placed(
            "bollards",
            "bollards",
            (0.0, 0.0, QUAY_M),
            0.0,
            (*span, 0.55),
            water.BollardsParams(points=tuple(map(tuple, at[:, :2].tolist()))),
        ),
        placed(
            "fenders",
            "fenders",
            origin,
            0.0,
            (*span, QUAY_M),
            water.FendersParams(points=tuple(map(tuple, pads.tolist()))),
        ),
    ]
    if rungs:
        params = water.LaddersParams(points=rungs, quay_m=QUAY_M)
        things.append(placed("ladders", "ladders", origin, 0.0, (*span, QUAY_M + 0.3), params))
    track = water.RailsParams(points=rails, length_m=length - 40.0)
    things.append(placed("rails", "rails", origin, 0.0, (*span, QUAY_M + 0.1), track))
    if half >= 20.0:
        feet = [
            (shift + x + dx, y * (half / 25.0) + dy, -DEPTH_M)
            for _, shift in canal.patterns()
            for x, y in ((-95, 9), (-118, -11), (128, 8))
            for dx, dy in ((0, 0), (0.7, 0), (0.35, 0.6))
            if canal.fits(shift + x, 5.0)
        ]
        if feet:
            piles = water.PilesParams(points=tuple(feet), length_m=5.2, radius_m=0.22)
            things.append(placed("piles", "dolphins", origin, 0.0, (*span, 2.2), piles))
    return things


def bridge_things(canal: Canal) -> list[LayoutObject]:
    """The bridge, with lamps and a car on it."""
    if canal.bridge_x is None:
        return []
    x, crown, span = canal.bridge_x, 6.4, 2 * canal.half_width
    params = water.BridgeParams(span_m=span, crown_m=crown, quay_m=QUAY_M)
    size = (9.0, 2 * (span / 2 + 2.0 + 36.0), crown + 1.1)
    road = crown + BRIDGE_ROAD_M
    out = 0.72 * canal.half_width
    lamp = street.LampParams(height_m=5.5, arm_m=1.2)
    posts = ((-3.9, -out, 0.0), (3.9, 0.0, 180.0), (-3.9, out, 0.0))
    return [
        placed("bridge", "bridge", (x, 0.0, 0.0), 0.0, size, params),
        *(natural("lamp", f"bridge-lamp-{k}", (x + dx, y, road), yaw, lamp) for k, (dx, y, yaw) in enumerate(posts)),
        natural(
            "car",
            "bridge-car",
            (x + 1.8, -6.0, road),
            90.0,
            street.CarParams(shape="hatchback", paint="car-paint-yellow"),
        ),
    ]


def houses(canal: Canal) -> list[LayoutObject]:
    """Brick warehouses to the north, halls and an office to the south; doors face the water."""
    rows: tuple[tuple[tuple[street.StoreysParams, ...], float, float, float, int, str, str], ...] = (
        (_STORE, 46.0, 20.0, -92.0, 1, "brick", "gable"),
        (_STORE, 40.0, 20.0, -36.0, 1, "brick", "gable"),
        (_STORE, 40.0, 20.0, 22.0, 1, "limestone", "hip"),
        (_STORE, 38.0, 20.0, 112.0, 1, "brick", "gable"),
        (_HALL, 52.0, 26.0, -100.0, -1, "concrete", "flat"),
        (_HALL, 44.0, 26.0, -38.0, -1, "plaster", "flat"),
        (_OFFICE, 26.0, 18.0, 28.0, -1, "concrete", "flat"),
    )
    things: list[LayoutObject] = []
    for pattern, shift in canal.patterns():
        rng = canal.stream("houses", pattern)
        for bands, length, width, x, side, wall, roof in rows:
            params = street.BuildingParams(
                bands=bands,
                wall=wall,
                roof=roof,  # type: ignore[arg-type]
                blind_sides=(2,),
                gates=bands is not _OFFICE,
                seed=place_of(rng),
            )
            height = bands[-1].bottom_m + bands[-1].storeys * bands[-1].storey_height_m
            rng.random(building_draws(length, width, bands_of(height, params), roof=roof, blind_sides=(2,)))
            at = (x + shift, side * (canal.half_width + 28.0 + width / 2), QUAY_M)
            if canal.fits(at[0], length / 2 - 20.0):
                yaw = 0.0 if side > 0 else 180.0
                things.append(placed("building", f"house-{len(things)}", at, yaw, (length, width, height), params))
    return things
