"""Cross-sections of single objects by physical optics, compared with closed forms and with the power mode."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.motion.actors import add_car
from parhelion.sensors.waves.radar.rcs import corner_m2, plate_m2, power_rcs, rcs, reflected
from parhelion.surfaces.radio import permittivity
from wave_rigs import trihedral

WAVELENGTH = SPEED_OF_LIGHT_M_S / 77e9
ALONG_AXIS_DEG = np.degrees(np.arcsin(3.0**-0.5))


def decibels(ratio: object) -> np.ndarray:
    return 10.0 * np.log10(np.asarray(ratio))


def faces_at_right_angles(side: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two or three squares that meet at the z axis or the origin and open to (+, +, +)."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 1, 0]], float)
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 5, 4], [0, 3, 5], [0, 6, 1], [0, 4, 6]])
    return side * corners, faces[: 2 * count]


def test_a_plate_from_many_sides() -> None:
    # Broadside, within the main lobe, and at the peaks of the first two sidelobes.
    angle = np.array([0.0, *np.degrees(np.arcsin(WAVELENGTH / 0.2 * np.array([0.5, 1.43, 2.46])))])
    found = rcs(ph.shapes.board(0.1, 0.1, 1e-4), frequency_ghz=77, azimuth_deg=180 + angle)
    off = decibels(found.sigma / plate_m2(0.1, 0.1, np.radians(angle), WAVELENGTH))
    assert off == pytest.approx(np.zeros(4), abs=0.1)
    # There is no cross-polarisation, and both polarisations are equal.
    assert found.polarised[0, 0, 0] == pytest.approx(found.polarised[0, 1, 1], rel=1e-6)
    assert found.polarised[0, 0, 1] < 1e-12 * found.polarised[0, 0, 0]


@pytest.mark.parametrize("radius", [0.03, 0.05])
def test_a_sphere(radius: float) -> None:
    found = rcs(ph.shapes.sphere(radius, 5), frequency_ghz=77, azimuth_deg=(11, 70), elevation_deg=(3, -50))
    assert decibels(found.sigma / (np.pi * radius**2)) == pytest.approx(np.zeros(2), abs=0.5)
    # Residual of mesh and tubes; physical optics adds a contribution of the shadow boundary.
    ka = 2.0 * np.pi * radius / WAVELENGTH
    shadow = 1.0 - np.sin(2.0 * ka) / ka + (np.sin(ka) / ka) ** 2
    assert decibels(found.sigma / (np.pi * radius**2 * shadow)) == pytest.approx(np.zeros(2), abs=0.3)


def test_corners_of_three_and_of_two_faces() -> None:
    side = 0.1
    triangles = rcs(trihedral(side), frequency_ghz=77, azimuth_deg=180)
    assert decibels(triangles.sigma / corner_m2(side, WAVELENGTH)) == pytest.approx([0.0], abs=0.3)
    squares = rcs(
        faces_at_right_angles(side, 3), frequency_ghz=77, azimuth_deg=45, elevation_deg=ALONG_AXIS_DEG,
        tubes_per_wavelength=4,
    )  # fmt: skip
    assert decibels(squares.sigma / corner_m2(side, WAVELENGTH, "squares")) == pytest.approx([0.0], abs=0.3)
    two = rcs(faces_at_right_angles(side, 2), frequency_ghz=77, azimuth_deg=45, tubes_per_wavelength=4)
    # 8 pi (w h / lambda)^2: that of an area of sqrt(2) w h.
    assert decibels(two.sigma / (8.0 * np.pi * (side * side / WAVELENGTH) ** 2)) == pytest.approx([0.0], abs=0.3)
    once = rcs(trihedral(side), frequency_ghz=77, azimuth_deg=180, tubes_per_wavelength=4, bounces=2)
    assert once.sigma[0] < 0.01 * triangles.sigma[0]


def test_two_bounces_turn_polarisation() -> None:
    # Two mirrors with the edge at 45 degrees convert horizontal into vertical; three return the incident polarisation.
    vertices, faces = faces_at_right_angles(0.1, 2)
    forward = np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)
    edge = np.array([0.0, 0.0, 1.0])
    across = np.cross(edge, forward)
    # The opening along x, the edge between y and z.
    turn = np.stack([forward, (across + edge) / np.sqrt(2.0), (edge - across) / np.sqrt(2.0)])
    two = rcs((vertices @ turn.T, faces), frequency_ghz=77, tubes_per_wavelength=4)
    assert two.polarised[0, 0, 1] > 1e3 * two.polarised[0, 0, 0]
    assert two.scattering is not None
    assert two.scattering[0, 0, 1] == pytest.approx(two.scattering[0, 1, 0], rel=1e-3)  # reciprocity
    three = rcs(trihedral(0.1), frequency_ghz=77, azimuth_deg=180, tubes_per_wavelength=4)
    assert three.polarised[0, 0, 1] < 0.01 * three.polarised[0, 0, 0]


def test_the_phase_is_that_of_the_way_there_and_back() -> None:
    plate = ph.shapes.board(0.1, 0.1, 1e-4)
    near, far = (rcs(plate.transformed(ph.Pose((x, 0, 0))), frequency_ghz=77, azimuth_deg=180) for x in (0.0, 0.0007))
    assert near.scattering is not None
    assert far.scattering is not None
    turned = np.angle(far.scattering[0, 0, 0] / near.scattering[0, 0, 0])
    assert turned == pytest.approx(-4.0 * np.pi * 0.0007 / WAVELENGTH, abs=1e-3)


def test_bistatic_the_plate_mirrors() -> None:
    # Sent from 20 degrees on one side, received at 20 on the other: 4 pi (A cos a)^2 / lambda^2, and by reciprocity
    # the same with both ends exchanged.
    plate = ph.shapes.board(0.1, 0.1, 1e-4)
    found = rcs(plate, frequency_ghz=77, azimuth_deg=(160, 200, 160), receiver_azimuth_deg=(200, 160, 199))
    exact = 4.0 * np.pi * (0.01 * np.cos(np.radians(20.0)) / WAVELENGTH) ** 2
    assert decibels(found.sigma[:2] / exact) == pytest.approx(np.zeros(2), abs=0.1)
    # One degree off the specular direction, the plate's pattern applies.
    beside = np.sinc(0.1 / WAVELENGTH * (np.sin(np.radians(20.0)) - np.sin(np.radians(19.0)))) ** 2
    assert decibels(found.sigma[2] / (exact * beside)) == pytest.approx(0.0, abs=0.1)


def test_a_dielectric_plate_is_weaker_by_fresnel() -> None:
    metal, plastic = (
        rcs(ph.shapes.board(0.1, 0.1, 1e-4), frequency_ghz=77, azimuth_deg=180, material=name).sigma[0]
        for name in ("steel", "glass")
    )
    root = np.sqrt(complex(permittivity("glass", 77e9)))
    assert decibels(plastic / metal) == pytest.approx(decibels(abs((1 - root) / (1 + root)) ** 2), abs=0.03)


def test_reflection_leaves_no_field_along_a_metal() -> None:
    rng = np.random.default_rng(1)
    normal = np.array([[0.0, 0.0, 1.0]])
    for _ in range(20):
        way = rng.normal(size=3) * [1, 1, -1]
        way[2] = -abs(way[2])
        way = way[None] / np.linalg.norm(way)
        field = rng.normal(size=(1, 2, 3)) + 1j * rng.normal(size=(1, 2, 3))
        field -= np.einsum("npi,ni->np", field, way)[:, :, None] * way[:, None]
        back, onward = reflected(field, way, normal, np.array([1.0 - 1e12j]), np.ones(1))
        assert np.abs((field + back)[..., :2]).max() < 1e-4
        assert np.abs(np.einsum("npi,ni->np", back, onward)).max() < 1e-9  # waves are transverse


def test_the_power_mode_agrees_where_it_should() -> None:
    radar = ph.Radar("ti/mmwcas-imaging")
    plate = ph.shapes.board(0.1, 0.1, 1e-3)
    for target, far in ((plate, 0.3), (trihedral(0.1), 1.5)):
        optics, power = (radar.rcs(target, 180.0, mode=mode).dbsm[0] for mode in ("optics", "power"))
        assert power == pytest.approx(optics, abs=far)


def test_cars_are_as_bright_as_published() -> None:
    # 3GPP TR 38.901 release 19, table 7.9.2.1-4: centre, width, largest gain and depth [deg, deg, dBsm, dB].
    sides = ((0.0, 40.54, 15.52, 8.45), (90.0, 26.90, 20.75, 13.68), (180.0, 36.32, 14.56, 7.50))
    azimuth = np.arange(0.0, 181.0, 5.0)
    row = np.argmin(np.abs(azimuth[:, None] - [one[0] for one in sides]), axis=1)
    centre, width, gain, depth = np.array(sides)[row].T
    published = gain - np.minimum(12.0 * ((azimuth - centre) / width) ** 2, depth)
    off = []
    for model in ("sedan", "suv"):
        car = add_car(ph.World(), ph.Pose(), model)
        found = power_rcs(car, frequency_ghz=77, azimuth_deg=azimuth, distance_m=50.0, rays=40_000)
        off.append(found.dbsm - published)
    # The table states a standard deviation of 3.41 dB between cars and aspects.
    assert abs(np.mean(off)) < 3.41
    assert np.sqrt(np.mean(np.square(off))) < 2.0 * 3.41


def test_invalid_input_is_an_error() -> None:
    box = ph.shapes.box(0.1, 0.1, 0.1)
    with pytest.raises(ConfigError, match="elevations from -90 to 90"):
        rcs(box, frequency_ghz=77, elevation_deg=91)
    with pytest.raises(ConfigError, match="lists of the same length"):
        rcs(box, frequency_ghz=77, azimuth_deg=[0, 1], elevation_deg=[0, 1, 2])
    with pytest.raises(ConfigError, match="tubes for one direction"):
        rcs(ph.shapes.box(50, 50, 50), frequency_ghz=77)
    with pytest.raises(ConfigError, match="material applies to meshes only"):
        rcs(ph.World().add(box, material="steel"), frequency_ghz=77, material="glass")
    with pytest.raises(ConfigError, match="the target has no triangles"):
        rcs(ph.World(), frequency_ghz=77)
    with pytest.raises(ConfigError, match="must be optics or power"):
        ph.Radar("ti/iwr6843").rcs(box, mode="lobes")  # type: ignore[arg-type]
