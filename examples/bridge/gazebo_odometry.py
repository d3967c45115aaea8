"""Gazebo moves, Parhelion senses: odometry of ros_gz_bridge in, a VLP-16 cloud out, over DDS without ROS.

In Gazebo: the system OdometryPublisher on each model, with odom_frame set to the world, and
    ros2 run ros_gz_bridge parameter_bridge /model/husky/odometry@nav_msgs/msg/Odometry[gz.msgs.Odometry
Here:
    python examples/bridge/gazebo_odometry.py warehouse husky [domain]
"""

import sys
import time

import parhelion as ph
from parhelion.io.ros.clouds import POINT_CLOUD, point_cloud2
from parhelion.io.ros.types import Message, decode, nanoseconds
from parhelion.live.dds import DdsNode, Quality

ODOMETRY = "nav_msgs/msg/Odometry"


def serve(world: str, model: str, domain: int = 0, seconds: float = 3600.0) -> None:
    """Publish the clouds of a lidar on a model of Gazebo."""
    bridge = ph.Bridge(world, seed=7)
    bridge.add_body(model, ph.shapes.box(0.99, 0.67, 0.39), material="car-paint-yellow", label="robot")
    bridge.attach(ph.Lidar("velodyne/vlp-16", name="lidar"), model, mount=ph.Pose(xyz=(0, 0, 0.5)))
    with DdsNode(domain, reliable=True) as node:
        poses = node.subscribe(f"/model/{model}/odometry", ODOMETRY, Quality(reliable=True, depth=1000))
        node.advertise("/velodyne_points", POINT_CLOUD)
        print("ready", flush=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for data in poses.take():
                message = decode(ODOMETRY, data)
                stamp, pose, twist = nanoseconds(message.header.stamp) * 1e-9, message.pose.pose, message.twist.twist
                if stamp <= bridge.time:
                    continue  # Gazebo is paused
                p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
                quat = (q.x, q.y, q.z, q.w)
                velocity = ph.Pose(quat_xyzw=quat).apply([[v.x, v.y, v.z]])[0]  # ROS: in the frame of the body
                row = ((p.x, p.y, p.z), quat, velocity, (w.x, w.y, w.z))
                for _, _, scan in bridge.step(stamp, {model: row}):
                    cloud = point_cloud2(scan, "velodyne", round(scan.start_time * 1e9), "all")
                    node.publish(Message("/velodyne_points", POINT_CLOUD, round(stamp * 1e9), cloud))
            time.sleep(0.001)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], *(int(one) for one in sys.argv[3:]))
