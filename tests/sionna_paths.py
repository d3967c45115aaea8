"""Paths by Sionna RT, in a process of its own: `python sionna_paths.py JOB ANSWER`, both JSON files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def main(job_file: str, answer_file: str) -> None:
    """Solve the job and write delays and amplitudes, one row an anchor."""
    import sionna.rt as rt  # type: ignore[import-not-found]

    job = json.loads(Path(job_file).read_text())
    scene = rt.load_scene(job["scene"])
    scene.frequency = job["carrier_hz"]
    scene.tx_array = scene.rx_array = rt.PlanarArray(
        num_rows=1, num_cols=1, vertical_spacing=0.5, horizontal_spacing=0.5, pattern="iso", polarization="V"
    )
    scene.add(rt.Transmitter("tag", position=job["tag"]))
    for k, place in enumerate(job["anchors"]):
        scene.add(rt.Receiver(f"anchor-{k}", position=place))
    paths = rt.PathSolver(deterministic=True)(
        scene, max_depth=2, samples_per_src=1_000_000, los=True, specular_reflection=True, diffuse_reflection=False,
        refraction=False, synthetic_array=False, seed=1,
    )  # fmt: skip
    rows = len(job["anchors"])
    real, imag = (np.asarray(part).reshape(rows, -1) for part in paths.a)
    delay = np.asarray(paths.tau).reshape(rows, -1)
    answer = {"delay": delay.tolist(), "amplitude": np.hypot(real, imag).tolist()}
    Path(answer_file).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:3])
