"""The picture docs/images/echo-sonars.png: one bottom by a single beam, by a multibeam and by a side-scan sonar."""

from __future__ import annotations

import numpy as np
from page import finish, sheet

import parhelion as ph

TRACK_M = np.arange(0.0, 60.0, 0.6)
DEPTH_M = 14.0


def sea() -> ph.World:
    """Sand with waves and a slope, a barge on its side, a pipeline, and a shoal of buoys over the bottom."""
    world = ph.World("sea")
    y, x = np.mgrid[-50:51, -10:71] * 1.0
    height = 0.25 * np.sin(x / 2.5 + 0.3 * np.sin(y / 6.0)) + 0.5 * np.sin(y / 14.0) + 0.02 * x
    middle = ph.Pose((30.0, 0.0, -DEPTH_M))
    world.add(ph.shapes.grid_terrain(height, 1.0), material="sand", label="terrain", pose=middle)
    barge = ph.Pose((24.0, -16.0, -DEPTH_M + 0.9), rpy_deg=(8.0, 0.0, 35.0))
    world.add(ph.shapes.box(12, 4, 2.4), material="steel", label="vessel", pose=barge)
    pipe = ph.Pose((30.0, -30.0, -DEPTH_M + 0.2), rpy_deg=(0.0, 0.0, 1.0)) @ ph.Pose(rpy_deg=(0.0, 90.0, 0.0))
    world.add(ph.shapes.cylinder(0.6, 80), material="steel", label="pipe", pose=pipe)
    for k, (at, deep) in enumerate(((12.0, 7.0), (14.0, 8.0), (40.0, 9.0))):
        world.add(ph.shapes.sphere(0.25), material="steel", label="buoy", pose=ph.Pose((at, 0.1 * k, -deep)))
    return world


def along(echo: ph.Echo, world: ph.World, rpy_deg: tuple[float, float, float]) -> list[ph.EchoScan]:
    """A ping at each place of the track."""
    return [echo.ping(world, pose=ph.Pose((x, 0, 0), rpy_deg=rpy_deg), seed=5) for x in TRACK_M]


def waterfall(pings: list[ph.EchoScan], edges: np.ndarray) -> np.ndarray:
    """Level in range cells [dB], shape (cells, pings); NaN where nothing was heard."""
    columns = []
    for ping in pings:
        power, _ = np.histogram(ping.range, edges, weights=10.0 ** (-ping.attenuation.astype(float) / 10.0))
        columns.append(power)
    with np.errstate(divide="ignore"):
        level = 10.0 * np.log10(np.array(columns).T)
    return np.where(np.isfinite(level), level, np.nan)


def main() -> None:
    """Draw all three."""
    world = sea()
    figure, (first, second, third) = sheet(12.0, 3.9, 3)
    down = (0.0, 90.0, 0.0)
    edges = np.arange(4.0, 20.0, 0.08)
    found = waterfall(along(ph.Echo("generic/echo-sounder-200"), world, down), edges)
    drawn = first.imshow(found, aspect="auto", extent=(0, 60, edges[-1], edges[0]), cmap="magma", interpolation="none")
    figure.colorbar(drawn, ax=first, label="level over the source [dB]")
    first.set(xlabel="along the track [m]", ylabel="range [m]", title="Single beam: buoys over the bottom")
    points = np.concatenate([ping.in_world().xyz for ping in along(ph.Echo("generic/multibeam-400"), world, down)])
    drawn = second.scatter(points[:, 0], points[:, 1], c=points[:, 2], s=1.5, cmap="viridis", vmin=-16, vmax=-12)
    figure.colorbar(drawn, ax=second, label="height [m]")
    second.set(xlabel="along the track [m]", ylabel="across [m]", title="Multibeam: heights of the bottom")
    second.set(ylim=(-26, 26), xlim=(0, 60))
    edges = np.arange(10.0, 46.0, 0.45)
    found = waterfall(along(ph.Echo("generic/side-scan-450"), world, (0.0, 30.0, -90.0)), edges)
    # Losses by spreading and absorption are compensated, as in every side-scan recorder.
    middle = 0.5 * (edges[1:] + edges[:-1])
    found = found + (30.0 * np.log10(middle) + 2.0 * 0.112 * middle)[:, None]
    drawn = third.imshow(found, aspect="auto", extent=(0, 60, edges[-1], edges[0]), cmap="copper", interpolation="none")
    drawn.set_clim(*np.nanpercentile(found, [5, 99]))
    third.set_facecolor("black")
    figure.colorbar(drawn, ax=third, label="level, evened over range [dB]")
    third.set(xlabel="along the track [m]", ylabel="slant range [m]", title="Side scan to starboard: shadows, speckle")
    finish(figure, "echo-sonars")


if __name__ == "__main__":
    main()
