"""Fit of the sensor pose, surface reflectances and receiver parameters to a recording of a known world.

The pose is fitted first, by Gauss-Newton on simulated ranges: the same shots are simulated without noise at a guess and
at ten poses around it, whose differences give the gradient. The heading is determined by edges, where ranges jump and
have no gradient. `SignalSearch` then refines all parameters together.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.makers.scales import scale_called
from parhelion.rays.device import engine
from parhelion.rays.records import Rays
from parhelion.sensors.optics.lidar.config import Overlap
from parhelion.sensors.optics.lidar.link_budget import channel_gains, threshold_photons
from parhelion.sensors.optics.lidar.signal_model import POSE, Floats, ShotPlanes, SignalModel

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.lidar import Lidar
    from parhelion.world.world import World

# ---- signal fit: pose, materials and receiver by Levenberg-Marquardt with the derivatives of `signal_model` ---------


Mask = NDArray[np.bool_]

ROUNDS = 8
GATE_M = 0.1
"""Largest range residual of a shot that is taken to have met the surface of the world."""
FEWEST_OF_MATERIAL = 30
FEWEST_AT_KNOT = 30
FEWEST_IN_DOUBT = 30
"""Fewest shots with a detection probability between 5 and 95 % from which the threshold is estimated."""
ANGLES_DEG = 20.0
"""Smallest spread of angles of incidence from which roughness is estimated."""
LARGEST_ERROR = 0.3
"""Largest standard error of a fitted parameter, in natural logarithms; less certain parameters keep their start value.
"""
WEAKEST, STRONGEST = 3.0, 40.0
"""Powers [P_min] between which the signal is used: below, noise selects the stronger shots; above, receivers saturate,
which makers compensate in reflectivity."""
LEAST_SCATTER = 1e-4, 0.01, 0.002
"""Lower bounds of the scatter of range [m] and of the logarithms of power and reflectivity, for scans without noise."""
BIAS_M = 0.02
"""Standard deviation of the rings' range errors around the sheet's; data sheets allow a few centimetres."""
FLAT = 0.25
"""Depth of a footprint, in pulse lengths, up to which its echo is as high as that of a flat target."""
SEAM = 0.02
"""Relative change of simulated reflectivity between poses above which a shot is taken to meet an edge."""


@dataclass(eq=False)
class LidarFit:
    """Fitted pose of the sensor, reflectances of the world's surfaces and receiver parameters."""

    pose: Pose
    """Pose of the sensor in the world."""
    position_error_m: Floats
    """Standard error of the position from the scatter of ranges alone, shape (3,)."""
    angle_error_rad: Floats
    """Standard error of the rotation about x, y and z of the world, shape (3,)."""
    reflectance: dict[str, float] = field(default_factory=dict)
    """Reflectance of each material of the world, by name, at the sensor's wavelength."""
    reflectance_error: dict[str, float] = field(default_factory=dict)
    roughness: dict[str, float] = field(default_factory=dict)
    """Roughness of materials seen at many angles: Oren-Nayar's in degrees, or Cook-Torrance's."""
    roughness_error: dict[str, float] = field(default_factory=dict)
    overlap: Overlap = None
    """Overlap of the receiver in the form of the sheet; None if the recording does not determine it."""
    overlap_error: list[float] = field(default_factory=list)
    """Standard errors of the overlap's values."""
    threshold: float | None = None
    """Detection threshold relative to the sheet's; None if no shot is weak enough."""
    threshold_error: float = 0.0
    kept: dict[str, str] = field(default_factory=dict)
    """Parameters that keep their start value, and the reason."""
    range_rms_m: float = 0.0
    shots: int = 0
    """Number of shots that determine the pose."""


