"""Random verbs of clients for a served scenario with a robot in contact: WebSocket, then the ROS 2 services.

    python tests/soak/verbs.py --verbs 1000 --seed 1

Over WebSocket, random verbs are mixed with damaged messages, floods and consumers that do not read; over DDS, a client
without our code calls the services, and others leave at once. Prints memory, descriptors and threads. Exits with 1 if
the server fails, if memory grows by more than 5 % or descriptors or threads by more than two over the second half, or
if a replay of the log differs in a byte.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from control_rigs import hashes, random_verb, yard
from parhelion.live.control_server import PROTOCOL, ControlServer
from parhelion.scenario.control import Control
from parhelion.scenario.events import EventLog, read_events
from parhelion.scenario.verbs import Quit, VerbError
from soak.rigs import descriptors, rss_mib

MOST_GROWTH = 1.05
"""Largest ratio of memory at the end and in the middle, where the soak is long enough for kernels to be compiled."""
LONG = 400
"""Number of verbs from which memory, descriptors and threads are compared."""
DURATION_S = 1000.0
PEER = Path(__file__).parents[1] / "live" / "simulation_peer.py"
DOMAIN = 97
_REPLY_S, _SETTLE_S = 60.0, 45.0


class Readings:
    """Memory, descriptors and threads of this process, in the middle and at the end."""

    def __init__(self, verbs: int) -> None:
        self._long = verbs >= LONG
        self.rows: list[dict[str, float]] = []

    def take(self, words: str) -> None:
        # Clients that left without a closing handshake are noticed by the next message to them, or a ping.
        until = time.monotonic() + _SETTLE_S
        while self._long and self.rows and time.monotonic() < until:
            if _threads() <= self.rows[0]["threads"]:
                break
            time.sleep(0.1)
        row = {"MiB": rss_mib(), "descriptors": descriptors(), "threads": _threads()}
        self.rows.append(row)
        print(f"{words}: {', '.join(f'{value:.0f} {name}' for name, value in row.items())}", flush=True)

    def problems(self) -> list[str]:
        """Growth from the first to the last reading of a long run."""
        if not self._long:
            return []
        first, last = self.rows[0], self.rows[-1]
        grown = [name for name in ("descriptors", "threads") if last[name] > first[name] + 2]
        grown += ["MiB"] if last["MiB"] > MOST_GROWTH * first["MiB"] else []
        return [f"{name} grow from {first[name]:.0f} to {last[name]:.0f}" for name in grown]


def _threads() -> int:
    """Number of threads without those of the pool for services, which starts them on demand up to its size."""
    return sum(not one.name.startswith("parhelion-service_") for one in threading.enumerate())


@contextmanager
def served(folder: Path) -> Iterator[Control]:
    """Control of a paused scenario in a thread, with a log; it ends by `quit`."""
    scenario = yard(duration_s=DURATION_S, outputs=[])
    log = EventLog(folder / "events.jsonl", scenario, playing=False)
    control = Control(scenario, log=log, playing=False, speed=float("inf"))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            control.run(folder)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield control
    finally:
        with suppress(VerbError):
            control.call(Quit(), _REPLY_S)
        thread.join(_REPLY_S)
    if failures or thread.is_alive():
        raise RuntimeError(f"the simulation thread failed: {failures or 'it did not end'}")


def replay(folder: Path, again: Path) -> list[str]:
    """Problems of a replay of the log in a folder: deviating results, or files that are not equal byte for byte."""
    scenario = yard(duration_s=DURATION_S, outputs=[])
    script = read_events(folder / "events.jsonl", scenario)
    control = Control(scenario, script=script, log=EventLog(again / "events.jsonl", scenario, playing=script.playing))
    control.run(again)
    first, second = hashes(folder), hashes(again)
    differ = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    return [*control.deviations[:5], *(f"{name} differs in the replay" for name in differ[:5])]


def over_websocket(folder: Path, verbs: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Outcomes of random verbs by code, and problems."""
    chance, codes, readings = random.Random(seed), Counter[str](), Readings(verbs)
    with served(folder) as control, ControlServer(control, port=0) as server, _socket(server) as client:
        for number in range(verbs):
            if number == verbs // 2:
                readings.take(f"WebSocket, {number} verbs")
            if chance.random() < 0.05:
                _hostile(server, chance)
            client.send(json.dumps({"id": number, **random_verb(chance)}))
            codes[_reply(client, number)] += 1
        readings.take(f"WebSocket, {verbs} verbs")
    problems = readings.problems()
    if unknown := codes.keys() - {"ok", "not_found", "name_taken", "unsupported", "invalid", "wrong_state"}:
        problems.append(f"unexpected replies: {', '.join(sorted(unknown))}")
    if codes["ok"] < verbs // 3:
        problems.append(f"only {codes['ok']} of {verbs} verbs were executed")
    return codes, problems


