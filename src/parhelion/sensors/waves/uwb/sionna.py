"""Paths from Sionna RT, with wedge diffraction and reflectors of any size.

Parhelion computes transmission along the direct line: walls attenuate by their thickness and foliage by its depth,
where Sionna RT would attenuate at each face. Sionna RT returns one path per layer of a layered surface, for example
paint on a road; paths of nearly equal length over nearly the same points are merged.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import EngineError, MissingDependencyError
from parhelion.core.geometry import unit
from parhelion.core.pose import Floats, quat_rotate
from parhelion.rays.device import engine
from parhelion.rays.geometry import Triangles
from parhelion.sensors.waves.radio import RadioScene, Wave
from parhelion.sensors.waves.uwb import sionna_worker
from parhelion.sensors.waves.uwb.paths import RULES, RadioPaths, direct_paths, in_order
from parhelion.surfaces.radio import VACUUM_PERMITTIVITY_F_M

HALF_SPACE_M = 1000.0
"""Thickness of Sionna RT's slabs [m], large enough that the rear face does not reflect."""
WELD_M = 1e-5
"""Distance [m] below which vertices are merged: Sionna RT finds edges between triangles that share vertices."""


class SceneFiles:
    """Writer of Sionna RT scene files for one radio scene, for any time."""

    def __init__(self, radio: RadioScene, carrier_hz: float, folder: Path) -> None:
        self.radio, self.carrier_hz, self.folder = radio, carrier_hz, folder
        self.origin: Floats = radio.scene.origin
        self._eta, self._row = np.unique(radio.permittivity, return_inverse=True)
        geometry = radio.scene.geometry
        self._standing = self._write("standing", geometry.static)

    def at(self, time: float) -> Path:
        """Return the scene file for a time [s]."""
        shapes = dict(self._standing)
        for number, actor in enumerate(self.radio.scene.geometry.actors):
            xyz, quat = actor.trajectory.sample(np.array([time]))
            body = actor.triangles
            placed = Triangles(quat_rotate(quat[0], body.vertices) + xyz[0], body.faces, body.part)
            shapes.update(self._write(f"actor-{number}", placed))
        file = self.folder / "scene.xml"
        file.write_text(_scene_text([self._material(k) for k in range(len(self._eta))], shapes), encoding="utf-8")
        return file

    def _write(self, name: str, triangles: Triangles) -> dict[Path, str]:
        """Write triangles and return the files with the name of their material."""
        part = triangles.part.astype(np.int64)
        solid = ~self.radio.foliage[part] if len(part) else np.zeros(0, bool)
        of_face = self._row[part] if len(part) else part
        files = {}
        for row in np.unique(of_face[solid]):
            faces = triangles.faces[solid & (of_face == row)]
            file = self.folder / f"{name}-{row}.ply"
            if write_welded(file, triangles.vertices - self.origin, faces):
                files[file] = f"radio-{row}"
        return files

    def _material(self, row: int) -> str:
        eta = self._eta[row]
        conductivity = -eta.imag * 2.0 * np.pi * self.carrier_hz * VACUUM_PERMITTIVITY_F_M
        values = {
            "relative_permittivity": max(float(eta.real), 1.0),
            "conductivity": max(float(conductivity), 0.0),
            "thickness": HALF_SPACE_M,
        }
        inside = "".join(f'<float name="{name}" value="{value!r}"/>' for name, value in values.items())
        return f'<bsdf type="radio-material" id="radio-{row}">{inside}</bsdf>'


def _scene_text(materials: list[str], shapes: dict[Path, str]) -> str:
    parts = [
        f'<shape type="ply" id="{file.stem}"><string name="filename" value={quoteattr(str(file))}/>'
        f'<boolean name="face_normals" value="true"/><ref id="{material}" name="bsdf"/></shape>'
        for file, material in shapes.items()
    ]
    used = [text for row, text in enumerate(materials) if f"radio-{row}" in shapes.values()]
    return f'<scene version="2.1.0">{"".join(used)}{"".join(parts)}</scene>'


