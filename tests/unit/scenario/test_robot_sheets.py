"""Data sheets of users' robots from URDF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.contact.driver import ContactDriver
from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_conjugate, quat_multiply
from parhelion.motion.vehicles import DriveCommand, vehicle
from parhelion.scenario import Scenario
from parhelion.scenario.robot_sheets import robot_sheet, wheel_joints
from parhelion.scenario.robots import RobotOnBoard, UrdfEntry

BODY = '<inertial><mass value="{mass}"/><origin xyz="0 0 0.1"/>{inertia}</inertial>'
INERTIA = '<inertia ixx="1" iyy="2" izz="3" ixy="0" ixz="0" iyz="0"/>'


def urdf(
    folder: Path,
    *,
    mass: str = "20",
    inertia: str = INERTIA,
    low: float = 0.1,
    base_z: float = 0.1,
    caster: bool = True,
    inertial: bool = True,
) -> UrdfEntry:
    """A box of 0.5 x 0.3 x 0.2 m on two wheels of 0.1 m and a caster of 0.05 m."""
    inside = BODY.format(mass=mass, inertia=inertia) if inertial else ""
    wheels = "".join(
        f'<link name="{side}_wheel"><collision><origin rpy="1.5707963 0 0"/><geometry><cylinder radius="0.1" '
        f'length="0.04"/></geometry></collision></link><joint name="{side}" type="continuous"><parent link="base"/>'
        f'<child link="{side}_wheel"/><origin xyz="0 {y} 0"/><axis xyz="0 1 0"/><limit effort="8" velocity="15"/>'
        "</joint>"
        for side, y in (("left", 0.2), ("right", -0.2))
    )
    if caster:
        wheels += (
            '<link name="rear_caster"><collision><geometry><sphere radius="0.05"/></geometry></collision></link>'
            '<joint name="c" type="fixed"><parent link="base"/><child link="rear_caster"/>'
            '<origin xyz="-0.2 0 -0.05"/></joint>'
        )
    file = folder / "robot.urdf"
    box = f'<collision><origin xyz="0 0 {low}"/><geometry><box size="0.5 0.3 0.2"/></geometry></collision>'
    file.write_text(f'<robot name="cart"><link name="base">{inside}{box}</link>{wheels}</robot>')
    return UrdfEntry(file=file.name, pose={"xyz": (0, 0, base_z)})  # type: ignore[arg-type]


def sheet_of(folder: Path, **changes: Any) -> Any:
    return robot_sheet(RobotOnBoard(urdf(folder, **changes), folder, 0.0))


def test_the_friction_of_wheels_comes_from_the_file(tmp_path: Path) -> None:
    entry = urdf(tmp_path)
    file = tmp_path / "robot.urdf"
    block = '<gazebo reference="left_wheel"><mu1>0.3</mu1></gazebo></robot>'
    file.write_text(file.read_text().replace("</robot>", block))
    wheels = robot_sheet(RobotOnBoard(entry, tmp_path, 0.0)).chassis.wheels  # type: ignore[union-attr]
    assert [one.friction for one in wheels] == [0.3, None, None]


def test_wheels_mass_and_hull_come_from_the_file(tmp_path: Path) -> None:
    sheet = sheet_of(tmp_path)
    assert (sheet.mass_kg, sheet.wheel_radius_m, sheet.track_m, sheet.effective_track_m) == (20.0, 0.1, 0.4, None)
    assert sheet.size_m == pytest.approx((0.5, 0.3, 0.3))
    assert sheet.max_speed_m_s == pytest.approx(1.5)
    chassis = sheet.chassis
    assert chassis.max_wheel_torque_n_m == 8.0
    assert chassis.centre_of_mass_m == pytest.approx((0.0, 0.0, 0.2))
    assert chassis.inertia_kg_m2 == pytest.approx((1, 2, 3))
    assert chassis.ground_clearance_m == pytest.approx(0.1)
    assert [(wheel.driven, wheel.caster) for wheel in chassis.wheels] == [(True, False), (True, False), (False, True)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mass": "0"}, "the mass of all links together is 0; add it, or give model"),
        ({"mass": "-3"}, "mass: must be from 0 to .* kg, got -3"),
        ({"inertial": False}, "no link has <inertial> with a mass; add it, or give model"),
        ({"inertia": '<inertia ixx="-9" iyy="1" izz="1"/>'}, "moments of inertia of all links together must"),
        ({"low": 0.0}, "the wheels are inside of the body, which ends"),
        ({"base_z": 0.3}, r"end 0.2 m above the ground of the vehicle frame; set pose: {xyz: \[0, 0, 0.1\]}"),
        ({"caster": False}, "needs at least three wheels, found left_wheel, right_wheel"),
    ],
)  # fmt: skip
def test_unsuitable_files_are_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        sheet_of(tmp_path, **changes)


def test_a_missing_inertia_is_derived_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no link has an inertia; that of a box of uniform density is used"):
        sheet = sheet_of(tmp_path, inertia="")
    assert sheet.chassis.inertia_kg_m2[2] == pytest.approx(20 * (0.25 + 0.09) / 12)


@pytest.mark.parametrize(
    ("base", "text"),
    [
        ('<mass value="0"/>' + INERTIA, "mass 0 of 'base'; the robot weighs 6 kg"),
        ('<mass value="20"/>', "link 'base' has no inertia and counts as a point; add <inertia>"),
    ],
)
def test_a_heavy_link_without_mass_or_inertia_is_reported(tmp_path: Path, base: str, text: str) -> None:
    entry = urdf(tmp_path)
    file = tmp_path / entry.file
    text_of = file.read_text().replace(BODY.format(mass="20", inertia=INERTIA), f"<inertial>{base}</inertial>")
    file.write_text(text_of.replace('_wheel"><col', f'_wheel"><inertial><mass value="3"/>{INERTIA}</inertial><col'))
    with pytest.warns(UserWarning, match=text):
        robot_sheet(RobotOnBoard(entry, tmp_path, 0.0))


def test_a_users_robot_drives_on_its_wheels(tmp_path: Path) -> None:
    world = ph.World("flat")
    world.add(ph.shapes.plane(20, 20), material="concrete", label="road")
    driver = ContactDriver(world)
    driver.add("cart", vehicle(sheet_of(tmp_path)), ph.Pose())
    for _ in range(150):
        driver.step([DriveCommand(0.5)], 0.01)
    row = driver.rows()[0]
    assert row[3] == pytest.approx(0.0, abs=5e-3)  # its mass is above its axle, so it rocks
    assert row[8] == pytest.approx(0.5, rel=0.03)


def test_a_vehicle_without_model_drives_by_its_urdf(tmp_path: Path) -> None:
    entry = urdf(tmp_path)
    robot = {"name": "cart", "urdf": {"file": entry.file, "pose": {"xyz": [0, 0, 0.1]}, "material": "steel"}}
    sensors = [{"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "cart"}]
    made = Scenario.from_mapping(
        {"duration_s": 0.02, "world": "cuboids", "vehicles": [robot], "sensors": sensors}, tmp_path
    )
    assert made.has_contact
    urdf(tmp_path, mass="0")
    with pytest.raises(ConfigError, match=r"scenario: vehicles\[0\]: urdf: .*the mass of all links together is 0"):
        Scenario.from_mapping({"duration_s": 1, "world": "cuboids", "vehicles": [robot], "sensors": sensors}, tmp_path)


def test_wheels_of_a_shown_robot_turn_by_the_distance_over_their_radius(tmp_path: Path) -> None:
    entry = urdf(tmp_path)
    robot = {"name": "cart", "urdf": {"file": entry.file, "pose": {"xyz": [0, 0, 0.1]}, "material": "steel",
                                      "shapes": "collision"}}  # fmt: skip
    fields = {"duration_s": 2.0, "world": "cuboids", "vehicles": [robot], "sensors": [
        {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "cart"}]}  # fmt: skip
    made = Scenario.from_mapping(fields, tmp_path)
    for step in made:
        step.command("cart", DriveCommand(0.5))
    parts = {one.name: one.trajectory for one in made.world.objects if one.name.startswith("cart/")}
    assert set(parts) == {"cart/base", "cart/left_wheel", "cart/right_wheel"}
    times = np.array([1.0, 2.0])
    (start, end), body = parts["cart/base"].sample(times)
    relative = quat_multiply(quat_conjugate(body), parts["cart/left_wheel"].sample(times)[1])
    before, after = 2.0 * np.arctan2(relative[:, 1], relative[:, 3])
    encoder = made.body("cart").motion.wheel_angles(times, 2)  # type: ignore[union-attr]
    assert (after - before) % (2.0 * np.pi) == pytest.approx((encoder[1, 0] - encoder[0, 0]) % (2.0 * np.pi), abs=1e-6)
    assert encoder[1, 0] - encoder[0, 0] == pytest.approx(np.linalg.norm(end - start) / 0.1, rel=0.15)  # with slip
    # The hub stays at its height over the ground, to both sides of the body.
    (hub,), _ = parts["cart/left_wheel"].sample(np.array([2.0]))
    assert np.linalg.norm(hub[:2] - end[:2]) == pytest.approx(0.2, abs=1e-3)
    assert hub[2] == pytest.approx(0.1, abs=2e-3)
    kinematic = Scenario.from_mapping({**fields, "vehicles": [{**robot, "dynamics": "kinematic"}]}, tmp_path)
    assert [one.name for one in kinematic.world.objects if one.name.startswith("cart/")] == ["cart/base"]


def test_wheels_that_the_scenario_moves_are_left_to_it(tmp_path: Path) -> None:
    entry = UrdfEntry.model_validate({**urdf(tmp_path).model_dump(), "joints": {"left": {"rate": 3.0}}})
    robot = RobotOnBoard(entry, tmp_path, 1.0)
    assert wheel_joints(robot, robot_sheet(robot).chassis) == {"right": (1, 1.0)}