class SignalSearch:
    """Fit of one recording to one world."""

    def __init__(self, lidar: Lidar, still: Lidar, world: World, recording: Scan, beside: list[Pose]) -> None:
        self.lidar, self.still, self.world, self.recording = lidar, still, world, recording
        self.table = lidar.shots(recording.start_time)
        scans = still.scan_many(world, beside, time=recording.start_time)
        shares = [by_shot(scan, scan.fields["reflectivity"]) for scan in scans]
        with np.errstate(invalid="ignore"):
            self.even: Mask = np.all([np.abs(one - shares[0]) < SEAM * shares[0] for one in shares[1:]], axis=0)
        numbers = by_shot(scans[0], scans[0].fields["material"])
        known = {one.name: one for one in world.materials}
        names = {n: name for n, name in sorted(scans[0].names["material"].items()) if name in known}
        self.names = list(names.values())
        row = {n: k for k, n in enumerate(names)}
        self.material = np.array([row.get(int(n), -1) if np.isfinite(n) else -1 for n in numbers])
        config = lidar.config
        counted = recording.fields["intensity"].astype(np.float64)
        power = scale_called(config.intensity.scale).power(counted, threshold_photons(config))
        share: Any = recording.fields.get("reflectivity")
        if share is None:
            share = scale_called(config.intensity.scale).reflectivity(counted)
        self.power, self.share = (
            np.full(len(self.table), np.nan) if level is None else by_shot(recording, np.asarray(level))
            for level in (power, share)
        )
        gains = channel_gains(config, int(self.table.ring.max(initial=0)) + 1)
        self.gain = np.ones(len(self.table)) if gains is None else gains[self.table.ring]
        """Gain of each shot's ring. Powers are divided by it, except where the threshold decides."""
        self.power = self.power / self.gain
        self.model = SignalModel(
            engine(),
            [known[name] for name in self.names],
            config.wavelength_nm,
            lidar.system_constant,
            config.range.overlap,
        )
        self.measured = by_shot(recording, recording.fields["range"])

    def _spread(self, planes: ShotPlanes, range_m: Floats) -> Mask:
        """Mask of shots whose footprint is nearly flat in range: an inclined one returns a longer and lower pulse."""
        beam, pulse = self.lidar.config.beam, self.lidar.config.receiver.pulse_length_ns
        width = 1e-3 * max(beam.divergence_mrad) * range_m + 1e-3 * beam.exit_diameter_mm
        cosine = np.clip(-np.sum(planes.direction * planes.normal, axis=1), 1e-3, 1.0)
        return np.asarray(width * np.sqrt(1.0 - cosine**2) / cosine < FLAT * 0.5e-9 * SPEED_OF_LIGHT_M_S * pulse)

    def planes(self, pose: Pose) -> tuple[NDArray[np.int64], ShotPlanes, Floats]:
        """Numbers of the shots that meet a surface, the planes they meet, and their ranges [m]."""
        rotation = pose.rotation
        origin = pose.xyz + self.table.origin @ rotation.T
        direction = self.table.direction @ rotation.T.astype(np.float64)
        hits = self.still._target(self.world).scene.cast(Rays.of(origin, direction, self.recording.start_time))
        met = np.flatnonzero(np.isfinite(hits.range) & (self.material >= 0))
        d, n, t = direction[met], hits.normal[met], hits.range[met]
        n = n * -np.sign(np.sum(n * d, axis=1, keepdims=True))
        o = origin[met]
        return met, ShotPlanes(o, d, pose.xyz, o + t[:, None] * d, n, self.material[met]), t

    def fit(self, pose: Pose, heading_error_rad: float) -> LidarFit:
        """Fit pose, reflectances, roughnesses and overlap together, starting from a nearly correct pose."""
        model, parameters = self.model, self.model.start.copy()
        kept: dict[str, str] = {}
        free, given_up = np.zeros(len(parameters), bool), np.zeros(len(parameters), bool)
        normal, off_range = np.eye(1), np.zeros(1)
        bias, prior_bias = self._prior_bias()
        rings = len(bias)
        damping, turned = 1e-3, 0.0
        for number in range(ROUNDS):
            met, planes, _ = self.planes(pose)
            if number in (0, ROUNDS // 2):
                free, why = self._free(met, planes, parameters)
                kept |= why
                free &= ~given_up
            which = np.flatnonzero(free)
            simulated, slopes = model.at(planes, parameters), model.derivatives(planes, parameters, which)
            rows, off = [], []
            for k, (use, seen) in enumerate(self._seen(met, planes, simulated[:2])):
                if not use.any():
                    continue
                # Rings have individual range errors that would bias the pose, so they are fitted with it.
                own = np.eye(rings)[self.table.ring[met[use]]] * (k == 0)
                differs = (seen - simulated[k])[use] - own @ bias
                scatter = max(_scatter(differs), LEAST_SCATTER[k])
                rows.append(np.hstack([slopes[k][use], own]) / scatter)
                off.append(differs / scatter)
                off_range = differs if k == 0 else off_range
            # Edges determine the heading better than faces do; it enters as one more observation.
            rows.append(np.append(np.where(which == 5, 1.0, 0.0), np.zeros(rings))[None] / heading_error_rad)
            off.append(np.array([-turned / heading_error_rad]))
            rows.append(np.hstack([np.zeros((rings, len(which))), np.eye(rings)]) / BIAS_M)
            off.append((prior_bias - bias) / BIAS_M)
            step, whole = _signal_step(np.concatenate(rows), np.concatenate(off), damping)
            # Schur complement: the normal matrix of the other parameters after eliminating the rings' errors.
            first = len(which)
            shared = whole[:first, first:]
            normal = whole[:first, :first] - shared @ np.linalg.solve(whole[first:, first:], shared.T)
            damping *= 0.1
            bias = bias + step[first:]
            change = np.zeros(len(parameters))
            change[which] = np.clip(step[:first], -0.5, 0.5)
            pose, turned = moved(pose, change[:POSE]), turned + change[5]
            parameters = parameters + np.concatenate([np.zeros(POSE), change[POSE:]])
            if number == ROUNDS // 2 - 1:
                loose = free & (_errors(normal, which, len(parameters)) > LARGEST_ERROR)
                loose[:POSE] = False
                parameters = np.where(loose, model.start, parameters)
                given_up |= loose
                kept |= self._named(loose)
        error = _errors(normal, np.flatnonzero(free), len(parameters))
        rms = float(np.sqrt(np.mean(off_range**2)))
        found = LidarFit(pose, error[:3], error[3:POSE], kept=kept, range_rms_m=rms, shots=len(off_range))
        self._store(found, parameters, error, free)
        self._threshold(found, pose, parameters)
        return found

    def _prior_bias(self) -> tuple[Floats, Floats]:
        """Start values of the rings' range errors [m] and their prior: the sheet's values if it lists them, or 0."""
        listed = self.lidar.config.noise.channel_bias_m
        rings = int(self.table.ring.max(initial=0)) + 1
        prior = np.asarray(listed, np.float64)[:rings] if listed else np.zeros(rings)
        return prior.copy(), prior

    def _seen(
        self, met: NDArray[np.int64], planes: ShotPlanes, simulated: tuple[Floats, ...]
    ) -> list[tuple[Mask, Floats]]:
        """Recorded ranges, log powers and log reflectivities, each with the mask of shots that are used."""
        ranges, powers = simulated
        with np.errstate(invalid="ignore", divide="ignore"):
            near = np.isfinite(self.measured[met]) & (np.abs(self.measured[met] - ranges) < GATE_M)
            strong = (
                near
                & self.even[met]
                & self._spread(planes, ranges)
                & (powers > np.log(WEAKEST))
                & self.model.is_modelled[planes.material]
            )
            power, share = np.log(self.power[met]), np.log(self.share[met])
            counted = strong & np.isfinite(power) & (powers < np.log(STRONGEST))
            reported = strong & np.isfinite(share) & (share < 0.0)  # brighter than white is another scale
        return [(near, self.measured[met]), (counted, power), (reported, share)]

    def _free(self, met: NDArray[np.int64], planes: ShotPlanes, parameters: Floats) -> tuple[Mask, dict[str, str]]:
        """Mask of the parameters that this recording determines, and the reasons for the others."""
        model = self.model
        kept: dict[str, str] = {}
        free = np.zeros(len(parameters), bool)
        free[:POSE] = True
        _, (counted, _), (reported, _) = self._seen(met, planes, self.model.at(planes, parameters)[:2])
        use = counted | reported
        if not use.any():
            kept["reflectance"] = "the recording has no intensity from which the signal follows"
        cosine = -np.sum(planes.direction * planes.normal, axis=1)
        angle = np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))
        for row, name in enumerate(self.names):
            own = use & (planes.material == row)
            if not model.is_modelled[row]:
                if np.any(planes.material == row):
                    kept[f"reflectance of {name}"] = "its BRDF is a measured curve, or it is glass, water or a mirror"
                continue
            if own.sum() < FEWEST_OF_MATERIAL:
                continue
            free[model.reflectance.start + row] = True
            if model.has_roughness[row]:
                low, high = np.percentile(angle[own], (5, 95))
                if high - low >= ANGLES_DEG:
                    free[model.roughness.start + row] = True
                else:
                    kept[f"roughness of {name}"] = f"incidence covers only {low:.0f} to {high:.0f} degrees"
        if not counted.any():
            kept["overlap"] = "the maker has divided it out of the intensities"
            return free, kept
        near = self.measured[met][counted]
        if model.knots is not None:
            seen = [
                _between(near, *ends) for ends in zip([0.0, *model.knots], [*model.knots[1:], np.inf], strict=False)
            ]
            # Without reflectivities, a brighter world is equivalent to a larger overlap: the last point stays fixed.
            last = max((k for k, n in enumerate(seen) if n >= FEWEST_AT_KNOT), default=-1)
            for k, (knot, number) in enumerate(zip(model.knots, seen, strict=True)):
                if number < FEWEST_AT_KNOT:
                    kept[f"overlap at {knot:g} m"] = f"only {number} shots lie near this range"
                elif reported.any() or k < last:
                    free[model.overlap.start + k] = True
        elif model.overlap.stop > model.overlap.start:
            inside = np.sum(near < np.exp(parameters[model.overlap.start]))
            if inside >= FEWEST_AT_KNOT and (reported.any() or len(near) - inside >= FEWEST_AT_KNOT):
                free[model.overlap.start] = True
            else:
                kept["overlap"] = "too few shots lie on either side of the range of full overlap"
        return free, kept

    def _named(self, loose: Mask) -> dict[str, str]:
        model, why = self.model, "the recording does not separate it from the other parameters"
        kept = {f"reflectance of {self.names[k]}": why for k in np.flatnonzero(loose[model.reflectance])}
        kept |= {f"roughness of {self.names[k]}": why for k in np.flatnonzero(loose[model.roughness])}
        if model.knots is not None:
            kept |= {f"overlap at {model.knots[k]:g} m": why for k in np.flatnonzero(loose[model.overlap])}
        elif loose[model.overlap].any():
            kept["overlap"] = why
        return kept

    def _store(self, found: LidarFit, parameters: Floats, error: Floats, free: Mask) -> None:
        """Convert the free parameters into the fields of the result."""
        model, wavelength = self.model, self.lidar.config.wavelength_nm
        for row, name in enumerate(self.names):
            at = model.reflectance.start + row
            if free[at]:
                value = float(np.exp(parameters[at])) * model.materials[row].reflectance_at(wavelength)
                found.reflectance[name], found.reflectance_error[name] = value, value * float(error[at])
            at = model.roughness.start + row
            if free[at]:
                # Oren-Nayar roughness is in degrees, as in material definitions.
                unit = np.degrees(1.0) if model.columns["ct_weight"][row] == 0 else 1.0
                value = float(np.exp(parameters[at]) * unit)
                found.roughness[name], found.roughness_error[name] = value, value * float(error[at])
        if free[model.overlap].any():
            values = np.exp(parameters[model.overlap])
            found.overlap_error = (values * error[model.overlap]).tolist()
            if model.knots is None:
                found.overlap = float(values[0])
            else:
                found.overlap = [(float(r), float(min(x, 1.0))) for r, x in zip(model.knots, values, strict=True)]

    def _threshold(self, found: LidarFit, pose: Pose, parameters: Floats) -> None:
        """Estimate the detection threshold, relative to the sheet's, from weak shots that return or are lost."""
        from scipy.optimize import minimize_scalar
        from scipy.special import log_ndtr, ndtr

        met, planes, t = self.planes(pose)
        powers = self.model.at(planes, parameters)[1]
        config = self.lidar.config
        with np.errstate(invalid="ignore"):
            there = np.abs(self.measured[met] - t) < GATE_M
        lost = np.isnan(self.measured[met])
        limits = config.range
        use = (there | lost) & self.even[met] & self.model.is_modelled[planes.material]
        use &= (t > limits.min_m) & (t < limits.max_m) & self._spread(planes, t)
        power, seen = (self.gain[met] * np.exp(powers))[use], there[use]
        sigma = 1.0 / config.receiver.threshold_to_noise
        shot = 1.0 / (config.receiver.threshold_photons or np.inf)

        def deviations(log_threshold: float) -> Floats:
            level = power * np.exp(-log_threshold)
            return np.asarray((level - 1.0) / np.sqrt(sigma**2 + shot * level))

        def unlikely(log_threshold: float) -> float:
            z = deviations(log_threshold)
            # One shot in a hundred may be lost or found for reasons outside the model.
            chance = 0.01 + 0.98 * np.exp(log_ndtr(np.where(seen, z, -z)))
            return -float(np.sum(np.log(chance)))

        best = minimize_scalar(unlikely, bounds=(-2.0, 2.0), method="bounded", options={"xatol": 1e-5})
        chance = ndtr(deviations(best.x))
        if np.sum((chance > 0.05) & (chance < 0.95)) < FEWEST_IN_DOUBT:
            found.kept["threshold"] = "too few shots are weak enough to be lost"
            return
        h = 1e-2
        bend = (unlikely(best.x + h) - 2.0 * unlikely(best.x) + unlikely(best.x - h)) / h**2
        found.threshold = float(np.exp(best.x))
        found.threshold_error = found.threshold / float(np.sqrt(max(bend, 1e-9)))


