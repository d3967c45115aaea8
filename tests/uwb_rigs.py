"""Recordings of ranging radios, and worlds like the places where they were made."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import parhelion as ph

Floats = NDArray[np.float64]
DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
OUTDOOR, APARTMENT, FLAT = DATA / "uwb_outdoor_dw1000", DATA / "uwb_apartment_cir", DATA / "ble_flat"

# ---- DW1000 outdoors: anchors at seven heights, a tag every 2 m up to 60 m -------------------------------------------

HEIGHTS_M = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
DISTANCES_M = tuple(float(d) for d in range(2, 61, 2))
TAG_HEIGHT_M = 0.87
"""Height of the tag, from the positions of the interference minima over flat ground."""
BANDS_M = ((0, 4), (4, 10), (10, 20), (20, 40), (40, 60))


def recorded_outdoor(part: str = "LOS", heights_m: tuple[float, ...] = HEIGHTS_M) -> Floats:
    """Medians of range error [m], RSSI and first-path power [dBm], shape (heights, distances, 3); NaN if lost."""
    found = np.full((len(heights_m), len(DISTANCES_M), 3), np.nan)
    for i, height in enumerate(heights_m):
        for j, distance in enumerate(DISTANCES_M):
            file = OUTDOOR / part / f"height_{100 * height:.1f}cm" / f"{distance:.0f}m.csv"
            rows = list(csv.DictReader(file.open())) if file.exists() else []
            values = [
                [float(row[name]) for name in ("Distance", "RSSI(dBm)", "RSSI_fp(dBm)")]
                for row in rows
                if row["Distance"] and row["RSSI_fp(dBm)"]
            ]
            if values:
                found[i, j] = np.median(values, axis=0) - (_slant(height, distance), 0.0, 0.0)
    return found


def simulated_outdoor(ground: str = "concrete", seed: int = 7, duration: float = 9.0) -> Floats:
    """The same from a simulated DW1000 over flat ground, 90 samples per position."""
    world = flat_ground(ground)
    tag = ph.Uwb("qorvo/dw1000", anchors={f"{h} m": (0, 0, h) for h in HEIGHTS_M}, cir=False)
    found = np.full((len(HEIGHTS_M), len(DISTANCES_M), 3), np.nan)
    for j, distance in enumerate(DISTANCES_M):
        got = tag.run(world, ph.Pose(xyz=(distance, 0, TAG_HEIGHT_M)), duration=duration, seed=seed)
        for i in np.flatnonzero(np.isfinite(got.range).any(axis=0)):
            assert got.first_path_power is not None
            found[i, j] = [np.nanmedian(one[:, i]) for one in (got.error, got.rssi, got.first_path_power)]
    return found


DRIVE = OUTDOOR / "Dynamic" / "LOS" / "Trajectory_A" / "Case_1"


def recorded_drive() -> tuple[ph.RecordedMotion, dict[str, Floats], dict[str, Floats]]:
    """Motion of the tag by RTK at its fitted height, anchor positions [m], and samples per anchor.

    Columns of the samples: time [s], range [m], RSSI and first-path power [dBm].
    """

    def rows(name: str) -> Floats:
        return np.array(list(csv.reader((DRIVE / f"{name}.csv").open()))[1:], float)

    way = rows("trajectory")
    time = 1e-9 * (way[:, 0] - way[0, 0])
    place = np.column_stack([way[:, 1:3], np.full(len(way), TAG_HEIGHT_M)])
    motion = ph.RecordedMotion(time, place, np.tile([0.0, 0.0, 0.0, 1.0], (len(way), 1)))
    logs = {name: rows(name) for name in ("A3", "A5", "A9", "A12")}
    samples = {name: np.column_stack([1e-9 * (log[:, 1] - way[0, 0]), log[:, 6:9]]) for name, log in logs.items()}
    return motion, {name: log[0, 3:6] for name, log in logs.items()}, samples


def compared_drive(seed: int = 7) -> dict[str, Floats]:
    """Recorded and simulated values per anchor and distance band, shape (bands, 2, 4).

    Values: samples per cycle of 0.1 s, median range error [m], mean RSSI and mean first-path power [dBm]. A band with
    fewer than 20 cycles is NaN.
    """
    motion, anchors, samples = recorded_drive()
    duration = float(motion.times[-1]) - 0.1
    tag = ph.Uwb("qorvo/dw1000", anchors=anchors, cir=False)
    got = tag.run(flat_ground("concrete"), motion, duration=duration, seed=seed)
    assert got.first_path_power is not None
    found = {}
    for k, (name, log) in enumerate(samples.items()):
        bands = np.full((len(BANDS_M), 2, 4), np.nan)
        ours = np.column_stack([got.time, got.range[:, k], got.rssi[:, k], got.first_path_power[:, k]])
        for side, values in enumerate((log[log[:, 0] <= duration], ours)):
            true = np.linalg.norm(motion.sample(values[:, 0])[0] - anchors[name], axis=1)
            for b, (low, high) in enumerate(BANDS_M):
                band = (true > low) & (true <= high) & np.isfinite(values[:, 1])
                if band.sum() >= 20:
                    error = np.median(values[band, 1] - true[band])
                    bands[b, side] = [band.sum(), error, *values[band, 2:].mean(axis=0)]
        bands[:, :, 0] /= bands[:, 1:, 0]
        found[name] = bands
    return found


def flat_ground(material: str) -> ph.World:
    """Flat ground around the anchors and the tag outdoors."""
    world = ph.World()
    world.add(ph.shapes.box(160, 40, 1), material=material, label="ground", pose=ph.Pose(xyz=(40, 0, -0.5)))
    return world


def _slant(height_m: float, distance_m: float) -> float:
    return float(np.hypot(distance_m, height_m - TAG_HEIGHT_M))


# ---- DW1000 in a flat: positions and labels are recorded, walls are not ----------------------------------------------

CLASSES = ("LOS", "NLOS", "NDP NLOS")
APARTMENT_GAIN_DBI = 3.0
"""Sum of both antenna gains of these radios, fitted to the levels of links without a direct path."""


def antenna_offset_m(recorded: Floats, simulated: Floats) -> float:
    """One constant [m] for all links, because the antenna delays of the radios are unknown.

    It minimises the largest ratio between recorded and simulated range errors, given their medians per class.
    """
    trials = np.arange(0.0, 0.2, 0.001)
    ratio = np.abs(np.log((simulated[:, None] + trials) / recorded[:, None]))
    return float(trials[np.argmin(ratio.max(axis=0))])


def recorded_apartment() -> list[tuple[str, Floats, Floats, Floats]]:
    """Class, anchor, tag (2,) [m] and medians per link: raw range error [m], RSSI, first path [dBm], spread [ns]."""
    anchors, tags = (_numbered(APARTMENT / name) for name in ("anchors.csv", "tags.csv"))
    pairs = _numbered(APARTMENT / "pairs.csv")
    labels = {int(row[0]): row[1] for row in list(csv.reader((APARTMENT / "labels.csv").open()))[1:]}
    found = []
    for file in sorted(APARTMENT.glob("*.npz")):
        number = int(file.stem)
        anchor, tag = (table[int(k)] for table, k in zip((anchors, tags), pairs[number], strict=True))
        with np.load(file) as values:
            raw = float(np.median(values["dist_raw_m"]) - np.linalg.norm(anchor - tag))
            first, *levels = values["hlp_rsl_fsl"].T
            taps = np.hypot(*np.moveaxis(values["cir_iq"].astype(float), 2, 0))
        spread = [
            delay_spread_ns(one, int(at), float(np.median(one[:600]))) for one, at in zip(taps, first, strict=True)
        ]
        medians = [float(np.median(one)) for one in (*levels, spread)]
        found.append((labels[number], anchor, tag, np.array([raw, *medians])))
    return found


def delay_spread_ns(amplitude: Floats, first: int, noise: float) -> float:
    """Root-mean-square delay spread [ns] of the 100 taps from two before the first path; noise is removed."""
    power = amplitude[first - 2 : first + 98] ** 2
    power = np.where(power < (4.0 * noise) ** 2, 0.0, power - 1.5 * noise**2)
    time = 1.0016 * np.arange(len(power))
    mean = np.average(time, weights=power)
    return float(np.sqrt(np.average((time - mean) ** 2, weights=power)))


def _numbered(file: Path) -> dict[int, Floats]:
    return {int(row[0]): np.array(row[1:], dtype=float) for row in list(csv.reader(file.open()))[1:]}


def apartment() -> ph.World:
    """A flat whose walls agree with the labels of the links. Walls, doors and materials are assumed."""
    world = ph.World()
    for z, name in ((-0.1, "floor"), (2.7, "ceiling")):
        world.add(
            ph.shapes.box(11, 12, 0.2), material="concrete", label=name, name=name, pose=ph.Pose(xyz=(4.5, 4.5, z))
        )
    outer = [(0.5, 0.2, 8.6, 0.2), (0.5, 8.9, 8.6, 8.9), (0.5, 0.2, 0.5, 8.9), (8.6, 0.2, 8.6, 8.9)]
    # Load-bearing walls along the corridor, with doors, and partitions between the rooms.
    bearing = [(a, 5.95, b, 5.95) for a, b in ((0.5, 3.05), (3.8, 5.6), (6.4, 7.4), (8.2, 8.6))]
    bearing += [(0.5, 4.75, 2.7, 4.75), (4.0, 4.75, 8.6, 4.75), (4.0, 0.2, 4.0, 4.75)]
    light = [(6.95, 6.1, 6.95, 8.9), (4.6, 6.1, 4.6, 8.9), (2.2, 6.1, 2.2, 8.9), (2.5, 0.2, 2.5, 3.2),
             (0.5, 3.2, 2.5, 3.2)]  # fmt: skip
    for lines, material, thickness in (
        (outer, "concrete", 0.3),
        (bearing, "concrete", 0.25),
        (light, "concrete", 0.06),
    ):
        for line in lines:
            add_wall(world, line, material, thickness, 2.6)
    return world


def add_wall(
    world: ph.World, line: tuple[float, float, float, float], material: str, thickness: float, height: float
) -> None:
    """Add a wall from (x0, y0) to (x1, y1)."""
    x0, y0, x1, y1 = line
    yaw = float(np.degrees(np.arctan2(y1 - y0, x1 - x0)))
    pose = ph.Pose(xyz=((x0 + x1) / 2, (y0 + y1) / 2, height / 2), rpy_deg=(0, 0, yaw))
    box = ph.shapes.box(float(np.hypot(x1 - x0, y1 - y0)), thickness, height)
    world.add(box, material=material, label="wall", name=f"wall {len(world.objects)}", pose=pose)


def simulated_apartment(links: list[tuple[str, Floats, Floats, Floats]], seed: int = 1) -> list[tuple[str, Floats]]:
    """Class and the same medians per link, simulated on channel 2 at 110 kb/s without the offset of the antenna delays.

    The radios are not those of the outdoor set: their antennas are weaker, and the range bias is APS011's own table.
    """
    world, found = apartment(), []
    preset = ph.Uwb("qorvo/dw1000", anchors={"a": (0, 0, 0)}).config
    radio = preset.model_copy(update={"antenna_gain_dbi": APARTMENT_GAIN_DBI, "level_bias_gain": 1.0})
    for label, anchor, tag, _ in links:
        sensor = ph.Uwb(radio, anchors={"a": (*anchor, 1.2)}, channel=2, data_rate_kbps=110)
        got = sensor.run(world, ph.Pose(xyz=(*tag, 1.2)), duration=6.0, seed=seed)
        assert got.first_path_power is not None
        assert got.cir is not None
        taps = np.abs(got.cir[np.isfinite(got.range[:, 0]), 0])
        spread = [delay_spread_ns(one, 16, float(np.median(one[:10]))) for one in taps]
        values = np.array([np.nanmedian(one) for one in (got.error, got.rssi, got.first_path_power, spread)])
        found.append((label, values))
    return found


# ---- Bluetooth in a flat ---------------------------------------------------------------------------------------------


def flat() -> tuple[ph.World, dict[str, Floats]]:
    """The flat of the Bluetooth recording by its outline, and its six anchors. The material of the walls is assumed."""
    corners = np.array([[float(v) for v in row] for row in list(csv.reader((FLAT / "layout.csv").open()))[1:]])
    world = ph.World()
    for first, last in itertools.pairwise(corners):
        if np.linalg.norm(last - first) > 0.05:
            add_wall(world, (*first, *last), "brick", 0.02, 2.7)
    for z, name in ((-0.05, "floor"), (2.75, "ceiling")):
        world.add(
            ph.shapes.box(10, 8, 0.1), material="concrete", label=name, name=name, pose=ph.Pose(xyz=(4.5, 3.5, z))
        )
    anchors = {f"anchor {k}": value for k, value in _numbered(FLAT / "anchors.csv").items()}
    return world, anchors


def recorded_spread_db() -> float:
    """Median standard deviation of recorded samples within 0.4 m of each other [dB]."""
    spreads = []
    for name in ("calib1_df.csv", "calib2_df.csv"):
        rows = list(csv.DictReader((FLAT / name).open()))
        place = np.array([[float(row["x"]), float(row["y"])] for row in rows])
        columns = [key for key in rows[0] if key.startswith("rssi_")]
        levels = np.array([[float(row[key] or "nan") for key in columns] for row in rows])
        spreads += spread_in_cells(place, levels, 10)
    return float(np.nanmedian(spreads))


def spread_in_cells(place: Floats, levels: Floats, least: int) -> list[float]:
    """Standard deviations [dB] of each column within squares of 0.4 m with at least so many samples."""
    cell = np.floor(place[:, :2] / 0.4).astype(int)
    found: list[float] = []
    for one in np.unique(cell, axis=0):
        rows = levels[np.all(cell == one, axis=1)]
        if len(rows) >= least:
            found += [float(np.nanstd(column[np.isfinite(column)], ddof=1)) for column in rows.T
                      if np.isfinite(column).sum() > 2]  # fmt: skip
    return found
