"""Recordings against simulation: C/N0 by elevation, phone noise and RTK, docs/images/gnss-real.png.

The recordings are in ../shared/data, outside the repository (google/gps-measurement-tools, Apache-2.0):

- gnss_f9k_span: a u-blox F9K with corrections in a car in Mountain View, 28 minutes, NMEA, and NovAtel SPAN truth;
- gnss_android: raw measurements of an Android device at rest, 223 s, with the broadcast ephemeris.
"""

from __future__ import annotations

import gzip
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import parhelion as ph
from parhelion.core.streams import GnssData
from parhelion.sensors.waves.gnss.earth import DEFAULT_KLOBUCHAR, Place
from parhelion.sensors.waves.gnss.observe import Sky, geometry
from parhelion.sensors.waves.gnss.reception import code_sigma
from parhelion.sensors.waves.gnss.rinex_nav import read_navigation

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
F9K = DATA / "gnss_f9k_span" / "MTV.Local1.ublox-F9K.20200206-181434.nmea.gz"
SPAN = DATA / "gnss_f9k_span" / "MTV.Local1.SPAN.20200206-181434.gga.gz"
ANDROID = DATA / "gnss_android" / "pseudoranges_log_2016_06_30_21_26_07.txt"
ANDROID_NAVIGATION = DATA / "gnss_android" / "hour1820.16n"
ANDROID_PLACE = Place(37.422541, -122.081659, -33.0)
FIRST_SIGNAL = {"GP": "1", "GL": "1", "GA": "7", "GB": "1"}
"""Signal numbers of the first band in GSV, by talker."""
ELEVATIONS = (0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 91.0)
SPEED_OF_LIGHT_M_S = 299_792_458.0
WEEK_S = 604_800
Floats = NDArray[np.float64]


# ---- recordings ------------------------------------------------------------------------------------------------------


def _second(text: str) -> float:
    return 3600.0 * int(text[:2]) + 60.0 * int(text[2:4]) + float(text[4:])


def recorded_signals(path: Path = F9K) -> Floats:
    """Elevation [deg] and C/N0 [dB-Hz] of the first band in all GSV sentences, shape (n, 2); NaN if not tracked."""
    rows = []
    for line in gzip.decompress(path.read_bytes()).decode("ascii", errors="replace").splitlines():
        fields = line.split("*")[0].split(",")
        if fields[0][3:] != "GSV" or fields[-1] != FIRST_SIGNAL[fields[0][1:3]]:
            continue
        for k in range(4, len(fields) - 3, 4):
            if fields[k] and fields[k + 1]:
                rows.append((float(fields[k + 1]), float(fields[k + 3] or "nan")))
    return np.array(rows)


def recorded_fixes(path: Path) -> Floats:
    """Time [s], latitude, longitude [deg] and quality of all GGA sentences, shape (n, 4)."""
    rows = []
    for line in gzip.decompress(path.read_bytes()).decode("ascii", errors="replace").splitlines():
        f = line.split("*")[0].split(",")
        if f[0][3:] == "GGA" and f[2]:
            latitude, longitude = float(f[2][:2]) + float(f[2][2:]) / 60.0, float(f[4][:3]) + float(f[4][3:]) / 60.0
            rows.append((_second(f[1]), latitude, -longitude if f[5] == "W" else longitude, float(f[6])))
    return np.array(rows)


