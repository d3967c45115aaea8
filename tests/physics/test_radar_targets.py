"""Radar presets on known targets: cross-sections as shipped, and the obstacles of VANE's figures 5-1 and 5-2."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, poisson

import parhelion as ph
from chance import LIKELY, deviations, unsalted
from parhelion.motion.actors import add_person
from parhelion.rays.geometry import Triangles
from parhelion.sensors.waves.bounce import BouncePaths, edge_density
from parhelion.sensors.waves.radar.cube import scatterers_of
from parhelion.sensors.waves.radar.detection import ground_returns, speed_error_m_s, unfold_speeds
from parhelion.sensors.waves.radar.device import noise_power_w, received_constant_w
from parhelion.sensors.waves.radar.rcs import power_rcs, rcs
from parhelion.sensors.waves.scene import near_bend2, patches_of
from wave_rigs import alone, narrow, radar_config, trihedral

SIGMA = 10.0
"""Cross-section of the targets [m^2]."""


def plate_and_corner_side(wavelength: float) -> tuple[float, float]:
    """Side of a square plate and inner edge of a trihedral [m] of SIGMA: 4 pi A^2 / l^2, 4 pi a^4 / 3 l^2."""
    return (
        float(np.sqrt(wavelength * np.sqrt(SIGMA / (4.0 * np.pi)))),
        float((3.0 * wavelength**2 * SIGMA / (4.0 * np.pi)) ** 0.25),
    )


FRAMES = 3


def reading(radar: ph.Radar, world: ph.World, distance: float) -> float:
    """Cross-section [dBsm] of the strongest detection near a distance [m], the mean of a few frames."""
    found = []
    for seed in range(FRAMES):
        scan = radar.scan(world, pose=ph.Pose(), seed=seed)
        near = np.flatnonzero(np.abs(scan.range - distance) < max(2.0 * radar.config.range_step_m, 0.3))
        assert len(near), f"no detection at {distance:g} m"
        found.append(float(scan.rcs[near[np.argmax(scan.snr[near])]]))
    return float(np.mean(found))


@pytest.mark.parametrize("name", ph.presets("radar"))
def test_every_preset_reads_10_square_metres_as_10_square_metres(name: str) -> None:
    # Of 1 dB, noise takes little: the farthest targets have 22 dB and more, so that a reading scatters by
    # 8.7 dB / sqrt(2 SNR) < 0.5 dB, and the mean of three by 0.3 dB.
    radar = ph.Radar(name)
    plate, corner = plate_and_corner_side(radar.config.wavelength_m)
    radius = float(np.sqrt(SIGMA / np.pi))
    far_field = 2.0 * 2.0 * plate**2 / radar.config.wavelength_m
    for share in (0.4, 0.6, 0.9):
        distance = share * radar.config.largest_range_m
        assert distance > 1.2 * far_field  # nearer, real plates and corners read less
        for mesh in (trihedral(corner), ph.shapes.board(plate, plate, 0.001)):
            assert reading(radar, alone(mesh, distance), distance) == pytest.approx(10.0, abs=1.0)
        # A sphere at a finite distance R from its surface returns pi a^2 (R / (R + a))^2: geometrical optics with the
        # virtual image at a R / (2 R + a).
        exact = 10.0 + 20.0 * np.log10(distance / (distance + radius))
        found = reading(radar, alone(ph.shapes.sphere(radius), distance + radius), distance)
        assert found == pytest.approx(exact, abs=1.0)
        if distance > 20.0:
            assert found == pytest.approx(10.0, abs=1.0)


def test_a_corner_reflector_reads_the_same_at_every_range() -> None:
    # The lobe is that of the last face, a^2 / 2, instead of the aperture a^2 / sqrt(3): 10 log10(sqrt(3) / 2) dB. Rays
    # sample the aperture to 0.1 dB. Reflected rays must not start beyond the faces of a small corner that is far away.
    for name in ("furuno/drs4d-nxt", "navtech/cts350-x", "continental/ars408-21-near"):
        radar = ph.Radar(name)
        _, corner = plate_and_corner_side(radar.config.wavelength_m)
        for share in (0.2, 0.5, 0.95):
            paths = radar.paths(alone(trihedral(corner), share * radar.config.largest_range_m), pose=ph.Pose())
            found = 10.0 * np.log10(paths.cross_section[paths.bounces == 3].sum(dtype=float))
            assert found == pytest.approx(10.0 - 0.62, abs=deviations() * 0.1), (name, share)


def test_weak_returns_join_the_cell_of_the_strongest_of_their_body() -> None:
    # In two cells they would interfere: edges 16 dB below a corner changed its reading by up to 1.4 dB at random.
    axes = ph.Radar(radar_config()).axes
    step = axes.config.range_step_m
    one = BouncePaths.none()
    kinds = np.array([3, 3, 1, 2], np.uint8)
    places = np.array([20.48, 20.49, 20.52, 26.0])  # cells; the last is a ghost elsewhere
    count = len(kinds)
    paths = replace(
        one, cross_section=np.ones(count, np.float32), length=(2.0 * step * places).astype(np.float32),
        rate=np.zeros(count, np.float32), direction=np.tile(np.float32([1, 0, 0]), (count, 1)),
        distance=(step * places).astype(np.float32), part=np.zeros(count, np.uint32), patch=np.zeros(count, np.uint32),
        bounces=kinds, ray=np.arange(count),
    )  # fmt: skip
    found = scatterers_of(paths, np.array([100.0, 100.0, 5.0, 20.0]), axes)
    assert sorted(found.power) == pytest.approx([20.0, 205.0])
    assert paths.bounces[found.owner[np.argmax(found.power)]] == 3


def test_a_sphere_does_not_depend_on_its_tessellation() -> None:
    # Welds of corners by a weak hash joined wrong facets, and some had no curvature at all.
    found = []
    for subdivisions in (3, 4, 5):
        mesh = ph.shapes.sphere(1.0, subdivisions)
        rows = patches_of(Triangles(mesh.vertices, mesh.faces, np.zeros(len(mesh.faces), np.uint32)))
        angle = np.sqrt(rows.bend)
        assert angle.max() < 1.4 * angle.min()
        radar = ph.Radar(narrow(1.4))
        paths = radar.paths(alone(mesh, 50.0), pose=ph.Pose())
        found.append(10.0 * np.log10(paths.cross_section.sum(dtype=float) / np.pi))
        assert np.ptp(paths.length[paths.cross_section > 1e-3 * paths.cross_section.max()]) < 0.1
    exact = 20.0 * np.log10(49.0 / 50.0)  # at a finite distance
    assert found == pytest.approx([exact] * 3, abs=0.2)


def test_nearby_facets_cover_the_change_of_direction() -> None:
    assert near_bend2(np.array([0.01, 0.0]), 0.2, 4.0) == pytest.approx([(0.1 + 0.05) ** 2, 0.0])


def test_an_edge_has_its_length_squared_over_pi() -> None:
    class Vector:
        def __init__(self, x: float, y: float, z: float) -> None:
            self.x, self.y, self.z = x, y, z

    wavelength, length = 0.0039, 0.05
    broadside, tilted = Vector(1.0, 0.0, 0.0), Vector(0.9998, 0.0, 0.02)
    for zone, seen in ((1.0, length), (1e-4, 1e-2)):
        peak = edge_density(Vector(0.0, 0.0, length), broadside, wavelength, np.array(zone), 0.0) * seen
        assert peak == pytest.approx(seen**2 / np.pi)
    off = edge_density(Vector(0.0, 0.0, length), tilted, wavelength, np.array(1.0), 0.0) * length
    assert off == pytest.approx(length**2 / np.pi * np.exp(-((0.02 * 2.0 * np.sqrt(np.pi) * length / wavelength) ** 2)))


def test_a_turned_metal_box_shows_its_vertical_edges() -> None:
    # Faces at 30 degrees mirror away; a vertical edge counts as long as the Fresnel zone: lambda R / 2 pi.
    world = ph.World()
    world.add(ph.shapes.box(1.0, 1.0, 3.0), material="steel", pose=ph.Pose((20.0, 0.0, 0.0), rpy_deg=(0, 0, 30)))
    paths = ph.Radar(narrow(5.0, rays=400_000)).paths(world, pose=ph.Pose())
    wavelength = 299_792_458.0 / 77e9
    # Three edges are visible; those at the silhouette are sampled on one face, at half weight.
    expected = (1.0 + 0.5 + 0.5) * wavelength * 20.0 / (2.0 * np.pi)
    assert 10.0 * np.log10(paths.cross_section.sum(dtype=float) / expected) == pytest.approx(0.0, abs=2.0)


def test_ground_is_what_is_low_wide_and_at_rest() -> None:
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(0.0, 40.0, 0.5), np.arange(-10.0, 10.0, 0.5)))
    slope = np.stack([x, y, 0.05 * x - 1.0], axis=1)
    box = np.stack([np.full(20, 15.2), np.zeros(20), 0.05 * 15.2 - 1.0 + np.linspace(0.3, 2.0, 20)], axis=1)
    low = np.array([[25.0, 2.0, 0.3]])
    xyz = np.concatenate([slope, box, low])
    direct = np.ones(len(xyz), bool)
    moving = np.zeros(len(xyz))
    moving[-1] = 2.0
    found = ground_returns(xyz, moving, direct, 1.0)
    inner = slope[:, 0] < 36.0  # within half a window of the upper end, the opening lies below the slope
    assert found[: len(slope)][inner].all()
    assert not found[len(slope) :].any()
    # A small object in an empty world is no ground.
    assert not ground_returns(box, np.zeros(20), np.ones(20, bool), 1.0).any()


def cuboids() -> ph.World:
    """The world of VANE's figures, in which no cuboid hides another."""
    with unsalted():
        return ph.World.load("cuboids")


