"""ArduPilot in lockstep over its JSON interface: datagrams, frames, and a stand-in that takes off and hovers."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.core.streams import ImuData
from parhelion.live.ardupilot import JsonLockstep, Servos, state_line
from parhelion.motion.vehicles.library import vehicle
from parhelion.sensors import kinds as sensor_kinds
from parhelion.sensors.kinds import SensorKind

EYE = np.eye(3)


def packet(frame: int, pwm: list[int], rate: int = 400) -> bytes:
    """Datagram as in ArduPilot's readme: uint16 magic, uint16 rate, uint32 frame, uint16 per servo."""
    return struct.pack(f"<HHI{len(pwm)}H", {16: 18458, 32: 29569}[len(pwm)], rate, frame, *pwm)


def test_servo_values_are_decoded() -> None:
    found = Servos.of(packet(7, [0, 1000, 1500, 2000, 2200, 900, *[1000] * 10]))
    assert found is not None
    assert (found.rate_hz, found.frame) == (400, 7)
    assert found.controls[:6].tolist() == [0.0, 0.0, 0.5, 1.0, 1.0, 0.0]
    many = Servos.of(packet(8, [1500] * 32))
    assert many is not None
    assert len(many.controls) == 32
    good = packet(7, [1500] * 16)
    for wrong in (b"", good[:-1], good + b"\0", b"\0\0" + good[2:], b"{}"):
        assert Servos.of(wrong) is None


@pytest.mark.parametrize(
    ("rpy_deg", "attitude_deg"),
    [
        ((0, 0, 90), (0, 0, 0)),  # heading north
        ((0, 0, 0), (0, 0, 90)),  # heading east
        ((0, 0, -90), (0, 0, 180)),
        ((10, 0, 90), (10, 0, 0)),  # right side down in both
        ((0, -20, 90), (0, 20, 0)),  # nose up
        ((15, -25, 40), (15, 25, 50)),
    ],
)
def test_attitude_is_that_of_ardupilot(rpy_deg: Any, attitude_deg: Any) -> None:
    """Roll, pitch and yaw of a body (forward, right, down) in north, east, down, from its quaternion."""
    imu = ImuData([0.0], [[1.0, 2.0, 3.0]], [[0.1, 0.2, 0.3]], EYE, EYE)
    pose = ph.Pose(rpy_deg=rpy_deg)
    line = state_line(2.5, imu, np.array([1.0, 2.0, 3.0]), pose.quat_xyzw, np.array([4.0, 5.0, 6.0]), [1.25, math.inf])
    assert line[:1] == line[-1:] == b"\n"
    found = json.loads(line)
    assert found["timestamp"] == 2.5
    assert found["imu"] == {"gyro": [0.1, -0.2, -0.3], "accel_body": [1.0, -2.0, -3.0]}
    assert (found["position"], found["velocity"]) == ([2.0, 1.0, -3.0], [5.0, 4.0, -6.0])
    assert found["rng_1"] == 1.25
    assert "rng_2" not in found
    w, x, y, z = found["quaternion"]
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(2 * (w * y - z * x))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    got = np.degrees([roll, pitch, yaw])
    assert np.allclose((got - attitude_deg + 180) % 360 - 180, 0.0, atol=1e-9)


