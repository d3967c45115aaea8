"""Propagation paths from a tag to anchors: direct, through walls, around an edge, and over up to two reflections."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.geometry import unit
from parhelion.core.pose import Floats
from parhelion.sensors.waves.diffraction import diffracted_amplitude, edge_paths, most_detour
from parhelion.sensors.waves.mirrors import MirrorFinder, MirrorPaths, MirrorRules, Sequences
from parhelion.sensors.waves.radio import RadioScene, Wave, decibel, free_space_gain, plate_share, reflect
from parhelion.sensors.waves.uwb.walls import Transmission, through
from parhelion.surfaces.radio import Complexes

RULES = MirrorRules(
    order=2, rays=65_536, lift_m=0.012, parallel=0.999, search_lift_m=2e-3, smallest_m2=(0.05, 0.5), layer_m=0.01
)
"""Search rules. Rays from each anchor are 0.8 degrees apart, or 1 m at 70 m. Small planes in pairs attenuate twice."""
LEAST_SHARE = 0.1
"""Minimum amplitude of a reflection relative to that of an infinite plane; weaker reflections are ignored."""
_ROWS = 600_000


@dataclass(frozen=True, eq=False)
class RadioPaths(Table):
    """Propagation paths, one per row, sorted by measurement, anchor and delay; m rows."""

    sample: NDArray[np.int64]
    """Row of the measurement, shape (m,)."""
    anchor: NDArray[np.int64]
    """Number of the anchor, shape (m,)."""
    order: NDArray[np.int64]
    """Number of reflections: 0, 1 or 2, shape (m,)."""
    surfaces: NDArray[np.int64]
    """Number of surfaces that the direct path crosses, shape (m,)."""
    length: Floats
    """Geometric length [m], shape (m,)."""
    delay: Floats
    """Delay [s], including the extra delay in walls, shape (m,)."""
    gain: Complexes
    """Complex gain between isotropic antennas of equal polarisation, with the phase at the carrier, shape (m,)."""
    departure: Floats
    """Unit vector from the tag along the path, shape (m, 3)."""
    arrival: Floats
    """Unit vector from the anchor back along the path, shape (m, 3)."""
    corner: Floats
    """Reflection points and edges [m], ordered from the tag; unused entries are NaN, shape (m, 2, 3)."""
    edges: NDArray[np.int64]
    """Number of diffracting edges, shape (m,)."""

    @property
    def phase(self) -> Floats:
        """Phase at the carrier [rad], -pi to pi, shape (m,)."""
        return np.asarray(np.angle(self.gain))

    @property
    def loss_db(self) -> Floats:
        """Path loss [dB], shape (m,)."""
        return -decibel(self.gain)


def in_order(paths: RadioPaths) -> RadioPaths:
    """Return the rows sorted by measurement, anchor and delay."""
    return paths.rows(np.lexsort((paths.delay, paths.anchor, paths.sample)))


def mirror_finder(radio: RadioScene, order: int, reach_m: float) -> MirrorFinder:
    """Finder of paths with up to `order` (0, 1, 2) reflections within a reach [m]. Foliage does not reflect."""
    rules = replace(RULES, order=order, reach_m=reach_m)
    return MirrorFinder(radio.scene, radio.patches, rules, ~radio.foliage[radio.patches.part], radio.standing)


def find_paths(
    radio: RadioScene,
    finder: MirrorFinder,
    known: Sequences,
    anchors: Floats,
    tags: Floats,
    times: Floats,
    wave: Wave,
    diffraction: bool = False,
) -> RadioPaths:
    """Paths from tags (n, 3) [m] at times (n,) [s] to all anchors (a, 3) [m]; `known`: their plane sequences."""
    # Moving objects are placed once per launch. One launch per time keeps results independent of how a run is split.
    size = 1 if radio.scene.changes else max(1, _ROWS // max(1, len(known)))
    parts = []
    for first in range(0, len(tags), size):
        rows = slice(first, first + size)
        direct = direct_paths(radio, anchors, tags[rows], times[rows], wave, diffraction)
        mirrored = finder.paths(tags[rows], known, times[rows])
        one = in_order(RadioPaths.joined([direct, _distinct(_waves(radio, mirrored, wave), radio, mirrored)]))
        parts.append(replace(one, sample=one.sample + first))
    return RadioPaths.joined(parts) if parts else direct_paths(radio, anchors, tags, times, wave)


def direct_paths(
    radio: RadioScene, anchors: Floats, tags: Floats, times: Floats, wave: Wave, diffraction: bool = False
) -> RadioPaths:
    """Direct path of each pair of tag (n, 3) [m] and anchor (a, 3) [m], through any obstacles between them.

    `diffraction` adds the paths around the edges of these obstacles.
    """
    count, number = len(tags), len(anchors)
    sample, anchor = np.repeat(np.arange(count), number), np.tile(np.arange(number), count)
    start, end = tags[sample], anchors[anchor]
    direction, length = unit(end - start)
    apart = np.flatnonzero(length > 1e-6)
    sample, anchor, direction, length = sample[apart], anchor[apart], direction[apart], length[apart]
    passage = through(radio, start[apart], end[apart], times[sample], wave)
    phasor = np.exp(-2j * np.pi / wave.length_m * length)
    corner = np.full((len(sample), 2, 3), np.nan)
    found = RadioPaths(
        sample,
        anchor,
        np.zeros(len(sample), np.int64),
        passage.surfaces.astype(np.int64),
        length,
        (length + passage.extra_m) / SPEED_OF_LIGHT_M_S,
        free_space_gain(length, wave.carrier_hz) * phasor * passage.gain,
        direction,
        -direction,
        corner,
        np.zeros(len(sample), np.int64),
    )
    passed = found.rows(np.abs(passage.gain) > 0)
    return (
        RadioPaths.joined([passed, _diffracted(radio, found, passage, anchors, tags, times, wave)])
        if diffraction
        else passed
    )


def _diffracted(
    radio: RadioScene,
    direct: RadioPaths,
    passage: Transmission,
    anchors: Floats,
    tags: Floats,
    times: Floats,
    wave: Wave,
) -> RadioPaths:
    """Paths around the edges of obstacles on the direct paths.

    A screen that transmits the fraction T of the field diffracts the fraction 1 - T (Kirchhoff's approximation).
    """
    shut = np.flatnonzero(passage.solid)
    sample, anchor = direct.sample[shut], direct.anchor[shut]
    row, place = edge_paths(radio.scene, tags[sample], anchors[anchor], times[sample], most_detour(wave.length_m))
    found = direct.rows(shut[row])
    out, before = unit(place - tags[found.sample])
    back, after = unit(place - anchors[found.anchor])
    length = before + after
    gain = free_space_gain(found.length, wave.carrier_hz) * diffracted_amplitude(length - found.length, wave.length_m)
    gain = gain * (1.0 - np.abs(passage.gain[shut[row]])) * np.exp(-2j * np.pi / wave.length_m * length)
    corner = np.stack([place, np.full_like(place, np.nan)], axis=1)
    none, one = np.zeros(len(row), np.int64), np.ones(len(row), np.int64)
    return RadioPaths(
        found.sample, found.anchor, none, none, length, length / SPEED_OF_LIGHT_M_S, gain, out, back, corner, one
    )


def _waves(radio: RadioScene, found: MirrorPaths, wave: Wave) -> RadioPaths:
    """Delay and gain of reflected paths."""
    planes, wavelength, length = radio.patches, wave.length_m, found.length
    double = found.mirrors[:, 1] >= 0
    first, second = found.mirrors[:, 0], np.maximum(found.mirrors[:, 1], 0)
    out, middle, last = (np.ascontiguousarray(found.direction[:, leg]) for leg in range(3))
    leg1, leg2, leg3 = found.legs.T
    field = wave.field(out).astype(np.complex128)
    field = reflect(field, out, planes.normal[first], radio.permittivity[planes.part[first]])
    share = plate_share(planes.area[first], found.cosine[:, 0], leg1, leg2 + leg3, wavelength)
    again = reflect(field, middle, planes.normal[second], radio.permittivity[planes.part[second]])
    field = np.where(double[:, None], again, field)
    beyond = plate_share(
        planes.area[second], found.cosine[:, 1], leg1 + leg2, np.where(leg3 > 0, leg3, 1.0), wavelength
    )
    beyond = np.where(double, beyond, 1.0)
    received = np.einsum("ij,ij->i", field, wave.field(last))
    gain = free_space_gain(np.maximum(length, 1e-6), wave.carrier_hz) * (share * beyond) * received
    gain = np.where(np.minimum(share, beyond) >= LEAST_SHARE, gain * np.exp(-2j * np.pi / wavelength * length), 0.0)
    none = np.zeros(len(found), np.int64)
    return RadioPaths(
        found.sample,
        found.target,
        found.order,
        none,
        length,
        length / SPEED_OF_LIGHT_M_S,
        gain,
        out,
        -last,
        found.points,
        none,
    )


def _distinct(found: RadioPaths, radio: RadioScene, over: MirrorPaths) -> RadioPaths:
    """Paths with non-zero gain. Among paths over layers of one surface, keep the one over the largest planes."""
    keep = np.flatnonzero(np.abs(found.gain) > 1e-15)
    found, mirrors = found.rows(keep), over.mirrors[keep]
    if len(found) < 2:
        return found
    planes, layer = radio.patches, RULES.layer_m
    area = planes.area[mirrors[:, 0]] * np.where(mirrors[:, 1] >= 0, planes.area[mirrors[:, 1]], 1.0)
    order = np.lexsort((-area, found.length, found.order, found.anchor, found.sample))
    found, normal, area, good = found.rows(order), planes.normal[mirrors[order]], area[order], np.ones(len(found), bool)
    # Two paths of nearly equal length whose reflection points coincide come from layers, or from an edge of two planes.
    for k in range(1, len(found)):
        j = k - 1
        while (
            j >= 0
            and found.sample[j] == found.sample[k]
            and found.anchor[j] == found.anchor[k]
            and (found.order[j] == found.order[k] and found.length[k] - found.length[j] < 4.0 * layer)
        ):
            gap = np.nanmax(np.abs(found.corner[k] - found.corner[j]))
            cosine = np.abs(np.einsum("ij,ij->i", normal[k], normal[j]))[: found.order[k]]
            if good[j] and gap < 5.0 * layer and np.all(cosine > RULES.parallel):
                good[k if area[k] <= area[j] else j] = False
            j -= 1
    return found.rows(good)
