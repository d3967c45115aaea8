"""Raindrops in the path of each beam of a scan, by bands of the rain rate (Arce 2025, figures 4.7 to 4.10).

The number in a beam is Poisson distributed with the mean V ∫ N(D) dD, where V is the volume of the beam up to the range
of its shot. Arce's beam is a cylinder; by default the beam widens with its divergence.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.core.files import atomic_write
from parhelion.core.pose import Floats
from parhelion.sensors.optics.lidar.config import Beam
from parhelion.sensors.optics.lidar.emit import cross_section
from parhelion.weather.particles import drop_sizes, drops_in_beam

BANDS_MM_H = ((5.0, 100.0), (5.0, 25.0), (25.0, 50.0), (50.0, 75.0), (75.0, 100.0))
"""Bands of the rain rate: Arce's whole sweep (figure 4.7), his three bands, and one above them."""
RATES = 20
"""Rates of each band, evenly spaced."""
BINS = 60

Shape = Literal["frustum", "cylinder"]


@dataclass(frozen=True, eq=False)
class Drops:
    """Histogram of the drops per beam over the rates of one band."""

    band_mm_h: tuple[float, float]
    edges: Floats
    """Edges of the bins [drops], shape (bins + 1,): the first bin holds beams without drops, further ones widen."""
    beams: NDArray[np.int64]
    """Number of beams per bin, shape (bins,)."""
    mean: float
    """Mean number of drops per beam."""


def beam_volumes(beam: Beam, range_m: Floats, shape: Shape = "frustum") -> Floats:
    """Volume of a beam up to each range [m³]; Simpson's rule is exact for an area quadratic in range."""
    ends = [np.asarray(cross_section(beam, share * range_m), np.float64) for share in (0.0, 0.5, 1.0)]
    if shape == "cylinder":
        return ends[0] * range_m
    return range_m / 6.0 * (ends[0] + 4.0 * ends[1] + ends[2])


def beam_lengths(scan: Scan, largest_m: float) -> Floats:
    """Length of the path of every shot [m]: the farthest return, or the largest range of the sensor without one."""
    lengths = np.zeros(len(scan.shots))
    np.maximum.at(lengths, scan.fields["shot"].astype(np.int64), scan.fields["range"].astype(np.float64))
    return np.where(lengths > 0.0, lengths, largest_m)


def drops_per_beam(
    volume_m3: Floats,
    bands_mm_h: Sequence[tuple[float, float]] = BANDS_MM_H,
    *,
    sizes: str = "marshall-palmer",
    seed: int = 0,
) -> list[Drops]:
    """Histograms by band: every beam at every rate of the band holds a Poisson number of drops."""
    counts = []
    for number, (low, high) in enumerate(bands_mm_h):
        if not 0.0 < low < high:
            raise ConfigError(f"drops: bands must rise from above 0, got {low:g} to {high:g} mm/h")
        draws = np.random.default_rng((seed, number))
        means = [
            np.asarray(drops_in_beam(drop_sizes(sizes, rate), volume_m3)) for rate in np.linspace(low, high, RATES)
        ]
        counts.append(np.concatenate([draws.poisson(mean) for mean in means]))
    # The volume of a beam grows with the cube of its range, so the numbers span decades.
    top = float(max(found.max() for found in counts))
    edges = np.unique(np.rint(np.geomspace(1.0, top + 2.0, BINS))) - 0.5
    edges = np.concatenate([[-0.5], edges])
    return [
        Drops((float(low), float(high)), edges, np.histogram(found, edges)[0], float(found.mean()))
        for (low, high), found in zip(bands_mm_h, counts, strict=True)
    ]


def write_csv(path: Path, found: Sequence[Drops]) -> None:
    """Write the histograms: one row per bin, with the number of beams of each band."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["drops_from", "drops_to", *(f"beams_{low:g}_to_{high:g}_mm_h" for low, high in _bands(found))])
    for k, (low, high) in enumerate(zip(found[0].edges[:-1] + 0.5, found[0].edges[1:] - 0.5, strict=True)):
        table.writerow([f"{low:g}", f"{high:g}", *(int(one.beams[k]) for one in found)])
    with atomic_write(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")


def _bands(found: Sequence[Drops]) -> list[tuple[float, float]]:
    return [one.band_mm_h for one in found]


def picture(found: Sequence[Drops], title: str) -> Any:
    """Histograms below each other, as in Arce's figures."""
    from parhelion.pictures.style import ACCENT, quiet, sheet

    figure = sheet(8.0, 0.6 + 1.7 * len(found))
    height = figure.get_size_inches()[1]
    figure.subplots_adjust(left=0.1, right=0.97, top=1 - 0.4 / height, bottom=0.55 / height, hspace=0.55)
    for number, one in enumerate(found):
        axes = figure.add_subplot(len(found), 1, number + 1)
        low, high = one.band_mm_h
        quiet(axes, f"{title if number == 0 else ''}  {low:g} to {high:g} mm/h, mean {one.mean:.3g} drops".strip())
        axes.stairs(one.beams[1:], one.edges[1:], fill=True, color=ACCENT)
        axes.axvline(one.mean, color="#dfe5ec", linewidth=0.8)
        axes.set(xscale="log", xlim=(one.edges[1], one.edges[-1]), ylabel="beams")
    axes.set_xlabel("drops in the path of a beam")
    return figure
