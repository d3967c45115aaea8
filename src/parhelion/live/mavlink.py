"""Autopilots in lockstep over MAVLink: our sensors to PX4, and its actuator controls to our multirotor.

    bridge = Bridge("harbour", seed=7)
    bridge.add_body("drone", shapes.box(0.5, 0.5, 0.1), material="plastic")
    bridge.attach(Imu("bosch/bmi160", name="imu", rate_hz=250), "drone")            # and others, as available
    with Lockstep(bridge, "drone", vehicle("asctec/hummingbird")) as autopilot:     # waits on tcp:127.0.0.1:4560
        for found in autopilot.run(60.0):
            ...                                                                     # records of all sensors

PX4's software in the loop connects to the simulator as a TCP client, sends `HIL_ACTUATOR_CONTROLS` after each
`HIL_SENSOR`, and waits for the next one (docs.px4.io, "Simulation": Simulator MAVLink API). The next message is sent
only after the reply, so neither side waits on a wall clock, and a run repeats.
"""

from __future__ import annotations

import math
import select
import socket
import time as wall
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError, MissingDependencyError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.core.streams import NO_FIX, BarometerData, GnssData, ImuData, MagnetometerData
from parhelion.live.autopilot import Autopilot, Mover, frd, ned, speeds_of
from parhelion.motion.vehicles.base import RotorCommand
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.scenario.bridge import Bridge, BridgeRecord

INSTALL_MAVLINK = "MAVLink needs the package pymavlink: pip install 'parhelion[mavlink]'"
ARMED = 128
"""Bit of `HIL_ACTUATOR_CONTROLS.mode` of an armed vehicle (MAV_MODE_FLAG_SAFETY_ARMED)."""
GAUSS_PER_TESLA = 1e4
_NEW_IMU, _NEW_MAG, _NEW_BARO = 0x3F, 0x1C0, 0x1A00
"""Bits of `HIL_SENSOR.fields_updated`: acceleration and rates; field; pressure, its altitude and temperature."""
_CONTROLS = 16
_DATAGRAM = 65_536


def dialect() -> Any:
    """Module of the MAVLink 2 messages."""
    try:
        from pymavlink.dialects.v20 import common
    except ImportError:
        raise MissingDependencyError(INSTALL_MAVLINK) from None
    return common


# ---- messages -------------------------------------------------------------------------------------------------------


def hil_sensor(
    time_s: float, imu: ImuData, magnetometer: MagnetometerData | None, barometer: BarometerData | None
) -> Any:
    """`HIL_SENSOR` of the newest samples: m/s², rad/s and gauss in FRD, hPa, m, °C; None leaves fields unchanged."""
    force, rate = frd(imu.specific_force[-1]), frd(imu.angular_rate[-1])
    updated, field, air = _NEW_IMU, np.zeros(3), (0.0, 0.0, 0.0)
    if magnetometer is not None:
        updated, field = updated | _NEW_MAG, frd(magnetometer.magnetic_field[-1]) * GAUSS_PER_TESLA
    if barometer is not None:
        altitude = float(barometer.altitude[-1])
        # Temperature of the standard atmosphere (ISO 2533) at that altitude.
        updated, air = updated | _NEW_BARO, (float(barometer.pressure[-1]) / 100.0, altitude, 15.0 - 6.5e-3 * altitude)
    return dialect().MAVLink_hil_sensor_message(
        round(time_s * 1e6), *force, *rate, *field, air[0], 0.0, air[1], air[2], updated
    )


