"""Lockstep with an autopilot over MAVLink: units and frames exactly, and a flight by a stand-in for PX4."""

from __future__ import annotations

import math
import socket
import threading
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ParhelionError
from parhelion.motion.vehicles.base import RotorCommand
from parhelion.motion.vehicles.library import vehicle

common = pytest.importorskip("pymavlink.dialects.v20.common", reason="needs the extra 'mavlink'")

from parhelion.live.mavlink import Link, Lockstep, frd, hil_gps, hil_sensor, ned, rotor_command  # noqa: E402

EYE = np.eye(3)
PX4_ALL = 0x1BFF  # every bit except the differential pressure


def round_trip(message: Any) -> Any:
    """The message as another MAVLink implementation decodes it."""
    data = message.pack(common.MAVLink(None, srcSystem=1))
    return common.MAVLink(None).decode(bytearray(data))


def test_frames_are_forward_right_down_and_north_east_down() -> None:
    assert frd([1.0, 2.0, 3.0]).tolist() == [1.0, -2.0, -3.0]
    assert ned([1.0, 2.0, 3.0]).tolist() == [2.0, 1.0, -3.0]
    assert ned(ned([[1.0, 2.0, 3.0]])).tolist() == [[1.0, 2.0, 3.0]]


def test_sensor_message_has_the_units_of_mavlink() -> None:
    imu = ph.ImuData([0.0], [[0.5, 0.25, 9.75]], [[0.125, -0.25, 0.5]], EYE, EYE)
    field = ph.MagnetometerData([0.0], [[2e-5, 1e-5, -4.5e-5]], EYE)  # T, forward, left, up
    air = ph.BarometerData([0.0], [95_000.0], [540.0], 1.0)
    got = round_trip(hil_sensor(1.25, imu, field, air))
    assert got.time_usec == 1_250_000
    assert (got.xacc, got.yacc, got.zacc) == (0.5, -0.25, -9.75)
    assert (got.xgyro, got.ygyro, got.zgyro) == (0.125, 0.25, -0.5)
    assert (got.xmag, got.ymag, got.zmag) == pytest.approx((0.2, -0.1, 0.45), rel=1e-6)  # gauss
    assert (got.abs_pressure, got.pressure_alt) == (950.0, 540.0)
    assert got.temperature == pytest.approx(15.0 - 3.51)
    assert got.fields_updated == PX4_ALL
    assert round_trip(hil_sensor(1.25, imu, None, None)).fields_updated == 0x3F


def test_gps_message_has_the_units_of_mavlink() -> None:
    gnss = ph.Gnss("u-blox/f9p", name="gps", noise=False, latitude_deg=48.0, longitude_deg=11.0, altitude_m=500.0)
    moving = ph.ConstantTwist(ph.Pose((0, 0, 20)), velocity=(3.0, -4.0, 1.0))  # east, north, up
    fixes = gnss.run(ph.World(), moving, duration=1.0 / gnss.rate_hz)
    got = round_trip(hil_gps(2.0, fixes))
    assert (got.time_usec, got.fix_type) == (2_000_000, 3)
    assert (got.vn, got.ve, got.vd) == pytest.approx((-400, 300, -100), abs=2)
    assert got.vel == pytest.approx(500, abs=2)
    assert got.cog == pytest.approx(14_313, abs=30)  # 143.13 degrees, clockwise from north
    assert got.lat == pytest.approx(480_000_000, abs=300)
    assert got.alt == pytest.approx(520_000, abs=3000)
    assert got.satellites_visible == fixes.satellites_used[-1]
    lost = fixes.select(slice(0, 1))
    object.__setattr__(lost, "mode", np.array([0]))
    assert round_trip(hil_gps(2.0, lost)).fix_type == 0