def recorded_phone() -> tuple[Floats, Floats]:
    """Elevation [deg], median C/N0 [dB-Hz] and noise of the pseudorange [m] per satellite, (k, 3); all C/N0, (n,).

    The noise is that of the difference of neighbouring epochs over √2, after removing geometry and the receiver clock.
    """
    navigation = read_navigation(ANDROID_NAVIGATION)
    sky = Sky(
        navigation.ephemerides, ANDROID_PLACE, navigation.start, navigation.klobuchar or DEFAULT_KLOBUCHAR
    )  # fmt: skip
    epochs: dict[int, dict[str, tuple[int, float]]] = defaultdict(dict)
    for line in ANDROID.read_text().splitlines():
        if line.startswith("Raw,"):
            f = line.split(",")
            epochs[int(f[2]) - int(f[5])][f"G{int(f[11]):02d}"] = (int(f[14]), float(f[16]))
    cn0, residual, elevation = defaultdict(list), defaultdict(list), {}
    for time_ns, seen in epochs.items():
        at = geometry(sky, ANDROID_PLACE.zero[None], np.array([time_ns * 1e-9 - navigation.start.week * WEEK_S]))
        columns = [sky.satellites.index(name) for name in seen]
        measured = [1e-9 * SPEED_OF_LIGHT_M_S * (time_ns % (WEEK_S * 10**9) - sent) for sent, _ in seen.values()]
        left = np.array(measured) - at.range_m[0, columns] + SPEED_OF_LIGHT_M_S * at.state.clock[0, columns]
        strong = [value for (_, level), value in zip(seen.values(), left, strict=True) if level > 34.0]
        if len(strong) < 3:
            continue
        for (name, (_, level)), value, column in zip(seen.items(), left - np.mean(strong), columns, strict=True):
            cn0[name].append(level)
            residual[name].append(value)
            elevation[name] = float(np.degrees(at.elevation[0, column]))
    rows = [
        (elevation[name], np.median(cn0[name]), np.std(np.diff(residual[name])) / np.sqrt(2.0))
        for name in cn0
        if len(cn0[name]) > 5
    ]
    return np.array(rows), np.concatenate([np.array(values) for values in cn0.values()])


# ---- simulation ------------------------------------------------------------------------------------------------------


def suburb(seed: int = 1) -> ph.World:
    """Streets of detached houses with trees, like those of the recording; sizes are common ones, not fitted.

    Houses of 5 to 7 m in rows 40 m apart with gaps of 4 m, trees of 7 to 11 m every 14 m along the street and in
    every second yard.
    """
    draw = np.random.default_rng(seed)
    world = ph.World("suburb")
    world.add(ph.shapes.plane(420, 220), material="asphalt", label="road")
    for row, y in enumerate((-60.0, -20.0, 20.0, 60.0)):
        for x in np.arange(-190.0, 191.0, 18.0):
            height = draw.uniform(5.0, 7.0)
            house = ph.shapes.box(14.0, 11.0, height)
            place = ph.Pose((x, y + draw.uniform(-1.0, 1.0), height / 2))
            world.add(house, material="wood", label="building", pose=place, name=f"house-{row}-{x:g}")
        for x in np.arange(-190.0, 191.0, 14.0):
            radius = draw.uniform(2.0, 3.5)
            side = y - np.sign(y) * 11.0 if abs(y) < 40.0 else y
            place = ph.Pose((x + draw.uniform(-4.0, 4.0), side, draw.uniform(4.5, 7.0)))
            world.add(
                ph.shapes.sphere(radius), material="leaf", label="vegetation", pose=place, name=f"tree-{row}-{x:g}"
            )
    return world


def simulated(count: int = 6, **options: Any) -> list[GnssData]:
    """Runs of an F9P through the suburb at several hours, 50 epochs each, 5 m/s."""
    world = suburb()
    drive = ph.ConstantTwist(ph.Pose((-120.0, -1.7, 1.6)), velocity=(5.0, 0.0, 0.0))
    return [
        ph.Gnss(
            "u-blox/f9p", rate_hz=1.0, latitude_deg=37.43, longitude_deg=-122.09,
            epoch=f"2020-02-07T{2 + 3 * k:02d}:14:17Z", **options,
        ).run(world, drive, duration=50.0, seed=k)
        for k in range(count)
    ]  # fmt: skip


def by_elevation(elevation_deg: Floats, cn0: Floats) -> Floats:
    """Fraction tracked and percentiles 10, 50 and 90 of C/N0 per elevation band, shape (bands, 4)."""
    rows = []
    for low, high in itertools.pairwise(ELEVATIONS):
        values = cn0[(elevation_deg >= low) & (elevation_deg < high)]
        tracked = values[np.isfinite(values)]
        rows.append((len(tracked) / max(len(values), 1), *np.percentile(tracked, [10, 50, 90])))
    return np.array(rows)


