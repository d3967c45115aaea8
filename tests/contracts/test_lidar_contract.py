"""The promises every scan keeps: same seed same bits, batches, threads, motion, no recompilation, brute force."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.rays import Rays, ReferenceScene
from parhelion.sensors.check import check_sensor, same_bits
from parhelion.sensors.optics.lidar.points import PointsExpected
from parhelion.sensors.sheets import preset_names
from rigs import add_wall, one_beam, sheet, wall


def yard(seed: int = 0, boxes: int = 25) -> ph.World:
    rng = np.random.default_rng(seed)
    world = ph.World("yard")
    world.add(ph.shapes.plane(160, 160), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.8)))
    for k in range(boxes):
        angle, distance = 2 * np.pi * k / boxes, rng.uniform(5, 40)
        pose = ph.Pose((distance * np.cos(angle), distance * np.sin(angle), 0), rpy_deg=(0, 0, rng.uniform(0, 90)))
        world.add(ph.shapes.box(*rng.uniform(0.5, 3, 2), 4), material="brick", label="building", pose=pose)
    return world


def drive(speed: float = 15.0) -> ph.ConstantTwist:
    return ph.ConstantTwist(ph.Pose((0, 0, 0)), (speed, 0, 0), (0, 0, 0.5))


@pytest.mark.parametrize("name", preset_names("lidar"))
def test_every_preset_keeps_the_sensor_contract(name: str) -> None:
    lidar, world, height = ph.Lidar(name, sub_rays=5), yard(), 0.0
    if lidar.config.pattern.kind == "swath":  # looks down, from far above its shortest range
        world.add(ph.shapes.plane(600, 600), material="asphalt", label="road", pose=ph.Pose((0, 0, -2)))
        height = 1.5 * lidar.config.range.min_m
    elif lidar.config.range.max_m < 10.0:
        world.add(ph.shapes.box(1, 3, 1), material="white-paint", label="box", pose=ph.Pose((2, 0, 0)))
    check_sensor(lidar, world, ph.Fixed(ph.Pose((0, 0, height))))


SCRIPT = """
import hashlib, numpy as np, parhelion as ph, sys
sys.path.insert(0, {tests!r})
from test_lidar_contract import yard, drive
world = yard()
world.add_actor(ph.shapes.box(4, 2, 1.5), material="car-paint-red", label="car",
                trajectory=ph.ConstantTwist(ph.Pose((10, 5, -1)), (-12, 0, 0)))
lidar = ph.Lidar("velodyne/vlp-16", returns="dual")
scan = lidar.scan(world, trajectory=drive(), time=1.5, seed=7)
digest = hashlib.sha256(scan.xyz.tobytes())
for name in sorted(scan.fields):
    digest.update(scan.fields[name].tobytes())
