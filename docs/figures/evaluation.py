"""Pictures and tables of docs/evaluation.md.

python docs/figures/evaluation.py rain
python docs/figures/evaluation.py objects
python docs/figures/evaluation.py baselines
python docs/figures/evaluation.py slam results.json     # what `parhelion evaluate slam` wrote
python docs/figures/evaluation.py causes rain=25 kiss-icp [seed]     # what of a weather changes the drift
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from page import BLUE, GREEN, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.evaluate.clouds import (
    Boxes,
    chamfer,
    cut_out,
    earth_mover,
    geometric,
    objects_in,
    random_drop,
    rates,
)
from parhelion.evaluate.clouds.objects import by_distance, largest_boxes
from parhelion.evaluate.slam.drives import ScenarioDrive, as_poses
from parhelion.evaluate.slam.odometry import Setup, method_maker
from parhelion.evaluate.slam.study import RunResult, error_curve, scored, weather_fields, with_interval
from parhelion.motion.actors.vehicles import add_car

RATES_MM_H = (0.0, 5.0, 10.0, 25.0, 50.0, 100.0)
SCANS = 8
VISIBILITIES_M = (None, 3000.0, 750.0, 300.0)
CLASSES_M = (0.0, 35.0, 70.0, 120.0)
LOOP = Path(__file__).resolve().parents[2] / "examples" / "city-loop.yaml"
HERE = ph.Pose(xyz=(0, -1.75, 1.9))


def rain() -> None:
    """Arce's measures of a VLP-16 that stands in the city, against the rate of rain."""
    world, lidar = ph.World.load("city"), ph.Lidar("velodyne/vlp-16")
    area = rates.scan_area(360.0, 30.0, 100.0)
    rows = []
    for rate in RATES_MM_H:
        world.weather = ph.Weather(rain_rate_mm_h=rate) if rate else None
        scans = [lidar.scan(world, pose=HERE, time=0.1 * k, seed=k) for k in range(SCANS)]
        if not rate:
            dry = scans
        found = [rates.detections(scan) for scan in scans]
        errors = [rates.range_error(*(rates.paired_ranges(a, b) or ())) for a, b in zip(dry, scans, strict=True)]
        signals = [(np.asarray(scan.shot, np.int64), np.asarray(scan.power, np.float64)) for scan in scans]
        first = [np.unique(shot, return_index=True) for shot, _ in signals]
        kept = [(shot, power[row]) for (shot, row), (_, power) in zip(first, signals, strict=True)]
        rows.append(
            (
                rate,
                np.mean([one.detection_rate_percent for one in found]),
                np.mean([one.false_detection_rate_percent for one in found]),
                np.mean(errors),
                rates.snr_of_shots(kept)[0],
                np.mean([rates.density(one.correct, area) for one in found]),
            )
        )
        print("| " + " | ".join(f"{value:.4g}" for value in rows[-1]) + " |", flush=True)
    table = np.array(rows)
    figure, panels = sheet(11, 2.9, 4)
    titles = ("detection rate [%]", "false detection rate [%]", "SNR of shots [dB]", "density [points/m²]")
    for axes, column, title, colour in zip(panels, (1, 2, 4, 5), titles, (BLUE, RED, GREEN, ORANGE), strict=True):
        axes.plot(table[:, 0], table[:, column], "o-", color=colour, markersize=4)
        axes.set(title=title, xlabel="rain rate [mm/h]")
    finish(figure, "evaluation-rain")


def objects() -> None:
    """Huang's tables: cars by distance in clear air, and density by visibility."""
    world, lidar = ph.World.load("city"), ph.Lidar("ouster/os1-128")
    places = [ph.Pose(xyz=(x, -1.75, 1.9)) for x in range(-60, 80, 20)]
    seen = {}
    for visibility in VISIBILITIES_M:
        world.weather = ph.Weather(visibility_m=visibility) if visibility else None
        seen[visibility] = [
            objects_in(lidar.scan(world, pose=place, seed=k), ["car"]) for k, place in enumerate(places)
        ]
    whole = largest_boxes(*(one for group in seen.values() for one in group))
    for visibility, groups in seen.items():
        everything = [one for group in groups for one in group]
        for row in by_distance(everything, CLASSES_M, whole):
            print(
                f"| {visibility or 'clear'} | {row.from_m:g}–{row.to_m:g} m | {row.objects} | {row.count:.0f} | "
                f"{row.volume_m3:.2f} | {row.truncation_percent:.0f} | {row.density_m3:.1f} |"
            )
    for low, high in ((35.0, 70.0), (70.0, 120.0)):
        # The same cars in the same places as in clear air: points over the volume that they have there.
        for visibility in VISIBILITIES_M[1:]:
            clear, foggy, left = 0.0, 0.0, 0.0
            for before, after in zip(seen[None], seen[visibility], strict=True):
                now = {one.instance: one.count for one in after}
                for one in before:
                    if low <= one.distance_m < high:
                        clear += one.density_m3
                        left += one.density_m3 * (one.instance in now)
                        foggy += one.density_m3 * now.get(one.instance, 0) / one.count
            seen_only = f"{rates.sparsity_percent(left, foggy):.1f} %" if left else "none"
            sparsity = rates.sparsity_percent(clear, foggy)
            print(f"{low:g}–{high:g} m, {visibility:g} m: {sparsity:.1f} %, of cars still seen {seen_only}")