def by_shot(scan: Scan, values: NDArray[np.generic]) -> Floats:
    """Field of the first return of every shot; NaN for lost shots."""
    found = np.full(len(scan.shots), np.nan)
    shot = scan.fields["shot"].astype(np.int64)[::-1]
    found[shot] = values[::-1].astype(np.float64)  # the nearest return is written last
    return found


def moved(pose: Pose, change: Floats) -> Pose:
    """Pose shifted by the first three numbers [m] and rotated by the rotation vector of the last three [rad]."""
    from parhelion.core.pose import quat_multiply

    angle = float(np.linalg.norm(change[3:]))
    axis = change[3:] / angle if angle > 0.0 else np.array([1.0, 0.0, 0.0])
    quat = np.append(np.sin(0.5 * angle) * axis, np.cos(0.5 * angle))
    return Pose(pose.xyz + change[:3], quat_multiply(quat, pose.quat_xyzw))


def _signal_step(rows: Floats, off: Floats, damping: float) -> tuple[Floats, Floats]:
    """Levenberg-Marquardt step with Huber weights, and its normal matrix."""
    weight = 1.0 / np.maximum(1.0, np.abs(off) / 1.5)
    normal = rows.T @ (weight[:, None] * rows)
    scale = np.sqrt(np.maximum(np.diag(normal), 1e-30))
    even = normal / np.outer(scale, scale) + damping * np.eye(len(scale))
    return np.linalg.lstsq(even, (rows.T @ (weight * off)) / scale, rcond=1e-12)[0] / scale, normal


