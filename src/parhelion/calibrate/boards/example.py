"""Example recordings with a known truth: boards of five materials in front of an RPLIDAR A1 or a VLP-16.

The recordings are generated as stated here, so that calibration results can be checked: a board of given width at a
given distance, rotated and warped, with a wall behind it, returns from elsewhere (outliers), mixed ranges at its
edges, and lost shots at a rate that increases with the angle of incidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import yaml

from parhelion.calibrate.boards.shots import BoardShots, from_angles
from parhelion.calibrate.range_images import Floats
from parhelion.core.errors import ConfigError
from parhelion.core.files import atomic_write


@dataclass(frozen=True)
class Truth:
    """Response of one sensor to one material."""

    level: float
    """Mean intensity at normal incidence; for two-valued sensors the share of returns with the upper value."""
    shape: float
    """Exponent of cos(angle) in the mean intensity."""
    spread: float
    """Relative standard deviation of intensity; 0 for two-valued sensors."""
    drop: float
    """Drop rate at normal incidence."""
    drop_grazing: float
    """Increase of the drop rate at 90 deg; it grows with the sixth power of the sine."""
    sigma_m: float
    """Standard deviation of range at normal incidence; divided by the cosine of incidence, by at most 4."""
    bias_m: float
    values: tuple[float, float] | None = None
    """The two intensities of a two-valued sensor."""
    grain: tuple[float, float] = (0.0, 1.0)
    """Share of shots on darker grain, and the factor on their intensity."""

    def drop_at(self, angle_deg: Floats) -> Floats:
        """Share of lost shots."""
        return np.minimum(self.drop + self.drop_grazing * np.sin(np.radians(angle_deg)) ** 6, 1.0)

    def sigma_at(self, angle_deg: Floats) -> Floats:
        """Standard deviation of range [m]."""
        return self.sigma_m / np.maximum(np.cos(np.radians(angle_deg)), 0.25)

    def mean_at(self, angle_deg: Floats) -> Floats:
        """Mean intensity of returns."""
        fall = np.maximum(np.cos(np.radians(angle_deg)), 0.0) ** self.shape
        if self.values is None:
            return self.level * fall * (1.0 - self.grain[0] * (1.0 - self.grain[1]))
        low, high = self.values
        return low + (high - low) * self.level * fall

    def draw(self, angle_deg: Floats, random: np.random.Generator) -> Floats:
        """Intensities of returns, as the sensor reports them."""
        if self.values is not None:
            low, high = self.values
            share = (self.mean_at(angle_deg) - low) / (high - low)
            return np.where(random.random(len(angle_deg)) < share, high, low)
        bright = self.level * np.maximum(np.cos(np.radians(angle_deg)), 0.0) ** self.shape
        mean = bright * np.where(random.random(len(angle_deg)) < self.grain[0], self.grain[1], 1.0)
        return np.clip(np.rint(mean * (1.0 + self.spread * random.normal(size=len(angle_deg)))), 0.0, 255.0)


RPLIDAR, VLP = (0.0, 47.0), None
TRUTHS: dict[str, dict[str, Truth]] = {
    "slamtec/rplidar-a1": {
        "plywood": Truth(0.98, 0.3, 0.0, 0.01, 0.5, 0.004, 0.001, RPLIDAR),
        "epoxy": Truth(0.95, 1.2, 0.0, 0.03, 0.9, 0.006, 0.003, RPLIDAR),
        "foam": Truth(0.99, 0.2, 0.0, 0.005, 0.3, 0.005, 0.002, RPLIDAR),
        "bare-metal": Truth(0.9, 2.0, 0.0, 0.05, 0.9, 0.007, -0.002, RPLIDAR),
        "cardboard": Truth(0.97, 0.4, 0.0, 0.02, 0.4, 0.0045, 0.0, RPLIDAR),
    },
    "velodyne/vlp-16": {
        "plywood": Truth(48.0, 0.7, 0.06, 0.002, 0.2, 0.006, 0.002, VLP, (0.3, 0.7)),
        "epoxy": Truth(30.0, 2.2, 0.15, 0.01, 0.6, 0.008, 0.004, VLP),
        "foam": Truth(75.0, 0.5, 0.04, 0.001, 0.1, 0.007, 0.001, VLP, (0.2, 0.75)),
        "bare-metal": Truth(90.0, 3.5, 0.3, 0.03, 0.8, 0.01, -0.003, VLP),
        "cardboard": Truth(40.0, 0.8, 0.06, 0.004, 0.3, 0.0065, 0.0, VLP, (0.35, 0.7)),
    },
}
"""Invented values in the style of ApolloSim's figures 5.1 to 5.4: rough materials fall slowly with the angle, shiny
ones fast, and drops increase towards grazing incidence."""


@dataclass(frozen=True)
class Setup:
    """Position and shape of a board in front of a sensor."""

    distance_m: float
    width_m: float
    height_m: float = 1.2
    tilt_deg: float = 3.0
    """Rotation of the board about the vertical."""
    warp_m: float = 0.002
    """Bulge of the middle of the board towards the sensor."""
    outliers: float = 0.02
    """Share of shots at the board that return from a random range in front of it."""
    wall_m: float = 1.5
    """Distance of the wall behind the board."""
    revolutions: int = 120


def make_shots(truth: Truth, setup: Setup, sensor: str, *, seed: int) -> BoardShots:
    """Recording of one board; the sensor is at the origin and faces along x."""
    random = np.random.default_rng(seed)
    if sensor == "slamtec/rplidar-a1":
        azimuth, elevation = np.arange(-180, 180) * 2.0 * np.pi / 360.0, np.zeros(1)
    elif sensor == "velodyne/vlp-16":
        azimuth, elevation = np.radians(np.arange(-80.0, 80.0, 0.4)), np.radians(np.arange(-15.0, 16.0, 2.0))
    else:
        raise ConfigError(f"example recordings exist for {', '.join(TRUTHS)}, not for {sensor!r}")
    grid = np.stack(np.meshgrid(azimuth, elevation, indexing="ij"), axis=-1).reshape(-1, 2)
    grid = np.tile(grid, (setup.revolutions, 1))
    shots = from_angles(np.ones(len(grid)), np.ones(len(grid)), grid[:, 0], grid[:, 1])
    tilt = np.radians(setup.tilt_deg)
    normal = -np.array([np.cos(tilt), np.sin(tilt), 0.0])
    across = np.array([-np.sin(tilt), np.cos(tilt), 0.0])
    cosine = -(shots.direction @ normal)
    with np.errstate(divide="ignore"):
        there = np.where(cosine > 1e-3, setup.distance_m / cosine, np.inf)
    place = np.where(np.isfinite(there), there, 0.0)[:, None] * shots.direction
    x, z = place @ across, place[:, 2]
    on = np.isfinite(there) & (np.abs(x) < 0.5 * setup.width_m) & (np.abs(z) < 0.5 * setup.height_m)
    angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    n = len(grid)
    bent = setup.warp_m * (1.0 - (2.0 * x / setup.width_m) ** 2)
    board = there - bent + truth.bias_m + truth.sigma_at(angle) * random.normal(size=n)
    # The wall behind is parallel to the sensor's y axis.
    with np.errstate(divide="ignore"):
        wall = np.where(shots.direction[:, 0] > 0.05, (setup.distance_m + setup.wall_m) / shots.direction[:, 0], np.inf)
    wall = np.where(wall < 30.0, wall + 0.01 * random.normal(size=n), np.nan)
    edge = on & (np.abs(x) > 0.5 * setup.width_m - 0.004 * there)
    mixed = np.where(edge, board + random.random(n) * (wall - board), board)
    stray = on & (random.random(n) < setup.outliers)
    mixed = np.where(stray, there * random.uniform(0.2, 0.8, n), mixed)
    gone = on & ~stray & (random.random(n) < truth.drop_at(angle))
    distance = np.where(on, np.where(gone, np.nan, mixed), wall)
    level = np.where(on, truth.draw(angle, random), 20.0 if truth.values is None else truth.values[1])
    return BoardShots(
        shots.direction, shots.origin, distance, np.where(np.isnan(distance), np.nan, level), knows_lost=True
    )


SETUPS = {"slamtec/rplidar-a1": Setup(0.5, 2.4, revolutions=150), "velodyne/vlp-16": Setup(2.0, 6.0, revolutions=12)}


def write_example(folder: str | PathLike[str], sensor: str = "slamtec/rplidar-a1", *, seed: int = 7) -> Path:
    """Write text recordings of five boards and their boards file; return the path of the boards file."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    entries = []
    if sensor not in TRUTHS:
        raise ConfigError(f"example recordings exist for {', '.join(TRUTHS)}, not for {sensor!r}")
    for number, (name, truth) in enumerate(TRUTHS[sensor].items()):
        shots = make_shots(truth, SETUPS[sensor], sensor, seed=seed + number)
        write_text(shots, place / f"{name}.txt")
        entries.append({"material": name, "recording": f"{name}.txt"})
    file = place / "boards.yaml"
    with atomic_write(file) as temporary:
        temporary.write_text(yaml.safe_dump({"boards": entries}, sort_keys=False), encoding="utf-8")
    return file


def write_text(shots: BoardShots, path: str | PathLike[str]) -> None:
    """Write shots as text: ApolloSim's lines for a planar scanner, otherwise with a header and elevations."""
    azimuth = np.arctan2(shots.direction[:, 1], shots.direction[:, 0])
    distance = np.where(shots.lost, np.inf, shots.range)
    level = np.where(shots.lost, 0.0, shots.intensity)
    elevation = np.degrees(np.arcsin(np.clip(shots.direction[:, 2], -1.0, 1.0)))
    with atomic_write(path) as temporary:
        if np.ptp(elevation) < 1e-6:
            np.savetxt(temporary, np.stack([distance, level, azimuth], axis=1), fmt="%.6g", delimiter=",")
        else:
            table = np.stack([distance, level, np.degrees(azimuth), elevation], axis=1)
            head = "distance,intensity,angle_deg,elevation_deg"
            np.savetxt(temporary, table, fmt="%.6g", delimiter=",", header=head, comments="")