def baselines() -> None:
    """Huang's Table IV: one car ahead by distance, by pure geometry, geometry with random drops, and all physics."""
    lidar, height = ph.Lidar("ouster/os1-128"), 1.9
    rows = {}
    for place in (20.0, 37.5, 52.5):
        world = ph.World()
        world.add(ph.shapes.plane(200, 200), material="asphalt", label="road")
        add_car(world, ph.Pose(xyz=(place, 0.0, 0.0), rpy_deg=(0.0, 0.0, 30.0)))
        world.weather = ph.Weather(visibility_m=1500.0)
        sensor = ph.Pose(xyz=(0.0, 0.0, height))
        box = Boxes(("Car",), np.array([[place, 0.0, 0.75 - height]]), np.array([[4.8, 2.0, 1.5]]), np.radians([30.0]))
        full, real = geometric(world, lidar, sensor), lidar.scan(world, pose=sensor, seed=1)
        second = lidar.scan(world, pose=sensor, seed=2)
        own, whole = (cut_out(cloud, box, 5) for cloud in (real, full))
        share = 1.0 - len(own[0].points) / len(whole[0].points) if own else 0.5
        for name, cloud in (
            ("geometric", full),
            ("random-drop", random_drop(full, max(share, 0.0), 1)),
            ("all physics, another seed", second),
        ):
            rows[place, name] = (cut_out(cloud, box, 5), own)
    for (place, name), (made, own) in rows.items():
        a, b = made[0], own[0]
        print(
            f"| {place:g} m | {name} | {len(a.points)} / {len(b.points)} | {a.volume_m3:.2f} / {b.volume_m3:.2f} | "
            f"{100 * chamfer(a.points, b.points):.1f} | {100 * earth_mover(a.points, b.points).mean_m:.1f} |",
            flush=True,
        )


def slam(results: Path) -> None:
    """Error of odometry along the way, and drift by weather."""
    content = json.loads(results.read_text(encoding="utf-8"))
    runs = [RunResult(**run) for run in content["runs"]]
    colours = (BLUE, GREEN, ORANGE, RED)
    figure, panels = sheet(10, 3.4, 2, width_ratios=(2, 1))
    for k, row in enumerate(content["summary"]):
        curve = error_curve(row["weather"], [run for run in runs if run.weather == row["weather"]], 0)
        panels[0].fill_between(curve.x, curve.low, curve.high, color=colours[k], alpha=0.18, linewidth=0)
        panels[0].plot(curve.x, curve.mean, color=colours[k], label=row["weather"])
        drift = row["drift_percent"]
        low, high = (drift["low"] or drift["mean"], drift["high"] or drift["mean"])
        panels[1].errorbar(
            [k], [drift["mean"]], [[drift["mean"] - low], [high - drift["mean"]]], fmt="o", color=colours[k], capsize=5
        )
        means = [with_interval(row[key]) for key in ("drift_percent", "ate_m", "end_drift_percent")]
        print(f"| {row['weather']} | {row['runs']} | {row['points']:.0f} | {' | '.join(means)} |")
    panels[0].legend(fontsize=8, frameon=False)
    panels[0].set(title="error along the loop: mean and range over the seeds", xlabel="way [m]", ylabel="[m]")
    names = [row["weather"] for row in content["summary"]]
    panels[1].set(title="KITTI drift, 95 % intervals", ylabel="[%]", ylim=(0, None), xlim=(-0.5, len(names) - 0.5))
    panels[1].set_xticks(range(len(names)), names)
    finish(figure, "evaluation-slam")


def causes(weather: str, method: str, seed: int = 0) -> None:
    """Drift around the block in clear air and in a weather, and with one part of the weather's doing at a time.

    Both drives have the same noise, so a shot that returns in both is the same shot.
    """
    clear = ScenarioDrive(LOOP, weather={}, seed=seed)
    wet = ScenarioDrive(LOOP, weather=weather_fields(weather), seed=seed)
    make, setup = method_maker(method), Setup(clear.setup.period_s, threads=1)
    ways = ("clear", f"clear, shots that return in {weather}", f"{weather}, points on surfaces", weather)
    methods = {way: make(setup) for way in ways}
    poses: dict[str, list[ph.Pose]] = {way: [] for way in ways}
    starts = []
    for dry, other in zip(clear.frames(), wet.frames(), strict=True):
        starts.append(dry.time)
        kept = np.isin(dry.scan.fields["shot"], other.scan.fields["shot"])
        surface = np.asarray(other.scan.fields["origin"]) == 0
        clouds = (dry.scan, _only(dry.scan, kept), _only(other.scan, surface), other.scan)
        for way, cloud in zip(ways, clouds, strict=True):
            poses[way].append(methods[way].register(cloud, None))
    for way, found in poses.items():
        later = setup.period_s * float(getattr(methods[way], "pose_at", 0.0))
        run = scored(as_poses([start + later for start in starts], found), clear.truth(), method, way, seed)
        print(f"| {way} | {run.drift_percent:.3f} | {run.ate_m:.3f} | {run.rpe_m:.3f} |", flush=True)


def _only(cloud: ph.PointCloud, kept: np.ndarray) -> ph.PointCloud:
    return ph.PointCloud(cloud.xyz[kept], {"time": cloud.fields["time"][kept]})


if __name__ == "__main__":
    if sys.argv[1:2] == ["slam"]:
        slam(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["causes"]:
        causes(*sys.argv[2:4], *(int(word) for word in sys.argv[4:5]))
    else:
        {"rain": rain, "objects": objects, "baselines": baselines}[sys.argv[1]]()
