"""Weather on live topics: clouds that a second process sends at 10 Hz, in weather."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tables import Goal, Table
from workloads import OS1, VLP, Settings, city

import parhelion as ph

_RAIN = ph.Weather(rain_rate_mm_h=25)
_HZ, _DOMAIN, _SEED = 10.0, 191, 7
_GOALS = {VLP: Goal("at most", 60.0, " ms"), OS1: Goal("at most", 150.0, " ms")}
_LAYOUT = {VLP: "velodyne", OS1: "ouster"}


def tables(settings: Settings) -> Iterator[Table]:
    """Stages of the node in this process, then the node in a process of its own, behind DDS."""
    try:
        import cyclonedds  # noqa: F401
    except ImportError:
        yield Table("node", "Weather on live topics", [], notes=["skipped: needs the package cyclonedds"])
        return
    clouds = {sensor: _clouds(sensor) for sensor in (VLP, OS1)}
    yield _stages(settings, clouds)
    yield _streams(settings, clouds)


def _clouds(sensor: str) -> list[Any]:
    """Clouds of the sensor's driver, as it sees the city in clear air."""
    from parhelion.io.ros import messages as ros
    from parhelion.io.ros.types import Message

    world, lidar = city(), ph.Lidar(sensor)
    scans = [lidar.scan(world, pose=world.viewpoint, seed=seed) for seed in range(4)]
    name = _LAYOUT[sensor]
    return [Message("/points", ros.POINT_CLOUD, 0, ros.point_cloud2(scan, "lidar", 0, name)) for scan in scans]


def _stages(settings: Settings, clouds: dict[str, list[Any]]) -> Table:
    from parhelion.io.ros.returns import RETURN_MESSAGES
    from parhelion.live.weather import Weathering

    table = Table(
        "node",
        "Weather on live topics: processor time per cloud, rain 25 mm/h",
        ["sensor", "cloud MB", "read ms", "weather ms", "write ms", "all ms", "wall ms"],
        notes=[
            "Processor time of all threads, the best of each stage. Read: from the message to a cloud. Write: into a "
            "copy of the message. A sensor at 10 Hz leaves 100 ms per cloud."
        ],
    )
    for sensor, messages in clouds.items():
        job = Weathering(_RAIN, ph.Lidar(sensor), seed=_SEED)
        job.warm_up()
        kind, times = RETURN_MESSAGES[messages[0].type], dict[str, list[float]]()

        def timed(name: str, work: Callable[[], Any], times: dict[str, list[float]] = times) -> Any:
            start = time.process_time()
            found = work()
            times.setdefault(name, []).append(1e3 * (time.process_time() - start))
            return found

        for number in range(5 * settings.rounds(8)):
            message, start = messages[number % len(messages)], time.perf_counter()
            cloud = timed("read", lambda kind=kind, message=message: kind.read(message))  # type: ignore[misc]
            wet = timed("weather", lambda job=job, cloud=cloud, number=number: job.apply(cloud, number))  # type: ignore[misc]
            timed("write", lambda kind=kind, message=message, wet=wet: kind.write(message, wet))  # type: ignore[misc]
            times.setdefault("wall", []).append(1e3 * (time.perf_counter() - start))
        best = {name: min(values) for name, values in times.items()}
        table.add(
            {
                "sensor": sensor,
                "cloud MB": len(messages[0].data) / 1e6,
                **{f"{name} ms": best[name] for name in ("read", "weather", "write", "wall")},
                "all ms": best["read"] + best["weather"] + best["write"],
            }
        )
    return table


def _streams(settings: Settings, clouds: dict[str, list[Any]]) -> Table:
    table = Table(
        "node",
        "Weather on live topics: a second process with the node, rain 25 mm/h",
        ["sensor", "received", "Hz in", "Hz out", "median ms", "99 % ms", "goal", "max ms", "CPU ms per cloud", "load"],
        notes=[
            "Latency from publishing a cloud to receiving it in weather, over DDS on loopback, in the process that "
            "plays the clouds. CPU: of the node with DDS. Load: mean number of running programs on this machine, of "
            "which about two are these. Skipped clouds are counted by the node."
        ],
    )
    for sensor, messages in clouds.items():
        table.add(_stream(sensor, messages, 20 if settings.quick else 150))
    return table


