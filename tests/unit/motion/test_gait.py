"""A steady walk against plane geometry: shares of the height (Winter 2009), angles, and two links at a knee."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.pose import quat_from_matrix, quat_rotate
from parhelion.motion.actors.person import PartMotion, Walk, quats_from_axes

HEIGHT, SPEED = 1.75, 1.4
STEP = np.sqrt(0.39 * (HEIGHT / 1.70) ** 1.5 * SPEED)
"""Length of a step [m]: the root of walk ratio times speed (Sekiya and Nagasaki 1998)."""
ANKLE, TOE, HEEL = 0.039 * HEIGHT, 0.75 * 0.152 * HEIGHT, 0.25 * 0.152 * HEIGHT
WALK = Walk(ph.ConstantTwist(ph.Pose((0, 0, 0.5)), (SPEED, 0.0, 0.0)), HEIGHT)
"""Along x on ground at 0.5 m. The left foot stands at every other step, 0.48 before the body is there to 0.72 after."""


def at(phase: float, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Place and axes (columns) of a part when the body has gone this many steps."""
    xyz, quat = WALK.poses(np.array([phase * STEP / SPEED]))[part]
    return xyz[0], np.stack([quat_rotate(quat, axis)[0] for axis in np.eye(3)], axis=1)


def tilt(axes: np.ndarray) -> float:
    """Rotation of a part about y [deg]; positive lowers the toe of a foot."""
    return float(np.degrees(np.arctan2(axes[0, 2], axes[2, 2])))


@pytest.mark.parametrize(
    ("phase", "pitch_deg"),
    [
        (-0.24, 0.0),
        (0.0, 0.0),
        (0.18, 0.0),
        (0.45, 22.5),
        (0.7199, 45.0),
        (-0.4799, -18.0),
        (-0.36, -9.0),
    ],
)
def test_a_standing_foot_rolls_from_heel_to_toe(phase: float, pitch_deg: float) -> None:
    """By 18 degrees over the heel until half-way to the middle, by 45 over the toe from a quarter on; none slides."""
    ankle, axes = at(phase, "left foot")
    assert tilt(axes) == pytest.approx(pitch_deg, abs=0.05)
    # The ankle turns about the point that stands: the heel or the toe, both on the ground.
    angle = np.radians(pitch_deg)
    pivot = TOE if pitch_deg > 0 else -HEEL
    x = pivot - pivot * np.cos(angle) + ANKLE * np.sin(angle)
    z = 0.5 + pivot * np.sin(angle) + ANKLE * np.cos(angle)
    assert ankle == pytest.approx([x, 0.05 * HEIGHT, z], abs=3e-4)
    contact = ankle + axes @ [pivot, 0.0, -ANKLE]
    assert contact == pytest.approx([pivot, 0.05 * HEIGHT, 0.5], abs=3e-4)


@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_a_swinging_foot_goes_two_steps_ahead(part: float) -> None:
    """Eased, from 45 degrees to -18, its shoe up to 1.8 % of the height clear of the ground."""
    ankle, axes = at(0.72 + part * 0.8, "left foot")
    share = part**2 * (3 - 2 * part)
    pitch = np.radians((1 - share) * 45.0 - share * 18.0)
    assert tilt(axes) == pytest.approx(np.degrees(pitch), abs=1e-6)

    def roll(angle: float) -> float:
        pivot = TOE if angle > 0 else -HEEL
        return float(pivot * (1 - np.cos(angle)) + ANKLE * np.sin(angle))

    along = (1 - share) * roll(np.radians(45.0)) + share * roll(-np.radians(18.0))
    pivot = TOE if pitch > 0 else -HEEL
    lift = 0.018 * HEIGHT * 4 * share * (1 - share)
    z = 0.5 + pivot * np.sin(pitch) + ANKLE * np.cos(pitch) + lift
    assert ankle == pytest.approx([2 * STEP * share + along, 0.05 * HEIGHT, z], abs=1e-9)


