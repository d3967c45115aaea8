"""Run as a nuScenes data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.frames import RadarScan
from parhelion.core.image import Image
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import pose_at, velocity_at
from parhelion.io import raw_scans as nuscenes_scan
from parhelion.io.images import png
from parhelion.motion.boxes import Box
from parhelion.outputs.datasets import nuscenes_tables
from parhelion.outputs.datasets.base import MOVING_M_S, DatasetSink, cloud_of, hidden_shares, moving
from parhelion.outputs.datasets.boxes import NUSCENES_CATEGORIES, movable_truth
from parhelion.outputs.datasets.images import straight

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import FrameOnBoard

DRIVEABLE = ("road", "lane-marking", "parking", "sidewalk", "floor", "quay", "other-ground")
"""Labels that the map mask shows."""
MAP_MARGIN_M, MAP_LARGEST_M = 100.0, 500.0
"""Margin of the map mask around the vehicle's track, and its largest side [m]."""


class _Group:
    """Lidars, cameras and radars of one vehicle, and their scene."""

    def __init__(
        self,
        scene: nuscenes_tables.SceneTables,
        scanners: list[FrameOnBoard],
        cameras: list[FrameOnBoard],
        radars: list[FrameOnBoard],
        duration_s: float,
    ) -> None:
        self.scene, self.main = scene, scanners[0]
        self.channels: dict[str, str] = {}
        self.samples: dict[str, dict[int, int]] = {}
        starts = {
            one.name: one.start(0) + one.period_s * np.arange(one.count(duration_s), dtype=np.float64)
            for one in (*scanners, *cameras, *radars)
        }
        at = starts[self.main.name][nuscenes_tables.key_frames(starts[self.main.name])]
        for one in scanners:
            channel = "LIDAR_TOP" if one is self.main else f"LIDAR_{one.name.upper().replace('-', '_')}"
            while channel in scene.channels:
                channel += "_2"
            scene.channels[channel] = one.mount
            self.channels[one.name] = channel
            self.samples[one.name] = nuscenes_tables.nearest_of(starts[one.name], at, 0.5 * one.period_s)
        for one in (*cameras, *radars):
            channel = (nuscenes_tables.radar_channel if one in radars else nuscenes_tables.camera_channel)(one.name)
            while channel in self.channels.values():
                channel += "_2"
            self.channels[one.name] = channel
            self.samples[one.name] = nuscenes_tables.nearest_of(starts[one.name], at, 0.5 * one.period_s)


