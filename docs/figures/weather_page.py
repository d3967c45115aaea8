"""Common parts of the weather validation: tables between markers, boards in all directions, places in the city."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import GREY, ORANGE, changed, raster

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.weather import media

PAGE = Path(__file__).resolve().parents[1] / "weather-validation.md"
VLP16 = "velodyne/vlp-16"
SURFACE, RAIN = ORIGINS.index("surface"), ORIGINS.index("rain")
AIR = list(media.codes())
BOARDS = 700
BOARD_FRAMES = 60


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; all but the first column are set to the right."""
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write(name: str, content: str) -> None:
    """Put a section's tables between its marks on the page, and show them."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{PAGE}: has no marks for {name!r}")
    PAGE.write_text(f"{before}{begin}\n\n{content}\n\n{end}{after}", encoding="utf-8")
    print(f"{name}\n{content}\n", flush=True)


def rated(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    """Rated ranges as a data sheet has them, of pairs (reflectance, range [m])."""
    return [{"reflectance": reflectance, "range_m": range_m} for reflectance, range_m in pairs]


class BoardFan:
    """One board straight in front of each beam of a level fan, every one a little farther away than the last."""

    def __init__(self, config: LidarConfig, material: str, nearest_m: float = 8.0, farthest_m: float = 140.0) -> None:
        fan = changed(VLP16, pattern=raster(azimuth_deg=(-170.0, 170.0), columns=BOARDS))
        data = {**config.model_dump(mode="python"), "pattern": fan.pattern.model_dump(mode="python")}
        self.lidar = ph.Lidar(LidarConfig.model_validate(data), noise=False)
        shots = self.lidar.shots()
        self.distance_m = np.geomspace(nearest_m, farthest_m, BOARDS)
        axis = shots.direction.astype(np.float64)
        # Wide enough for the whole footprint, and narrow enough to leave the neighbours' beams alone.
        left = np.cross([0.0, 0.0, 1.0], axis) * 0.0038
        up = np.array([0.0, 0.0, 0.0038])
        corners = [axis + a * left + b * up for a, b in ((1, -1), (-1, -1), (-1, 1), (1, 1))]
        vertices = np.stack(corners, axis=1) * self.distance_m[:, None, None] + shots.origin[:, None]
        first = 4 * np.arange(BOARDS)[:, None]
        faces = (first + np.array([[0, 1, 2, 0, 2, 3]])).reshape(-1, 3)
        self.world = ph.World()
        self.world.add((vertices.reshape(-1, 3), faces), material=material, label="board")

    def longest(self, weather: ph.Weather | None, frames: int = BOARD_FRAMES) -> float:
        """Distance of the farthest board [m] that any of the scans returns.

        This is the distance of the board itself, because rain shifts measured ranges.
        """
        self.world.weather = weather
        scans = self.lidar.scan_many(self.world, [ph.Pose()] * frames, frames=range(frames))
        seen = np.concatenate([scan.shot[scan.origin == SURFACE] for scan in scans])
        return float(self.distance_m[seen].max())


def places(world: ph.World, count: int) -> list[ph.Pose]:
    """Poses at even times along a world's drive."""
    assert isinstance(world.path, ph.Waypoints)
    xyz, quat = world.path.sample(np.linspace(world.path.times[0], world.path.times[-1], count))
    return [ph.Pose(at, turned) for at, turned in zip(xyz, quat, strict=True)]


def rate_axis(axes: Any, rates_mm_h: Sequence[float]) -> None:
    """Rain rates on a logarithmic axis, in plain numbers; from 0 on where 0 is one of them."""
    if rates_mm_h[0] == 0.0:
        axes.set_xscale("symlog", linthresh=1.0)
    else:
        axes.set_xscale("log")
    axes.set_xticks(rates_mm_h, [f"{rate:g}" for rate in rates_mm_h])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.9 * rates_mm_h[0], 1.1 * rates_mm_h[-1])
    axes.set_xlabel("rain rate [mm/h]")


def draw_from_above(axes: Any, xyz: NDArray[Any], in_air: NDArray[np.bool_], half_m: float) -> None:
    """Points seen from above: surfaces grey, echoes of the air in colour and on top."""
    for rows, colour, alpha in ((~in_air, GREY, 0.5), (in_air, ORANGE, 1.0)):
        axes.plot(*xyz[rows, :2].T, ",", color=colour, alpha=alpha, rasterized=True)
    axes.set(xlim=(-half_m, half_m), ylim=(-half_m, half_m), aspect="equal", xlabel="x [m]")


def material_is(scan: ph.Scan, name: str) -> NDArray[np.bool_]:
    """Mask of the points on a material."""
    return np.isin(scan.material, [number for number, word in scan.names["material"].items() if word == name])
