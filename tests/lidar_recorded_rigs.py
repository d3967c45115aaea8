"""Lidar recordings of ../shared/data as range images, and measures that need no knowledge of the place."""

from __future__ import annotations

import csv
import lzma
import sqlite3
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import parhelion as ph
from parhelion.calibrate.drive.detection import on_surface
from parhelion.calibrate.drive.range_noise import range_noise
from parhelion.calibrate.range_images import Floats, RangeImage, clean, joined, range_image
from parhelion.sensors.optics.lidar.link_budget import overlap_share
from parhelion.sensors.optics.lidar.recorded_gaps import rings_of

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
NEBULA, PJLAB, HILTI = DATA / "nebula_packets", DATA / "pjlab_multilidar", DATA / "hilti2021_os0_64"
KITTI, KITTI_OTHER = DATA / "kitti0005_hdl64_pose", DATA / "kitti_cam_lidar_0926"

# ---- packets ---------------------------------------------------------------------------------------------------------

STRIDES = {"hesai": (1504, 1512), "velodyne": (1206, 1216)}
"""Bytes of a packet and distance between packets in a message, by maker."""
LAYOUTS = {
    "hesai_pandar40p": (0, 10, 124, 4, 40, 3),
    "hesai_xt32": (12, 8, 130, 2, 32, 4),
    "hesai_qt64": (12, 4, 258, 2, 64, 4),
}
"""Hesai: bytes before the blocks, blocks, bytes per block, bytes before its channels, channels, bytes per channel."""
CALIBRATIONS = {"hesai_pandar40p": "Pandar40P", "hesai_xt32": "PandarXT32", "hesai_qt64": "PandarQT64"}
PLACES = ("0001", "0002", "0003", "p64_qt")
"""Places of the Pandar64; the last is another car, two years earlier."""
HESAI_UNIT_M, VELODYNE_UNIT_M = 0.004, 0.004


@dataclass(frozen=True, eq=False)
class Recorded:
    """Revolutions of a packet recording."""

    frames: list[RangeImage]
    """First return of each pulse (of a dual recording the last, as Hesai stores it first)."""
    second: list[Floats]
    """Range of the other return [m], NaN without one; empty if the recording is not dual."""
    step_deg: Floats
    """Azimuth between columns [deg]."""
    period_s: float
    """Time between columns [s] by the clock of the sensor, or of the computer for Hesai."""


def packets(name: str) -> tuple[Floats, NDArray[np.uint8], list[int]]:
    """Time [s], bytes of all packets of a ROS 2 bag, and the number of packets per message."""
    size, stride = STRIDES[name.split("_", maxsplit=1)[0]]
    with sqlite3.connect(f"file:{NEBULA / name}.db3?mode=ro&immutable=1", uri=True) as bag:
        rows = [bytes(row[0]) for row in bag.execute("select data from messages order by timestamp")]
    times, bodies, counts = [], [], []
    for data in rows:
        at = 16 + struct.unpack_from("<I", data, 12)[0]
        at += -at % 4
        count = struct.unpack_from("<I", data, at)[0]
        body = np.frombuffer(data[at + 4 :] + bytes(8), np.uint8)[: count * stride].reshape(count, stride)
        stamp = np.ascontiguousarray(body[:, :8]).view("<u4")
        times.append(stamp[:, 0] + 1e-9 * stamp[:, 1])
        bodies.append(body[:, 8 : 8 + size])
        counts.append(count)
    return np.concatenate(times), np.concatenate(bodies), counts


