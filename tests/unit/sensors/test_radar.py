"""Radars: reproducibility, integration and error messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.sensors.check import check_sensor
from parhelion.sensors.waves.radar.detection import clusters_of
from parhelion.sensors.waves.scene import patches_of
from wave_rigs import alone, radar_config


def yard() -> ph.World:
    world = ph.World("yard")
    world.add(ph.shapes.plane(120, 120), material="asphalt", label="road", pose=ph.Pose((40, 0, -1)))
    world.add(ph.shapes.box(0.2, 20, 6), material="concrete", label="building", pose=ph.Pose((45, 3, 2)))
    world.add(ph.shapes.box(4, 2, 1.5), material="car-paint-red", label="car", pose=ph.Pose((20, -3, -0.25)))
    world.add_actor(
        ph.shapes.box(0.5, 0.5, 1.7), material="cotton", label="person",
        trajectory=ph.ConstantTwist(ph.Pose((15, 2, 0)), velocity=(-1.5, 0, 0)),
    )  # fmt: skip
    return world


@pytest.mark.slow
@pytest.mark.parametrize("name", ph.presets("radar"))
def test_presets_keep_the_contract(name: str) -> None:
    check_sensor(ph.Radar(name), yard(), ph.ConstantTwist(ph.Pose(), velocity=(3.0, 0.0, 0.0)))


@pytest.mark.parametrize("name", ph.presets("radar"))
def test_every_number_of_a_preset_has_a_source_or_a_reason(name: str) -> None:
    config = ph.Radar(name).config
    covered = {path for source in config.sources for path in source.covers} | set(config.assumed)
    for section in ("frequency_ghz", "power_dbm", "noise_figure_db", "waveform", "field", "transmit", "receive"):
        assert any(path.split(".")[0] == section for path in covered), section


_RUN = """
import sys; sys.path.insert(0, {tests!r}); sys.path.insert(0, {unit!r})
import hashlib, parhelion as ph
from test_radar import yard
from wave_rigs import radar_config
scan = ph.Radar(radar_config(field={{"bounces": 3}}), cube=True).scan(yard(), pose=ph.Pose(), seed=5)
print(hashlib.sha256(scan.cube.power.tobytes() + scan.xyz.tobytes() + scan.rcs.tobytes()).hexdigest(), len(scan))
"""


@pytest.mark.slow
def test_one_thread_and_two_give_the_same_bits() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    code = _RUN.format(tests=os.path.dirname(os.path.dirname(here)), unit=here)
    outputs = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "PARHELION_THREADS": threads}
        outputs.add(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
    assert len(outputs) == 1
    assert int(next(iter(outputs)).split()[1]) > 3


def test_same_seed_same_bits_and_the_cube_is_in_the_record() -> None:
    world, radar = yard(), ph.Radar(radar_config(), cube=True)
    one, same, other = (radar.scan(world, pose=ph.Pose(), seed=seed) for seed in (7, 7, 8))
    assert one.cube is not None
    assert same.cube is not None
    assert other.cube is not None
    assert one.cube.power.tobytes() == same.cube.power.tobytes() != other.cube.power.tobytes()
    assert one.rcs.tobytes() == same.rcs.tobytes()
    assert one.cube.power.shape == (400, 64, 1, len(radar.axes.azimuth))
    assert {"car", "person"} <= {one.names["label"].get(int(code)) for code in one.label}
    assert one.in_world().xyz == pytest.approx(one.xyz)


def test_without_noise_there_are_only_surface_returns() -> None:
    scan = ph.Radar(radar_config(), noise=False).scan(yard(), pose=ph.Pose(), seed=1)
    assert len(scan)
    assert not np.any(scan.origin == 6)


def test_moving_objects_and_ego_motion_change_the_radial_velocity() -> None:
    world = yard()
    motion = ph.ConstantTwist(ph.Pose(), velocity=(4.0, 0.0, 0.0))
    scan = ph.Radar(radar_config()).scan(world, trajectory=motion, seed=1)
    names = scan.names["label"]
    person = next(row for row in range(len(scan)) if names.get(int(scan.label[row])) == "person")
    car = next(row for row in range(len(scan)) if names.get(int(scan.label[row])) == "car")
    assert scan.radial_velocity[person] == pytest.approx(-5.5 * np.cos(scan.azimuth[person]), abs=0.15)
    assert scan.radial_velocity[car] == pytest.approx(-4.0 * np.cos(scan.azimuth[car]), abs=0.15)


def test_clusters_follow_vane() -> None:
    points = np.array([[10.0, 0, 0], [10.4, 0.3, 1], [30.0, 5, 0]])
    found = clusters_of(points, np.array([3.0, 1.0, 2.0]), np.zeros(3), 1.0)
    assert found.xyz == pytest.approx(np.array([[10.1, 0.075, 0.25], [30.0, 5.0, 0.0]]))
    assert found.owner.tolist() == [0, 2]
    scan = ph.Radar(radar_config(), mode="cluster").scan(yard(), pose=ph.Pose())
    # The road joins the car and the person into one target, which has the label of its strongest return.
    assert {"building", "car"} <= {scan.names["label"].get(int(code)) for code in scan.label}


def test_patches_join_coplanar_triangles_and_bend_over_curved_surfaces() -> None:
    from parhelion.rays.geometry import Triangles

    def triangles(mesh: ph.Mesh) -> Triangles:
        return Triangles(mesh.vertices, mesh.faces, np.zeros(len(mesh.faces), np.uint32))

    box = patches_of(triangles(ph.shapes.box(2.0, 1.0, 0.5)))
    assert len(np.unique(box.number)) == 6
    assert np.unique(np.round(box.length.prod(axis=1), 9)).tolist() == [0.5, 1.0, 2.0]
    assert np.all(box.bend == 0.0)
    round_ = patches_of(triangles(ph.shapes.sphere(1.0)))
    assert np.median(np.sqrt(round_.bend)) == pytest.approx(np.sqrt(4 * np.pi / len(round_.number)), rel=0.5)
    plate = patches_of(triangles(ph.shapes.plane(4.0, 1.0, 8)))
    assert np.unique(np.round(plate.length, 6).max(axis=1)).tolist() == [4.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"waveform": {"bandwidth_mhz": 0}}, "waveform.bandwidth_mhz"),
        ({"frequency_ghz": 140}, "frequency_ghz"),
        ({"array": None}, "either the section array or the section turning"),
        ({"waveform": {"ramps": 4000}}, "a frame at 10 Hz"),
        ({"waveform": {"ramp_us": 90}}, "must not be longer than waveform.interval_us"),
        ({"field": {"azimuth_deg": (10, -10)}}, "azimuth_deg must rise"),
        ({"detection": {"training": 7}}, "training must be even"),
        ({"detection": {"false_alarm": 0}}, "detection.false_alarm"),
    ],
)
def test_errors_of_data_sheets_name_the_field(change: dict, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ConfigError, match=words):
        radar_config(**change)


def test_a_frequency_without_a_permittivity_names_the_material() -> None:
    world = alone(ph.shapes.box(1, 1, 1), 10.0, material="plywood")
    from parhelion.sensors.waves.radar.device import table

    with pytest.raises(ConfigError, match="no permittivity at 130 GHz"):
        table(["plywood"], 130e9)
    assert len(ph.Radar(radar_config(frequency_ghz=24)).paths(world, pose=ph.Pose()))


def test_an_antenna_inside_a_wall_is_an_error() -> None:
    world = ph.World()
    world.add(ph.shapes.box(0.3, 10, 10), material="concrete", label="wall")
    with pytest.raises(ConfigError, match="inside something"):
        ph.Radar(radar_config()).scan(world, pose=ph.Pose())


def test_invalid_options_are_errors() -> None:
    with pytest.raises(ConfigError, match="unknown radar"):
        ph.Radar("nobody/nothing")
    with pytest.raises(ConfigError, match="mode: must be"):
        ph.Radar(radar_config(), mode="points")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected a parhelion World"):
        ph.Radar(radar_config()).scan(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"field\.rays"):
        ph.Radar(radar_config(), rays=0)


_YARD = (
    (ph.shapes.plane(120, 120), "asphalt", "road", ph.Pose((40, 0, -1))),
    (ph.shapes.box(0.2, 20, 6), "concrete", "building", ph.Pose((45, 3, 2))),
    (ph.shapes.box(4, 2, 1.5), "car-paint-red", "car", ph.Pose((20, -3, -0.25))),
    (ph.shapes.sphere(0.3), "steel", "ball", ph.Pose((12, 2, 0.2))),
)


def record(
    mode: Literal["cube", "cluster"], order: tuple[int, ...], *, underground: bool = False, elsewhere: bool = False
) -> bytes:
    """All measured numbers of a scan of a yard whose objects are added in an order, with objects that no ray meets."""
    world = ph.World("yard")
    if underground:
        box = ph.shapes.box(0.2, 0.2, 0.2)
        world.add(box, material="steel", label="hidden", pose=ph.Pose((20, 0, -4)), instance=9)
    for row in order:
        mesh, material, label, pose = _YARD[row]
        world.add(mesh, material=material, label=label, pose=pose, instance=row + 1)
    if elsewhere:
        world.add(ph.shapes.box(20, 20, 20), material="steel", pose=ph.Pose((-3000, 500, 40)), instance=10)
        motion = ph.ConstantTwist(ph.Pose((-30, 500, 40)), velocity=(1, 0, 0))
        world.add_actor(ph.shapes.box(2, 2, 2), material="steel", trajectory=motion, instance=11)
    config = radar_config(field={"bounces": 3}, waveform={"bandwidth_mhz": 300})
    scan = ph.Radar(config, mode=mode, cube=mode == "cube").scan(world, pose=ph.Pose(), seed=5)
    assert len(scan) >= 3
    labels = ",".join(scan.names["label"][int(code)] for code in scan.label).encode()
    numbers = [values.tobytes() for name, values in sorted(scan.fields.items()) if name != "label"]
    return b"".join([labels, *numbers, b"" if scan.cube is None else scan.cube.power.tobytes()])


@pytest.mark.parametrize("mode", ["cube", "cluster"])
def test_order_and_objects_that_no_ray_meets_change_no_bit(mode: Literal["cube", "cluster"]) -> None:
    expected = record(mode, (0, 1, 2, 3))
    assert record(mode, (3, 1, 0, 2)) == expected
    assert record(mode, (2, 3, 1, 0)) == expected
    assert record(mode, (0, 1, 2, 3), underground=True) == expected
    assert record(mode, (1, 0, 3, 2), underground=True, elsewhere=True) == expected


def numbers_of(value: object, path: str = "") -> list[str]:
    """Paths of all numbers, flags and choices of a preset file, without its texts."""
    if isinstance(value, dict):
        skipped = {"name", "maker", "model", "description", "sources", "assumed"} if not path else set()
        return [
            found for key, one in value.items() if key not in skipped
            for found in numbers_of(one, f"{path}.{key}" if path else key)
        ]  # fmt: skip
    return [path]


@pytest.mark.parametrize("name", ph.presets("radar"))
def test_every_single_number_of_a_preset_is_covered(name: str) -> None:
    folder = Path(ph.__file__).parent / "sensors" / "presets" / "radar"
    sheet = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    covers = [path for source in sheet["sources"] for path in source["covers"]] + list(sheet["assumed"])
    missing = [
        path for path in numbers_of(sheet) if not any(path == one or path.startswith(f"{one}.") for one in covers)
    ]
    assert not missing
    for reason in sheet["assumed"].values():
        assert len(reason.split()) >= 2
