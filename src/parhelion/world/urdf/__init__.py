"""Robots from URDF files: links, joints, shapes and sensors.

URDF is the XML format of ROS for robots (wiki.ros.org/urdf/XML). Files are data: nothing in them is executed, nothing
is fetched, and document types and entities are refused. xacro files are programs that generate URDF: expand them
first.
"""

from parhelion.world.urdf.reader import load_urdf
from parhelion.world.urdf.robot import Inertial, Joint, Link, Mimic, Robot, RobotSensor
from parhelion.world.urdf.shapes import LinkShape

__all__ = ["Inertial", "Joint", "Link", "LinkShape", "Mimic", "Robot", "RobotSensor", "load_urdf"]
