"""Times and units of Velodyne's packets against the figures of the manuals."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.makers.velodyne.models import BLOCKS_PER_PACKET, MODELS, RETURN_MODES, model_of_product

VLP_16, VLP_32C, HDL_32E = (MODELS[f"velodyne/{name}"] for name in ("vlp-16", "vlp-32c", "hdl-32e"))


def test_firing_times_of_the_manuals() -> None:
    """VLP-16 (63-9243, 9.5): 2.304 us a laser; VLP-32C (63-9325): two lasers at a time; HDL-32E (63-9277): 1.152 us."""
    assert VLP_16.fire_time_s * 1e6 == pytest.approx(np.arange(16) * 2.304)
    assert VLP_32C.fire_time_s * 1e6 == pytest.approx(np.repeat(np.arange(16), 2) * 2.304)
    assert HDL_32E.fire_time_s * 1e6 == pytest.approx(np.arange(32) * 1.152)
    # The last laser has fired before the next sequence begins.
    for model, period in ((VLP_16, 55.296), (VLP_32C, 55.296), (HDL_32E, 46.08)):
        assert model.period_us == period
        assert model.fire_time_s[-1] * 1e6 < period


def test_packets_take_the_time_of_the_manuals() -> None:
    """754 packets a second of a VLP-16, twice as many with two returns; 1508 of a VLP-32C, 1808 of an HDL-32E."""
    for model, per_second in ((VLP_16, 753.5), (VLP_32C, 1507.0), (HDL_32E, 1808.4)):
        for dual in (False, True):
            packet_s = model.sequences_per_packet(dual) * model.period_us * 1e-6
            assert (2 if dual else 1) * per_second == pytest.approx(1.0 / packet_s, rel=1e-4)
    assert [model.sequences_per_block for model in (VLP_16, VLP_32C, HDL_32E)] == [2, 1, 1]
    assert [model.channels for model in (VLP_16, VLP_32C, HDL_32E)] == [16, 32, 32]
    assert BLOCKS_PER_PACKET == 12


def test_codes_and_units_of_the_manuals() -> None:
    assert RETURN_MODES == {"strongest": 0x37, "last": 0x38, "dual": 0x39}
    assert [model.product for model in (VLP_16, VLP_32C, HDL_32E)] == [0x22, 0x28, 0x21]
    assert [model.farthest_m for model in (VLP_16, VLP_32C, HDL_32E)] == pytest.approx([131.07, 262.14, 131.07])


def test_lasers_by_height() -> None:
    """VLP-16: laser 0 is the lowest, 15 the highest, 1 the ninth. Rings and lasers are each other's inverse."""
    assert VLP_16.ring.tolist() == [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]
    assert [VLP_32C.ring[laser] for laser in (0, 29, 3, 30)] == [0, 31, 1, 30]
    for model in MODELS.values():
        assert model.ring[model.laser_of_ring].tolist() == list(range(model.channels))
        assert np.all(np.diff(np.array(model.elevation_deg)[model.laser_of_ring]) > 0)
    assert (min(HDL_32E.elevation_deg), max(HDL_32E.elevation_deg)) == (-30.67, 10.67)
    assert np.diff(np.sort(HDL_32E.elevation_deg)) == pytest.approx(np.full(31, 4 / 3), abs=0.011)
    # Figures of the VLP-16's table of vertical corrections [mm].
    assert VLP_16.height_m[[0, 1, 14, 15]] * 1e3 == pytest.approx([11.2, -0.7, 0.7, -11.2], abs=0.05)
    assert VLP_16.offset_deg.tolist() == [0.0] * 16
    # Four columns of lasers, 2.8 degrees apart.
    assert sorted(set(VLP_32C.offset_deg.tolist())) == [-4.2, -1.4, 1.4, 4.2]
    assert [VLP_32C.offset_deg.tolist().count(one) for one in (-4.2, -1.4, 1.4, 4.2)] == [5, 11, 11, 5]


@pytest.mark.parametrize(
    ("product", "spacing_us", "name"),
    [
        (0x21, None, "hdl-32e"),
        (0x21, 552.96, "hdl-32e"),
        (0x21, 1327.104, "vlp-16"),
        (0x21, 1331.9, "vlp-16"),
        (0x21, 1322.3, "vlp-16"),
        (0x21, 1333.0, "hdl-32e"),
        (0x21, 1321.0, "hdl-32e"),
        (0x22, None, "vlp-16"),
        (0x28, 1327.104, "vlp-32c"),
    ],
)
def test_models_by_their_code_and_the_spacing_of_packets(product: int, spacing_us: float | None, name: str) -> None:
    assert model_of_product(product, spacing_us) is MODELS[f"velodyne/{name}"]


def test_unknown_codes_are_reported() -> None:
    with pytest.raises(ConfigError, match=r"0x42 is not known; known are 0x22 \(velodyne/vlp-16\)"):
        model_of_product(0x42)
