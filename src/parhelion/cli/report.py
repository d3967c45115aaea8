"""The demo's report: one HTML page that needs nothing but the picture beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.cli.screen import count, percent

if TYPE_CHECKING:
    from parhelion import Lidar, Scan, World
    from parhelion.cli.summary import Tally

_STYLE = """
body { background: #0e1116; color: #dfe5ec; font: 15px/1.55 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto;
       padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; color: #ffb454; }
p.lead { color: #8d99a8; margin-top: 0; } img { width: 100%; border-radius: 6px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 1.1rem 0.2rem 0; text-align: left; border-bottom: 1px solid #2b323c; }
th { color: #8d99a8; font-weight: 500; } code { color: #9ecbff; }
"""
_ROWS = 8


def first_points(scan: Scan) -> str:
    """The first points of a scan as an HTML table."""
    names = scan.names.get("label", {})
    rows = [
        (
            *(f"{value:.3f}" for value in scan.xyz[row]),
            f"{scan.fields['intensity'][row]:.0f}",
            int(scan.fields["ring"][row]),
            f"{1e3 * scan.fields['time'][row]:.3f}",
            names.get(int(scan.fields["label"][row]), ""),
        )
        for row in range(min(_ROWS, len(scan)))
    ]
    return _table(("x [m]", "y [m]", "z [m]", "intensity", "ring", "time [ms]", "label"), rows)


def write_report(
    file: Path, *, world: World, lidar: Lidar, tally: Tally, seed: int, first_rows: str, seconds: float
) -> None:
    """Write the page: sensor, world, counts, times, labels, first points, files."""
    from parhelion import __version__
    from parhelion.io import atomic_write

    config = lidar.config
    sensor = [
        ("model", f"{config.name} ({lidar.model})"),
        ("shots a scan", f"{count(len(lidar.shots()))} at {lidar.rate_hz:g} Hz"),
        ("wavelength", f"{config.wavelength_nm:g} nm"),
        ("range", f"{lidar.max_range(0.1):.0f} m at 10 %, {lidar.max_range(0.9):.0f} m at 90 % reflectance"),
        ("world", f"{world.name}: {count(world.triangle_count)} triangles, {len(world.materials)} materials"),
        ("weather", repr(world.weather)[9:-1] if world.weather is not None else "clear"),
        ("seed", seed),
    ]
    labels = [(word, count(points), percent(share)) for word, points, share in tally.label_shares]
    files = [
        ("clouds/", "one binary PCD a scan, in the sensor frame, all fields kept"),
        ("trajectory.tum", "time x y z qx qy qz qw of the sensor at the start of each scan"),
        ("imu.csv", "specific force and turn rate, one row a sample"),
        ("demo.png", "the picture above"),
    ]
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Parhelion demo</title><style>{_STYLE}</style></head><body>
<h1>A trip through the {escape(world.name)} in rain</h1>
<p class="lead">Parhelion {escape(__version__)}, everything together {seconds:.1f} s</p>
<img src="demo.png" alt="Points of the trip, from behind the sensor and from above, and the last scan's images">
<h2>Sensor and world</h2>
{_table((), sensor)}
<h2>What was measured</h2>
{_table((), tally.rows())}
<h2>Labels</h2>
{_table(("label", "points", "share"), labels)}
<h2>First points of the first scan</h2>
{first_rows}
<h2>Files</h2>
{_table((), files)}
<h2>Read a cloud</h2>
<p><code>import parhelion as ph; cloud = ph.PointCloud.load("clouds/000000.pcd"); cloud.xyz, cloud.label</code></p>
</body></html>
"""
    with atomic_write(file) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in columns) + "</tr>" if columns else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{head}{body}</table>"
