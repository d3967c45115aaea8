"""Control of a served scenario from another program.

parhelion serve examples/warehouse.yaml --paused
python examples/control/remote.py
"""

from __future__ import annotations

import sys

import parhelion as ph


def main(url: str = "ws://127.0.0.1:8917", token: str | None = None) -> list[int]:
    """Place a box before the first lidar, step by step farther away; return the number of points on it."""
    counts = []
    with ph.connect(url, token=token) as client:
        client.pause()
        lidar = next(one for one in client.sensors() if one["type"] == "lidar")
        start = client.state(lidar["vehicle"]).pose
        shape, place = {"kind": "box", "size_m": [1, 1, 1]}, start @ ph.Pose((3.0, 0.0, 0.8))
        box = client.spawn("box", shape, pose=place, material="wood", label="target", allow_renaming=True)
        for distance_m in (3.0, 6.0, 12.0):
            client.move(box, start @ ph.Pose((distance_m, 0.0, 0.8)))
            client.step(20)
            cloud = client.latest(lidar["name"])
            number = next(key for key, name in cloud.names["label"].items() if name == "target")
            counts.append(int((cloud.label == number).sum()))
            print(f"{distance_m:g} m: {counts[-1]} points on the box")
        client.remove(box)
    return counts


if __name__ == "__main__":
    main(*sys.argv[1:3])
