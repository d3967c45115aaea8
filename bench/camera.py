"""Pictures per second: sun, sky and one bounce; ground truth alone; and Mitsuba's own path tracer on the same
triangles.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tables import Goal, Table
from timing import take_turns
from workloads import Settings

import parhelion as ph
from parhelion.rays.device import engine

_GOALS = {
    "cpu": {"picture": Goal("at least", 5.0, " Hz"), "truth": Goal("at least", 15.0, " Hz")},
    "cuda": {"picture": Goal("at least", 100.0, " Hz"), "truth": Goal("at least", 100.0, " Hz")},
}
_WORLD = "city"

ORACLE = """
import json, sys, time
import numpy as np
import mitsuba as mi
mi.set_variant(sys.argv[3])
asked = json.load(open(sys.argv[1]))
arrays = np.load(sys.argv[2])
rgb = lambda value: {"type": "rgb", "value": value}
props = mi.Properties()
props["bsdf"] = mi.load_dict({"type": "twosided", "inner": {"type": "diffuse", "reflectance": rgb([0.3, 0.3, 0.3])}})
vertices, faces = arrays["vertices"], arrays["faces"]
mesh = mi.Mesh("world", len(vertices), len(faces), props=props)
values = mi.traverse(mesh)
values["vertex_positions"], values["faces"] = vertices.ravel(), faces.ravel()
values.update()
scene = mi.load_dict({
    "type": "scene", "world": mesh, "integrator": {"type": "path", "max_depth": 3, "rr_depth": 99},
    "sky": {"type": "constant", "radiance": rgb([20.0, 30.0, 45.0])},
    "sun": {"type": "directional", "direction": [-0.4, 0.5, -0.77], "irradiance": rgb([200.0, 180.0, 150.0])},
    "sensor": {"type": "perspective", "fov": asked["fov"],
        "to_world": mi.ScalarTransform4f().look_at(origin=asked["from"], target=asked["at"], up=[0, 0, 1]),
        "film": {"type": "hdrfilm", "width": asked["size"][0], "height": asked["size"][1],
                 "rfilter": {"type": "box"}, "pixel_format": "rgb"}},
})
times = []
for seed in range(asked["rounds"]):
    start = time.perf_counter()
    np.array(mi.render(scene, spp=asked["samples"], seed=seed))
    times.append(time.perf_counter() - start)
print(json.dumps(min(times)))
"""


def tables(settings: Settings) -> Iterator[Table]:
    """Pictures of 640 x 480 pixels of the city."""
    table = Table(
        "camera",
        "Camera: 640 x 480 pixels of the city",
        ["work", "rays per pixel", "ms", "pictures/s", "goal"],
        notes=[
            "Picture: sun with shadows, sky, one bounce, air and electronics, without truth. Truth: depth, normals, "
            "classes and objects' numbers in NumPy. Mitsuba: its path integrator at the same depth and number of "
            "samples, all surfaces matt and grey, an even sky, no electronics; under the variant named."
        ],
    )
    world = ph.World.load(_WORLD)
    goals = _GOALS[engine().device]
    counts = (1, 4) if settings.quick else (1, 4, 16)
    cameras = {f"picture {n}": ph.Camera("generic/vga", samples=n, bounces=1, truth=()) for n in counts}
    cameras["truth"] = ph.Camera("generic/vga", picture=False)
    work = {name: (lambda camera=camera: camera.shoot(world, seed=1)) for name, camera in cameras.items()}
    times = take_turns(work, rounds=2 if settings.quick else 9)
    for name, taken in times.items():
        kind, _, rays = name.partition(" ")
        goal = goals[kind].verdict(1.0 / taken.best) if kind == "truth" or rays == "1" else ""
        table.add(
            {"work": kind, "rays per pixel": rays or "1", "ms": 1e3 * taken.best, "pictures/s": 1.0 / taken.best,
             "goal": goal}
        )  # fmt: skip
    for variant in ("scalar_rgb", "llvm_ad_rgb"):
        for samples in counts[:2]:
            best = _by_mitsuba(world, cameras["picture 1"], variant, samples, 2 if settings.quick else 6)
            row = {"work": f"Mitsuba path, {variant}", "rays per pixel": str(samples)}
            table.add(row | ({"ms": None} if best is None else {"ms": 1e3 * best, "pictures/s": 1.0 / best}))
            if best is None:
                table.notes.append(f"Mitsuba's path tracer ended the process under {variant} with this LLVM.")
                break
    yield table


def _by_mitsuba(world: ph.World, camera: ph.Camera, variant: str, samples: int, rounds: int) -> float | None:
    """Best time of Mitsuba's own integrator [s]; None if it crashes the process."""
    static, lens, pose = world.geometry("camera").static, camera.intrinsics, world.viewpoint
    with tempfile.TemporaryDirectory(prefix="parhelion-bench-") as folder:
        asked = {
            "fov": float(np.degrees(2.0 * np.arctan(lens.width / 2.0 / lens.fx))), "size": [lens.width, lens.height],
            "from": pose.xyz.tolist(), "at": (pose.xyz + pose.rotation @ [1.0, 0.0, 0.0]).tolist(),
            "samples": samples, "rounds": rounds,
        }  # fmt: skip
        files = [Path(folder) / "asked.json", Path(folder) / "arrays.npz"]
        files[0].write_text(json.dumps(asked))
        np.savez(files[1], vertices=static.vertices.astype(np.float32), faces=static.faces.astype(np.uint32))
        done = subprocess.run(
            [sys.executable, "-c", ORACLE, *map(str, files), variant], capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
    return float(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
