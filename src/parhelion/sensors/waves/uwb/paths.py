"""Paths of waves from a tag to anchors: direct, through walls, around an edge, and by up to two mirrors.

Images in float64 give the geometry; boxes around the planes leave out most sequences, and rays in float32 tell whether
the mirror is there and its legs are free at the time of the measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.rays.records import Rays
from parhelion.sensors.waves.edges import around, bent_amplitude, most_detour
from parhelion.sensors.waves.uwb.mirrors import Sequences
from parhelion.sensors.waves.uwb.scene import RadioScene
from parhelion.sensors.waves.uwb.walls import DirectWays, through
from parhelion.sensors.waves.uwb.waves import Wave, decibel, free_space_gain, plate_share, reflect
from parhelion.surfaces.radio import Complexes

LAYER_M = 0.01
"""Parallel planes nearer to each other are layers of one surface, such as paint on a road."""
LIFT_M = 0.012
"""Legs are tested from this far above their mirrors."""
LEAST_SHARE = 0.1
"""Mirrors that give less of a whole plane's amplitude are left out."""
_SAME_PLANE = 0.999
_ROWS = 600_000


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths, one row each, in order of measurement, anchor and delay; m rows."""

    sample: NDArray[np.int64]
    """Row of the measurement, shape (m,)."""
    anchor: NDArray[np.int64]
    """Number of the anchor, shape (m,)."""
    order: NDArray[np.int64]
    """Number of mirrors: 0, 1 or 2, shape (m,)."""
    surfaces: NDArray[np.int64]
    """Number of surfaces that a direct path goes through, shape (m,)."""
    length: Floats
    """Geometric length [m], shape (m,)."""
    delay: Floats
    """Delay [s], with what walls add, shape (m,)."""
    gain: Complexes
    """Amplitude between isotropic antennas of one polarisation, and phase at the carrier, shape (m,)."""
    departure: Floats
    """Unit vector from the tag along the path, shape (m, 3)."""
    arrival: Floats
    """Unit vector from the anchor to where the path comes from, shape (m, 3)."""
    corner: Floats
    """Mirror points and edges [m] in the order from the tag, NaN where there is none, shape (m, 2, 3)."""
    edges: NDArray[np.int64]
    """Number of edges that it bends around, shape (m,)."""

    def __len__(self) -> int:
        return len(self.sample)

    @property
    def loss_db(self) -> Floats:
        """Path loss [dB], shape (m,)."""
        return -decibel(self.gain)

    @property
    def phase(self) -> Floats:
        """Phase at the carrier [rad], -pi to pi, shape (m,)."""
        return np.asarray(np.angle(self.gain))

    def rows(self, wanted: NDArray[np.int64] | NDArray[np.bool_]) -> Paths:
        """Some rows."""
        return Paths(*(getattr(self, one.name)[wanted] for one in fields(self)))


def joined_paths(parts: list[Paths]) -> Paths:
    """All rows of several."""
    return Paths(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Paths)))


def in_order(paths: Paths) -> Paths:
    """The same rows in order of measurement, anchor and delay."""
    return paths.rows(np.lexsort((paths.delay, paths.anchor, paths.sample)))


def find_paths(
    radio: RadioScene, known: Sequences, anchors: Floats, tags: Floats, times: Floats, wave: Wave,
    diffraction: bool = False,
) -> Paths:  # fmt: skip
    """Paths from tags (n, 3) [m] at times (n,) [s] to all anchors (a, 3) [m]; `known` is what `sequences` found."""
    # What moves is placed for the times of a launch: one launch a time gives the same bits in any run.
    size = 1 if radio.changes else max(1, _ROWS // max(1, len(known)))
    parts = []
    for first in range(0, len(tags), size):
        rows = slice(first, first + size)
        found = [
            direct_paths(radio, anchors, tags[rows], times[rows], wave, diffraction),
            _mirrored_paths(radio, known, anchors, tags[rows], times[rows], wave),
        ]
        one = in_order(joined_paths(found))
        parts.append(Paths(one.sample + first, *(getattr(one, field.name) for field in fields(Paths)[1:])))
    return joined_paths(parts) if parts else direct_paths(radio, anchors, tags, times, wave)


def _unit(vector: Floats) -> tuple[Floats, Floats]:
    length = np.sqrt(np.einsum("ij,ij->i", vector, vector))
    return vector / np.where(length > 0, length, 1.0)[:, None], length


def direct_paths(
    radio: RadioScene, anchors: Floats, tags: Floats, times: Floats, wave: Wave, diffraction: bool = False
) -> Paths:
    """The direct path of each pair of tag (n, 3) [m] and anchor (a, 3) [m], through what is between them.

    With `diffraction` also the ways around the edges of that.
    """
    count, number = len(tags), len(anchors)
    sample, anchor = np.repeat(np.arange(count), number), np.tile(np.arange(number), count)
    start, end = tags[sample], anchors[anchor]
    direction, length = _unit(end - start)
    apart = np.flatnonzero(length > 1e-6)
    sample, anchor, direction, length = sample[apart], anchor[apart], direction[apart], length[apart]
    ways = through(radio, start[apart], end[apart], times[sample], wave)
    turn = np.exp(-2j * np.pi / wave.length_m * length)
    corner = np.full((len(sample), 2, 3), np.nan)
    found = Paths(
        sample, anchor, np.zeros(len(sample), np.int64), ways.surfaces.astype(np.int64), length,
        (length + ways.extra_m) / SPEED_OF_LIGHT_M_S, free_space_gain(length, wave.carrier_hz) * turn * ways.gain,
        direction, -direction, corner, np.zeros(len(sample), np.int64),
    )  # fmt: skip
    passed = found.rows(np.abs(ways.gain) > 0)
    return joined_paths([passed, _bent(radio, found, ways, anchors, tags, times, wave)]) if diffraction else passed


def _bent(
    radio: RadioScene, direct: Paths, ways: DirectWays, anchors: Floats, tags: Floats, times: Floats, wave: Wave
) -> Paths:
    """Paths around the edges of what blocks the direct ones.

    A screen that lets the share T of the field pass bends the other 1 - T (Kirchhoff's approximation).
    """
    shut = np.flatnonzero(ways.solid)
    sample, anchor = direct.sample[shut], direct.anchor[shut]
    row, place = around(radio.scene, tags[sample], anchors[anchor], times[sample], most_detour(wave.length_m))
    found = direct.rows(shut[row])
    out, before = _unit(place - tags[found.sample])
    back, after = _unit(place - anchors[found.anchor])
    length = before + after
    gain = free_space_gain(found.length, wave.carrier_hz) * bent_amplitude(length - found.length, wave.length_m)
    gain = gain * (1.0 - np.abs(ways.gain[shut[row]])) * np.exp(-2j * np.pi / wave.length_m * length)
    corner = np.stack([place, np.full_like(place, np.nan)], axis=1)
    none, one = np.zeros(len(row), np.int64), np.ones(len(row), np.int64)
    return Paths(
        found.sample, found.anchor, none, none, length, length / SPEED_OF_LIGHT_M_S, gain, out, back, corner, one
    )  # fmt: skip


# ---- mirrors --------------------------------------------------------------------------------------------------------


def _mirrored_paths(
    radio: RadioScene, known: Sequences, anchors: Floats, tags: Floats, times: Floats, wave: Wave
) -> Paths:
    sample, row, one, other = _through_boxes(radio, known, tags)
    kept = known.rows(row)
    free = _free(radio, kept, anchors, tags[sample], one, other, times[sample])
    sample, row, one, other, kept = sample[free], row[free], one[free], other[free], kept.rows(free)
    return _distinct(_waves(radio, kept, anchors, tags, sample, one, other, wave), radio, kept)


def _crossing(
    radio: RadioScene, plane: NDArray[np.int64], start: Floats, end: Floats
) -> tuple[NDArray[np.bool_], Floats]:
    """Whether segments meet planes inside of their boxes, and where [m]."""
    planes = radio.patches
    normal = planes.normal[plane]
    before = np.einsum("ij,ij->i", normal, start) - planes.offset[plane]
    after = np.einsum("ij,ij->i", normal, end) - planes.offset[plane]
    apart = before * after < 0.0
    share = before / np.where(apart, before - after, 1.0)
    place = start + share[:, None] * (end - start)
    inside = np.all((place >= planes.lower[plane] - LAYER_M) & (place <= planes.upper[plane] + LAYER_M), axis=1)
    return apart & inside, place


def _through_boxes(
    radio: RadioScene, known: Sequences, tags: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
    """Measurement, row of `known`, first and second mirror point of all that pass the boxes."""
    found, gates = [], known.gates(radio.patches)
    for sample, tag in enumerate(tags):
        before = gates.normal @ tag - gates.offset
        row = np.flatnonzero(before * gates.after < 0.0)
        share = before[row] / (before[row] - gates.after[row])
        one = tag + share[:, None] * (known.image[row] - tag)
        inside = np.all((one >= gates.lower[row] - LAYER_M) & (one <= gates.upper[row] + LAYER_M), axis=1)
        row, one = row[inside], one[inside]
        other = np.full((len(row), 3), np.nan)
        double = np.flatnonzero(known.second[row] >= 0)
        good2, place = _crossing(radio, known.second[row[double]], one[double], known.half_image[row[double]])
        other[double] = place
        keep = np.ones(len(row), bool)
        keep[double] = good2
        found.append((np.full(int(keep.sum()), sample), row[keep], one[keep], other[keep]))
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


def _free(
    radio: RadioScene, kept: Sequences, anchors: Floats, tags: Floats, one: Floats, other: Floats, times: Floats
) -> NDArray[np.bool_]:
    """Whether each mirror is there, and all legs are free; one launch of rays."""
    double = kept.second >= 0
    two = np.flatnonzero(double)
    planes, end = radio.patches, anchors[kept.anchor]
    lift1, down1 = _lifted(planes.normal[kept.first], planes.offset[kept.first], tags, one)
    lift2, down2 = _lifted(planes.normal[kept.second[two]], planes.offset[kept.second[two]], one[two], other[two])
    corner = lift1.copy()
    corner[two] = lift2
    start = np.concatenate([tags, lift1[two], corner, lift1, lift2])
    stop = np.concatenate([lift1, lift2, end, lift1 + 2.0 * LIFT_M * down1, lift2 + 2.0 * LIFT_M * down2])
    n, m = len(one), len(two)
    at = np.concatenate([np.arange(n), two, np.arange(n), np.arange(n), two])
    direction, length = _unit(stop - start)
    hits = radio.scene.cast(Rays(start, direction, times[at], length))
    legs = 2 * n + m
    good = np.ones(n, bool)
    np.logical_and.at(good, at[:legs], ~hits.found[:legs])
    wanted = np.concatenate([kept.first, kept.second[two]])
    there = _is_mirror(radio, wanted, radio.patch_of(hits.triangle[legs:]))
    np.logical_and.at(good, at[legs:], there)
    return good


def _lifted(normal: Floats, offset: Floats, seen_from: Floats, place: Floats) -> tuple[Floats, Floats]:
    """Places raised off their mirrors to the side they are seen from, and the directions back down."""
    side = np.sign(np.einsum("ij,ij->i", normal, seen_from) - offset)[:, None]
    return place + LIFT_M * side * normal, -side * normal


def _is_mirror(radio: RadioScene, wanted: NDArray[np.int64], met: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether rays met the wanted plane, or a layer on it."""
    planes = radio.patches
    if not len(planes):
        return np.zeros(len(wanted), bool)
    parallel = np.abs(np.einsum("ij,ij->i", planes.normal[wanted], planes.normal[met])) > _SAME_PLANE
    return (met >= 0) & ((met == wanted) | parallel)


def _waves(
    radio: RadioScene, kept: Sequences, anchors: Floats, tags: Floats, sample: NDArray[np.int64], one: Floats,
    other: Floats, wave: Wave,
) -> Paths:  # fmt: skip
    """Length, delay, gain and angles of paths whose geometry is known."""
    planes, start, end = radio.patches, tags[sample], anchors[kept.anchor]
    double = (kept.second >= 0)[:, None]
    out, leg1 = _unit(one - start)
    middle, leg2 = _unit(np.where(double, other - one, end - one))
    last, leg3 = _unit(np.where(double, end - other, middle))
    leg3 = np.where(double[:, 0], leg3, 0.0)
    _, length = _unit(kept.image - start)
    wavelength = wave.length_m
    first, second = kept.first, np.maximum(kept.second, 0)
    field = wave.field(out).astype(np.complex128)
    field = reflect(field, out, planes.normal[first], radio.permittivity[planes.part[first]])
    share = plate_share(
        planes.area[first], np.abs(np.einsum("ij,ij->i", out, planes.normal[first])), leg1, leg2 + leg3, wavelength
    )
    again = reflect(field, middle, planes.normal[second], radio.permittivity[planes.part[second]])
    field = np.where(double, again, field)
    cos = np.abs(np.einsum("ij,ij->i", middle, planes.normal[second]))
    beyond = plate_share(planes.area[second], cos, leg1 + leg2, np.where(leg3 > 0, leg3, 1.0), wavelength)
    smaller = np.minimum(share, np.where(double[:, 0], beyond, 1.0))
    share = share * np.where(double[:, 0], beyond, 1.0)
    received = np.einsum("ij,ij->i", field, wave.field(last))
    turn = np.exp(-2j * np.pi / wavelength * length)
    corner = np.stack([one, np.where(double, other, np.nan)], axis=1)
    gain = free_space_gain(np.maximum(length, 1e-6), wave.carrier_hz) * share * received * turn
    gain = np.where(smaller >= LEAST_SHARE, gain, 0.0)
    return Paths(
        sample, kept.anchor, np.where(double[:, 0], 2, 1), np.zeros(len(sample), np.int64), length,
        length / SPEED_OF_LIGHT_M_S, gain, out, -last, corner, np.zeros(len(sample), np.int64),
    )  # fmt: skip


def _distinct(found: Paths, radio: RadioScene, kept: Sequences) -> Paths:
    """Paths that carry something; of several by layers of one surface, the one by the largest planes."""
    keep = np.flatnonzero(np.abs(found.gain) > 1e-15)
    found, kept = found.rows(keep), kept.rows(keep)
    planes = radio.patches
    if len(found) < 2:
        return found
    area = planes.area[kept.first] * np.where(kept.second >= 0, planes.area[kept.second], 1.0)
    order = np.lexsort((-area, found.length, found.order, found.anchor, found.sample))
    found, kept = found.rows(order), kept.rows(order)
    area, good = area[order], np.ones(len(found), bool)
    # A corner that all mirrors of one path share with those of a path of nearly its length: layers, or an edge of two.
    for k in range(1, len(found)):
        j = k - 1
        while j >= 0 and found.sample[j] == found.sample[k] and found.anchor[j] == found.anchor[k] and (
            found.order[j] == found.order[k] and found.length[k] - found.length[j] < 4.0 * LAYER_M
        ):  # fmt: skip
            gap = np.nanmax(np.abs(found.corner[k] - found.corner[j]))
            if good[j] and gap < 5.0 * LAYER_M and _alike(planes.normal, kept, k, j):
                good[k if area[k] <= area[j] else j] = False
            j -= 1
    return found.rows(good)


def _alike(normal: Floats, kept: Sequences, a: int, b: int) -> bool:
    """Whether two sequences mirror at parallel planes."""
    pairs = [(kept.first[a], kept.first[b])]
    if kept.second[a] >= 0:
        pairs.append((kept.second[a], kept.second[b]))
    return all(abs(float(normal[one] @ normal[other])) > _SAME_PLANE for one, other in pairs)
