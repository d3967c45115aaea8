"""RTKLIB as oracle: it reads our files, its models give our numbers, and it solves our ranges to our fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from gnss_rigs import BROADCAST, EVENING, plain, sheet
from oracles import oracle
from parhelion.io import gnss
from parhelion.sensors.waves.gnss import earth
from parhelion.sensors.waves.gnss.rinex_nav import read_navigation
from parhelion.sensors.waves.gnss.satellites import states

rtk = oracle("pyrtklib")
pytestmark = pytest.mark.oracle
needs_file = pytest.mark.skipif(not BROADCAST.exists(), reason="the broadcast file lies outside of the repository")


def numbers(*values: float) -> Any:
    array = rtk.Arr1Ddouble(len(values))
    for k, value in enumerate(values):
        array[k] = value
    return array


def read(*files: Path) -> tuple[Any, Any]:
    ranges, nav, station = rtk.obs_t(), rtk.nav_t(), rtk.sta_t()
    for file in files:
        assert rtk.readrnx(str(file), 1, "", ranges, nav, station) == 1
    rtk.uniqnav(nav)
    return ranges, nav


@needs_file
def test_orbits_and_clocks() -> None:
    _, nav = read(BROADCAST)
    eph = read_navigation(BROADCAST).ephemerides
    time = rtk.gpst2time(2155, 333_018.0)
    row = eph.pick(np.array([333_018.0]), eph.names)
    found = states(eph, row, np.full(row.shape, 333_018.0))
    for column, name in enumerate(eph.names):
        rs, dts, var = numbers(*[0.0] * 6), numbers(0.0, 0.0), numbers(0.0)
        svh = rtk.Arr1Dint(1)
        assert rtk.satpos(time, time, rtk.satid2no(name), 0, nav, rs, dts, var, svh)
        assert found.xyz[0, column] == pytest.approx([rs[k] for k in range(3)], abs=1e-4)
        assert found.velocity[0, column] == pytest.approx([rs[k] for k in range(3, 6)], abs=1e-3)
        assert found.clock[0, column] == pytest.approx(dts[0], abs=1e-13)


@pytest.mark.parametrize("elevation", [5.0, 20.0, 80.0])
def test_mappings(elevation: float) -> None:
    for month in (1, 7):
        time = rtk.epoch2time(numbers(2020.0, float(month), 16.0, 3.0, 0.0, 0.0))
        wet = numbers(0.0)
        place = numbers(np.radians(-41.0), np.radians(20.0), 700.0)
        dry = rtk.tropmapf(time, place, numbers(0.3, np.radians(elevation)), wet)
        found = earth.niell(np.radians(-41.0), 700.0, np.radians(elevation), rtk.time2doy(time))
        assert found == pytest.approx((dry, wet[0]), rel=1e-12)


@needs_file
def test_it_solves_our_ranges_to_our_fix(tmp_path: Path) -> None:
    config = sheet(
        constellations=["gps"],
        fix={
            "weights": "elevation",
            "troposphere": "saastamoinen",
            "exclude": False,
            "elevation_mask_deg": 15.0,
            "min_cn0_dbhz": 0.0,
        },
    )
    receiver = ph.Gnss(
        config, rate_hz=1.0, ephemeris=BROADCAST, epoch=EVENING, latitude_deg=48.0, longitude_deg=11.0, altitude_m=500.0
    )
    world = plain()
    drive = ph.ConstantTwist(ph.Pose((0, 0, 2)), velocity=(3.0, 1.0, 0.0))
    ours = receiver.run(world, drive, duration=5.0, seed=4)
    gnss.write_rinex(ours, tmp_path / "ours.rnx")
    ranges, nav = read(tmp_path / "ours.rnx", BROADCAST)
    assert ranges.n == ours.tracked.sum()
    options = rtk.prcopt_default
    options.mode, options.navsys, options.nf = rtk.PMODE_SINGLE, rtk.SYS_GPS, 1
    options.ionoopt, options.tropopt, options.elmin = rtk.IONOOPT_BRDC, rtk.TROPOPT_SAAS, np.radians(15.0)
    place, first = receiver.place_in(world), 0
    for k in range(5):
        count = int(ours.tracked[k].sum())
        epoch = rtk.Arr1Dobsd_t(count)
        for j in range(count):
            epoch[j] = ranges.data[first + j]
        first += count
        solution, angles = rtk.sol_t(), rtk.Arr1Ddouble(2 * count)
        solution.time = epoch[0].time
        message = rtk.Arr1Dchar(256)
        assert (
            rtk.pntpos(epoch.ptr, count, nav, options, solution, angles, rtk.Arr1Dssat_t(rtk.MAXSAT).ptr, message) == 1
        )
        theirs = np.array([solution.rr[axis] for axis in range(6)])
        assert solution.ns == ours.satellites_used[k]
        assert np.linalg.norm(theirs[:3] - place.to_ecef(ours.position[k])) < 0.01
        assert np.linalg.norm(theirs[3:] - place.rotate_to_ecef(ours.velocity[k])) < 0.05
        assert solution.dtr[0] == pytest.approx(ours.clock_bias[k], abs=1e-10)
