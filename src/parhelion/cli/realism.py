"""`parhelion evaluate realism`: simulated frames against real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import check_file

EXAMPLES = (
    "parhelion evaluate realism recorded/ simulated/ --html report.html --json out.json",
    "parhelion evaluate realism drive.pcap run/roof --sensor ouster/os1-128 --png places.png",
    "parhelion evaluate realism real.mcap sim.mcap --topic /points --unpaired --json out.json",
)


def realism(
    real: Annotated[Path, typer.Argument(metavar="REAL", help="Cloud file, capture, ROS 2 bag, or folder of clouds.")],
    simulated: Annotated[Path, typer.Argument(metavar="SIM", help="The same kinds as REAL.")],
    output: Annotated[
        Path | None, typer.Option("--html", "--output", "-o", help="Page with tables, curves and pictures (.html).")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Picture of the places that give the simulation away.")
    ] = None,
    resolution: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Common range resolution [m]; 0 for none. Default: 0.003, or the step of the real ranges if larger.",
        ),
    ] = None,
    frames: Annotated[
        int, typer.Option(min=1, max=10_000, help="Frames of each set, sampled evenly from longer recordings.")
    ] = 20,
    points: Annotated[int, typer.Option(min=1000, help="Points of each set that are classified.")] = 24_000,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="The frames do not correspond: omit the comparison shot by shot.")
    ] = False,
    also_real: Annotated[
        Path | None, typer.Option("--also-real", help="Another recording of the same sensor, as a further floor.")
    ] = None,
    sensor: Annotated[str | None, typer.Option(help="Model of a capture that does not state it.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Topic in bags with several; twice if REAL and SIM differ.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the dither and of the classifier.")] = 0,
) -> None:
    """Compare simulated with real frames: a classifier that tries to separate them, and the frames shot by shot."""
    from parhelion.core.files import write_json
    from parhelion.evaluate.realism import report
    from parhelion.evaluate.realism.study import STEPS, Options, compare
    from parhelion.pictures.html import write_page

    check_file(output, json, picture=png)
    if len(topic or []) > 2:
        raise typer.BadParameter("give one topic, or one for REAL and one for SIM", param_hint="--topic")
    topics = (topic[0], topic[-1]) if topic else (None, None)
    options = Options(
        resolution_m=resolution,
        most_frames=frames,
        most_points=points,
        paired=not unpaired,
        sensor=sensor,
        topics=topics,
        also_real=also_real,
        seed=seed,
    )
    with screen.progress("comparing", STEPS) as advance:
        result = compare(real, simulated, options, advance)
    screen.facts(f"{real} and {simulated}", report.facts(result))
    screen.table("Two-sample test", report.columns(result), report.table_rows(result))
    features = report.feature_rows(result.best.features)
    screen.table("Features", report.FEATURE_COLUMNS, features, numbers=report.FEATURE_COLUMNS[1:])
    screen.facts("Shot by shot", report.shot_rows(result))
    screen.print_line(report.verdict(result))
    if json is not None:
        sources = {"real": str(real), "simulated": str(simulated), "command": screen.command_line()}
        write_json(json, {"sources": sources, **report.as_dict(result)})
        screen.print_line(f"wrote {json}")
    if png is not None:
        from parhelion.pictures.style import save

        save(report.place_picture(result, report.places(result)), png)
        screen.print_line(f"look at {png}")
    if output is not None:
        write_page(output, report.page_of(result, str(real), str(simulated), screen.command_line()))
        screen.print_line(f"look at {output}")
