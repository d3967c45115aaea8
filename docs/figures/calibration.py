"""Tables and pictures of docs/calibration.md: recordings compared with their presets, boards recorded and simulated.

python docs/figures/calibration.py    # about a minute; drives need the recordings, see docs/figures/recordings.py
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from page import ORANGE, draw_chart, finish, sheet
from recordings import FILES, folder

import parhelion as ph
from parhelion.calibrate.boards.boards import BoardCalibration, calibrate_boards
from parhelion.calibrate.boards.example import write_example
from parhelion.calibrate.boards.report import profile_charts, simulated_profile
from parhelion.calibrate.drive import plots
from parhelion.calibrate.drive.compare import compare_drives
from parhelion.calibrate.drive.drive import DriveCalibration, calibrate_drive
from parhelion.calibrate.drive.report import comparison_charts, drive_rows
from parhelion.calibrate.drive.timing import fit_timing, timing_rows
from parhelion.calibrate.range_images import range_image, read_drive
from parhelion.calibrate.sheet import with_changes

PAGE = Path(__file__).resolve().parents[1] / "calibration.md"
DRIVES = {"os0-32": "ouster/os0-32", "os1-32": "ouster/os1-32", "vlp-16": "velodyne/vlp-16"}
SHOWN = ("slamtec/rplidar-a1", ("plywood", "epoxy")), ("velodyne/vlp-16", ("foam", "bare-metal"))


def write(name: str, content: str) -> None:
    """Put a table between its marks on the page, and show it."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{PAGE}: has no marks for {name!r}")
    PAGE.write_text(f"{before}{begin}\n\n{content}\n\n{end}{after}", encoding="utf-8")
    print(f"{name}\n{content}\n", flush=True)


def table(columns: list[str], rows: list[list[str]]) -> str:
    head = ["| " + " | ".join(columns) + " |", "| " + " | ".join(["---"] * len(columns)) + " |"]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)])


def drives() -> dict[str, DriveCalibration]:
    """Calibrations of all recordings, which must be available."""
    found = {}
    for name, preset in DRIVES.items():
        file = folder() / FILES[name]
        if not file.is_file():
            raise SystemExit(f"the recording {file.name} is not in {file.parent}; the page keeps its earlier figures")
        turns = read_drive(file, sensor=preset)
        found[name] = calibrate_drive(turns, ph.Lidar(preset).config, recording=file.name)
    return found


def drive_figures(found: dict[str, DriveCalibration]) -> None:
    rows = []
    for name, one in found.items():
        for path, before, after, error in drive_rows(one):
            if not path.startswith("pattern.channels") and path not in ("range.overlap", "intensity.resolution"):
                rows.append([name, f"`{path}`", before, after, error])
    write("sheets", table(["recording", "field", "preset", "measured", "95 % interval"], rows))
    noise = []
    for name in ("os0-32", "os1-32"):
        curve = found[name].noise
        assert curve is not None
        cells = [f"{100 * s:.2f} ± {100 * e:.2f}" for s, e in zip(curve.sigma_m, curve.error_m, strict=True)]
        noise.append([name, *cells])
    spans = ["4–8", "8–12", "12–17", "17–25", "25–50", "50–100", "100–200", "> 200"]
    write("noise", table(["range noise [cm] at photons", *spans], noise))
    counted = {name: one for name, one in found.items() if one.overlap is not None}
    charts = {"overlap": plots.overlap_chart, "noise": plots.noise_chart, "dropout": plots.dropout_chart}
    for kind, draw in charts.items():
        figure, panels = sheet(9.0, 3.0, len(counted))
        for axes, (name, one) in zip(panels, counted.items(), strict=True):
            chart = draw(one)
            assert chart is not None
            draw_chart(axes, chart)
            axes.set_title(name)
        finish(figure, f"calibration-{kind}")


def timing_table() -> None:
    """Timing table of the available recordings."""
    rows = []
    for name, preset in {**DRIVES, "os1-128": "ouster/os1-128"}.items():
        pattern = ph.Lidar(preset).config.pattern
        timing = fit_timing(read_drive(folder() / FILES[name], sensor=preset))
        rows += [[name, str(timing.frames), *row] for row in timing_rows(timing, pattern)]
    write("timing", table(["recording", "frames", "timing", "recorded, 95 % interval", "preset"], rows))