class StandIn:
    """Speaks the JSON interface like ArduPilot, and hovers: servo values out, state in, one for one."""

    def __init__(self, port: int, height_m: float, steps: int, repeat_at: int = -1) -> None:
        self.lines: list[bytes] = []
        self.again: list[bytes] = []
        self._height, self._steps, self._repeat_at = height_m, steps, repeat_at
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(20)
        self._socket.connect(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._fly, daemon=True)
        self._thread.start()

    def _fly(self) -> None:
        servos = [1000] * 16
        for frame in range(1, self._steps + 1):
            data = packet(frame, servos)
            if frame == 3:
                self._socket.send(b"noise")
            self._socket.send(data)
            self.lines.append(self._socket.recv(4096))
            if frame == self._repeat_at:
                self._socket.send(data)  # as if the state had been lost
                self.again.append(self._socket.recv(4096))
            servos = self._servos(json.loads(self.lines[-1]))

    def _servos(self, state: dict[str, Any]) -> list[int]:
        w, x, y, z = state["quaternion"]
        angles = np.array([2 * (w * x + y * z), 2 * (w * y - z * x), 0.0])
        rates = np.array(state["imu"]["gyro"])
        lift = 0.54 + 0.11 * (self._height + state["position"][2]) + 0.11 * state["velocity"][2]
        roll, pitch, yaw = 0.32 * angles + 0.063 * rates * np.array([1.0, 1.0, 3.0])
        # Front, left, back and right rotor of the Hummingbird; front and back turn the body to the other side.
        mixed = [lift - pitch + yaw, lift - roll - yaw, lift + pitch + yaw, lift + roll - yaw]
        return [round(1000 + 1000 * min(max(one, 0.0), 1.0)) for one in mixed] + [0] * 12

    def close(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._socket.close()


def scene(ranger: bool = False, imu: Any = None) -> ph.Bridge:
    world = ph.World("field")
    world.add(ph.shapes.plane(200, 200), material="grass", label="terrain")
    bridge = ph.Bridge(world, seed=7)
    bridge.add_body("drone", ph.shapes.box(0.5, 0.5, 0.1), material="plastic")
    bridge.attach(imu or ph.Imu("bosch/bmi160", name="imu", rate_hz=400.0, noise=False), "drone")
    if ranger:
        down = ph.Pose((0, 0, -0.05), rpy_deg=(0, 90, 0))
        bridge.attach(ph.sensor("echo", "generic/ultrasonic-ranger", name="sonar"), "drone", mount=down)
    return bridge


def flown(steps: int, *, ranger: bool = False, repeat_at: int = -1) -> tuple[StandIn, JsonLockstep]:
    drone = vehicle("asctec/hummingbird")
    with JsonLockstep(
        scene(ranger), "drone", drone, "127.0.0.1:0", start=ph.Pose((0, 0, 0.06)), connect_s=20.0, timeout_s=20.0
    ) as lockstep:
        pilot = StandIn(lockstep.port, 2.0, steps, repeat_at)
        list(lockstep.run((steps + 0.1) / 400.0))
        pilot.close()
    return pilot, lockstep


@pytest.mark.slow
def test_a_stand_in_takes_off_and_hovers() -> None:
    pilot, lockstep = flown(1600, ranger=True)
    states = [json.loads(line) for line in pilot.lines]
    assert (lockstep.steps, lockstep.repeated, lockstep.refused) == (1600, 0, 1)
    assert [one["timestamp"] for one in states] == pytest.approx([k / 400 for k in range(1, 1601)])
    # At rest on the ground the specific force points up, which is -z in FRD.
    assert states[0]["imu"]["accel_body"] == pytest.approx([0.0, 0.0, -9.80665], abs=1e-6)
    assert lockstep.vehicle.xyz[2] == pytest.approx(2.06, abs=0.3)
    assert abs(lockstep.vehicle.velocity_m_s[2]) < 0.3
    # The state is that of the vehicle, and the range finder sees the ground below it.
    assert states[-1]["position"][2] == pytest.approx(-lockstep.vehicle.xyz[2], abs=1e-9)
    ranged = [(one["rng_1"], -one["position"][2]) for one in states[400:] if "rng_1" in one]
    assert len(ranged) > 1000
    assert max(abs(distance - height) for distance, height in ranged) < 0.35  # up to 0.1 s old


def test_flights_repeat_and_lost_states_are_sent_again() -> None:
    (one, _), (other, lockstep) = flown(60), flown(60, repeat_at=30)
    assert one.lines == other.lines
    assert other.again == [other.lines[29]]
    assert (lockstep.steps, lockstep.repeated) == (60, 1)


def test_an_external_vehicle_receives_pulse_widths() -> None:
    heard: list[Any] = []

    def move(time: float, pwm_us: Any) -> ph.Pose:
        heard.append(float(pwm_us[0]))
        return ph.Pose((time, 0.0, 1.0))

    with JsonLockstep(scene(), "drone", move, "127.0.0.1:0", connect_s=20.0) as lockstep:
        pilot = StandIn(lockstep.port, 2.0, 5)
        list(lockstep.run(5.1 / 400.0))
        pilot.close()
    assert heard[:2] == [0.0, 1000.0]
    assert json.loads(pilot.lines[-1])["position"] == pytest.approx([0.0, 5 / 400, -1.0])


def test_silence_and_wrong_addresses_are_one_clear_sentence() -> None:
    with JsonLockstep(scene(), "drone", vehicle("asctec/hummingbird"), "127.0.0.1:0", connect_s=0.05) as lockstep:
        with pytest.raises(ParhelionError, match="no servo values on port"):
            list(lockstep.run(1.0))
        taken = f"127.0.0.1:{lockstep.port}"
        with pytest.raises(ConfigError, match="is another simulator running"):
            JsonLockstep(scene(), "drone", vehicle("asctec/hummingbird"), taken)
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        JsonLockstep(scene(), "drone", vehicle("asctec/hummingbird"), "9002")


def test_the_imu_is_found_by_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensor of another package, with a kind of its own, takes the place of the IMU."""
    kind = SensorKind("fibre-imu", "parhelion:Imu", "", "samples", "parhelion.core.streams:ImuData", "fibre gyros")
    monkeypatch.setitem(sensor_kinds._added, "fibre-imu", kind)
    own = ph.Imu("bosch/bmi160", name="imu", rate_hz=400.0, noise=False)
    own.kind = "fibre-imu"
    with JsonLockstep(scene(imu=own), "drone", vehicle("asctec/hummingbird"), "127.0.0.1:0") as lockstep:
        assert lockstep.rate_hz == 400.0
    pytest.importorskip("pymavlink", reason="needs the extra 'mavlink'")
    from parhelion.live.mavlink import Lockstep

    with Lockstep(scene(imu=own), "drone", vehicle("asctec/hummingbird"), "tcp:127.0.0.1:0") as other:
        assert other.rate_hz == 400.0
