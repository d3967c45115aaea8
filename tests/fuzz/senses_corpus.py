"""Small valid files of navigation, radio, sound, calibration, studies and labels, each with its reader."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.io import wavfile

from campaign_rigs import write_study
from fuzz.seed import Seed
from parhelion import Gnss, Lidar, World
from parhelion.calibrate.boards.boards import BoardsFile
from parhelion.calibrate.boards.shots import read_shots
from parhelion.campaign import Study
from parhelion.core import config
from parhelion.evaluate.detections.kitti import read_boxes
from parhelion.sensors.kinds import kind_named
from parhelion.sensors.sheets import PRESETS
from parhelion.sensors.waves.gnss.rinex_nav import read_navigation
from parhelion.world.emitters import read_wav

SHEETS = {
    "gnss": "u-blox/m8", "uwb": "qorvo/dw1000", "radar": "continental/ars408-21-far", "echo": "generic/multibeam-400",
    "imu": "bosch/bmi160",
}  # fmt: skip
"""One preset of each kind; its file is a seed."""
PROFILE: dict[str, Any] = {
    "angle_deg": [0.0, 20.0, 40.0], "shots": [30, 20], "drop": [0.1, 0.4], "drop_error": [0.05, 0.1],
    "range_bias_m": [0.001, 0.002], "range_sigma_m": [0.01, 0.02], "intensity": [0.0, 10.0, 47.0], "kind": "values",
    "counts": [[3.0, 4.0, 20.0], [8.0, 1.0, 3.0]], "distance_m": [1.0, 2.0], "recorded_deg": [0.0, 40.0],
    "brdf": {"model": "lambert", "parameters": {"rho": 0.5}, "scale": 80.0, "error": 0.1, "constant_error": 0.3},
}  # fmt: skip


def _as_rinex_2(text: str) -> str:
    """GPS records of a RINEX 3 file in the columns of RINEX 2."""
    made = f"{'     2.11           N: GPS NAV DATA':60}RINEX VERSION / TYPE\n"
    for label, row in (("ION ALPHA", "1.1D-08"), ("ION BETA", "9.2D+04")):
        made += f"  {f'  {row}   ' * 4:58}{label}\n"
    made += f"{'':60}END OF HEADER\n"
    lines = text.split("END OF HEADER", 1)[1].splitlines()[1:]
    for first in range(0, len(lines), 8):
        name, year, *rest = lines[first][:23].split()
        if name[0] == "G":
            month, day, hour, minute, second = map(int, rest)
            made += f"{int(name[1:]):2d} {int(year) % 100:02d} {month:2d} {day:2d} {hour:2d} {minute:2d}{second:5.1f}"
            made += lines[first][23:] + "\n" + "".join(f"{line[1:]}\n" for line in lines[first + 1 : first + 8])
    return made


def _navigation(folder: Path) -> list[Seed]:
    whole = folder / "whole.rnx"
    Gnss("u-blox/m8", epoch="2021-04-28T20:30:00+00:00", latitude_deg=50, longitude_deg=8).save_navigation(
        World(), whole
    )
    head, records = whole.read_text().split("END OF HEADER", 1)
    first, *lines = records.splitlines(keepends=True)
    starts = range(0, len(lines), 8)
    some = [k for letter in "GEC" for k in [s for s in starts if lines[s][0] == letter][:2]]
    text = f"{head}END OF HEADER{first}" + "".join("".join(lines[k : k + 8]) for k in some)
    (folder / "three.rnx").write_text(text)
    (folder / "two.nav").write_text(_as_rinex_2(text))
    whole.unlink()
    return [Seed(folder / name, read_navigation) for name in ("three.rnx", "two.nav")]


def _sheets(folder: Path) -> list[Seed]:
    seeds = []
    for kind, preset in SHEETS.items():
        file = folder / f"{kind}.yaml"
        shutil.copy(PRESETS / kind / f"{preset}.yaml", file)
        seeds.append(Seed(file, kind_named(kind).sensor))
    return seeds


def _calibrations(folder: Path) -> list[Seed]:
    sheet = yaml.safe_load((PRESETS / "lidar" / "slamtec" / "rplidar-a1.yaml").read_text())
    sheet["calibration"] = {"recording": "board.txt", "turns": 3, "materials": {"plywood": PROFILE}}
    (folder / "mine.yaml").write_text(yaml.safe_dump(sheet, sort_keys=False))
    boards = {
        "boards": [{"material": "plywood", "recording": "board.txt", "distance_m": 1.2, "azimuth_deg": [-30, 30]}],
        "targets": [{"range_m": 50, "reflectance": 0.1}, {"range_m": 120, "reflectance": 0.8}],
    }
    (folder / "boards.yaml").write_text(yaml.safe_dump(boards))
    angle = np.linspace(-0.5, 0.5, 40)
    rows = np.column_stack([1.2 / np.cos(angle), np.where(np.arange(40) % 7, 47, 0), angle])
    np.savetxt(folder / "board.txt", rows, delimiter=",")
    table = np.column_stack([rows[:, :2], np.degrees(angle), np.zeros(40)])
    np.savetxt(
        folder / "named.csv", table, delimiter=",", header="range,intensity,angle_deg,elevation_deg", comments=""
    )
    return [
        Seed(folder / "mine.yaml", Lidar),
        Seed(folder / "boards.yaml", lambda path: config.load(BoardsFile, path)),
        Seed(folder / "board.txt", read_shots),
        Seed(folder / "named.csv", read_shots),
    ]


def _evaluations(folder: Path) -> list[Seed]:
    vary = {"weather.rain_rate_mm_h": [0, 50], "sensors.top.mount.xyz.0": {"uniform": [-5, 5], "count": 3, "seed": 1}}
    stop = {"measure": "detection_share", "half_width": 0.02}
    study = write_study(folder, vary=vary, measures=["detection_share"], stop=stop)
    label = "Car 0.00 0 -1.57 599.41 156.40 629.75 189.25 2.85 2.63 12.34 0.47 1.49 69.44 -1.56"
    (folder / "labels.txt").write_text(f"{label}\n{label.replace('Car', 'Pedestrian')}\n")
    (folder / "found.txt").write_text(f"{label} 0.93\n")
    return [
        Seed(study, Study.load),
        Seed(folder / "labels.txt", lambda path: read_boxes(path, detections=False)),
        Seed(folder / "found.txt", lambda path: read_boxes(path, detections=True)),
    ]


def _sounds(folder: Path) -> list[Seed]:
    heard = np.sin(np.arange(200) * 0.3)
    wavfile.write(folder / "whole.wav", 8000, (heard * 20000).astype(np.int16))
    wavfile.write(folder / "stereo.wav", 44100, (np.stack([heard, -heard], axis=1) * 1e9).astype(np.int32))
    world = {
        "name": "hum",
        "objects": [{"shape": {"kind": "box", "size_m": [1, 2, 3]}, "material": "concrete"}],
        "sounds": [
            {"name": "fan", "level_db": 80, "tone_khz": 2.0, "xyz": [1, 0, 1]},
            {"name": "call", "level_db": 70, "wav": "whole.wav", "xyz": [2, 0, 1]},
        ],
    }
    (folder / "world.yaml").write_text(yaml.safe_dump(world))
    return [
        *(Seed(folder / f"{name}.wav", read_wav) for name in ("whole", "stereo")),
        Seed(folder / "world.yaml", World.load),
    ]


PARTS = (_navigation, _sheets, _calibrations, _evaluations, _sounds)
"""Functions that make each group of files."""
