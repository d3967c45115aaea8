"""A stream with ROS 2 and Foxglove, a client of it, and the viewer side by side: memory and descriptors stay flat.

    python tests/soak/live.py --minutes 10

Prints resident memory and open descriptors of both commands once per tenth of the time. Exits with 1 if a command ends,
if messages stop, or if memory grows by more than 5 %, or descriptors by more than two over the second half.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from foxglove_rigs import Client
from soak.rigs import descriptors, rss_mib, write_scenario

PROGRAM = [sys.executable, "-m", "parhelion"]
MOST_GROWTH = 1.05
"""Largest ratio of memory at the end and in the middle."""


def free_port() -> int:
    """A port of this machine that nothing uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def connected(port: int) -> Client:
    """Client of the stream, as soon as it serves."""
    for _ in range(240):
        try:
            return Client(f"ws://127.0.0.1:{port}")
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the stream does not serve Foxglove")


def main() -> int:
    """Run both commands for the time that was asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10.0)
    seconds = 60.0 * options.parse_args().minutes
    foxglove, page = free_port(), free_port()
    problems: list[str] = []
    parts: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        scenario = str(write_scenario(Path(folder), slow=True, duration_s=60.0))
        commands = {
            "stream": ["stream", scenario, "--foxglove", str(foxglove), "--ros2", "--domain", "77", "--loop"],
            "view": ["view", scenario, "--port", str(page)],
        }
        running = {
            name: subprocess.Popen([*PROGRAM, *words], stdout=log, stderr=log, start_new_session=True)
            for name, words in commands.items()
        }
        try:
            client = connected(foxglove)
            client.subscribe(*client.topics)
            began, messages = time.monotonic(), 0
            while len(parts) < 10:
                try:
                    client.next(20.0)
                    messages += 1
                except TimeoutError:
                    problems.append("no message for 20 s")
                    break
                client.times.clear()
                if time.monotonic() - began > (len(parts) + 1) * seconds / 10.0:
                    urllib.request.urlopen(f"http://127.0.0.1:{page}/", timeout=20).read()
                    ended = [name for name, one in running.items() if one.poll() is not None]
                    if ended:
                        problems += [f"{name} ended" for name in ended]
                        break
                    now = {f"{name} MiB": rss_mib(one.pid) for name, one in running.items()}
                    now |= {f"{name} descriptors": descriptors(one.pid) for name, one in running.items()}
                    parts.append({**now, "messages": messages})
                    print(f"{time.monotonic() - began:6.0f} s: ", end="")
                    print(", ".join(f"{name} {value:.0f}" for name, value in parts[-1].items()), flush=True)
        finally:
            for one in running.values():
                one.terminate()
                one.wait(30.0)
        if problems:
            print(Path(log.name).read_text()[-2000:])
    for name in parts[-1] if len(parts) == 10 else ():
        first, last = parts[4][name], parts[-1][name]
        if (name.endswith("MiB") and last > MOST_GROWTH * first) or (name.endswith("descriptors") and last > first + 2):
            problems.append(f"{name} grow from {first:.0f} to {last:.0f}")
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