def write_welded(file: Path, vertices: Floats, faces: NDArray[Any]) -> int:
    """Write triangles as binary PLY with coincident vertices merged. Return the number of triangles."""
    used, index = np.unique(faces, return_inverse=True)
    place, joined = np.unique(np.round(vertices[used] / WELD_M).astype(np.int64), axis=0, return_inverse=True)
    corner = joined.reshape(-1)[index.reshape(-1, 3)]
    a, b, c = corner.T
    corner = corner[(a != b) & (b != c) & (a != c)]
    rows = np.zeros(len(corner), dtype=[("count", "u1"), ("corner", "<i4", (3,))])
    rows["count"], rows["corner"] = 3, corner
    head = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(place)}\n"
        "property float x\nproperty float y\nproperty float z\n"
        f"element face {len(rows)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    file.write_bytes(head.encode("ascii") + (place * WELD_M).astype("<f4").tobytes() + rows.tobytes())
    return len(rows)


SPECULAR, DIFFRACTED = 1, 8
"""Sionna RT's codes for interactions along a path."""
INSTALL = "run 'pip install parhelion[sionna]', or set PARHELION_SIONNA_PYTHON to a Python that has sionna-rt"
LLVM_ADVICE = (
    "backend: Sionna RT aborts with LLVM 15 and 16: run 'sudo apt-get install libllvm19' (or later), "
    "or set DRJIT_LIBLLVM_PATH to a later library"
)


