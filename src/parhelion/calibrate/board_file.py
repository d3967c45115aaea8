"""Boards files: which recordings show which materials, and the data sheet that comes of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from parhelion.calibrate.board_find import Board, find_board
from parhelion.calibrate.board_shots import BoardShots, read_shots
from parhelion.calibrate.brdf_fit import BrdfFit
from parhelion.calibrate.held_out import Comparison, compare
from parhelion.calibrate.profile_fit import MaterialShots, fit_profile, shots_at, together
from parhelion.calibrate.sheet import calibrated_sheet, short, with_changes
from parhelion.core.config import Config, load
from parhelion.core.errors import ConfigError
from parhelion.sensors.lidar.config import LidarConfig, RatedRange
from parhelion.sensors.lidar.link_budget import UnphysicalExtinctionWarning, two_targets
from parhelion.sensors.lidar.overlap import overlap_share
from parhelion.sensors.lidar.profile import MaterialProfile

POWER_SCALES = ("ouster", "power")
"""Scales of intensity that fall with range as the signal does: intensities are kept at one distance."""


class BoardEntry(Config):
    """One recording of one board."""

    material: Annotated[str, Field(min_length=1)]
    """Name that worlds use for the material."""
    recording: str
    """File or folder, relative to the boards file."""
    distance_m: Annotated[float, Field(gt=0)] | None = None
    """Distance of the board, where it shall not be looked for everywhere."""
    width_m: Annotated[float, Field(gt=0)] | None = None
    """Width of the board, where its edges shall not be looked for."""
    azimuth_deg: tuple[float, float] | None = None
    """Sector that the board lies in, where several are in one recording."""
    topic: str | None = None


class BoardsFile(Config):
    """What a boards file may say."""

    boards: list[BoardEntry] = Field(default_factory=list)
    targets: list[RatedRange] = Field(default_factory=list, max_length=2)
    """Longest ranges at which two targets of known reflectance were seen: they give the system constant."""
    statistics: Literal["profile", "apollosim"] = "profile"
    """ApolloSim's own statistics fold drops into the intensities, as value 0."""


@dataclass(frozen=True, eq=False)
class MaterialResult:
    """What the boards of one material showed."""

    name: str
    profile: MaterialProfile
    brdf: BrdfFit | None
    shots: MaterialShots
    boards: list[Board]
    comparison: Comparison


@dataclass(frozen=True, eq=False)
class BoardCalibration:
    """What the boards of a file showed."""

    sheet: LidarConfig
    preset: LidarConfig
    materials: list[MaterialResult]
    notes: list[str] = field(default_factory=list)


def calibrate_boards(path: str | PathLike[str], preset: LidarConfig, *, seed: int = 1) -> BoardCalibration:
    """The data sheet with the profiles of all materials of a boards file, and the constant from its targets."""
    file = Path(path)
    content = load(BoardsFile, file)
    if not content.boards and not content.targets:
        raise ConfigError(f"{file}: names neither boards nor targets")
    notes: list[str] = []
    parts: dict[str, list[MaterialShots]] = {}
    boards: dict[str, list[Board]] = {}
    for number, entry in enumerate(content.boards):
        where = file.parent / entry.recording
        try:
            shots = in_sector(read_shots(where, topic=entry.topic), entry.azimuth_deg)
            board = find_board(shots, distance_m=entry.distance_m, width_m=entry.width_m, seed=seed)
            seen = shots_at(board, shots, number)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        parts.setdefault(entry.material, []).append(_at_reference(seen, board, shots, preset))
        boards.setdefault(entry.material, []).append(board)
    as_apollosim = content.statistics == "apollosim"
    results = [
        material_result(name, together(own), boards[name], preset, notes, seed, apollosim=as_apollosim)
        for name, own in parts.items()
    ]
    sheet = _sheet(preset, results, content.targets, file.name, notes)
    return BoardCalibration(sheet, preset, results, notes)


def in_sector(shots: BoardShots, azimuth_deg: tuple[float, float] | None) -> BoardShots:
    """The shots between two azimuths, counter-clockwise from the first to the second."""
    if azimuth_deg is None:
        return shots
    azimuth = np.degrees(np.arctan2(shots.direction[:, 1], shots.direction[:, 0]))
    return shots.select((azimuth - azimuth_deg[0]) % 360.0 <= (azimuth_deg[1] - azimuth_deg[0]) % 360.0)


