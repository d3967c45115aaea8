"""Data sheet of a sensor from any drive, by planes, neighbouring pixels and repeated observations.

Steps: read → join → steps → timing → threshold → overlap → noise → beams → saturation → rated range → sheet. Each step
gives values with errors, or the reason why the recording does not determine them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from parhelion.calibrate.beam_angles import recorded_channels, rows_of_channels
from parhelion.calibrate.drive.channels import BeamAngles, RowErrors, channel_errors
from parhelion.calibrate.drive.detection import Saturation, Threshold, dropout, fit_threshold, saturation, step_of
from parhelion.calibrate.drive.overlap import Overlap
from parhelion.calibrate.drive.overlap_fields import overlap_changes
from parhelion.calibrate.drive.range_noise import (
    RangeNoise,
    SigmaLaw,
    fit_law,
    range_noise,
    repeated_noise,
    slope_jitter,
)
from parhelion.calibrate.drive.timing import Timing, fit_timing, timing_changes
from parhelion.calibrate.range_images import Floats, RangeImage, is_stationary, joined, mean_level
from parhelion.calibrate.sheet import SheetChanges, calibrated_sheet, with_changes
from parhelion.core.errors import ConfigError
from parhelion.makers.scales import FULL_SCALE_POWER, scale_called
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import (
    SystemConstant,
    max_range,
    overlap_share,
    power_with_chance,
    system_constant,
    threshold_photons,
)

# ---- Beam angles in the channel order of a sheet, from planes -------------------------------------------------------


DIGITS = 4
"""Decimal places of angles [deg]: the best steps between rows have errors of 0.003."""


def corrected(channels: Mapping[str, Any], name: str, found: BeamAngles) -> list[float]:
    """Angles of a sheet's channels, `elevation_deg` or `azimuth_deg`, with the measured corrections.

    Channels that planes do not constrain keep their angles. Sheets list channels in the maker's order; image rows start
    at the highest ring.
    """
    row = rows_of_channels(channels)
    before = channels.get(name)
    angle = np.zeros(len(row)) if before is None else np.asarray(before, np.float64)
    return [
        round(float(value + more), DIGITS) if resolved else float(value)
        for value, more, resolved in zip(angle, found.correction[row], found.resolved[row], strict=True)
    ]


# ---- drive ----------------------------------------------------------------------------------------------------------


PHOTON_EDGES = (4.0, 8.0, 12.0, 17.0, 25.0, 50.0, 100.0, 200.0, np.inf)
RANGE_EDGES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 40.0, 60.0, 100.0, 200.0)
MOST_UNKNOWN = 0.7
"""Relative error above which a value counts as unknown."""
INTERVAL = 1.96
"""Half width of a 95 % interval in standard errors."""


@dataclass(frozen=True, eq=False)
class DriveCalibration:
    """Calibration of a sensor from a recording of a drive."""

    sheet: LidarConfig
    """Preset with the measured values."""
    preset: LidarConfig
    turn: RangeImage
    """All frames side by side."""
    turns: int
    changed: dict[str, Any] = field(default_factory=dict)
    """New values of the sheet, by field path."""
    error: dict[str, float] = field(default_factory=dict)
    """Half width of the 95 % interval of each new value; for lists, the median over their entries, and for the overlap
    curve relative to its values."""
    kept: dict[str, str] = field(default_factory=dict)
    """Fields that keep the value of the preset, each with the reason."""
    overlap: Overlap | None = None
    noise: RangeNoise | None = None
    """Range noise by photons, or by power in units of the threshold if the sensor reports reflectivity only."""
    noise_by_range: RangeNoise | None = None
    law: SigmaLaw | None = None
    bias: RowErrors | None = None
    angles: BeamAngles | None = None
    """Elevation errors."""
    azimuths: BeamAngles | None = None
    """Azimuth errors, including firing times."""
    timing: Timing | None = None
    threshold: Threshold | None = None
    saturation: Saturation | None = None
    lost: list[tuple[float, float, int, int]] = field(default_factory=list)
    """Dropout by signal: from, to, pixels on surfaces, lost ones."""
    constant: SystemConstant | None = None
    level: str = "photons"
    """Axis of `noise` and `lost`."""


def calibrate_drive(
    frames: Sequence[RangeImage],
    preset: LidarConfig,
    *,
    recording: str = "recording",
    standing: bool = False,
    seed: int = 1,
    watch: Callable[[str, DriveCalibration], None] | None = None,
) -> DriveCalibration:
    """Data sheet of the sensor that recorded these frames, starting from `preset`.

    `standing`: the sensor is stationary, and repeated observations of each pixel give the range noise. Without it, a
    stationary recording of several frames is rejected, because all frames show the same surfaces. `watch` is called
    after each stage with its name and the results so far. ConfigError is raised if nothing can be measured.
    """
    if not frames:
        raise ConfigError(f"{recording}: contains no frame")
    if len(frames) > 1 and is_stationary(frames) and not standing:
        raise ConfigError(
            f"{recording}: the sensor is stationary in {len(frames)} frames, so all of them show the same surfaces; "
            "use a moving recording, select one frame (--turn 0), or use repeated observations (--standing)"
        )
    every = joined(frames)
    rings = len(getattr(getattr(preset.pattern, "channels", None), "elevation_deg", []))
    if rings and rings != every.range.shape[0]:
        raise ConfigError(
            f"{recording}: has {every.range.shape[0]} rows, but {preset.name} has {rings}: it is another sensor"
        )
    if every.returned.sum() < 500:
        raise ConfigError(f"{recording}: only {int(every.returned.sum())} returns, too few to calibrate from")
    work = _Work(every, list(frames), preset, recording, standing, seed)
    # Overlap, noise and rated range need the threshold, and the noise needs the range step.
    for step in (
        work.steps,
        work.timing,
        work.channels,
        work.threshold,
        work.overlap,
        work.noise,
        work.bias,
        work.angles,
        work.azimuths,
        work.saturation,
        work.rated,
    ):
        step()
        if watch is not None:
            watch(step.__name__, work.so_far())
    return work.result()


class _Work:
    """State of a running calibration: each step adds to `found`, or records in `kept` why it cannot."""

    def __init__(
        self,
        frame: RangeImage,
        frames: list[RangeImage],
        preset: LidarConfig,
        recording: str,
        standing: bool,
        seed: int,
    ) -> None:
        self.frame, self.frames, self.preset, self.recording = frame, frames, preset, recording
        self.standing, self.seed = standing, seed
        self.changes = SheetChanges(kept=dict(_NEVER))
        self.changed, self.error, self.kept = self.changes.changed, self.changes.error, self.changes.kept
        self.found: dict[str, Any] = {}
        self.constant_error = 0.0
        self.scale = scale_called(preset.intensity.scale)
        self.counts = self.scale.counts_photons and bool(np.isfinite(frame.signal).any())
        self.calibrated = self.scale.calibrated

    def _try(self, fields: str, step: Callable[[], None]) -> None:
        try:
            step()
        except ConfigError as reason:
            for name in fields.split():
                self.kept[name] = str(reason)

    def overlap(self) -> None:
        def step() -> None:
            self.found["overlap"], changes = overlap_changes(
                self.frame, self.frames, self.preset, self.photons, standing=self.standing, seed=self.seed
            )
            self.changes.add(changes)

        self._try("range.overlap range.rated receiver.channel_gain", step)

    def threshold(self) -> None:
        if not self.counts:
            self.kept["receiver.threshold_photons"] = "the sensor reports no photon counts"
            return
        self.found["lost"] = dropout(self.frame, PHOTON_EDGES) if self.frame.knows_lost else []
        self._try("receiver.threshold_photons", self._threshold)

    def _threshold(self) -> None:
        found = fit_threshold(self.frame, self.preset.receiver.threshold_to_noise)
        self.found["threshold"] = found
        self.changed["receiver.threshold_photons"] = round(found.photons, 2)
        self.error["receiver.threshold_photons"] = found.error

    @property
    def photons(self) -> float:
        """Photons at the threshold: measured, or from the preset."""
        return float(self.changed.get("receiver.threshold_photons", threshold_photons(self.preset)))

    def level(self) -> tuple[Floats, tuple[float, ...], float]:
        """Signal level for the range noise, its bins, and the factor to SNR: photons, or power by the link budget."""
        to_noise = self.preset.receiver.threshold_to_noise
        if self.counts:
            return self.frame.signal, PHOTON_EDGES, to_noise / self.photons
        share = 0.01 * self.frame.reflectivity
        if self.calibrated:
            share = cast("Floats", self.scale.reflectivity(self.frame.signal))
        if not np.isfinite(share).any():
            raise ConfigError("the recording has no reflectivity to derive the received power from")
        constant, r = system_constant(self.preset), self.frame.range
        xi = overlap_share(self.preset.range.overlap, np.nan_to_num(r, nan=1.0))
        power = constant.k_m2 * share * xi * np.exp(-2.0 * constant.gamma_per_m * r) / r**2
        # Weaker echoes read less than they reflect, so their power cannot be derived.
        power = np.where(power > FULL_SCALE_POWER, power, np.nan)
        return power, (3.0, 5.0, 8.0, 12.0, 20.0, 35.0, 60.0, 100.0, 200.0, 500.0, np.inf), to_noise

    def noise(self) -> None:
        jitter = self.preset.noise
        slope = slope_jitter(self.frame, jitter.azimuth_jitter_deg, jitter.elevation_jitter_deg)
        self.found["noise_by_range"] = range_noise(self.frame, self.frame.range, RANGE_EDGES, 40, jitter_m=slope)

        def by_signal() -> None:
            level, edges, to_snr = self.level()
            if self.standing and len(self.frames) >= 3:
                mean = mean_level(self.frames, level)
                once = slope_jitter(self.frames[0], jitter.azimuth_jitter_deg, jitter.elevation_jitter_deg)
                noise = repeated_noise(self.frames, mean, edges, once)
            else:
                noise = range_noise(self.frame, level, edges, 60, jitter_m=slope)
            self.found["noise"] = noise
            law = fit_law(noise)
            if law.slope_error_m > MOST_UNKNOWN * law.slope_m:
                self.kept["noise.range_sigma_snr_m"] = (
                    f"weak returns scatter irregularly: {law.slope_m * to_snr:.2g} ± {law.slope_error_m * to_snr:.2g}"
                )
                law = fit_law(noise, self.preset.noise.range_sigma_snr_m / to_snr)
            self.found["law"] = law
            # Residuals include rounding to the sensor's range step, which scans add to the noise again.
            step = float(self.changed.get("range.resolution_m", self.preset.range.resolution_m))
            floor = np.sqrt(max(law.floor_m**2 - step**2 / 12.0, 0.1 * law.floor_m**2))
            self.changed["noise.range_sigma_m"] = round(float(floor), 5)
            self.error["noise.range_sigma_m"] = law.floor_error_m
            if law.slope_error_m == 0.0:
                return
            self.changed["noise.range_sigma_snr_m"] = round(law.slope_m * to_snr, 5)
            relative = self.error.get("receiver.threshold_photons", 0.0) / self.photons if self.counts else 0.0
            self.error["noise.range_sigma_snr_m"] = float(
                np.hypot(law.slope_error_m * to_snr, relative * law.slope_m * to_snr)
            )

        self._try("noise.range_sigma_m noise.range_sigma_snr_m", by_signal)

    def bias(self) -> None:
        sigma = float(self.changed.get("noise.range_sigma_m", max(self.preset.noise.range_sigma_m, 0.005)))
        jitter = (self.preset.noise.azimuth_jitter_deg, self.preset.noise.elevation_jitter_deg)
        # Repeated frames of a stationary sensor show the same surfaces, whose shape does not average out.
        errors = channel_errors(self.frames[:1] if self.standing else self.frames, sigma, jitter)
        found = errors.range
        self.found |= {"bias": found, "angles": errors.elevation, "azimuths": errors.azimuth}
        step_mm = 1e3 * float(np.median(found.step_error))
        if not found.known or not found.significant:
            seen = f"{found.windows} windows lie on planes that several rows observe"
            self.kept["noise.channel_bias_m"] = (
                f"{seen}, which resolve rows to {step_mm:.1f} mm only"
                if not found.known
                else f"{seen}: rows differ by no more than their uncertainty of {step_mm:.1f} mm"
            )
            return
        # Rings count from the lowest, image rows from the highest.
        self.changed["noise.channel_bias_m"] = [round(float(value), 4) for value in found.off[::-1]]
        self.error["noise.channel_bias_m"] = float(np.median(found.error))

    def angles(self) -> None:
        """Beam elevations, solved together with the range errors."""
        self._angles("elevation_deg", self.found["angles"], "inclined planes")

    def azimuths(self) -> None:
        """Beam azimuths, solved together with the range errors; they include errors of firing times."""
        self._angles("azimuth_deg", self.found["azimuths"], "oblique walls")

    def _angles(self, name: str, found: BeamAngles, planes: str) -> None:
        own, path = getattr(self.preset.pattern, "channels", None), f"pattern.channels.{name}"
        if own is None:
            return
        if not found.known or not found.significant:
            unknown = "surfaces are rough" if found.rough else f"few rows observe {planes} together"
            self.kept[path] = f"{planes} agree with the preset" if found.known else unknown
            return
        self.changed[path] = corrected(self.changed.get("pattern.channels") or own.model_dump(), name, found)
        self.error[path] = float(np.median(found.correction_error[found.resolved]))

    def timing(self) -> None:
        """Rate, columns and firing period, from the time stamps of pulses."""

        def step() -> None:
            self.found["timing"] = found = fit_timing(self.frames)
            self.changes.add(timing_changes(found, self.preset.pattern))

        self._try("pattern.rate_hz", step)

    def saturation(self) -> None:
        if not self.counts:
            self.kept["receiver.saturation"] = "the sensor reports no photon counts"
            return
        found = saturation(self.frame)
        self.found["saturation"] = found
        known = (self.preset.receiver.saturation or np.inf) * threshold_photons(self.preset)
        if found.reached or found.level > known:
            self.changed["receiver.saturation"] = round(found.level / self.photons, 3)
            relative = self.error.get("receiver.threshold_photons", 0.0) / self.photons
            self.error["receiver.saturation"] = found.level / self.photons * relative
        else:
            self.kept["receiver.saturation"] = f"no pile-up of returns: the largest count is {found.level:g} photons"

    def rated(self) -> None:
        """Rated range implied by signal strength and threshold."""
        curve: Overlap | None = self.found.get("overlap")
        if curve is None or not np.isfinite(curve.constant):
            return
        k = curve.constant / self.photons
        at_threshold = self.error.get("receiver.threshold_photons", 0.1 * self.photons) / self.photons
        relative = np.hypot(curve.constant_error / curve.constant, at_threshold)
        self.constant_error = float(k * relative)
        self.found["constant"] = SystemConstant(k, 0.0)
        rating = self.preset.range.rated[0]
        sheet = self._sheet({"range.rated": [{"reflectance": 1.0, "range_m": float(np.sqrt(k)), "detection": 0.5}]})
        from scipy.special import ndtri

        sigma = 1.0 / self.preset.receiver.threshold_to_noise
        power = float(cast(float, power_with_chance(np.float64(ndtri(rating.detection)), sigma, 1.0 / self.photons)))
        # This sheet rates a white target at sqrt(K), where its curve may have a share below 1.
        level = float(overlap_share(sheet.range.overlap, np.sqrt(k)))
        reach = [
            max_range(sheet, min(1.0, level * rating.reflectance * factor / power)) for factor in (1.0, 1.0 + relative)
        ]
        self.changed["range.rated"] = [
            {"reflectance": rating.reflectance, "range_m": round(reach[0], 3), "detection": rating.detection}
        ]
        self.error["range.rated"] = abs(reach[1] - reach[0])

    def steps(self) -> None:
        frame = self.frame
        metres = frame.range[frame.returned]
        for offset in (frame.beam_offset_m, 0.0):
            step = step_of(metres + offset)
            if step is not None:
                self.changed["range.resolution_m"] = round(step, 6)
                break
        else:
            self.kept["range.resolution_m"] = "ranges show no step"
        step = step_of(frame.signal[frame.returned], 0.01)
        if step is not None:
            self.changed["intensity.resolution"] = round(step, 4)

    def channels(self) -> None:
        """Beam angles of the unit, from the metadata of a capture or from the points of a cloud."""
        channels = recorded_channels(self.frame, self.preset)
        if isinstance(channels, str):
            self.kept["pattern.channels"] = channels
        else:
            self.changed["pattern.channels"] = channels

    def _sheet(self, more: dict[str, Any]) -> LidarConfig:
        return with_changes(self.preset, {**self.changed, **more})

    def result(self) -> DriveCalibration:
        measured = [name for name in self.changed if name not in ("range.resolution_m", "intensity.resolution")]
        if not measured:
            raise ConfigError(f"{self.recording}: determines no field of the data sheet")
        for name in self.changed:
            self.kept.pop(name, None)
        found = self.so_far()
        changes = SheetChanges(found.changed, found.error, found.kept)
        constant = None if found.constant is None else (found.constant.k_m2, INTERVAL * self.constant_error)
        sheet = calibrated_sheet(self.preset, changes, self.recording, len(self.frames), constant)
        return replace(found, sheet=sheet)

    def so_far(self) -> DriveCalibration:
        """Results so far, for `watch`; the sheet contains them, but not their sources."""
        margin = {name: INTERVAL * value for name, value in self.error.items()}
        return DriveCalibration(
            self._sheet({}),
            self.preset,
            self.frame,
            len(self.frames),
            dict(self.changed),
            margin,
            dict(self.kept),
            level="photons" if self.counts else "power [P_min]",
            **self.found,
        )


_NEVER = {
    "beam": "neighbouring pixels do not show the footprint",
    "receiver.merge_distance_m": "needs targets at known distances behind each other",
    "receiver.threshold_to_noise": "affects dropout together with the threshold, which is fitted at this ratio",
    "noise.azimuth_jitter_deg": "taken from the preset to separate it from the range noise",
    "noise.elevation_jitter_deg": "taken from the preset to separate it from the range noise",
    "pattern.channels.fire_time_us": "an error of the firing time looks like an azimuth error and is counted there",
    "noise.false_alarm_rate_hz": "an isolated point may be a false alarm, a drop or a wire",
}
