"""What the demo adds to the page of its run: the first points in numbers, and how to read a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parhelion.pictures import html

if TYPE_CHECKING:
    from parhelion import Scan

_ROWS = 8


def first_points(scan: Scan) -> str:
    """The first points of a scan as a section of a page."""
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
    columns = ("x [m]", "y [m]", "z [m]", "intensity", "ring", "time [ms]", "label")
    return html.section("first", "First points of the first scan", html.table(columns, rows, kinds="nnnnnn-"))


def how_to_read() -> str:
    """A line of Python that reads a cloud of the demo, as a section of a page."""
    code = 'import parhelion as ph; cloud = ph.PointCloud.load("clouds/000000.pcd"); cloud.xyz, cloud.label'
    return html.section("read", "Read a cloud", f"<p><code>{html.text(code)}</code></p>")