def hesai(name: str) -> Recorded:
    """Revolutions of a dual-return Hesai recording; rows by elevation, columns by firing."""
    time, body, counts = packets(name)
    head, blocks, size, before, channels, width = LAYOUTS[name]
    part = body[:, head : head + blocks * size].reshape(-1, blocks, size)
    azimuth = _u16(part, 2 if before == 4 else 0).astype(np.float64) / 100.0
    records = part[:, :, before : before + channels * width].reshape(len(part), blocks, channels, width)
    distance = _u16(records, 0).astype(np.float64) * HESAI_UNIT_M
    level = records[..., 2].astype(np.float64)
    table = np.array([row[1:3] for row in list(csv.reader((NEBULA / f"{CALIBRATIONS[name]}.csv").open()))[1:]], float)
    elevation, offset = table.T
    order = np.argsort(-elevation)
    frames, second, first = [], [], 0
    for count in counts:
        rows = slice(first, first + count)
        first += count
        pair = [distance[rows, k::2].reshape(-1, channels)[:, order].T for k in (0, 1)]
        strong = level[rows, ::2].reshape(-1, channels)[:, order].T
        turned = np.radians(azimuth[rows, ::2].reshape(-1) + offset[order][:, None])  # clockwise
        up = np.radians(elevation[order])[:, None]
        direction = np.stack(
            [np.cos(up) * np.cos(turned), -np.cos(up) * np.sin(turned), np.sin(up) + 0.0 * turned], axis=-1
        )
        frames.append(_image(name, pair[0], strong, elevation[order], direction))
        second.append(np.where((pair[1] > 0) & (pair[1] != pair[0]), pair[1], np.nan))
    step = np.diff(azimuth[:, ::2].reshape(-1)) % 360.0
    period = float(np.median(np.diff(time))) / (blocks / 2)
    return Recorded(frames, second, step, period)


