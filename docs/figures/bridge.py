"""Figure of the page on bridges: points of a VLP-16 on a crate that MuJoCo slides down a ramp."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "bridge"))


def main() -> None:
    """Write docs/images/bridge-ramp.png."""
    from mujoco_ramp import watch

    slope, start = np.radians(20.0), np.array([-2.07578, 0.0, 3.02157])
    pull = 9.80665 * (np.sin(slope) - 0.2 * np.cos(slope))
    side, chart = plt.subplots(1, 2, figsize=(10, 3.8))[1]
    times, slid = [], []
    for (_, number, scan), bridge in watch(1.3):
        crate = next(one for one in bridge.world.objects if one.name == "box")
        mine = scan.instance == crate.instance
        xyz = scan.xyz + np.array([5.5, -0.8, 2.2])
        if number == 0:
            near = ~mine & (np.abs(xyz[:, 1]) < 1.6) & (np.abs(xyz[:, 0]) < 4.5)
            side.plot(xyz[near, 0], xyz[near, 2], ".", color="0.7", markersize=2, label="ramp and floor")
        if number in (0, 6, 12):
            at = scan.start_time + float(scan.time[mine].mean())
            side.plot(xyz[mine, 0], xyz[mine, 2], ".", markersize=4, label=f"crate at {at:.2f} s")
        along = (xyz[mine] - start) @ np.array([np.cos(slope), 0.0, -np.sin(slope)])
        front = along > along.max() - 0.06
        times.append(scan.start_time + float(scan.time[mine][front].mean()))
        slid.append(float(along[front].mean()) - 0.25)
    side.set(xlabel="x [m]", ylabel="z [m]", title="Points from the side", aspect="equal")
    side.legend(fontsize=7, loc="upper right")
    clock = np.linspace(0.0, 1.3, 100)
    chart.plot(clock, 0.5 * pull * clock**2, "-", color="C3", label="½ g (sin 20° − 0.2 cos 20°) t²")
    chart.plot(times, slid, "o", color="C0", label="front face by its points")
    chart.set(xlabel="time [s]", ylabel="distance along the ramp [m]", title="Position by the lidar")
    chart.legend(fontsize=8)
    chart.grid(alpha=0.3)
    plt.tight_layout()
    plt.savefig(ROOT / "docs" / "images" / "bridge-ramp.png", dpi=110)


if __name__ == "__main__":
    main()
