"""Real and simulated lidar: intensity, rings, applied weather, rain by sensor: docs/images/lidar-recorded.png.

KITTI's recordings lie outside the repository (`../shared/data`); where they are absent, the script stops.
"""

from __future__ import annotations

import lzma
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREEN, GREY, ORANGE, finish, sheet

import parhelion as ph
from parhelion.sensors.optics.lidar.recorded_gaps import rings_of

DATA = Path(__file__).resolve().parents[3] / "shared/data"
BANDS = ((3, 5), (5, 8), (8, 12), (12, 16), (16, 22), (22, 30), (30, 45))


def frames(name: str, count: int) -> list[NDArray[np.float32]]:
    """First scans of a KITTI set: x, y, z [m] and intensity from 0 to 1."""
    found = []
    for path in sorted((DATA / name / "lidar").glob("*.dz"))[:count]:
        file = path.read_bytes()
        n, scale = struct.unpack("<4sII", file[:12])[1:]
        data = lzma.decompress(file[12:])
        planes = np.frombuffer(data, np.uint8, 12 * n).reshape(3, 4, n).transpose(0, 2, 1)
        xyz = np.ascontiguousarray(planes).view("<i4")[:, :, 0].astype(np.int64).cumsum(axis=1).T / 1000.0
        found.append(np.c_[xyz, np.frombuffer(data, "<u2", n, 12 * n) / scale].astype(np.float32))
    if not found:
        raise SystemExit(f"{DATA / name}: no recording here")
    return found


def draw_intensity(axes: Any, city: ph.World) -> None:
    """Intensity of the road by range."""
    lidar = ph.Lidar("velodyne/hdl-64e-s2")
    x, y, _ = city.viewpoint.xyz
    scans = [lidar.scan(city, pose=ph.Pose((x + 8 * k, y, 1.73)), seed=k) for k in range(3)]
    simulated = np.concatenate([np.c_[scan.xyz, scan.intensity / 255.0] for scan in scans])
    middle = [0.5 * (low + high) for low, high in BANDS]
    for points, colour, label in (
        (np.concatenate(frames("kitti0005_hdl64_pose", 3)), GREY, "KITTI 0005 (fitted)"),
        (np.concatenate(frames("kitti_cam_lidar_0926", 3)), ORANGE, "KITTI 0926 (another drive)"),
        (simulated, BLUE, "simulated, city"),
    ):
        far = np.linalg.norm(points[:, :3], axis=1)
        road = np.abs(points[:, 2] + 1.73) < 0.18
        rows = [np.percentile(points[road & (far >= low) & (far < high), 3], (25, 50, 75)) for low, high in BANDS]
        low, half, high = np.array(rows).T
        axes.plot(middle, half, "o-", color=colour, markersize=4, label=label)
        axes.fill_between(middle, low, high, color=colour, alpha=0.15)
    axes.set(xlabel="range [m]", ylabel="intensity (0 to 1)", title="HDL-64E S2: road", ylim=(0, 0.5))
    axes.legend(fontsize=7)


def draw_rings(axes: Any) -> None:
    """Elevations of the recorded rings less those of the preset."""
    lidar = ph.Lidar("velodyne/hdl-64e-s2")
    table = lidar.shots()
    own = np.degrees(np.sort(table.elevation[table.column == 0]))
    for name, colour, label in (
        ("kitti0005_hdl64_pose", GREY, "KITTI 0005 (fitted)"),
        ("kitti_cam_lidar_0926", ORANGE, "KITTI 0926 (predicted)"),
    ):
        rings = rings_of(frames(name, 1)[0][:, :3], lidar)
        assert rings is not None
        axes.plot(own, np.degrees(np.sort(rings.elevation)) - own, ".", color=colour, label=label)
    axes.set(xlabel="elevation of the preset [deg]", ylabel="recorded - preset [deg]", title="HDL-64E S2: rings")
    axes.set_ylim(-0.1, 0.1)
    axes.legend(fontsize=7)


def draw_applied(axes: Any, city: ph.World) -> None:
    """Surface points that remain in 25 mm/h: weather applied to a clear scan, and a scan in weather."""
    weather, bands = ph.Weather(rain_rate_mm_h=25), ((5, 15), (15, 30), (30, 50), (50, 120))
    place = np.arange(len(bands))
    for shift, (name, colour) in enumerate((("velodyne/vlp-16", BLUE), ("velodyne/hdl-32e", GREEN))):
        lidar = ph.Lidar(name)
        city.weather = None
        clear = lidar.scan(city, pose=city.viewpoint, seed=1)
        fields = {key: values for key, values in clear.fields.items() if key not in ("power", "reflectivity")}
        recorded = ph.Scan(clear.xyz, fields, clear.frame, clear.names, clear.metadata, shots=clear.shots)
        city.weather = weather
        direct, applied = lidar.scan(city, pose=city.viewpoint, seed=2), weather.apply(recorded, sensor=lidar, seed=3)
        city.weather = None

        def kept(scan: ph.PointCloud, clear: ph.PointCloud = clear) -> list[float]:
            return [
                100.0 * np.sum((scan.origin == 0) & (scan.range >= low) & (scan.range < high))
                / np.sum((clear.range >= low) & (clear.range < high))
                for low, high in bands
            ]  # fmt: skip

        left = place + 0.4 * shift - 0.3
        axes.bar(left, kept(applied), 0.18, color=colour, label=f"{name}, applied")
        axes.bar(left + 0.19, kept(direct), 0.18, color=colour, alpha=0.45, label=f"{name}, direct")
    axes.set_xticks(place, [f"{low}-{high} m" for low, high in bands])
    axes.set(ylabel="surface points kept [%]", title="25 mm/h, intensity only")
    axes.legend(fontsize=7, loc="lower left")


def draw_rain(axes: Any, city: ph.World) -> None:
    """Share of shots that are rain, by sensor."""
    city.weather = ph.Weather(rain_rate_mm_h=25)
    shares = {}
    for name in ph.presets("lidar"):
        scan = ph.Lidar(name).scan(city, pose=city.viewpoint, seed=1)
        shares[name] = max(100.0 * np.sum(scan.origin == 1) / len(scan.shots), 1e-4)
    city.weather = None
    names = sorted(shares, key=lambda name: shares[name])
    axes.barh(range(len(names)), [shares[name] for name in names], color=BLUE)
    axes.axvline(1.5, color=ORANGE, linewidth=1.0)
    axes.set_yticks(range(len(names)), names)
    axes.set_xscale("log")
    axes.set(xlabel="shots [%]; line: largest published", title="Rain at 25 mm/h by sensor")


if __name__ == "__main__":
    world = ph.World.load("city")
    figure, axes = sheet(8.4, 8.6, 2, 2, height_ratios=(1.0, 1.4))
    draw_intensity(axes[0], world)
    draw_rings(axes[1])
    draw_applied(axes[2], world)
    draw_rain(axes[3], world)
    finish(figure, "lidar-recorded")
