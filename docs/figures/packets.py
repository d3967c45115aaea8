"""Frames decoded from packets: pictures of docs/packets-hesai.md, packets-robosense.md and packets-livox.md.

python docs/figures/packets.py    # some ten seconds; the recorded frame needs ../shared/data (nebula_packets)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

import parhelion as ph
from parhelion.io.recordings import clouds_of
from parhelion.makers import codecs
from parhelion.pictures.scan import draw_scan

HERE = Path(__file__).resolve()
OUT = HERE.parents[1] / "images"
RECORDING = HERE.parents[2] / ".." / "shared" / "data" / "nebula_packets" / "hesai_pandar40p.db3"
WIDTH = 1400
SHARE = 0.49
"""Share of the picture above the views from above."""


def save(scan: ph.Scan, name: str, title: str) -> None:
    """Picture of a frame as WebP."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scan.png"
        draw_scan(scan, file, title)
        with Image.open(file) as picture:
            whole = picture.convert("RGB").resize((WIDTH, WIDTH * picture.height // picture.width), Image.LANCZOS)
            # Packets contain no labels, so the view from above by label is left out.
            whole.crop((0, 0, WIDTH, int(SHARE * whole.height))).save(OUT / f"{name}.webp", quality=80)


def decoded(model: str, xyz: tuple[float, float, float]) -> ph.Scan:
    """Simulated scan of the city after the way through its packets."""
    scan = ph.Lidar(model).scan(ph.World.load("city"), pose=ph.Pose(xyz), seed=7)
    codec = codecs()[model.split("/", maxsplit=1)[0]]
    stream = codec.stream(model, epoch_s=1_700_000_000.0)
    return next(codec.frames([*stream.add(scan), *stream.finish()], model=model, metadata=None, source=model))


def main() -> int:
    if RECORDING.exists():
        frames = [cloud for _, cloud in clouds_of(RECORDING)]
        assert isinstance(frames[1], ph.Scan)
        save(frames[1], "packets-hesai", "Pandar40P, recorded: one revolution from its packets")
    save(
        decoded("robosense/helios-32", (0.0, -1.75, 1.8)), "packets-robosense", "RS-Helios, simulated, from its packets"
    )
    save(decoded("livox/mid-360", (0.0, -1.75, 1.8)), "packets-livox", "Mid-360, simulated: 0.1 s from its packets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
