"""Panels of pictures; each draws into given axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.pictures.grids import Panorama, azimuth_elevation, birds_eye, field_image
from parhelion.pictures.style import (
    ACCENT,
    INK,
    INTENSITY_COLOURS,
    MUTED,
    RANGE_COLOURS,
    colour_bar,
    colour_labels,
    label_colours,
    label_shares,
    legend,
    quiet,
    robust_limits,
)

Extent = tuple[float, float, float, float]

_LOOK = {
    # field: title, colours, unit
    "range": ("Range", RANGE_COLOURS, "m"),
    "intensity": ("Intensity", INTENSITY_COLOURS, "vendor scale"),
}


def field_norm(values: NDArray[Any]) -> Any:
    """Logarithmic colour scale: ranges and signals span decades within one scan."""
    from matplotlib.colors import LogNorm, Normalize

    positive = values[values > 0.0]
    low, high = robust_limits(positive, 0.5, 99.5)
    return LogNorm(low, high, clip=True) if positive.size else Normalize(0.0, 1.0)


def panorama_panel(axes: Any, scan: Scan, grid: Panorama, name: str, note: str, *, azimuth_labels: bool) -> None:
    """Panorama of a field: sky at the top, ground at the bottom, forward marked."""
    title, colours, unit = _LOOK[name]
    image = field_image(scan, name, grid)
    rows = grid.shape[0]
    left, right = grid.azimuth_deg
    norm = field_norm(image)
    drawn = axes.imshow(
        image, cmap=colours, norm=norm, extent=(left, right, rows, 0), aspect="auto", interpolation="nearest"
    )
    quiet(axes, title + note)
    _azimuth_axis(axes, left, right, azimuth_labels)
    ticks = np.unique(np.linspace(0, rows - 1, min(rows, 5)).round().astype(int))
    axes.set_yticks(
        ticks + 0.5, [f"{angle:+d}°" if angle else "0°" for angle in np.rint(grid.elevation_deg[ticks]).astype(int)]
    )
    axes.set_ylabel("elevation")
    colour_bar(drawn, axes, f"{name} [{unit}]")


def _azimuth_axis(axes: Any, left: float, right: float, labels: bool) -> None:
    words = {180: "back", 90: "left", 0: "forward", -90: "right", -180: "back"}
    ticks = [angle for angle in range(180, -181, -45) if right - 1e-6 <= angle <= left + 1e-6]
    texts = [f"{angle}°\n{words[angle]}" if angle in words else f"{angle}°" for angle in ticks]
    axes.set_xticks(ticks, texts if labels else [""] * len(ticks))
    if right < 0.0 < left:
        place = left / (left - right)
        axes.plot([place], [1.0], marker="v", color=ACCENT, markersize=7, transform=axes.transAxes, clip_on=False)


def scatter_panel(axes: Any, scan: Scan, name: str, note: str) -> None:
    """A field over azimuth and elevation, for patterns without a grid."""
    title, colours, unit = _LOOK[name]
    azimuth, elevation = (np.degrees(angle) for angle in azimuth_elevation(scan))
    lost = scan.lost
    axes.scatter(azimuth[lost], elevation[lost], s=0.4, c="#2b323c", linewidths=0)
    shot, values = scan.fields["shot"], scan.fields[name]
    near_last = np.argsort(-scan.fields["range"], kind="stable")
    drawn = axes.scatter(
        azimuth[shot][near_last],
        elevation[shot][near_last],
        c=values[near_last],
        s=float(np.clip(60_000 / max(len(azimuth), 1), 0.8, 6.0)),
        cmap=colours,
        norm=field_norm(values),
        linewidths=0,
    )
    quiet(axes, title + note)
    axes.set(xlabel="azimuth [°], left to right", ylabel="elevation [°]")
    if np.ptp(azimuth) < 180:
        axes.set_aspect("equal", adjustable="box", anchor="W")
    axes.invert_xaxis()
    colour_bar(drawn, axes, f"{name} [{unit}]")


def profile_panel(axes: Any, scan: Scan, note: str) -> None:
    """Range over azimuth, coloured by intensity, for sensors of one or two rings."""
    azimuth = np.degrees(azimuth_elevation(scan)[0])
    shot, values = scan.fields["shot"], scan.fields["intensity"]
    drawn = axes.scatter(
        azimuth[shot],
        scan.fields["range"],
        c=values,
        s=5,
        cmap=INTENSITY_COLOURS,
        norm=field_norm(values),
        linewidths=0,
    )
    quiet(axes, "Range over azimuth" + note)
    axes.set(xlabel="azimuth [°], left to right", ylabel="range [m]")
    axes.set_ylim(bottom=0.0)
    axes.invert_xaxis()
    axes.grid(color="#2b323c", linewidth=0.6)
    colour_bar(drawn, axes, "intensity [vendor scale]")


def panel_pixels(axes: Any) -> tuple[float, float]:
    """Width and height of axes in pixels of the finished picture."""
    box = axes.get_position()
    figure = axes.get_figure()
    width, height = figure.get_size_inches() * figure.dpi
    return box.width * width, box.height * height


def reach(xyz: NDArray[Any], share: float, *, sensor: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Middle and half sides [m] of a rectangle around all points except a `share` [%] at each end, and the `sensor`."""
    if len(xyz) == 0:
        return np.zeros(2), np.ones(2)
    low, high = np.percentile(xyz[:, :2], [share, 100.0 - share], axis=0)
    if sensor:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    return (low + high) / 2, np.maximum(1.06 * (high - low) / 2, 0.5)


