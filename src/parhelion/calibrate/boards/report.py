"""Report of a calibration from boards: recorded and simulated curves per material."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike

import numpy as np

from parhelion.calibrate.boards.boards import BoardCalibration, MaterialResult, RecordingResult
from parhelion.calibrate.boards.find import Board
from parhelion.calibrate.boards.profile import MaterialShots, angle_edges, fit_profile, shots_at
from parhelion.calibrate.boards.shots import BoardShots, joined_shots
from parhelion.calibrate.boards.shots import shots_of_cloud as of_cloud
from parhelion.calibrate.drive import plots
from parhelion.calibrate.range_images import Floats
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve, Limits
from parhelion.pictures.html import count
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.profiles import UncalibratedMaterialWarning
from parhelion.surfaces.library import material_names
from parhelion.surfaces.material import Material
from parhelion.world import shapes
from parhelion.world.world import World

# ---- Charts of board recordings: points assigned to the board, and points left out ----------------------------------


GROUPS = {"left out": 6, "taken": 1, "taken, lost": 3}
"""Colours of the points in drawing order."""
SPAN = 1.6
"""Extent of the charts to each side, in half extents of the board."""
OFF_CM = 20.0
"""Largest shown distance from the plane of the board [cm]."""
_SIZE = (360, 240)


def recording_charts(one: RecordingResult) -> list[Chart]:
    """Charts of a recording: from above, along its board, and front view for sensors with several rows.

    Lost shots of the board are drawn where their beams meet it, and at the bottom of the second chart.
    """
    board, shots, taken = one.board, one.some, one.some_taken
    assert board is not None
    assert shots is not None
    assert taken is not None
    there = board.true_range(shots)
    meets = np.isfinite(there) & (there > 0.0)
    aimed = shots.origin + np.where(meets, there, np.nan)[:, None] * shots.direction
    points, along, up = shots.points, aimed @ board.across, aimed @ board.up
    off = np.where(shots.lost, -0.92 * OFF_CM, 100.0 * (points @ board.normal + board.distance_m))
    place = np.where(shots.lost, along, points @ board.across)
    masks = (~taken & ~shots.lost, taken & ~shots.lost, taken & shots.lost)

    def dots(x: Floats, y: Floats) -> list[Curve]:
        return [
            Curve.of(name, x[which], y[which], colour, "dots")
            for (name, colour), which in zip(GROUPS.items(), masks, strict=True)
        ]

    left, right, low, high = board.edges_m
    x_limits, y_limits = _around(left, right), _around(low, high)
    edges = [Curve.of("", [edge, edge], [-OFF_CM, OFF_CM], plots.PRESET, "dashed") for edge in (left, right)]
    charts = [
        _from_above(board, dots(points[:, 0], points[:, 1])),
        Chart(
            [*dots(place, off), *edges],
            "in front of board [cm]",
            "along the board [m]",
            x_limits=x_limits,
            y_limits=(-OFF_CM, OFF_CM),
            size=_SIZE,
        ),
    ]
    if board.height_m > 0.0:
        across, upward = [left, right, right, left, left], [low, low, high, high, low]
        face = [*dots(along, up), Curve.of("", across, upward, plots.PRESET, "dashed")]
        label = "up the board [m]"
        charts.append(Chart(face, label, "along the board [m]", x_limits=x_limits, y_limits=y_limits, size=_SIZE))
    return charts


def _around(low: float, high: float) -> Limits:
    middle, half = 0.5 * (low + high), 0.5 * SPAN * (high - low)
    return middle - half, middle + half


def _from_above(board: Board, dots: list[Curve]) -> Chart:
    """Points with the line of the board and the sensor (ring at the origin), to scale."""
    left, right, _, _ = board.edges_m
    foot = -board.distance_m * board.normal
    ends = np.stack([foot + place * board.across for place in (left, right)])
    middle, reach = ends.mean(axis=0), SPAN * max(0.5 * (right - left), board.distance_m)
    centre = 0.5 * (np.minimum(middle, 0.0) + np.maximum(middle, 0.0))
    line = Curve.of("", ends[:, 0], ends[:, 1], plots.PRESET)
    sensor = Curve.of("", [0.0], [0.0], plots.PRESET, "rings")
    x_limits, y_limits = ((centre[k] - reach, centre[k] + reach) for k in range(2))
    return Chart([*dots, line, sensor], "y [m]", "x [m]", x_limits=x_limits, y_limits=y_limits, equal=True, size=_SIZE)


# ---- report ---------------------------------------------------------------------------------------------------------


def mean_and_sigma(profile: MaterialProfile) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the intensities of returns per angle bin; NaN for empty bins."""
    cells = np.asarray(profile.intensity)
    value = cells if profile.kind == "values" else 0.5 * (cells[1:] + cells[:-1])
    counts = np.asarray(profile.counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / counts.sum(axis=1, keepdims=True)
        mean = share @ value
        return mean, np.sqrt(np.maximum(share @ value**2 - mean**2, 0.0))


def rows_of(found: BoardCalibration) -> list[tuple[str, ...]]:
    """Table rows, one per material."""
    rows: list[tuple[str, ...]] = []
    for one in found.materials:
        known = np.asarray(one.profile.shots) > 0
        drop, sigma = (np.asarray(part)[known] for part in (one.profile.drop, one.profile.range_sigma_m))
        gaps = "nothing" if one.brdf is None else f"{one.brdf.model} (± {100 * one.brdf.error:.0f} %)"
        rows.append(
            (
                one.name,
                "; ".join(f"{b.distance_m:.2f} m, {b.width_m:.2f} m wide" for b in one.boards),
                str(len(one.shots)),
                f"{one.profile.recorded_deg[0]:g}–{one.profile.recorded_deg[1]:g}",
                f"{100 * drop.min():.1f}–{100 * drop.max():.1f} %" if one.shots.knows_lost else "unknown",
                f"{100 * sigma.min():.2f}–{100 * sigma.max():.2f}",
                gaps,
            )
        )
    return rows


CURVES: tuple[tuple[str, Callable[[MaterialProfile], Floats]], ...] = (
    ("mean intensity", lambda profile: mean_and_sigma(profile)[0]),
    ("σ of intensity", lambda profile: mean_and_sigma(profile)[1]),
    ("drop rate [%]", lambda profile: 100.0 * np.asarray(profile.drop)),
    ("σ of range [cm]", lambda profile: 100.0 * np.asarray(profile.range_sigma_m)),
)
"""The four curves of ApolloSim's figures 5.1 to 5.4."""


def profile_charts(recorded: MaterialProfile, simulated: MaterialProfile | None) -> list[Chart]:
    """Recorded (dots; rings where a model fills gaps) and simulated (line) values over the angle of incidence."""
    edges = angle_edges()
    middle = 0.5 * (edges[1:] + edges[:-1])
    known = np.asarray(recorded.shots) > 0
    charts = []
    for label, curve in CURVES:
        values = curve(recorded)
        curves = [Curve.of("recorded", middle[known], values[known], plots.RECORDED, "dots")]
        if recorded.brdf is not None:
            curves.append(Curve.of("gap, by model", middle[~known], values[~known], plots.PRESET, "rings"))
        if simulated is not None:
            there = np.asarray(simulated.shots) > 0
            curves.append(Curve.of("simulated", middle[there], curve(simulated)[there], plots.SHEET))
        charts.append(Chart(curves, label, "angle of incidence [deg]", True, x_limits=(0.0, 90.0), size=(300, 210)))
    return charts


def simulated_profile(found: BoardCalibration, one: MaterialResult, seed: int = 1) -> MaterialProfile | None:
    """Profile of the first board as simulated with the calibrated sensor; None if too few shots hit it."""

    board = one.boards[0]
    width = min(2.0 * max(abs(board.edges_m[0]), abs(board.edges_m[1])), 12.0 * board.distance_m)
    try:
        shots: MaterialShots = simulate_board(
            found.sheet, one.name, board.distance_m, width_m=width, height_m=max(board.height_m, 0.5), seed=seed
        )
        return fit_profile(shots, gaps=False)[0]
    except ConfigError:
        return None


def simulated_profiles(found: BoardCalibration) -> dict[str, MaterialProfile | None]:
    """Profile of each material as simulated with the calibrated sensor."""
    return {one.name: simulated_profile(found, one, 1) for one in found.materials}


def board_page(
    found: BoardCalibration,
    recording: str,
    simulated: Mapping[str, MaterialProfile | None],
    *,
    before: Sequence[str] = (),
) -> str:
    """Report as HTML. `simulated` holds profiles simulated with the new sheet; `before` is placed first."""
    figures = []
    for one in found.materials:
        charts = profile_charts(one.profile, simulated.get(one.name))
        figures.append(html.figure(one.name, html.panels(one.name, *(part.svg() for part in charts)) + charts[0].key()))
    boards = []
    for seen in found.recordings:
        if seen.board is not None:
            views = html.panels(f"Points of {seen.name}", *(part.svg() for part in recording_charts(seen)))
            boards.append(html.figure(f"{seen.name}: {seen.material}", views))
    key = html.key([(name, colour, "dots") for name, colour in GROUPS.items()]) if boards else ""
    held = [
        (
            one.name,
            str(one.comparison.shots),
            f"{one.comparison.log_likelihood:.3f}",
            f"{one.comparison.textbook_log_likelihood:.3f}",
            f"{one.comparison.wasserstein:.3g}",
            f"{one.comparison.textbook_wasserstein:.3g}",
            f"{one.comparison.range_log_likelihood:.2f}",
            f"{one.comparison.textbook_range_log_likelihood:.2f}",
        )
        for one in found.materials
        if one.comparison is not None
    ]
    columns = ("material", "boards", "shots", "angles [deg]", "drop", "range noise [cm]", "gaps by")
    constants = [] if found.sheet.calibration is None else found.sheet.calibration.constants
    known = [(one.source, f"{one.k_m2:.6g}", f"{one.gamma_per_m:.4g}") for one in constants]
    against = (
        "material",
        "held-out shots",
        "log-likelihood",
        "textbook",
        "Wasserstein",
        "textbook",
        "range",
        "textbook",
    )
    return html.page(
        f"Calibration of {found.preset.name} from boards",
        *before,
        html.section("materials", "Materials", html.table(columns, rows_of(found), kinds="-ln---l")),
        html.section("curves", "Recorded and simulated", *figures),
        html.section("boards", "Points taken and left out", *boards, key),
        html.section("held", "Held-out shots", html.table(against, held, kinds="-nnnnn")),
        html.section("constants", "System constant", html.table(("source", "K [m²]", "γ [1/m]"), known)),
        html.section("notes", "Notes", *(html.paragraph(note, "") for note in found.notes)),
        lead=(f"From {recording}. Dots are recorded, lines are simulated with the new sheet.",),
    )


def write_board_report(
    found: BoardCalibration, recording: str, simulated: Mapping[str, MaterialProfile | None], path: str | PathLike[str]
) -> None:
    """Write the report."""
    html.write_page(path, board_page(found, recording, simulated))


# ---- Simulation of boards with the calibrated sensor ----------------------------------------------------------------


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
    """Shots of a sensor at an upright board that faces it, over as many revolutions as give about `shots` of them."""
    world = World(name="board")
    box = shapes.box(THICKNESS_M, width_m, height_m)
    # Materials without a library entry are simulated as a grey board; only their profile affects the result.
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
        revolutions = int(np.clip(np.ceil(shots / aimed), 1, MOST_SHOTS))
        scans = lidar.scan_many(world, [Pose()] * revolutions, seed=seed, frames=list(range(revolutions)))
    seen: BoardShots = joined_shots([of_cloud(scan, material) for scan in scans])
    return shots_at(board, seen)


def _grey(name: str) -> Material:
    from parhelion.surfaces.library import material

    return material("lambert-50").model_copy(update={"name": name})


# ---- Progress page of a calibration: stages, points of each recording, and curves so far ----------------------------


AT_WORK = {
    "read": "reading {}", "board": "finding the board in {}", "profile": "fitting the profile of {}",
    "held-out": "comparing {} with held-out shots", "sheet": "writing the data sheet",
}  # fmt: skip
"""Activity of each kind of stage."""


def board_watch_page(
    found: BoardCalibration,
    recording: str,
    simulated: Mapping[str, MaterialProfile | None] | None = None,
    *,
    finished: bool = False,
) -> str:
    """Page after some stages, as HTML; `simulated` holds the materials already simulated with the new sheet."""
    return board_page(found, recording, simulated or {}, before=[_stages(found, finished)])


def _stages(found: BoardCalibration, finished: bool) -> str:
    states = ["done"] * found.done + ["running"] + ["waiting"] * len(found.stages)
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
    return html.tiles(
        [
            ("stages done", f"{found.done} of {len(found.stages)}"),
            ("boards found", f"{sum(one.board is not None for one in found.recordings)} of {len(recordings)}"),
            ("materials fitted", f"{len(found.materials)} of {len(materials)}"),
            ("shots taken", count(taken)),
            ("shots left out", count(left)),
        ]
    ) + html.section(
        "stages",
        "Stages",
        html.paragraph(_words(found, finished), "lead"),
        "<h3>Recordings</h3>",
        html.table(
            ("material", "recording", "read", "board found", "shots", "taken", "of them lost", "left out"),
            recordings,
            kinds="-l--nnnn",
        ),
        "<h3>Materials</h3>",
        html.table(("material", "profile and gaps", "held-out comparison"), materials),
    )


def _words(found: BoardCalibration, finished: bool) -> str:
    if finished:
        return "All stages are done."
    if found.done == len(found.stages):
        return "The calibration is done; its boards are being simulated with the new sheet."
    stage = found.stages[found.done]
    now = AT_WORK[stage.kind].format(stage.recording or stage.material)
    return f"The calibration is running, and this page is updated. Now: {now}."


def _shots(found: BoardCalibration, number: int) -> tuple[str, str, str, str]:
    """Number of shots of a recording, and how many of them are selected, lost and left out."""
    if number >= len(found.recordings):
        return "", "", "", ""
    one = found.recordings[number]
    if one.board is None:
        return count(one.shots), "", "", ""
    return count(one.shots), count(one.taken), count(one.lost), count(one.shots - one.taken)
