"""Skies by the sun's height, spectra, illuminance from noon to night, and thermal skies: images/camera-light.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from page import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, finish

from parhelion.sensors.optics.lighting import under_cloud
from parhelion.sensors.optics.sky import clear_sky, clear_spectrum, natural_illuminance
from parhelion.surfaces import library
from parhelion.surfaces.bands import named_band
from parhelion.surfaces.thermal import sky_brightness_temperature, thermal_table
from parhelion.weather.daylight import direction

RGB = [named_band(name) for name in ("red", "green", "blue")]
THERMAL = named_band("thermal")
SKIES = ((45.0, 0.0), (10.0, 0.0), (1.0, 0.0), (-6.0, 0.0), (45.0, 30.0))
"""Height of the sun [deg] and optical depth of the cloud."""
WHITE = clear_sky(RGB, direction(45.0, 200.0)).horizontal_irradiance
"""Light shown as white: sun and sky on a white card."""
COLOURS = np.array([[1.75, -0.65, -0.10], [-0.30, 1.60, -0.30], [0.0, -0.60, 1.60]])
"""From the bands to the screen: the bands overlap, so colours are pulled apart, as cameras do. White stays white."""


def draw_dome(axes: Any, height_deg: float, cloud: float) -> None:
    """The sky as a fisheye that looks up, north above, east left; white is 2.2 times the mean of the brightest band."""
    sky = under_cloud(clear_sky(RGB, direction(height_deg, 200.0)), cloud)
    across = np.linspace(-1.0, 1.0, 120)
    x, y = np.meshgrid(-across, -across)
    radius = np.hypot(x, y)
    theta = np.minimum(radius, 1.0) * 0.5 * np.pi * 0.995
    scale = np.sin(theta) / np.maximum(radius, 1e-9)
    views = np.stack([x * scale, y * scale, np.cos(theta)], axis=-1).reshape(-1, 3)
    seen = sky.radiance_at(views) / WHITE
    seen = np.maximum(seen @ COLOURS.T, 0.0).reshape(*radius.shape, 3)
    shown = np.clip(seen / (2.2 * seen[radius <= 1.0].mean(axis=0).max()), 0.0, 1.0) ** (1.0 / 2.2)
    shown[radius > 1.0] = 1.0
    axes.imshow(shown, extent=(-1, 1, -1, 1), interpolation="nearest")
    words = f", cloud {cloud:g}" if cloud else ""
    axes.set(title=f"sun at {height_deg:g}°{words}\n{sky.illuminance_lux:.3g} lx", xticks=[], yticks=[])
    axes.set_frame_on(False)


def draw_spectra(axes: Any) -> None:
    """Horizontal spectral irradiance of sun and sky, and the bands."""
    for height, colour in ((60.0, ORANGE), (30.0, RED), (10.0, PURPLE)):
        found = clear_spectrum(np.radians(height), 3.0)
        beam = found.direct * np.sin(np.radians(height))
        axes.plot(found.wavelength_nm, beam, color=colour, label=f"beam, sun at {height:g}°")
        axes.plot(found.wavelength_nm, found.diffuse, ":", color=colour)
    axes.plot([], [], ":", color=GREY, label="sky")
    for name, colour in (("blue", BLUE), ("green", GREEN), ("red", RED), ("nir", GREY), ("swir", GREY)):
        band = named_band(name)
        axes.fill_between(band.wavelength_nm, 0.25 * band.response, color=colour, alpha=0.25, linewidth=0)
    axes.set(
        xlabel="wavelength [nm]", ylabel="on level ground [W/(m² nm)]", xlim=(300, 1800), ylim=(0, 1.5),
        title="Spectra, turbidity 3; bands below",
    )  # fmt: skip
    axes.legend(fontsize=8)


def draw_illuminance(axes: Any) -> None:
    """Illuminance of level ground against the height of the sun."""
    heights = np.concatenate([np.arange(-24.0, 6.0, 0.5), np.arange(6.0, 91.0, 3.0)])
    for cloud, colour, words in ((0.0, BLUE, "clear"), (30.0, GREY, "cloud 30")):
        lux = [
            under_cloud(clear_sky(RGB, direction(h, 0.0), shape=(32, 32)), cloud).illuminance_lux for h in heights
        ]  # fmt: skip
        axes.semilogy(heights, lux, color=colour, label=words)
    published = np.arange(-18.0, 91.0, 6.0)
    axes.semilogy(published, [natural_illuminance(h) for h in published], "o", color=ORANGE, ms=4, label="published")
    axes.set(xlabel="height of the sun [deg]", ylabel="illuminance [lx]", title="From noon to night")
    axes.legend(fontsize=8)


def draw_thermal(axes: Any) -> None:
    """Brightness temperature of the sky, and temperatures of materials in the sun."""
    elevation = np.linspace(0.0, 90.0, 181)
    sine = np.sin(np.radians(elevation))
    for cloud, colour, words in ((0.0, BLUE, "clear sky"), (1.0, PURPLE, "cloud 1"), (10.0, GREY, "cloud 10")):
        kelvin = sky_brightness_temperature(THERMAL, sine, cloud_optical_depth=cloud)
        axes.plot(elevation, kelvin - 273.15, color=colour, label=words)
    names = ("asphalt", "concrete", "grass", "skin")
    table = thermal_table([library.material(name) for name in names])
    for row, (name, colour) in enumerate(zip(names, (RED, ORANGE, GREEN, "#b06a4f"), strict=True)):
        celsius = float(table["dark_k"][row] + 800.0 * table["kelvin_per_w_m2"][row]) - 273.15
        axes.axhline(celsius, color=colour, linewidth=1.2, linestyle="--", label=f"{name}, 800 W/m²")
    axes.set(xlabel="elevation [deg]", ylabel="8 to 14 µm [°C]", title="Thermal, air at 15 °C", ylim=(-60, 95))
    axes.legend(fontsize=7, ncols=2, loc="upper center")


def main() -> None:
    """Draw the page's picture."""
    figure = Figure(figsize=(12.5, 6.4), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subfigures(2, 1, height_ratios=(0.42, 0.58))
    for axes, (height, cloud) in zip(upper.subplots(1, len(SKIES)), SKIES, strict=True):
        draw_dome(axes, height, cloud)
    spectra, light, thermal = lower.subplots(1, 3)
    draw_spectra(spectra)
    draw_illuminance(light)
    draw_thermal(thermal)
    finish(figure, "camera-light")


if __name__ == "__main__":
    main()