def _errors(normal: Floats, which: NDArray[np.int64], count: int) -> Floats:
    """Standard error of every parameter, 0 for those that are not free."""
    found = np.zeros(count)
    scale = np.sqrt(np.maximum(np.diag(normal), 1e-30))
    inverse = np.linalg.pinv(normal / np.outer(scale, scale), hermitian=True)
    found[which] = np.sqrt(np.maximum(np.diag(inverse), 0.0)) / scale
    found[which[np.diag(normal) < 1e-12]] = np.inf
    return found


def _between(values: Floats, low: float, high: float) -> int:
    return int(np.sum((values > low) & (values < high)))


def _scatter(off: Floats) -> float:
    return max(1.4826 * float(np.median(np.abs(off - np.median(off)))), 1e-4) if len(off) else 1.0


# ---- fit ------------------------------------------------------------------------------------------------------------


STEPS = np.array([0.005, 0.005, 0.005, 0.0005, 0.0005])
"""Steps of the finite differences: position [m], roll and pitch [rad]."""
PASSES = ((1.0, 0.2, 5, 1.0), (0.2, 0.06, 3, 0.3), (0.06, 0.05, 2, 0.15), (0.05, 0.05, 1, 0.1))
"""Largest residual [m] used in the first and last iteration, number of iterations, and search range of the heading
[deg]. Larger residuals come from edges and from unmodelled objects."""
HEADING_DEG = 3.0
"""Initial search range of the heading around the guess."""
MISSED_M = 0.5
FEWEST_SHOTS = 100
LEAST_HEADING_ERROR_RAD = 1e-4