def fitted_extent(axes: Any, centre: NDArray[Any], half_width_m: float, half_height_m: float) -> Extent:
    """Smallest extent around `centre` with the aspect ratio of the axes that contains the two half sides [m]."""
    width, height = panel_pixels(axes)
    scale = max(half_width_m / width, half_height_m / height)
    return (
        float(centre[0] - scale * width),
        float(centre[0] + scale * width),
        float(centre[1] - scale * height),
        float(centre[1] + scale * height),
    )


def lit_by_height(colour: NDArray[Any], height: NDArray[Any]) -> NDArray[np.float64]:
    """Colours (n, 3), darker for low points, so that objects stand out from the ground."""
    low, high = robust_limits(height, 2.0, 98.0)
    light = 0.62 + 0.38 * np.clip((height - low) / (high - low), 0.0, 1.0)
    return np.clip(colour * light[:, None], 0.0, 1.0)


def map_panel(axes: Any, xyz: NDArray[Any], colour: NDArray[Any], extent: Extent) -> None:
    """Points from above in given colours (n, 3), one dot per cell, the highest point on top; equal axes in metres."""
    width, _ = panel_pixels(axes)
    dot_pixels = np.interp(len(xyz), [2_000, 20_000, 100_000], [4.0, 2.2, 1.5])  # few points need larger dots
    cell = (extent[1] - extent[0]) / (width / dot_pixels)
    image = birds_eye(xyz, colour, extent=extent, cell_m=cell)
    opaque = np.isfinite(image[..., :1]).astype(np.float32)
    rows, columns = image.shape[:2]
    edges = (extent[0], extent[0] + columns * cell, extent[3] - rows * cell, extent[3])
    axes.imshow(
        np.concatenate([np.nan_to_num(image), opaque], axis=2), extent=edges, interpolation="nearest", aspect="equal"
    )
    axes.set(xlim=extent[:2], ylim=extent[2:], xlabel="x [m]", ylabel="y [m]")


def scalar_map_panel(
    axes: Any, xyz: NDArray[Any], values: NDArray[Any], extent: Extent, colours: str, unit: str
) -> None:
    """Points from above, coloured by a number, with its colour bar."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    low, high = robust_limits(values, 1.0, 98.0)
    norm = Normalize(low, max(high, low + 0.1), clip=True)
    # The darkest quarter of a colour map is invisible on a dark sheet.
    visible = ListedColormap(colormaps[colours](np.linspace(0.25, 1.0, 256)))
    rgb = visible(norm(values))[:, :3]
    map_panel(axes, xyz, np.asarray(rgb), extent)
    inset = axes.inset_axes([0.02, 0.045, 0.3, 0.022])
    bar = axes.get_figure().colorbar(ScalarMappable(norm, visible), cax=inset, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=7.5, length=2, width=0.6, pad=2)
    bar.ax.xaxis.set_ticks_position("top")
    bar.ax.set_title(unit, color=INK, fontsize=8, loc="left", pad=12)


def label_legend(axes: Any, label: NDArray[Any], names: Mapping[int, str], most: int = 12, **place: Any) -> None:
    """Legend of the most common labels with their shares of the points."""
    colours = label_colours(names)
    entries = [
        (f"{word}  {_percent(share)}", colours.get(number, np.full(3, 0.5)))
        for number, word, share in label_shares(label, names, most)
    ]
    legend(axes, entries, **place)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0095 else f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"


def label_rgb(label: NDArray[Any], names: Mapping[int, str], height: NDArray[Any]) -> NDArray[np.float64]:
    """Label colours lit by height, shape (n, 3)."""
    return lit_by_height(colour_labels(label, names), height)


def sensor_mark(axes: Any, x: float, y: float, yaw_rad: float, length_m: float) -> None:
    """Arrow at the sensor, along its x axis."""
    axes.annotate(
        "",
        xy=(x + length_m * np.cos(yaw_rad), y + length_m * np.sin(yaw_rad)),
        xytext=(x, y),
        arrowprops={"arrowstyle": "-|>", "color": ACCENT, "linewidth": 1.8, "mutation_scale": 14, "shrinkA": 0},
    )
    axes.plot([x], [y], "o", color=ACCENT, markersize=4.5)


def heading(figure: Any, title: str, subtitle: str) -> None:
    """Title and a line of details at the top left of the sheet."""
    height = figure.get_size_inches()[1]
    figure.text(0.045, 1.0 - 0.34 / height, title, color=INK, fontsize=16, fontweight="bold", va="center")
    figure.text(0.045, 1.0 - 0.66 / height, subtitle, color=MUTED, fontsize=9.5, va="center")
