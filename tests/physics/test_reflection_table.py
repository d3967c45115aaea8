"""The table of reflection that kernels read, against the BRDFs it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.surfaces import library
from parhelion.surfaces.material import STEPS, Material, material_table, monostatic_brdf, reflected, reflection_table

ANGLE = np.radians(np.concatenate([np.geomspace(1e-3, 1.0, 60), np.linspace(1.0, 89.0, 400)]))
COS = np.cos(ANGLE)


def expected(material: Material, cos: np.ndarray, texture: float = 1.0) -> np.ndarray:
    columns = {name: values.astype(np.float64) for name, values in material_table([material], 905.0).items()}
    return monostatic_brdf(cos, columns, texture=texture) * cos


@pytest.mark.parametrize(
    "name", ["lambert-50", "asphalt", "aluminium", "car-paint-black", "glass", "water", "retro-sheeting"]
)
def test_library_materials_are_met_between_the_rows(name: str) -> None:
    material = library.material(name)
    table = reflection_table([library.material("lambert-10"), material], 905.0, textured=False)
    found = reflected(COS, np.ones(len(COS), np.uint32), table.astype(np.float64).ravel())
    # Relative to the curve, and near grazing incidence, where it falls to nothing, to a ten-thousandth of its top.
    truth = expected(material, COS)
    np.testing.assert_allclose(found, truth, rtol=2e-4, atol=1e-4 * truth.max())


def test_narrow_lobes_are_resolved() -> None:
    glossy = Material.model_validate(
        {"name": "gloss", "sources": ["test"],
         "spectrum": {"wavelength_um": [0.4, 2.0], "reflectance": [0.2, 0.2]},
         "brdf": {"model": "cook-torrance", "roughness": 0.05, "refractive_index": 1.5}}
    )  # fmt: skip
    angle = np.linspace(0.0, 0.02, 4001)
    found = reflected(
        np.cos(angle),
        np.zeros(4001, np.uint32),
        reflection_table([glossy], 905.0, textured=False).astype(float).ravel(),
    )
    np.testing.assert_allclose(found, expected(glossy, np.cos(angle)), rtol=3e-3)


def test_a_texture_multiplies_the_body_only() -> None:
    paint = library.material("car-paint-white")
    table = reflection_table([paint], 905.0, textured=True).astype(np.float64)
    assert table.shape == (1, STEPS, 4)
    rows = np.zeros(len(COS), np.uint32)
    for texture in (0.0, 0.4, 1.0):
        found = reflected(COS, rows, table.ravel(), texture=texture)
        np.testing.assert_allclose(found, expected(paint, COS, texture), rtol=5e-4, atol=5e-6)


def test_kernels_read_the_same_numbers() -> None:
    from parhelion.rays.device import engine

    e = engine()
    materials = [library.material(name) for name in ("brick", "aluminium", "car-paint-red")]
    table = reflection_table(materials, 905.0, textured=False)
    number = (np.arange(len(COS)) % 3).astype(np.uint32)
    cos = COS.astype(np.float32)
    kernel = reflected(e.mi.Float(cos), e.mi.UInt32(number), e.table(table)).numpy()
    np.testing.assert_allclose(
        kernel, reflected(cos.astype(np.float64), number, table.astype(np.float64).ravel()), rtol=2e-3, atol=1e-6
    )