def _socket(server: ControlServer) -> Any:
    from websockets.sync.client import connect

    return connect(server.url, subprotocols=[PROTOCOL], compression=None, max_size=1 << 28, proxy=None)  # type: ignore[list-item]


def _reply(client: Any, number: int) -> str:
    """Code of the reply to a verb: 'ok', or that of its error. Records are binary."""
    while True:
        data = client.recv(timeout=_REPLY_S)
        if isinstance(data, bytes):
            size = int.from_bytes(data[4:8], "little")
            if json.loads(data[8 : 8 + size]).get("id") == number:
                return "ok"
            continue
        reply = json.loads(data)
        if reply.get("id") == number:
            return "ok" if reply["ok"] else str(reply["error"]["code"])


def _hostile(server: ControlServer, chance: random.Random) -> None:
    """A client that sends damage, floods without reading, or subscribes and does not read; it leaves without a word."""
    from websockets.exceptions import ConnectionClosed

    kind = chance.randrange(4)
    with suppress(ConnectionClosed, TimeoutError, OSError):
        client = _socket(server)
        if kind == 0:
            for text in (
                "{",
                "[]",
                "null",
                '{"id": 1}',
                '{"id": 1, "op": "step", "steps": -1}',
                '{"op": "quit", "x": 1}',
            ):
                client.send(text)
            client.send(chance.randbytes(chance.randrange(1, 2000)))
        elif kind == 1:
            for number in range(200):
                client.send(json.dumps({"id": number, "op": "status"}))
        elif kind == 2:
            client.send('{"id": 1, "op": "subscribe", "sensors": ["top", "imu"]}')
            client.send('{"id": 2, "op": "step", "steps": 12}')
        client.socket.close()  # without the closing handshake


def over_dds(folder: Path, verbs: int, seed: int) -> tuple[dict[str, Any], list[str]]:
    """Report of a client without our code that calls services, and problems."""
    from parhelion.live.dds import DdsNode
    from parhelion.live.simulation import SimulationServices

    readings = Readings(verbs)
    with served(folder) as control:
        services = SimulationServices(control, DdsNode(DOMAIN))
        try:
            for half in range(2):
                report = _peer(verbs=max(verbs // 2, 1), seed=seed + half)
                for _ in range(2):
                    _leaving()
                readings.take(f"services, {(half + 1) * (verbs // 2)} calls")
            failures = services.server.counts.failures
        finally:
            services.close()
    problems = readings.problems() + [f"a service failed: {one}" for one in failures]
    if report["answered"] != max(verbs // 2, 1):
        problems.append(f"{report['answered']} of {verbs // 2} calls were answered")
    return report, problems


def _peer(**order: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PEER), json.dumps({"domain": DOMAIN, **order})],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    if done.returncode:
        raise RuntimeError(f"the client failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)["mixed"]
    return found


def _leaving() -> None:
    """A client that is killed right after its calls, before it reads a reply."""
    order = json.dumps({"domain": DOMAIN, "leave": True})
    subprocess.run([sys.executable, str(PEER), order], capture_output=True, timeout=120, check=False)


def soak(folder: Path, verbs: int, seed: int, parts: tuple[str, ...] = ("websocket", "dds")) -> list[str]:
    """Problems of all parts with their replays."""
    problems: list[str] = []
    for name, part in (("websocket", over_websocket), ("dds", over_dds)):
        if name in parts:
            found, wrong = part(folder / name, verbs, seed)
            wrong += replay(folder / name, folder / f"{name}-again")
            print(f"{name}: {dict(found)}, {len(wrong)} problems", flush=True)
            problems += [f"{name}: {one}" for one in wrong]
    return problems


def main() -> int:
    """Run both parts."""
    logging.getLogger("websockets.client").setLevel(logging.CRITICAL + 1)  # clients that leave on purpose
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--verbs", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--parts", nargs="+", choices=("websocket", "dds"), default=["websocket", "dds"])
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problems = soak(Path(folder), asked.verbs, asked.seed, tuple(asked.parts))
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
