"""Errors of channels in range, elevation and azimuth, from planes that many rows see.

A window of rows and columns on one plane leaves, beside noise, the differences between the rows' own errors. All
windows together are one linear system for the errors of all rows, each window's plane taken out of it. Errors of range
show on any plane, those of elevation on planes slanted upward, such as the road, those of azimuth on walls slanted
sideways: there a small angle is a long way.

All three are solved together. On a wall at incidence (a, e) beside and above its normal a row's error is
b + R tan(e) de + R tan(a) da: a row sees walls at one e and at many a and R, so that what one kind leaves out, another
would take up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.plane_windows import KINDS, MOTIONS, PRIOR_M, PRIOR_RAD, WINDOW, Windows, windows_of
from parhelion.calibrate.turns import Floats, Turn

PRIORS = np.array([PRIOR_M, PRIOR_RAD, PRIOR_RAD])
"""Of each kind of errors."""
MOTION = np.array([5e-3, 5e-3, 5e-3, 3e-4])
"""What the sensor may move [m] and turn [rad] by from one column to the next: 50 m/s and 3 rad/s at 100 us."""
MOST_CURVED = 1.3
"""Windows whose scatter is larger than this many times what noise and rows' errors make of it are no planes."""
MOST_STEPPED = 3.0
"""Windows whose rows are farther off than that many times, in mean square, hold a kink: a kerb, the foot of a wall."""
MOST_UNEVEN = 0.25
"""Slightly curved windows for each flat one, from which on the ground is no plane: built places have 0.03 to 0.21, open
country 0.3 to 0.9. What is flat by chance there bends in one sense, which looks like errors of angles."""
FEWEST_WINDOWS = 40
FEWEST_ROWS = 4
"""Rows that must be told apart from their neighbours before angles are changed."""
FEWEST_OF_ROW = 12
"""Windows that a row must be in: few of them would shape its error after what they see."""
CHANCE = 1e-3
"""Chance that right rows are taken for wrong ones."""
ROUNDS = 10
LEARNING = 3
"""Steps of learning how much rows differ, within each round."""


@dataclass(frozen=True, eq=False)
class ChannelBias:
    """Range errors of rows, their mean taken out: what all rows share cannot be seen from planes."""

    bias_m: Floats
    """Of each row, the highest first, shape (rows,)."""
    error_m: Floats
    """Standard error, shape (rows,)."""
    windows: int

    step_error_m: Floats
    """Standard error of the difference between each row and the next, shape (rows - 1,): better known than the rows
    themselves, since long waves over many rows hardly show in any window."""
    steps_told: NDArray[np.bool_]
    """Which of these differences planes tell, to a sixth of what rows may differ by."""

    @property
    def known(self) -> bool:
        """Whether some neighbouring rows can be told apart; the others stay near 0."""
        return self.windows >= FEWEST_WINDOWS and int(self.steps_told.sum()) >= FEWEST_ROWS

    @property
    def significance(self) -> float:
        """Root mean square of the told steps between rows over their errors: about 1 where all is noise."""
        steps = np.diff(self.bias_m) / self.step_error_m
        return float(np.sqrt(np.mean(steps[self.steps_told] ** 2))) if self.steps_told.any() else 0.0

    @property
    def significant(self) -> bool:
        """Whether that is more than chance makes of it."""
        return self.significance > _by_chance(int(self.steps_told.sum()))


