"""Recordings of real lidars as images: one value for every pulse, lost ones too, so that they compare with scans.

The recordings lie outside the repository (`../shared/data/lidar`, or the folder that PARHELION_RECORDINGS names); where
one is absent, `read` raises FileNotFoundError. They come from ouster-lidar/ouster-sdk (BSD-3) and
jerry73204/rust-lidar-utils (MIT).

    from recordings import read
    frame = read("os1-32")[0]
    frame.signal[~frame.lost]
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.calibrate.range_images import Floats
from parhelion.calibrate.range_images import RangeImage as Frame
from parhelion.core.clouds import Scan
from parhelion.io.pcap import read_pcap
from parhelion.makers.codec import json_beside
from parhelion.makers.ouster.layout import packet_type, profile_called
from parhelion.makers.ouster.metadata import describe, read_metadata
from parhelion.makers.velodyne.decode import is_data_packet
from parhelion.makers.velodyne.encode import DATA_PACKET
from parhelion.makers.velodyne.models import velodyne_model

FILES = {
    "os0-32": "OS-0-32-U1_v2.2.0_1024x10.pcap",
    "os1-32": "OS-1-32-G_v2.1.1_1024x10.pcap",
    "os0-128": "OS-0-128-U1_v2.3.0_1024x10.pcap",
    "os1-128": "OS-1-128_v2.3.0_1024x10_lb_n3.pcap",
    "vlp-16": "velodyne_vlp16.pcap",
}
"""Recordings by name. Those of the 128-row units hold reflectivity and near infrared, but no photons."""
# Position of the flag in the word of the range: the maker's sign that a range was measured and is not given.
_FLAG_BIT = {"LEGACY": 28, "RNG15_RFL8_NIR8": 15}
_DEFAULT_FLAG_BIT = 19


def folder() -> Path:
    """Folder of the recordings."""
    beside = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "lidar"
    return Path(os.environ.get("PARHELION_RECORDINGS", beside))


def read(name: str) -> list[Frame]:
    """The revolutions of a recording."""
    file = folder() / FILES[name]
    if not file.is_file():
        raise FileNotFoundError(f"the recording {file.name} is not in {file.parent}")
    return _velodyne(name, file) if name.startswith("vlp") else _ouster(name, file)


def of_scan(scan: Scan, name: str = "simulated") -> Frame:
    """A simulated Ouster or Velodyne scan as the same images; the strongest of several returns is used.

    Quantities that scans report only for returns (signal, near infrared) are NaN for lost pulses.
    """
    rows, columns = int(scan.shots.ring.max()) + 1, int(scan.shots.column.max()) + 1
    first = int(scan.shots.column.min())
    shape = (rows, columns - first)
    order = np.argsort(np.asarray(scan.intensity), kind="stable")
    place = (rows - 1 - scan.ring[order].astype(int), scan.column[order].astype(int) - first)

    def image(field: str) -> Floats:
        values = np.full(shape, np.nan)
        if field in scan.fields:
            values[place] = scan.fields[field][order]
        return values

    elevation = np.full(rows, np.nan)
    elevation[rows - 1 - scan.shots.ring.astype(int)] = np.degrees(np.arcsin(scan.shots.direction[:, 2]))
    distance = image("range")
    return Frame(
        name, distance, image("intensity"), 100.0 * image("reflectivity"), image("near_ir"), np.isnan(distance),
        np.zeros(shape, bool), elevation,
    )  # fmt: skip


def _ouster(name: str, file: Path) -> list[Frame]:
    document = json_beside(file)
    if document is None:
        raise FileNotFoundError(f"the metadata of {file.name} is not in {file.parent}")
    sensor = describe(read_metadata(document))
    profile, kind = profile_called(sensor.profile), packet_type(sensor.profile, sensor.channels)
    payloads = [part.payload for part in read_pcap(file) if len(part.payload) == kind.itemsize]
    data = np.frombuffer(b"".join(payloads), kind)
    numbers = data["frame"] if profile.has_header else data["columns"]["frame"][:, 0]
    frames = []
    for number in dict.fromkeys(numbers.tolist()):
        columns = data[numbers == number]["columns"].reshape(-1)
        columns = columns[columns["status"] & 1 == 1]
        pixels: Any = columns["pixels"][np.argsort(columns["number"])].T
        word = pixels["range"].astype(np.int64)
        count = word & ((1 << profile.range_bits) - 1)
        lost = count == 0
        metres = count * (profile.range_unit_mm * 1e-3) - sensor.beam_offset_m
        missing = np.full(count.shape, np.nan)
        flag = word >> _FLAG_BIT.get(sensor.profile, _DEFAULT_FLAG_BIT) & 1 == 1
        frames.append(
            Frame(
                name,
                np.where(lost, np.nan, metres),
                pixels["signal"].astype(np.float64) if profile.of("signal", 0) else missing,
                pixels["reflectivity"].astype(np.float64),
                pixels["near_ir"].astype(np.float64) * profile.near_ir_unit,
                lost,
                lost & flag,
                np.asarray(sensor.altitude_deg),
                sensor.beam_offset_m,
            )
        )
    return frames


def _velodyne(name: str, file: Path) -> list[Frame]:
    """All that a VLP-16 sent, as one image."""
    model = velodyne_model("velodyne/vlp-16")
    payloads = [part.payload for part in read_pcap(file) if is_data_packet(part.payload)]
    records = np.frombuffer(b"".join(payloads), DATA_PACKET)["blocks"]["records"].reshape(-1, model.channels)
    highest_first = np.argsort(model.elevation_deg)[::-1]
    records = records[:, highest_first].T
    lost = records["distance"] == 0
    missing = np.full(lost.shape, np.nan)
    level = records["reflectivity"].astype(np.float64)
    frame = Frame(
        name, np.where(lost, np.nan, records["distance"] * model.unit_m), level, level, missing, lost,
        np.zeros_like(lost), np.asarray(model.elevation_deg)[highest_first],
    )  # fmt: skip
    return [frame]