class Worker:
    """Process that runs Sionna RT; it ends with this object."""

    def __init__(self, folder: Path) -> None:
        python = os.environ.get("PARHELION_SIONNA_PYTHON", "") or sys.executable
        self._log = folder / "log.txt"
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [python, sionna_worker.__file__, engine().device],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        except OSError as error:
            raise MissingDependencyError(f"PARHELION_SIONNA_PYTHON: cannot run {python!r}: {error.strerror}") from None
        weakref.finalize(self, _stop, self._process)
        self._answer()

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Send a job and return its answer."""
        assert self._process.stdin is not None
        # If the process has ended, _answer raises with the reason.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise MissingDependencyError(f"backend: Sionna RT cannot start: {answer['missing']}; {INSTALL}")
        if "error" in answer:
            raise EngineError(f"backend: Sionna RT failed: {answer['error']}")
        return answer

    def _died(self) -> Exception:
        code = self._process.wait()
        log_text = self._log.read_text(errors="replace")
        if "Cannot select" in log_text:
            return MissingDependencyError(LLVM_ADVICE)
        last = next((line.strip() for line in reversed(log_text.splitlines()) if line.strip()), "no output")
        return EngineError(f"backend: the Sionna RT process exited with code {code}: {last}")


def _stop(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    try:
        process.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class SionnaPaths:
    """Path finder for one radio scene. Measurements are solved one by one, independently of each other."""

    def __init__(self, radio: RadioScene, anchors: Floats, wave: Wave, order: int, diffraction: bool) -> None:
        self.radio, self.anchors, self.wave = radio, anchors, wave
        self.order, self.diffraction = order, diffraction
        folder = Path(tempfile.mkdtemp(prefix="parhelion-sionna-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._worker = Worker(folder)
        self._files = SceneFiles(radio, wave.carrier_hz, folder)
        self._time: float | None = None
        self._lock = Lock()

    def __call__(self, tags: Floats, times: Floats) -> RadioPaths:
        """Paths from tags (n, 3) [m] at times (n,) [s] to all anchors."""
        ours = direct_paths(self.radio, self.anchors, tags, times, self.wave)
        with self._lock:
            parts = [self._solve(k, tags[k], float(times[k])) for k in range(len(tags))] if len(self.anchors) else []
        # Obstructed direct paths use our own transmission model instead of Sionna RT's.
        ours = ours.rows(ours.surfaces > 0)
        number = len(self.anchors)
        met = np.isin(np.arange(len(tags) * number), ours.sample * number + ours.anchor)
        theirs = [one.rows(~((one.order + one.edges == 0) & met[one.sample * number + one.anchor])) for one in parts]
        return in_order(RadioPaths.joined([ours, *theirs]))

    def _solve(self, sample: int, tag: Floats, time: float) -> RadioPaths:
        self._load(time)
        at = (tag - self._files.origin).tolist()
        depth = max(self.order, int(self.diffraction))
        found = self._worker.ask({"do": "paths", "tag": at, "depth": depth, "diffraction": self.diffraction})
        rows = self._converted(sample, tag, {k: np.asarray(v) for k, v in found.items()})
        return _without_layers(rows, tag, self.anchors)

    def _load(self, time: float) -> None:
        if self._time is not None and (time == self._time or not self.radio.scene.geometry.actors):
            return
        self._worker.ask(
            {
                "do": "scene",
                "file": str(self._files.at(time)),
                "carrier_hz": self.wave.carrier_hz,
                "polarisation": self.wave.polarisation[0].upper(),
                "anchors": (self.anchors - self._files.origin).tolist(),
            }
        )
        self._time = time

    def _converted(self, sample: int, tag: Floats, found: dict[str, Floats]) -> RadioPaths:
        m = len(found["delay"])
        kind = found["kind"].reshape(m, -1).astype(np.int64)
        met = kind > 0
        corner = np.full((m, 2, 3), np.nan)
        places = found["corner"].reshape(m, -1, 3) + self._files.origin
        depth = min(2, kind.shape[1])
        corner[:, :depth] = np.where(met[:, :depth, None], places[:, :depth], np.nan)
        anchor, count = found["anchor"].astype(np.int64), np.sum(met, axis=1)
        end = self.anchors[anchor]
        first = np.where((count > 0)[:, None], corner[:, 0], end)
        last = np.where((count > 1)[:, None], corner[:, 1], np.where((count > 0)[:, None], corner[:, 0], tag))
        delay = found["delay"]
        phasor = np.exp(-2j * np.pi * self.wave.carrier_hz * delay)
        if self.wave.polarisation == "horizontal":
            phasor = -phasor  # horizontal antennas face each other in Sionna RT and point the same way here
        order = np.sum(kind == SPECULAR, axis=1)
        rows = RadioPaths(
            np.full(m, sample),
            anchor,
            order,
            np.zeros(m, np.int64),
            delay * SPEED_OF_LIGHT_M_S,
            delay,
            (found["real"] + 1j * found["imag"]) * phasor,
            unit(first - tag)[0],
            unit(last - end)[0],
            corner,
            np.sum(kind == DIFFRACTED, axis=1),
        )
        # A tag at the position of an anchor has no direct path, as in our own finder.
        good = (order <= self.order) & (rows.length > 1e-6) & np.isfinite(rows.gain) & (np.abs(rows.gain) > 1e-15)
        return rows.rows(good)


def _without_layers(found: RadioPaths, tag: Floats, anchors: Floats) -> RadioPaths:
    """Keep only the strongest of paths of one kind with nearly equal length and interaction points.

    At grazing incidence the points of two layers are far apart along the ray, but close across it.
    """
    m = len(found)
    if m < 2:
        return found
    found = found.rows(np.lexsort((found.length, found.edges, found.order, found.anchor)))
    count = found.order + found.edges
    first = found.corner[:, 0] - tag
    last = np.where((count > 1)[:, None], found.corner[:, 1], found.corner[:, 0]) - anchors[found.anchor]
    power, strongest = np.abs(found.gain), np.ones(m, bool)
    # Rows are sorted by length, so only the preceding rows can be layers of the same surfaces.
    for back in range(1, m):
        one, other = np.arange(m - back), np.arange(back, m)
        near = (found.length[other] - found.length[one] < 4.0 * RULES.layer_m) & (
            found.anchor[one] == found.anchor[other]
        )
        near &= (found.order[one] == found.order[other]) & (found.edges[one] == found.edges[other])
        if not near.any():
            break
        lateral = _lateral_distance(found.departure[one], first[other]) + _lateral_distance(
            found.arrival[one], last[other]
        )
        near &= (lateral < 5.0 * RULES.layer_m) | (count[one] == 0)
        strongest[np.where(power[other] <= power[one], other, one)[near]] = False
    return found.rows(strongest)


def _lateral_distance(direction: Floats, place: Floats) -> Floats:
    """Distance [m] of points (n, 3) from rays along unit directions (n, 3)."""
    away = np.cross(direction, place)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", away, away)))