def signals_of(runs: list[GnssData]) -> tuple[Floats, Floats]:
    """Elevation [deg] and C/N0 [dB-Hz] of all satellites above the horizon in some runs."""
    elevation = np.concatenate([run.elevation.ravel() for run in runs])
    cn0 = np.concatenate([run.cn0.ravel() for run in runs])
    up = elevation > 0.0
    return np.degrees(elevation[up]), cn0[up]


def main() -> None:
    """Draw the figure."""
    from page import BLUE, GREY, ORANGE, finish, sheet

    figure, panels = sheet(8.4, 6.8, 2, 2)
    real, runs = recorded_signals(), simulated()
    elevation, cn0 = signals_of(runs)
    middle = [(a + b) / 2.0 for a, b in itertools.pairwise(ELEVATIONS)]
    for values, colour, label in (
        (by_elevation(real[:, 0], real[:, 1]), ORANGE, "F9K, recorded"),
        (by_elevation(elevation, cn0), BLUE, "F9P, simulated"),
    ):
        panels[0].plot(middle, values[:, 2], "o-", color=colour, markersize=4, label=f"{label}: median, p10 to p90")
        panels[0].fill_between(middle, values[:, 1], values[:, 3], color=colour, alpha=0.2)
        print(label, np.round(values, 2).tolist())
    panels[0].set(xlabel="elevation [deg]", ylabel="C/N0 [dB-Hz]", title="A car in a suburb")
    panels[0].legend(fontsize=8)
    for (low, high), style in (((0.0, 10.0), "-"), ((10.0, 30.0), "--"), ((30.0, 91.0), ":")):
        for angle, level, colour, name in (
            (real[:, 0], real[:, 1], ORANGE, "recorded"),
            (elevation, cn0, BLUE, "simulated"),
        ):
            chosen = np.sort(level[(angle >= low) & (angle < high) & np.isfinite(level)])
            share = np.linspace(0.0, 1.0, len(chosen))
            panels[1].plot(chosen, share, style, color=colour, label=f"{name}, {low:g} to {min(high, 90.0):g} deg")
    panels[1].set(xlabel="C/N0 [dB-Hz]", ylabel="cumulative fraction", title="Distributions by elevation")
    panels[1].legend(fontsize=7)
    phone, _ = recorded_phone()
    loops = ph.Gnss("generic/phone-2016").config.loops
    levels = np.linspace(24.0, 42.0, 50)
    sigma = code_sigma(levels, 293.05, loops.spacing_chips, loops.code_bandwidth_hz, loops.dwell_s)
    panels[2].semilogy(phone[:, 1], phone[:, 2], "o", color=ORANGE, label="Android log, one dot per satellite")
    panels[2].semilogy(levels, sigma, color=BLUE, label="generic/phone-2016")
    panels[2].set(xlabel="C/N0 [dB-Hz]", ylabel="noise of the pseudorange [m]", title="A phone at rest")
    panels[2].legend(fontsize=8)
    fixes = recorded_fixes(F9K)
    rtk = np.concatenate([run.quality for run in simulated(rtk_baseline_km=10.0) if run.quality is not None])
    names = ((4, "fixed"), (5, "float"), (2, "differential"), (1, "single"))
    for offset, qualities, colour, label in ((-0.2, fixes[:, 3], ORANGE, "recorded"), (0.2, rtk, BLUE, "simulated")):
        shares = [100.0 * float(np.mean(qualities == number)) for number, _ in names]
        panels[3].bar(np.arange(4) + offset, shares, 0.38, color=colour, label=label)
        print(label, shares)
    panels[3].set_xticks(range(4), [name for _, name in names])
    panels[3].set(ylabel="fraction of epochs [%]", title="RTK")
    panels[3].legend(fontsize=8)
    for panel in panels:
        panel.grid(color=GREY, alpha=0.2)
    finish(figure, "gnss-real")


if __name__ == "__main__":
    main()