def hil_gps(time_s: float, fixes: GnssData) -> Any:
    """`HIL_GPS` of the newest fix: degrees times 1e7, mm, cm/s north, east and down, course in 0.01 degrees.

    The altitude is that above the ellipsoid: there is no geoid.
    """
    message = dialect().MAVLink_hil_gps_message
    stamp = round(time_s * 1e6)
    if int(fixes.mode[-1]) == NO_FIX:
        return message(stamp, 0, 0, 0, 0, 65535, 65535, 65535, 0, 0, 0, 65535, 0)
    north, east, down = ned(fixes.to_enu(fixes.velocity[-1])).tolist()
    course = math.degrees(math.atan2(east, north)) % 360.0
    horizontal, vertical = (min(round(100.0 * float(value)), 65535) for value in fixes.dop[-1, 2:])
    speeds = [max(min(round(100.0 * value), 32767), -32768) for value in (north, east, down)]
    return message(
        stamp,
        3,
        round(fixes.latitude[-1] * 1e7),
        round(fixes.longitude[-1] * 1e7),
        round(fixes.altitude[-1] * 1e3),
        horizontal,
        vertical,
        min(round(100.0 * math.hypot(north, east)), 65535),
        *speeds,
        round(100.0 * course) % 36000,
        int(fixes.satellites_used[-1]),
    )


def rotor_command(message: Any, vehicle: Multirotor, order: Sequence[int] | None = None) -> RotorCommand:
    """Rotor speeds of `HIL_ACTUATOR_CONTROLS`: control 0 to 1 times the largest speed; 0 while disarmed.

    `order` gives the control of each rotor; by default control k belongs to rotor k.
    """
    armed = bool(int(message.mode) & ARMED)
    return speeds_of(np.array([_number(one) for one in message.controls]) * armed, vehicle, order)


