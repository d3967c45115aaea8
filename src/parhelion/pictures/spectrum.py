"""A material's reflectance over wavelength."""

from __future__ import annotations

from os import PathLike

import numpy as np

from parhelion.pictures.style import ACCENT, INK, MUTED, check_picture, quiet, save, sheet
from parhelion.surfaces.material import Material


def draw_spectrum(material: Material, path: str | PathLike[str], wavelength_nm: float | None = None) -> None:
    """The spectrum, the visible range shaded, and the value at `wavelength_nm` marked."""
    check_picture(path)
    figure = sheet(10.0, 5.0)
    axes = figure.add_axes((0.075, 0.12, 0.9, 0.75))
    wavelength = np.asarray(material.spectrum.wavelength_um) * 1e3
    reflectance = np.asarray(material.spectrum.reflectance)
    quiet(axes)
    axes.axvspan(380, 750, color="white", alpha=0.05, linewidth=0)
    axes.text(565, 0.985, "visible", color=MUTED, fontsize=8, ha="center", va="top")
    axes.fill_between(wavelength, reflectance, color="#4aa3ff", alpha=0.15, linewidth=0)
    axes.plot(wavelength, reflectance, color="#4aa3ff", linewidth=1.8)
    if wavelength_nm is not None:
        value = material.reflectance_at(wavelength_nm)
        axes.plot([wavelength_nm, wavelength_nm], [0, value], color=ACCENT, linewidth=1.2, linestyle="--")
        axes.plot([wavelength_nm], [value], "o", color=ACCENT, markersize=6)
        axes.annotate(
            f"{100 * value:.1f} % at {wavelength_nm:g} nm",
            (wavelength_nm, value),
            xytext=(8, 8),
            textcoords="offset points",
            color=ACCENT,
            fontsize=10,
        )
    axes.set(
        xlim=(max(wavelength[0], 300.0), min(wavelength[-1], 2600.0)),
        ylim=(0, 1),
        xlabel="wavelength [nm]",
        ylabel="hemispherical reflectance",
    )
    axes.grid(color="#2b323c", linewidth=0.6)
    figure.text(0.075, 0.925, material.name, color=INK, fontsize=14, fontweight="bold", va="center")
    figure.text(0.975, 0.925, material.description, color=MUTED, fontsize=9, va="center", ha="right")
    save(figure, path)
