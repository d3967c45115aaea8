"""Tables and pictures of docs/weather-validation.md: weather against closed forms, published tables and recordings.

python docs/figures/weather_validation.py              # everything, about two minutes on two cores
python docs/figures/weather_validation.py vane huang   # some sections
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from validation_clutter import clutter
from validation_recordings import against_recordings
from weather_page import table, write
from weather_points import drop_hits, huang_table, rainy_city
from weather_ranges import maximum_range, vane_table
from weather_recording import on_a_recording

from parhelion.weather.media.fog import fog_extinction
from parhelion.weather.media.rain import geometric_extinction, rain_extinction, range_in_extinction
from parhelion.weather.particles import drop_sizes

GUO_PER_M = {5.0: 1.32e-3, 12.5: 2.44e-3, 25.0: 3.87e-3, 100.0: 9.91e-3}
"""Extinction by rain rate [mm/h] (Guo et al. 2015, as in Arce 2025, Table 3.2)."""
KIM_PER_KM = {50.0: 78.2, 200.0: 19.6, 500.0: 7.82, 1000.0: 3.05, 2000.0: 1.41, 10_000.0: 0.205}
"""Extinction at 905 nm by visibility [m], worked out by hand from Kim's formula."""


def published_extinctions() -> None:
    """Section e: extinctions of rain and fog."""
    rain = []
    for rate, guo in GUO_PER_M.items():
        sizes = drop_sizes("marshall-palmer", rate)
        shadow, mie = geometric_extinction(sizes), rain_extinction(rate, "mie")
        ours = rain_extinction(rate, "guo2015")
        rain.append([
            f"{rate:g}", f"{sizes.count():.0f}", *(f"{1e3 * value:.3f}" for value in (guo, ours, shadow, mie)),
            f"{guo / mie:.2f}", f"{range_in_extinction(100.0, shadow):.1f}",
        ])  # fmt: skip
    columns = ["mm/h", "drops /m³", "Guo [1/km]", "guo2015", "Q = 2", "mie", "Guo / mie", "100 m sensor at Q = 2 [m]"]
    write("rain-extinction", table(columns, rain))
    fog = [
        [f"{visibility:g}", f"{by_hand:g}", f"{1e3 * float(fog_extinction(visibility)):.3g}"]
        for visibility, by_hand in KIM_PER_KM.items()
    ]
    write("kim", table(["visibility [m]", "by hand [1/km]", "kim [1/km]"], fog))


SECTIONS: dict[str, Callable[[], None]] = {
    "range": maximum_range,
    "vane": vane_table,
    "huang": huang_table,
    "drops": drop_hits,
    "extinction": published_extinctions,
    "city": rainy_city,
    "recording": on_a_recording,
    "recordings": against_recordings,
    "clutter": clutter,
}


def main() -> None:
    """Make the sections asked for, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    chosen = parser.parse_args().sections or list(SECTIONS)
    for name in chosen:
        if name not in SECTIONS:
            parser.error(f"there is no section {name!r}; there are {', '.join(SECTIONS)}")
    start = time.perf_counter()
    for name in chosen:
        SECTIONS[name]()
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