def _number(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0


# ---- link -----------------------------------------------------------------------------------------------------------


def _parser() -> Any:
    """Encoder and decoder of messages; damaged ones are skipped."""
    found = dialect().MAVLink(None, srcSystem=1, srcComponent=200)
    found.robust_parsing = True
    return found


class Link:
    """MAVLink over TCP (we listen, as PX4 expects) or UDP (we answer the first sender), on loopback by default.

    Args:
        address: `tcp:HOST:PORT` or `udp:HOST:PORT`; port 0 chooses a free one.
    """

    def __init__(self, address: str = "tcp:127.0.0.1:4560") -> None:
        self._messages = _parser()
        kind, host, port = self._parsed(address)
        self._stream = kind == "tcp"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM if self._stream else socket.SOCK_DGRAM)
        self._peer: Any = None
        try:
            if self._stream:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            if self._stream:
                self._socket.listen(1)
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"{address}: {error.strerror}; is another simulator running?") from None
        self.port = int(self._socket.getsockname()[1])
        """Port number."""

    @staticmethod
    def _parsed(address: str) -> tuple[str, str, int]:
        kind, _, rest = address.partition(":")
        host, _, port = rest.rpartition(":")
        if kind not in ("tcp", "udp") or not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"mavlink: expected tcp:HOST:PORT or udp:HOST:PORT, got {address!r}")
        return kind, host, int(port)

    def connect(self, timeout_s: float) -> None:
        """Wait for the autopilot."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            raise ParhelionError(f"mavlink: no autopilot connected to port {self.port} within {timeout_s:g} s")
        if self._stream:
            self._peer, _ = self._socket.accept()
            self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            _, self._peer = self._socket.recvfrom(_DATAGRAM)

    def send(self, message: Any) -> None:
        """Send a message."""
        data = message.pack(self._messages)
        try:
            if self._stream:
                self._peer.sendall(data)
            else:
                self._socket.sendto(data, self._peer)
        except OSError as error:
            raise ParhelionError(f"mavlink: the autopilot closed the connection ({error.strerror})") from None

    def receive(self, timeout_s: float) -> list[Any]:
        """Return the messages that have arrived, after waiting for the first ones; bytes of no message are skipped."""
        source = self._peer if self._stream else self._socket
        if not select.select([source], [], [], max(timeout_s, 0.0))[0]:
            return []
        try:
            data = self._peer.recv(_DATAGRAM) if self._stream else self._datagram()
        except OSError:
            data = b""
        if not data and self._stream:
            raise ParhelionError("mavlink: the autopilot closed the connection")
        # Messages do not span datagrams, so the remains of a damaged one must not swallow the next.
        parser = self._messages if self._stream else _parser()
        return parser.parse_buffer(data) or []

    def _datagram(self) -> bytes:
        data, sender = self._socket.recvfrom(_DATAGRAM)
        return data if sender == self._peer else b""

    def close(self) -> None:
        """Close the connection. Closing twice is allowed."""
        if self._stream and self._peer is not None:
            self._peer.close()
        self._socket.close()


# ---- lockstep -------------------------------------------------------------------------------------------------------


class Lockstep(Autopilot):
    """An autopilot that flies a body of a bridge, one step per sample of its IMU.

    The bridge has an IMU on the body, and may have a magnetometer, a barometer and a GNSS receiver. A step: measure,
    send the newest samples, wait for the controls, move. A sample is measured when the motion after it is known, so the
    autopilot receives it one step late (4 ms at 250 Hz).

    Args:
        bridge: Bridge with the body and its sensors.
        body: Name of the body.
        vehicle: A `Multirotor`, or a function `(time, controls) -> pose` that moves an external vehicle.
        address: `tcp:HOST:PORT` or `udp:HOST:PORT` to listen on.
        order: Control of each rotor; by default control k belongs to rotor k.
        start: Pose at time 0; a multirotor stands on the ground there.
        timeout_s: Longest time [s] to wait for the controls.
        startup_s: Longest time [s] to wait for them before the first reply, as an autopilot that starts up does not
            answer; by default one step, so that time passes as on the wall. A run repeats bit for bit from the first
            reply on.
        connect_s: Longest time [s] to wait for the autopilot.
    """

    def __init__(
        self,
        bridge: Bridge,
        body: str,
        vehicle: Multirotor | Mover,
        address: str = "tcp:127.0.0.1:4560",
        *,
        order: Sequence[int] | None = None,
        start: Pose = Pose(),
        timeout_s: float = 5.0,
        startup_s: float | None = None,
        connect_s: float = 60.0,
    ) -> None:
        super().__init__(bridge, body, vehicle, order=order, start=start, timeout_s=timeout_s, connect_s=connect_s)
        self.sent = self.answered = 0
        """Numbers of sensor messages, and of those that controls answered."""
        self.startup_s = 1.0 / self.rate_hz if startup_s is None else startup_s
        self.link = Link(address)
        self._controls: Any = None

    def run(self, duration_s: float) -> Iterator[BridgeRecord]:
        """Fly for a time [s] and yield the records of all sensors of the bridge."""
        self.link.connect(self.connect_s)
        self.place()
        controls = np.zeros(_CONTROLS)
        for k in range(round(duration_s * self.rate_hz) + 1):
            time, command = k / self.rate_hz, None
            if self._controls is not None:
                controls = np.array([_number(one) for one in self._controls.controls])
                if isinstance(self.vehicle, Multirotor):
                    command = rotor_command(self._controls, self.vehicle, self.order)
            found = self.bridge.step(time, {self.body: self.moved(time, controls, command, first=k == 0)})
            yield from found
            self._exchange(time, self.newest(found))

    def _exchange(self, time: float, records: dict[type, Any]) -> None:
        """Send the newest samples and wait for the controls."""
        common = dialect()
        if self.sent % max(round(self.rate_hz), 1) == 0:
            kinds = (common.MAV_TYPE_GENERIC, common.MAV_AUTOPILOT_INVALID)
            self.link.send(common.MAVLink_heartbeat_message(*kinds, 0, 0, common.MAV_STATE_ACTIVE, 3))
        if GnssData in records:
            self.link.send(hil_gps(time, records[GnssData]))
        if ImuData not in records:
            return
        self.link.send(hil_sensor(time, records[ImuData], records.get(MagnetometerData), records.get(BarometerData)))
        self.sent += 1
        patience = self.timeout_s if self.answered else self.startup_s
        until = wall.monotonic() + patience
        while True:
            for message in self.link.receive(until - wall.monotonic()):
                if message.get_type() == "HIL_ACTUATOR_CONTROLS" and int(message.time_usec) >= round(time * 1e6):
                    self._controls = message
                    self.answered += 1
                    return
            if wall.monotonic() >= until:
                if not self.answered:
                    return
                raise ParhelionError(
                    f"mavlink: no controls for the sensors of {time:.3f} s within {patience:g} s; is the autopilot in "
                    "lockstep?"
                )

    def close(self) -> None:
        """Close the connection. Closing twice is allowed."""
        self.link.close()
