"""BRDFs that are curves: measured ones, and Mitsuba's own models."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.rays.device import engine
from parhelion.surfaces.brdf import SAMPLES, MitsubaModel, cook_torrance, curve_value, monostatic_curve
from parhelion.surfaces.material import Material
from rigs import one_beam, wall


def material(brdf: dict[str, object], reflectance: float = 0.5) -> Material:
    spectrum = {"wavelength_um": [0.35, 2.5], "reflectance": [reflectance, reflectance]}
    return parse(Material, {"name": "own", "sources": ["made for tests"], "spectrum": spectrum, "brdf": brdf}, "test")


def seen(own: Material, turn_deg: float) -> float:
    """Reflectivity that the sensor reports of a wall, which is pi f cos(theta)."""
    world = wall(20.0, own, turn_deg=turn_deg)
    return float(ph.Lidar(one_beam(), noise=False).scan(world, pose=ph.Pose()).reflectivity[0])


@pytest.mark.parametrize("turn_deg", [0.0, 10.0, 25.0, 60.0])
def test_a_tabulated_curve_is_what_the_sensor_sees(turn_deg: float) -> None:
    own = material({"model": "tabulated", "angle_deg": [0, 20, 90], "shape_per_sr": [0.8, 0.4, 0.05]})
    expected = 0.5 * np.interp(turn_deg, [0, 20, 90], [0.8, 0.4, 0.05])
    assert seen(own, turn_deg) == pytest.approx(np.pi * expected * np.cos(np.radians(turn_deg)), rel=3e-3)


def test_mitsubas_diffuse_model_is_lambert() -> None:
    curve = monostatic_curve(MitsubaModel(model="mitsuba", plugin={"type": "diffuse"}))
    assert curve == pytest.approx(1 / np.pi, rel=1e-3)
    assert seen(material({"model": "mitsuba", "plugin": {"type": "diffuse"}}), 40.0) == pytest.approx(
        seen(material({"model": "lambert"}), 40.0), rel=2e-3
    )


def test_mitsubas_rough_conductor_agrees_with_our_ggx() -> None:
    """Independent code: the same GGX facets near the normal, where shadowing does not matter yet."""
    curve = monostatic_curve(
        MitsubaModel(model="mitsuba", plugin={"type": "roughconductor", "alpha": 0.25, "distribution": "ggx"})
    )
    sine = np.linspace(0, 1, SAMPLES)
    near = sine < 0.3
    ours = cook_torrance(np.sqrt(1 - sine[near] ** 2), roughness=0.5, f0=1.0)
    assert curve[near] / curve[0] == pytest.approx(ours / ours[0], rel=0.03)


def test_the_engines_variant_is_left_as_it_was() -> None:
    before = engine().mi.variant()
    monostatic_curve(MitsubaModel(model="mitsuba", plugin={"type": "roughplastic", "alpha": 0.3}))
    assert engine().mi.variant() == before


def test_lookup_is_linear_between_the_points() -> None:
    curves = np.random.default_rng(1).random((3, SAMPLES))
    sine, row = np.random.default_rng(2).random(1000), np.arange(1000) % 3
    found = curve_value(np.sqrt(1 - sine**2), row, curves.ravel())
    for number in range(3):
        mine = row == number
        expected = np.interp(sine[mine], np.linspace(0, 1, SAMPLES), curves[number])
        assert found[mine] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("sampling", ["adaptive", "fixed"])
def test_curves_work_beside_other_materials(sampling: str) -> None:
    own = material({"model": "tabulated", "angle_deg": [0], "shape_per_sr": [1 / np.pi]}, 0.7)
    world = wall(20.0, own)
    world.add(ph.shapes.board(1, 1), material="asphalt", pose=ph.Pose((10, 8, 0)))
    config = one_beam(beam={"divergence_mrad": (3, 3), "sub_rays": 25})
    scan = ph.Lidar(config, noise=False, sampling=sampling).scan(world, pose=ph.Pose())
    assert scan.reflectivity[0] == pytest.approx(0.7, rel=1e-3)


@pytest.mark.parametrize(
    ("brdf", "words"),
    [
        ({"model": "tabulated", "angle_deg": [10, 5], "shape_per_sr": [1, 1]}, "ascend"),
        ({"model": "tabulated", "angle_deg": [10], "shape_per_sr": [1, 1]}, "2 values for 1"),
        ({"model": "tabulated", "angle_deg": [10], "shape_per_sr": [-1]}, "expected a number of at least 0, got -1"),
        ({"model": "mitsuba", "plugin": {"type": "conductor"}}, "plugin.type must be one of"),
        ({"model": "mitsuba", "plugin": {}}, "plugin.type must be one of"),
    ],
)
def test_wrong_curves_are_refused(brdf: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        material(brdf)


def test_a_plugin_that_mitsuba_refuses_is_reported_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"brdf\.plugin") as caught:
        monostatic_curve(MitsubaModel(model="mitsuba", plugin={"type": "measured", "filename": "missing.bsdf"}))
    assert "\n" not in str(caught.value)
