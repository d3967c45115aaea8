"""Lidar recordings and presets: docs/images/recordings-lidar.png, recordings-os0.png and recordings-2d.png.

The recordings lie outside the repository (`../shared/data`). The tables of docs/recordings.md are printed.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, finish, sheet

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import lidar_recorded_rigs as rig
import odometry_rigs as wheels
import parhelion as ph

LEVELS = (0, 1, 4, 8, 16, 32, 64, 110)
NOISE_EDGES = (0.3, 1, 2, 4, 8, 15, 30)


def row(name: str, one: rig.Measures) -> None:
    """Print one row of the table of measures."""
    counts = " / ".join(f"{value:.3g}" for value in one.intensity)
    print(
        f"| {name} | {one.nearest_m:.2f} to {one.farthest_m:.0f} | {1000 * one.sigma_m:.1f} | {100 * one.lost:.2f} | "
        f"{100 * one.mixed:.1f} | {counts} | {one.rank_change:.3f} |",
        flush=True,
    )


def draw_repeated(axes: Any) -> None:
    """Scatter of a standing XT32 over four revolutions."""
    recorded, simulated = rig.hesai("hesai_xt32").frames, rig.in_office("hesai/xt32")
    middle = np.sqrt(np.maximum(LEVELS[:-1], 0.5) * np.array(LEVELS[1:]))
    for frames, colour, label in ((recorded, GREY, "recorded"), (simulated, BLUE, "simulated")):
        sigma, relative, count = rig.repeated(frames, LEVELS)
        print(label, "XT32 [mm]", (1000 * sigma).round(1), relative.round(3), count, rig.flicker(frames))
        axes.plot(middle, 1000 * sigma, "o-", color=colour, markersize=4, label=label)
        row(f"XT32, {label}", rig.measures(rig.joined(frames)))
    axes.axhline(5.0, color=ORANGE, linewidth=1.0, label="data sheet")
    axes.set(xscale="log", xlabel="intensity", ylabel="range noise [mm]", title="XT32, four revolutions", ylim=(0, 11))
    axes.legend(fontsize=7)


def draw_scatter(axes: Any) -> None:
    """Range noise on flat surfaces, recorded and simulated, by sensor."""
    pairs: list[tuple[str, list[rig.Measures], rig.Measures]] = []

    def add(name: str, recorded: list[Any], simulated: Any) -> None:
        found = [rig.measures(frame) for frame in recorded]
        for k, one in enumerate(found):
            row(f"{name}, recorded {k + 1}", one)
        ours = rig.measures(simulated)
        row(f"{name}, simulated", ours)
        pairs.append((name, found, ours))

    add("XT32", [rig.joined(rig.hesai("hesai_xt32").frames)], rig.joined(rig.in_office("hesai/xt32", 2)))
    vlp = rig.velodyne("velodyne_vlp32", "velodyne/vlp-32c", 1)
    add("VLP-32C", [rig.joined(vlp.frames)], rig.joined(rig.in_office("velodyne/vlp-32c", 2)))
    places = [rig.pjlab(place) for place in rig.PLACES]
    add("Pandar64", places, rig.drive(ph.Lidar("hesai/pandar64"), 3))
    add("HDL-64E S2", [rig.kitti(rig.KITTI), rig.kitti(rig.KITTI_OTHER)],
        rig.drive(ph.Lidar("velodyne/hdl-64e-s2"), 3, 1.73))  # fmt: skip
    vls = rig.velodyne("velodyne_vls128", "velodyne/vls-128", 4)
    add("VLS-128", [rig.joined(vls.frames)], rig.drive(ph.Lidar("velodyne/vls-128"), 3))
    for name in ("hesai_pandar40p", "hesai_qt64"):
        row(name, rig.measures(rig.joined(rig.hesai(name).frames)))
    for k, (_, found, ours) in enumerate(pairs):
        axes.plot([k - 0.1] * len(found), [1000 * one.sigma_m for one in found], "o", color=GREY,
                  label="recorded" if k == 0 else None)  # fmt: skip
        axes.plot(k + 0.1, 1000 * ours.sigma_m, "s", color=BLUE, label="simulated" if k == 0 else None)
    axes.set_xticks(range(len(pairs)), [name for name, *_ in pairs], fontsize=7)
    axes.set(ylabel="range noise [mm]", title="Flattest fifth of the surfaces", ylim=(0, 13))
    axes.legend(fontsize=7)


def draw_intensity(axes: Any) -> None:
    """Distribution of intensity of the Pandar64."""
    for k, place in enumerate(rig.PLACES):
        frame = rig.pjlab(place)
        axes.plot(np.sort(frame.signal[frame.returned]), np.linspace(0, 1, int(frame.returned.sum())),
                  color=GREY if k < 2 else ORANGE, linewidth=1.2, linestyle="-" if k % 2 == 0 else "--",
                  label=f"{place}, {'fitted' if k < 2 else 'predicted'}")  # fmt: skip
    frame = rig.drive(ph.Lidar("hesai/pandar64"), 3)
    axes.plot(np.sort(frame.signal[frame.returned]), np.linspace(0, 1, int(frame.returned.sum())), color=BLUE,
              label="simulated, city")  # fmt: skip
    axes.set(xlabel="intensity", ylabel="share of the points below", title="Pandar64, four places", xlim=(0, 255))
    axes.legend(fontsize=7)


def draw_dual(axes: Any) -> None:
    """Distance between the two returns of a shot."""
    for name, colour in (("hesai_pandar40p", GREY), ("hesai_xt32", BLUE), ("hesai_qt64", GREEN)):
        found = rig.hesai(name)
        apart = np.concatenate([
            np.abs(second - frame.range)[np.isfinite(second - frame.range)]
            for second, frame in zip(found.second, found.frames, strict=True)
        ])  # fmt: skip
        share = 100.0 * len(apart) / sum(int(frame.returned.sum()) for frame in found.frames)
        print(name, f"{share:.1f} % have a second return, 1 % below {np.quantile(apart, 0.01):.2f} m")
        label = f"{name.split('_')[1]}, {share:.1f} % of the shots"
        axes.hist(apart, np.arange(0, 6, 0.1), histtype="step", color=colour, density=True, label=label)
    for preset, style in (("hesai/xt32", "--"), ("hesai/pandar64", ":")):
        metres = ph.Lidar(preset).config.receiver.merge_distance_m
        axes.axvline(metres, color=ORANGE, linewidth=1.0, linestyle=style, label=f"merge distance, {preset}")
    axes.set(xlabel="distance of the two returns [m]", ylabel="density [1/m]", title="Dual returns in one room")
    axes.legend(fontsize=7)


def draw_os0_noise(axes: Any, recorded: rig.Surfaces, simulated: rig.Surfaces) -> None:
    """Range noise of the hand-held OS0 by photons."""
    middle = np.sqrt(np.array(rig.PHOTON_EDGES[:-1]) * np.array(rig.PHOTON_EDGES[1:]))
    for part, colour, label in ((recorded, GREY, "recorded"), (simulated, BLUE, "simulated, warehouse")):
        sigma = part.sigma_m(part.photons, rig.PHOTON_EDGES)
        print("OS0", label, (1000 * sigma).round(1))
        axes.plot(middle, 1000 * sigma, "o-", color=colour, markersize=4, label=label)
    axes.set(xscale="log", xlabel="photons", ylabel="range noise [mm]", title="OS0-64, flattest fifth", ylim=(0, 12))
    axes.legend(fontsize=7)


def draw_os0_signal(axes: Any, recorded: rig.Surfaces, lidar: ph.Lidar) -> None:
    """Apparent reflectance by range: the brightest surfaces should not depend on it."""
    edges = (2, 3, 4, 5, 7, 10, 15, 20, 30)
    share = recorded.strength(lidar)
    flat = recorded.flat & (recorded.cosine > 0.7)
    rows = []
    for low, high in pairwise(edges):
        mask = flat & (recorded.range >= low) & (recorded.range < high)
        rows.append([np.sqrt(low * high), *np.percentile(share[mask], (50, 75, 95)), mask.sum()])
        print(f"OS0 {low}-{high} m: {np.round(rows[-1][1:4], 3)}, {mask.sum()} points")
    middle, *levels, _ = np.array(rows).T
    for level, colour, label in zip(levels, (GREY, GREEN, BLUE), ("50 %", "75 %", "95 %"), strict=True):
        axes.plot(middle, level, "o-", color=colour, markersize=4, label=f"{label} of the points")
    axes.set(xscale="log", xlabel="range [m]", ylabel="photons R² / (K ξ cos θ)", ylim=(0, 0.6),
             title="Recorded signal over the preset's")  # fmt: skip
    axes.set_xticks([2, 3, 5, 10, 20], ["2", "3", "5", "10", "20"])
    axes.set_xticks([], minor=True)
    axes.legend(fontsize=7)


def draw_os0_registered(axes: Any, lidar: ph.Lidar) -> None:
    """Residuals between frames by their distance, recorded and simulated with exact poses."""
    poses, first = rig.hilti_poses(), rig.hilti(40)[:, :3]
    found = []
    for number in (41, 42, 45, 50, 55, 59):
        rest = np.abs(rig.registered(first, rig.hilti(number)[:, :3], (poses[40], poses[number])))
        apart = float(np.linalg.norm(poses[number, :3, 3] - poses[40, :3, 3]))
        found.append((apart, *np.percentile(1000.0 * rest, (50, 90))))
    world = ph.World.load("warehouse")
    at = [ph.Pose((0.0, 0.0, 1.5)), ph.Pose((0.6, 0.3, 1.5)), ph.Pose((2.0, 1.0, 1.5)), ph.Pose((4.5, 1.0, 1.5))]
    clouds = [scan.xyz.astype(np.float64) for scan in lidar.scan_many(world, at, seed=1)]
    made = []
    for cloud, pose in zip(clouds[1:], at[1:], strict=True):
        rest = np.abs(rig.registered(clouds[0], cloud, (at[0].matrix, pose.matrix)))
        apart = float(np.linalg.norm(pose.matrix[:3, 3] - at[0].matrix[:3, 3]))
        made.append((apart, *np.percentile(1000.0 * rest, (50, 90))))
    for values, colour, label in ((found, GREY, "recorded"), (made, BLUE, "simulated, exact poses")):
        print("registered", label, np.round(values, 1).tolist())
        apart, half, most = np.array(values).T
        axes.plot(apart, half, "o-", color=colour, markersize=4, label=f"{label}, median")
        axes.plot(apart, most, "o--", color=colour, markersize=4, label=f"{label}, 90 %")
    axes.set(xlabel="distance between frames [m]", ylabel="distance to plane [mm]", title="OS0-64, registered frames",
             ylim=(0, 85))  # fmt: skip
    axes.legend(fontsize=7)


def draw_os0() -> None:
    """Hand-held OS0-64."""
    lidar = ph.Lidar("ouster/os0-64", columns=2048)
    clouds = np.concatenate([rig.hilti(number) for number in (40,)])
    parts = [rig.surfaces(cloud[:, :3], cloud[:, 3]) for cloud in map(rig.hilti, (40, 46, 52, 58))]
    recorded = rig.Surfaces(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))
    print("OS0 range", np.percentile(np.linalg.norm(clouds[:, :3], axis=1), (0.1, 50, 100)).round(2))
    world = ph.World.load("warehouse")
    scan = lidar.scan(world, pose=world.viewpoint, seed=1)
    simulated = rig.surfaces(scan.xyz.astype(np.float64), scan.intensity.astype(np.float64))
    figure, axes = sheet(9.2, 3.5, 3)
    draw_os0_noise(axes[0], recorded, simulated)
    draw_os0_signal(axes[1], recorded, lidar)
    draw_os0_registered(axes[2], lidar)
    finish(figure, "recordings-os0")


def draw_2d() -> None:
    """2D scanner drives: noise of the standing robot, no-return share, and wheel errors."""
    figure, axes = sheet(9.2, 3.5, 3)
    drives = [wheels.read_drive(name) for name in wheels.DRIVES]
    middle = np.sqrt(np.array(NOISE_EDGES[:-1]) * np.array(NOISE_EDGES[1:]))
    recorded = []
    for drive, colour in zip(drives, (GREY, GREEN, ORANGE, "tab:purple"), strict=True):
        sigma, _ = wheels.static_noise(drive, NOISE_EDGES)
        axes[0].plot(middle, 1000 * sigma, "o-", color=colour, markersize=4, label=drive.name)
        there = drive.ranges < drive.no_return_m - 0.05
        print(drive.name, (1000 * sigma).round(1), f"lost {100 * (1 - there.mean()):.1f} %, farthest "
              f"{drive.ranges[there].max():.1f} m, nearest {drive.ranges.min():.2f} m")  # fmt: skip
        recorded.append(wheels.wheel_errors(*wheels.matched_steps(drive)))
        print(drive.name, recorded[-1])
    lms = ph.Lidar("sick/lms-111").config.noise.range_sigma_m
    axes[0].axhline(1000 * lms, color=BLUE, label="preset sick/lms-111")
    axes[0].set(xscale="log", xlabel="range [m]", ylabel="range noise [mm]", title="Standing robot", ylim=(0, 28))
    axes[0].set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axes[0].legend(fontsize=7)
    simulated = [wheels.simulated_errors(drives[1], "pioneer/p3-dx", seed) for seed in range(1, 9)]
    for name in ("forward", "forward_spread", "turn", "drift_deg_m", "drift_spread_deg"):
        ours = np.array([getattr(one, name) for one in simulated])
        print("p3-dx", name, ours.round(4), f"rms {np.sqrt(np.mean(ours**2)):.4f}")
    for group, colour, label, shift in (
        (recorded, GREY, "recorded robots", -0.1),
        (simulated, BLUE, "p3-dx, 8 seeds", 0.1),
    ):
        values = np.array([[100 * one.forward, 100 * one.turn, one.drift_deg_m] for one in group])
        for k in range(3):
            axes[1].plot(np.full(len(group), k + shift), values[:, k], "o", color=colour, markersize=4,
                         label=label if k == 0 else None)  # fmt: skip
    axes[1].set_xticks(range(3), ["distance [%]", "rotation [%]", "drift [deg/m]"])
    axes[1].set(ylabel="true minus reported", title="Constant errors of the wheels")
    axes[1].legend(fontsize=7)
    draw_map(axes[2], drives[1])
    finish(figure, "recordings-2d")


def draw_map(axes: Any, drive: wheels.Drive) -> None:
    """Scans of the first minutes, placed by odometry and by matched steps."""
    at = wheels.keys(drive.odometry)[:80]
    pose, placed = drive.odometry[at[0]], [drive.odometry[at[0]]]
    for a, b in pairwise(at):
        guess = wheels.relative(drive.odometry[a], drive.odometry[b])
        step = wheels.matched(drive.ranges[a], drive.ranges[b], guess)
        dx, dy, turn = guess if step is None else step
        c, s = np.cos(pose[2]), np.sin(pose[2])
        pose = np.array([pose[0] + c * dx - s * dy, pose[1] + s * dx + c * dy, pose[2] + turn])
        placed.append(pose)
    for poses, colour, label in ((drive.odometry[at], ORANGE, "odometry"), (np.array(placed), GREY, "matched")):
        points = []
        for index, (x, y, turn) in zip(at, poses, strict=True):
            xy, there = wheels.points_of_scan(drive.ranges[index])
            c, s = np.cos(turn), np.sin(turn)
            points.append(xy[there] @ np.array([[c, s], [-s, c]]) + [x, y])
        axes.plot(*np.concatenate(points).T, ",", color=colour, alpha=0.6)
        axes.plot([], [], "s", color=colour, label=label)
    axes.set(aspect="equal", xlabel="x [m]", ylabel="y [m]", title=f"{drive.name}, first 80 steps")
    axes.legend(fontsize=7)


if __name__ == "__main__":
    draw_os0()
    draw_2d()
    sheets, panels = sheet(8.4, 7.0, 2, 2)
    draw_repeated(panels[0])
    draw_scatter(panels[1])
    draw_intensity(panels[2])
    draw_dual(panels[3])
    finish(sheets, "recordings-lidar")
