"""Files of a rebuilt place: surfels, coverage, path, data sheet of the unit, and the report."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path as File
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from parhelion.calibrate.sheet import SheetChanges, calibrated_sheet, write_sheet
from parhelion.core.errors import ConfigError
from parhelion.core.files import sync
from parhelion.io.poses import TimedPoses, write_tum
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.pictures.images import rgb_uri
from parhelion.rebuild.frames import Floats
from parhelion.rebuild.rebuild import RebuiltPlace
from parhelion.rebuild.score import Score
from parhelion.rebuild.votes import SurfelScene
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.world.rebuilt import COVERAGE_FILE, NORMAL_STEPS, PLACE_FILE, SURFEL_FILE

PATH_FILE, SHEET_FILE, REPORT_FILE, FACTS_FILE = "path.tum", "sensor.yaml", "report.html", "report.json"
MAP_CELLS = 48
"""Cells along the longer side of the map of where a sensor may go."""
MAP_RAYS, MAP_REACH_M, MAP_PIXELS = 24, 25.0, 12
MAP_ELEVATIONS_DEG = (-8.0, 0.0, 8.0)


def write_place(
    place: RebuiltPlace, folder: File, lidar: Lidar, source: str, *, check: Score | None = None, read: int = 0
) -> list[File]:
    """Write the folder of a rebuilt place. It appears under its name when it is complete.

    A folder of an earlier rebuild is replaced; any other existing folder with files is an error.
    """
    folder = File(os.path.abspath(folder))
    _check_target(folder)
    temporary = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        _write_all(place, temporary, lidar, source, folder.name, check, read)
        for file in temporary.iterdir():
            sync(file)
        if folder.exists():
            old = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}.old")
            folder.rename(old)
            temporary.rename(folder)
            shutil.rmtree(old, ignore_errors=True)
        else:
            temporary.rename(folder)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sorted(folder.iterdir())


def _check_target(folder: File) -> None:
    if folder.is_file():
        raise ConfigError(f"{folder}: is a file; give the name of a folder")
    if folder.is_dir() and any(folder.iterdir()):
        sheet = folder / PLACE_FILE
        if not (sheet.is_file() and (folder / SURFEL_FILE).is_file()):
            raise ConfigError(f"{folder}: contains other files; give a new folder, or that of an earlier rebuild")


def _write_all(
    place: RebuiltPlace, folder: File, lidar: Lidar, source: str, name: str, check: Score | None, read: int
) -> None:
    surfels = place.surfels
    np.savez_compressed(
        folder / SURFEL_FILE,
        centre=surfels.centre,
        normal=np.rint(surfels.normal * NORMAL_STEPS).astype(np.int16),
        radius=surfels.radius,
        reflectance=place.reflectances.value,
        reflectance_spread=place.reflectances.spread,
        return_rate=np.rint(255.0 * place.reflectances.return_rate).astype(np.uint8),
        cover=np.rint(255.0 * place.cover).astype(np.uint8),
        label=place.ground.astype(np.uint8),
    )
    coverage = place.coverage
    np.savez_compressed(folder / COVERAGE_FILE, cells=coverage.cells, cell_m=np.float64(coverage.cell_m))
    times = np.array([frame.time_s for frame in place.frames])
    times = times if np.all(np.diff(times) > 0.0) else np.arange(len(times)) / lidar.rate_hz
    write_tum(TimedPoses(times, place.path.xyz, place.path.quat_xyzw), folder / PATH_FILE)
    poses = np.concatenate([place.path.xyz, place.path.quat_xyzw], axis=1)
    sheet: dict[str, Any] = {
        "kind": "rebuilt",
        "name": name,
        "source": source,
        "sensor": lidar.model,
        "wavelength_nm": float(lidar.config.wavelength_nm),
        "voxel_m": float(place.voxel_m),
        "times": [round(float(value), 6) for value in times - times[0]],
        "path": [[round(float(value), 9) for value in row] for row in poses],
    }
    text = yaml.safe_dump(sheet, sort_keys=False, default_flow_style=None, width=120)
    (folder / PLACE_FILE).write_text(text, encoding="utf-8")
    write_sheet(unit_sheet(place, lidar, source), folder / SHEET_FILE)
    facts = facts_of(place, check, read)
    (folder / FACTS_FILE).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    html.write_page(folder / REPORT_FILE, report_page(place, facts, name, source))


def unit_sheet(place: RebuiltPlace, lidar: Lidar, source: str) -> LidarConfig:
    """Data sheet of the recording unit: the preset with the elevations and the range errors of its own rings."""
    found = SheetChanges()
    preset = lidar.config
    channels = getattr(preset.pattern, "channels", None)
    rings = len(channels.elevation_deg) if channels is not None else 0
    if channels is not None and rings > 1:
        order = np.argsort(np.argsort(np.asarray(channels.elevation_deg), kind="stable"), kind="stable")
        ring = order if channels.ring is None else np.asarray(channels.ring)
        elevations = ring_elevations_deg(place, rings)
        own = np.asarray(channels.elevation_deg, np.float64)
        after = np.where(np.isfinite(elevations[ring]), elevations[ring], own)
        if np.abs(after - own).max() > 0.02:
            found.changed["pattern.channels.elevation_deg"] = [round(float(value), 3) for value in after]
        bias = place.ring_bias_m
        if len(bias) == rings and np.any(bias):
            before = np.asarray(preset.noise.channel_bias_m or np.zeros(rings), np.float64)
            found.changed["noise.channel_bias_m"] = [round(float(value), 4) for value in before + bias]
    if not found.changed:
        found.kept["pattern.channels"] = "the recording does not contain other beam angles"
    return calibrated_sheet(preset, found, f"{source} (rebuild)", len(place.frames))


def ring_elevations_deg(place: RebuiltPlace, rings: int) -> Floats:
    """Median elevation of the shots of each ring [deg]; NaN without shots or where it varies, shape (rings,)."""
    some = place.frames[:: max(1, len(place.frames) // 5)]
    ring = np.concatenate([frame.ring for frame in some]).astype(np.int64)
    level = np.concatenate([frame.direction[:, 2] for frame in some])
    elevation = np.degrees(np.arcsin(np.clip(level, -1.0, 1.0)))
    found = np.full(rings, np.nan)
    inside = (ring >= 0) & (ring < rings)
    order = np.argsort(ring[inside], kind="stable")
    parts = np.split(elevation[inside][order], np.cumsum(np.bincount(ring[inside], minlength=rings))[:-1])
    for number, part in enumerate(parts):
        if len(part) and np.subtract(*np.percentile(part, [75, 25])) < 0.1:
            found[number] = np.median(part)
    return found


# ---- report ----------------------------------------------------------------------------------------------------------


def facts_of(place: RebuiltPlace, check: Score | None, read: int) -> dict[str, Any]:
    """Numbers of the report, for `report.json`."""
    apart = place.registered.apart_m
    length = float(np.linalg.norm(np.diff(place.path.xyz, axis=0), axis=1).sum())
    known = np.isfinite(place.reflectances.spread)
    return {
        "revolutions": {"read": read or len(place.frames), "used": len(place.frames)},
        "path_m": round(length, 3),
        "residual_m": {
            "median": _rounded(np.median(apart)),
            "largest": _rounded(np.max(apart)),
            "skew": place.registered.skew,
        },
        "voxel_m": round(place.voxel_m, 4),
        "surfels": {
            "count": len(place.surfels),
            "area_m2": round(float(np.pi * np.sum(place.surfels.radius.astype(np.float64) ** 2)), 1),
            "ground": int(place.ground.sum()),
            **place.removed,
        },
        "ring_bias_m": {
            "rings": len(place.ring_bias_m),
            "rms": _rounded(np.sqrt(np.mean(place.ring_bias_m**2)) if len(place.ring_bias_m) else 0.0),
        },
        "blind_share": round(place.blind_share, 4),
        "reflectance": {
            "known": place.reflectances.known,
            "median": _rounded(np.median(place.reflectances.value)),
            "spread": _rounded(np.median(place.reflectances.spread[known]) if known.any() else np.nan),
            "gain": _rounded(place.reflectances.gain),
            "mostly_lost_share": _rounded(np.mean(place.reflectances.return_rate < 0.5)),
        },
        "coverage": {
            "cell_m": place.coverage.cell_m,
            "observed_m3": round(float(len(place.coverage.cells) * place.coverage.cell_m**3), 1),
        },
        "held_out": None if check is None else {k: _rounded(v) for k, v in vars(check).items()},
        "notes": place.notes,
    }


def _rounded(value: Any) -> float | None:
    return round(float(value), 5) if np.isfinite(value) else None


def report_page(place: RebuiltPlace, facts: dict[str, Any], name: str, source: str) -> str:
    """Report of a rebuild."""
    surfels, residual = facts["surfels"], facts["residual_m"]
    tiles = [
        ("revolutions", html.count(facts["revolutions"]["used"])),
        ("path", f"{facts['path_m']:.1f} m"),
        ("residual of poses", f"{100 * (residual['median'] or np.nan):.1f} cm"),
        ("surfels", html.count(surfels["count"])),
        ("removed", html.count(surfels["removed"])),
        ("voxel", f"{100 * place.voxel_m:.0f} cm"),
    ]
    image, extent = free_map(place)
    ways = html.figure(
        "Where a sensor may go",
        html.image(rgb_uri(image), "Top view of the place", "cloud"),
        f"{extent[0]:.0f} x {extent[1]:.0f} m. At each place, rays at the height of the recorded path: green where all "
        "of them stay in observed space, red where none does. White: surfaces; blue: the recorded path.",
    )
    notes = html.table((), [(str(k + 1), note) for k, note in enumerate(place.notes)])
    rows = [
        ("surfels before the votes", html.count(surfels["before"])),
        ("removed: shots pass through them", html.count(surfels["removed"])),
        ("shrunk: shots pass their rim", html.count(surfels["shrunk"])),
        ("thin: part of the shots pass", html.count(surfels["thin"])),
        ("share of directions without any return", f"{100 * place.blind_share:.1f} %"),
        ("surfaces that mostly lose shots", f"{100 * (facts['reflectance']['mostly_lost_share'] or 0):.1f} %"),
        ("factor on reflectances", html.shown(place.reflectances.gain)),
    ]
    held = facts["held_out"]
    tested = [] if held is None else [(key.replace("_", " "), html.shown(value)) for key, value in held.items()]
    frames = np.arange(len(place.frames))
    apart = np.where(np.isfinite(place.registered.apart_m), place.registered.apart_m, np.nan)
    chart = Chart([Curve.of("residual", frames, 100.0 * apart)], "distance [cm]", "revolution", zero=True)
    return html.page(
        f"{name}: a place rebuilt from {source}",
        html.tiles(tiles),
        html.section("notes", "Notes", notes),
        html.section("map", "Coverage", ways),
        html.section("changes", "Surfels", html.table((), rows)),
        html.section("held-out", "Revolutions that were held out", html.table((), tested)),
        html.section("poses", "Poses", chart.figure("Distance of each revolution from the planes of its neighbours")),
    )


def free_map(place: RebuiltPlace) -> tuple[NDArray[np.float32], tuple[float, float]]:
    """Top view, shape (rows, columns, 3) in [0, 1], of how much of the view is observed from each place; and its size
    [m]."""
    xyz = place.path.xyz
    lower, upper = xyz[:, :2].min(axis=0) - MAP_REACH_M, xyz[:, :2].max(axis=0) + MAP_REACH_M
    step = float((upper - lower).max()) / MAP_CELLS
    columns, rows = (max(4, int(np.ceil(side / step))) for side in upper - lower)
    x, y = lower[0] + (np.arange(columns) + 0.5) * step, upper[1] - (np.arange(rows) + 0.5) * step
    places = np.stack([np.tile(x, rows), np.repeat(y, columns)], axis=1)
    nearest = np.argmin(np.linalg.norm(places[:, None] - xyz[None, :, :2], axis=2), axis=1)
    start = np.column_stack([places, xyz[nearest, 2]])
    share = observed_share(place, start)
    scale = MAP_PIXELS
    colour = np.stack([0.85 - 0.7 * share, 0.25 + 0.45 * share, np.full(len(share), 0.25)], axis=1)
    colour[~place.coverage.seen(start)] = (0.07, 0.08, 0.1)
    image = np.repeat(np.repeat(colour.reshape(rows, columns, 3), scale, axis=0), scale, axis=1).astype(np.float32)

    def paint(points: Floats, value: tuple[float, float, float], wide: int = 0) -> None:
        column = ((points[:, 0] - lower[0]) / step * scale).astype(int)
        row = ((upper[1] - points[:, 1]) / step * scale).astype(int)
        for down in range(-wide, wide + 1):
            for across in range(-wide, wide + 1):
                r, c = row + down, column + across
                inside = (r >= 0) & (r < image.shape[0]) & (c >= 0) & (c < image.shape[1])
                image[r[inside], c[inside]] = value

    upright = np.abs(place.surfels.normal[:, 2]) < 0.5
    near = np.abs(place.surfels.centre[:, 2] - np.median(xyz[:, 2])) < 1.0
    paint(place.surfels.centre[upright & near], (0.95, 0.95, 0.95))
    dense = np.linspace(0.0, len(xyz) - 1.0, 2000)
    paint(np.stack([np.interp(dense, np.arange(len(xyz)), xyz[:, k]) for k in range(2)], axis=1), (0.3, 0.6, 1.0), 1)
    return image, (columns * step, rows * step)


def observed_share(place: RebuiltPlace, start: Floats) -> Floats:
    """Share of the rays from places (n, 3) [m] that end before they leave observed space."""
    azimuth = 2.0 * np.pi * np.arange(MAP_RAYS) / MAP_RAYS
    level = np.radians(MAP_ELEVATIONS_DEG)
    grid = np.stack(np.meshgrid(azimuth, level, indexing="ij"), axis=-1).reshape(-1, 2)
    flat = np.cos(grid[:, 1])
    along = np.stack([flat * np.cos(grid[:, 0]), flat * np.sin(grid[:, 0]), np.sin(grid[:, 1])], axis=1)
    inside = np.flatnonzero(place.coverage.seen(start))
    share = np.zeros(len(start))
    if len(inside):
        origin = np.repeat(start[inside], len(along), axis=0)
        rays = np.tile(along, (len(inside), 1))
        found = SurfelScene(place.surfels).cast(origin, rays, MAP_REACH_M).range_m
        unknown = place.coverage.unknown(origin, rays, np.minimum(found, MAP_REACH_M))
        share[inside] = 1.0 - unknown.reshape(len(inside), -1).mean(axis=1)
    return share
