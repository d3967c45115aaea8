"""ApolloSim's real RPLIDAR A1 boards, recorded and simulated: two pictures and a table of docs/calibration.md.

python docs/figures/calibration_apollosim.py    # about a minute; needs ../shared/data/apollosim_rplidar_a1
"""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path

import numpy as np
import yaml
from calibration import table, write
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from page import BLUE, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.calibrate.boards.boards import BoardCalibration, calibrate_boards
from parhelion.calibrate.boards.report import mean_and_sigma, simulated_profiles
from parhelion.calibrate.boards.shots import read_shots
from parhelion.sensors.optics.lidar.config import MaterialProfile

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "apollosim_rplidar_a1"
BOARDS = {
    "wall": (0.457, 1.25), "wood": (0.389, 1.25), "metal": (0.479, 1.0), "metal2": (0.188, 0.8), "acrylic": (0.23, 1.25)
}  # fmt: skip
"""Stated distance and width [m] of `data.config`."""
Floats = NDArray[np.float64]


def recording(name: str) -> Path:
    """Recording of one board."""
    file = (DATA / f"{name}_data.txt.xz").resolve()
    if not file.is_file():
        raise SystemExit(f"{file}: no such file; the page keeps its earlier figures")
    return file


def calibrated() -> BoardCalibration:
    """Calibration from the five boards, which all stand at 180 degrees."""
    boards = [
        {
            "material": name,
            "recording": str(recording(name)),
            "distance_m": far,
            "width_m": wide,
            "azimuth_deg": [90, 270],
        }
        for name, (far, wide) in BOARDS.items()
    ]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "boards.yaml"
        file.write_text(yaml.safe_dump({"boards": boards}))
        return calibrate_boards(file, ph.Lidar("slamtec/rplidar-a1").config)


def published() -> dict[str, Floats]:
    """ApolloSim's statistics per beam: angle [rad], mean and σ of intensity, σ of range [m], drop rate."""
    rows: dict[str, list[list[float]]] = {}
    for line in lzma.decompress((DATA / "evaluation_real_data.txt.xz").read_bytes()).decode().split():
        name, *numbers = line.split(",")
        rows.setdefault(name, []).append([float(number) for number in numbers])
    return {name: np.array(one) for name, one in rows.items()}


def curves(profile: MaterialProfile) -> list[Floats]:
    """The four quantities of figures 5.1 to 5.4 by angle bin; lost shots count as intensity 0, as in ApolloSim."""
    mean, sigma = mean_and_sigma(profile)
    mean, sigma = np.nan_to_num(mean), np.nan_to_num(sigma)
    drop = np.asarray(profile.drop)
    total = (1.0 - drop) * mean
    spread = np.sqrt(np.maximum((1.0 - drop) * (sigma**2 + mean**2) - total**2, 0.0))
    ranges = np.where(drop < 0.99, 1e3 * np.asarray(profile.range_sigma_m), np.nan)
    return [total, spread, 100.0 * drop, ranges]


