"""A small robot with every kind of joint and shape, and minimal robots for single features."""

from __future__ import annotations

from pathlib import Path

import trimesh

ROBOT = """<?xml version="1.0"?>
<robot name="rover">
  <material name="blue"><color rgba="0 0 0.8 1"/></material>
  <material name="odd"><color rgba="0.95 0.95 0.9 1"/></material>
  <link name="base_link">
    <visual name="hull"><geometry><box size="2 1 0.5"/></geometry><material name="steel"/></visual>
    <collision><origin xyz="0 0 0.1"/><geometry><sphere radius="0.5"/></geometry></collision>
  </link>
  <link name="wheel">
    <visual><origin rpy="1.5707963267948966 0 0"/>
      <geometry><cylinder radius="0.3" length="0.2"/></geometry><material name="rubber_black"/></visual>
  </link>
  <link name="arm">
    <visual><origin xyz="0.5 0 0"/><geometry><mesh filename="package://rover_description/meshes/arm.stl"
      scale="0.001 0.001 0.001"/></geometry><material name="blue"/></visual>
  </link>
  <link name="lift"><visual><geometry><sphere radius="0.1"/></geometry><material name="odd"/></visual></link>
  <link name="lidar_mount"/>
  <link name="velodyne_base_link">
    <visual><geometry><cylinder radius="0.05" length="0.07"/></geometry><material name="plastic"/></visual>
  </link>
  <link name="velodyne"/>
  <link name="imu_link"/>
  <link name="camera_link"/>
  <link name="camera_optical_frame"/>
  <link name="simulated_load"/>

  <joint name="wheel_joint" type="continuous">
    <parent link="base_link"/><child link="wheel"/><origin xyz="0.6 0.5 -0.2"/><axis xyz="0 1 0"/>
  </joint>
  <joint name="arm_joint" type="revolute">
    <parent link="base_link"/><child link="arm"/><origin xyz="1 0 0.25" rpy="0.1 -0.2 0.3"/><axis xyz="0 0.6 0.8"/>
    <limit lower="-2" upper="2" effort="1" velocity="1"/>
  </joint>
  <joint name="lift_joint" type="prismatic">
    <parent link="arm"/><child link="lift"/><origin xyz="1 0 0" rpy="0 0.5 0"/><axis xyz="0 0 1"/>
    <limit lower="0.1" upper="0.5" effort="1" velocity="1"/>
  </joint>
  <joint name="mount_joint" type="fixed">
    <parent link="base_link"/><child link="lidar_mount"/><origin xyz="-0.5 0 0.25"/>
  </joint>
  <joint name="velodyne_base_joint" type="fixed">
    <parent link="lidar_mount"/><child link="velodyne_base_link"/><origin xyz="0 0 0.2"/>
  </joint>
  <joint name="velodyne_joint" type="fixed">
    <parent link="velodyne_base_link"/><child link="velodyne"/><origin xyz="0 0 0.0377"/>
  </joint>
  <joint name="imu_joint" type="fixed">
    <parent link="base_link"/><child link="imu_link"/><origin rpy="3.141592653589793 0 0"/>
  </joint>
  <joint name="camera_joint" type="fixed">
    <parent link="base_link"/><child link="camera_link"/><origin xyz="1 0 0.1"/>
  </joint>
  <joint name="camera_optical_joint" type="fixed"><parent link="camera_link"/><child link="camera_optical_frame"/>
    <origin rpy="-1.5707963267948966 0 -1.5707963267948966"/></joint>
  <joint name="load_joint" type="fixed"><parent link="base_link"/><child link="simulated_load"/></joint>

  <gazebo reference="velodyne">
    <sensor name="top" type="ray">
      <pose>0.1 0 0 0 0 1.5707963267948966</pose><update_rate>10</update_rate>
      <ray>
        <scan>
          <horizontal><samples>1800</samples><min_angle>-3.141592653589793</min_angle></horizontal>
          <vertical><samples>16</samples></vertical>
        </scan>
        <range><min>0.9</min><max>130</max></range>
        <noise><type>gaussian</type><stddev>0.008</stddev></noise>
      </ray>
    </sensor>
  </gazebo>
  <gazebo reference="imu_link"><sensor name="imu" type="imu"><update_rate>200</update_rate></sensor></gazebo>
  <gazebo><plugin name="drive" filename="libdrive.so"><rate>10</rate></plugin></gazebo>
</robot>
"""


def write_rover(folder: Path) -> Path:
    """Write the robot as a package, with the mesh of its arm in millimetres; return the path of its URDF file."""
    home = folder / "rover_description"
    (home / "urdf").mkdir(parents=True)
    (home / "meshes").mkdir()
    trimesh.creation.box((1000, 100, 200)).export(home / "meshes" / "arm.stl")
    (home / "urdf" / "rover.urdf").write_text(ROBOT)
    return home / "urdf" / "rover.urdf"


def written(folder: Path, body: str, name: str = "r.urdf") -> Path:
    """Write a URDF file with this content."""
    file = folder / name
    file.write_text(f'<robot name="r">{body}</robot>')
    return file


def joint(name: str, parent: str, child: str, kind: str = "fixed", inside: str = "") -> str:
    """A joint between two links."""
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>'


TWO_LINKS = '<link name="a"/><link name="b"/>'
