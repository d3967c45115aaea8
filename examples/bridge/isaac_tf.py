"""Isaac Sim moves, Parhelion senses: /tf of its ROS 2 bridge in, a VLP-16 cloud out, over DDS without ROS.

In Isaac Sim: the graph node ROS2 Publish Transform Tree, with the robots as targets and the world as parent.
Here:
    python examples/bridge/isaac_tf.py warehouse world base_link crate 0
The names after the world frame are child frames; the first one carries the lidar. The last word is the domain.
"""

import sys
import time

import parhelion as ph
from parhelion.io.ros.clouds import POINT_CLOUD, point_cloud2
from parhelion.io.ros.types import Message, decode, nanoseconds
from parhelion.live.dds import DdsNode, Quality

TF = "tf2_msgs/msg/TFMessage"


def serve(world: str, root: str, frames: list[str], domain: int = 0, seconds: float = 3600.0) -> None:
    """Publish the clouds of a lidar on the first of the frames."""
    bridge = ph.Bridge(world, seed=7)
    for frame in frames:
        bridge.add_body(frame, ph.shapes.box(1.0, 0.7, 0.4), material="plastic")
    bridge.attach(ph.Lidar("velodyne/vlp-16", name="lidar"), frames[0], mount=ph.Pose(xyz=(0, 0, 0.5)))
    with DdsNode(domain, reliable=True) as node:
        transforms = node.subscribe("/tf", TF, Quality(reliable=True, depth=1000))
        node.advertise("/point_cloud", POINT_CLOUD)
        print("ready", flush=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for data in transforms.take():
                found = [one for one in decode(TF, data).transforms if one.header.frame_id == root]
                found = [one for one in found if one.child_frame_id in frames]
                stamps = {nanoseconds(one.header.stamp) * 1e-9 for one in found}
                if len(stamps) != 1 or max(stamps) <= bridge.time:
                    continue  # other frames, or a paused simulation
                poses = {}
                for one in found:
                    p, q = one.transform.translation, one.transform.rotation
                    poses[one.child_frame_id] = ((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))
                for _, _, scan in bridge.step(stamps.pop(), poses):
                    cloud = point_cloud2(scan, frames[0], round(scan.start_time * 1e9), "all")
                    node.publish(Message("/point_cloud", POINT_CLOUD, round(scan.start_time * 1e9), cloud))
            time.sleep(0.001)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3:-1], int(sys.argv[-1]))
