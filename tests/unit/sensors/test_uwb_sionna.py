"""Exchange with the Sionna RT process, using a stand-in; and diffraction around edges."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from scipy.special import fresnel

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError, EngineError, MissingDependencyError, ParhelionError
from parhelion.core.trajectory import Waypoints
from parhelion.sensors.waves.diffraction import edge_paths, fresnel_parameter, knife_edge_loss_db, most_detour
from parhelion.sensors.waves.radio import radio_scene
from parhelion.sensors.waves.uwb.sionna import SceneFiles

CARRIER_HZ = 6.4896e9
ANCHORS = [[10.0, 0.0, 2.0], [0.0, 10.0, 2.0]]


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Path:
    """Run a Python program in place of the Sionna RT worker; its jobs are written to a file."""
    program, script, jobs = folder / "python", folder / "code.py", folder / "jobs.txt"
    script.write_text(f"import json, os, sys\nlog = open({str(jobs)!r}, 'a')\n{code}\n")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PARHELION_SIONNA_PYTHON", str(program))
    return jobs


def answering(paths: dict[str, Any]) -> str:
    return (
        'print(json.dumps({"ready": True}), flush=True)\n'
        "for line in sys.stdin:\n"
        "    log.write(line); log.flush()\n"
        f"    print(json.dumps({paths!r}), flush=True)\n"
    )


def block(material: str = "concrete") -> ph.World:
    world = ph.World()
    world.add(ph.shapes.box(2, 2, 2), material=material, label="building", name="block", pose=ph.Pose((5, 0, 1)))
    return world


def test_answers_become_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none, top = [0.0, 0.0, 0.0], [5.0, 5.0, 1.0]
    paint, edge = [5.0, 5.0, 1.004], [10.0, 1.0, 2.0]
    away = np.array([10.0, 10.24, 10.243, 11.0, 9.9, 12.0]) / SPEED_OF_LIGHT_M_S
    answer = {
        "anchor": [1, 1, 1, 1, 0, 0], "delay": away.tolist(), "real": [1e-3, 2e-4, 3e-4, 1e-4, 1e-3, 0.0],
        "imag": [0.0] * 6, "kind": [[0, 0], [1, 0], [1, 0], [8, 1], [0, 0], [1, 1]],
        "corner": [[none, none], [top, none], [paint, none], [edge, top], [none, none], [none, none]],
    }  # fmt: skip
    jobs = stand_in(tmp_path, monkeypatch, answering(answer))
    tag = ph.Uwb("qorvo/dw1000", anchors=ANCHORS, backend="sionna", diffraction=True)
    found = tag.paths(block(), [0.0, 0.0, 1.0])
    far = found.rows(found.anchor == 1)
    # The stronger of two layers remains; paths with zero gain are dropped.
    assert far.order.tolist() == [0, 1, 1]
    assert far.edges.tolist() == [0, 0, 1]
    assert far.length == pytest.approx([10.0, 10.243, 11.0], abs=1e-9)
    assert np.abs(far.gain) == pytest.approx([1e-3, 3e-4, 1e-4])
    assert far.phase == pytest.approx(np.angle(np.exp(-2j * np.pi * CARRIER_HZ * far.delay)), abs=1e-9)
    assert far.corner[2] == pytest.approx(np.array([edge, top]))
    assert far.departure[1] == pytest.approx(np.array([5, 5, 0.004]) / np.linalg.norm([5, 5, 0.004]))
    assert far.arrival[2] == pytest.approx(np.array([5, -5, -1]) / np.sqrt(51))
    # The block obstructs the line to the other anchor, so our own wall model replaces that direct path.
    near = found.rows(found.anchor == 0)
    assert near.surfaces.tolist() == [2]
    reported = [json.loads(line) for line in jobs.read_text().splitlines()]
    assert [job["do"] for job in reported] == ["scene", "paths"]
    assert reported[0]["polarisation"] == "V"
    assert (reported[1]["depth"], reported[1]["tag"]) == (2, [0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ('print(json.dumps({"missing": "no module sionna"}))', MissingDependencyError, "pip install parhelion"),
        ('print("Cannot select: fmaximum", file=sys.stderr); os.abort()', MissingDependencyError, "libllvm19"),
        ('print("out of memory", file=sys.stderr); sys.exit(3)', EngineError, "exited with code 3: out of memory"),
        (answering({"error": "ValueError: no"}), EngineError, "Sionna RT failed: ValueError: no"),
    ],
)
def test_failures_of_the_process_are_reported(
    code: str, kind: type[ParhelionError], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, code)
    with pytest.raises(kind, match=words):
        ph.Uwb("qorvo/dw1000", anchors=ANCHORS, backend="sionna").paths(block(), [0.0, 0.0, 1.0])


def test_a_python_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_SIONNA_PYTHON", "/no/such/python")
    with pytest.raises(MissingDependencyError, match="PARHELION_SIONNA_PYTHON: cannot run"):
        ph.Uwb("qorvo/dw1000", anchors=ANCHORS, backend="sionna").paths(block(), [0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "sionnna"}, "backend: must be own or sionna"),
        ({"polarisation": "circular"}, "polarisation: must be vertical or horizontal"),
        ({"diffraction": "yes"}, "diffraction: must be true or false"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ph.Uwb("qorvo/dw1000", anchors=ANCHORS, **options)


def test_the_scene_as_sionna_reads_it(tmp_path: Path) -> None:
    world = block()
    world.add(ph.shapes.box(1, 1, 1), material="leaf", label="tree", name="crown", pose=ph.Pose((0, 9, 9)))
    path = Waypoints([0.0, 10.0], [ph.Pose((20, 0, 0)), ph.Pose((30, 0, 0))])
    world.add_actor(ph.shapes.box(1, 1, 1), material="concrete", label="truck", name="truck", trajectory=path)
    files = SceneFiles(radio_scene(world, ("uwb",), CARRIER_HZ), CARRIER_HZ, tmp_path)
    text = files.at(5.0).read_text()
    [shape] = tmp_path.glob("standing-*.ply")
    mesh = trimesh.load(shape)
    # Foliage is omitted. Faces share their eight corners, so edges are found between them.
    assert (len(mesh.vertices), len(mesh.faces), mesh.is_watertight) == (8, 12, True)
    assert mesh.bounds + files.origin == pytest.approx(np.array([[4, -1, 0], [6, 1, 2]]), abs=1e-5)
    [body] = tmp_path.glob("actor-0-*.ply")
    assert trimesh.load(body).bounds.mean(axis=0) + files.origin == pytest.approx([25, 0, 0], abs=1e-4)
    assert (text.count("<bsdf"), text.count("<shape")) == (1, 2)
    # ITU-R P.2040-3: 5.24, and 0.0462 f^0.7822 S/m.
    value = {part.split('"')[1]: float(part.split('"')[3]) for part in text.split("<float ")[1:]}
    assert value["relative_permittivity"] == pytest.approx(5.24)
    assert value["conductivity"] == pytest.approx(0.0462 * 6.4896**0.7822)


def test_the_knife_edge_against_the_fresnel_integral() -> None:
    nu = np.linspace(-0.78, 30.0, 400)
    s, c = fresnel(nu)
    loss = -20.0 * np.log10(np.hypot(1 - c - s, c - s) / 2.0)
    assert knife_edge_loss_db(nu) == pytest.approx(loss, abs=0.15)
    assert knife_edge_loss_db(fresnel_parameter(most_detour(0.19), 0.19)) == pytest.approx(40.0)


def test_edges_of_a_tall_block_and_of_nothing() -> None:
    world = ph.World()
    world.add(ph.shapes.box(20, 20, 400), material="steel", label="building", name="block", pose=ph.Pose((10, 10, 0)))
    scene = radio_scene(world, ("uwb",), CARRIER_HZ).scene
    start = np.array([[-4.0, 6.0, 1.0], [-6.0, -4.0, 1.0]])
    end = np.array([[6.0, -4.0, 1.0], [30.0, -4.0, 1.0]])
    row, place = edge_paths(scene, start, end, np.zeros(2), 5.0)
    # The first line has one path, around the near corner; the second is free. Detours above and below are too long.
    assert row.tolist() == [0]
    assert place[0] == pytest.approx([0.0, 0.0, 1.0], abs=2e-3)
    assert len(edge_paths(scene, start, end, np.zeros(2), 1e-3)[0]) == 0


def test_a_thick_building_counts_as_one_edge_over_it() -> None:
    world = ph.World()
    world.add(ph.shapes.box(10, 60, 12), material="concrete", label="building", name="house", pose=ph.Pose((0, 0, 6)))
    scene = radio_scene(world, ("uwb",), CARRIER_HZ).scene
    row, place = edge_paths(scene, np.array([[-25.0, 0, 8]]), np.array([[15.0, 0, 8]]), np.zeros(1), 5.0)
    # Bullington: rays over the near edge (4 m up in 20 m) and over the far edge (4 m up in 10 m) intersect.
    along = 40.0 * 0.4 / (0.2 + 0.4)
    over = place[np.abs(place[:, 1]) < 1e-6][np.argmax(place[np.abs(place[:, 1]) < 1e-6][:, 2])]
    assert set(row.tolist()) == {0}
    assert over == pytest.approx([-25.0 + along, 0.0, 8.0 + 0.2 * along], abs=5e-3)


def test_a_transmitting_wall_diffracts_less() -> None:
    corners = np.array([[5, -50, -50], [5, 50, -50], [5, 50, 0.3], [5, -50, 0.3]], float)
    lost = {}
    for material in ("steel", "plaster"):
        world = ph.World()
        world.add((corners, np.array([[0, 1, 2], [0, 2, 3]])), material=material, label="wall", name="screen")
        found = ph.Uwb("qorvo/dw1000", anchors=[[10, 0, 0]], order=0, diffraction=True).paths(world, [0, 0, 0])
        bent = found.rows(found.edges > 0)
        lost[material] = float(np.abs(bent.gain[0]))
        through = found.rows(found.edges == 0)
    # Kirchhoff: a screen that transmits T diffracts 1 - T at its edge.
    passed = float(np.abs(through.gain[0])) * 4 * np.pi * 10 * CARRIER_HZ / SPEED_OF_LIGHT_M_S
    assert lost["plaster"] == pytest.approx((1.0 - passed) * lost["steel"], rel=1e-6)


def test_runs_with_edges_may_be_split() -> None:
    world, path = block("steel"), Waypoints([0.0, 1.0], [ph.Pose((0, -1, 1)), ph.Pose((0, 1, 1.5))])
    loud = ph.Uwb("qorvo/dw1000", anchors=ANCHORS).config.model_copy(update={"tx_power_dbm": 10.0})
    sensor = ph.Uwb(loud, anchors=ANCHORS, diffraction=True, order=0)
    whole = sensor.run(world, path, 0.0, 1.0, seed=3)
    parts = [sensor.run(world, path, start, 0.5, seed=3).range for start in (0.5, 0.0)]
    assert whole.range.tobytes() == np.concatenate(parts[::-1]).tobytes()
    # Behind the block only the longer path around it remains, without line of sight.
    assert not whole.los[:, 0].any()
    without = ph.Uwb(loud, anchors=ANCHORS, order=0).run(world, path, 0.0, 1.0, seed=3)
    assert np.isnan(without.range[:, 0]).all()
    assert np.isfinite(whole.range[:, 0]).all()
    found = sensor.paths(world, [0.0, 0.0, 1.0])
    bent = found.rows(found.anchor == 0)
    assert len(bent) > 1
    assert (bent.edges == 1).all()
    assert (bent.length > np.hypot(10.0, 1.0)).all()
