"""Tables of Mie's efficiencies that come with the package, for the wavelengths that lidars have.

`mie._table` takes about a second of one core to make such a table. Every process that simulates rain needs one, so the
usual ones lie beside this module. They hold what `mie._table` computes, digit for digit, and a test computes them
again:

    python -m parhelion.weather.mie_tables      # writes them anew
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SHIPPED_NM = (785.0, 865.0, 903.0, 905.0, 1550.0)
FILE = Path(__file__).with_name("data") / "mie-water.csv"
Table = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


@cache
def shipped() -> dict[float, Table]:
    """By wavelength [nm]: ln D (D in mm), Q_ext and ln Q_back of water at the usual acceptance."""
    rows = np.loadtxt(FILE, delimiter=",", comments="#")
    found = {}
    for wavelength in SHIPPED_NM:
        part = rows[rows[:, 0] == wavelength]
        found[wavelength] = (part[:, 1], part[:, 2], part[:, 3])
    return found


def _write() -> None:
    from parhelion.weather import mie

    lines = [
        "# Water spheres, means over sizes and over a cone of 10 mrad: made by python -m parhelion.weather.mie_tables.",
        "# Refractive index: Hale and Querry 1973, Segelstein 1981.",
        "# wavelength [nm], ln(D / mm), Q_ext, ln Q_back",
    ]
    for wavelength in SHIPPED_NM:
        columns = mie.computed_table(wavelength, mie.water_index(wavelength), mie.USUAL_ACCEPTANCE_MRAD)
        lines += [
            f"{wavelength:g},{d!r},{q:.6f},{b:.4f}" for d, q, b in zip(*(c.tolist() for c in columns), strict=True)
        ]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