def _reference_m(preset: LidarConfig) -> float:
    """Range at which intensities are kept, for scales that fall with range."""
    return 5.0 if preset.intensity.scale in POWER_SCALES else 1.0


def _at_reference(seen: MaterialShots, board: Board, shots: BoardShots, preset: LidarConfig) -> MaterialShots:
    """Intensities as they would be at the reference distance, for scales of power."""
    if preset.intensity.scale not in POWER_SCALES:
        return seen
    far = board.distance_m / np.cos(np.radians(np.minimum(seen.angle_deg, 89.0)))
    here = _reference_m(preset)
    ratio = overlap_share(preset.range.overlap, here) / here**2 / (overlap_share(preset.range.overlap, far) / far**2)
    return MaterialShots(
        seen.angle_deg, seen.error_m, seen.intensity * ratio, seen.distance_m, seen.knows_lost, seen.board
    )


def material_result(
    name: str,
    shots: MaterialShots,
    boards: list[Board],
    preset: LidarConfig,
    notes: list[str],
    seed: int = 1,
    *,
    apollosim: bool = False,
) -> MaterialResult:
    """Profile, gaps and held-out comparison of one material; what a user should know goes into `notes`."""
    apart = shots
    if apollosim:
        lost = np.isnan(shots.error_m)
        level = np.where(lost, 0.0, shots.intensity)
        shots = MaterialShots(
            shots.angle_deg, np.where(lost, 0.0, shots.error_m), level, shots.distance_m, shots.knows_lost, shots.board
        )
    try:
        profile, brdf = fit_profile(shots, reference_m=_reference_m(preset))
        comparison = compare(shots, seed=seed)
        if apollosim:
            # Drops are felt twice there: in mean and deviation, and by their rate.
            plain, _ = fit_profile(apart, gaps=False)
            known = np.asarray(plain.shots) > 0
            rate = np.where(known, plain.drop, profile.drop)
            error = np.where(known, plain.drop_error, profile.drop_error)
            profile = profile.model_copy(update={"drop": rate.tolist(), "drop_error": error.tolist()})
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    if not shots.knows_lost:
        notes.append(f"{name}: the recording does not tell lost shots, so the drop rate is unknown and taken as 0")
    elif not np.isnan(shots.error_m).any() and not apollosim:
        notes.append(
            f"{name}: not one of {len(shots)} shots is lost; if lost shots were left out, the drop rate is unknown"
        )
    if brdf is None and min(profile.shots) == 0:
        low, high = profile.recorded_deg
        notes.append(
            f"{name}: no reflection model foretells its angles better than a constant, so outside {low:g} to {high:g} "
            "deg the sensor's usual noise is used"
        )
    return MaterialResult(name, profile, brdf, shots, boards, comparison)


def _sheet(
    preset: LidarConfig, results: list[MaterialResult], targets: list[RatedRange], recording: str, notes: list[str]
) -> LidarConfig:
    before = preset.calibration
    kept = {} if before is None else before.kept
    error = {} if before is None else before.error
    sheet = calibrated_sheet(preset, {}, error, kept, recording=recording, turns=0)
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
    """The rated ranges that two targets stand for, and the constant that they give (Huang 2023)."""
    if len(targets) != 2:
        raise ConfigError("targets: two targets of different reflectance are needed, with the longest range of each")
    (one, two) = targets
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnphysicalExtinctionWarning)
        constant = two_targets([one.reflectance, two.reflectance], [one.range_m, two.range_m])
    notes += [str(warning.message) for warning in caught]
    entry = {
        "source": f"two targets, {one.range_m:g} m at {one.reflectance:g} and {two.range_m:g} m at {two.reflectance:g}",
        "k_m2": short(constant.k_m2, 6), "gamma_per_m": short(constant.gamma_per_m, 5),
    }  # fmt: skip
    if not caught:
        return [target.model_dump() for target in targets], entry
    # With the extinction at 0 one range says it all: that of the second target by the constant of both.
    reach = float(constant.max_range(two.reflectance))
    return [{"reflectance": two.reflectance, "range_m": round(reach, 3), "detection": two.detection}], entry
