"""The picture of docs/models/faults.md: docs/images/faults.webp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import parhelion as ph

IMAGE = Path(__file__).resolve().parents[1] / "images" / "faults.webp"
LIDAR_FAULTS: dict[str, dict[str, Any]] = {
    "channels: {dead: [4, 5, 12]}": {"channels": {"dead": [4, 5, 12]}},
    "packets: {lost: 0.15, columns: 24}": {"packets": {"lost": 0.15, "columns": 24}},
    "blocked: {from_deg: 60, to_deg: 110}": {"blocked": {"from_deg": 60.0, "to_deg": 110.0}},
    "mount: {rpy_deg: [0, 0, 3]}, in red": {"mount": {"rpy_deg": (0.0, 0.0, 3.0)}},
}


def main() -> None:
    """Draw lidar scans from above, a picture, a drive past a jammer, and the bias of a gyroscope."""
    figure, rows = plt.subplots(2, 4, figsize=(14, 7), layout="constrained")
    world = ph.World.load("city", seed=3)
    place = world.viewpoint
    sound = ph.Lidar("velodyne/vlp-16").scan(world, pose=place, seed=1)
    for axes, (title, faults) in zip(rows[0], LIDAR_FAULTS.items(), strict=True):
        scan = ph.Lidar("velodyne/vlp-16").with_faults(faults).scan(world, pose=place, seed=1, frame=1)
        if "mount" in faults:
            axes.scatter(*sound.xyz[:, :2].T, s=0.4, c="0.6", linewidths=0)
        axes.scatter(*scan.xyz[:, :2].T, s=0.4, c="#c0392b" if "mount" in faults else "black", linewidths=0)
        axes.set(xlim=(-25, 25), ylim=(-25, 25), aspect="equal", xlabel="x [m]", title=title)
    rows[0, 0].set_ylabel("y [m]")

    camera = ph.Camera("generic/vga").with_faults(pixels={"dead": 0.002, "hot": 0.002, "columns": 2})
    rows[1, 0].imshow(camera.shoot(world, pose=place, seed=1).colour[140:340, 200:460])
    rows[1, 0].set(title="pixels: {dead: 0.002, hot: 0.002, columns: 2}", xticks=[], yticks=[])

    drive = ph.ConstantTwist(ph.Pose((-400.0, 0.0, 2.0)), velocity=(20.0, 0.0, 0.0))
    jammed = ph.Gnss("u-blox/f9p").with_faults(jamming={"xyz": (0.0, 30.0, 2.0), "power_dbm": -10.0})
    fixes = jammed.run(ph.World(), drive, duration=40.0, seed=1)
    along = fixes.true_position[:, 0]
    rows[1, 1].plot(along, fixes.cn0, color="0.75", lw=0.6)
    rows[1, 1].plot(along, np.where(fixes.mode > 0, 22.0, np.nan), color="#27ae60", lw=4, label="fix")
    rows[1, 1].set(
        xlabel="position along the road [m]", ylabel="C/N0 [dB-Hz]", title="jamming: {xyz: [0, 30, 2], power_dbm: -10}"
    )
    rows[1, 1].legend(loc="lower right")

    attack = {"from_s": 10.0, "velocity_m_s": (0.0, 1.5, 0.0)}
    spoofed = ph.Gnss("u-blox/f9p").with_faults(spoofing=attack).run(ph.World(), drive, duration=40.0, seed=1)
    rows[1, 2].plot(*spoofed.true_position[:, :2].T, "--", color="0.5", label="truth")
    rows[1, 2].plot(*spoofed.position[:, :2].T, color="#c0392b", label="fixes")
    rows[1, 2].set(xlabel="x [m]", ylabel="y [m]", title="spoofing: {velocity_m_s: [0, 1.5, 0]}")
    rows[1, 2].legend(loc="upper left")

    warming = {"ambient_c": 25.0, "rise_c": 20.0, "tau_s": 60.0}
    imu = (
        ph.Imu("bosch/bmi160", noise=False)
        .with_faults(temperature=warming)
        .run(None, ph.Pose(), duration=300.0, seed=1)
    )
    for axis, rate in zip("xyz", np.degrees(imu.angular_rate.T), strict=True):
        rows[1, 3].plot(imu.time, rate, label=axis)
    rows[1, 3].set(xlabel="time [s]", ylabel="angular rate at rest [°/s]", title="temperature: {rise_c: 20, tau_s: 60}")
    rows[1, 3].legend(loc="center right")
    for axes in rows.ravel():
        axes.title.set_fontsize(10)
    figure.savefig("/tmp/faults.png", dpi=100)
    Image.open("/tmp/faults.png").convert("RGB").save(IMAGE, quality=82)


if __name__ == "__main__":
    main()
