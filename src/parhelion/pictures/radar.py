"""Radar and pulse-echo frames as pictures: range over speed, and a top view of the detections."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.frames import EchoScan, FramePoints, RadarCube, RadarScan
from parhelion.pictures.style import (
    ACCENT,
    INTENSITY_COLOURS,
    MUTED,
    check_picture,
    colour_bar,
    label_colours,
    legend,
    pixels_of,
    quiet,
    save,
    sheet,
)

_FLOOR_DB = -5.0
_GHOST, _NOISE = "#ff59bf", "#ff5959"


def draw_radar(scan: RadarScan, path: str | PathLike[str], title: str | None = None) -> None:
    """Draw a frame: detections from above; with its cube, range over speed and over azimuth [dB over noise]."""
    check_picture(path)
    if not isinstance(scan, RadarScan):
        raise ConfigError(f"draw_radar: expected a RadarScan, got {type(scan).__name__}")
    save(radar_figure(scan, title), path)


def draw_echoes(scan: EchoScan, path: str | PathLike[str], title: str | None = None) -> None:
    """Draw a ping: top view of the echoes, and the signal of the first microphone if recorded."""
    check_picture(path)
    if not isinstance(scan, EchoScan):
        raise ConfigError(f"draw_echoes: expected an EchoScan, got {type(scan).__name__}")
    save(echo_figure(scan, title), path)


def frame_pixels(scan: FramePoints) -> NDArray[np.uint8]:
    """The same picture as red, green, blue (h, w, 3)."""
    figure = radar_figure(scan) if isinstance(scan, RadarScan) else echo_figure(scan)  # type: ignore[arg-type]
    return pixels_of(figure)


def radar_figure(scan: RadarScan, title: str | None = None) -> Any:
    """Figure of a radar frame."""
    cube = scan.cube
    panels = 1 + (cube is not None) * (1 + (len(cube.radial_velocity) > 1 if cube is not None else 0))
    figure = sheet(1.0 + 5.2 * panels, 5.2)
    grid = figure.add_gridspec(
        1,
        panels,
        left=0.55 / (1.0 + 5.2 * panels),
        right=1 - 0.75 / (1 + 5.2 * panels),
        top=0.89,
        bottom=0.1,
        wspace=0.42,
    )
    heading = title or f"{scan.metadata.get('sensor', 'radar')}, {len(scan)} detections"
    from_above(figure.add_subplot(grid[0, 0]), scan, heading)
    if cube is None:
        return figure
    axes = figure.add_subplot(grid[0, panels - 1])
    if len(cube.radial_velocity) > 1:
        speed_axes = figure.add_subplot(grid[0, 1])
        quiet(speed_axes, "Strongest beam")
        range_velocity_panel(speed_axes, cube)
        speed_axes.plot(scan.radial_velocity, scan.range, "o", mfc="none", mec=ACCENT, ms=5, mew=0.8)
    quiet(axes, "From above, strongest speed")
    range_azimuth_panel(axes, cube)
    return figure


def range_velocity_panel(axes: Any, cube: RadarCube) -> None:
    """Strongest beam of a cube over radial velocity and range [dB over noise]."""
    speed = cube.radial_velocity
    extent = (speed[0], speed[-1], cube.range[0], cube.range[-1])
    drawn = axes.imshow(
        _decibels(cube.range_velocity),
        origin="lower",
        aspect="auto",
        extent=extent,
        cmap=INTENSITY_COLOURS,
        vmin=_FLOOR_DB,
        vmax=45,
    )
    axes.set(xlabel="radial velocity [m/s], away is positive", ylabel="range [m]")
    colour_bar(drawn, axes, "over noise [dB]")


def range_azimuth_panel(axes: Any, cube: RadarCube) -> None:
    """Strongest velocity and elevation of a cube over range and azimuth, laid out from above."""
    azimuth = cube.azimuth
    first, last = (np.diff(azimuth)[[0, -1]] if len(azimuth) > 1 else np.full(2, 0.2)) / 2
    edges = np.concatenate([[azimuth[0] - first], 0.5 * (azimuth[1:] + azimuth[:-1]), [azimuth[-1] + last]])
    step = cube.range[1] - cube.range[0]
    ranges = np.concatenate([cube.range, [cube.range[-1] + step]])
    distance, angle = np.meshgrid(ranges, edges, indexing="ij")
    drawn = axes.pcolormesh(
        -distance * np.sin(angle),
        distance * np.cos(angle),
        _decibels(cube.range_azimuth),
        cmap=INTENSITY_COLOURS,
        vmin=_FLOOR_DB,
        vmax=45,
        rasterized=True,
    )
    axes.set(aspect="equal", xlabel="to the right [m]", ylabel="ahead [m]")
    colour_bar(drawn, axes, "over noise [dB]")


def from_above(axes: Any, scan: FramePoints, title: str) -> None:
    """Points from above, by label, ghosts and noise as crosses; speeds as lines along the line of sight."""
    quiet(axes, title)
    names = scan.names.get("label", {})
    colours = {number: tuple(value) for number, value in label_colours(names).items()}
    origins = scan.names.get("origin", {})
    entries: dict[str, Any] = {}
    right, ahead = -scan.xyz[:, 1].astype(float), scan.xyz[:, 0].astype(float)
    speed = scan.fields.get("radial_velocity", np.zeros(len(scan)))
    size = np.clip(10.0 + scan.fields.get("snr", np.full(len(scan), 10.0)).astype(float), 8.0, 60.0)
    for row in range(len(scan)):
        origin = origins.get(int(scan.fields["origin"][row]), "surface")
        if origin == "surface":
            word = names.get(int(scan.fields["label"][row]), "unlabeled")
            colour, marker = colours.get(int(scan.fields["label"][row]), MUTED), "o"
        else:
            word, marker = origin, "x"
            colour = _GHOST if origin == "multipath" else _NOISE if origin == "noise" else "#7ec4ff"
        entries[word] = colour
        axes.scatter(right[row], ahead[row], s=size[row], c=[colour], marker=marker, linewidths=0.9)
        if abs(speed[row]) > 0.3:
            unit = np.array([right[row], ahead[row]]) / max(np.hypot(right[row], ahead[row]), 1e-9)
            axes.plot(
                *np.stack([(right[row], ahead[row]), (right[row], ahead[row]) + unit * speed[row]], axis=1),
                color=colour,
                lw=0.9,
            )
    axes.plot(0, 0, "^", color=ACCENT, ms=7)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel="to the right [m]", ylabel="ahead [m]")
    legend(axes, list(entries.items())[:10], loc="upper left")


def echo_figure(scan: EchoScan, title: str | None = None) -> Any:
    """A figure of one ping."""
    heard = scan.waveform
    figure = sheet(6.2 + (6.0 if heard is not None else 0.0), 5.2)
    grid = figure.add_gridspec(1, 1 + (heard is not None), left=0.09, right=0.96, top=0.89, bottom=0.11, wspace=0.25)
    from_above(
        figure.add_subplot(grid[0, 0]), scan, title or f"{scan.metadata.get('sensor', 'echo')}, {len(scan)} echoes"
    )
    if heard is not None:
        axes = figure.add_subplot(grid[0, 1])
        quiet(axes, "Signal of the first microphone")
        time = np.arange(heard.samples.shape[1]) / heard.rate_hz * 1e3
        axes.plot(time, heard.samples[0], color=ACCENT, lw=0.5)
        axes.set(xlabel="time after the pulse [ms]", ylabel="pressure [Pa]")
    return figure


def _decibels(power: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(10.0 * np.log10(np.maximum(np.asarray(power, np.float64), 1e-3)))
