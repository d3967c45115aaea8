"""The page of a calibration from boards: recorded and simulated curves together, material by material."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from parhelion.calibrate.boards.boards import BoardCalibration, MaterialResult, RecordingResult
from parhelion.calibrate.boards.find import Board
from parhelion.calibrate.boards.profile import MaterialShots, angle_edges, fit_profile, shots_at
from parhelion.calibrate.boards.shots import BoardShots, joined_shots
from parhelion.calibrate.boards.shots import shots_of_cloud as of_cloud
from parhelion.calibrate.drive import plots
from parhelion.calibrate.range_images import Floats
from parhelion.core.errors import ConfigError
from parhelion.core.files import atomic_write
from parhelion.core.pose import Pose
from parhelion.pictures import run_page as html
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.profiles import UncalibratedMaterialWarning
from parhelion.surfaces.library import material_names
from parhelion.surfaces.material import Material
from parhelion.world import shapes
from parhelion.world.world import World

# ---- Recordings of boards as pictures: the points that were taken for the board, and those left out -----------------


SPAN = 1.6
"""Panels reach so many times half the board's extent to each side."""
OFF_CM = 20.0
"""How far off the board's plane its points are shown [cm]."""


def draw_recording(one: RecordingResult) -> Any:
    """A recording from above, along its board, and face on where the sensor has rows.

    Lost shots that were taken are shown where their beams meet the board, and at the foot of the second panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    board, shots, taken = one.board, one.some, one.some_taken
    assert board is not None
    assert shots is not None
    assert taken is not None
    there = board.true_range(shots)
    meets = np.isfinite(there) & (there > 0.0)
    aimed = shots.origin + np.where(meets, there, np.nan)[:, None] * shots.direction
    points = shots.points
    groups = (
        (~taken & ~shots.lost, plots.LEFT), (taken & ~shots.lost, plots.TAKEN), (taken & shots.lost, plots.LOST)
    )  # fmt: skip
    rows = board.height_m > 0.0
    figure = Figure(figsize=(11.0, 2.7), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3 if rows else 2, width_ratios=(1.0, 1.4, 1.4) if rows else (1.0, 2.0))
    along, up = aimed @ board.across, aimed @ board.up
    off = np.where(shots.lost, -0.92 * OFF_CM, 100.0 * (points @ board.normal + board.distance_m))
    place = np.where(shots.lost, along, points @ board.across)
    for which, colour in groups:
        dots = {"s": 3.0 if colour == plots.LOST else 2.0, "color": colour, "linewidths": 0.0}
        panels[0].scatter(points[which, 0], points[which, 1], **dots)
        panels[1].scatter(place[which], off[which], **dots)
        if rows:
            panels[2].scatter(along[which], up[which], **dots)
    _from_above(panels[0], board)
    left, right, _, _ = board.edges_m
    middle, half = 0.5 * (left + right), 0.5 * (right - left)
    panels[1].set(
        xlabel="along the board [m]", ylabel="before the board [cm]", ylim=(-OFF_CM, OFF_CM),
        xlim=(middle - SPAN * half, middle + SPAN * half),
    )  # fmt: skip
    for edge in (left, right):
        panels[1].axvline(edge, color=plots.PRESET, lw=0.8, ls="--")
    if rows:
        _face_on(panels[2], board)
    for axes in panels:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=7)
    return figure


def _from_above(axes: Any, board: Board) -> None:
    left, right, _, _ = board.edges_m
    foot = -board.distance_m * board.normal
    ends = np.stack([foot + place * board.across for place in (left, right)])
    middle, reach = ends.mean(axis=0), SPAN * max(0.5 * (right - left), board.distance_m)
    axes.plot(ends[:, 0], ends[:, 1], color="black", lw=0.8)
    axes.plot(0.0, 0.0, "^", ms=5, color="black")
    low, high = np.minimum(middle, 0.0)[:2], np.maximum(middle, 0.0)[:2]
    centre = 0.5 * (low + high)
    axes.set(
        aspect="equal", xlabel="x [m]", ylabel="y [m]", xlim=(centre[0] - reach, centre[0] + reach),
        ylim=(centre[1] - reach, centre[1] + reach),
    )  # fmt: skip


def _face_on(axes: Any, board: Board) -> None:
    left, right, low, high = board.edges_m
    across, up = 0.5 * (left + right), 0.5 * (low + high)
    axes.plot([left, right, right, left, left], [low, low, high, high, low], color=plots.PRESET, lw=0.8, ls="--")
    axes.set(
        xlabel="along the board [m]", ylabel="up the board [m]",
        xlim=(across - 0.5 * SPAN * (right - left), across + 0.5 * SPAN * (right - left)),
        ylim=(up - 0.5 * SPAN * (high - low), up + 0.5 * SPAN * (high - low)),
    )  # fmt: skip


# ---- report ---------------------------------------------------------------------------------------------------------


def mean_and_sigma(profile: MaterialProfile) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the intensities of returns, by bin of angle; NaN where there are none."""
    cells = np.asarray(profile.intensity)
    value = cells if profile.kind == "values" else 0.5 * (cells[1:] + cells[:-1])
    counts = np.asarray(profile.counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / counts.sum(axis=1, keepdims=True)
        mean = share @ value
        return mean, np.sqrt(np.maximum(share @ value**2 - mean**2, 0.0))


def rows_of(found: BoardCalibration) -> list[tuple[str, ...]]:
    """A row a material, for people."""
    rows: list[tuple[str, ...]] = []
    for one in found.materials:
        known = np.asarray(one.profile.shots) > 0
        drop, sigma = (np.asarray(part)[known] for part in (one.profile.drop, one.profile.range_sigma_m))
        gaps = "nothing" if one.brdf is None else f"{one.brdf.model} (± {100 * one.brdf.error:.0f} %)"
        rows.append((
            one.name, "; ".join(f"{b.distance_m:.2f} m, {b.width_m:.2f} m wide" for b in one.boards),
            str(len(one.shots)),
            f"{one.profile.recorded_deg[0]:g}–{one.profile.recorded_deg[1]:g}",
            f"{100 * drop.min():.1f}–{100 * drop.max():.1f} %" if one.shots.knows_lost else "unknown",
            f"{100 * sigma.min():.2f}–{100 * sigma.max():.2f}", gaps,
        ))  # fmt: skip
    return rows


CURVES: tuple[tuple[str, Callable[[MaterialProfile], Floats]], ...] = (
    ("mean intensity", lambda profile: mean_and_sigma(profile)[0]),
    ("σ of intensity", lambda profile: mean_and_sigma(profile)[1]),
    ("drop rate [%]", lambda profile: 100.0 * np.asarray(profile.drop)),
    ("σ of range [cm]", lambda profile: 100.0 * np.asarray(profile.range_sigma_m)),
)
"""The four curves of ApolloSim's figures 5.1 to 5.4."""


def draw_curves(panels: Any, recorded: MaterialProfile, simulated: MaterialProfile | None) -> None:
    """Recorded (dots, with what gaps are filled by as circles) and simulated (line) over the angle of incidence."""
    edges = angle_edges()
    middle = 0.5 * (edges[1:] + edges[:-1])
    known = np.asarray(recorded.shots) > 0
    for axes, (label, curve) in zip(panels, CURVES, strict=True):
        values = curve(recorded)
        axes.plot(middle[known], values[known], "o", ms=3.5, color=plots.RECORDED, label="recorded")
        if recorded.brdf is not None:
            axes.plot(
                middle[~known], values[~known], "o", ms=3.5, mfc="none", color=plots.PRESET, label="gap, by model"
            )
        if simulated is not None:
            there = np.asarray(simulated.shots) > 0
            axes.plot(middle[there], curve(simulated)[there], lw=1.2, color=plots.SHEET, label="simulated")
        axes.set(xlabel="angle of incidence [deg]", ylabel=label, xlim=(0.0, 90.0))
        axes.set_ylim(bottom=0.0)
    panels[0].legend(fontsize=7)


def simulated_profile(found: BoardCalibration, one: MaterialResult, seed: int = 1) -> MaterialProfile | None:
    """The profile of what the calibrated sensor sees of the first board again; None where it sees too little."""

    board = one.boards[0]
    width = min(2.0 * max(abs(board.edges_m[0]), abs(board.edges_m[1])), 12.0 * board.distance_m)
    try:
        shots: MaterialShots = simulate_board(
            found.sheet, one.name, board.distance_m, width_m=width, height_m=max(board.height_m, 0.5), seed=seed
        )
        return fit_profile(shots, gaps=False)[0]
    except ConfigError:
        return None


def simulated_profiles(found: BoardCalibration, seed: int = 1) -> dict[str, MaterialProfile | None]:
    """What the calibrated sensor sees of each material again."""
    return {one.name: simulated_profile(found, one, seed) for one in found.materials}


def curves_of(one: MaterialResult, simulated: MaterialProfile | None) -> Any:
    """The four curves of a material beside each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 2.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 4)
    draw_curves(panels, one.profile, simulated)
    for axes in panels:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=7)
    return figure


def board_page(
    found: BoardCalibration,
    recording: str,
    simulated: Mapping[str, MaterialProfile | None],
    *,
    before: Sequence[str] = (),
    images: dict[str, str] | None = None,
) -> str:
    """The page as HTML; it holds its pictures itself.

    `simulated` has the profile of each material that was simulated with the new sheet; `before` are sections that come
    first; `images` keeps pictures for the next page of the same calibration.
    """
    kept = {} if images is None else images

    def picture(key: str, draw: Callable[..., Any], *of: Any) -> str:
        if key not in kept:
            kept[key] = plots.address(draw(*of))
        return kept[key]

    figures = []
    for one in found.materials:
        again = simulated.get(one.name)
        address = picture(f"{one.name} {again is not None}", curves_of, one, again)
        figures.append(html.figure(one.name, html.image(address, one.name, "plot")))
    boards = []
    for number, seen in enumerate(found.recordings):
        if seen.board is not None:
            address = picture(f"{number}", draw_recording, seen)
            words = f"Points of {seen.name}"
            boards.append(html.figure(f"{seen.name}: {seen.material}", html.image(address, words, "plot")))
    key = plots.key((plots.TAKEN, "taken"), (plots.LOST, "taken, lost"), (plots.LEFT, "left out"))
    held = [
        (
            one.name, str(one.comparison.shots), f"{one.comparison.log_likelihood:.3f}",
            f"{one.comparison.textbook_log_likelihood:.3f}", f"{one.comparison.wasserstein:.3g}",
            f"{one.comparison.textbook_wasserstein:.3g}",
        )
        for one in found.materials
        if one.comparison is not None
    ]  # fmt: skip
    columns = ("material", "boards", "shots", "angles [deg]", "drop", "range noise [cm]", "gaps by")
    constants = [] if found.sheet.calibration is None else found.sheet.calibration.constants
    known = [(one.source, f"{one.k_m2:.6g}", f"{one.gamma_per_m:.4g}") for one in constants]
    against = ("material", "held-out shots", "log-likelihood", "textbook", "Wasserstein", "textbook")
    return html.page(
        f"Boards before {found.preset.name}",
        f"<h1>Boards before {html.text(found.preset.name)}</h1>",
        f'<p class="lead">From {html.text(recording)}. Dots are recorded, lines are simulated with the new sheet.</p>',
        *before,
        html.section("materials", "Materials", html.table(columns, rows_of(found), kinds="-ln---l")),
        html.section("curves", "Recorded and simulated", *figures),
        html.section("boards", "Points taken and left out", *boards, key if boards else ""),
        html.section("held", "On shots kept back", html.table(against, held, kinds="-nnnnn")),
        html.section(
            "constants", "System constant",
            html.table(("source", "K [m²]", "γ [1/m]"), known),
        ),
        html.section("notes", "Notes", "".join(f"<p>{html.text(note)}</p>" for note in found.notes)),
    )  # fmt: skip


def write_board_report(
    found: BoardCalibration, recording: str, simulated: Mapping[str, MaterialProfile | None], path: str | PathLike[str]
) -> None:
    """Write the page."""
    with atomic_write(path) as temporary:
        temporary.write_text(board_page(found, recording, simulated), encoding="utf-8")


# ---- Boards as a calibrated sensor would see them: the same shots again, from simulation ----------------------------


THICKNESS_M = 0.05
MOST_SHOTS = 40_000


def simulate_board(
    sheet: LidarConfig,
    material: str,
    distance_m: float,
    *,
    width_m: float,
    height_m: float = 1.2,
    seed: int = 1,
    shots: int = 20_000,
) -> MaterialShots:
    """Shots of a sensor at an upright board that faces it, as many turns as give about `shots` of them."""
    world = World(name="board")
    box = shapes.box(THICKNESS_M, width_m, height_m)
    # Names of the user's own stand for a grey board: its profile alone says what is seen of it.
    known = material if material in material_names() else _grey(material)
    world.add(box, material=known, label="board", pose=Pose((distance_m + 0.5 * THICKNESS_M, 0.0, 0.0)))
    lidar = Lidar(sheet)
    normal = np.array([-1.0, 0.0, 0.0])
    across, up = np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    flat = float(np.ptp(lidar.shots().direction[:, 2])) < 1e-3
    half = 0.0 if flat else 0.5 * height_m
    board = Board(normal, distance_m, across, up, (-0.5 * width_m, 0.5 * width_m, -half, half), 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncalibratedMaterialWarning)
        first = of_cloud(lidar.scan(world, pose=Pose(), seed=seed, frame=0), material)
        aimed = max(1, int(board.holds(first).sum()))
        turns = int(np.clip(np.ceil(shots / aimed), 1, MOST_SHOTS))
        scans = lidar.scan_many(world, [Pose()] * turns, seed=seed, frames=list(range(turns)))
    seen: BoardShots = joined_shots([of_cloud(scan, material) for scan in scans])
    return shots_at(board, seen)


def _grey(name: str) -> Material:
    from parhelion.surfaces.library import material

    return material("lambert-50").model_copy(update={"name": name})


# ---- board watching -------------------------------------------------------------------------------------------------
# What a calibration from boards shows while it runs: its stages, the points of each recording, and curves so far.


AT_WORK = {
    "read": "{} is being read", "board": "the board in {} is looked for", "profile": "profile and gaps of {}",
    "held-out": "{} is held against shots that were kept back", "sheet": "the sheet is put together",
}  # fmt: skip
"""What goes on in each kind of stage."""


class BoardWatch:
    """The pages of one calibration: pictures are drawn once and kept."""

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self._images: dict[str, str] = {}

    def page(
        self, found: BoardCalibration, simulated: Mapping[str, MaterialProfile | None] | None = None, *,
        finished: bool = False,
    ) -> str:  # fmt: skip
        """The page after some stages, as HTML; `simulated` holds the materials that the new sheet has simulated."""
        return board_page(
            found, self.recording, simulated or {}, before=[_stages(found, finished)], images=self._images
        )


def _stages(found: BoardCalibration, finished: bool) -> str:
    states = ["done"] * found.done + ["at work"] + ["waits"] * len(found.stages)
    recordings: list[tuple[str, ...]] = []
    materials: list[tuple[str, ...]] = []
    for number, stage in enumerate(found.stages):
        both = states[number : number + 2]
        if stage.kind == "read":
            recordings.append((stage.material, stage.recording, *both, *_shots(found, len(recordings))))
        elif stage.kind == "profile":
            materials.append((stage.material, *both))
    taken = sum(one.taken for one in found.recordings)
    left = sum(one.shots - one.taken for one in found.recordings if one.board is not None)
    return html.tiles([
        ("stages done", f"{found.done} of {len(found.stages)}"),
        ("boards found", f"{sum(one.board is not None for one in found.recordings)} of {len(recordings)}"),
        ("materials fitted", f"{len(found.materials)} of {len(materials)}"),
        ("shots taken", _count(taken)), ("shots left out", _count(left)),
    ]) + html.section(
        "stages", "Stages", f'<p class="lead">{html.text(_words(found, finished))}</p>',
        "<h3>Recordings</h3>",
        html.table(
            ("material", "recording", "read", "board found", "shots", "taken", "of them lost", "left out"), recordings,
            kinds="-l--nnnn",
        ),
        "<h3>Materials</h3>",
        html.table(("material", "profile and gaps", "held-out comparison"), materials),
    )  # fmt: skip


def _words(found: BoardCalibration, finished: bool) -> str:
    if finished:
        return "All stages are done."
    if found.done == len(found.stages):
        return "The calibration is done; its boards are simulated with the new sheet."
    stage = found.stages[found.done]
    now = AT_WORK[stage.kind].format(stage.recording or stage.material)
    return f"The calibration runs, and this page follows it. Now: {now}."


def _shots(found: BoardCalibration, number: int) -> tuple[str, str, str, str]:
    """How many shots the recording of this number has, and what became of them."""
    if number >= len(found.recordings):
        return "", "", "", ""
    one = found.recordings[number]
    if one.board is None:
        return _count(one.shots), "", "", ""
    return _count(one.shots), _count(one.taken), _count(one.lost), _count(one.shots - one.taken)


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")