def test_the_right_foot_does_the_same_a_step_later() -> None:
    for phase in (-0.3, 0.1, 0.5, 1.0, 1.4):
        left, right = at(phase, "left foot"), at(phase + 1.0, "right foot")
        assert right[0] - left[0] == pytest.approx([STEP, -0.1 * HEIGHT, 0.0], abs=1e-9)
        assert right[1] == pytest.approx(left[1], abs=1e-9)


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.6, 0.9, 1.3, 1.7])
def test_hips_are_as_high_as_the_legs_reach(phase: float) -> None:
    """A smooth minimum, 0.3 % of the height wide, of standing height and of what legs allow, stretched to 99.8 %."""
    leg = (0.245 + 0.246) * HEIGHT
    limits = [0.5 + ANKLE + 0.99 * leg]
    for side, sign in (("left", 1.0), ("right", -1.0)):
        ankle = at(phase, f"{side} foot")[0]
        aside = np.hypot(ankle[0] - phase * STEP, ankle[1] - sign * 0.05 * HEIGHT)
        limits.append(ankle[2] + np.sqrt((0.998 * leg) ** 2 - aside**2))
    width = 0.003 * HEIGHT
    expected = -width * np.log(np.sum(np.exp(-np.array(limits) / width)))
    pelvis, axes = at(phase, "torso")
    assert pelvis == pytest.approx([phase * STEP, 0.0, expected], abs=1e-9)
    assert axes == pytest.approx(np.eye(3), abs=1e-12)


@pytest.mark.parametrize("phase", [0.0, 0.4, 0.9, 1.5])
def test_knees_are_where_two_links_meet_and_bend_forward(phase: float) -> None:
    for side, sign in (("left", 1.0), ("right", -1.0)):
        (hip, thigh), (knee, shank), (ankle, _) = (at(phase, f"{side} {part}") for part in ("thigh", "shank", "foot"))
        assert hip == pytest.approx(at(phase, "torso")[0] + [0.0, sign * 0.05 * HEIGHT, 0.0], abs=1e-9)
        assert np.linalg.norm(knee - hip) == pytest.approx(0.245 * HEIGHT, abs=1e-9)
        assert np.linalg.norm(ankle - knee) == pytest.approx(0.246 * HEIGHT, abs=1e-9)
        line = ankle - hip
        assert np.cross(line, knee - hip)[1] < 0  # ahead of the line from hip to ankle
        for axes, up in ((thigh, hip - knee), (shank, knee - ankle)):
            assert axes[:, 2] == pytest.approx(up / np.linalg.norm(up), abs=1e-9)
            assert axes[:, 1] == pytest.approx([0.0, 1.0, 0.0], abs=1e-9)


@pytest.mark.parametrize(("speed", "vigour"), [(1.4, 1.0), (0.7, np.sqrt(0.5)), (4.0, 1.3)])
def test_arms_swing_against_the_legs(speed: float, vigour: float) -> None:
    """Upper arms by 26 degrees at 1.4 m/s; elbows are bent by 14, by as much again with vigour, and by 0.3 of a swing
    that goes ahead."""
    walk = Walk(ph.ConstantTwist(ph.Pose(), (speed, 0.0, 0.0)), HEIGHT)
    step = np.sqrt(0.39 * (HEIGHT / 1.70) ** 1.5 * speed)
    for phase in (0.5, 0.25, 1.5):
        poses = walk.poses(np.array([phase * step / speed]))
        for side, sign in (("left", 1.0), ("right", -1.0)):
            (shoulder, upper), (elbow, fore) = (poses[f"{side} {part}"] for part in ("upper arm", "forearm"))
            swing = sign * 26.0 * vigour * np.sin(np.pi * phase)
            down = quat_rotate(upper, np.array([0.0, 0.0, -1.0]))[0]
            assert np.degrees(np.arctan2(down[0], -down[2])) == pytest.approx(swing, abs=1e-6)
            assert elbow[0] - shoulder[0] == pytest.approx(0.186 * HEIGHT * down, abs=1e-9)
            hand = quat_rotate(fore, np.array([0.0, 0.0, -1.0]))[0]
            bent = swing + 14.0 * (1 + vigour) + 0.3 * max(swing, 0.0)
            assert np.degrees(np.arctan2(hand[0], -hand[2])) == pytest.approx(bent, abs=1e-6)
            pelvis = poses["torso"][0][0]
            standing = (0.039 + 0.99 * 0.491) * HEIGHT
            up = [0.0, sign * 0.129 * HEIGHT, 0.818 * HEIGHT - standing]
            assert shoulder[0] - pelvis == pytest.approx(up, abs=1e-9)


