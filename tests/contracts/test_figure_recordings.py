"""Inputs of the near-field figures: recordings as images, and the quantities measured on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("name", ["os0-32", "os1-32", "os0-128", "os1-128"])
def test_images_are_those_of_the_makers_decoder(figures: Any, name: str) -> None:
    sdk = pytest.importorskip("ouster.sdk")
    recordings = figures("recordings")
    file = recordings.folder() / recordings.FILES[name]
    if not file.is_file():
        pytest.skip(f"recording {file.name} is not here")
    theirs = [scans[0] for scans in sdk.open_source(str(file), meta=[str(recordings.json_beside(file))])]
    ours = recordings.read(name)
    assert len(ours) == len(theirs) >= 1
    for frame, scan in zip(ours, theirs, strict=True):
        metres = scan.field("RANGE") * 1e-3
        np.testing.assert_array_equal(frame.lost, metres == 0.0)
        np.testing.assert_allclose(frame.range[~frame.lost] + frame.beam_offset_m, metres[~frame.lost], atol=1e-9)
        np.testing.assert_array_equal(frame.withheld, (scan.field("FLAGS") > 0) & frame.lost)
        pairs = {"REFLECTIVITY": frame.reflectivity, "NEAR_IR": frame.near_ir, "SIGNAL": frame.signal}
        for field, image in pairs.items():
            if field in scan.fields:
                np.testing.assert_array_equal(image, scan.field(field))


def test_overlap_and_noise_of_a_known_receiver_are_found(figures: Any) -> None:
    """A floor and round walls seen by rows of unequal sensitivity, with integer counts and noisy ranges."""
    recordings, measures = figures("recordings"), figures("near_field_measures")
    random = np.random.default_rng(5)
    rows, columns, constant, offset, sigma = 32, 1024, 100_000.0, 0.02, 0.006
    strength = np.exp(random.normal(0.0, 0.1, rows))
    strength /= np.median(strength)
    # Steps of at least three columns, so that each window lies on one surface; rows overlap in range.
    wall = np.repeat(np.geomspace(2.0, 50.0, 32)[random.permutation(32)], columns // 32)
    distance = np.clip(wall * np.linspace(0.7, 1.4, rows)[:, None], 2.0, 60.0)
    distance = distance + random.normal(0.0, sigma, distance.shape)
    cell = np.floor((distance + offset) / measures.CELL_M)

    def share(range_m: Any) -> Any:
        return np.minimum(1.0, (range_m / 12.0) ** 3)

    middle = (cell + 0.5) * measures.CELL_M - offset
    counts = random.uniform(6.0, 95.0, distance.shape)
    photons = constant * strength[:, None] * share(middle) / middle**2 * counts / 100.0
    none = np.zeros(distance.shape, bool)
    frame = recordings.Frame(
        "made up", distance, np.floor(photons), np.floor(counts), np.zeros(distance.shape), none, none,
        np.linspace(20.0, -20.0, rows), offset,
    )  # fmt: skip
    curve = measures.overlap(frame, (14.0, 60.0), 4.0, repeats=20)
    assert curve.constant == pytest.approx(constant, rel=0.02)
    np.testing.assert_allclose(curve.row_factor, strength, rtol=0.03)
    close = curve.range < 11.0
    assert close.sum() >= 10
    np.testing.assert_allclose(curve.share[close], share(curve.range[close]), rtol=0.04)
    noise = measures.range_noise(frame, frame.range, (2.0, 60.0), repeats=20)
    assert noise.sigma_m[0] == pytest.approx(sigma, rel=0.15)
