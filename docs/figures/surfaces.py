"""Pictures of the surfaces pages: run `python docs/figures/surfaces.py`; PNGs go to docs/images."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from parhelion.surfaces import brdf
from parhelion.surfaces.library import material
from parhelion.surfaces.material import material_table, monostatic_brdf, specular_split

IMAGES = Path(__file__).resolve().parents[1] / "images"
ANGLE = np.linspace(0.0, 89.9, 900)
COS = np.cos(np.radians(ANGLE))


def draw_brdfs(file: Path) -> None:
    """Monostatic BRDFs, as values and as what a lidar receives relative to a white Lambertian target face-on."""
    models = {
        "Lambert, ρ = 0.5": brdf.lambert(reflectance=0.5) * np.ones_like(COS),
        "Oren–Nayar, ρ = 0.5, σ = 10°": brdf.oren_nayar(COS, reflectance=0.5, sigma_rad=np.radians(10)),
        "Oren–Nayar, ρ = 0.5, σ = 30°": brdf.oren_nayar(COS, reflectance=0.5, sigma_rad=np.radians(30)),
        "Phong, kd = ks = 0.25, n = 20": brdf.modified_phong(COS, diffuse=0.25, specular=0.25, exponent=20.0),
        "coat n = 1.5, roughness 0.2, body 0.46": brdf.coated_diffuse(COS, reflectance=0.46)
        + brdf.cook_torrance(COS, roughness=0.2, f0=0.04),
        "metal F0 = 0.5, roughness 0.5": brdf.cook_torrance(COS, roughness=0.5, f0=0.5),
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    for label, values in models.items():
        left.semilogy(ANGLE, values, label=label)
        right.semilogy(ANGLE, np.pi * values * COS, label=label)
    left.set(xlabel="incidence [°]", ylabel="BRDF towards the sensor [1/sr]", ylim=(1e-3, 5), xlim=(0, 90))
    right.set(xlabel="incidence [°]", ylabel="π f cos θ (1: white Lambert, face-on)", ylim=(1e-3, 12), xlim=(0, 90))
    left.legend(fontsize=8, loc="lower left")
    _finish(figure, file)


def draw_specular(file: Path) -> None:
    """Mirrored and transmitted shares of a window pane and of water."""
    table = material_table([material("glass"), material("water")], 905)
    figure, axis = plt.subplots(figsize=(5.5, 4))
    for row, name in enumerate(("glass", "water")):
        columns = {key: values[row] for key, values in table.items()}
        reflected, transmitted = specular_split(COS, columns)
        axis.plot(ANGLE, reflected, label=f"{name}, mirrored", color=f"C{row}")
        if columns["transmits"]:
            axis.plot(ANGLE, transmitted, "--", label=f"{name}, transmitted", color=f"C{row}")
    axis.set(xlabel="incidence [°]", ylabel="share of the power", xlim=(0, 90), ylim=(0, 1))
    axis.legend(fontsize=8, loc="center left")
    _finish(figure, file)


def draw_spectra(file: Path) -> None:
    """Reflectance of part of the library, with common lidar wavelengths."""
    groups = {
        "plants and ground": ["leaf", "grass", "bark", "soil", "sand", "snow"],
        "buildings and roads": ["asphalt", "concrete", "brick", "wood", "granite", "road-paint"],
        "vehicles, metals, people": [
            "car-paint-white",
            "car-paint-red",
            "car-paint-black",
            "aluminium",
            "galvanised-steel",
            "skin",
            "cotton",
        ],
    }
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.8), sharey=True)
    for axis, (title, names) in zip(axes, groups.items(), strict=True):
        for name in names:
            spectrum = material(name).spectrum
            axis.plot(spectrum.wavelength_um, spectrum.reflectance, label=name)
        for wavelength in (0.905, 1.064, 1.55):
            axis.axvline(wavelength, color="0.7", linewidth=0.8, linestyle=":")
        axis.set(title=title, xlabel="wavelength [µm]", xlim=(0.35, 2.5), ylim=(0, 1))
        axis.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axes[0].set_ylabel("reflectance")
    _finish(figure, file)


def draw_materials(file: Path) -> None:
    """Signal of a 905 nm lidar from library materials against incidence."""
    names = ["asphalt", "concrete", "leaf", "car-paint-white", "car-paint-black", "steel", "stainless-steel", "rubber"]
    table = material_table([material(name) for name in names], 905)
    figure, axis = plt.subplots(figsize=(6.5, 4.2))
    for row, name in enumerate(names):
        columns = {key: values[row] for key, values in table.items()}
        axis.semilogy(ANGLE, np.pi * monostatic_brdf(COS, columns) * COS, label=name)
    axis.set(xlabel="incidence [°]", ylabel="π f cos θ at 905 nm", xlim=(0, 90), ylim=(3e-4, 10))
    axis.legend(fontsize=8, ncols=2, loc="upper right")
    _finish(figure, file)


def _finish(figure: plt.Figure, file: Path) -> None:
    for axis in figure.axes:
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    draw_brdfs(IMAGES / "surfaces-brdf.png")
    draw_specular(IMAGES / "surfaces-specular.png")
    draw_spectra(IMAGES / "materials-spectra.png")
    draw_materials(IMAGES / "materials-905nm.png")