def draw_profiles(found: BoardCalibration, simulated: dict[str, MaterialProfile | None]) -> None:
    """Figures 5.1 to 5.4, one column per material."""
    figure = Figure(figsize=(9.2, 8.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(4, len(found.materials), sharex=True, sharey="row")
    theirs = published()
    labels = ("mean intensity", "σ of intensity", "drop rate [%]", "σ of range [mm]")
    for number, (column, one) in enumerate(zip(grid.T, found.materials, strict=True)):
        again = simulated[one.name]
        assert again is not None
        middle = 0.5 * (np.asarray(one.profile.angle_deg)[1:] + np.asarray(one.profile.angle_deg)[:-1])
        table_of = theirs[one.name]
        beams = np.degrees(table_of[:, 0])
        other = (table_of[:, 1], table_of[:, 2], 100.0 * table_of[:, 4], 1e3 * table_of[:, 3])
        for axes, real, made, own, label in zip(column, curves(one.profile), curves(again), other, labels, strict=True):
            known, seen = np.asarray(one.profile.shots) > 0, np.asarray(again.shots) > 0
            axes.plot(beams, own, ".", color=GREY, ms=1.5, alpha=0.6, label="ApolloSim's statistics, per beam")
            axes.plot(middle[seen], made[seen], color=ORANGE, lw=1.3, label="simulated with the new sheet")
            axes.plot(middle[known], real[known], "o", color=BLUE, ms=3.5, label="recorded, 5° bins")
            if number == 0:
                axes.set_ylabel(label)
        column[0].set_title(one.name)
        column[3].set(yscale="log", ylim=(0.05, 40.0), xlabel="incidence [deg]", xlim=(0.0, 82.0))
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, fontsize=9)
    finish(figure, "calibration-apollosim")


def draw_boards(found: BoardCalibration) -> None:
    """Recordings from above: board, other surfaces, and stated distance."""
    figure, panels = sheet(8.4, 6.4, 3, 2)
    for axes in panels[len(found.recordings) :]:
        axes.remove()
    for axes, one in zip(panels, found.recordings, strict=False):
        shots = read_shots(recording(one.material))
        x, y = shots.points[::3, 0], shots.points[::3, 1]
        board = one.board
        assert board is not None
        axes.plot(x, y, ".", ms=1.0, color=GREY)
        foot = -board.distance_m * board.normal
        ends = np.array([foot + edge * board.across for edge in board.edges_m[:2]])
        axes.plot(ends[:, 0], ends[:, 1], color=BLUE, lw=2.0, label="board")
        axes.axvline(-BOARDS[one.material][0], color=RED, lw=0.9, ls="--", label="stated")
        axes.plot(0.0, 0.0, "+", color="black")
        axes.set(xlim=(-0.8, 0.8), ylim=(-1.0, 1.0), aspect="equal", title=one.material, xlabel="x [m]")
    panels[0].set_ylabel("y [m]")
    panels[0].legend(fontsize=7, loc="lower right")
    finish(figure, "calibration-apollosim-boards")


def main() -> None:
    """Create the pictures and the table."""
    found = calibrated()
    for note in found.notes:
        print(note)
    simulated = simulated_profiles(found)
    draw_boards(found)
    draw_profiles(found, simulated)
    rows = []
    for one, taken in zip(found.materials, found.recordings, strict=True):
        again, score, board = simulated[one.name], one.comparison, taken.board
        assert again is not None
        assert score is not None
        assert board is not None
        stated = BOARDS[one.name][0]
        both = (np.asarray(one.profile.shots) > 0) & (np.asarray(again.shots) > 0)
        drop = np.abs(np.asarray(again.drop) - np.asarray(one.profile.drop))[both].max()
        some = both & (np.asarray(one.profile.drop) < 0.9)
        ratio = (np.asarray(again.range_sigma_m) / np.asarray(one.profile.range_sigma_m))[some]
        rows.append([
            one.name, f"{stated:.3f}", f"{board.distance_m:.3f}", f"{1e3 * (stated - board.distance_m):.0f}",
            f"{taken.taken}", f"{100 * taken.lost / taken.taken:.1f} %", f"{100 * drop:.1f}",
            f"{ratio.min():.2f}–{ratio.max():.2f}", f"{score.log_likelihood:.3f} / {score.textbook_log_likelihood:.3f}",
            f"{score.range_log_likelihood:.2f} / {score.textbook_range_log_likelihood:.2f}",
        ])  # fmt: skip
    columns = [
        "board", "stated [m]", "measured [m]", "offset [mm]", "shots", "lost", "largest difference of drop rate [pp]",
        "σ of range, simulated / recorded", "log-likelihood, profile / textbook", "of range, profile / textbook",
    ]  # fmt: skip
    write("apollosim", table(columns, rows))


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
