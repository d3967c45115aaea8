"""Memory stays flat: over batches, from the first call on, and over edits of a world."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import parhelion as ph
from parhelion.sensors.check import same_bits
from parhelion.sensors.optics.lidar.device import _SLOTS_PER_LAUNCH, Launch, LidarOnDevice
from rigs import add_wall, sheet, wall

PEAK = """
import resource, sys, parhelion as ph
lidar, world = ph.Lidar("velodyne/vlp-16"), ph.World()
world.add(ph.shapes.plane(50, 50), material="lambert-50", label="road", pose=ph.Pose((0, 0, -2)))
if sys.argv[1] == "used":
    lidar.scan(world, pose=ph.Pose())
scans = lidar.scan_many(world, [ph.Pose((0.01 * k, 0, 0)) for k in range(120)])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_kb(lidar: str) -> int:
    done = subprocess.run([sys.executable, "-c", PEAK, lidar], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
def test_the_first_call_takes_no_more_memory_than_later_ones() -> None:
    assert peak_kb("new") < 1.2 * peak_kb("used")


@pytest.mark.parametrize("model", ["velodyne/vlp-16", "livox/mid-360"])
def test_launches_are_of_one_size_from_the_first_call_on(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[int] = []
    scan = LidarOnDevice.scan

    def counted(self: LidarOnDevice, launch: Launch, metadata: list[dict[str, Any]]) -> Any:
        launches.append(len(launch.motions) * len(launch.table) * self.sub_rays.count)
        return scan(self, launch, metadata)

    monkeypatch.setattr(LidarOnDevice, "scan", counted)
    lidar, world = ph.Lidar(model), wall(10.0)
    poses = [ph.Pose((0.1 * k, 0, 0)) for k in range(40)]
    assert len(lidar.scan_many(world, poses)) == 40
    of_first = list(launches)
    launches.clear()
    lidar.scan_many(world, poses)
    assert of_first == launches
    assert len(of_first) > 1
    assert max(of_first) <= _SLOTS_PER_LAUNCH[lidar._on_device.engine.device]  # type: ignore[union-attr]


def test_a_world_edited_often_scans_as_a_new_one() -> None:
    edited, new = wall(20.0), wall(20.0)
    for k in range(30):
        add_wall(edited, 5.0 + k, ("steel", "retro-reflector", "glass")[k % 3] if k % 2 else "lambert-50")
        edited.remove(edited.objects[-1])
    lidar = ph.Lidar(sheet(noise={"range_sigma_m": 0.02}))
    assert len(edited.parts) == 1
    assert same_bits(lidar.scan(edited, pose=ph.Pose(), seed=3), lidar.scan(new, pose=ph.Pose(), seed=3))