def fit(lidar: Lidar, world: World, recording: Scan, *, pose: Pose | None = None) -> LidarFit:
    """Fit pose and reflectances so that a simulated scan of `world` matches the recording.

    `pose` is a guess, by default the world's viewpoint; it may be off by a few decimetres and degrees. The recording
    must have the sensor's table of shots. Raises ConfigError if too little of the recording fits the world.
    """
    if not isinstance(recording, Scan) or not len(recording.shots):
        raise ConfigError("fit: expected a Scan with its table of shots")
    table = lidar.shots(recording.start_time)
    if len(recording.shots) != len(table) or not np.allclose(recording.shots.direction, table.direction, atol=1e-3):
        raise ConfigError("fit: the recording's table of shots differs from that of this sensor")
    still = copy.copy(lidar)  # keeps rate and columns; device memory is not copied
    still.noise = False
    measured = by_shot(recording, recording.fields["range"])
    search = _Search(still, world, measured, recording.start_time)
    now = search.turned_best(world.viewpoint if pose is None else pose, HEADING_DEG)
    for first, last, rounds, span_deg in PASSES:
        for number in range(rounds):
            gate = first * (last / first) ** (number / max(rounds - 1, 1))
            now = search.step(now, gate)
        now = search.turned_best(now, span_deg)
    beside = [_moved(now, axis, 4.0 * sign) for axis in (1, 2) for sign in (1.0, -1.0)]
    signal = SignalSearch(lidar, still, world, recording, [now, *beside])
    return signal.fit(now, max(search.heading_error_rad, LEAST_HEADING_ERROR_RAD))


