"""Light of a lidar in water against closed forms: Snell's law, the speed of light, spreading and attenuation."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.water import absorption_per_m, diffuse_attenuation_per_m, mean_square_slope
from parhelion.sensors.optics.lidar.bathymetry import corrected, refracted, spreading_factor
from parhelion.surfaces.library import material
from parhelion.surfaces.material import Material, WaterSurface, material_table, specular_split

INDEX, HEIGHT_M = 1.34, 75.0
GREEN = "riegl/vq-840-gl"


def water(kd: float = 0.1, wind_m_s: float | None = 5.0) -> Material:
    surface = WaterSurface(kind="water", refractive_index=INDEX, attenuation_532_per_m=kd, wind_speed_m_s=wind_m_s)
    return material("water").model_copy(update={"name": f"water-{kd}", "specular": surface})


def pool(depth_m: float, kd: float = 0.1, wind_m_s: float | None = 5.0, tilt_deg: float = 0.0) -> ph.World:
    world = ph.World()
    world.add(ph.shapes.plane(200, 200), material="lambert-20", label="terrain", pose=ph.Pose((0, 0, -depth_m)))
    tilt = ph.Pose(rpy_deg=(0, tilt_deg, 0))
    world.add(ph.shapes.plane(200, 200), material=water(kd, wind_m_s), label="water", pose=tilt)
    return world


def scan_of(world: ph.World, **options: object) -> ph.Scan:
    return ph.Lidar(GREEN, **options).scan(world, pose=ph.Pose((0, 0, HEIGHT_M)), seed=3)  # type: ignore[arg-type]


def test_snells_law_in_both_directions() -> None:
    angle = np.radians([0.0, 14.0, 20.0, 60.0])
    down = np.stack([np.sin(angle), np.zeros(4), -np.cos(angle)])
    for normal in (1.0, -1.0):  # faces have either winding
        up = np.zeros((3, 4))
        up[2] = normal
        bent, squeeze = refracted(down, up, normal * down[2], np.full(4, INDEX))
        inside = np.arcsin(np.sin(angle) / INDEX)
        np.testing.assert_allclose(bent, [np.sin(inside), np.zeros(4), -np.cos(inside)], atol=1e-12)
        np.testing.assert_allclose(squeeze, np.cos(inside) / np.cos(angle), rtol=1e-12)


def test_spreading_is_that_of_a_bundle_of_rays() -> None:
    """Rays from a point under water through the interface: the area that they cover far above per solid angle."""
    depth, height, angle, step = 6.0, 40.0, np.radians(25.0), 1e-4
    inside = np.arcsin(np.sin(angle) / INDEX)

    def place(polar: float, side: float) -> np.ndarray:
        below = np.array([np.sin(polar) * np.cos(side), np.sin(polar) * np.sin(side), np.cos(polar)])
        entry = below * depth * np.cos(inside) / below[2]
        tangent = below[:2] * INDEX
        above = np.append(tangent, np.sqrt(1.0 - tangent @ tangent))
        # The plane through the receiver that faces the middle ray.
        middle = np.array([np.sin(angle), 0.0, np.cos(angle)])
        centre = np.array([np.sin(inside), 0.0, np.cos(inside)]) * depth + height * middle
        return entry + above * ((centre - entry) @ middle) / (above @ middle)

    along = (place(inside + step, 0.0) - place(inside - step, 0.0)) / (2 * step)
    across = (place(inside, step) - place(inside, -step)) / (2 * step * np.sin(inside))
    area = np.linalg.norm(np.cross(along, across))
    factor = spreading_factor(height, depth, index=INDEX, squeeze=np.cos(inside) / np.cos(angle))
    assert factor == pytest.approx(height**2 / area, rel=1e-6)
    vertical = spreading_factor(height, depth, index=INDEX, squeeze=1.0)
    assert vertical == pytest.approx(height**2 / (INDEX * height + depth) ** 2, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["adaptive", "fixed"])
def test_bottoms_lie_within_two_centimetres_after_correction(sampling: str) -> None:
    """Flat water at 75 m: raw points are too deep by the factor of the index, corrected ones are right."""
    for depth in (1.0, 5.0, 10.0):
        scan = scan_of(pool(depth), noise=False, sampling=sampling)
        bottom = scan.fields["return_index"] == 1
        assert np.count_nonzero(bottom) == len(scan.shots)
        raw = -scan.in_world().xyz[bottom, 2]
        for found in (corrected(scan), corrected(scan, level_m=0.0)):
            assert np.abs(-found.xyz[bottom, 2] - depth).max() < 2e-3
            beam = scan.shots.direction[scan.fields["shot"][bottom]].astype(float)
            slants = np.arccos(-beam[:, 2])
            reach = HEIGHT_M * np.tan(slants) + depth * np.tan(np.arcsin(np.sin(slants) / INDEX))
            assert np.abs(np.hypot(found.xyz[bottom, 0], found.xyz[bottom, 1]) - reach).max() < 5e-3
        assert raw.min() > depth * INDEX * 0.97
        # The range itself: H + n D along the refracted path, for the beam at the largest angle across the flight.
        row = int(np.argmax(np.abs(scan.shots.direction[:, 1])))
        slant = np.arccos(-scan.shots.direction[row, 2].astype(float))
        inside = np.arcsin(np.sin(slant) / INDEX)
        expected = HEIGHT_M / np.cos(slant) + INDEX * depth / np.cos(inside)
        ranges = scan.fields["range"][scan.fields["shot"] == row]
        assert ranges[1] == pytest.approx(expected, abs=2e-3)


def test_noise_alone_spreads_the_corrected_bottom() -> None:
    scan = scan_of(pool(5.0))
    bottom = scan.fields["return_index"] == 1
    depth = -corrected(scan, level_m=0.0).xyz[bottom, 2]
    count, sigma = np.count_nonzero(bottom), 0.015 / INDEX  # that of the range, in water
    assert abs(depth.mean() - 5.0) < 2e-3 + 4.0 * sigma / np.sqrt(count)
    assert depth.std() == pytest.approx(sigma, rel=4.0 / np.sqrt(2 * count))
    assert np.abs(depth - 5.0).max() < 0.1


def test_tilted_water_bends_the_beam_by_its_own_normal() -> None:
    """On water that slopes by 5 degrees, a correction with a level surface misses by the closed form."""
    depth, tilt = 5.0, np.radians(5.0)
    scan = scan_of(pool(depth, tilt_deg=5.0), noise=False)
    row = int(np.argmax(scan.shots.direction[:, 1]))  # across the slope: the slope turns the ray along x
    beam = scan.shots.direction[row].astype(float)
    normal = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    first = HEIGHT_M * normal[2] / -(beam @ normal)
    entry = np.array([0.0, 0.0, HEIGHT_M]) + first * beam
    bent, _ = refracted(beam[:, None], normal[:, None], np.array([beam @ normal]), np.array([INDEX]))
    below = (-depth - entry[2]) / bent[2, 0]
    ranges = scan.fields["range"][scan.fields["shot"] == row]
    assert ranges == pytest.approx([first, first + INDEX * below], abs=3e-3)


def test_power_of_the_bottom_recovers_the_attenuation() -> None:
    """Bottoms at 2 to 12 m under nearly vertical beams: the slope of log P, without spreading, is -2 K_d."""
    kd, depths, powers = 0.25, np.array([2.0, 4.0, 8.0, 12.0]), []
    for depth in depths:
        scan = scan_of(pool(depth, kd), noise=False)
        bottom = scan.fields["return_index"] == 1
        row = int(np.argmax(np.abs(scan.shots.direction[:, 1])))
        powers.append(float(scan.fields["power"][bottom & (scan.fields["shot"] == row)][0]))
    slant = np.arccos(-scan.shots.direction[row, 2].astype(float))
    inside = np.arcsin(np.sin(slant) / INDEX)
    dry, wet = HEIGHT_M / np.cos(slant), depths / np.cos(inside)
    spread = np.asarray(spreading_factor(dry, wet, index=INDEX, squeeze=np.cos(inside) / np.cos(slant)))
    slope = np.polyfit(wet, np.log(np.array(powers) / spread), 1)[0]
    assert -0.5 * slope == pytest.approx(kd, rel=1e-3)
    # And the level: Fresnel twice, Lambert at the refracted angle, relative to the rated range of the sheet.
    columns = {name: values[:1] for name, values in material_table([water(kd)], 532.0).items()}
    _, through = specular_split(np.array([np.cos(slant)]), columns)
    lidar = ph.Lidar(GREEN)
    constant = lidar.system_constant
    level = 0.2 / np.pi * np.cos(inside) / dry**2 * np.exp(-2.0 * constant.gamma_per_m * dry) / constant.threshold
    expected = level * float(through[0]) ** 2 * spread * np.exp(-2.0 * kd * wet)
    np.testing.assert_allclose(powers, expected, rtol=5e-3)


@pytest.mark.slow
def test_waveform_has_surface_column_and_bottom() -> None:
    kd, depth = 0.3, 8.0
    lidar, world = ph.Lidar(GREEN, noise=False), pool(depth, kd)
    pose = ph.Pose((0, 0, HEIGHT_M))
    shots = [0, 357]
    wave = lidar.waveform(world, shots, pose=pose, bin_size_m=0.05, range_m=(70.0, 95.0))
    scan = lidar.scan(world, pose=pose)
    for shot, samples in zip(shots, wave.samples, strict=True):
        dry, far = scan.fields["range"][scan.fields["shot"] == shot]
        late = wave.ranges > 0.5 * (dry + far)
        assert wave.ranges[np.argmax(np.where(late, 0.0, samples))] == pytest.approx(dry, abs=0.06)
        assert wave.ranges[np.argmax(np.where(late, samples, 0.0))] == pytest.approx(far, abs=0.06)
        column = (wave.ranges > dry + 1.0) & (wave.ranges < far - 1.0)
        wet = (wave.ranges[column] - dry) / INDEX
        level = np.log(samples[column] * (wet + INDEX * dry) ** 2)
        assert -0.5 * np.polyfit(wet, level, 1)[0] == pytest.approx(kd, rel=2e-3)
        assert samples[wave.ranges > far + 1.0].max() == 0.0


def test_attenuation_by_wavelength() -> None:
    """532 nm as given; red and infrared light is absorbed by the water itself."""
    assert diffuse_attenuation_per_m(0.1, 532.0) == 0.1
    assert 5.0 < diffuse_attenuation_per_m(0.1, 905.0) < 9.0
    assert diffuse_attenuation_per_m(0.1, 1550.0) > 900.0
    assert absorption_per_m(532.0) == pytest.approx(0.04, rel=0.3)  # Pope and Fry 1997: 0.045
    assert mean_square_slope(5.0) == pytest.approx(0.0286)


def test_water_without_attenuation_stays_opaque() -> None:
    """The library's water has no bottom: its columns are as before, and no shot sees below."""
    table = material_table([material("water")], 532.0)
    assert table["water_attenuation"][0] == 0.0
    assert float(specular_split(np.array([1.0]), {k: v[:1] for k, v in table.items()})[1][0]) == 0.0
    world = pool(2.0)
    world.remove(world.objects[1])
    world.add(ph.shapes.plane(200, 200), material="water", label="water")
    scan = scan_of(world, noise=False)
    assert scan.in_world().xyz[:, 2].min() > -0.05
