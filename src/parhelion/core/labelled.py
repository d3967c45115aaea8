"""Records as labelled arrays of xarray: named dimensions, coordinates and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import MissingDependencyError

if TYPE_CHECKING:
    from xarray import Dataset


class Labelled(NamedTuple):
    """One array with a name for each of its axes."""

    name: str
    unit: str
    frame: str
    """Coordinate frame; '' if none applies."""
    values: NDArray[Any]
    axes: Sequence[str]
    """Names of the axes, one per dimension of `values`."""
    labels: Mapping[str, Sequence[str]]
    """Names of the entries along an axis: x, y, z; wheels; satellites."""


def as_dataset(arrays: Sequence[Labelled], attributes: Mapping[str, Any]) -> Dataset:
    """Dataset of arrays; `time` along the first axis becomes a coordinate. Values are shared, not copied."""
    try:
        import xarray
    except ImportError:
        raise MissingDependencyError("to_xarray needs xarray: pip install 'parhelion[dataframe]'") from None
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for one in arrays:
        about = {key: value for key, value in (("units", one.unit), ("frame", one.frame)) if value}
        place = coordinates if one.name == "time" and len(one.axes) == 1 else variables
        place[one.name] = (tuple(one.axes), one.values, about)
        for axis, words in one.labels.items():
            coordinates[axis] = (axis, np.asarray(list(words), str))
    plain = {key: value for key, value in attributes.items() if isinstance(value, (str, int, float))}
    return xarray.Dataset(variables, coordinates, plain)
