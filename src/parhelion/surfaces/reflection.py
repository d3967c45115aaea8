"""What materials send back to the sensor, tabulated over the angle of incidence, so that kernels look it up.

A BRDF with all its parts costs a kernel dozens of operations a ray; a table costs one access. Entries are f cos(theta)
[1/sr], which stays finite at grazing incidence where f alone does not, even in u = (1 - cos theta)^(1/4): the angle is
about sqrt(2) u^2, so the narrow lobes of glossy surfaces are resolved (17 steps within a lobe of 0.4 mrad).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Masks, Reals, namespace
from parhelion.surfaces.curves import curve_value
from parhelion.surfaces.material import Material, material_curves, material_table, monostatic_brdf

STEPS = 1024


def reflection_table(materials: Sequence[Material], wavelength_nm: float, *, textured: bool) -> NDArray[np.float32]:
    """One block of STEPS rows a material: f cos(theta) at the row's angle, and how much it changes to the next row.

    Two columns for all of the BRDF together; where `textured`, two for the part that a texture multiplies and two for
    the rest. Lines between rows are within 0.3 % of the BRDF for any roughness above 0.02.
    """
    cos = 1.0 - np.linspace(0.0, 1.0, STEPS + 1) ** 4
    columns = {
        name: values.astype(np.float64)[:, None] for name, values in material_table(materials, wavelength_nm).items()
    }
    number = np.arange(len(materials))[:, None]
    curve = columns["curve_level"] * curve_value(
        np.broadcast_to(cos, (len(materials), STEPS + 1)), number, material_curves(materials).astype(np.float64).ravel()
    )
    # At grazing incidence itself f may be infinite, but f cos is not: the last angle is a little above it.
    near = np.maximum(cos, 1e-9)
    gloss = monostatic_brdf(near, columns, texture=0.0)
    body = monostatic_brdf(near, columns) - gloss + curve
    parts = [body, gloss] if textured else [body + gloss]
    rows = [column for part in parts for column in ((part * near)[:, :-1], np.diff(part * near, axis=1))]
    return np.stack(rows, axis=-1).astype(np.float32)


def reflected(cos_theta: Reals, material: Ints, table: Reals, *, texture: Reals = None, active: Masks = True) -> Reals:
    """f cos(theta) [1/sr] of materials by number; `table` is a reflection table, flat, NumPy or Dr.Jit.

    `texture` in [0, 1] multiplies the diffuse part, and is given where the table was made for textures.
    """
    xp = namespace(cos_theta, material)
    place = xp.sqrt(xp.sqrt(xp.abs(1.0 - cos_theta))) * float(STEPS)
    row = xp.uint32(place)
    row = xp.where(row < STEPS, row, STEPS - 1)
    start, along = material * STEPS + row, place - xp.float_of(row)
    if xp.name == "numpy":
        found = table.reshape(-1, 2 if texture is None else 4)[start].T
    else:
        import drjit as dr
        import mitsuba as mi

        found = dr.gather(mi.Vector2f if texture is None else mi.Vector4f, table, start, active)
    body = found[0] + along * found[1]
    return body if texture is None else texture * body + found[2] + along * found[3]