class _Search:
    """Search for the pose whose simulated ranges match a recording.

    Position, roll and pitch follow from the gradient of ranges. The heading is determined by edges, where ranges jump
    and have no gradient: the share of shots that meet another surface is smallest at the true heading and grows
    linearly on both sides.
    """

    def __init__(self, still: Lidar, world: World, measured: Floats, time: float) -> None:
        self.still, self.world, self.measured, self.time = still, world, measured, time
        self.heading_error_rad = 0.0

    def ranges(self, poses: list[Pose]) -> list[Floats]:
        """Simulated ranges of all shots, one array per pose."""
        scans = self.still.scan_many(self.world, poses, time=self.time)
        return [by_shot(scan, scan.fields["range"]) for scan in scans]

    def step(self, now: Pose, gate_m: float) -> Pose:
        """Gauss-Newton step in position, roll and pitch."""
        here, *beside = self.ranges([now, *(_moved(now, axis, sign) for axis in range(5) for sign in (1.0, -1.0))])
        gradient = np.stack([(beside[2 * k] - beside[2 * k + 1]) / (2.0 * STEPS[k]) for k in range(5)], axis=1)
        off = self.measured - here
        # If neighbouring poses meet other surfaces, the difference is not a gradient.
        smooth = np.all(np.abs(gradient * STEPS) < 0.1, axis=1)
        use = np.isfinite(off) & np.isfinite(gradient).all(axis=1) & smooth & (np.abs(off) < gate_m)
        if use.sum() < FEWEST_SHOTS:
            fitting = f"only {int(use.sum())} shots match the world within {gate_m:.2f} m"
            raise ConfigError(f"fit: {fitting}; pass a more accurate pose")
        a, b = gradient[use], off[use]
        weight = 1.0 / np.maximum(1.0, np.abs(b) / (1.5 * _scatter(b)))
        normal = a.T @ (weight[:, None] * a)
        change = np.linalg.solve(normal + 1e-9 * np.eye(5) * np.trace(normal), a.T @ (weight * b))
        return moved(now, np.append(change, 0.0))

    def turned_best(self, now: Pose, span_deg: float, number: int = 17) -> Pose:
        """Pose rotated about the vertical so that as many shots as possible meet the recorded surfaces."""
        turns = np.radians(np.linspace(-span_deg, span_deg, number))
        poses = [moved(now, np.array([0.0, 0.0, 0.0, 0.0, 0.0, turn])) for turn in turns]
        wrong = np.array([self._wrong(one) for one in self.ranges(poses)])
        # The misfit is a symmetric V with its minimum at the true heading; fit its position.
        places = np.linspace(turns[0], turns[-1], 20 * number)
        misfits, slopes = [], []
        for place in places:
            design = np.stack([np.ones(number), np.abs(turns - place)], axis=1)
            found, left, *_ = np.linalg.lstsq(design, wrong, rcond=None)
            misfits.append(float(left[0]) if len(left) and found[1] > 0.0 else np.inf)
            slopes.append(float(found[1]))
        best = int(np.argmin(misfits))
        if not np.isfinite(misfits[best]):
            return now
        scatter = np.sqrt(misfits[best] / number)
        self.heading_error_rad = float(scatter / slopes[best] / np.sqrt(number))
        return moved(now, np.array([0.0, 0.0, 0.0, 0.0, 0.0, places[best]]))

    def _wrong(self, simulated: Floats) -> float:
        """Mean range residual of shots in units of `MISSED_M`, at most 1; 1 if only one of the two has a return."""
        lost, gone = np.isnan(self.measured), np.isnan(simulated)
        off = np.minimum(np.abs(self.measured - simulated) / MISSED_M, 1.0)
        return float(np.mean(np.where(lost & gone, 0.0, np.where(lost | gone, 1.0, off))))


def _moved(pose: Pose, axis: int, sign: float) -> Pose:
    change = np.zeros(6)
    change[axis] = sign * STEPS[axis]
    return moved(pose, change)