class NuScenesSink(DatasetSink):
    """Writes tables, samples and sweeps; one scene per vehicle with a lidar, and one for static lidars."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._tables = nuscenes_tables.Tables(scenario.seed, scenario.settings.name)
        self._groups: dict[str, _Group] = {}
        vehicles: dict[str, list[FrameOnBoard]] = {}
        for one in self.scanners.values():
            vehicles.setdefault(one.entry.vehicle or "standing", []).append(one)
        world = scenario.settings.world
        for row, (vehicle, scanners) in enumerate(vehicles.items()):
            scene = nuscenes_tables.SceneTables(
                name=nuscenes_tables.SCENE_NAMES[row]
                if row < len(nuscenes_tables.SCENE_NAMES)
                else f"scene-{2000 + row}",
                logfile=f"parhelion-{scenario.seed}-{vehicle}",
                vehicle=vehicle,
                location=world if isinstance(world, str) else world.name,
                description=scenario.settings.name or "simulated",
            )
            self._tables.scenes.append(scene)
            cameras, radars = (
                [one for one in kind.values() if (one.entry.vehicle or "standing") == vehicle]
                for kind in (self.cameras, self.radars)
            )
            group = _Group(scene, scanners, cameras, radars, scenario.duration_s)
            self._groups |= {one.name: group for one in (*scanners, *cameras, *radars)}
        self._truth = {group.main.name: movable_truth(scenario, group.main) for group in self._groups.values()}

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write a scan; a key frame of the first lidar is a sample."""
        group = self._groups[scanner.name]
        name, sample = self._sweep(group, scanner, number, scan.start_time, ".pcd.bin")
        cloud = cloud_of(scan, scanner, 255.0)
        x, y, z = cloud.xyz.T
        turned = PointCloud(np.stack([-y, x, z], axis=1), cloud.fields, cloud.frame)
        nuscenes_scan.write_nuscenes(turned, self.folder.place(name))
        if scanner is group.main and sample is not None:
            self._annotate(group, scan, cloud, round(1e6 * scan.start_time))

    def _sweep(
        self, group: _Group, sensor: FrameOnBoard, number: int, start_time: float, ending: str
    ) -> tuple[str, int | None]:
        """Add a frame to the tables. Return the name of its file, and the number of its sample if it is a key frame."""
        channel, sample = group.channels[sensor.name], group.samples[sensor.name].get(number)
        stamp = round(1e6 * start_time)
        kind = "sweeps" if sample is None else "samples"
        name = f"{kind}/{channel}/{group.scene.logfile}__{channel}__{stamp:016d}{ending}"
        ego = Pose() if sensor.body is None else pose_at(sensor.body.motion, start_time)
        group.scene.add_sweep(channel, stamp, name, ego, sample)
        return name, sample

    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Write a picture; cameras of vehicles without a lidar are skipped, because the lidar defines the samples."""
        group = self._groups.get(camera.name)
        if group is None:
            return
        channel = group.channels[camera.name]
        if channel not in group.scene.channels:
            matrix = np.eye(3) if image.intrinsics is None else image.intrinsics.matrix
            group.scene.channels[channel] = camera.mount
            group.scene.cameras[channel] = nuscenes_tables.CameraChannel(matrix, image.width, image.height)
        name, _ = self._sweep(group, camera, number, image.start_time, ".png")
        self.folder.write(name, png.encode(straight(image.colour, image)))

    def add_radar(self, radar: FrameOnBoard, number: int, scan: RadarScan) -> None:
        """Write the detections of a frame; radars of vehicles without a lidar are skipped."""
        group = self._groups.get(radar.name)
        if group is None:
            return
        channel = group.channels[radar.name]
        if channel not in group.scene.channels:
            group.scene.channels[channel] = radar.mount
            group.scene.radars.add(channel)
        name, sample = self._sweep(group, radar, number, scan.start_time, ".pcd")
        # Speeds are those at the middle of the frame.
        motion, middle = radar.motion, scan.start_time + 0.5 * scan.duration
        own = pose_at(motion, middle).rotation.T @ velocity_at(motion, middle)
        speeds = radar.sensor.axes.speed
        slowest = max(MOVING_M_S, 0.5 * float(speeds[1] - speeds[0])) if len(speeds) > 1 else np.inf
        self.folder.write(name, nuscenes_tables.encode(nuscenes_tables.rows_of(scan, own, slowest)))
        if sample is not None:
            group.scene.radar_points.setdefault(sample, []).append(scan.in_world().xyz.astype(np.float64))

    def _annotate(self, group: _Group, scan: Scan, cloud: PointCloud, stamp: int) -> None:
        seen: list[nuscenes_tables.Annotation] = []
        unseen: list[nuscenes_tables.Annotation] = []
        sensor = scan.pose
        xyz = cloud.xyz.astype(np.float64)
        frame = self._truth[group.main.name].of(scan, "points")
        for box, hidden in hidden_shares(scan, frame, group.scene.tracks):
            category = category_of(box)
            one = nuscenes_tables.Annotation(
                box.instance,
                category,
                _attribute(box, category),
                nuscenes_tables.visibility_token(hidden),
                box.centre,
                box.size,
                box.quat_xyzw,
                box.velocity,
                _points_in(box.seen_from(sensor), xyz),
            )
            (seen if box.points else unseen).append(one)
        group.scene.add_sample(stamp, seen, unseen)

    def finish(self) -> None:
        """Write the tables and the maps."""
        for name, data in self._tables.files().items():
            self.folder.write(name, data)
        triangles = _driveable(self.scenario)
        for scene in self._tables.scenes:
            if scene.samples:
                track = np.array([sweep.ego.xyz[:2] for sweep in scene.sweeps])
                width, height = np.clip(track.max(axis=0) + MAP_MARGIN_M, 1.0, MAP_LARGEST_M).tolist()
                self.folder.write(self._tables.map_name(scene), nuscenes_tables.map_mask(triangles, width, height))


def category_of(box: Box) -> str:
    """nuScenes category of an object; other dynamic objects get a category `dynamic_object.<label>`."""
    further = {"bicyclist": "vehicle.bicycle", "motorcyclist": "vehicle.motorcycle", "moving-truck": "vehicle.truck"}
    other = "movable_object.pushable_pullable" if box.mobility == "movable" else f"dynamic_object.{box.label}"
    return (NUSCENES_CATEGORIES | further).get(box.label, other)


def _attribute(box: Box, category: str) -> str | None:
    return nuscenes_tables.attribute_of(category, box.label, moving=moving(box), parked=box.mobility == "movable")


def _points_in(box: Box, xyz: Floats) -> int:
    away = xyz - box.centre
    near = np.einsum("ij,ij->i", away, away) <= 0.25 * float(box.size @ box.size)
    return int(np.count_nonzero(box.contains(xyz[near])))


def _driveable(scenario: Scenario) -> Floats:
    """Triangles (n, 3, 2) [m] of all surfaces to drive or walk on, seen from above."""
    standing = [item for item in scenario.world.objects if item.label in DRIVEABLE and not item.is_actor]
    found = [part.placed[part.mesh.faces][:, :, :2] for item in standing for part in item.parts]
    return np.concatenate(found) if found else np.zeros((0, 3, 2))
