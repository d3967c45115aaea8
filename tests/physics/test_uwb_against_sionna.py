"""Paths in a street canyon against Sionna RT: its stored answer, and itself where it is installed.

`PARHELION_SIONNA_PYTHON` names a Python that has sionna-rt; it needs an LLVM of 17 or later.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
import sionna_paths
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.sensors.uwb.paths import Paths

CARRIER_HZ = 6.4896e9
BOXES = {
    "left": ((60, 8, 12), (0, 12, 6)),
    "right": ((60, 8, 15), (0, -12, 7.5)),
    "end": ((6, 10, 9), (22, 2.5, 4.5)),
    "ground": ((200, 200, 0.2), (0, 0, -0.1)),
}
TAG = [-14.3, 1.2, 1.7]
ANCHORS = [[10.1, -4.3, 4.9], [-3.7, 6.1, 3.3], [17.2, -6.4, 2.2]]
STORED = (
    {25.2161: 76.73, 25.8683: 90.24, 27.7851: 81.46, 28.3783: 93.37, 31.1514: 83.67, 31.6817: 94.03, 36.1642: 91.96,
     44.8537: 95.44, 46.4316: 92.90},
    {11.7869: 70.12, 12.7031: 103.73, 13.8062: 76.75, 14.5962: 99.56, 25.6478: 84.29, 26.0816: 93.75, 29.1433: 93.14,
     38.4256: 95.99, 56.2367: 91.76, 56.4359: 95.80, 56.6944: 93.05},
    {32.4077: 78.91, 32.6377: 84.41, 33.3038: 81.85, 33.5276: 87.20, 37.9729: 84.91, 38.1694: 89.58, 39.8480: 90.83,
     50.6030: 95.61},
)  # fmt: skip
"""By anchor: loss [dB] by length [m] of all paths up to second order, Sionna RT 2.2.0, concrete without an end."""


def street() -> ph.World:
    world = ph.World()
    for name, (size, place) in BOXES.items():
        world.add(ph.shapes.box(*size), material="concrete", label="building", name=name, pose=ph.Pose(place))
    return world


def own(anchor: int) -> Paths:
    found = ph.Uwb("qorvo/dw1000", anchors=ANCHORS).paths(street(), TAG)
    return found.rows(found.anchor == anchor)


@pytest.mark.parametrize("anchor", range(3))
def test_paths_equal_the_stored_answer_of_sionna(anchor: int) -> None:
    found, expected = own(anchor), STORED[anchor]
    assert len(found) == len(expected)
    # Single precision at 50 m, and four digits stored.
    assert found.length == pytest.approx(np.array(list(expected)), abs=1e-4)
    assert found.loss_db == pytest.approx(np.array(list(expected.values())), abs=0.02)


def merged(delay: Floats, amplitude: Floats) -> tuple[Floats, Floats]:
    """Paths in order of length [m], those within 1 mm counted once, and their losses [dB]."""
    order = np.argsort(delay)
    length, loss = delay[order] * SPEED_OF_LIGHT_M_S, -20.0 * np.log10(amplitude[order])
    keep = np.diff(length, prepend=-1.0) > 1e-3
    return length[keep], loss[keep]


@pytest.mark.slow
def test_paths_equal_sionna_itself(tmp_path: Path) -> None:
    python = os.environ.get("PARHELION_SIONNA_PYTHON", "")
    if not python and importlib.util.find_spec("sionna") is None:
        pytest.skip("sionna-rt is not installed: pip install sionna-rt, or name a Python in PARHELION_SIONNA_PYTHON")
    shapes = []
    for item in street().objects:
        file = tmp_path / f"{item.name}.ply"
        part = item.parts[0]
        ph.Mesh(part.placed, part.mesh.faces).as_trimesh().export(file)
        shapes.append(
            f'<shape type="ply" id="mesh-{item.name}"><string name="filename" value="{file}"/>'
            '<boolean name="face_normals" value="true"/><ref id="wall" name="bsdf"/></shape>'
        )
    # Thick walls: ours mirror as half-spaces.
    material = '<bsdf type="itu-radio-material" id="wall"><string name="type" value="concrete"/>'
    material += '<float name="thickness" value="20"/></bsdf>'
    (tmp_path / "scene.xml").write_text(f'<scene version="2.1.0">{material}{"".join(shapes)}</scene>')
    job = {"scene": str(tmp_path / "scene.xml"), "carrier_hz": CARRIER_HZ, "tag": TAG, "anchors": ANCHORS}
    (tmp_path / "job.json").write_text(json.dumps(job))
    call = [python or sys.executable, sionna_paths.__file__, str(tmp_path / "job.json"), str(tmp_path / "answer.json")]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode and "Cannot select" in done.stderr:
        pytest.skip("Sionna RT needs LLVM 17 or later: with the one here it ends the process")
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads((tmp_path / "answer.json").read_text())
    for anchor in range(len(ANCHORS)):
        delay, amplitude = (np.array(answer[name][anchor]) for name in ("delay", "amplitude"))
        length, loss = merged(delay[delay > 0], amplitude[delay > 0])
        found = own(anchor)
        assert len(found) == len(length)
        assert found.length == pytest.approx(length, abs=1e-4)
        assert found.loss_db == pytest.approx(loss, abs=0.02)
