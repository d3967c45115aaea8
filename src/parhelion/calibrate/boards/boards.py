"""Boards files, which list recordings of material boards, and the data sheet that results from them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from parhelion.calibrate.beam_angles import recorded_channels
from parhelion.calibrate.boards.find import Board, find_boards
from parhelion.calibrate.boards.held_out import HeldOutScore, compare
from parhelion.calibrate.boards.profile import BrdfFit, MaterialShots, fit_profile, material_shots, taken_at, together
from parhelion.calibrate.boards.shots import PACKED_ENDING, TEXT_ENDINGS, BoardShots, read_shots
from parhelion.calibrate.range_images import Mask, range_image
from parhelion.calibrate.sheet import SheetChanges, calibrated_sheet, short, with_changes
from parhelion.core.config import Config, load
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.recordings import clouds_of
from parhelion.makers.scales import scale_called
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile, RatedRange
from parhelion.sensors.optics.lidar.link_budget import UnphysicalExtinctionWarning, overlap_share, two_targets

MOST_DRAWN = 20_000
"""Largest number of shots kept for the picture of a recording, drawn at random because every n-th may share a ring."""


SAME_OFFSET_M = 0.015
"""Tolerance of a common offset between stated and measured distances."""
OTHER_SIDE_DEG = 30.0
"""Azimuth between two surfaces above which they are on different sides of the sensor, not board and background."""


class BoardEntry(Config):
    """One recording of one board."""

    material: Annotated[str, Field(min_length=1)]
    """Name that worlds use for the material."""
    recording: str
    """File or folder, relative to the boards file."""
    distance_m: Annotated[float, Field(gt=0)] | None = None
    """Approximate distance of the board [m], within 20 % or 0.1 m; by default the nearest board at any distance."""
    width_m: Annotated[float, Field(gt=0)] | None = None
    """Width of the board [m]; by default its edges are detected."""
    azimuth_deg: tuple[float, float] | None = None
    """Sector that contains the board, for recordings of several boards [deg]."""
    topic: str | None = None
    """Topic of a bag with several topics of clouds or laser scans."""


class BoardsFile(Config):
    """Contents of a boards file."""

    boards: list[BoardEntry] = Field(default_factory=list)
    """Recordings of boards."""
    targets: list[RatedRange] = Field(default_factory=list, max_length=2)
    """Longest detection ranges of two targets of known reflectance, which determine the system constant."""
    statistics: Literal["profile", "apollosim"] = "profile"
    """Statistics of intensities. `apollosim` counts lost shots as intensity 0, as ApolloSim does."""


class Stage(NamedTuple):
    """One step of a calibration from boards."""

    kind: Literal["read", "board", "profile", "held-out", "sheet"]
    material: str = ""
    recording: str = ""


@dataclass(frozen=True, eq=False)
class RecordingResult:
    """Shots that were selected from one recording."""

    material: str
    name: str
    """Path as written in the boards file."""
    shots: int
    board: Board | None = None
    """None until the board is found."""
    taken: int = 0
    lost: int = 0
    """Number of selected shots without a return."""
    some: BoardShots | None = None
    """Sample of the shots for a picture, at most `MOST_DRAWN`."""
    some_taken: Mask | None = None


@dataclass(frozen=True, eq=False)
class MaterialResult:
    """Result of all boards of one material."""

    name: str
    profile: MaterialProfile
    brdf: BrdfFit | None
    shots: MaterialShots
    boards: list[Board]
    comparison: HeldOutScore | None = None
    """None until the held-out comparison is done."""


@dataclass(frozen=True, eq=False)
class BoardCalibration:
    """Result of a boards file."""

    sheet: LidarConfig
    """Calibrated data sheet; the preset until the calibration is finished."""
    preset: LidarConfig
    materials: list[MaterialResult]
    notes: list[str] = field(default_factory=list)
    recordings: list[RecordingResult] = field(default_factory=list)
    stages: tuple[Stage, ...] = ()
    """All stages in order."""
    done: int = 0
    """Number of finished stages."""


Watch = Callable[[Stage, BoardCalibration], None]


def read_boards(path: str | PathLike[str]) -> BoardsFile:
    """Load a boards file and check that its recordings exist."""
    file = Path(path)
    content = load(BoardsFile, file)
    if not content.boards and not content.targets:
        raise ConfigError(f"{file}: lists neither boards nor targets")
    for entry in content.boards:
        if not (file.parent / entry.recording).exists():
            raise FormatError(f"{file.parent / entry.recording}: no such file")
    return content


def stages_of(content: BoardsFile) -> tuple[Stage, ...]:
    """Stages of a calibration, ordered by material."""
    found: list[Stage] = []
    for name in dict.fromkeys(entry.material for entry in content.boards):
        for entry in content.boards:
            if entry.material == name:
                found += [Stage("read", name, entry.recording), Stage("board", name, entry.recording)]
        found += [Stage("profile", name), Stage("held-out", name)]
    return (*found, Stage("sheet"))


def calibrate_boards(
    path: str | PathLike[str], preset: LidarConfig, *, seed: int = 1, watch: Watch | None = None
) -> BoardCalibration:
    """Data sheet with the profiles of all materials of a boards file, and the system constant from its targets.

    `watch` is called after each stage with the stage and the results so far.
    """
    file = Path(path)
    work = _Work(file, read_boards(file), preset, seed, watch)
    for name in dict.fromkeys(entry.material for entry in work.content.boards):
        work.material(name)
    return work.result()


class _Work:
    """State of a running calibration."""

    def __init__(self, file: Path, content: BoardsFile, preset: LidarConfig, seed: int, watch: Watch | None) -> None:
        self.file, self.content, self.preset, self.seed, self.watch = file, content, preset, seed, watch
        self.stages = stages_of(content)
        self.done = 0
        self.recordings: list[RecordingResult] = []
        self.materials: list[MaterialResult] = []
        self.notes: list[str] = []
        self.nearest_m = np.inf
        self.channels: dict[str, Any] | None = None
        self.distances: list[tuple[str, float | None, float]] = []

    def material(self, name: str) -> None:
        """Evaluate all boards of one material."""
        numbers = [number for number, entry in enumerate(self.content.boards) if entry.material == name]
        parts, boards = zip(*(self._recording(number) for number in numbers), strict=True)
        apollosim = self.content.statistics == "apollosim"
        try:
            result = material_result(
                name, together(list(parts)), list(boards), self.preset, self.notes, apollosim=apollosim
            )
            self.materials.append(result)
            self._next()
            self.materials[-1] = replace(result, comparison=compare(result.shots, seed=self.seed))
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
        self._next()

    def _recording(self, number: int) -> tuple[MaterialShots, Board]:
        """Shots at the board of one recording."""
        entry = self.content.boards[number]
        where = self.file.parent / entry.recording
        every = read_shots(where, topic=entry.topic)
        if self.channels is None:
            self.channels = unit_channels(where, entry.topic, self.preset)
        self.recordings.append(RecordingResult(entry.material, entry.recording, len(every)))
        self._next()
        taken = in_sector(every, entry.azimuth_deg)
        shots = every.rows(taken)
        try:
            board = self._board(entry, shots)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        taken[taken] = taken_at(board, shots)
        self.recordings[-1] = recording_result(entry, every, board, taken)
        self.nearest_m = float(np.nanmin(every.range[taken], initial=self.nearest_m))
        self._next()
        return _at_reference(material_shots(board, every.rows(taken), number), board, self.preset), board

    def _board(self, entry: BoardEntry, shots: BoardShots) -> Board:
        """Board of one recording. A sector outweighs a stated distance at which it contains no board."""
        try:
            board, *others = find_boards(shots, distance_m=entry.distance_m, width_m=entry.width_m, seed=self.seed)
        except ConfigError:
            if entry.distance_m is None or entry.azimuth_deg is None:
                raise
            board, *others = find_boards(shots, width_m=entry.width_m, seed=self.seed)
            self.notes.append(
                f"{entry.material}: distance_m: {entry.distance_m:g} m is stated, but the board in this sector is at "
                f"{board.distance_m:.3f} m, which is used"
            )
        for other in others:
            turned = abs((other.azimuth_deg - board.azimuth_deg + 180.0) % 360.0 - 180.0)
            if entry.distance_m is None and other.faces_sensor and turned > OTHER_SIDE_DEG:
                self.notes.append(
                    f"{entry.material}: the board at {board.distance_m:.2f} m and {board.azimuth_deg:.0f} deg is used; "
                    f"a surface at {other.distance_m:.2f} m and {other.azimuth_deg:.0f} deg faces the sensor as well; "
                    "give distance_m or azimuth_deg"
                )
        self.distances.append((entry.material, entry.distance_m, board.distance_m))
        return board

    def result(self) -> BoardCalibration:
        """Final result with the calibrated data sheet."""
        self.notes += distance_notes(self.distances)
        changed: dict[str, Any] = {}
        if self.channels is not None:
            changed["pattern.channels"] = self.channels
            self.notes.append("pattern.channels: the beam angles of the recorded unit are used")
        if self.nearest_m < (least := self.preset.range.min_m):
            changed["range.min_m"] = float(np.floor(1e3 * self.nearest_m) / 1e3)
            self.notes.append(
                f"range.min_m: returns at {self.nearest_m:.3f} m are recorded; the preset has {least:g} m"
            )
        content = self.content
        return self._next(_sheet(self.preset, changed, self.materials, content.targets, self.file.name, self.notes))

    def _next(self, sheet: LidarConfig | None = None) -> BoardCalibration:
        """Results after one more stage; without a sheet they hold the preset."""
        self.done += 1
        found = BoardCalibration(
            sheet or self.preset,
            self.preset,
            list(self.materials),
            list(self.notes),
            list(self.recordings),
            self.stages,
            self.done,
        )
        if self.watch is not None:
            self.watch(self.stages[self.done - 1], found)
        return found


def unit_channels(path: Path, topic: str | None, preset: LidarConfig) -> dict[str, Any] | None:
    """Channels with the beam angles of the unit, from the first cloud of a recording; None without angles."""
    if path.suffix.lower() in (*TEXT_ENDINGS, PACKED_ENDING):
        return None
    try:
        _, cloud = next(iter(clouds_of(path, topic=topic)))
        channels = recorded_channels(range_image(cloud), preset)
    except FormatError:  # laser scans, and clouds without rings
        return None
    return None if isinstance(channels, str) else channels


def distance_notes(distances: list[tuple[str, float | None, float]]) -> list[str]:
    """Notes on stated distances, from material, stated and measured distance [m] of each recording.

    Distances are often measured from a point of the housing. The measured ones are used in any case; the notes report a
    common offset of three boards or more, and stated distances that do not share it.
    """
    known = [(name, stated, stated - measured) for name, stated, measured in distances if stated is not None]
    if len(known) < 3:
        return []
    common = float(np.median([offset for *_, offset in known]))
    same = [offset for *_, offset in known if abs(offset - common) <= SAME_OFFSET_M]
    if len(same) < 3 or abs(common) < SAME_OFFSET_M:
        return []
    notes = [
        f"stated distances exceed the measured ones by {np.mean(same):.3f} m (standard deviation {np.std(same):.3f} m, "
        f"{len(same)} boards): they are measured from another point than the ranges"
    ]
    return notes + [
        f"{name}: the stated distance {stated:g} m does not share this offset; {stated - offset + common:.3f} m would"
        for name, stated, offset in known
        if abs(offset - common) > SAME_OFFSET_M
    ]


def recording_result(entry: BoardEntry, shots: BoardShots, board: Board, taken: Mask) -> RecordingResult:
    """Selected shots of a recording, with a sample of all its shots for a picture."""
    some = np.ones(len(shots), bool)
    if len(shots) > MOST_DRAWN:
        some[np.random.default_rng(1).choice(len(shots), len(shots) - MOST_DRAWN, replace=False)] = False
    lost = int((taken & shots.lost).sum())
    return RecordingResult(
        entry.material, entry.recording, len(shots), board, int(taken.sum()), lost, shots.rows(some), taken[some]
    )


def in_sector(shots: BoardShots, azimuth_deg: tuple[float, float] | None) -> Mask:
    """Mask of shots between two azimuths, counter-clockwise from the first to the second."""
    if azimuth_deg is None:
        return np.ones(len(shots), bool)
    azimuth = np.degrees(np.arctan2(shots.direction[:, 1], shots.direction[:, 0]))
    inside: Mask = (azimuth - azimuth_deg[0]) % 360.0 <= (azimuth_deg[1] - azimuth_deg[0]) % 360.0
    return inside


def _reference_m(preset: LidarConfig) -> float:
    """Reference range [m] of stored intensities, for scales that fall with range."""
    return 5.0 if scale_called(preset.intensity.scale).linear_in_power else 1.0


def _at_reference(seen: MaterialShots, board: Board, preset: LidarConfig) -> MaterialShots:
    """Intensities converted to the reference distance, for scales that are linear in power."""
    if not scale_called(preset.intensity.scale).linear_in_power:
        return seen
    far = board.distance_m / np.cos(np.radians(np.minimum(seen.angle_deg, 89.0)))
    here = _reference_m(preset)
    ratio = overlap_share(preset.range.overlap, here) / here**2 / (overlap_share(preset.range.overlap, far) / far**2)
    return replace(seen, intensity=seen.intensity * ratio)


def material_result(
    name: str,
    shots: MaterialShots,
    boards: list[Board],
    preset: LidarConfig,
    notes: list[str],
    *,
    apollosim: bool = False,
) -> MaterialResult:
    """Profile of one material with filled gaps; messages for the user are appended to `notes`."""
    apart = shots
    if apollosim:
        lost = np.isnan(shots.error_m)
        shots = replace(
            shots, error_m=np.where(lost, 0.0, shots.error_m), intensity=np.where(lost, 0.0, shots.intensity)
        )
    profile, brdf = fit_profile(shots, reference_m=_reference_m(preset))
    if apollosim:
        # These statistics contain lost shots twice: in mean and deviation, and in the drop rate.
        plain, _ = fit_profile(apart, gaps=False)
        known = np.asarray(plain.shots) > 0
        rate = np.where(known, plain.drop, profile.drop)
        error = np.where(known, plain.drop_error, profile.drop_error)
        profile = profile.model_copy(update={"drop": rate.tolist(), "drop_error": error.tolist()})
    if not shots.knows_lost:
        notes.append(f"{name}: the recording contains no lost shots, so the drop rate is unknown and assumed to be 0")
    elif not np.isnan(shots.error_m).any() and not apollosim:
        notes.append(
            f"{name}: none of {len(shots)} shots is lost; if the recording omits lost shots, the drop rate is unknown"
        )
    if brdf is None and min(profile.shots) == 0:
        low, high = profile.recorded_deg
        notes.append(
            f"{name}: no reflection model predicts its angles better than a constant, so outside {low:g} to {high:g} "
            "deg the sensor's default noise is used"
        )
    return MaterialResult(name, profile, brdf, shots, boards)


def _sheet(
    preset: LidarConfig,
    changed: dict[str, Any],
    results: list[MaterialResult],
    targets: list[RatedRange],
    recording: str,
    notes: list[str],
) -> LidarConfig:
    """Preset with measured fields `changed`, the profiles of materials, and rated ranges from targets."""
    before = preset.calibration
    known = SheetChanges(changed) if before is None else SheetChanges(changed, before.error, before.kept)
    sheet = calibrated_sheet(preset, known, recording, frames=0)
    assert sheet.calibration is not None
    section = sheet.calibration.model_dump()
    for result in results:
        section["materials"][result.name] = result.profile.model_dump()
    changes: dict[str, object] = {}
    if targets:
        changes["range.rated"], entry = _from_targets(preset, targets, notes)
        section["constants"].append(entry)
    return with_changes(sheet, {**changes, "calibration": section})


def _from_targets(
    preset: LidarConfig, targets: list[RatedRange], notes: list[str]
) -> tuple[list[dict[str, float]], dict[str, object]]:
    """Rated ranges equivalent to two targets, and the system constant that they determine (Huang 2023)."""
    if len(targets) != 2:
        raise ConfigError("targets: give two targets of different reflectance, each with its longest range")
    (one, two) = targets
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnphysicalExtinctionWarning)
        constant = two_targets([one.reflectance, two.reflectance], [one.range_m, two.range_m])
    notes += [str(warning.message) for warning in caught]
    entry = {
        "source": f"two targets, {one.range_m:g} m at {one.reflectance:g} and {two.range_m:g} m at {two.reflectance:g}",
        "k_m2": short(constant.k_m2, 6),
        "gamma_per_m": short(constant.gamma_per_m, 5),
    }
    if not caught:
        return [target.model_dump() for target in targets], entry
    # Without extinction one range determines the constant: that of the second target by the constant of both.
    reach = float(constant.max_range(two.reflectance))
    return [{"reflectance": two.reflectance, "range_m": round(reach, 3), "detection": two.detection}], entry
