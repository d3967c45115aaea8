"""A campaign whose only Dask worker is behind a link that is cut twice. Run as a program, in a separate process.

    python tests/cut_link.py relay STUDY OUT
    unshare --user --map-root-user --net python tests/cut_link.py namespace STUDY OUT

The link is a relay of TCP connections on loopback, or a pair of virtual network interfaces between two network
namespaces, which requires the rights that `unshare` grants. The first cut is short, and connections survive it. The
second one lasts until the scheduler has dropped the worker. A dropped worker exits, and a shell loop starts the next
one, as Kubernetes or systemd would.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

SHORT_S = 1.0
_GIVEN_UP_AFTER = "3s"
_MOST_S = 60.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# ---- two links -------------------------------------------------------------------------------------------------------


class Namespace:
    """A second network namespace, connected to the one of this process by a pair of virtual interfaces."""

    scheduler_host, scheduler_port = "10.77.0.1", 8786
    worker_options = ("--host", "10.77.0.2")
    scheduler_seen_by_worker = "tcp://10.77.0.1:8786"

    def __init__(self) -> None:
        words = ["unshare", "--net", "sh", "-c", "echo there; exec sleep 300"]
        self._holder = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        there = str(self._holder.pid)
        self.enter = ("nsenter", "--target", there, "--net")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", there)
        _ip("addr", "add", "10.77.0.1/24", "dev", "near")
        _ip("link", "set", "near", "up")
        _ip("link", "set", "lo", "up", within=self.enter)
        _ip("addr", "add", "10.77.0.2/24", "dev", "far", within=self.enter)
        _ip("link", "set", "far", "up", within=self.enter)

    def cut(self) -> None:
        _ip("link", "set", "near", "down")

    def mend(self) -> None:
        _ip("link", "set", "near", "up")

    def close(self) -> None:
        self._holder.terminate()
        self._holder.wait(10)


def _ip(*words: str, within: tuple[str, ...] = ()) -> None:
    subprocess.run([*within, "ip", *words], check=True)


class Relay:
    """Two ports on loopback whose connections are forwarded, and held while the link is cut."""

    scheduler_host = "127.0.0.1"
    enter: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.scheduler_port, worker_port = free_port(), free_port()
        to_scheduler, to_worker = free_port(), free_port()
        self.scheduler_seen_by_worker = f"tcp://127.0.0.1:{to_scheduler}"
        self.worker_options = (
            "--listen-address", f"tcp://127.0.0.1:{worker_port}",
            "--contact-address", f"tcp://127.0.0.1:{to_worker}",
        )  # fmt: skip
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._whole = asyncio.Event()
        self.mend()
        for here, there in ((to_scheduler, self.scheduler_port), (to_worker, worker_port)):
            asyncio.run_coroutine_threadsafe(self._listen(here, there), self._loop).result(10)

    async def _listen(self, here: int, there: int) -> None:
        async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._whole.wait()
            with suppress(OSError):
                other_reader, other_writer = await asyncio.open_connection("127.0.0.1", there)
                await asyncio.gather(self._copy(reader, other_writer), self._copy(other_reader, writer))
            writer.close()

        await asyncio.start_server(passed_on, "127.0.0.1", here)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        await self._whole.wait()
        writer.close()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


# ---- the campaign ----------------------------------------------------------------------------------------------------


class Cutter:
    """Cuts the link briefly after the second row, and after the sixth row until the scheduler drops the worker."""

    def __init__(self, link: Any, address: str) -> None:
        self._link, self._address = link, address
        self.threads: list[threading.Thread] = []
        self.left_alone = False
        """True if the scheduler had no worker at all for a while."""

    def progress(self, done: int, total: int) -> None:
        heal = {2: self._soon, 6: self._late}.get(done)
        if heal is not None and len(self.threads) < 2:
            self._link.cut()
            self.threads.append(threading.Thread(target=heal))
            self.threads[-1].start()

    def _soon(self) -> None:
        time.sleep(SHORT_S)
        self._link.mend()

    def _late(self) -> None:
        from distributed import Client

        with Client(self._address, timeout=30, set_as_default=False) as client:

            def workers() -> list[str]:
                return list(client.scheduler_info(n_workers=-1)["workers"])

            deadline = time.monotonic() + _MOST_S
            while workers() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.left_alone = not workers()
        self._link.mend()


def main(kind: str, study_file: str, out: str) -> None:
    from distributed import Client

    from parhelion.campaign import Study, run_campaign

    link: Any = {"namespace": Namespace, "relay": Relay}[kind]()
    environment = {
        **os.environ,
        "PARHELION_THREADS": "1",
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": _GIVEN_UP_AFTER,
    }
    address = f"tcp://{link.scheduler_host}:{link.scheduler_port}"
    scheduler = [
        sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", link.scheduler_host,
        "--port", str(link.scheduler_port), "--no-dashboard", "--no-show",
        "--idle-timeout", "120s",
    ]  # fmt: skip
    worker = [
        *link.enter, sys.executable, "-m", "distributed.cli.dask_worker", link.scheduler_seen_by_worker,
        *link.worker_options, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory",
        str(Path(out).parent), "--death-timeout", "60",
    ]  # fmt: skip
    # The loop and the scheduler exit when this program is killed.
    again = f"while kill -0 {os.getpid()}; do {shlex.join(worker)}; sleep 0.2; done"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    started = [
        subprocess.Popen(scheduler, start_new_session=True, **quiet),
        subprocess.Popen(["sh", "-c", again], start_new_session=True, **quiet),
    ]
    try:
        with Client(address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        cutter = Cutter(link, address)
        summary = run_campaign(Study.load(study_file), out, dask=address, progress=cutter.progress)
        for thread in cutter.threads:
            thread.join(_MOST_S)
        print(json.dumps({"done": summary.done, "failed": summary.failed, "left_alone": cutter.left_alone}))
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        link.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
