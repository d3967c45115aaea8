"""Survey of a run: one LAS 1.4 file per lidar in UTM, with GPS time, scan angle, returns and full waveforms.

Points have format 6, or 9 with waveforms, whose samples are in a file of the same name with the ending .wdp ("external
waveform packets"). Coordinates are those of the zone of UTM of the world's origin on WGS 84, heights z of the world;
without an origin they are those of the world. Points under water are corrected for refraction. In turns between flight
lines nothing is written.

| dimension | content |
| --- | --- |
| gps_time | adjusted standard GPS time with `epoch_s`, otherwise seconds since the start of the run |
| scan_angle | angle of the beam across the flight direction from nadir, roll included, in steps of 0.006 degrees |
| intensity | 10 000 times the reflectivity |
| classification | ASPRS classes; 40 bottom of water, 41 its surface |
| point_source_id | number of the flight line |
| power, material, instance, origin | extra dimensions with the truth of the simulation |

Source: LAS specification 1.4 R15, https://github.com/ASPRSorg/LAS; classes 40 and 41: LAS domain profile for
topographic-bathymetric lidar.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.files import atomic_write
from parhelion.core.pose import Floats, quat_rotate
from parhelion.core.trajectory import velocity_at
from parhelion.motion.flight_lines import flight_of
from parhelion.sensors.optics.lidar.bathymetry import corrected, surface_ranges
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.world.maps.terrain import utm
from parhelion.world.sources import GeoOrigin
from parhelion.world.world import World

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

SCALE_M = 0.001
ANGLE_STEP_DEG = 0.006
REFLECTIVITY_STEP = 1e-4
CLASSES = {
    **dict.fromkeys(("terrain", "ground", "other-ground", "grass"), 2),
    **dict.fromkeys(("vegetation", "trunk"), 5),
    **dict.fromkeys(("building", "roof", "wall", "window"), 6),
    **dict.fromkeys(("road", "parking", "sidewalk", "lane-marking"), 11),
    "cable": 14,
    "bridge": 17,
    "water": 41,
}
"""ASPRS classes by label; 1 (unclassified) for all others, 7 (noise) for points of no surface."""
BOTTOM, UNCLASSIFIED, NOISE = 40, 1, 7
_GPS_START_S, _LEAP_S, _ADJUSTED_S = 315_964_800.0, 18.0, 1e9
"""Start of GPS time [s since 1970], its lead over UTC since 2017, and the offset of adjusted standard GPS time."""
SAMPLE_PS, SAMPLES, BEFORE_M = 1000, 256, 3.0
"""Time between samples of a waveform [ps], their number, and the range before the first return where they start."""
GAIN = 0.05
"""Signal [P_min] of one unit of a 16-bit sample."""
_GROUPS = 16
"""Groups of shots of similar range whose waveforms are computed together."""
_EVLR = struct.Struct("<H16sHQ32s")


class SurveyWriter:
    """Writes scans of one lidar to a LAS file, one after the other. Use as a context manager.

    Args:
        path: File with the ending .las.
        world: World of the scans; its origin sets the coordinates.
        lidar: Lidar that measures the waveforms; None writes none.
        epoch_s: Time of the scans' time 0 [s since 1970]; 0 if unknown.
        index: Refractive index of water for the correction of points; None leaves them uncorrected.
    """

    def __init__(
        self, path: Path, world: World, *, lidar: Lidar | None = None, epoch_s: float = 0.0, index: float | None = 1.34
    ) -> None:
        import laspy

        self.path, self.world, self.lidar, self.index = Path(path), world, lidar, index
        self._offset_s = epoch_s - _GPS_START_S + _LEAP_S - _ADJUSTED_S if epoch_s else 0.0
        origin = world.origin
        self._zone = None if origin is None else zone_of(origin)
        header = laspy.LasHeader(version="1.4", point_format=6 if lidar is None else 9)
        header.scales = np.full(3, SCALE_M)
        header.offsets = np.round(self._georeferenced(np.zeros((1, 3)))[0])
        header.system_identifier, header.generating_software = "simulated lidar", "parhelion"
        header.global_encoding.wkt = True
        header.global_encoding.gps_time_type = laspy.header.GpsTimeType(int(bool(epoch_s)))
        header.add_extra_dims(
            [
                laspy.ExtraBytesParams("power", np.float32, "[P_min]"),
                laspy.ExtraBytesParams("material", np.uint16),
                laspy.ExtraBytesParams("instance", np.uint32),
                laspy.ExtraBytesParams("origin", np.uint8),
            ]
        )
        if self._zone is not None:
            header.vlrs.append(laspy.VLR("LASF_Projection", 2112, "OGC WKT", wkt_of(self._zone).encode() + b"\0"))
        if lidar is not None:
            header.global_encoding.waveform_data_packets_external = True
            content = struct.pack("<BBIIdd", 16, 0, SAMPLES, SAMPLE_PS, GAIN, 0.0)
            header.vlrs.append(laspy.VLR("LASF_Spec", 100, "waveform packets", content))
        self._header, self._files = header, ExitStack()
        self._points: Any = None
        self._waves: Any = None
        self._wave_bytes = _EVLR.size

    def __enter__(self) -> SurveyWriter:
        import laspy

        temporary = self._files.enter_context(atomic_write(self.path))
        if self.lidar is not None:
            waves = self._files.enter_context(atomic_write(self.path.with_suffix(".wdp")))
            self._waves = self._files.enter_context(waves.open("wb"))
            self._waves.write(_EVLR.pack(0, b"LASF_Spec", 65535, 0, b"waveform data packets"))
        stream = self._files.enter_context(temporary.open("wb+"))
        self._points = laspy.open(stream, mode="w", header=self._header, closefd=False)
        return self

    def __exit__(self, *error: Any) -> bool | None:
        if error[0] is None:
            self._points.close()
            if self._waves is not None:
                self._waves.seek(0)
                self._waves.write(
                    _EVLR.pack(0, b"LASF_Spec", 65535, self._wave_bytes - _EVLR.size, b"waveform data packets")
                )
        return self._files.__exit__(*error)

    @property
    def files(self) -> list[Path]:
        """Files of the survey."""
        return [self.path] if self.lidar is None else [self.path, self.path.with_suffix(".wdp")]

    def add(self, scan: Scan, *, line: int = 0) -> None:
        """Write the points of a scan; `line` is the number of its flight line."""
        import laspy

        if not len(scan):
            return
        fields, raw = scan.fields, np.asarray(scan.in_world().xyz, np.float64)
        cloud = scan if self.index is None else corrected(scan, index=self.index)
        xyz = raw if self.index is None else np.asarray(cloud.xyz, np.float64)
        shot = fields["shot"].astype(np.int64)
        direction = _world_directions(scan)
        angle = scan_angles_deg(scan, direction)
        record = laspy.ScaleAwarePointRecord.zeros(len(xyz), header=self._header)
        places = self._georeferenced(xyz)
        for axis, column in zip("xyz", places.T, strict=True):
            record[axis] = column
        rising = np.diff(angle, append=angle[-1]) > 0.0
        record["intensity"] = np.clip(np.rint(fields["reflectivity"] / REFLECTIVITY_STEP), 0, 65535).astype(np.uint16)
        record["return_number"] = fields["return_index"] + np.uint8(1)
        record["number_of_returns"] = fields["return_count"]
        record["scan_angle"] = np.rint(angle[shot] / ANGLE_STEP_DEG).astype(np.int16)
        record["scan_direction_flag"] = rising[shot]
        record["edge_of_flight_line"] = np.diff(rising.astype(np.int8), append=int(rising[-1]))[shot] != 0
        record["classification"] = self._classes(scan)
        record["gps_time"] = self._offset_s + scan.start_time + fields["time"].astype(np.float64)
        record["point_source_id"] = np.full(len(xyz), line, np.uint16)
        for name in ("power", "material", "instance", "origin"):
            record[name] = fields[name]
        if self.lidar is not None:
            self._add_waves(record, scan, shot, direction)
        self._points.write_points(record)

    def _classes(self, scan: Scan) -> NDArray[np.uint8]:
        labels = scan.fields["label"].astype(np.int64)
        table = np.full(int(labels.max(initial=0)) + 1, UNCLASSIFIED, np.uint8)
        for code, name in scan.names.get("label", {}).items():
            if code < len(table):
                table[code] = CLASSES.get(name, UNCLASSIFIED)
        found = table[labels]
        surface = surface_ranges(scan)
        found[(scan.fields["range"] > surface) & (found != CLASSES["water"])] = BOTTOM
        found[scan.fields["origin"] != 0] = NOISE
        return found

    def _add_waves(self, record: Any, scan: Scan, shot: NDArray[np.int64], direction: Floats) -> None:
        """Write the waveform of each shot with a return, and the references of its points to it."""
        assert self.lidar is not None
        first = np.full(len(scan.shots), np.inf)
        np.minimum.at(first, shot, scan.fields["range"].astype(np.float64))
        shots = np.flatnonzero(np.isfinite(first))
        step_m = 0.5 * SPEED_OF_LIGHT_M_S * SAMPLE_PS * 1e-12
        bins = np.maximum(np.floor((first[shots] - BEFORE_M) / step_m), 0.0).astype(np.int64)
        samples = np.zeros((len(shots), SAMPLES), np.uint16)
        order = np.argsort(bins, kind="stable")
        for rows in np.array_split(order, min(_GROUPS, len(order))):
            low, high = int(bins[rows].min()), int(bins[rows].max()) + SAMPLES
            wave = self.lidar.waveform(
                self.world,
                shots[rows].tolist(),
                trajectory=scan.motion,
                time=scan.start_time,
                seed=int(scan.metadata.get("seed", 0)),
                bin_size_m=step_m,
                range_m=(low * step_m, (high - 0.5) * step_m),
            )
            own = bins[rows, None] - low + np.arange(SAMPLES)
            values = np.take_along_axis(wave.samples, np.minimum(own, wave.samples.shape[1] - 1), axis=1)
            samples[rows] = np.clip(np.rint(values / GAIN), 0, 65535)
        place = np.full(len(scan.shots), -1, np.int64)
        place[shots] = np.arange(len(shots))
        row = place[shot]
        size = 2 * SAMPLES
        record["wavepacket_index"] = np.ones(len(shot), np.uint8)
        record["wavepacket_offset"] = (self._wave_bytes + row * size).astype(np.uint64)
        record["wavepacket_size"] = np.full(len(shot), size, np.uint32)
        late_m = scan.fields["range"].astype(np.float64) - bins[row] * step_m
        record["return_point_wave_location"] = (late_m / step_m * SAMPLE_PS).astype(np.float32)
        per_ps = 0.5 * SPEED_OF_LIGHT_M_S * 1e-12 * direction[shot]
        for name, column in zip(("x_t", "y_t", "z_t"), self._turned(per_ps).T, strict=True):
            record[name] = column.astype(np.float32)
        self._waves.write(samples.astype("<u2").tobytes())
        self._wave_bytes += samples.nbytes

    def _turned(self, vectors: Floats) -> Floats:
        """Vectors of the world in the axes of the file; grid convergence is neglected."""
        if self.world.origin is None:
            return vectors
        east, north = _east_north(vectors, self.world.origin)
        return np.stack([east, north, vectors[:, 2]], axis=1)

    def _georeferenced(self, xyz: Floats) -> Floats:
        """Coordinates of the file of points of the world [m]."""
        origin = self.world.origin
        if origin is None or self._zone is None:
            return xyz
        from pymap3d import enu2geodetic

        east, north = _east_north(xyz, origin)
        lat, lon, _ = enu2geodetic(east, north, 0.0, origin.latitude_deg, origin.longitude_deg, 0.0)
        easting, northing = utm(np.asarray(lon), np.asarray(lat), self._zone)
        return np.stack([easting, northing, xyz[:, 2] + origin.altitude_m], axis=1)


def _east_north(vectors: Floats, origin: GeoOrigin) -> tuple[Floats, Floats]:
    azimuth = np.radians(origin.x_azimuth_deg)
    x, y = vectors[:, 0], vectors[:, 1]
    return x * np.sin(azimuth) - y * np.cos(azimuth), x * np.cos(azimuth) + y * np.sin(azimuth)


def zone_of(origin: GeoOrigin) -> int:
    """Zone of UTM of an origin, negative in the south."""
    zone = int((origin.longitude_deg + 180.0) // 6.0) % 60 + 1
    return zone if origin.latitude_deg >= 0.0 else -zone


def wkt_of(zone: int) -> str:
    """Well-known text of a zone of UTM on WGS 84 (EPSG 326xx and 327xx)."""
    north = zone > 0
    name = f"WGS 84 / UTM zone {abs(zone)}{'N' if north else 'S'}"
    return (
        f'PROJCS["{name}",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,'
        'AUTHORITY["EPSG","7030"]],AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],'
        'UNIT["degree",0.0174532925199433,AUTHORITY["EPSG","9122"]],AUTHORITY["EPSG","4326"]],'
        'PROJECTION["Transverse_Mercator"],PARAMETER["latitude_of_origin",0],'
        f'PARAMETER["central_meridian",{6 * abs(zone) - 183}],PARAMETER["scale_factor",0.9996],'
        f'PARAMETER["false_easting",500000],PARAMETER["false_northing",{0 if north else 10000000}],'
        'UNIT["metre",1,AUTHORITY["EPSG","9001"]],AXIS["Easting",EAST],AXIS["Northing",NORTH],'
        f'AUTHORITY["EPSG","{(32600 if north else 32700) + abs(zone)}"]]'
    )


def _world_directions(scan: Scan) -> Floats:
    """Direction of each shot in the world, shape (shots, 3)."""
    seconds, rows = np.unique(scan.start_time + scan.shots.time.astype(np.float64), return_inverse=True)
    _, quat = scan.motion.sample(seconds)
    return quat_rotate(quat[rows], scan.shots.direction.astype(np.float64))


def scan_angles_deg(scan: Scan, direction: Floats) -> Floats:
    """Angle of each shot from nadir across the flight direction [deg]; negative to the left, as LAS defines it.

    The flight direction is that of the velocity, or of the sensor's x axis at rest.
    """
    flight = velocity_at(scan.motion, scan.start_time)
    if np.hypot(flight[0], flight[1]) < 0.1:
        _, quat = scan.motion.sample(np.array([scan.start_time]))
        flight = quat_rotate(quat, np.array([[1.0, 0.0, 0.0]]))[0]
    right = np.array([flight[1], -flight[0], 0.0]) / max(float(np.hypot(flight[0], flight[1])), 1e-9)
    return np.degrees(np.arctan2(direction @ right, -direction[:, 2]))


class SurveySink:
    """Writes the survey of every lidar of a run; files appear at the end of the run."""

    def __init__(
        self, scenario: Scenario, folder: Path, *, waveforms: bool, epoch_s: float, index: float | None
    ) -> None:
        self._writers: dict[str, SurveyWriter] = {}
        lidars = list(scenario.giving(Scan))
        if not lidars:
            raise ConfigError("outputs: las: the scenario has no lidar")
        try:
            for one in lidars:
                writer = SurveyWriter(
                    folder / f"{one.name}.las",
                    scenario.world,
                    lidar=one.sensor if waveforms else None,
                    epoch_s=epoch_s,
                    index=index,
                )
                self._writers[one.name] = writer.__enter__()
        except BaseException:
            self.abandon()
            raise

    def take(self, step: Step) -> None:
        """Write the scans of a step, except those in turns."""
        for name, writer in self._writers.items():
            for _, scan in step.scans.get(name, ()):
                flight = flight_of(scan.motion)
                line = 0 if flight is None else int(flight.line([scan.start_time])[0])
                if flight is None or line:
                    writer.add(scan, line=line)

    def close(self) -> list[Path]:
        """Finish the files and return them."""
        files = []
        for writer in self._writers.values():
            writer.__exit__(None, None, None)
            files += writer.files
        self._writers = {}
        return files

    def abandon(self) -> None:
        """Remove incomplete files."""
        for writer in self._writers.values():
            error = ConfigError("the run was interrupted")
            try:
                writer.__exit__(ConfigError, error, None)
            except ConfigError:
                continue
        self._writers = {}