def angle_figure() -> None:
    """A unit whose beams are off in elevation, azimuth and range at once, and reports its nominal angles."""
    preset = ph.Lidar("ouster/os0-32").config
    random = np.random.default_rng(3)
    channels = preset.pattern.channels.model_dump()  # type: ignore[union-attr]
    off = {name: random.normal(0.0, 0.06, 32) for name in ("elevation_deg", "azimuth_deg")}
    bias = random.normal(0.0, 0.01, 32)
    true = channels | {name: (np.array(channels[name]) + more).tolist() for name, more in off.items()}
    unit = ph.Lidar(with_changes(preset, {"pattern.channels": true, "noise.channel_bias_m": bias.tolist()}))
    world, nominal = ph.World.load("warehouse"), ph.Lidar(preset).shots()
    x, y, _ = world.viewpoint.xyz
    poses = [ph.Pose((x + 3.0 * k, y, 1.4)) for k in range(6)]
    scans = unit.scan_many(world, poses, seed=4, time=[0.1 * k for k in range(6)])
    shots = [replace(scan.shots, direction=nominal.direction, origin=nominal.origin) for scan in scans]
    turns = [range_image(replace(scan, shots=own)) for scan, own in zip(scans, shots, strict=True)]
    found = calibrate_drive(turns, preset)
    figure, panels = sheet(9.0, 3.0, 2)
    ring = np.arange(32)[::-1]
    for axes, (name, more), draw, angles in zip(
        panels, off.items(), (plots.elevations_chart, plots.azimuths_chart), (found.angles, found.azimuths), strict=True
    ):
        assert angles is not None
        chart = draw(found)
        assert chart is not None
        draw_chart(axes, chart)
        axes.plot(
            ring[angles.resolved], (more - more[angles.resolved].mean())[angles.resolved], "x", color=ORANGE, ms=5
        )
        axes.set_title(name.removesuffix("_deg"))
        print(name, int(angles.resolved.sum()), np.median(angles.step_error[angles.steps_resolved]))
    finish(figure, "calibration-angles")


OTHER_CURVE = [[1.5, 0.05], [2.5, 0.1], [4.0, 0.3], [6.0, 0.6], [8.0, 0.85], [11.0, 1.0]]


def two_recordings() -> None:
    """The same sensor simulated twice, the second time with an overlap curve that rises later."""
    preset = ph.Lidar("ouster/os0-32").config
    world = ph.World.load("city")
    x, y, _ = world.viewpoint.xyz
    recordings = []
    for number, changes in enumerate(({}, {"range.overlap": OTHER_CURVE})):
        poses = [ph.Pose((x + 20.0 * number + 3.0 * k, y, 1.4)) for k in range(4)]
        lidar = ph.Lidar(with_changes(preset, changes))
        scans = lidar.scan_many(world, poses, seed=number, time=[0.1 * k for k in range(4)])
        turns = [range_image(scan, f"turn {k}") for k, scan in enumerate(scans)]
        recordings.append((f"recording {'ab'[number]}", turns))
    found = compare_drives(recordings, preset)
    figure, panels = sheet(9.0, 3.0, 2)
    for axes, (title, chart) in zip(panels, comparison_charts(found).items(), strict=False):
        draw_chart(axes, chart)
        axes.set_title(title)
    finish(figure, "calibration-two")
    print([(one.field, one.in_words(found.names)) for one in found.differing])


def boards(sensor: str) -> BoardCalibration:
    with tempfile.TemporaryDirectory() as place:
        return calibrate_boards(write_example(place, sensor), ph.Lidar(sensor).config)


def board_figures() -> None:
    rows = []
    for sensor, names in SHOWN:
        found = boards(sensor)
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11.0, 5.0), dpi=100, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(names), 4)
        for panels, name in zip(grid, names, strict=True):
            one = next(result for result in found.materials if result.name == name)
            for axes, chart in zip(panels, profile_charts(one.profile, simulated_profile(found, one)), strict=True):
                draw_chart(axes, chart)
            panels[0].set_title(f"{name}, {sensor}", loc="left")
        finish(figure, f"calibration-boards-{sensor.split('/')[1]}")
        for one in found.materials:
            c = one.comparison
            assert c is not None
            model = "–" if one.brdf is None else f"{one.brdf.model}, {100 * one.brdf.error:.1f} %"
            constant = "–" if one.brdf is None else f"{100 * one.brdf.constant_error:.0f} %"
            rows.append([
                sensor.split("/")[1], one.name, f"{c.log_likelihood:.3f}", f"{c.textbook_log_likelihood:.3f}",
                f"{c.wasserstein:.2f}", f"{c.textbook_wasserstein:.2f}", model, constant,
            ])  # fmt: skip
    columns = [
        "sensor",
        "material",
        "log-likelihood",
        "textbook",
        "Wasserstein",
        "textbook",
        "model of gaps",
        "constant",
    ]
    write("held-out", table(columns, rows))


def main() -> None:
    """Create all tables and pictures."""
    board_figures()
    two_recordings()
    angle_figure()
    timing_table()
    drive_figures(drives())


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
