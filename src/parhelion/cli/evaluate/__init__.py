"""`parhelion evaluate`: clouds against clouds, detections against labels, odometry against the truth, placement."""

from __future__ import annotations

import typer

from parhelion.cli.evaluate import clouds, detections, placement, slam
from parhelion.cli.failures import Command, Group
from parhelion.cli.screen import examples

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    epilog=examples(clouds.EXAMPLES[0], detections.EXAMPLES[0], placement.EXAMPLES[0], slam.EXAMPLES[0]),
)

for _module in (clouds, detections, placement, slam):
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name, cls=Command, epilog=examples(*_module.EXAMPLES))(getattr(_module, _name))
