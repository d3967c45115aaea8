"""`parhelion evaluate drops`: raindrops in the path of each beam, by bands of the rain rate."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.measure import load_world
from parhelion.cli.recordings import check_file
from parhelion.cli.screen import start_engine
from parhelion.core.errors import ConfigError

EXAMPLES = (
    "parhelion evaluate drops --sensor velodyne/vlp-16 --world city --csv drops.csv --png drops.png",
    "parhelion evaluate drops --world harbour --beam cylinder --xyz 0,0,3 --csv drops.csv",
)


class BeamShape(str, Enum):
    """Shape of the beam."""

    frustum = "frustum"
    cylinder = "cylinder"


def drops(
    sensor: Annotated[str, typer.Option(help="Preset or YAML file of a lidar.")] = "velodyne/vlp-16",
    world: Annotated[str, typer.Option(help="Built-in world or file.")] = "city",
    xyz: Annotated[str, typer.Option(metavar="X,Y,Z", help="Position of the sensor [m].")] = "0,0,2",
    beam: Annotated[BeamShape, typer.Option(help="A widening beam, or Arce's cylinder.")] = BeamShape.frustum,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the scan and of the drops.")] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", help="Histograms as a table.")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Histograms as a picture.")] = None,
) -> None:
    """Count raindrops in the path of each beam of a scan by bands of the rain rate (Arce 2025, figures 4.7 to 4.10)."""
    from parhelion import Lidar, Pose
    from parhelion.evaluate.clouds import drops as model

    check_file(csv, picture=png)
    try:
        place = [float(word) for word in xyz.split(",")]
    except ValueError:
        place = []
    if len(place) != 3:
        raise typer.BadParameter(f"expected X,Y,Z, got {xyz!r}", param_hint="--xyz")
    start_engine()
    lidar = Lidar(sensor)
    scan = lidar.scan(load_world(world), pose=Pose(xyz=place), seed=seed)
    if not len(scan.shots):
        raise ConfigError(f"{sensor}: has no shots")
    lengths = model.beam_lengths(scan, lidar.config.range.max_m)
    found = model.drops_per_beam(model.beam_volumes(lidar.config.beam, lengths, beam.value), seed=seed)
    rows = [(f"{one.band_mm_h[0]:g} to {one.band_mm_h[1]:g}", f"{one.mean:.4g}") for one in found]
    screen.table(
        f"{lidar.config.name} in {world}", ("rain [mm/h]", "drops per beam"), rows, numbers=("drops per beam",)
    )
    if csv is not None:
        model.write_csv(csv, found)
        screen.print_line(f"wrote {csv}")
    if png is not None:
        from parhelion.pictures.style import save

        save(model.picture(found, lidar.config.name), png)
        screen.print_line(f"look at {png}")
