"""Measurements as ROS 2 messages. Each function returns the CDR bytes of one message; `decode` reads any of them.

Units and frames follow REP 103 and the message definitions: m, s, rad, Pa, T; quaternions `xyzw`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.image import Intrinsics
from parhelion.io.images.plain import compressed
from parhelion.io.ros.clouds import cloud_of, point_cloud2, point_fields
from parhelion.io.ros.types import (
    HUMBLE,
    Message,
    decode,
    definition_of,
    encode,
    header,
    nanoseconds,
    new,
    stamp,
    type_store,
)

__all__ = [
    "CLOCK", "DIAGNOSTICS", "FLUID_PRESSURE", "IMU", "LASER_SCAN", "MAGNETIC_FIELD", "Message", "NAV_SAT_FIX",
    "ODOMETRY", "POINT_CLOUD", "POSE", "POSE_WITH_COVARIANCE", "TF", "TWIST", "Transform", "clock", "cloud_of",
    "collision", "decode", "definition_of", "fluid_pressure", "imu", "laser_scan", "magnetic_field", "nanoseconds",
    "nav_sat_fix", "odometry", "plain_cloud", "point_cloud2", "pose_stamped", "pose_with_covariance",
    "tf_message", "twist_stamped",
]  # fmt: skip

POINT_CLOUD = "sensor_msgs/msg/PointCloud2"
LASER_SCAN = "sensor_msgs/msg/LaserScan"
IMU = "sensor_msgs/msg/Imu"
ODOMETRY = "nav_msgs/msg/Odometry"
POSE = "geometry_msgs/msg/PoseStamped"
TF = "tf2_msgs/msg/TFMessage"
CLOCK = "rosgraph_msgs/msg/Clock"
MAGNETIC_FIELD = "sensor_msgs/msg/MagneticField"
FLUID_PRESSURE = "sensor_msgs/msg/FluidPressure"
NAV_SAT_FIX = "sensor_msgs/msg/NavSatFix"
TWIST = "geometry_msgs/msg/TwistStamped"
DIAGNOSTICS = "diagnostic_msgs/msg/DiagnosticArray"
POSE_WITH_COVARIANCE = "geometry_msgs/msg/PoseWithCovarianceStamped"

_FULL_CIRCLE_SLACK = 1.5
"""A laser scan whose ends are less than this many steps apart covers the full circle."""


class Transform(NamedTuple):
    """Pose of a frame in its parent frame at a time."""

    parent: str
    """Name of the parent frame."""
    child: str
    """Name of the frame."""
    time_ns: int
    """Time [ns]."""
    xyz: ArrayLike
    """Origin of the child in the parent frame [m], shape (3,)."""
    quat_xyzw: ArrayLike
    """Unit quaternion, child to parent, shape (4,)."""


def _stamped(kind: str, time_ns: int, frame_id: str, **fields: Any) -> bytes:
    """CDR bytes of a message that starts with a header."""
    return encode(kind, new(kind, header=header(time_ns, frame_id), **fields))


def axes(kind: str, values: ArrayLike) -> Any:
    """Vector3, Point or Quaternion message."""
    numbers = np.asarray(values, dtype=np.float64).tolist()
    return new(f"geometry_msgs/msg/{kind}", **dict(zip("xyzw", numbers, strict=False)))


def _vector(values: ArrayLike) -> Any:
    return axes("Vector3", values)


def _covariance(values: ArrayLike | None, size: int) -> NDArray[np.float64]:
    """Covariance row by row; zeros mean unknown."""
    flat = np.zeros(size * size) if values is None else np.asarray(values, dtype=np.float64).ravel()
    if flat.shape != (size * size,):
        raise ConfigError(f"ROS: a covariance must be {size} x {size}, got {flat.shape[0]} numbers")
    return flat


def imu(
    time_ns: int,
    frame_id: str,
    angular_rate: ArrayLike,
    specific_force: ArrayLike,
    *,
    orientation: ArrayLike | None = None,
    angular_rate_covariance: ArrayLike | None = None,
    specific_force_covariance: ArrayLike | None = None,
    orientation_covariance: ArrayLike | None = None,
) -> bytes:
    """sensor_msgs/Imu: angular rate [rad/s], acceleration minus gravity [m/s²], 9.81 upward at rest.

    Without an orientation, the first element of its covariance is -1, as the message definition requires.
    """
    spread = _covariance(orientation_covariance, 3)
    if orientation is None:
        spread = np.array([-1.0] + [0.0] * 8)
    return _stamped(
        IMU,
        time_ns,
        frame_id,
        orientation=axes("Quaternion", (0.0, 0.0, 0.0, 1.0) if orientation is None else orientation),
        orientation_covariance=spread,
        angular_velocity=_vector(angular_rate),
        angular_velocity_covariance=_covariance(angular_rate_covariance, 3),
        linear_acceleration=_vector(specific_force),
        linear_acceleration_covariance=_covariance(specific_force_covariance, 3),
    )


def pose_message(xyz: ArrayLike, quat_xyzw: ArrayLike) -> Any:
    return new("geometry_msgs/msg/Pose", position=axes("Point", xyz), orientation=axes("Quaternion", quat_xyzw))


def _pose_with_covariance(xyz: ArrayLike, quat_xyzw: ArrayLike, covariance: ArrayLike | None = None) -> Any:
    spread = _covariance(covariance, 6)
    return new("geometry_msgs/msg/PoseWithCovariance", pose=pose_message(xyz, quat_xyzw), covariance=spread)


def odometry(
    time_ns: int,
    frame_id: str,
    child_frame_id: str,
    xyz: ArrayLike,
    quat_xyzw: ArrayLike,
    velocity: ArrayLike,
    angular_velocity: ArrayLike,
) -> bytes:
    """nav_msgs/Odometry: pose of the child in `frame_id` [m], velocity [m/s] and angular rate [rad/s] in the child."""
    twist = new("geometry_msgs/msg/Twist", linear=_vector(velocity), angular=_vector(angular_velocity))
    spread = _covariance(None, 6)
    return _stamped(
        ODOMETRY,
        time_ns,
        frame_id,
        child_frame_id=child_frame_id,
        pose=_pose_with_covariance(xyz, quat_xyzw),
        twist=new("geometry_msgs/msg/TwistWithCovariance", twist=twist, covariance=spread),
    )


def pose_stamped(time_ns: int, frame_id: str, xyz: ArrayLike, quat_xyzw: ArrayLike) -> bytes:
    """geometry_msgs/PoseStamped [m]."""
    return _stamped(POSE, time_ns, frame_id, pose=pose_message(xyz, quat_xyzw))


def pose_with_covariance(
    time_ns: int, frame_id: str, xyz: ArrayLike, quat_xyzw: ArrayLike, covariance: ArrayLike | None = None
) -> bytes:
    """geometry_msgs/PoseWithCovarianceStamped [m]; covariance 6 x 6 of position [m²] and small rotations [rad²]."""
    pose = _pose_with_covariance(xyz, quat_xyzw, covariance)
    return _stamped(POSE_WITH_COVARIANCE, time_ns, frame_id, pose=pose)


def plain_cloud(time_ns: int, frame_id: str, columns: dict[str, NDArray[Any]]) -> bytes:
    """sensor_msgs/PointCloud2 with columns (n,) in the given order: uint8 unchanged, other types as float32."""
    kinds = {name: "u1" if values.dtype == np.uint8 else "<f4" for name, values in columns.items()}
    rows = np.zeros(len(next(iter(columns.values()))), dtype=list(kinds.items()))
    for name, values in columns.items():
        rows[name] = values
    return _stamped(
        POINT_CLOUD,
        time_ns,
        frame_id,
        height=1,
        width=len(rows),
        fields=point_fields(rows.dtype),
        is_bigendian=False,
        point_step=rows.itemsize,
        row_step=rows.itemsize * len(rows),
        data=np.frombuffer(rows.tobytes(), dtype=np.uint8),
        is_dense=False,
    )


def tf_message(transforms: Iterable[Transform]) -> bytes:
    """tf2_msgs/TFMessage with any number of transforms."""
    entries = [
        new(
            "geometry_msgs/msg/TransformStamped",
            header=header(one.time_ns, one.parent),
            child_frame_id=one.child,
            transform=new(
                "geometry_msgs/msg/Transform", translation=_vector(one.xyz), rotation=axes("Quaternion", one.quat_xyzw)
            ),
        )
        for one in transforms
    ]
    return encode(TF, new(TF, transforms=entries))


def clock(time_ns: int) -> bytes:
    """rosgraph_msgs/Clock: simulation time [ns]."""
    return encode(CLOCK, new(CLOCK, clock=stamp(time_ns)))


def collision(
    time_ns: int, frame_id: str, body: str, other: str, xyz: ArrayLike, normal: ArrayLike, impulse_n_s: float
) -> bytes:
    """Contact of a vehicle as DiagnosticArray with one status: level ERROR, and the numbers as key-value pairs.

    ROS has no message for contacts in its common interfaces (those of simulators are in their own packages).
    """
    numbers = dict(zip("xyz", np.asarray(xyz, np.float64).tolist(), strict=True))
    numbers |= {f"normal_{axis}": one for axis, one in zip("xyz", np.asarray(normal).tolist(), strict=True)}
    numbers["impulse_n_s"] = float(impulse_n_s)
    pairs = [("other", other), *((key, repr(value)) for key, value in numbers.items())]
    values = [new("diagnostic_msgs/msg/KeyValue", key=key, value=value) for key, value in pairs]
    status = new(
        "diagnostic_msgs/msg/DiagnosticStatus",
        level=2,
        name=f"{body}: collision",
        message=f"hit {other}",
        hardware_id=body,
        values=values,
    )
    return _stamped(DIAGNOSTICS, time_ns, frame_id, status=[status])


def magnetic_field(time_ns: int, frame_id: str, field_t: ArrayLike, covariance: ArrayLike | None = None) -> bytes:
    """sensor_msgs/MagneticField: flux density [T] in the sensor frame."""
    return _stamped(
        MAGNETIC_FIELD,
        time_ns,
        frame_id,
        magnetic_field=_vector(field_t),
        magnetic_field_covariance=_covariance(covariance, 3),
    )


def fluid_pressure(time_ns: int, frame_id: str, pressure_pa: float, variance: float = 0.0) -> bytes:
    """sensor_msgs/FluidPressure: static pressure [Pa] and its variance [Pa²]."""
    return _stamped(FLUID_PRESSURE, time_ns, frame_id, fluid_pressure=float(pressure_pa), variance=float(variance))


def nav_sat_fix(
    time_ns: int,
    frame_id: str,
    latitude_deg: float,
    longitude_deg: float,
    altitude_m: float,
    *,
    fix: bool,
    corrected: bool = False,
    service: int,
    covariance_enu: ArrayLike | None = None,
) -> bytes:
    """sensor_msgs/NavSatFix with the height above the ellipsoid; without a fix, status is -1 and the numbers are NaN.

    `service` is the sum of 1 for GPS, 2 for GLONASS, 4 for BeiDou, 8 for Galileo.
    """
    known = fix and covariance_enu is not None
    return _stamped(
        NAV_SAT_FIX,
        time_ns,
        frame_id,
        # STATUS_GBAS_FIX for fixes with the corrections of a base station.
        status=new("sensor_msgs/msg/NavSatStatus", status=(2 if corrected else 0) if fix else -1, service=service),
        latitude=float(latitude_deg),
        longitude=float(longitude_deg),
        altitude=float(altitude_m),
        position_covariance=_covariance(covariance_enu if known else None, 3),
        position_covariance_type=3 if known else 0,
    )


def twist_stamped(time_ns: int, frame_id: str, velocity: ArrayLike) -> bytes:
    """geometry_msgs/TwistStamped with a velocity [m/s] along the axes of the frame and no angular rate."""
    twist = new("geometry_msgs/msg/Twist", linear=_vector(velocity), angular=_vector((0.0, 0.0, 0.0)))
    return _stamped(TWIST, time_ns, frame_id, twist=twist)


def laser_scan(
    scan: Scan, frame_id: str, time_ns: int, *, range_min_m: float, range_max_m: float, scan_time_s: float = 0.0
) -> bytes:
    """sensor_msgs/LaserScan of a lidar with one ring that scans the plane z = 0.

    Beams are sorted by angle, counter-clockwise and evenly spaced from the first to the last shot. A shot without a
    return has the range infinity (REP 117). Of several returns, the nearest is used.
    """
    shots = scan.shots
    if len(shots) < 2 or len(np.unique(shots.ring)) != 1:
        raise FormatError("ROS: a LaserScan needs a lidar with one ring and at least two shots")
    ranges = np.full(len(shots), np.inf, np.float32)
    intensities = np.zeros(len(shots), np.float32)
    rows = scan.fields["shot"]
    first = scan.fields["return_index"] == 0 if "return_index" in scan.fields else slice(None)
    ranges[rows[first]] = scan.fields["range"][first]
    if "intensity" in scan.fields:
        intensities[rows[first]] = scan.fields["intensity"][first]
    order = np.argsort(shots.time, kind="stable")
    angles = np.unwrap(np.arctan2(shots.direction[order, 1], shots.direction[order, 0]).astype(np.float64))
    if angles[-1] < angles[0]:
        order, angles = order[::-1], angles[::-1]
    # Jitter of single shots moves the ends by less than a step. Receivers multiply the mean step.
    step = (angles[-1] - angles[0]) / (len(angles) - 1)
    begin = float(np.mean(angles - step * np.arange(len(angles))))
    if begin + step * (len(angles) - 1) > np.pi + _FULL_CIRCLE_SLACK * step or begin > np.pi:
        begin -= 2.0 * np.pi
    return _stamped(
        LASER_SCAN,
        time_ns,
        frame_id,
        angle_min=begin,
        angle_max=begin + step * (len(angles) - 1),
        angle_increment=step,
        time_increment=float((shots.time[order[-1]] - shots.time[order[0]]) / (len(angles) - 1)),
        scan_time=float(scan_time_s),
        range_min=float(range_min_m),
        range_max=float(range_max_m),
        ranges=ranges[order],
        intensities=intensities[order],
    )


# ---- radar and echo messages: radar_msgs/RadarScan and sensor_msgs/Range --------------------------------------------


RADAR_SCAN = "radar_msgs/msg/RadarScan"
RANGE = "sensor_msgs/msg/Range"
ULTRASOUND = 0
"""Range.radiation_type of ultrasound."""


def radar_scan(cloud: PointCloud, frame_id: str, time_ns: int) -> bytes:
    """radar_msgs/RadarScan; the amplitude is the signal-to-noise ratio [dB]."""
    names = ("range", "azimuth", "elevation", "radial_velocity", "snr")
    columns = [cloud.fields[name].tolist() for name in names]
    returns = [
        new("radar_msgs/msg/RadarReturn", range=r, azimuth=a, elevation=e, doppler_velocity=v, amplitude=s)
        for r, a, e, v, s in zip(*columns, strict=True)
    ]
    return _stamped(RADAR_SCAN, time_ns, frame_id, returns=returns)


def range_message(
    range_m: float,
    limits_m: tuple[float, float],
    field_of_view_rad: float,
    frame_id: str,
    time_ns: int,
    *,
    distro: str = HUMBLE,
) -> bytes:
    """sensor_msgs/Range; infinite without an echo (REP 117).

    Since Iron, it has a variance; 0 means that it is unknown.
    """
    kind = type_store(distro).types[RANGE]
    message = kind(
        header=header(time_ns, frame_id),
        radiation_type=ULTRASOUND,
        field_of_view=float(field_of_view_rad),
        min_range=float(limits_m[0]),
        max_range=float(limits_m[1]),
        range=float(np.float32(range_m)),
        **({"variance": 0.0} if "variance" in kind.__dataclass_fields__ else {}),
    )
    return encode(RANGE, message, distro)


# ---- images: sensor_msgs/Image, CompressedImage and CameraInfo ------------------------------------------------------
# Depth is in metres as 32FC1 (REP 118): NaN without a measurement, infinity without a surface.


IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"

_NAMED = {(1, 8): "mono8", (1, 16): "mono16", (3, 8): "rgb8", (3, 16): "rgb16", (4, 8): "rgba8", (4, 16): "rgba16"}
_DEFAULT_BANDS = {1: (), 3: ("red", "green", "blue"), 4: ("red", "green", "blue", "alpha")}
_LETTER = {"u": "U", "i": "S", "f": "F"}
_COEFFICIENTS = {"plumb_bob": 5, "rational_polynomial": 8, "equidistant": 4}


def encoding_of(pixels: NDArray[Any], bands: tuple[str, ...] = ()) -> str:
    """ROS encoding of pixels: rgb8, mono16 and similar for colours, otherwise for example 32FC1."""
    count = 1 if pixels.ndim == 2 else pixels.shape[2]
    bits = 8 * pixels.dtype.itemsize
    colours = (
        count in _DEFAULT_BANDS
        and pixels.dtype.kind == "u"
        and (not bands or count == 1 or bands == _DEFAULT_BANDS[count])
    )
    if count == 1 and bands and bands[0].startswith("bayer_") and bits in (8, 16):
        return f"{bands[0]}{bits}"
    if colours and (count, bits) in _NAMED:
        return _NAMED[count, bits]
    return f"{bits}{_LETTER[pixels.dtype.kind]}C{count}"


def image(time_ns: int, frame_id: str, pixels: NDArray[Any], encoding: str | None = None) -> bytes:
    """sensor_msgs/Image with pixels (h, w) or (h, w, bands), row by row from the top."""
    rows = np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder("<"))
    if rows.dtype == np.uint32:
        rows = rows.view("<i4")  # ROS has no encoding for unsigned 32-bit integers
    height, width = rows.shape[:2]
    return _stamped(
        IMAGE,
        time_ns,
        frame_id,
        height=height,
        width=width,
        encoding=encoding or encoding_of(rows),
        is_bigendian=0,
        step=rows.nbytes // height,
        data=rows.reshape(-1).view(np.uint8),
    )


def compressed_image(
    time_ns: int, frame_id: str, pixels: NDArray[Any], bands: tuple[str, ...] = (), *, format: str = "png"
) -> bytes:
    """sensor_msgs/CompressedImage as lossless PNG or 8-bit JPEG.

    The field `format` is the same as in image_transport's compressed plugin.
    """
    data, shown = compressed(pixels, bands, format)
    named = encoding_of(shown, bands if shown is pixels else ())
    return _stamped(
        COMPRESSED_IMAGE,
        time_ns,
        frame_id,
        format=f"{named}; {format} compressed {named.replace('rgb', 'bgr')}",
        data=np.frombuffer(data, np.uint8),
    )


def camera_info(time_ns: int, frame_id: str, lens: Intrinsics, *, right: bool = False) -> bytes:
    """sensor_msgs/CameraInfo. For the right image of a stereo pair, P holds the baseline: P[3] = -fx baseline."""
    numbers = np.zeros(_COEFFICIENTS[lens.model])
    numbers[: len(lens.distortion)] = lens.distortion
    projection = np.concatenate([lens.matrix, np.zeros((3, 1))], axis=1)
    if right:
        projection[0, 3] = -lens.fx * lens.baseline_m
    window = new("sensor_msgs/msg/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
    return _stamped(
        CAMERA_INFO,
        time_ns,
        frame_id,
        height=lens.height,
        width=lens.width,
        distortion_model=lens.model,
        d=numbers,
        k=lens.matrix.ravel(),
        r=np.eye(3).ravel(),
        p=projection.ravel(),
        binning_x=0,
        binning_y=0,
        roi=window,
    )
