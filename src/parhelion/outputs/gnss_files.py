"""Files of a receiver: fixes and satellites as tables, NMEA sentences, a RINEX observation file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from parhelion.core.gnss import STATUS, GnssData
from parhelion.io import nmea, rinex_obs
from parhelion.io.atomic import atomic_write

_HEAD = (
    "time_s,satellite,azimuth_deg,elevation_deg,status,used,cn0_dbhz,pseudorange_m,carrier_cycles,doppler_hz,residual_m"
)


def files_beside(file: Path) -> list[Path]:
    """What is written beside the table of fixes."""
    return [file.with_name(f"{file.stem}-satellites.csv"), file.with_suffix(".nmea"), file.with_suffix(".rnx")]


def fix_columns(data: GnssData) -> dict[str, np.ndarray]:
    """One column a number of each fix; NaN where there is none."""
    columns = {"time_s": data.time, "mode": data.mode}
    for name in ("position", "velocity", "true_position"):
        columns |= {f"{name}_{axis}": getattr(data, name)[:, k] for k, axis in enumerate("xyz")}
    columns |= {"latitude_deg": data.latitude, "longitude_deg": data.longitude, "altitude_m": data.altitude}
    columns |= {f"{name}dop": data.dop[:, k] for k, name in enumerate("gphv")}
    columns |= {"satellites": data.satellites_used, "consistent": data.consistent}
    return columns | {"clock_bias_s": data.clock_bias, "clock_drift": data.clock_drift}


def write_satellites(data: GnssData, file: Path) -> None:
    """A row a satellite above the horizon and time; empty cells where nothing was measured."""
    with atomic_write(file) as temporary, temporary.open("w", encoding="ascii", newline="") as stream:
        stream.write(_HEAD + "\n")
        for k, j in np.argwhere(data.status > 0):
            numbers = (data.cn0, data.pseudorange, data.carrier, data.doppler, data.residual)
            cells = [f"{v[k, j]:.3f}" if np.isfinite(v[k, j]) else "" for v in numbers]
            angles = f"{np.degrees(data.azimuth[k, j]):.3f},{np.degrees(data.elevation[k, j]):.3f}"
            stream.write(
                f"{float(data.time[k])!r},{data.satellites[j]},{angles},{STATUS[data.status[k, j]]},{data.used[k, j]},"
                + ",".join(cells)
                + "\n"
            )


def write_gnss(data: GnssData, file: Path) -> list[str]:
    """All files of a receiver."""
    from parhelion.outputs.files import write_columns

    satellites, sentences, ranges = files_beside(file)
    write_satellites(data, satellites)
    nmea.write(data, sentences)
    rinex_obs.write(data, ranges)
    write_columns(file, fix_columns(data))
    return []
