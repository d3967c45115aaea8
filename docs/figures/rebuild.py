"""Rebuilt recordings: docs/images/rebuild-held-out.png and rebuild-map.png, and the table of docs/rebuild.md.

The recordings lie outside the repository (`../shared/data`). Every third revolution is held out.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from page import finish, sheet

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import parhelion as ph
from parhelion.rebuild.frames import FrameShots
from parhelion.rebuild.frames import Path as SensorPath
from parhelion.rebuild.place import free_map
from parhelion.rebuild.reading import cell_of
from parhelion.rebuild.rebuild import Options, RebuiltPlace, rebuilt
from parhelion.rebuild.score import held_out, score
from parhelion.rebuild.votes import SurfelScene

COLUMNS = 512
Rebuilt = tuple[RebuiltPlace, list[FrameShots], SensorPath]


def rebuilt_set(name: str) -> Rebuilt:
    """Place from two thirds of a set, and the held-out frames with their poses; prints a row of the table."""
    import recorded_drives as sets

    frames, path = sets.hilti() if name == "Hilti" else (sets.kitti(), None)
    lidar = ph.Lidar("ouster/os0-64" if name == "Hilti" else "velodyne/hdl-64e")
    number = np.arange(len(frames))
    test, train = number[number % 3 == 1], number[number % 3 != 1]
    poses = None if path is None else (path.xyz[train], path.quat_xyzw[train])
    start = time.process_time()
    place = rebuilt([frames[k] for k in train], lidar, poses, Options(refine_poses=False))
    took = time.process_time() - start
    chosen = [frames[k] for k in test]
    ready, at = held_out(place, chosen) if path is None else (chosen, path.rows(test))
    found = score(place, ready, at)
    print(
        f"| {name} | {100 * place.voxel_m:.1f} | {len(place.surfels):,} | {100 * found.median_m:.1f} | "
        f"{found.near_of_hits:.3f} | {found.near_of_all:.3f} | {found.returned_hit:.3f} | {found.lost_hit:.2f} | "
        f"{found.agreement:.3f} | {took:.0f} |",
        flush=True,
    )
    return place, ready, at


def images(made: Rebuilt) -> tuple[Any, Any]:
    """Ranges of one held-out frame, recorded and from the place, shape (rings, columns); NaN for lost shots."""
    place, frames, path = made
    number = len(frames) // 2
    frame = frames[number]
    hit = SurfelScene(place.surfels).cast(*path.rays(number, frame))
    likely = (hit.surfel >= 0) & (place.reflectances.return_rate[np.maximum(hit.surfel, 0)] > 0.5)
    likely &= ~place.blind[cell_of(frame.direction)]
    column = ((np.arctan2(frame.direction[:, 1], frame.direction[:, 0]) / (2 * np.pi) + 0.5) * COLUMNS).astype(int)
    pictures = []
    for values in (frame.range_m, np.where(likely, hit.range_m, np.nan)):
        image = np.full((int(frame.ring.max()) + 1, COLUMNS), np.nan)
        image[frame.ring, np.minimum(column, COLUMNS - 1)] = values
        pictures.append(image[::-1])
    return pictures[0], pictures[1]


def draw_held_out(sets: dict[str, Rebuilt], target: str) -> None:
    """Recorded and predicted range images, one above the other."""
    figure, _ = sheet(9.0, 3.1 * len(sets) + 0.3, 1)
    figure.clf()
    axes = figure.subplots(2 * len(sets), 1)
    for row, (name, made) in enumerate(sets.items()):
        for axis, image, kind in zip(axes[2 * row :], images(made), ("recorded, held out", "rebuilt"), strict=False):
            shown = axis.imshow(np.log10(image), aspect="auto", cmap="turbo", vmin=0.2, vmax=1.7, interpolation="none")
            axis.set_facecolor("black")
            axis.set(xticks=[], yticks=[], title=f"{name}: {kind}")
    bar = figure.colorbar(shown, ax=axes, ticks=[np.log10(v) for v in (2, 5, 10, 20, 50)], shrink=0.5)
    bar.ax.set_yticklabels(["2 m", "5 m", "10 m", "20 m", "50 m"])
    finish(figure, target)


def draw_map(made: Rebuilt, target: str) -> None:
    """Map of the places with observed surroundings."""
    image, (wide, high) = free_map(made[0])
    figure, (axes,) = sheet(6.0, 6.0 * high / wide, 1)
    axes.imshow(image, interpolation="nearest", extent=(0.0, wide, 0.0, high))
    axes.set(xlabel="x [m]", ylabel="y [m]")
    finish(figure, target)


def main() -> None:
    """Rebuild both sets and draw them."""
    print(
        "| set | voxel [cm] | surfels | median [cm] | of hits | of all | returns hit | lost hit | agreement | CPU [s] |"
    )
    sets = {name: rebuilt_set(name) for name in ("Hilti", "KITTI")}
    draw_held_out(sets, "rebuild-held-out")
    draw_map(sets["KITTI"], "rebuild-map")


if __name__ == "__main__":
    main()
