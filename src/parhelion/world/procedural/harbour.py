"""Generator of harbours: a canal between granite quays, moored vessels, an arched bridge, warehouses and cranes.

The scene is modelled on that of Arce 2025 (canals of the Westhafen in Berlin, with a bridge); dimensions are ours. The
water level is z = 0, the quays are 1.6 m above it, and the canal is along x. The objects on 300 m of quay form one
pattern: shorter canals have the part that fits, longer ones repeat it with other random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parhelion.core.checks import whole
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.kit.vehicles import PAINTS
from parhelion.world.kit.waterfront import CONTAINER_PAINTS, barge
from parhelion.world.procedural import kinds
from parhelion.world.procedural.footprints import BRIDGE_ROAD_M
from parhelion.world.procedural.kinds import place_of
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose, Passage, PlannedDrive
from parhelion.world.procedural.placing import natural, number, placed, without_clashes
from parhelion.world.procedural.town_parts import drawn_tree, dressed, pass_over_building

# ---- canal ----------------------------------------------------------------------------------------------------------
# Dimensions of the canal and the pattern of its quays; their equipment, the bridge, and the houses behind them.


PATTERN_M = 300.0
"""Length of the pattern [m]."""
QUAY_M = 1.6
DEPTH_M = 3.0
LAND_M = 70.0
"""Depth of the land beyond each quay [m]."""
ENDS_M = 40.0
_STORE = (
    kinds.StoreysParams(
        storeys=1, storey_height_m=4.6, pitch_m=5.2, window_width_m=2.2, sill_m=1.3, window_height_m=2.3, recess_m=0.3
    ),
    kinds.StoreysParams(
        bottom_m=4.6,
        storeys=3,
        storey_height_m=3.8,
        pitch_m=5.2,
        window_width_m=1.7,
        sill_m=1.1,
        window_height_m=1.9,
        recess_m=0.3,
    ),
)
_HALL = (
    kinds.StoreysParams(
        storeys=1, storey_height_m=7.0, pitch_m=7.0, window_width_m=3.2, sill_m=3.6, window_height_m=1.8, recess_m=0.2
    ),
)
_OFFICE = (
    kinds.StoreysParams(
        storeys=1, storey_height_m=4.0, pitch_m=4.0, window_width_m=2.8, sill_m=0.5, window_height_m=2.8, recess_m=0.2
    ),
    kinds.StoreysParams(
        bottom_m=4.0, storeys=6, storey_height_m=3.3, pitch_m=3.0, window_width_m=2.0, sill_m=0.8, window_height_m=1.8
    ),
)


@dataclass(frozen=True)
class Canal:
    """The deterministic part of a harbour."""

    seed: int
    half_length: float
    half_width: float
    bridge_x: float | None

    def patterns(self) -> Iterator[tuple[int, float]]:
        """Number and offset along x [m] of each pattern on this canal, the middle one first."""
        most = int(np.ceil(self.half_length / PATTERN_M - 0.5))
        for k in sorted(range(-most, most + 1), key=abs):
            yield k, k * PATTERN_M

    def stream(self, name: str, pattern: int) -> np.random.Generator:
        """Random number generator of one pattern."""
        tail = f"/{pattern}" if pattern else ""
        return Stream(self.seed, f"world/harbour/{name}{tail}").generator()

    def fits(self, x: float, half: float = 0.0) -> bool:
        """Return True if an object at `x` with the half length `half` is within the length of the canal."""
        return abs(x) + half <= self.half_length

    def off_bridge(self, x: float, gap: float) -> bool:
        """Return True if `x` is more than `gap` from the middle of the bridge."""
        return self.bridge_x is None or abs(x - self.bridge_x) > gap


def quay_gear(canal: Canal, spacing: float) -> list[LayoutObject]:
    """Bollards, rubber strips on the wall, ladders, crane rails, and dolphins of piles in the water."""
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

    def gear(name: str, height: float, params: kinds.Params, *, kind: str = "", z: float = 0.0) -> LayoutObject:
        return placed(kind or name, name, (0.0, 0.0, z), 0.0, (*span, height), params)

    bollards = kinds.BollardsParams(points=tuple(map(tuple, at[:, :2].tolist())))
    fenders = kinds.FendersParams(points=tuple(map(tuple, pads.tolist())))
    items = [gear("bollards", 0.55, bollards, z=QUAY_M), gear("fenders", QUAY_M, fenders)]
    if rungs:
        items.append(gear("ladders", QUAY_M + 0.3, kinds.LaddersParams(points=rungs, quay_m=QUAY_M)))
    items.append(gear("rails", QUAY_M + 0.1, kinds.RailsParams(points=rails, length_m=length - 40.0)))
    if half >= 20.0:
        feet = [
            (shift + x + dx, y * (half / 25.0) + dy, -DEPTH_M)
            for _, shift in canal.patterns()
            for x, y in ((-95, 9), (-118, -11), (128, 8))
            for dx, dy in ((0, 0), (0.7, 0), (0.35, 0.6))
            if canal.fits(shift + x, 5.0)
        ]
        if feet:
            piles = kinds.PilesParams(points=tuple(feet), length_m=5.2, radius_m=0.22)
            items.append(gear("dolphins", 2.2, piles, kind="piles"))
    return items


def bridge_objects(canal: Canal) -> list[LayoutObject]:
    """Bridge with lamps and a car."""
    if canal.bridge_x is None:
        return []
    x, crown, span = canal.bridge_x, 6.4, 2 * canal.half_width
    params = kinds.BridgeParams(span_m=span, crown_m=crown, quay_m=QUAY_M)
    size = (9.0, 2 * (span / 2 + 2.0 + 36.0), crown + 1.1)
    road = crown + BRIDGE_ROAD_M
    out = 0.72 * canal.half_width
    lamp = kinds.LampParams(height_m=5.5, arm_m=1.2)
    car = kinds.CarParams(shape="hatchback", paint="car-paint-yellow")
    posts = ((-3.9, -out, 0.0), (3.9, 0.0, 180.0), (-3.9, out, 0.0))
    return [
        placed("bridge", "bridge", (x, 0.0, 0.0), 0.0, size, params),
        *(natural("lamp", f"bridge-lamp-{k}", (x + dx, y, road), yaw, lamp) for k, (dx, y, yaw) in enumerate(posts)),
        natural("car", "bridge-car", (x + 1.8, -6.0, road), 90.0, car),
    ]


def houses(canal: Canal) -> list[LayoutObject]:
    """Brick warehouses to the north, halls and an office to the south; doors face the water."""
    rows: tuple[tuple[tuple[kinds.StoreysParams, ...], float, float, float, int, str, str], ...] = (
        (_STORE, 46.0, 20.0, -92.0, 1, "brick", "gable"),
        (_STORE, 40.0, 20.0, -36.0, 1, "brick", "gable"),
        (_STORE, 40.0, 20.0, 22.0, 1, "limestone", "hip"),
        (_STORE, 38.0, 20.0, 112.0, 1, "brick", "gable"),
        (_HALL, 52.0, 26.0, -100.0, -1, "concrete", "flat"),
        (_HALL, 44.0, 26.0, -38.0, -1, "plaster", "flat"),
        (_OFFICE, 26.0, 18.0, 28.0, -1, "concrete", "flat"),
    )
    items: list[LayoutObject] = []
    for pattern, shift in canal.patterns():
        rng = canal.stream("houses", pattern)
        for bands, length, width, x, side, wall, roof in rows:
            params = kinds.BuildingParams(
                bands=bands,
                wall=wall,
                roof=roof,  # type: ignore[arg-type]
                blind_sides=(2,),
                gates=bands is not _OFFICE,
                seed=place_of(rng),
            )
            height = pass_over_building(rng, length, width, params)
            at = (x + shift, side * (canal.half_width + 28.0 + width / 2), QUAY_M)
            if canal.fits(at[0], length / 2 - 20.0):
                yaw = 0.0 if side > 0 else 180.0
                items.append(placed("building", f"house-{len(items)}", at, yaw, (length, width, height), params))
    return items


# ---- harbour --------------------------------------------------------------------------------------------------------


_FAIRWAY_NEEDS_M = 6.0
"""Free width for vessels [m]."""
_CRANES = ((-46.0, 58.0), (98.0, 66.0))
"""Position along the quay [m] and lift [deg] of the cranes of one pattern."""


def harbour(
    length_m: float = 300.0,
    width_m: float = 50.0,
    *,
    bridge: bool = True,
    vessels: int | None = None,
    cranes: int | None = None,
    bollard_spacing_m: float = 12.0,
    ripple_height: float = 0.012,
    people: int = 16,
    trees: int = 14,
    seed: int = 0,
) -> Layout:
    """Generate a canal with quays. The viewpoint is (0, 0, 2), above open water; the drive is along the canal.

    Args:
        length_m: Length of the canal [m], 80 to 900.
        width_m: Width of the canal [m], 24 to 120.
        bridge: True for a bridge across the canal.
        vessels: Vessels moored along both quays; by default one at each berth (13 on 300 m).
        cranes: Cranes on the south quay; by default two on 300 m.
        bollard_spacing_m: Distance between bollards on both quays [m], 3 to 50.
        ripple_height: Standard deviation of the height of the water [m], 0 to 0.2.
        people: People on the quays, at most 60 on 300 m.
        trees: Trees on the north quay, at most 14 on 300 m.
        seed: The same seed gives the same layout.
    """
    length = number("harbour: length_m", length_m, 80.0, 900.0)
    width = number("harbour: width_m", width_m, 24.0, 120.0)
    spacing = number("harbour: bollard_spacing_m", bollard_spacing_m, 3.0, 50.0)
    if not isinstance(bridge, (bool, np.bool_)):
        raise ConfigError(f"harbour: bridge must be true or false, got {bridge!r}")
    if not (np.isfinite(ripple_height) and 0 <= ripple_height <= 0.2):
        raise ConfigError(f"harbour: ripple_height must be from 0 to 0.2 m, got {ripple_height!r}")
    seed = whole("harbour: seed", seed, 0, 2**63 - 1)
    canal = Canal(seed, length / 2, width / 2, 0.48 * (length / 2) if bridge else None)
    patterns = len(list(canal.patterns()))
    whole("harbour: people", people, 0, 60 * patterns)
    whole("harbour: trees", trees, 0, 14 * patterns)
    size = (length + 2 * ENDS_M, width + 2 * LAND_M)
    basin = kinds.BasinParams(land_m=LAND_M, ends_m=ENDS_M, depth_m=DEPTH_M, ripple_m=float(ripple_height), seed=seed)
    items = [
        placed("basin", "basin", (0.0, 0.0, 0.0), 0.0, (length, width, QUAY_M), basin),
        *quay_gear(canal, spacing),
        *bridge_objects(canal),
        *houses(canal),
        *_vessels(canal, vessels),
        *_cranes(canal, cranes),
        *_on_the_quays(canal),
        *_crowd(canal, people, trees),
    ]
    return Layout(
        name="harbour",
        seed=seed,
        size=size,
        objects=tuple(without_clashes(items, size)),
        ways=(_fairway(canal),),
        drive=_passage(canal),
        viewpoint=LayoutPose(xyz=(0.0, 0.0, 2.0)),
    )


def _fairway(canal: Canal) -> Passage:
    """Middle of the canal, from end to end."""
    end = canal.half_length - 5.0
    return Passage(name="fairway", points=((-end, 0.0), (end, 0.0)), width_m=8.0, needs_m=_FAIRWAY_NEEDS_M)


def _passage(canal: Canal) -> PlannedDrive:
    """Along the canal and under the bridge at 2.5 m/s on a winding line; sensor 2.5 m above the water."""
    start, end = -canal.half_length + 40.0, canal.half_length - 30.0
    if end - start < 60.0:
        start, end = -canal.half_length + 10.0, canal.half_length - 10.0
    x = np.linspace(start, end, round((end - start) / 2.0) + 1)
    middle = 72.0 if canal.bridge_x is None else canal.bridge_x
    swing = 4.0 * min(1.0, canal.half_width / 25.0)
    y = swing * np.sin(2.0 * np.pi * (x - middle) / 144.0)
    points = tuple((float(a), float(b)) for a, b in zip(x, y, strict=True))
    return PlannedDrive(points=points, speeds_m_s=(2.5,) * len(points), height_m=2.5)


class _Berth(NamedTuple):
    """A vessel and its berth."""

    name: str
    params: kinds.VesselParams
    x: float
    half_beam: float
    side: int
    yaw: float


def _berths(rng: np.random.Generator) -> list[_Berth]:
    """Vessels of one pattern."""

    def loaded(name: str, length: float, cargo: str, x: float, yaw: float) -> _Berth:
        params = kinds.VesselParams(type="barge", hull_m=length, cargo=cargo, seed=place_of(rng))  # type: ignore[arg-type]
        barge(rng, length, cargo)  # advances the stream by the draws of the barge
        return _Berth(name, params, x, 2.8, -1, yaw)

    gravel = loaded("barge-gravel", 42.0, "gravel", -46.0, 0.0)
    boxes = loaded("barge-containers", 46.0, "containers", 112.0, np.pi)
    empty = loaded("barge-empty", 38.0, "gravel", -105.0, 0.0)
    tugs = [kinds.VesselParams(type="tug", hull_m=length) for length in (18.0, 13.0)]
    yachts = [kinds.VesselParams(type="yacht", hull_m=length) for length in (11.0, 9.5, 12.5)]
    berths = [
        gravel,
        _Berth("tug", tugs[0], 30.0, 2.9, -1, 0.0),
        boxes,
        empty,
        _Berth("yacht-0", yachts[0], 16.0, 1.75, 1, np.pi),
        _Berth("yacht-1", yachts[1], 31.0, 1.5, 1, np.pi),
        _Berth("yacht-2", yachts[2], -18.0, 2.0, 1, 0.0),
        _Berth("workboat", tugs[1], -44.0, 2.1, 1, np.pi),
    ]
    for k, x in enumerate((48.0, 0.0, -64.0, -76.0, 100.0)):
        length = float(rng.uniform(6.0, 9.0))
        boat = kinds.VesselParams(type="motor-boat", hull_m=length)
        berths.append(_Berth(f"motor-boat-{k}", boat, x, 0.17 * length, 1, float(rng.integers(0, 2)) * np.pi))
    return berths


def _vessels(canal: Canal, wanted: int | None) -> list[LayoutObject]:
    """Vessels along both quays, half a metre from the wall and clear of the fairway in the middle."""
    items: list[LayoutObject] = []
    for pattern, shift in canal.patterns():
        rng = canal.stream("vessels", pattern)
        for berth in _berths(rng):
            y = berth.side * (canal.half_width - berth.half_beam - 0.55)
            heel = float(rng.normal(0.0, 0.004))
            x = berth.x + float(rng.uniform(-1, 1)) + shift
            yaw = float(np.degrees(berth.yaw + heel))
            name = f"{berth.name}@{pattern}" if pattern else berth.name
            half = 0.5 * (berth.params.hull_m or 0.0)
            if canal.fits(x, half + 2.0) and canal.off_bridge(x, 6.0 + half):
                items.append(natural("vessel", name, (x, y, 0.0), yaw, berth.params))
    if wanted is None:
        return items
    whole("harbour: vessels", wanted, 0, len(items))
    chosen = Stream(canal.seed, "world/harbour/berths").generator().permutation(len(items))[:wanted]
    return [items[k] for k in sorted(chosen.tolist())]


def _cranes(canal: Canal, wanted: int | None) -> list[LayoutObject]:
    """Portal cranes on the south quay."""
    places = [(x + shift, lift) for _, shift in canal.patterns() for x, lift in _CRANES if canal.fits(x + shift, 6.0)]
    places = [place for place in places if canal.off_bridge(place[0], 12.0)]
    if wanted is not None:
        whole("harbour: cranes", wanted, 0, len(places))
    y = -canal.half_width - 8.0
    return [
        natural("crane", f"crane-{k}", (x, y, QUAY_M), 90.0, kinds.CraneParams(reach_m=24.0, lift_deg=lift))
        for k, (x, lift) in enumerate(places[:wanted])
    ]


def _on_the_quays(canal: Canal) -> list[LayoutObject]:
    """Container stacks, lamps, cars and lorries."""
    stacks: list[LayoutObject] = []
    lamps: list[LayoutObject] = []
    parked: list[LayoutObject] = []
    half = canal.half_width
    for pattern, shift in canal.patterns():
        rng = canal.stream("quay", pattern)
        rows = [
            (x, -half - d)
            for d in (21.5, 24.5, 31.0, 34.0)
            for x in np.arange(92.0, 136.0, 7.0).tolist()
            if rng.uniform() < 0.8
        ]
        for x, y in rows:
            levels = int(rng.integers(1, 4))
            paints = tuple(CONTAINER_PAINTS[k] for k in rng.integers(0, len(CONTAINER_PAINTS), levels))
            params = kinds.ContainersParams(paints=paints, base_m=QUAY_M)  # type: ignore[arg-type]
            if canal.fits(x + shift):
                stacks.append(natural("containers", f"containers-{len(stacks)}", (x + shift, y, 0.0), 0.0, params))
        post = kinds.LampParams(height_m=6.5, arm_m=1.0)
        for side in (-1.0, 1.0):
            for x in (np.arange(-135.0, 136.0, 27.0) + shift).tolist():
                if canal.fits(x) and canal.off_bridge(x, 5.5):
                    at = (x, side * (half + 2.2), QUAY_M)
                    lamps.append(natural("lamp", f"lamp-{len(lamps)}", at, side * 90.0, post))
        for k, shape in enumerate(("saloon", "van", "estate", "suv", "hatchback", "van", "saloon", "suv")):
            x = shift + (-112.0 + 3.2 * k if k < 4 else 8.0 + 3.2 * k)
            paint = PAINTS[int(rng.integers(len(PAINTS)))]
            car = kinds.CarParams(shape=shape, paint=paint)  # type: ignore[arg-type]
            if canal.fits(x):
                parked.append(natural("car", f"car-{len(parked)}", (x, half + 22.0, QUAY_M), 90.0, car))
    lorries = [
        (x + shift, -half - d, np.degrees(yaw))
        for _, shift in canal.patterns()
        for x, d, yaw in ((-14.0, 19.5, 0.0), (52.0, 15.0, 0.5), (-72.0, 23.0, -1.5))
        if canal.fits(x + shift)
    ]
    return [
        *stacks,
        *lamps,
        *parked,
        *(
            natural("lorry", f"lorry-{k}", (x, y, QUAY_M), yaw, kinds.LorryParams())
            for k, (x, y, yaw) in enumerate(lorries)
        ),
    ]


def _crowd(canal: Canal, people: int, trees: int) -> list[LayoutObject]:
    """People on both quays, away from cranes and the bridge; benches, bins and trees on the north quay."""
    walkers: list[LayoutObject] = []
    seats: list[LayoutObject] = []
    planted: list[LayoutObject] = []
    for order, (pattern, shift) in enumerate(canal.patterns()):
        rng = canal.stream("people", pattern)
        # The first patterns are filled to their capacity.
        walkers += _people(canal, rng, shift, min(60, max(0, people - 60 * order)), len(walkers))
        seats += _seats(canal, shift, len(seats) // 2)
        planted += _trees(canal, rng, shift, min(14, max(0, trees - 14 * order)), len(planted))
    return [*walkers, *seats, *planted]


def _people(canal: Canal, rng: np.random.Generator, shift: float, wanted: int, first: int) -> list[LayoutObject]:
    figures = [
        kinds.PersonParams(height_m=height, stride_m=stride)
        for height, stride in ((1.68, 0.2), (1.75, 0.3), (1.84, 0.05))
    ]
    places = np.array(
        [[x, side * (canal.half_width + 4.5)] for side in (1.0, -1.0) for x in np.arange(-118.0, 122.0, 8.0)]
    )
    places = places[[canal.off_bridge(x + shift, 7.0) for x in places[:, 0].tolist()]]
    in_crane = (places[:, 1] < 0) & (np.abs(places[:, :1] - [x for x, _ in _CRANES]).min(axis=1) < 6.0)
    places = places[~in_crane]
    key = rng.exponential(size=len(places)) * np.exp(np.abs(places[:, 0]) / 40.0)
    items = []
    for k, row in enumerate(np.argsort(key, kind="stable")[:wanted]):
        at = places[row] + rng.uniform(-1.2, 1.2, 2)
        yaw = float(rng.uniform(0, 360))
        if canal.fits(float(at[0]) + shift):
            xyz = (at[0] + shift, at[1], QUAY_M)
            items.append(natural("person", f"person-{first + k}", xyz, yaw, dressed(figures[k % 3], first + k)))
    return items


def _seats(canal: Canal, shift: float, first: int) -> list[LayoutObject]:
    """Benches that face the water, each with a litter bin."""
    places = [x + shift for x in (-24.0, 6.0, 40.0) if canal.fits(x + shift, 2.0)]
    y = canal.half_width + 7.5
    items = []
    for k, x in enumerate(places, start=first):
        items.append(natural("bench", f"bench-{k}", (x, y, QUAY_M), -90.0))
        items.append(natural("litter-bin", f"bin-{k}", (x + 1.6, y, QUAY_M), 0.0))
    return items


def _trees(canal: Canal, rng: np.random.Generator, shift: float, wanted: int, first: int) -> list[LayoutObject]:
    spots: Floats = np.array([-122.0, -104, -86, -68, -50, -32, -14, 2, 14, 28, 44, 92, 106, 120])
    items = []
    for k, x in enumerate(spots[np.argsort(np.abs(spots), kind="stable")[:wanted]].tolist()):
        size, params = drawn_tree(rng, (7, 10), (2.2, 3.0), 2.4, 2400, 0.26)
        at = (x + shift, canal.half_width + 11.5, QUAY_M)
        if canal.fits(at[0], 3.0):
            items.append(placed("planted-tree", f"tree-{first + k}", at, 0.0, size, params))
    return items