print(digest.hexdigest(), len(scan))
"""


def digest_in_process(threads: int) -> str:
    script = SCRIPT.format(tests=os.path.dirname(__file__))
    path = os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PARHELION_THREADS": str(threads), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_same_bytes_with_one_and_two_threads_in_different_processes() -> None:
    one, two, again = digest_in_process(1), digest_in_process(2), digest_in_process(2)
    assert int(one.split()[1]) > 10_000
    assert one == two == again


def test_same_bytes_alone_in_one_batch_and_in_split_batches() -> None:
    world, lidar = yard(), ph.Lidar("velodyne/vlp-16")
    poses = [ph.Pose((x, 0.3 * x, 0), rpy_deg=(0, 0, 40 * x)) for x in range(5)]
    alone = [lidar.scan(world, pose=pose, seed=7) for pose in poses]
    together = lidar.scan_many(world, poses, seed=7)
    split = lidar.scan_many(world, poses[:2], seed=7) + lidar.scan_many(world, poses[2:], seed=7)
    for a, b, c in zip(alone, together, split, strict=True):
        assert same_bits(a, b)
        assert same_bits(a, c)
        assert np.array_equal(a.shots.return_count, b.shots.return_count)
    assert not same_bits(alone[0], lidar.scan(world, pose=poses[0], seed=8))
    assert not same_bits(alone[0], lidar.scan(world, pose=poses[0], seed=7, frame=1))


def test_batches_with_moving_actors_and_other_times_are_the_same_too() -> None:
    world, lidar = yard(), ph.Lidar("velodyne/vlp-16", sub_rays=5)
    world.add_actor(
        ph.shapes.box(4, 2, 3),
        material="brick",
        label="car",
        trajectory=ph.ConstantTwist(ph.Pose((8, 0, 0)), (0, 9, 0)),
    )
    times = [0.0, 0.1, 0.2, 0.7]
    together = lidar.scan_many(world, [drive()] * 4, time=times, seed=3)
    for t, scan in zip(times, together, strict=True):
        assert same_bits(scan, lidar.scan(world, trajectory=drive(), time=t, seed=3))


def test_noise_is_independent_from_scan_to_scan() -> None:
    world, lidar = wall(20.0), ph.Lidar(sheet(noise={"range_sigma_m": 0.02}))
    truth = ph.Lidar(sheet(), noise=False).scan(world, pose=ph.Pose()).range
    a, b = (lidar.scan(world, pose=ph.Pose(), time=t, seed=1).range - truth for t in (0.0, 0.1))
    assert not np.array_equal(a, b)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.4


@pytest.mark.parametrize("returns", ["strongest", "dual"])
def test_more_points_than_the_last_scan_had_are_all_there(returns: str) -> None:
    """The size of the point buffer is estimated from earlier scans."""
    world, used = yard(), ph.Lidar("velodyne/vlp-16", returns=returns)
    high_above = ph.Pose((0, 0, 5000))
    for k, pose in enumerate([high_above, ph.Pose(), high_above, high_above, ph.Pose()]):
        scan = used.scan(world, pose=pose, seed=k)
        assert same_bits(scan, ph.Lidar("velodyne/vlp-16", returns=returns).scan(world, pose=pose, seed=k))
        assert (len(scan) > 3000) == (pose is not high_above)
        assert len(scan) == scan.shots.return_count.sum()


def test_point_buffer_grows_at_once_and_shrinks_gradually() -> None:
    expected, beams, most = PointsExpected(), 50_000, 100_000
    assert most <= expected.capacity(beams, most) <= 1.25 * most
    for points, low, high in ((20_000, 20_000, 30_000), (15_000, 20_000, 30_000), (99_000, 99_000, 125_000)):
        expected.learn(beams, points)
        assert low <= expected.capacity(beams, most) <= high
    for _ in range(40):
        expected.learn(beams, 15_000)
    assert 15_000 <= expected.capacity(beams, most) <= 22_000
    assert expected.capacity(2 * beams, 2 * most) >= 2 * most, "launches of other sizes are independent"
    expected.learn(beams, 0)
    assert expected.capacity(beams, most) > 0


@pytest.mark.parametrize("sampling", ["adaptive", "fixed"])
def test_no_kernel_is_compiled_after_the_first_frames(sampling: str) -> None:
    """Twenty frames with changing pose, seed and time, actors moving: only known kernels run."""
    import drjit as dr

    world = yard()
    world.add_actor(
        ph.shapes.box(4, 2, 3),
        material="glass",
        label="car",
        trajectory=ph.ConstantTwist(ph.Pose((8, 0, 0)), (0, 9, 0)),
    )
    lidar = ph.Lidar("velodyne/vlp-16", sampling=sampling, returns="dual")
    motion = drive()
    for k in range(2):
        lidar.scan(world, trajectory=motion, time=0.1 * k, seed=k)
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        frames = []
        for k in range(20):
            dr.kernel_history_clear()
            lidar.scan(world, trajectory=motion, time=0.2 + 0.02 * k, seed=100 + k)
            frames.append([entry for entry in dr.kernel_history() if str(entry["type"]).endswith("JIT")])
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)
    assert all(len(frame) >= 5 for frame in frames)
    assert [entry["hash"] for frame in frames for entry in frame if not entry["cache_hit"]] == []
    # Not even a known kernel in another form: frames run the same ones, and leave out those that have nothing to do.
    sets = [{entry["hash"] for entry in frame} for frame in frames]
    assert len(set().union(*sets)) == max(len(kernels) for kernels in sets)


def test_the_same_scan_by_brute_force() -> None:
    """Every triangle in float64, hit for hit, with link budget and threshold in NumPy."""
    world = yard(boxes=12)
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1, noise=False, bounces=0)
    pose = ph.Pose((1, 2, 0.3), rpy_deg=(1, 2, 30))
    scan = lidar.scan(world, pose=pose)
    shots = lidar.shots()
    rows = np.arange(0, len(shots), 7)
    direction = pose.apply(shots.direction[rows]) - pose.xyz
    hits = ReferenceScene(world.geometry("lidar")).cast(Rays.of(pose.apply(shots.origin[rows]), direction))
    cosine = np.abs(np.sum(hits.normal * direction, axis=1))
    from parhelion.surfaces.material import material_table, monostatic_brdf

    material = np.where(hits.found, world.parts.material[np.maximum(hits.part, 0)], 0)
    table = material_table(world.materials, lidar.config.wavelength_nm)
    brdf = monostatic_brdf(cosine, {k: v[material].astype(float) for k, v in table.items()})
    with np.errstate(invalid="ignore"):
        power = np.where(hits.found, brdf * cosine / hits.range**2, 0) / lidar.system_constant.threshold
    expected = (power >= 1) & (hits.range <= lidar.config.range.max_m) & (hits.range >= lidar.config.range.min_m)
    measured = np.full(len(shots), np.nan)
    measured[scan.shot] = scan.range
    label = np.zeros(len(shots), int)
    label[scan.shot] = scan.instance
    sure = np.abs(power - 1) > 1e-3
    assert np.array_equal(np.isfinite(measured[rows])[sure], expected[sure])
    both = sure & expected
    off = np.abs(measured[rows][both] - hits.range[both])
    assert np.quantile(off, 0.999) < lidar.config.range.resolution_m / 2 + 1e-3
    assert np.mean(label[rows][both] == world.parts.instance[hits.part[both]]) > 0.999


@pytest.mark.parametrize("returns", ["strongest", "all"])
def test_adaptive_sampling_gives_the_fixed_answer_in_the_city(returns: str) -> None:
    world = ph.World.load("city")
    options = {"noise": False, "bounces": 0, "returns": returns, "max_returns": 3}
    few = ph.Lidar("ouster/os1-128", **options).scan(world)
    full = ph.Lidar("ouster/os1-128", sampling="fixed", **options).scan(world)
    assert few.metadata["casts_per_beam"] <= 8.0
    assert full.metadata["casts_per_beam"] == 25.0

    def strongest(scan: ph.Scan, name: str) -> np.ndarray:
        values, best = np.zeros(len(scan.shots)), np.zeros(len(scan.shots))
        order = np.argsort(scan.power)
        values[scan.shot[order]], best[scan.shot[order]] = scan.fields[name][order], scan.power[order]
        return values

    range_off = np.abs(strongest(few, "range") - strongest(full, "range"))
    power_full = strongest(full, "power")
    power_off = np.abs(strongest(few, "power") - power_full)
    assert np.mean(range_off <= 1.1e-3) >= 0.985  # one step of the reported range
    assert np.mean(power_off <= 0.01 * power_full) >= 0.98


@pytest.mark.parametrize("shape", ["ellipse", "rectangle"])
@pytest.mark.parametrize("sub_rays", [10, 13, 19, 37, 100])
def test_adaptive_sampling_holds_for_any_number_of_sub_rays(sub_rays: int, shape: str) -> None:
    """Eighths of a footprint hold as many sub-rays as lie in them, often not all the same number."""
    world = ph.World.load("city")
    config = ph.Lidar("velodyne/vlp-16").config
    config = config.model_copy(update={"beam": config.beam.model_copy(update={"sub_rays": sub_rays, "shape": shape})})
    options = {"noise": False, "bounces": 0}
    few = ph.Lidar(config, **options).scan(world)
    full = ph.Lidar(config, sampling="fixed", **options).scan(world)
    assert 4.0 < few.metadata["casts_per_beam"] < full.metadata["casts_per_beam"] == sub_rays
    both = np.intersect1d(few.shot, full.shot, return_indices=True)[1:]
    assert min(len(rows) for rows in both) > 0.99 * len(full)
    power, expected = few.power[both[0]], full.power[both[1]]
    assert np.mean(np.abs(power / expected - 1.0) <= 0.01) > 0.96
    assert np.mean(np.abs(few.range[both[0]] - full.range[both[1]]) <= 2e-3) > 0.97


def test_a_moving_sensor_sees_a_wall_bent_and_deskewing_straightens_it() -> None:
    world = ph.World()
    add_wall(world, 30.0, "lambert-80", size=60.0)
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1, noise=False)
    motion = ph.ConstantTwist(ph.Pose(), (20, 0, 0))
    scan = lidar.scan(world, trajectory=motion, time=2.0)
    assert np.all(scan.xyz[:, 0] < -10)  # passed two seconds ago
    # Before that, the sensor comes 20 m/s nearer from shot to shot.
    ahead = lidar.scan(world, trajectory=motion, time=0.5)
    assert ahead.xyz[:, 0] == pytest.approx(20.0 - 20.0 * ahead.time, abs=5e-3)
    assert np.ptp(ahead.xyz[:, 0]) > 1.0
    assert ahead.deskewed().xyz[:, 0] == pytest.approx(20.0, abs=5e-3)
    assert ahead.deskewed().frame == "sensor-start"
    assert ahead.in_world().xyz[:, 0] == pytest.approx(30.0, abs=5e-3)
    assert ahead.pose.xyz == pytest.approx([10, 0, 0])


def test_a_passing_actor_is_skewed_as_its_speed_says() -> None:
    world = ph.World()
    world.add_actor(
        ph.shapes.box(1.0, 40.0, 6.0), material="lambert-80", label="truck",
        trajectory=ph.ConstantTwist(ph.Pose((20, 0, 0)), (15, 0, 0)),
    )  # fmt: skip
    scan = ph.Lidar("velodyne/vlp-16", sub_rays=1, noise=False).scan(world, pose=ph.Pose(), time=0.0)
    near_face = (scan.xyz[:, 0] > 15) & (np.abs(scan.xyz[:, 1]) < 15)
    assert near_face.sum() > 300
    assert scan.xyz[near_face, 0] == pytest.approx(19.5 + 15.0 * scan.time[near_face], abs=5e-3)
    assert np.allclose(scan.velocity, [15, 0, 0], atol=1e-3)


def test_mount_and_turning_sensor() -> None:
    world = wall(30.0)
    scan = ph.Lidar(one_beam(), noise=False).scan(world, pose=ph.Pose((5, 0, 0)), mount=ph.Pose((1.5, 0, 0.5)))
    assert scan.range[0] == pytest.approx(23.5, abs=1e-4)
    assert scan.pose.xyz == pytest.approx([6.5, 0, 0.5])


def test_hidden_objects() -> None:
    world = wall(30.0)
    world.add(ph.shapes.board(5, 5), material="brick", pose=ph.Pose((10, 0, 0)), hidden_from=("velodyne/*",))
    world.add(ph.shapes.board(5, 5), material="brick", pose=ph.Pose((20, 0, 0)), hidden_from=("lidar",))
    seen = ph.Lidar(one_beam(), noise=False).scan(world, pose=ph.Pose())
    assert seen.range[0] == pytest.approx(10.0, abs=0.01)
    velodyne = ph.Lidar("velodyne/vlp-16", sub_rays=1, noise=False).scan(world, pose=ph.Pose())
    assert velodyne.range.min() > 29.9


def test_changes_of_the_world_are_seen() -> None:
    world, lidar = wall(30.0), ph.Lidar(one_beam(), noise=False)
    assert lidar.scan(world, pose=ph.Pose()).range[0] == pytest.approx(30.0, abs=1e-4)
    board = world.add(ph.shapes.board(5, 5), material="brick", pose=ph.Pose((10, 0, 0)))
    assert lidar.scan(world, pose=ph.Pose()).range[0] == pytest.approx(9.995, abs=1e-4)
    world.remove(board)
    assert lidar.scan(world, pose=ph.Pose()).range[0] == pytest.approx(30.0, abs=1e-4)


def test_huge_offsets_keep_millimetres() -> None:
    shift = np.array([4.2e6, 5.8e6, 400.0])
    near, far = ph.World(), ph.World()
    for world, offset in ((near, np.zeros(3)), (far, shift)):
        world.add(ph.shapes.box(1, 20, 20), material="brick", pose=ph.Pose(offset + np.array([15.37, 0, 0])))
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1, noise=False)
    a, b = lidar.scan(near, pose=ph.Pose()), lidar.scan(far, pose=ph.Pose(shift))
    assert len(a) == len(b)
    assert np.max(np.abs(a.xyz - b.xyz)) < 2e-3


def test_memory_stays_flat_over_many_scans() -> None:
    """Three thousand scans in a small world: the resident set grows by less than 2 kB per scan."""
    world, lidar = (
        wall(20.0),
        ph.Lidar(sheet(noise={"range_sigma_m": 0.02}, beam={"divergence_mrad": (3, 3), "sub_rays": 25})),
    )
    page = os.sysconf("SC_PAGE_SIZE")

    def resident_mb() -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * page / 1e6

    sizes = []
    for k in range(3_000):
        scan = lidar.scan(world, pose=ph.Pose((0.001 * (k % 100), 0, 0)), time=0.1 * k, seed=k)
        if k % 300 == 299:
            sizes.append(resident_mb())
    assert len(scan) == 105
    assert sizes[-1] - sizes[1] < 5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ph.Lidar("velodyne/vlp16"), "velodyne/vlp-16"),
        (lambda: ph.Lidar("missing.yaml"), "no such file"),
        (lambda: ph.Lidar("velodyne/vlp-16", rate_hz=7.3), "rate"),
        (lambda: ph.Lidar("velodyne/vlp-16", sub_rays=0), "sub_rays"),
        (lambda: ph.Lidar("velodyne/vlp-16", returns="best"), "returns"),
        (lambda: ph.Lidar("velodyne/vlp-16", sampling="most"), "sampling"),
        (lambda: ph.Lidar("velodyne/vlp-16", bounces=-1), "bounces"),
        (lambda: ph.Lidar("velodyne/vlp-16").scan(wall(5), pose=ph.Pose((np.nan, 0, 0))), "finite"),
        (lambda: ph.Lidar("velodyne/vlp-16").scan(wall(5), pose=ph.Pose(), time=np.inf), "time"),
        (lambda: ph.Lidar("velodyne/vlp-16").scan(wall(5), pose=ph.Pose(), seed=-1), "seed"),
        (lambda: ph.Lidar("velodyne/vlp-16").scan(wall(5), pose=ph.Pose(), trajectory=drive()), "not both"),
        (lambda: ph.Lidar("velodyne/vlp-16").waveform(wall(5), [10**9], pose=ph.Pose()), "row numbers"),
    ],
)
def test_bad_input_is_one_clear_sentence(make: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_sensor_digest_is_stable_within_a_process() -> None:
    lidar, world = ph.Lidar("livox/mid-360", sub_rays=1), yard()
    first, second = (
        hashlib.sha256(lidar.scan(world, pose=ph.Pose(), time=0.3, seed=5).xyz.tobytes()) for _ in range(2)
    )
    assert first.digest() == second.digest()


@pytest.mark.parametrize("sampling", ["adaptive", "fixed"])
def test_ousters_lost_shots_have_near_infrared_and_the_noise_of_the_receiver(sampling: str) -> None:
    """Recordings: the same near infrared as returned pixels, and 5 or 6 photons (3 to 12 for nine in ten)."""
    world = ph.World()
    world.add(ph.shapes.box(1, 30, 3), material="lambert-20", pose=ph.Pose((15, 0, 0)))
    scan = ph.Lidar("ouster/os1-32", sampling=sampling).scan(world, pose=ph.Pose(), seed=2)
    near_ir, noise, lost = scan.shots.near_ir, scan.shots.noise, scan.lost
    assert near_ir is not None
    assert noise is not None
    assert 0.2 < lost.mean() < 0.98
    assert np.array_equal(near_ir[scan.shot], scan.near_ir)
    # Most lost shots look at the sky, counted like a surface of 35 % in 100 klx.
    assert np.median(near_ir[lost]) == pytest.approx(350.0)
    assert np.median(scan.near_ir) == pytest.approx(200.0)
    assert np.all(noise[~lost] == 0.0)
    low, middle, high = np.percentile(noise[lost], [5, 50, 95])
    assert 2.0 <= low < middle <= 6.0 < high <= 12.0
    quiet = ph.Lidar("ouster/os1-32", sampling=sampling, noise=False).scan(world, pose=ph.Pose(), seed=2)
    assert quiet.shots.noise is not None
    assert set(np.unique(quiet.shots.noise)) == {0.0, 5.0}
    assert ph.Lidar("velodyne/vlp-16").scan(world, pose=ph.Pose(), seed=2).shots.near_ir is None