@dataclass(frozen=True, eq=False)
class BeamAngles:
    """Errors of elevation or azimuth of rows: true less reported, their mean taken out."""

    off_deg: Floats
    """Of each row, the highest first, shape (rows,); azimuth counter-clockwise."""
    covariance_deg2: Floats
    """Of these, shape (rows, rows)."""
    steps_told: NDArray[np.bool_]
    """Which differences between a row and the next planes tell, to a sixth of what rows may differ by."""
    windows: int
    uneven: bool = False
    """Whether surfaces are too uneven to tell angles."""

    @property
    def error_deg(self) -> Floats:
        """Standard error, shape (rows,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance_deg2)))

    @property
    def step_error_deg(self) -> Floats:
        """Standard error of the difference between each row and the next, shape (rows - 1,)."""
        return _step_errors(self.covariance_deg2)

    @property
    def told(self) -> NDArray[np.bool_]:
        """Rows that planes tell apart from a neighbour, shape (rows,)."""
        return np.append(self.steps_told, False) | np.append(False, self.steps_told)

    @property
    def known(self) -> bool:
        """Whether some rows are, on surfaces that are planes."""
        return not self.uneven and self.windows >= FEWEST_WINDOWS and int(self.told.sum()) >= FEWEST_ROWS

    @property
    def significance(self) -> float:
        """Root mean square of the steps between those rows over their errors: about 1 where all is noise."""
        steps = np.diff(self.off_deg) / self.step_error_deg
        return float(np.sqrt(np.mean(steps[self.steps_told] ** 2))) if self.steps_told.any() else 0.0

    @property
    def significant(self) -> bool:
        """Whether that is more than chance makes of it."""
        return self.significance > _by_chance(int(self.steps_told.sum()))

    @property
    def correction_deg(self) -> Floats:
        """What to add to angles: told rows about their own mean, which no plane shows; 0 for the others."""
        return np.asarray(self._about_told @ self.off_deg)

    @property
    def correction_error_deg(self) -> Floats:
        """Standard error of that, shape (rows,); 0 for rows that are not told."""
        return np.asarray(np.sqrt(np.diag(self._about_told @ self.covariance_deg2 @ self._about_told.T)))

    @property
    def _about_told(self) -> Floats:
        told = self.told.astype(np.float64)
        return np.diag(told) - np.outer(told, told) / max(told.sum(), 1.0)


@dataclass(frozen=True, eq=False)
class ChannelErrors:
    """Errors of rows in range, elevation and azimuth, solved together."""

    range: ChannelBias
    elevation: BeamAngles
    azimuth: BeamAngles


def channel_errors(
    turns: Sequence[Turn], sigma_m: float, jitter_deg: tuple[float, float] = (0.0, 0.0)
) -> ChannelErrors:
    """Errors of rows, of which all turns have as many.

    `sigma_m` is the usual scatter of a range, `jitter_deg` that of azimuth and elevation.

    Least squares in which rows are alike: how much they differ in each kind is learnt from the rows that planes show,
    and holds for modes that none of them shows, such as a tilt over all rows. These stay near 0 and have that error.
    Errors follow from how windows differ, so that rough surfaces count.
    """
    rows = turns[0].range.shape[0]
    solved = _solve(turns, sigma_m, np.radians(jitter_deg))
    centre = np.eye(rows) - 1.0 / rows
    parts = []
    for number in range(len(KINDS)):
        own = slice(number * rows, (number + 1) * rows)
        told = _step_errors(solved.alone[own, own]) < PRIORS[number] / 6.0
        parts.append((centre @ solved.found[own], centre @ solved.covariance[own, own] @ centre.T, told))
    (bias, of_bias, at), *angles = parts
    uneven = solved.uneven > MOST_UNEVEN
    turned = [
        BeamAngles(np.degrees(off), np.degrees(np.degrees(cov)), steps, solved.windows, uneven)
        for off, cov, steps in angles
    ]
    ranges = ChannelBias(bias, np.sqrt(np.diag(of_bias)), solved.windows, _step_errors(of_bias), at)
    return ChannelErrors(ranges, *turned)


def _by_chance(steps: int) -> float:
    """What the root mean square of so many normal numbers exceeds with a chance of CHANCE only (chi-square)."""
    from scipy.special import chdtri

    return float(np.sqrt(chdtri(steps, CHANCE) / steps)) if steps else np.inf


def _step_errors(covariance: Floats) -> Floats:
    variance = np.diag(covariance)
    return np.asarray(np.sqrt(np.maximum(variance[1:] + variance[:-1] - 2.0 * np.diag(covariance, 1), 0.0)))


@dataclass(frozen=True, eq=False)
class _Solved:
    """Errors of rows, kind by kind."""

    found: Floats
    """Shape (kinds * rows,)."""
    covariance: Floats
    alone: Floats
    """The covariance of each kind if its rows might differ by its prior: what planes tell by themselves."""
    windows: int
    uneven: float = 0.0
    """Windows that are slightly curved, for each that is flat."""


def _solve(turns: Sequence[Turn], sigma_m: float, jitter_rad: Floats) -> _Solved:
    rows = turns[0].range.shape[0]
    prior = np.repeat(PRIORS, rows)
    unknown = np.diag(prior**2)
    turns = [turn for turn in turns if turn.direction is not None and turn.origin is not None]
    if not turns or rows < 3:
        return _Solved(np.zeros(len(prior)), unknown, unknown, 0)
    every, motions = windows_of(turns, sigma_m, jitter_rad)
    prior = np.append(prior, np.tile(MOTION, motions // MOTIONS))
    unknown = np.diag(prior**2)
    found, width, inverse, noise = np.zeros(len(prior)), prior, unknown, sigma_m**2
    worth = _left_by_choice(WINDOW[0] - 2)
    for _ in range(ROUNDS):
        # What is no plane shows ever better as the rows' errors become known.
        usual = max(noise, sigma_m**2)
        curved = every.left(found) / (usual + every.open(inverse)) / MOST_CURVED**2
        smooth = every.whole & (every.stepped(found, inverse, usual) < MOST_STEPPED)
        kept = _shared(every.select((curved < 1.0) & smooth), len(prior))
        if len(kept) < FEWEST_WINDOWS:
            return _Solved(np.zeros(len(prior)), unknown, unknown, len(kept))
        noise = max(float(np.median(kept.left(found))), 1e-8)
        information, right = (worth / noise * part for part in kept.sums(kept.matrix, kept.vector, len(prior)))
        off = (kept.vector - np.einsum("nij,nj->ni", kept.matrix, found[kept.unknowns])) / noise
        # Rough surfaces make windows differ by more than noise does, and neighbouring ones see the same bumps.
        differ = kept.differ(off, len(prior))
        scale = max(1.0, float(np.sum(np.diag(differ) * prior**2) / np.sum(np.diag(information) * prior**2)))
        for _ in range(LEARNING):
            inverse = _inverse(information / scale, width)
            found = inverse @ right / scale
            width = _learnt(found, np.diag(inverse), width, prior, motions)
    differ /= scale**2

    def covariance(of: Floats) -> Floats:
        inverse = _inverse(information / scale, of)
        return np.asarray(inverse @ (differ + np.diag(of**-2.0)) @ inverse)

    alone = np.zeros_like(unknown)
    for number in range(len(KINDS)):
        own = slice(number * rows, (number + 1) * rows)
        mixed = width.copy()
        mixed[own] = PRIORS[number]
        alone[own, own] = covariance(mixed)[own, own]
    uneven = float(np.sum((curved > 1.0) & (curved < 4.0)) / np.maximum(np.sum(curved < 1.0), 1))
    return _Solved(found, covariance(width), alone, len(kept), uneven)


def _left_by_choice(freedom: int) -> float:
    """How much the windows that are kept are worth, since they are chosen by what they say.

    The mean of normal numbers x that are cut at |x|^2 = c follows the true one by E[x^2; |x|^2 < c] only, which is
    P(chi^2 < c) with two more degrees of freedom; those kept are P(chi^2 < c).
    """
    from scipy.special import chdtr

    most = MOST_STEPPED * freedom
    return float(chdtr(freedom + 2, most) / chdtr(freedom, most))


def _inverse(information: Floats, width: Floats) -> Floats:
    """(information + 1 / width^2)^-1, well scaled."""
    scaled = width[:, None] * information * width + np.eye(len(width))
    return np.asarray(width[:, None] * np.linalg.inv(scaled) * width)


def _learnt(found: Floats, variance: Floats, width: Floats, prior: Floats, motions: int) -> Floats:
    """How much rows differ, kind by kind: what maximises the likelihood of all windows (MacKay 1992), with the prior
    counted like one further row, so that it holds where planes tell little. Motions keep their prior."""
    kinds = len(KINDS)
    share, squares, before = (
        values[: len(prior) - motions].reshape(kinds, -1) for values in (variance / width**2, found**2, prior)
    )
    told = np.maximum(np.sum(1.0 - share, axis=1, keepdims=True), 0.0)
    learnt = np.sqrt((np.sum(squares, axis=1, keepdims=True) + before**2) / (told + 1.0))
    return np.append(np.minimum(learnt, before), prior[len(prior) - motions :])


def _shared(windows: Windows, unknowns: int) -> Windows:
    """The windows all of whose rows are in many windows."""
    while True:
        count = np.bincount(windows.unknowns.ravel(), minlength=unknowns)
        kept = windows.select(count[windows.unknowns].min(axis=1, initial=FEWEST_OF_ROW) >= FEWEST_OF_ROW)
        if len(kept) == len(windows):
            return kept
        windows = kept
