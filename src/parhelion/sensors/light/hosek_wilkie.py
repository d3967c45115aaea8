"""The clear sky's radiance by direction: Hosek and Wilkie 2012, from 320 to 720 nm.

"An analytic model for full spectral sky-dome radiance", ACM Transactions on Graphics 31(4). The model's coefficients
are read from the data that Mitsuba's wheel carries for its own `sunsky` emitter (BSD licence of the two authors,
beside the file there). Valid for turbidities of 1 to 10, ground albedos of 0 to 1 and the sun above the horizon.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError, MissingDependencyError

Floats = NDArray[np.float64]

WAVELENGTHS_NM = np.arange(320.0, 721.0, 40.0)
"""Where the model has coefficients [nm], shape (11,)."""
TURBIDITIES = (1.0, 10.0)

_BINOMIAL = np.array([1.0, 5.0, 10.0, 10.0, 5.0, 1.0])
_FLOAT64 = 11
"""Number of the type in Mitsuba's tensor files."""


def read_tensors(path: Path) -> dict[str, Floats]:
    """The float64 tensors of one of Mitsuba's tensor files, by name."""
    content = path.read_bytes()
    try:
        magic, _, _, count = struct.unpack_from("<12sBBI", content, 0)
        if magic != b"tensor_file\0":
            raise FormatError(f"{path}: is not a tensor file of Mitsuba's")
        place, tensors = struct.calcsize("<12sBBI"), {}
        for _ in range(count):
            (length,) = struct.unpack_from("<H", content, place)
            name = content[place + 2 : place + 2 + length].decode("ascii")
            place += 2 + length
            dimensions, kind, offset = struct.unpack_from("<HBQ", content, place)
            place += struct.calcsize("<HBQ")
            shape = struct.unpack_from(f"<{dimensions}Q", content, place)
            place += 8 * dimensions
            if kind == _FLOAT64:
                values = np.frombuffer(content, "<f8", count=int(np.prod(shape)), offset=offset)
                tensors[name] = values.reshape(shape)
    except (struct.error, UnicodeDecodeError, ValueError):
        raise FormatError(f"{path}: the tensor file is damaged") from None
    return tensors


@lru_cache(maxsize=1)
def _coefficients() -> tuple[Floats, Floats]:
    """Parameters (turbidity, albedo, control point, wavelength, 9), and mean radiances without the last axis."""
    spec = PathFinder.find_spec("mitsuba")  # without importing it; once imported it is another module
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        file = Path(folder) / "data" / "sunsky" / "sunsky_datasets.bin"
        if file.is_file():
            tensors = read_tensors(file)
            return tensors["sky_params_spec"], tensors["sky_rad_spec"]
    raise MissingDependencyError(
        "the light of the sky needs the data of Mitsuba 3.7 or newer (mitsuba/data/sunsky): pip install -U mitsuba"
    )


def hosek_wilkie(directions: Floats, sun: Floats, turbidity: float, ground_albedo: float) -> Floats:
    """Radiance of the sky [W/(m^2 sr nm)] in directions (n, 3), z up, at `WAVELENGTHS_NM`: shape (n, 11).

    `sun` (3,) is the unit vector to the sun, not below the horizon. Directions below the horizon give what the
    horizon does. The sun's own disc is not included.
    """
    parameters, levels = _coefficients()
    elevation = np.arcsin(np.clip(sun[2], 0.0, 1.0))
    x = np.cbrt(elevation / (0.5 * np.pi))
    bezier = _BINOMIAL * (1.0 - x) ** np.arange(5, -1, -1) * x ** np.arange(6)

    step = np.clip(turbidity, *TURBIDITIES) - 1.0
    low = min(int(step), len(levels) - 2)

    def chosen(table: Floats) -> Floats:
        by_turbidity = (1.0 - (step - low)) * table[low] + (step - low) * table[low + 1]
        by_albedo = (1.0 - ground_albedo) * by_turbidity[0] + ground_albedo * by_turbidity[1]
        return np.tensordot(bezier, by_albedo, axes=1)

    a, b, c, d, e, f, g, i, h = chosen(parameters).T  # the data hold the last two in this order
    cos_theta = np.clip(directions[:, 2:3], 0.0, 1.0)
    cos_gamma = np.clip(directions @ sun, -1.0, 1.0)[:, None]
    gamma = np.arccos(cos_gamma)
    halo = (1.0 + cos_gamma**2) / (1.0 + h**2 - 2.0 * h * cos_gamma) ** 1.5
    height = 1.0 + a * np.exp(b / (cos_theta + 0.01))
    around = c + d * np.exp(e * gamma) + f * cos_gamma**2 + g * halo + i * np.sqrt(cos_theta)
    return np.maximum(height * around * chosen(levels), 0.0)
