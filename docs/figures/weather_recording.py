"""Weather on a real recording: one frame of an Ouster OS1-128 in clear air, as it would have been otherwise."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from page import changed, finish, sheet
from weather_page import AIR, draw_from_above, table, write

import parhelion as ph

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "lidar"
PACKETS, METADATA = "OS-1-128_v2.3.0_1024x10_lb_n3.pcap", "OS-1-128_v2.3.0_1024x10.json"
WEATHERS = (
    ("clear, as recorded", None),
    ("rain, 25 mm/h", ph.Weather(rain_rate_mm_h=25.0)),
    ("fog, visibility 200 m", ph.Weather(visibility_m=200.0)),
    ("snow, 2 mm/h", ph.Weather(snow_rate_mm_h=2.0)),
)
SHOWN_M = 60.0


def missing() -> str | None:
    """Reason why the recording cannot be read, or None."""
    if not (DATA / PACKETS).is_file():
        return f"the recording {PACKETS} is not here"
    return None if find_spec("ouster") else "the package ouster-sdk is not installed"


def recording() -> ph.PointCloud:
    """The first frame as a cloud with a row for every shot; rows without a return have no coordinates."""
    sdk, core = (import_module(name) for name in ("ouster.sdk", "ouster.sdk.core"))
    info = core.SensorInfo((DATA / METADATA).read_text())
    frame = next(iter(sdk.open_source(str(DATA / PACKETS), meta=[str(DATA / METADATA)])))[0]
    lut = core.XYZLut(info, use_extrinsics=False)
    range_mm = frame.field("RANGE")
    near, far = (lut(np.full(range_mm.shape, mm, dtype=np.uint32)) for mm in (10_000, 20_000))
    xyz = np.where((range_mm > 0)[..., None], lut(range_mm), np.nan).reshape(-1, 3)
    ring, column = np.indices(range_mm.shape)
    fields = {
        # This profile carries no signal, but a calibrated reflectivity: 0 to 100 % diffuse, retro-reflectors above.
        "intensity": frame.field("REFLECTIVITY").ravel().astype(np.float32),
        "ring": ring.ravel().astype(np.uint16),
        "column": column.ravel().astype(np.uint16),
        "direction": ((far - near) / 10.0).reshape(-1, 3).astype(np.float32),
    }
    return ph.PointCloud(xyz.astype(np.float32), fields)


def on_a_recording() -> None:
    """Section g: the frame with and without weather."""
    reason = missing()
    if reason is not None:
        print(f"recording: skipped, {reason}; the page keeps its earlier figures")
        return
    cloud = recording()
    lidar = ph.Lidar(changed("ouster/os1-128", intensity={"scale": "velodyne"}))
    before = int(np.isfinite(cloud.xyz).all(axis=1).sum())
    figure, panels = sheet(8.4, 8.4, 2, 2, sharex=True, sharey=True)
    rows = []
    for axes, (name, weather) in zip(panels, WEATHERS, strict=True):
        after = cloud if weather is None else weather.apply(cloud, sensor=lidar, seed=7)
        here = np.isfinite(after.xyz).all(axis=1)
        after = after.select(here)
        in_air = np.zeros(len(after), bool) if weather is None else np.isin(after.origin, AIR)
        draw_from_above(axes, after.xyz, in_air, SHOWN_M)
        axes.set_title(name)
        kept = int(np.count_nonzero(~in_air))
        far = np.linalg.norm(after.xyz[~in_air], axis=1)
        rows.append([
            name, len(after), f"{100.0 * kept / before:.1f} %", int(in_air.sum()),
            f"{100.0 * in_air.mean():.1f} %", f"{np.percentile(far, 99):.0f} m",
        ])  # fmt: skip
    for axes in panels[::2]:
        axes.set_ylabel("y [m]")
    finish(figure, "weather-recording")
    columns = ["weather", "points", "surfaces still there", "points of the air", "share", "99 % nearer than"]
    write("recording", table(columns, rows))
