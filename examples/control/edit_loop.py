"""A loop that edits its world: rain sets in, a crate falls off a truck, the lidar is raised, and a camera is added.

    python examples/control/edit_loop.py events.jsonl       # then: parhelion run ... --events events.jsonl

Each edit takes effect from the next step on. With a log, the run can be repeated with the same result.
"""

from __future__ import annotations

import sys

import parhelion as ph

SCENARIO = {
    "name": "edits",
    "seed": 7,
    "duration_s": 1.0,
    "world": "cuboids",
    "vehicles": [{"name": "robot", "model": "clearpath/husky"}],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot", "mount": {"xyz": [0, 0, 0.8]}}
    ],
}


def main(log: str | None = None) -> list[tuple[float, int, int]]:
    """Run the loop; return time [s], number of points and number of raindrops of each scan."""
    found = []
    crate = None
    for step in ph.Scenario.from_mapping(SCENARIO).walk(events=log):
        for _, scan in step.scans.get("top", []):
            drops = int((scan.origin == 1).sum())
            found.append((step.time, len(scan), drops))
            print(f"{step.time:.1f} s: {len(scan)} points, {drops} of raindrops")
        if step.number == 20:
            step.world.weather = ph.Weather(rain_rate_mm_h=50)
        if step.number == 40:
            crate = step.world.add(
                ph.shapes.box(1, 1, 1), material="wood", label="crate", pose=ph.Pose((4, 0, 0.5), rpy_deg=(0, 0, 30))
            )
            step.command("robot", ph.DriveCommand(0.8, yaw_rate_rad_s=0.2))
        if step.number == 60:
            step.mount("top", ph.Pose((0, 0, 1.6)))
            step.attach({"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot"})
        if step.number == 80 and crate is not None:
            step.world.remove(crate)
            step.world.weather = None
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2])