def velodyne(name: str, preset: str, groups: int) -> Recorded:
    """Revolutions of a single-return Velodyne recording; `groups` blocks of 32 lasers form one firing sequence."""
    _, body, counts = packets(name)
    blocks = body[:, :1200].reshape(-1, 12, 100)
    azimuth = _u16(blocks, 2).astype(np.float64)[:, ::groups] / 100.0
    records = blocks[:, :, 4:].reshape(len(body), 12 // groups, 32 * groups, 3)
    distance = _u16(records, 0).astype(np.float64) * VELODYNE_UNIT_M
    level = records[..., 2].astype(np.float64)
    channels = ph.Lidar(preset).config.pattern.channels  # type: ignore[union-attr]
    elevation = np.array(channels.elevation_deg)
    order = np.argsort(-elevation)
    frames, first = [], 0
    for count in counts:
        rows = slice(first, first + count)
        first += count
        images = [one[rows].reshape(-1, 32 * groups)[:, order].T for one in (distance, level)]
        frames.append(_image(name, images[0], images[1], elevation[order]))
    stamp = np.ascontiguousarray(body[:, 1200:1204]).view("<u4")[:, 0].astype(np.int64)
    period = float(np.median(np.diff(stamp))) * 1e-6 / (12 // groups)
    step = np.diff(azimuth.reshape(-1)) % 360.0
    return Recorded(frames, [], step, period)


def _u16(values: NDArray[np.uint8], at: int) -> NDArray[np.uint16]:
    return (values[..., at].astype(np.uint16)) | (values[..., at + 1].astype(np.uint16) << 8)


def _image(
    name: str, distance: Floats, level: Floats, elevation_deg: Floats, direction: Floats | None = None
) -> RangeImage:
    lost = distance == 0
    nothing = np.full(distance.shape, np.nan)
    return RangeImage(
        name, np.where(lost, np.nan, distance), np.where(lost, np.nan, level), nothing, nothing, lost,
        np.zeros_like(lost), elevation_deg, 0.0, direction, None if direction is None else np.zeros_like(direction),
    )  # fmt: skip


# ---- clouds ----------------------------------------------------------------------------------------------------------


def pjlab(place: str) -> RangeImage:
    """Pandar64 on the roof of a car at one of the three places, by ring and azimuth."""
    file = next((PJLAB / place).glob("top*.pcd" if place != "p64_qt" else "p64.pcd"))
    return range_image(ph.PointCloud.load(file), place)


def pandar_qt(place: str, side: str) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Ring numbers, their median elevations and azimuth steps [deg] of a PandarQT at the side of the car."""
    cloud = ph.PointCloud.load(next((PJLAB / place).glob(f"{side}*.pcd")))
    xyz, ring = cloud.xyz.astype(np.float64), cloud.fields["ring"].astype(np.int64)
    up = np.degrees(np.arcsin(xyz[:, 2] / np.linalg.norm(xyz, axis=1)))
    around = np.degrees(np.arctan2(xyz[:, 1], xyz[:, 0]))
    rings = np.unique(ring)
    steps = np.concatenate([np.diff(np.sort(around[ring == one])) for one in rings])
    return rings, np.array([np.median(up[ring == one]) for one in rings]), steps


def kitti(folder: Path, number: int = 0) -> RangeImage:
    """Scan of KITTI's HDL-64E S2 as rows and columns; its points have no ring numbers."""
    points = points_of(sorted((folder / "lidar").glob("*.dz"))[number])
    rings = rings_of(points[:, :3], ph.Lidar("velodyne/hdl-64e-s2"))
    assert rings is not None
    rank = np.argsort(np.argsort(rings.elevation))[rings.of_point]
    fields = {"ring": rank.astype(np.uint16), "intensity": points[:, 3].astype(np.float32)}
    return range_image(ph.PointCloud(points[:, :3].astype(np.float32), fields, "sensor"), folder.name)


def points_of(file: Path) -> Floats:
    """Points of a packed cloud: x, y, z [m] and intensity."""
    data = file.read_bytes()
    count, scale = struct.unpack("<4sII", data[:12])[1:]
    body = lzma.decompress(data[12:])
    planes = np.frombuffer(body, np.uint8, 12 * count).reshape(3, 4, count).transpose(0, 2, 1)
    xyz = np.ascontiguousarray(planes).view("<i4")[:, :, 0].astype(np.int64).cumsum(axis=1).T / 1000.0
    return np.c_[xyz, np.frombuffer(body, "<u2", count, 12 * count) / scale]


# ---- hand-held OS0: clouds with poses and photons --------------------------------------------------------------------

NEIGHBOURS, PLANE_NEIGHBOURS = 12, 40
PHOTON_EDGES = (4, 8, 12, 17, 25, 50, 100, 200)


@dataclass(frozen=True, eq=False)
class Surfaces:
    """Points, their scatter about their neighbours in the ring, and the planes around them; shape (n,)."""

    range: Floats
    photons: Floats
    residual_m: Floats
    """Difference between the range and that of its neighbours in the ring, scaled to the noise of one range."""
    rough_m: Floats
    """Scatter of these neighbours about their parabola."""
    cosine: Floats
    """Cosine of the angle of incidence."""
    together: NDArray[np.bool_]
    """These neighbours lie within 10 % of the range and within 2.5 degrees."""
    flat: NDArray[np.bool_]
    """Forty neighbours within 5 degrees lie in one plane."""

    def sigma_m(self, level: Floats, edges: tuple[float, ...]) -> Floats:
        """Scatter of ranges by `level` on the flattest fifth of the surfaces, which neighbours alone decide."""
        found = []
        for low, high in pairwise(edges):
            mask = self.together & (level >= low) & (level < high)
            if mask.sum() < 200:
                found.append(np.nan)
                continue
            mask &= self.rough_m <= np.quantile(self.rough_m[mask], 0.2)
            own = self.residual_m[mask]
            found.append(1.4826 * float(np.median(np.abs(own - np.median(own)))))
        return np.array(found)

    def strength(self, lidar: ph.Lidar) -> Floats:
        """Photons R^2 over those of the preset for a white surface at the same range and incidence."""
        photons, overlap = lidar.config.receiver.threshold_photons, lidar.config.range.overlap
        assert photons is not None
        assert overlap is not None
        white = photons * lidar.system_constant.k_m2 * overlap_share(overlap, self.range)
        return np.asarray(self.photons * self.range**2 / (white * self.cosine))


def surfaces(xyz: Floats, photons: Floats) -> Surfaces:
    """Points and their neighbours in direction: the nearest twelve for noise, forty for the plane and its normal.

    The nearest twelve lie in one ring, where 1/R of a plane is a parabola of the azimuth. Their elevations must not be
    used: seen from the frame of the sensor, 4 cm below the optics, they contain the noise of the range.
    """
    from scipy.spatial import cKDTree

    distance = np.linalg.norm(xyz, axis=1)
    unit = xyz / distance[:, None]
    apart, every = cKDTree(unit).query(unit, k=PLANE_NEIGHBOURS + 1)
    near, every = every[:, 1 : NEIGHBOURS + 1], every[:, 1:]
    azimuth = np.arctan2(xyz[:, 1], xyz[:, 0])
    step = np.degrees((azimuth[near] - azimuth[:, None] + np.pi) % (2.0 * np.pi) - np.pi)
    design = np.stack([np.ones_like(step), step, step**2], axis=-1)
    inverted = np.linalg.pinv(np.einsum("nki,nkj->nij", design, design), hermitian=True)
    b = 1.0 / distance[near]
    fit = np.einsum("nij,nkj,nk->ni", inverted, design, b)
    rest = np.einsum("nki,ni->nk", design, fit) - b
    together = (np.abs(distance[near] - distance[:, None]).max(axis=1) < 0.1 * distance) & (fit[:, 0] > 0)
    together &= apart[:, NEIGHBOURS] < np.radians(2.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = (1.0 / fit[:, 0] - distance) / np.sqrt(1.0 + inverted[:, 0, 0])
    rough = np.sqrt((rest**2).sum(axis=1) / (NEIGHBOURS - 3)) * distance**2

    a, c = unit[every], 1.0 / distance[every]
    square = np.linalg.pinv(np.einsum("nki,nkj->nij", a, a), hermitian=True)
    normal = np.einsum("nij,nkj,nk->ni", square, a, c)
    off = np.sqrt(((np.einsum("nki,ni->nk", a, normal) - c) ** 2).mean(axis=1)) * distance**2
    flat = (off < 0.02 + 0.002 * distance) & (apart[:, -1] < np.radians(5.0))
    cosine = np.einsum("ni,ni->n", normal, unit) / np.linalg.norm(normal, axis=1)
    return Surfaces(distance, photons, residual, rough, cosine, together, flat)


def hilti_poses() -> Floats:
    """Poses of the frames, sensor to world, shape (n, 4, 4)."""
    rows = [[float(v) for v in line.strip().strip(",").split(",")] for line in (HILTI / "alidarPose.csv").open()]
    poses = np.array(rows).reshape(-1, 4, 4)
    poses[:, 3, 3] = 1.0
    return poses


def hilti(number: int) -> Floats:
    """Frame from 40 to 59: x, y, z [m] in the sensor frame and photons."""
    return points_of(HILTI / "lidar" / f"{number:06d}.dz")


def registered(first: Floats, second: Floats, poses: tuple[Floats, Floats]) -> Floats:
    """Distances [m] of the points of a frame to the planes of another, both placed by their poses."""
    from scipy.spatial import cKDTree

    a, b = (xyz @ pose[:3, :3].T + pose[:3, 3] for xyz, pose in zip((first, second), poses, strict=True))
    tree = cKDTree(a)
    near = tree.query(a, k=NEIGHBOURS)[1]
    around = a[near] - a[near].mean(axis=1, keepdims=True)
    size, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", around, around) / NEIGHBOURS)
    flat = (size[:, 0] < 0.02**2) & (size[:, 1] > 9.0 * size[:, 0])
    far, place = cKDTree(a[flat]).query(b)
    close = far < 0.15
    return np.einsum("ni,ni->n", b[close] - a[flat][place[close]], axes[flat][place[close], :, 0])


# ---- measures that need no knowledge of the place --------------------------------------------------------------------

EDGE_M, APART_M = 1.0, 0.3
"""Depth step that counts as an edge [m], and distance from both surfaces of a mixed point [m]."""


@dataclass(frozen=True)
class Measures:
    """Numbers of a lidar frame that do not need the place."""

    nearest_m: float
    """Range that 0.1 % of the returns undercut."""
    farthest_m: float
    sigma_m: float
    """Scatter of single ranges on the flattest fifth of all windows, median over the bins of range."""
    lost: float
    """Share of the pulses on continuous surfaces without a return."""
    mixed: float
    """Share of the depth steps of a ring that have a point in between."""
    intensity: tuple[float, ...]
    """5, 25, 50, 75 and 95 % of the intensity."""
    rank_change: float
    """Mean change of the rank of intensity (0 to 1) between neighbours of a ring on one surface."""


def measures(frame: RangeImage, edges: tuple[float, ...] = (0.3, 1, 2, 5, 10, 20, 40)) -> Measures:
    """Measures of one frame, or of several side by side."""
    there = frame.returned
    noise = range_noise(frame, frame.range, edges, 2)
    surface, _ = on_surface(frame)
    around = [np.roll(frame.range, step, axis=1) for step in (-2, -1, 1, 2)]
    with np.errstate(invalid="ignore"):
        step = (np.abs(around[1] - around[2]) > EDGE_M) & there
        step &= (np.abs(around[0] - around[1]) < 0.03 * around[1]) & (np.abs(around[3] - around[2]) < 0.03 * around[2])
        between = (frame.range > np.minimum(around[1], around[2]) + APART_M) & (
            frame.range < np.maximum(around[1], around[2]) - APART_M
        )
    return Measures(
        float(np.quantile(frame.range[there], 0.001)),
        float(np.max(frame.range[there])),
        float(np.nanmedian(noise.sigma_m)),
        float(frame.lost[surface].mean()) if frame.knows_lost and surface.any() else np.nan,
        float(between[step].mean()) if step.sum() >= 20 else np.nan,
        tuple(np.quantile(frame.signal[there], (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()),
        rank_change(frame),
    )


def evenly_lit(frame: RangeImage) -> tuple[NDArray[np.bool_], Floats]:
    """Pixels on flat surfaces of equal intensity, returned or not, and the smaller intensity of their neighbours.

    1/R of the three neighbours on either side is a line of the azimuth within 3 cm, and their intensities agree within
    30 % and two counts. A receiver loses such a pulse only by noise.
    """
    around = (-3, -2, -1, 1, 2, 3)
    inverse, level = (np.stack([np.roll(one, k, axis=1) for k in around]) for one in (1.0 / frame.range, frame.signal))
    line = np.stack([np.ones(6), np.array(around, float)], axis=1)
    rest = np.abs(inverse - np.tensordot(line @ np.linalg.pinv(line), inverse, axes=1)).max(axis=0)
    metres = 2.0 / (inverse[2] + inverse[3])
    with np.errstate(invalid="ignore"):
        flat = rest * metres**2 < 0.03
        even = level.max(axis=0) <= 1.3 * level.min(axis=0) + 2.0
    return on_surface(frame)[0] & flat & even, np.minimum(level[2], level[3])


def rank_change(frame: RangeImage) -> float:
    """Mean absolute change of the rank of intensity (0 to 1) from column to column within a surface."""
    there = frame.returned & clean(frame)
    rank = np.full(frame.range.shape, np.nan)
    values = frame.signal[there]
    # Equal counts share the middle of their ranks, so that coarse scales do not appear noisier.
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    rank[there] = ((np.cumsum(count) - 0.5 * count) / len(values))[inverse]
    return float(np.nanmean(np.abs(np.diff(rank, axis=1))))


def repeated(frames: list[RangeImage], edges: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """Scatter of a pixel over the revolutions of a standing sensor, by intensity.

    Root mean square of range [m], that of intensity relative to its mean, and number of pixels. Pixels at edges are
    excluded, as are those whose range changes by more than 8 cm.
    """
    level, metres = (np.stack([getattr(frame, name) for frame in frames]) for name in ("signal", "range"))
    with np.errstate(invalid="ignore"):
        same = (np.ptp(metres, axis=0) < 0.08) & clean(frames[0])
    mean, spread, scatter = level.mean(axis=0), level.std(axis=0, ddof=1), metres.std(axis=0, ddof=1)
    rows = []
    for low, high in pairwise(edges):
        with np.errstate(invalid="ignore", divide="ignore"):
            mask = same & (mean >= low) & (mean < high)
            relative = float(np.sqrt(np.mean((spread[mask] / mean[mask]) ** 2))) if mask.any() else np.nan
        rows.append((float(np.sqrt(np.mean(scatter[mask] ** 2))) if mask.sum() >= 50 else np.nan, relative, mask.sum()))
    found = np.array(rows, float).T
    return found[0], found[1], found[2]


def flicker(frames: list[RangeImage], fewest: float = 8.0) -> float:
    """Share of the pixels that are lost in one revolution, among those whose other revolutions agree within 5 cm.

    Pixels whose intensity is below `fewest` are left out: their signal may be near the threshold.
    """
    lost, metres = np.stack([frame.lost for frame in frames]), np.stack([frame.range for frame in frames])
    level = np.stack([frame.signal for frame in frames])
    shares = []
    for k in range(len(frames)):
        others = np.delete(metres, k, axis=0)
        with np.errstate(invalid="ignore"):
            steady = (np.ptp(others, axis=0) < 0.05) & (np.delete(level, k, axis=0).min(axis=0) >= fewest)
        shares.append(float(lost[k][steady].mean()))
    return float(np.mean(shares))


# ---- simulated counterparts ------------------------------------------------------------------------------------------


def drive(sensor: ph.Lidar, count: int, height_m: float = 1.8, seed: int = 1) -> RangeImage:
    """Frames along the drive through the built-in `city`, side by side."""
    world = ph.World.load("city")
    assert isinstance(world.path, ph.Waypoints)
    xyz, quat = world.path.sample(np.linspace(world.path.times[0], world.path.times[-1], count))
    xyz[:, 2] = height_m
    poses = [ph.Pose(at, turned) for at, turned in zip(xyz, quat, strict=True)]
    return joined([range_image(scan) for scan in sensor.scan_many(world, poses, seed=seed)])


def office() -> ph.World:
    """Room of 14 x 10 m with desks and cupboards, some of them close to the sensor. All of it is assumed."""
    world = ph.World()
    slabs = [
        ((14, 10, 0.2), (0, 0, -0.1), "concrete"), ((14, 10, 0.2), (0, 0, 3.1), "plaster"),
        ((14, 0.2, 3), (0, 5.1, 1.5), "plaster"), ((14, 0.2, 3), (0, -5.1, 1.5), "plaster"),
        ((0.2, 10, 3), (7.1, 0, 1.5), "plaster"), ((0.2, 10, 3), (-7.1, 0, 1.5), "brick"),
    ]  # fmt: skip
    desks = [((1.6, 0.8, 0.04), (x, y, 0.74), "wood") for x in (-5, -1.5, 2, 5) for y in (-3, 3)]
    cupboards = [((0.8, 0.5, 1.8), (x, 4.6, 0.9), "wood") for x in (-6, -3, 3)]
    near = [((1.6, 0.8, 0.04), (0.2, 0, 0.74), "wood"), ((0.5, 0.05, 0.4), (0.75, 0.3, 0.97), "plastic"),
            ((0.05, 0.6, 0.5), (-0.6, -0.2, 1.0), "plastic")]  # fmt: skip
    for number, (size, at, material) in enumerate(slabs + desks + cupboards + near):
        world.add(ph.shapes.box(*size), material=material, label="room", name=f"part {number}", pose=ph.Pose(xyz=at))
    return world


def in_office(preset: str, count: int = 4, seed: int = 1, **options: Any) -> list[RangeImage]:
    """Revolutions of a standing sensor 0.95 m above the floor of `office`."""
    poses = [ph.Pose((0.0, 0.0, 0.95))] * count
    scans = ph.Lidar(preset, **options).scan_many(office(), poses, seed=seed, frames=range(count))
    return [range_image(scan) for scan in scans]
