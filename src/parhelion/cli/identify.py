"""`parhelion identify`: the likeliest calibrated material of every point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file

EXAMPLES = (
    "parhelion identify cloud.pcd --sensor my-lidar.yaml",
    "parhelion identify cloud.pcd --sensor my-lidar.yaml -o named.ply --neighbours 20",
)


def identify(
    source: Annotated[Path, typer.Argument(metavar="CLOUD", help="A cloud in the sensor's frame, with intensities.")],
    sensor: Annotated[str, typer.Option("--sensor", "-s", help="The sensor's calibrated data sheet (.yaml).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The cloud again, with fields material and probability.")
    ] = None,
    neighbours: Annotated[int, typer.Option(min=3, help="Points whose evidence is taken together.")] = 12,
) -> None:
    """Say which calibrated material each point is likeliest of, and with what probability."""
    import numpy as np

    from parhelion.calibrate.identify import identify as identified
    from parhelion.core.clouds import PointCloud
    from parhelion.sensors.optics.lidar.config import LidarConfig
    from parhelion.sensors.sheets import load_sheet

    if output is not None:
        check_file(output)
    config = load_sheet("lidar", LidarConfig, sensor)
    cloud = PointCloud.load(source)
    found = identified(cloud, config, neighbours=neighbours)
    rows = [(name, screen.count(points), f"{100 * chance:.0f} %") for name, points, chance in found.summary()]
    screen.table(f"{source.name} by {config.name}", ("material", "points", "probability"), rows, numbers=("points",))
    unknown = int((found.best < 0).sum())
    if unknown:
        screen.say(f"{screen.count(unknown)} points lie on no surface that shows an angle")
    if output is not None:
        best = found.best
        chance = np.where(best >= 0, np.nan_to_num(found.chance).max(axis=1), 0.0).astype(np.float32)
        named = PointCloud(
            cloud.xyz,
            {**cloud.fields, "material": np.where(best >= 0, best, 0xFFFF).astype(np.uint16), "probability": chance},
            cloud.frame,
            {**cloud.names, "material": {**dict(enumerate(found.names)), 0xFFFF: "none"}},
            cloud.metadata,
        )
        named.save(output)
        screen.say(f"wrote {output}")