def test_controls_become_rotor_speeds() -> None:
    drone = vehicle("asctec/hummingbird")
    controls = [0.0, 0.25, 0.5, 2.0, *[math.nan] * 12]
    armed = common.MAVLink_hil_actuator_controls_message(1, controls, 128, 1)
    most = drone.config.max_rotor_speed_rad_s
    assert rotor_command(armed, drone).speeds_rad_s == (0.0, 0.25 * most, 0.5 * most, most)
    assert rotor_command(armed, drone, (3, 2, 1, 4)).speeds_rad_s == (most, 0.5 * most, 0.25 * most, 0.0)
    off = common.MAVLink_hil_actuator_controls_message(1, controls, 0, 1)
    assert rotor_command(off, drone).speeds_rad_s == (0.0,) * 4
    with pytest.raises(ph.ConfigError, match="has 4 rotors, got speeds for 2"):
        drone.step(RotorCommand((1.0, 2.0)), 0.01)


class Hover:
    """Stand-in for an autopilot: reads HIL_SENSOR and HIL_GPS, and answers each HIL_SENSOR once."""

    def __init__(self, port: int, height_m: float, replies: int = 10**9) -> None:
        self.seen: list[Any] = []
        self.fixes: list[Any] = []
        self._height, self._replies = height_m, replies
        self._angles, self._ground, self._last = np.zeros(3), math.nan, (0.0, 0.0, 0.0)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        mav = common.MAVLink(None, srcSystem=1)
        while True:
            try:
                data = self._socket.recv(65536)
            except OSError:
                return
            if not data:
                return
            for message in mav.parse_buffer(data) or []:
                if message.get_type() == "HIL_GPS":
                    self.fixes.append(message)
                elif message.get_type() == "HIL_SENSOR":
                    self.seen.append(message)
                    if len(self.seen) <= self._replies:
                        self._socket.sendall(self._answer(message).pack(mav))

    def _answer(self, message: Any) -> Any:
        rates = np.array([message.xgyro, message.ygyro, message.zgyro])
        self._angles += rates * 0.004
        if message.fields_updated & 0x800:
            height = message.pressure_alt
            self._ground = height if math.isnan(self._ground) else self._ground
            speed = -self.fixes[-1].vd / 100.0 if self.fixes else 0.0
            self._last = (height - self._ground, speed, self._last[2])
        lift = 0.54 + 0.11 * (self._height - self._last[0]) - 0.11 * self._last[1]
        roll, pitch, yaw = 0.32 * self._angles + 0.063 * rates * np.array([1.0, 1.0, 3.0])
        # Front, left, back and right rotor of the Hummingbird; front and back turn the body to the other side.
        mixed = [lift - pitch + yaw, lift - roll - yaw, lift + pitch + yaw, lift + roll - yaw]
        controls = [min(max(one, 0.0), 1.0) for one in mixed] + [0.0] * 12
        return common.MAVLink_hil_actuator_controls_message(message.time_usec, controls, 128, 1)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


def bridge_with_drone(gps: bool = False) -> ph.Bridge:
    world = ph.World("field")
    world.add(ph.shapes.plane(200, 200), material="grass", label="terrain")
    bridge = ph.Bridge(world, seed=7)
    bridge.add_body("drone", ph.shapes.box(0.5, 0.5, 0.1), material="plastic")
    bridge.attach(ph.Imu("bosch/bmi160", name="imu", rate_hz=250.0, noise=False), "drone")
    bridge.attach(ph.Magnetometer("pni/rm3100", name="mag", rate_hz=50.0, noise=False), "drone")
    bridge.attach(ph.Barometer("bosch/bmp388", name="baro", noise=False, rate_hz=50.0), "drone")
    if gps:
        bridge.attach(ph.Gnss("u-blox/f9p", name="gps", rate_hz=5.0), "drone", mount=ph.Pose((0, 0, 0.1)))
    return bridge


def flown(duration_s: float, gps: bool = False) -> tuple[Hover, Lockstep, Any]:
    with Lockstep(
        bridge_with_drone(gps), "drone", vehicle("asctec/hummingbird"), "tcp:127.0.0.1:0", start=ph.Pose((0, 0, 0.06)),
        connect_s=20.0, timeout_s=5.0, startup_s=5.0,
    ) as lockstep:  # fmt: skip
        pilot = Hover(lockstep.link.port, 2.0)
        list(lockstep.run(duration_s))
        pilot.close()
    return pilot, lockstep, lockstep.vehicle