def detected(world: ph.World, points: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Cuboids with a point less than 1 m beside them, for points (n, 3) in the world frame."""
    found = []
    for item in world.objects:
        if item.label == "cuboid":
            half = 0.5 * np.ptp(item.parts[0].mesh.vertices, axis=0)
            outside = np.maximum(np.abs(item.pose.inverse().apply(points))[:, :2] - half[:2], 0.0)
            found.append(np.linalg.norm(outside, axis=1).min() < 1.0)
    return np.array(found)


@pytest.mark.parametrize("height", [0.6, 1.0, 2.0])
def test_all_cuboids_are_found(height: float) -> None:
    world, pose = cuboids(), ph.Pose((0.0, 0.0, height))
    radar = ph.Radar("ti/mmwcas-imaging")
    with unsalted():
        for seed in range(4):
            assert detected(world, pose.apply(radar.scan(world, pose=pose, seed=seed).xyz)).sum() == 9, seed


@pytest.mark.slow
def test_thermal_noise_alone_exceeds_the_floor_in_half_a_cell_per_frame() -> None:
    radar, frames = ph.Radar("ti/mmwcas-imaging"), 4
    expected = frames * np.prod(radar.axes.shape) * np.exp(-(10.0 ** (radar.config.detection.floor_db / 10.0)))
    assert expected < frames
    found = sum(len(radar.scan(ph.World(), pose=ph.Pose(), seed=seed)) for seed in range(frames))
    assert found <= poisson.isf(LIKELY, expected)


@pytest.mark.slow
def test_ground_does_not_end_within_the_beam() -> None:
    # Rays that ended 15 degrees down, where the beam is 8 dB weaker, made a ring of most ground detections.
    world, pose = cuboids(), ph.Pose((0.0, 0.0, 2.0))
    with unsalted():
        scan = ph.Radar("ti/mmwcas-imaging").scan(world, pose=pose, seed=1)
    ground = scan.range[[scan.names["label"].get(int(code)) == "ground" for code in scan.label]]
    assert len(ground) > 50
    assert np.histogram(ground, np.arange(0.0, 60.0))[0].max() < 0.3 * len(ground)


@pytest.mark.parametrize("height", [0.6, 1.0, 2.0])
def test_clusters_are_all_cuboids_and_little_ground(height: float) -> None:
    world, pose = cuboids(), ph.Pose((0.0, 0.0, height))
    scan = ph.Radar("ti/mmwcas-imaging", mode="cluster").scan(world, pose=pose, seed=1)
    assert detected(world, pose.apply(scan.xyz)).sum() == 9
    ground = [scan.names["label"][int(code)] for code in scan.label].count("ground")
    # Ground that remains is where few rays happen to lie: 4.3 clusters on average over patterns of rays.
    assert ground <= poisson.isf(LIKELY, 4.3)
    assert len(scan) - ground <= 2 * 9


@pytest.mark.parametrize("mode", ["cluster", "cube"])
def test_all_cuboids_are_found_from_other_places(mode: Literal["cluster", "cube"]) -> None:
    # Held out: positions, directions and seeds that no setting was chosen for.
    world = cuboids()
    radar, draws = ph.Radar("ti/mmwcas-imaging", mode=mode), np.random.default_rng(5)
    missed = 0
    for seed in range(1, 7):
        x, y = draws.uniform(-0.5, 0.5, 2)
        pose = ph.Pose((x, y, draws.choice([0.6, 0.8, 1.5, 2.0])), rpy_deg=(0.0, 0.0, draws.uniform(-2.0, 2.0)))
        points = pose.apply(radar.scan(world, pose=pose, seed=seed).xyz.astype(np.float64))
        missed += np.count_nonzero(~detected(world, points))
    # Of 54, of which six are the weakest cuboid: none of 100 was missed, so its chance is below 3 % at 95 % confidence.
    assert missed <= (binom.isf(LIKELY, 6, 0.03) if mode == "cube" else 0)


def test_a_target_ahead_has_the_power_of_the_radar_equation() -> None:
    # Beams on both sides of the axis, as they were, lost 3.9 dB per axis ahead.
    world = alone(ph.shapes.sphere(0.5), 40.5)
    for channels in (8, 12, 13):
        config = radar_config(array={"azimuth_channels": channels}, field={"rays": 300_000})
        radar = ph.Radar(config, cube=True, noise=False)
        cube = radar.scan(world, pose=ph.Pose(), seed=1).cube
        assert cube is not None
        expected = received_constant_w(config) * np.pi * 0.25 / 40.0**4 / noise_power_w(config, radar.axes)
        # Half a cell off its middle, Hann's window loses 1.4 dB at most.
        assert 10.0 * np.log10(cube.power.max() / expected) == pytest.approx(-0.7, abs=1.0)


@pytest.mark.parametrize("name", ["continental/ars408-21-far", "continental/ars408-21-near"])
@pytest.mark.parametrize("speed", [-110.0, -58.3, -15.0, 0.0, 27.0, 54.0])
def test_two_intervals_resolve_speeds_from_minus_400_to_200_km_h(name: str, speed: float) -> None:
    world = ph.World()
    motion = ph.ConstantTwist(ph.Pose((45.0, 0.0, 0.0)), velocity=(speed, 0.0, 0.0))
    world.add_actor(ph.shapes.sphere(0.5), material="steel", trajectory=motion)
    scan = ph.Radar(name).scan(world, pose=ph.Pose(), seed=2)
    assert scan.radial_velocity[np.argmax(scan.snr)] == pytest.approx(speed, abs=0.05)
    # The same from a moving car: a stationary target approaches at the car's speed.
    still = alone(ph.shapes.sphere(0.5), 45.0)
    moving = ph.ConstantTwist(ph.Pose(), velocity=(-speed, 0.0, 0.0))
    scan = ph.Radar(name).scan(still, trajectory=moving, seed=2)
    assert scan.radial_velocity[np.argmax(scan.snr)] == pytest.approx(speed, abs=0.05)


def test_unfolding_picks_the_alias_that_both_trains_share() -> None:
    spans, limits = (26.8, 31.1), (-111.0, 55.0)
    true = np.linspace(-110.0, 54.0, 333)
    folded = [(true + 0.5 * span) % span - 0.5 * span for span in spans]
    assert unfold_speeds(folded[0], folded[1] + 0.3, spans, limits) == pytest.approx(true)
    wrong = unfold_speeds(folded[0], folded[1] + 3.0, spans, limits)  # more than half of the 4.3 m/s between candidates
    assert np.mean(np.abs(wrong - true) > 1.0) > 0.5
    assert speed_error_m_s(np.array([100.0, 1e-6]), 0.1) == pytest.approx([0.1 * np.sqrt(0.06) / (2 * np.pi), 0.025])


@pytest.mark.slow
def test_people_have_published_cross_sections() -> None:
    # 3GPP TR 38.901 (release 19) has a mean of -1.37 dBsm for a person at any frequency, with a log-normal spread of
    # 3.94 dB whose linear mean is 1; measurements at 76 to 77 GHz lie from -9 to 0 dBsm (Fortuny-Guasch and Chareau
    # 2013, EUR 25762 EN). Predicted from the permittivity of skin: 52 % are reflected at 5 GHz and 34 % at 77 GHz.
    person = add_person(ph.World(), ph.Pose(), times=(-1.0, 5.0))
    for frequency_ghz, allowed in ((5.0, 1.0), (10.0, 1.5), (77.0, 4.0)):
        found = [
            power_rcs(
                person, frequency_ghz=frequency_ghz, azimuth_deg=np.arange(0.0, 360.0, 30.0), distance_m=20.0,
                rays=20_000, time=t,
            ).sigma
            for t in (0.0, 0.4)
        ]  # fmt: skip
        mean = 10.0 * np.log10(np.mean(found))
        assert mean == pytest.approx(-1.37, abs=allowed)
        assert frequency_ghz < 76.0 or -9.0 < mean < 0.0


@pytest.mark.slow
def test_physical_optics_and_power_agree_on_a_person() -> None:
    person = add_person(ph.World(), ph.Pose(), times=(-1.0, 5.0))
    azimuth = np.random.default_rng(1).uniform(0.0, 360.0, 40)
    fields = rcs(person, frequency_ghz=5, azimuth_deg=azimuth, tubes_per_wavelength=4.0, time=0.2)
    power = power_rcs(
        person, frequency_ghz=5, azimuth_deg=np.arange(0.0, 360.0, 15.0), distance_m=50.0, rays=20_000, time=0.2
    )
    # Fields interfere at random, so their mean over aspects is compared. Its error follows from their own scatter. The
    # roughness of clothes takes up to 0.8 dB from the coherent field.
    error_db = 10.0 / np.log(10.0) * np.std(fields.sigma, ddof=1) / (np.sqrt(len(azimuth)) * np.mean(fields.sigma))
    difference = 10.0 * np.log10(np.mean(fields.sigma) / np.mean(power.sigma))
    assert difference == pytest.approx(0.0, abs=deviations() * error_db + 0.8)
    # The spread between aspects is that of 3GPP's log-normal term; 40 draws determine it within 11 %.
    assert np.std(fields.dbsm, ddof=1) == pytest.approx(3.94, rel=deviations() * 0.11)
