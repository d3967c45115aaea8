"""Worker process for Sionna RT. It reads one JSON job per line and writes one JSON answer per line.

Mitsuba's variant is global to a process, and Sionna RT needs a different variant than our ray engine. Some versions of
LLVM also abort the process that runs its kernels. The worker therefore runs separately and imports nothing from
Parhelion, so any Python with sionna-rt can run it. The first argument is the device, 'cpu' or 'cuda'.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

# Modules in the folder of this file would shadow installed packages of the same names.
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != os.path.dirname(__file__)]

import numpy as np  # noqa: E402

SEARCH_RAYS = 1_000_000
"""Number of rays from the tag with which Sionna RT finds surfaces and edges."""
VARIANT = {"cpu": "llvm_ad_mono_polarized", "cuda": "cuda_ad_mono_polarized"}


class MissingError(Exception):
    """Error for a missing package; the message names it."""


def start(device: str) -> tuple[Any, Any]:
    """Return the modules `mitsuba` (with its variant set) and `sionna.rt`."""
    try:
        import mitsuba as mi
    except (ImportError, NameError) as error:
        raise MissingError(f"it cannot import mitsuba ({error})") from None
    if VARIANT[device] not in mi.variants():
        raise MissingError(f"this build of mitsuba has no variant {VARIANT[device]}")
    try:
        mi.set_variant(VARIANT[device])
        import sionna.rt as rt
    except ImportError as error:
        raise MissingError(str(error)) from None
    threads = os.environ.get("PARHELION_THREADS", "")
    if threads.isdecimal() and int(threads) > 0:
        import drjit as dr

        dr.set_thread_count(int(threads))
    return mi, rt


class Solver:
    """Path solver for the most recently loaded scene."""

    def __init__(self, mi: Any, rt: Any) -> None:
        self.mi, self.rt = mi, rt
        self.solve = rt.PathSolver(deterministic=True)

    def scene(self, job: dict[str, Any]) -> dict[str, Any]:
        """Load a scene from its file and place the anchors."""
        rt = self.rt
        self.now = rt.load_scene(job["file"], merge_shapes=False)
        self.now.frequency = job["carrier_hz"]
        self.now.tx_array = self.now.rx_array = rt.PlanarArray(
            num_rows=1,
            num_cols=1,
            vertical_spacing=0.5,
            horizontal_spacing=0.5,
            pattern="iso",
            polarization=job["polarisation"],
        )
        for number, place in enumerate(job["anchors"]):
            self.now.add(rt.Receiver(f"anchor-{number}", position=place))
        self.now.add(rt.Transmitter("tag", position=[0.0, 0.0, 0.0]))
        return {"anchors": len(job["anchors"])}

    def paths(self, job: dict[str, Any]) -> dict[str, Any]:
        """Paths from a tag to all anchors, one per row."""
        self.now.get("tag").position = self.mi.Point3f(*job["tag"])
        bent = bool(job["diffraction"])
        found = self.solve(
            self.now,
            max_depth=job["depth"],
            samples_per_src=SEARCH_RAYS,
            los=True,
            specular_reflection=True,
            diffuse_reflection=False,
            refraction=False,
            diffraction=bent,
            edge_diffraction=bent,
            seed=1,
        )
        valid = np.array(found.valid)[:, 0]
        anchor, path = np.nonzero(valid)
        real, imag = (np.array(part)[anchor, 0, 0, 0, path] for part in found.a)
        kind = np.array(found.interactions)[:, anchor, 0, path].T
        corner = np.array(found.vertices)[:, anchor, 0, path].transpose(1, 0, 2)
        delay = np.array(found.tau)[anchor, 0, path]
        answer = {"anchor": anchor, "delay": delay, "real": real, "imag": imag, "kind": kind, "corner": corner}
        return {name: values.astype(np.float64).tolist() for name, values in answer.items()}


def main(device: str) -> None:
    """Answer jobs until the input ends."""
    # Libraries may print to standard output, so answers use a duplicated descriptor.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(values: dict[str, Any]) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    try:
        solver = Solver(*start(device))
    except MissingError as error:
        answer({"missing": str(error)})
        return
    answer({"ready": True})
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer(solver.scene(job) if job["do"] == "scene" else solver.paths(job))
        except Exception as error:  # every failure is returned to the parent process
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(sys.argv[1])
