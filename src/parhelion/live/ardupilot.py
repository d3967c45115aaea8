"""ArduPilot's software in the loop, in lockstep over its JSON interface: our IMU and motion to it, its servos to us.

    bridge = Bridge("harbour", seed=7)
    bridge.add_body("drone", shapes.box(0.5, 0.5, 0.1), material="plastic")
    bridge.attach(Imu("bosch/bmi160", name="imu", rate_hz=400, noise=False), "drone")
    with JsonLockstep(bridge, "drone", vehicle("asctec/hummingbird")) as autopilot:     # waits on udp:127.0.0.1:9002
        for found in autopilot.run(60.0):
            ...                                                                         # records of all sensors

and `sim_vehicle.py -v ArduCopter --model JSON:127.0.0.1`. ArduPilot sends its servo values in a binary datagram and
waits for the state as a line of JSON. It simulates GPS, barometer and compass itself from position and attitude, and
adds its own noise (parameters SIM_*). Source: libraries/SITL/examples/JSON/readme.md of ArduPilot.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.core.frames import EchoScan
from parhelion.core.pose import Floats, Pose, quat_multiply
from parhelion.core.streams import ImuData
from parhelion.live.autopilot import Autopilot, Mover, frd, ned, speeds_of
from parhelion.motion.pushed import PushedMotion
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.scenario.bridge import Bridge, BridgeRecord

PORT = 9002
MAGIC = {18458: 16, 29569: 32}
"""Number of servos by the first word of a datagram; 32 with SERVO_32_ENABLE."""
_HEAD = struct.Struct("<HHI")
LOWEST_US, HIGHEST_US = 1000.0, 2000.0
"""Pulse widths of a control of 0 and 1."""
MOST_RANGES = 6
_DATAGRAM = 4096
_NED_FROM_ENU = np.array([math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0])
_FLU_FROM_FRD = np.array([1.0, 0.0, 0.0, 0.0])


class Servos(NamedTuple):
    """Servo values of one step."""

    rate_hz: int
    """Rate that ArduPilot asks for (SIM_RATE_HZ)."""
    frame: int
    """Number of the step; the same number again is a repetition."""
    pwm_us: Floats
    """Pulse widths [µs], shape (16,) or (32,); 0 is no output."""

    @classmethod
    def of(cls, data: bytes) -> Servos | None:
        """Decode a datagram; None if it is not one of ArduPilot."""
        if len(data) < _HEAD.size:
            return None
        magic, rate, frame = _HEAD.unpack_from(data)
        count = MAGIC.get(magic)
        if count is None or len(data) != _HEAD.size + 2 * count:
            return None
        return cls(rate, frame, np.frombuffer(data, "<u2", count, _HEAD.size).astype(np.float64))

    @property
    def controls(self) -> Floats:
        """Controls: 0 at 1000 µs and without output, 1 at 2000 µs."""
        span = (self.pwm_us - LOWEST_US) / (HIGHEST_US - LOWEST_US)
        return np.where(self.pwm_us > 0.0, np.clip(span, 0.0, 1.0), 0.0)


def state_line(
    time_s: float, imu: ImuData, xyz: Floats, quat_xyzw: Floats, velocity: Floats, ranges: Sequence[float] = ()
) -> bytes:
    """State as a line of JSON: time, newest IMU sample (FRD), position, attitude and velocity (NED), and ranges [m].

    Positions are in the world (east, north, up), relative to ArduPilot's home.
    """
    x, y, z, w = quat_multiply(quat_multiply(_NED_FROM_ENU, quat_xyzw), _FLU_FROM_FRD).tolist()
    fields: dict[str, Any] = {
        "timestamp": time_s,
        "imu": {"gyro": frd(imu.angular_rate[-1]).tolist(), "accel_body": frd(imu.specific_force[-1]).tolist()},
        "position": ned(xyz).tolist(),
        "quaternion": [w, x, y, z],
        "velocity": ned(velocity).tolist(),
    }
    fields |= {f"rng_{k + 1}": value for k, value in enumerate(ranges) if math.isfinite(value)}
    return b"\n" + json.dumps(fields).encode() + b"\n"


class JsonLockstep(Autopilot):
    """ArduPilot flies a body of a bridge, one step per datagram of servo values and per sample of the IMU.

    The rate of the IMU is that of the steps: at least the loop rate of the vehicle, 400 Hz for copters. ArduPilot's
    SIM_RATE_HZ does not change it. A repeated datagram receives the last state again, without a step. Echo sensors on
    the body become the range finders rng_1 to rng_6, in the order in which they were attached.

    Args:
        bridge: Bridge with the body and its sensors.
        body: Name of the body.
        vehicle: A `Multirotor`, or a function `(time, pwm_us) -> pose` that moves an external vehicle, with the pulse
            widths [µs].
        address: `HOST:PORT` to listen on; port 0 chooses a free one.
        order: Servo of each rotor; by default servo k belongs to rotor k.
        start: Pose at time 0; a multirotor stands on the ground there.
        timeout_s: Longest time [s] to wait for the next datagram; ArduPilot repeats one after 10 s.
        connect_s: Longest time [s] to wait for the first one.
    """

    def __init__(
        self,
        bridge: Bridge,
        body: str,
        vehicle: Multirotor | Mover,
        address: str = f"127.0.0.1:{PORT}",
        *,
        order: Sequence[int] | None = None,
        start: Pose = Pose(),
        timeout_s: float = 15.0,
        connect_s: float = 60.0,
    ) -> None:
        super().__init__(bridge, body, vehicle, order=order, start=start, timeout_s=timeout_s, connect_s=connect_s)
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"ardupilot: expected HOST:PORT, got {address!r}")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, int(port)))
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"ardupilot: {address}: {error.strerror}; is another simulator running?") from None
        self.port = int(self._socket.getsockname()[1])
        """Port number."""
        self.steps = self.repeated = self.refused = 0
        """Numbers of steps, of repeated datagrams, and of datagrams that are not of ArduPilot or of another sender."""
        self._peer: Any = None
        self._ranges: dict[str, float] = {}

    def run(self, duration_s: float) -> Iterator[BridgeRecord]:
        """Fly for a time [s] and yield the records of all sensors of the bridge."""
        finders = [one.name for one in self.bridge.sensors_on(self.body, EchoScan)][:MOST_RANGES]
        self.place()
        yield from self.bridge.step(0.0, {self.body: self.moved(0.0, np.zeros(16), None, first=True)})
        last, line = -1, b""
        imu: ImuData | None = None
        for k in range(1, round(duration_s * self.rate_hz) + 1):
            time = k / self.rate_hz
            servos = self._next(last, line)
            if servos.frame < last:  # ArduPilot was restarted; time goes on, because poses are pushed in its order
                self.place()
            last = servos.frame
            command = None
            if isinstance(self.vehicle, Multirotor):
                command = speeds_of(servos.controls, self.vehicle, self.order)
            found = self.bridge.step(time, {self.body: self.moved(time, servos.pwm_us, command)})
            yield from found
            imu = self.newest(found).get(ImuData, imu)
            self._note(found, finders)
            if imu is not None:
                line = self._line(time, imu, finders)
                self._send(line)
            self.steps += 1

    def _note(self, found: Sequence[BridgeRecord], finders: Sequence[str]) -> None:
        self._ranges |= {one.sensor: float(one.record.nearest) for one in found if one.sensor in finders}

    def _line(self, time: float, imu: ImuData, finders: Sequence[str]) -> bytes:
        motion: PushedMotion = self.bridge.bodies[self.body]
        state = motion.state(np.array([time]))
        ranges = [self._ranges.get(name, math.inf) for name in finders]
        return state_line(time, imu, state.xyz[0], state.quat_xyzw[0], state.velocity[0], ranges)

    def _next(self, last: int, line: bytes) -> Servos:
        """Wait for the servo values of the next step; repeated ones are answered again."""
        while True:
            patience = self.timeout_s if self._peer is not None else self.connect_s
            if not select.select([self._socket], [], [], patience)[0]:
                raise ParhelionError(f"ardupilot: no servo values on port {self.port} within {patience:g} s")
            data, sender = self._socket.recvfrom(_DATAGRAM)
            found = Servos.of(data)
            if found is None or (self._peer is not None and sender[0] != self._peer[0]):
                self.refused += 1
                continue
            self._peer = sender  # a restarted ArduPilot has another port
            if found.frame != last or not line:
                return found
            self.repeated += 1
            self._send(line)

    def _send(self, line: bytes) -> None:
        try:
            self._socket.sendto(line, self._peer)
        except OSError as error:
            raise ParhelionError(f"ardupilot: the state cannot be sent ({error.strerror})") from None

    def close(self) -> None:
        """Close the socket. Closing twice is allowed."""
        self._socket.close()
