"""MuJoCo moves, Parhelion senses: a VLP-16 watches a crate that slides down a ramp.

pip install 'parhelion[physics]' && python examples/bridge/mujoco_ramp.py out/
"""

import sys
from pathlib import Path

import mujoco

import parhelion as ph

MODEL = Path(__file__).with_name("ramp.xml")


def watch(duration_s: float, log: str | None = None):
    """Yield the records of the lidar, with the simulation, while the crate slides."""
    model = mujoco.MjModel.from_xml_path(str(MODEL))
    data = mujoco.MjData(model)
    bridge = ph.Bridge(ph.World("ramp"), seed=7, log=log)
    scene = bridge.add_mjcf(model, materials={"crate": "cardboard", "ramp": "plywood"})
    bridge.attach(ph.Lidar("velodyne/vlp-16", name="lidar"), mount=ph.Pose(xyz=(5.5, -0.8, 2.2)))
    with bridge:
        bridge.push(0.0, scene.poses(data))
        while data.time < duration_s - 1e-9:
            mujoco.mj_step(model, data)
            for found in bridge.step(data.time, scene.poses(data)):
                yield found, bridge


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    out.mkdir(parents=True, exist_ok=True)
    for (sensor, number, scan), _ in watch(1.2, str(out / "poses.jsonl")):
        scan.save(out / f"{sensor}-{number:03d}.pcd")
        print(scan)
