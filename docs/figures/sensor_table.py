"""Writes docs/sensors.md from the preset files, so that page and data cannot drift apart."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import numpy as np

import parhelion as ph
from parhelion.core.config import Source
from parhelion.sensors.kinds import kinds
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.patterns import ShotTable, shot_table

SMALL = "[small sensors](models/small-sensors.md)"
MODEL_PAGES = {
    "lidar": "[link budget](models/lidar-link-budget.md) and those after it", "imu": "[IMU](models/imu.md)",
    "camera": "[camera](models/camera.md) and those after it", "radar": "[radar](models/radar.md)",
    "echo": "[pulse-echo](models/echo.md)", "odometry": SMALL, "barometer": SMALL, "magnetometer": SMALL,
    "gnss": "[satellite navigation](models/gnss.md)", "uwb": "[ranging radio](models/uwb.md)",
}  # fmt: skip
PAGE = Path(__file__).resolve().parents[1] / "sensors.md"

HEAD = """# Sensors

<!-- Written by docs/figures/sensor_table.py from the preset files: edit those, then run the script. -->

Every sensor is described by a data sheet, one YAML file. Give its name (`"velodyne/vlp-16"`, in any case), or copy a
file, change it and give its path. Each file lists its sources with the fields they cover; fields without a source are
listed under `assumed`, with the reason. Lidar presets are in
`src/parhelion/sensors/presets/lidar/<maker>/<model>.yaml`; the field `maker` selects the ROS topic, the point layout
and the packet format, so a copy behaves like the original. `parhelion sensors` and `ph.sensors()` list all sensors,
including the kinds that other packages [add](architecture.md#add-a-kind-of-sensor). The
[counts](#sources-of-the-numbers) show how many numbers have a source.

KINDS

![Scan patterns of some of the sensors](images/patterns.png)

## All lidars

Points are shots per second at the default rate. Divergence is the full angle, horizontal x vertical, by the definition
in the file. Range: as rated, for a diffuse target of the given reflectance with a detection rate of 50 %, for Ouster
90 % (`range.rated.detection`); in brackets the longest reported range.

| sensor | channels | field of view [deg] | points/s | rates [Hz] | range | [nm] | divergence [mrad] | scatter |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

CONVENTIONS = """
## Conventions

- Sensor frame: x forward, y left, z up. Azimuth counts counter-clockwise from x, elevation up from the xy plane.
- Velodyne and RoboSense: the maker's azimuth 0 is our x, as in their ROS drivers; heads rotate clockwise. The height of
  a laser is the point where its beam crosses the axis, as in the maker's formula.
- Ouster: points are in Ouster's *sensor* frame (x away from the connector, origin at the base, optical centre
  `height_mm` up), the default of Ouster's drivers. Column 0 points back to the connector and columns run clockwise.
  Beams start `beam_offset_mm` off the axis, and our ranges start there; Ouster's range field counts from the axis and
  is larger by this offset. With the angles of a unit, the rays agree with `XYZLut` of `ouster-sdk` to 2e-7.
- Hesai: the maker's y axis (azimuth 0) is our x.
- Livox: x out of the window, as in Livox's own frame.
- Shots come column by column: shot = column x channels + channel, channels in the maker's order. Ring 0 is the lowest.
  If lasers fire in sequence, the head rotates between them, and each shot has its own time and azimuth.

## Rated ranges

One rated range determines the system constant; two also determine an extinction. Several data sheets give a pair that
would make it negative (OS0, OS1, Mid-40), or that ends at the range gate instead of the detection limit (Mid-360).
Those presets use the darker target only. OS1: 40 m at 10 % corresponds to 113 m at 80 % by 1/R^2; the data sheet
states 120 m. Ouster rates its ranges for a detection rate of 90 %: an OS1 detects a 10 % target at 53 m with half of
its shots
([link budget](models/lidar-link-budget.md#rated-for-a-detection)).

## Real recordings

`tests/contracts/test_real_recordings.py` compares presets with recordings:

| quantity | preset | recorded |
| --- | --- | --- |
| OS1-128 and OS0-128 column period at 1024x10 | 97.66 us | 97.61 to 97.73 us on average; single steps within 5.3 % |
| OS1-128 beams, largest difference from nominal | uniform, +-21.2 deg | 0.97 deg; spacing within 1 % |
| OS0-128 beams, largest difference from nominal | uniform, +-45 deg | 1.26 deg; spacing within 2.5 % |
| VLP-16 packet spacing (24 sequences) | 1327.10 us | 1327.10 us |
| VLP-16 azimuth step of two sequences, 10 Hz | 0.3981 deg | 0.3977 deg, at 9.99 Hz |

Presets have uniform nominal beams. For a digital twin of one Ouster unit, copy the angles of its metadata into a copy
of the preset (azimuth with the opposite sign).

## Livox patterns

Mid-40: two prisms whose deflections add as vectors, at the published speeds of 7294 and -4664 rpm.
Mid-360: rotation and nod rates from the scan table that Livox publishes for its own simulator. Avia and HAP: the speeds
are not published and are assumed; field of view, point rate and number of lines are the maker's.

| fraction of 0.5 deg cells of the field of view with a shot | 0.1 s | 0.5 s | 1 s |
| --- | --- | --- | --- |
"""

COUNTS = """
## Sources of the numbers

Counts by `python tools/assumed.py`; `--list` names every assumed number with its reason. Opened: the source was opened
and states the number. It is a data sheet, a page of the maker, a driver, a recording, or a public document that cites
the data sheet. Quoted: as commonly quoted from a data sheet that was not available. Assumed: no source, but a reason.
A list counts as one number.

"""

SOURCES_HEAD = """
## Sources of lidar presets

**Read**: the source itself was read. *Quoted*: figures as commonly quoted from a data sheet that was not available;
they were not checked against it, so compare them with the data sheet of your unit. Assumed: no source.
"""
LIVOX = ("livox/mid-40", "livox/avia", "livox/mid-360", "livox/hap")


def table_row(name: str, config: LidarConfig, table: ShotTable) -> str:
    pattern, limits, noise = config.pattern, config.range, config.noise
    elevation, azimuth = np.degrees(table.elevation), np.degrees(table.azimuth)
    if not getattr(pattern, "channels", None) and pattern.kind != "raster":
        later = [shot_table(pattern, frame_start_s=k / pattern.rate_hz) for k in range(10)]
        elevation = np.degrees(np.concatenate([frame.elevation for frame in later]))
        azimuth = np.degrees(np.concatenate([frame.azimuth for frame in later]))
    channels = int(table.ring.max()) + 1
    across = "360" if np.ptp(azimuth) > 350 else f"{np.ptp(azimuth):.1f}".removesuffix(".0")
    high, low = (f"{edge:+.1f}".removesuffix(".0") for edge in (elevation.max(), elevation.min()))
    field = f"{across} x {high} to {low}" if np.ptp(elevation) > 0 else across
    rates = sorted({pattern.rate_hz, *pattern.rates_hz})
    rate_text = f"{rates[0]:g} to {rates[-1]:g}" if len(rates) > 4 else ", ".join(f"{rate:g}" for rate in rates)
    rated = ", ".join(f"{rating.range_m:g} m at {100 * rating.reflectance:g} %" for rating in limits.rated)
    divergence = " x ".join(f"{angle:g}" for angle in config.beam.divergence_mrad)
    if noise.range_sigma_table:
        scatter = f"{100 * noise.range_sigma_table[0][1]:g} to {100 * noise.range_sigma_table[-1][1]:g} cm"
    else:
        scatter = f"{100 * noise.range_sigma_m:g} cm"
    points = f"{round(len(table) * pattern.rate_hz):,}".replace(",", " ")
    return (
        f"| `{name}` | {channels} | {field} | {points} | {rate_text} | {rated} ({limits.max_m:g} m) "
        f"| {config.wavelength_nm:g} | {divergence} | {scatter} |\n"
    )


def coverage_row(name: str, cell_deg: float = 0.5) -> str:
    """Fraction of cells of the bounding box of the field with a shot; a circular field fills 79 % of the box."""
    pattern = ph.Lidar(name).config.pattern
    frames = [shot_table(pattern, frame_start_s=k / pattern.rate_hz) for k in range(10)]
    angles = [np.degrees(np.stack([frame.azimuth, frame.elevation], axis=1)) for frame in frames]
    low, high = np.min([a.min(axis=0) for a in angles], axis=0), np.max([a.max(axis=0) for a in angles], axis=0)
    bins = np.ceil((high - low) / cell_deg).astype(int)
    shares = []
    for count in (1, 5, 10):
        every = np.concatenate(angles[:count])
        cells, _ = np.histogramdd(every, bins=list(bins), range=list(zip(low, high, strict=True)))
        shares.append(f"{100 * np.count_nonzero(cells) / cells.size:.0f} %")
    return f"| `{name}` | {' | '.join(shares)} |\n"


def source_line(source: Source) -> str:
    mark = f"*Quoted*: {source.title}" if source.quoted else f"**Read**: {source.title}"
    note = f" {source.note}" if source.note else ""
    return f"- {mark}: `{'`, `'.join(source.covers)}`.{note}\n"


def sources_of(names: list[str], config: LidarConfig, common: dict[str, str]) -> str:
    text = f"\n### `{'`, `'.join(names)}`\n\n" + "".join(source_line(source) for source in config.sources)
    own = {field: reason for field, reason in config.assumed.items() if common.get(field) != reason}
    reasons = "; ".join(f"`{field}` ({reason})" for field, reason in own.items())
    return text + (f"- Assumed: {reasons}.\n" if reasons else "")


def sources_section(configs: dict[str, LidarConfig]) -> str:
    """Sources and reasons, grouped by sensors that share them; reasons of most sensors are listed once."""
    counts = Counter(item for config in configs.values() for item in config.assumed.items())
    common = {field: reason for (field, reason), count in counts.items() if count > len(configs) / 2}
    text = SOURCES_HEAD + "Assumed for most sensors: "
    text += "; ".join(f"`{field}` ({reason})" for field, reason in common.items()) + ".\n"
    alike: dict[str, list[str]] = {}
    for name, config in configs.items():
        alike.setdefault(config.model_dump_json(include={"sources", "assumed"}), []).append(name)
    return text + "".join(sources_of(names, configs[names[0]], common) for names in alike.values())


def kinds_table() -> str:
    """All kinds of sensors with their presets; lidars have a separate table."""
    lines = ["| `type` in a scenario | kind | output | presets | model |", "| --- | --- | --- | --- | --- |"]
    for kind in kinds().values():
        if kind.class_path.startswith("parhelion."):
            names = kind.preset_names()
            shown = f"[{len(names)}](#all-lidars)" if kind.name == "lidar" else ", ".join(f"`{name}`" for name in names)
            lines.append(f"| `{kind.name}` | {kind.summary} | {kind.output} | {shown} | {MODEL_PAGES[kind.name]} |")
    return "\n".join(lines)


def counts_section() -> str:
    """Numbers per kind by the state of their sources."""
    tool = runpy.run_path(str(PAGE.parents[1] / "tools" / "assumed.py"))
    names = sorted(folder.name for folder in tool["PRESETS"].iterdir() if folder.is_dir())
    return COUNTS + str(tool["table"]({name: tool["audit"](name) for name in names})) + "\n"


def page() -> str:
    """The whole page as Markdown."""
    configs = {name: ph.Lidar(name).config for name in ph.presets("lidar")}
    rows = "".join(table_row(name, config, shot_table(config.pattern)) for name, config in configs.items())
    coverage = "".join(coverage_row(name) for name in LIVOX)
    return (
        HEAD.replace("KINDS", kinds_table())
        + rows
        + CONVENTIONS
        + coverage
        + counts_section()
        + sources_section(configs)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
