"""Images and the base of records: shapes, units, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.core.records import units

GREY = np.zeros((4, 6), np.uint8)


def test_an_image_keeps_its_truth_read_only() -> None:
    depth = np.full((4, 6), np.inf)
    image = ph.Image(GREY, depth=depth, label=np.ones((4, 6)), metadata={"sensor": "toy"})
    assert (image.width, image.height) == (6, 4)
    assert image.depth is not None
    assert image.depth.dtype == np.float32
    assert image.label is not None
    assert image.label.dtype == np.uint16
    assert image.normal is None
    with pytest.raises(ValueError, match="read-only"):
        image.colour[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        image.depth[0, 0] = 1
    assert repr(image) == "<Image: toy, 6 x 4 pixels, 1 bands, depth, label>"
    depth[0, 0] = 3.0
    assert np.isinf(image.depth[0, 0]), "the record has its own numbers"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": np.zeros((4, 6), np.float64)}, "colour must have shape .* got float64"),
        ({"colour": np.zeros((0, 6), np.uint8)}, "colour must have shape"),
        ({"depth": np.zeros((6, 4))}, r"depth must have shape \(4, 6\), got shape \(6, 4\)"),
        ({"normal": np.full((4, 6, 3), np.nan)}, "normal must be finite"),
        ({"instance": np.zeros((4, 6, 1))}, r"instance must have shape \(4, 6\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ph.Image(**{"colour": GREY, **change})


def test_every_record_has_units() -> None:
    assert units(ph.Image)["depth"] == ("m", "sensor")
    assert units(ph.ImuData)["angular_rate"] == ("rad/s", "sensor")
    cloud = ph.PointCloud(np.zeros((2, 3)), {"range": np.zeros(2, np.float32), "own": np.zeros(2)}, "world")
    assert units(cloud) == {"xyz": ("m", "world"), "range": ("m", "")}