def _stream(sensor: str, messages: list[Any], count: int) -> dict[str, Any]:
    """Row of a sensor: `count` clouds through the node."""
    from parhelion.live.dds import DdsNode, Quality

    order = json.dumps({"sensor": sensor, "count": count})
    sent: dict[int, float] = {}
    late: list[float] = []
    with (
        subprocess.Popen([sys.executable, __file__, order], stdout=subprocess.PIPE, text=True) as other,
        DdsNode(_DOMAIN, reliable=True) as node,
    ):
        heard = node.subscribe("/wet", messages[0].type, Quality(reliable=True, depth=50))
        node.advertise("/points", messages[0].type)
        while not (node.subscribers("/points") and heard.publishers):
            if other.poll() is not None:
                raise RuntimeError(f"the node for {sensor} ended with {other.returncode}")
            time.sleep(0.05)
        time.sleep(0.3)

        def listen(until: float) -> None:
            while (left := until - time.perf_counter()) > 0 and len(late) < count:
                if not heard.wait(left):
                    continue
                now = time.perf_counter()
                late.extend(now - sent[_number(data)] for data in heard.take())

        start = time.perf_counter()
        for number in range(count):
            message = messages[number % len(messages)]
            data = bytearray(message.data)
            struct.pack_into("<iI", data, 4, 1000 + number, 0)
            listen(start + number / _HZ)
            sent[number] = time.perf_counter()
            node.publish(message._replace(data=bytes(data)))
        listen(time.perf_counter() + 3.0)
        assert other.stdout is not None
        report = json.loads(other.stdout.readline())
    ms = 1e3 * np.array(late if late else [np.nan])
    return {
        "sensor": sensor,
        "received": f"{len(late)} of {count}",
        "Hz in": report["in_hz"],
        "Hz out": report["out_hz"],
        "median ms": float(np.median(ms)),
        "99 % ms": float(np.percentile(ms, 99)),
        "goal": _GOALS[sensor].verdict(float(np.percentile(ms, 99))),
        "max ms": float(ms.max()),
        "CPU ms per cloud": report["cpu_ms"],
        "load": os.getloadavg()[0],
    }


def _number(data: bytes) -> int:
    return int(struct.unpack_from("<i", data, 4)[0]) - 1000


def _serve(sensor: str, count: int) -> None:
    """Process with the node: it ends after `count` clouds, or two seconds without one."""
    from parhelion.live.dds import DdsNode
    from parhelion.live.weather import LiveSummary, Weathering, WeatherNode, keep_freed_memory

    job = Weathering(_RAIN, ph.Lidar(sensor), seed=_SEED)
    job.warm_up()
    keep_freed_memory()
    begun: list[float] = []
    with DdsNode(_DOMAIN, reliable=True) as node:
        made = WeatherNode(node, "/points", "/wet", job)

        def check(summary: LiveSummary) -> None:
            if summary.received.count and not begun:
                begun.append(time.process_time())
            if summary.sent.count + summary.skipped >= count:
                raise KeyboardInterrupt

        try:
            made.run(60.0 + count / _HZ, check)
        except KeyboardInterrupt:
            time.sleep(1.0)  # the last cloud is on its way
        cpu = 1e3 * (time.process_time() - begun[0]) / max(made.summary.sent.count - 1, 1) if begun else None
    summary = made.summary
    rates = {"in_hz": summary.received.rate_hz, "out_hz": summary.sent.rate_hz}
    print(json.dumps({**rates, "cpu_ms": cpu, "skipped": summary.skipped}), flush=True)


if __name__ == "__main__":
    _serve(**json.loads(sys.argv[1]))
