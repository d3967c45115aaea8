"""nuScenes' radar files: a binary PCD of 18 fields, one row a detection.

Source: https://github.com/nutonomy/nuscenes-devkit (RadarPointCloud.from_file), which says what the codes mean. Its
reader wants a row in every file, so a frame without detections has one of NaN, and a byte behind the last row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.radar import RadarScan

LAYOUT = np.dtype(
    [
        ("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("dyn_prop", "i1"), ("id", "<i2"), ("rcs", "<f4"), ("vx", "<f4"),
        ("vy", "<f4"), ("vx_comp", "<f4"), ("vy_comp", "<f4"), ("is_quality_valid", "i1"), ("ambig_state", "i1"),
        ("x_rms", "i1"), ("y_rms", "i1"), ("invalid_state", "i1"), ("pdh0", "i1"), ("vx_rms", "i1"), ("vy_rms", "i1"),
    ]
)  # fmt: skip
"""A row: x ahead and y to the left in the radar's frame [m], cross-section [dBsm], velocities [m/s]."""
MOVING, STATIONARY, ONCOMING = 0, 1, 2
"""Codes of `dyn_prop`."""
UNAMBIGUOUS = 3
"""Code of `ambig_state`; tools leave out detections with others."""
LIKELY_REAL = 1
"""Code of `pdh0`: less than 25 % chance of a false alarm."""


def rows_of(scan: RadarScan, own_velocity: NDArray[np.float64], moving_m_s: float) -> NDArray[np.void]:
    """The rows of a frame.

    `own_velocity` (3,) [m/s] is the radar's over ground, in its own frame. A radar measures the velocity along the line
    of sight alone: `vx` and `vy` are that as a vector; `vx_comp` and `vy_comp` have the radar's own share taken out.
    What is faster than `moving_m_s` moves away or comes. Rows carry what a radar knows, so mirrored and false ones are
    not marked; the fields of accuracy (`rms`) are 0.
    """
    rows = np.zeros(len(scan), LAYOUT)
    xyz = scan.xyz.astype(np.float64)
    unit = xyz / np.maximum(np.linalg.norm(xyz, axis=1, keepdims=True), 1e-9)
    speed = scan.fields["radial_velocity"].astype(np.float64)
    over_ground = speed + unit @ own_velocity
    rows["x"], rows["y"], rows["z"] = xyz.T
    rows["id"] = np.arange(len(scan)) % 32768
    rows["rcs"] = scan.fields["rcs"]
    rows["vx"], rows["vy"] = (speed[:, None] * unit[:, :2]).T
    rows["vx_comp"], rows["vy_comp"] = (over_ground[:, None] * unit[:, :2]).T
    rows["dyn_prop"] = np.where(
        np.abs(over_ground) <= moving_m_s, STATIONARY, np.where(over_ground < 0.0, ONCOMING, MOVING)
    )
    rows["is_quality_valid"], rows["ambig_state"], rows["pdh0"] = 1, UNAMBIGUOUS, LIKELY_REAL
    return rows


def encode(rows: NDArray[np.void]) -> bytes:
    """The file of some rows."""
    if not len(rows):
        rows = np.zeros(1, LAYOUT)
        for name in LAYOUT.names or ():
            if LAYOUT[name].kind == "f":
                rows[name] = np.nan
    names = LAYOUT.names or ()
    kinds = {"f": "F", "i": "I"}
    lines = [
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        f"FIELDS {' '.join(names)}",
        f"SIZE {' '.join(str(LAYOUT[name].itemsize) for name in names)}",
        f"TYPE {' '.join(kinds[LAYOUT[name].kind] for name in names)}",
        f"COUNT {' '.join('1' for _ in names)}",
        f"WIDTH {len(rows)}",
        "HEIGHT 1",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {len(rows)}",
        "DATA binary",
    ]
    return "\n".join(lines).encode() + b"\n" + rows.tobytes() + b"\n"
