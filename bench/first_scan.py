"""Import the package, load a world, scan, and print the time of each step as JSON.

python bench/first_scan.py city ouster/os1-128 1
"""

from __future__ import annotations

import json
import sys
import time


def main(world_name: str, sensor: str, scans: int) -> None:
    """Measure this process. Times are those of the system's monotonic clock [s], which the parent process reads too."""
    start = time.perf_counter()
    import parhelion as ph

    imported = time.perf_counter()
    world = ph.World.load(world_name)
    loaded = time.perf_counter()
    lidar = ph.Lidar(sensor)
    for frame in range(scans):
        lidar.scan(world, seed=frame)
    scanned = time.perf_counter()

    from machine import memory_bytes

    marks = {"start": start, "imported": imported, "loaded": loaded, "scanned": scanned}
    print(json.dumps({**marks, "peak_bytes": memory_bytes("VmHWM")}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