def test_joints_are_named_with_their_points() -> None:
    joints = {(part, other): (point, its) for part, point, other, its in WALK.joints()}
    assert len(joints) == 10
    for side, sign in (("left", 1.0), ("right", -1.0)):
        assert joints["torso", f"{side} thigh"][0] == pytest.approx((0.0, sign * 0.05 * HEIGHT, 0.0))
        assert joints[f"{side} thigh", f"{side} shank"][0] == pytest.approx((0.0, 0.0, -0.245 * HEIGHT))
        assert joints[f"{side} shank", f"{side} foot"][0] == pytest.approx((0.0, 0.0, -0.246 * HEIGHT))
        assert joints[f"{side} upper arm", f"{side} forearm"][0] == pytest.approx((0.0, 0.0, -0.186 * HEIGHT))
        shoulder = (0.818 - 0.039 - 0.99 * 0.491) * HEIGHT
        assert joints["torso", f"{side} upper arm"][0] == pytest.approx((0.0, sign * 0.129 * HEIGHT, shoulder))
    assert all(its == (0.0, 0.0, 0.0) for _, its in joints.values())


def test_a_standing_person_has_the_feet_next_to_each_other() -> None:
    walk = Walk(ph.Fixed(ph.Pose((3, 4, 1), rpy_deg=(0, 0, 90))), HEIGHT)
    poses = walk.poses(np.array([0.0, 7.0]))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        xyz, quat = poses[f"{side} foot"]
        assert xyz[1] == pytest.approx([3.0 - sign * 0.05 * HEIGHT, 4.0, 1.0 + ANKLE], abs=1e-9)
        assert quat_rotate(quat, np.array([1.0, 0, 0]))[0] == pytest.approx([0.0, 1.0, 0.0], abs=1e-9)
    first = PartMotion(walk, "torso").sample(np.array([0.0]))
    first[0][:] = 99.0  # a copy: the walk keeps its own
    assert PartMotion(walk, "torso").sample(np.array([0.0]))[0][0, 0] == pytest.approx(3.0)
    assert PartMotion(walk, "torso").known_ahead


def test_turning_feet_go_from_heading_to_heading() -> None:
    """On a circle: at rest on the ground they keep the heading of their foothold, in the air they turn to the next."""
    rate = 0.6
    walk = Walk(ph.ConstantTwist(ph.Pose(), (1.2, 0.0, 0.0), (0.0, 0.0, rate)), HEIGHT)
    speed = np.hypot(1.2, 0.3 * rate)
    step_s = np.sqrt(0.39 * (HEIGHT / 1.70) ** 1.5 / speed)
    yaw = []
    for phase in (0.0, 0.1, 1.12, 2.0):
        forward = quat_rotate(walk.poses(np.array([phase * step_s]))["left foot"][1], np.array([1.0, 0, 0]))[0]
        yaw.append(float(np.arctan2(forward[1], forward[0])))
    assert yaw == pytest.approx([0.0, 0.0, rate * step_s, 2 * rate * step_s], abs=2e-3)


def test_quaternions_of_many_axes_are_those_of_one_matrix() -> None:
    turns = [ph.Pose(rpy_deg=rpy).rotation for rpy in ((0, 0, 0), (30, -50, 170), (180, 10, 0), (-100, 80, -140))]
    found = quats_from_axes(*(np.array([turn[:, k] for turn in turns]) for k in range(3)))
    for quat, turn in zip(found, turns, strict=True):
        assert abs(float(quat @ quat_from_matrix(turn))) == pytest.approx(1.0, abs=1e-9)
        assert quat[3] >= 0.0