@pytest.mark.slow
def test_a_stand_in_autopilot_takes_off_and_hovers() -> None:
    pilot, lockstep, drone = flown(4.0, gps=True)
    assert lockstep.sent == lockstep.answered == len(pilot.seen) == 1000
    stamps = [one.time_usec for one in pilot.seen]
    assert stamps == list(range(4000, 4_000_001, 4000))
    first = pilot.seen[0]  # at rest on the ground: the specific force points up, which is -z in FRD
    assert (first.xacc, first.yacc, first.zacc) == pytest.approx((0.0, 0.0, -9.80665), abs=1e-6)
    assert (first.ymag, first.zmag) == pytest.approx((-0.2, 0.45), abs=1e-6)
    assert sum(bool(one.fields_updated & 0x200) for one in pilot.seen) == 200
    assert len(pilot.fixes) == 20
    assert drone.xyz[2] == pytest.approx(2.06, abs=0.3)
    assert abs(drone.velocity_m_s[2]) < 0.3


def test_flights_repeat_bit_for_bit() -> None:
    flights = [flown(0.4) for _ in range(2)]
    one, other = ([message.pack(common.MAVLink(None, srcSystem=1))[10:-2] for message in pilot.seen]
                  for pilot, _, _ in flights)  # fmt: skip
    assert len(one) == 100
    assert one == other


def test_an_autopilot_that_stops_answering_is_an_error() -> None:
    with Lockstep(bridge_with_drone(), "drone", vehicle("asctec/hummingbird"), "tcp:127.0.0.1:0",
                  connect_s=20.0, timeout_s=0.3, startup_s=5.0) as lockstep:  # fmt: skip
        pilot = Hover(lockstep.link.port, 2.0, replies=10)
        with pytest.raises(ParhelionError, match="no controls for the sensors of"):
            list(lockstep.run(1.0))
        pilot.close()


def test_an_external_vehicle_is_moved_by_controls_over_udp() -> None:
    bridge, heard = bridge_with_drone(), []

    def move(time: float, controls: Any) -> ph.Pose:
        heard.append(controls[0])
        return ph.Pose((0.0, 0.0, 1.0 + time))

    with Lockstep(bridge, "drone", move, "udp:127.0.0.1:0", connect_s=20.0, timeout_s=5.0, startup_s=5.0) as lockstep:
        peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        peer.connect(("127.0.0.1", lockstep.link.port))
        mav = common.MAVLink(None, srcSystem=1)
        peer.send(common.MAVLink_heartbeat_message(2, 12, 0, 0, 4, 3).pack(mav))

        def serve() -> None:
            peer.settimeout(20)
            while True:
                try:
                    found = mav.parse_buffer(peer.recv(65536)) or []
                except OSError:
                    return
                for message in found:
                    if message.get_type() == "HIL_SENSOR":
                        peer.send(b"\xfd noise")  # bytes of no message
                        reply = common.MAVLink_hil_actuator_controls_message(message.time_usec, [0.5] * 16, 128, 1)
                        peer.send(reply.pack(mav))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        list(lockstep.run(0.1))
        assert heard[-1] == 0.5
    peer.close()


@pytest.mark.parametrize("address", ["serial:/dev/tty", "tcp:127.0.0.1", "tcp:127.0.0.1:99999", "udp::14560"])
def test_wrong_addresses_are_one_clear_sentence(address: str) -> None:
    with pytest.raises(ph.ConfigError, match="expected tcp:HOST:PORT or udp:HOST:PORT"):
        Link(address)


def test_a_bridge_without_imu_is_refused() -> None:
    bridge = ph.Bridge(ph.World())
    bridge.add_body("drone")
    with pytest.raises(ph.ConfigError, match="must have one IMU"):
        Lockstep(bridge, "drone", vehicle("asctec/hummingbird"), "tcp:127.0.0.1:0")
