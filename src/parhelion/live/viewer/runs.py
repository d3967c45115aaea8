"""View source of a finished run: clouds, images, other sensors, boxes, trajectories and collisions from its files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.contact.bodies import Collision
from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError, ParhelionError
from parhelion.core.frames import FramePoints
from parhelion.core.image import Image
from parhelion.core.pose import Pose, quat_rotate
from parhelion.core.streams import Samples
from parhelion.core.trajectory import Mounted, Waypoints, pose_at
from parhelion.io.formats import FORMATS, read_cloud
from parhelion.io.images import IMAGE_FORMATS, read_image
from parhelion.io.poses import read_tum
from parhelion.live.viewer.frames import CameraFrame, shot_of
from parhelion.live.viewer.layers import VIEWER, Dots, Segments, collision_marks
from parhelion.live.viewer.recordings import FileTrack, RecordingStage, path_of, placed
from parhelion.live.viewer.stages import MARKED_S, PlainBody, Request, ViewFrame, plain_bodies
from parhelion.outputs.collisions import NAME as COLLISIONS
from parhelion.outputs.files import FOLDER as PICTURES
from parhelion.outputs.manifest import MANIFEST, changed_inputs, manifest_in, scenario_folder
from parhelion.scenario.scenario import Scenario
from parhelion.sensors.kinds import kinds
from parhelion.sensors.sheets import YAML_SUFFIXES

BOX_COLOUR = (120, 220, 120)
MOST_COLLISIONS = 200
"""Maximum number of collisions that are marked."""
_MOST_QUANTITIES = 3
_AXES = ("x", "y", "z", "w")
_EDGES = [(0, 1), (1, 3), (3, 2), (2, 0), (4, 5), (5, 7), (7, 6), (6, 4), (0, 4), (1, 5), (2, 6), (3, 7)]
_CORNERS = np.array([[x, y, z] for z in (-0.5, 0.5) for y in (-0.5, 0.5) for x in (-0.5, 0.5)])


def is_run(path: Path) -> bool:
    """Return whether a path is the folder of a run."""
    return (path / MANIFEST).is_file()


class RunStage(RecordingStage):
    """Files of a finished run. Nothing is measured again; the sliders add weather to the recorded clouds."""

    def __init__(self, folder: Path) -> None:
        manifest = manifest_in(folder)
        if manifest is None or not isinstance(manifest.get("scenario"), dict):
            raise FormatError(f"{folder / MANIFEST}: is not the manifest of a run")
        self._folder, settings = folder, manifest["scenario"]
        self._entries = {str(one["name"]): one for one in _rows(settings, "sensors")}
        self._bodies = {str(one["name"]): _poses(folder, str(one["name"])) for one in _rows(settings, "vehicles")}
        clouds = {name: track for name in self._of(Scan) if (track := self._track(name, FORMATS.values())) is not None}
        pictures = {
            name: track
            for name in self._of(Image)
            if (track := self._track(name, IMAGE_FORMATS.values(), PICTURES)) is not None
        }
        if not clouds:
            raise FormatError(f"{folder}: the run has no clouds to show; its report is report.html")
        models = {name: self._model(str(self._entries[name]["model"])) for name in clouds}
        super().__init__(str(settings.get("name") or folder.name), clouds, models=models)
        self._pictures = pictures
        self.cameras = tuple(pictures)
        self._points = {
            name: (kind, track)
            for name, entry in self._entries.items()
            if (kind := _record_of(entry)) is not None and issubclass(kind, FramePoints)
            if (track := self._track(name, FORMATS.values())) is not None
        }
        self._samples = {name: table for name in self._of(Samples) if (table := _table(folder / f"{name}.csv"))}
        self._collisions = _collisions(folder / "truth" / COLLISIONS)
        self._images: dict[tuple[str, int], Image] = {}
        self._paths = [
            line for one in self._bodies.values() if one is not None and (line := path_of(one, one.times.tolist()))
        ]
        self.plain_bodies: tuple[PlainBody, ...] = ()
        self._load_world(settings)

    def _load_world(self, settings: Mapping[str, Any]) -> None:
        """Load the world with its vehicles on their recorded motions; a run without its world is shown without it."""
        vehicles = [_replayed(one, self._folder, self._bodies) for one in _rows(settings, "vehicles")]
        fields = {**settings, "vehicles": vehicles, "outputs": [], "report": False}
        place = scenario_folder(self._folder)
        changed = [f"{one}; the world may differ" for one in changed_inputs(self._folder, place)]
        self._unknown = "; ".join(filter(None, (self._unknown, *changed)))
        try:
            scenario = Scenario.from_mapping(fields, place)
        except ParhelionError as error:
            self._unknown = "; ".join(filter(None, (self._unknown, f"the world is not shown: {error}")))
            return
        self.world = scenario.world
        self.world.weather = None  # that of the run is in its clouds already
        sizes = {str(one["name"]): one.get("model") for one in _rows(settings, "vehicles")}
        self.plain_bodies = plain_bodies(scenario, sizes)

    def _model(self, name: str) -> str:
        """Preset, or the path of a data sheet, which the settings give relative to the scenario."""
        return str(scenario_folder(self._folder) / name) if name.lower().endswith(YAML_SUFFIXES) else name

    def _of(self, record: type) -> list[str]:
        return [name for name, one in self._entries.items() if issubclass(_record_of(one) or object, record)]

    def _track(self, name: str, formats: Any, subfolder: str = "") -> FileTrack | None:
        """Track of the numbered files of a sensor; None if there are none."""
        entry = self._entries[name]
        place = self._folder / str(entry.get("folder") or name) / subfolder
        endings = tuple(end for kind in formats for end in kind.endings)
        files = sorted(
            (one for one in (place.iterdir() if place.is_dir() else ()) if one.name.partition(".")[0].isdecimal()),
            key=lambda one: int(one.name.partition(".")[0]),
        )
        files = [one for one in files if one.name.lower().endswith(endings)]
        motion = _poses(self._folder, name)
        if not files or motion is None:
            return None
        numbers = np.array([int(one.name.partition(".")[0]) for one in files])
        if numbers[-1] >= len(motion.times):
            raise FormatError(f"{files[-1]}: {self._folder}/truth/{name}.tum has no pose of this frame")
        starts = motion.times[numbers].tolist()
        carrier = self._bodies.get(str(entry.get("vehicle")))
        if carrier is None or entry.get("link"):
            return FileTrack(files, starts, motion=motion)
        # The motion of the vehicle is recorded at every step, that of the sensor only at the start of each frame.
        mount = pose_at(carrier, starts[0]).inverse() @ pose_at(motion, starts[0])
        return FileTrack(files, starts, motion=Mounted(carrier, mount))

    # ---- other sensors -----------------------------------------------------------------------------------------

    def _with_others(self, found: ViewFrame, request: Request, time_s: float) -> ViewFrame:
        """Add images, points, samples, boxes, trajectories and collisions at a time [s]."""
        notes: list[str] = []
        dots: list[Dots] = []
        segments = list(self._paths)
        for name, (kind, track) in self._points.items():
            number = _nearest(track.starts, time_s)
            recorded = placed(read_cloud(track.files[number]), track.motion, track.starts[number])
            layer = VIEWER.require(kind)
            if layer.dots is not None and "snr" in recorded.fields:
                dots.append(layer.dots(recorded))
            notes.append(f"{name}: {len(recorded)} detections at {track.starts[number]:.3f} s")
        notes += [line for name, table in self._samples.items() if (line := _reading(name, table, time_s))]
        boxes = self._boxes(request, time_s)
        if boxes is not None:
            segments.append(boxes)
            notes.append(f"{len(boxes.ends) // len(_EDGES)} boxes")
        if self._collisions:
            marks, arrows = collision_marks([one for _, one in self._collisions])
            dots.append(marks)
            segments.append(arrows)
            recent = {(one.body, one.other): at for at, one in self._collisions if time_s - MARKED_S < at <= time_s}
            notes += [f"collision: {body} and {other} at {at:.2f} s" for (body, other), at in recent.items()]
        pictures = tuple(self._shots(request, found, time_s)) if request.pictures else ()
        return replace(
            found, notes=(*found.notes, *notes), dots=tuple(dots), segments=tuple(segments), pictures=pictures
        )

    def _shots(self, request: Request, found: ViewFrame, time_s: float) -> list[CameraFrame]:
        shots = []
        for name, track in self._pictures.items():
            number = _nearest(track.starts, time_s)
            if (name, number) not in self._images:
                self._images = {key: image for key, image in self._images.items() if key[0] != name}
                self._images[name, number] = read_image(track.files[number])
            over = found.cloud.xyz if request.points_over else None
            shots.append(shot_of(name, self._images[name, number], over))
        return shots

    def _boxes(self, request: Request, time_s: float) -> Segments | None:
        """Boxes of the first shown lidar, as written with `boxes: kitti` or `boxes: nuscenes`."""
        track = self._clock(request)
        assert isinstance(track, FileTrack)
        file = track.files[self._number(track, request)]
        place = file.parent.with_name(f"{file.parent.name}-boxes") / file.name.partition(".")[0]
        found = [reader(one) for end, reader in _BOXES.items() if (one := place.with_suffix(end)).is_file()]
        if not found:
            return None
        centres, sizes, quats, in_world = found[0]
        if not len(centres):
            return None
        corners = quat_rotate(np.repeat(quats, 8, axis=0), (_CORNERS * sizes[:, None, :]).reshape(-1, 3))
        corners = (corners.reshape(-1, 8, 3) + centres[:, None, :]).reshape(-1, 3)
        if not in_world and track.motion is not None:
            corners = pose_at(track.motion, track.starts[self._number(track, request)]).apply(corners)
        ends = corners.reshape(-1, 8, 3)[:, _EDGES].reshape(-1, 2, 3)
        return Segments(ends, np.tile(np.array(BOX_COLOUR, np.uint8), (len(ends), 2, 1)))


def _rows(settings: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [one for one in settings.get(name) or () if isinstance(one, Mapping)]


def _record_of(entry: Mapping[str, Any]) -> type | None:
    kind = kinds().get(str(entry.get("type")))
    return None if kind is None else kind.record_type


def _poses(folder: Path, name: str) -> Waypoints | None:
    """Recorded poses of a vehicle or a sensor."""
    file = folder / "truth" / f"{name}.tum"
    if not file.is_file():
        return None
    poses = read_tum(file)
    return Waypoints(
        poses.times.tolist(), [Pose(xyz, quat) for xyz, quat in zip(poses.xyz, poses.quat_xyzw, strict=True)]
    )


def _replayed(vehicle: Mapping[str, Any], folder: Path, bodies: Mapping[str, Waypoints | None]) -> Mapping[str, Any]:
    """Entry of a vehicle that moves as it was recorded."""
    name = str(vehicle["name"])
    if bodies.get(name) is None:
        return vehicle
    driven = ("model", "dynamics", "follow", "mjcf", "wake", "raises_dust", "raises_spray")
    recorded = {"recorded": {"file": str((folder / "truth" / f"{name}.tum").absolute())}}
    return {**{key: value for key, value in vehicle.items() if key not in driven}, "motion": recorded}


def _nearest(starts: Sequence[float], time_s: float) -> int:
    return int(np.argmin(np.abs(np.asarray(starts) - time_s)))


# ---- readers of the other files -------------------------------------------------------------------------------------


def _table(file: Path) -> tuple[list[str], np.ndarray[Any, Any]] | None:
    """Names and values of a CSV file of samples; None without samples."""
    if not file.is_file():
        return None
    with file.open(encoding="utf-8", errors="replace") as stream:
        names = stream.readline().strip().split(",")
        try:
            values = np.loadtxt(stream, delimiter=",", ndmin=2)
        except ValueError as error:
            raise FormatError(f"{file}: cannot be read as a table of samples ({error})") from None
    return (names, values) if len(values) and values.shape[1] == len(names) else None


def _reading(name: str, table: tuple[list[str], np.ndarray[Any, Any]], time_s: float) -> str:
    """Text with the last sample before a time [s]."""
    names, values = table
    row = int(np.searchsorted(values[:, 0], time_s + 1e-9, side="right")) - 1
    if row < 0:
        return ""
    grouped: dict[str, list[str]] = {}
    for word, value in zip(names[1:], values[row, 1:], strict=True):
        stem, _, axis = word.rpartition("_")
        grouped.setdefault(stem if axis in _AXES else word, []).append(f"{value:.3g}")
    parts = [f"{word.replace('_', ' ')} {', '.join(shown)}" for word, shown in grouped.items()]
    more = f"; {len(parts) - _MOST_QUANTITIES} more" if len(parts) > _MOST_QUANTITIES else ""
    return f"{name}: {'; '.join(parts[:_MOST_QUANTITIES])}{more}"


def _collisions(file: Path) -> list[tuple[float, Collision]]:
    """Times and collisions of a run, the first contact of each pair of bodies within `MARKED_S`."""
    if not file.is_file():
        return []
    found: list[tuple[float, Collision]] = []
    last: dict[tuple[str, str], float] = {}
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            at, pair = float(one.pop("time_s")), (str(one["body"]), str(one["other"]))
            if at - last.get(pair, -np.inf) > MARKED_S and len(found) < MOST_COLLISIONS:
                xyz, normal = (tuple(float(v) for v in one[key]) for key in ("xyz", "normal"))
                found.append((at, Collision(*pair, xyz, normal, float(one["impulse_n_s"]))))  # type: ignore[arg-type]
            last[pair] = at
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{file}: cannot be read as the collisions of a run ({error})") from None
    return found


_Boxes = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], bool]


def _kitti_boxes(file: Path) -> _Boxes:
    """Centres, sizes and quaternions of a KITTI label file in lidar axes."""
    rows = [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    try:
        numbers = np.array([[float(word) for word in row[8:15]] for row in rows]).reshape(-1, 7)
    except ValueError:
        raise FormatError(f"{file}: is not a KITTI label file") from None
    height, width, length, yaw = numbers[:, 0], numbers[:, 1], numbers[:, 2], numbers[:, 6]
    centres = numbers[:, 3:6] + np.stack([0.0 * height, 0.0 * height, 0.5 * height], axis=1)
    quats = np.stack([0.0 * yaw, 0.0 * yaw, np.sin(yaw / 2), np.cos(yaw / 2)], axis=1)
    return centres, np.stack([length, width, height], axis=1), quats, False


def _nuscenes_boxes(file: Path) -> _Boxes:
    """Centres, sizes and quaternions of a file of annotations in the world frame."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        rows = [one for sample in content["results"].values() for one in sample]
        centres = np.array([one["translation"] for one in rows], np.float64).reshape(-1, 3)
        sizes = np.array([one["size"] for one in rows], np.float64).reshape(-1, 3)[:, [1, 0, 2]]
        quats = np.array([one["rotation"] for one in rows], np.float64).reshape(-1, 4)[:, [1, 2, 3, 0]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FormatError(f"{file}: is not a file of boxes") from None
    return centres, sizes, quats, True


_BOXES = {".txt": _kitti_boxes, ".json": _nuscenes_boxes}
