"""A second program that plays the clouds of a bag on a topic and listens to another.

    python cloud_player.py {"bag": "drive.mcap", "topic": "/points", "heard": "/wet", "count": 30, "hz": 10, ...}

It repeats the messages of the bag with stamps one period apart, waits until the other program has subscribed, and
prints one JSON line: stamps [ns], digests and latencies [s] of what it heard, from sending to receiving.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import time

from parhelion.io.ros import BagReader
from parhelion.io.ros.messages import Message
from parhelion.io.ros.returns import stamp_and_frame
from parhelion.live.dds import DdsNode, Quality

FIRST_S = 1_700_000_000


def stamped(data: bytes, stamp_ns: int) -> bytes:
    """The same message with another stamp."""
    out = bytearray(data)
    struct.pack_into("<iI", out, 4, *divmod(stamp_ns, 10**9))
    return bytes(out)


def played(messages: list[Message], count: int, hz: float) -> list[Message]:
    """Messages of a bag, repeated, with stamps one period apart."""
    stamps = [FIRST_S * 10**9 + round(k * 1e9 / hz) for k in range(count)]
    kinds = [messages[k % len(messages)] for k in range(count)]
    return [one._replace(data=stamped(one.data, stamp)) for one, stamp in zip(kinds, stamps, strict=True)]


def digest(data: bytes) -> str:
    """Digest of a message without the padding that DDS adds at its end."""
    return hashlib.sha256(data.rstrip(b"\0\1")).hexdigest()


def main() -> None:
    order = json.loads(sys.argv[1])
    source = list(BagReader(order["bag"]).messages([order["topic"]]))
    transforms = list(BagReader(order["bag"]).messages(["/tf", "/tf_static"])) if order.get("tf") else []
    messages = played(source, order["count"], order["hz"])
    with DdsNode(order["domain"], reliable=order.get("reliable", True)) as node:
        node.advertise(order["topic"], source[0].type)
        heard = node.subscribe(order["heard"], source[0].type, Quality(reliable=True, depth=200))
        until = time.monotonic() + order.get("patience", 60)
        while not (node.subscribers(order["topic"]) and heard.publishers):
            if time.monotonic() > until:
                sys.exit("no subscriber")
            time.sleep(0.01)
        time.sleep(0.2)
        for message in transforms:
            node.publish(message)
        time.sleep(0.1)
        sent_at: dict[int, float] = {}
        got: list[tuple[int, str, float]] = []

        def listen(until: float) -> None:
            while (left := until - time.monotonic()) > 0:
                heard.wait(left)
                now = time.monotonic()
                for data in heard.take():
                    stamp = stamp_and_frame(data)[0]
                    got.append((stamp, digest(data), now - sent_at[stamp]))
                if len(got) == len(messages):
                    return

        start = time.monotonic()
        for number, message in enumerate(messages):
            listen(start + number / order["hz"])
            sent_at[stamp_and_frame(message.data)[0]] = time.monotonic()
            node.publish(message)
        listen(time.monotonic() + order.get("wait", 3.0))
    print(json.dumps({"stamps": [one[0] for one in got], "digests": [one[1] for one in got],
                      "latencies": [one[2] for one in got]}))  # fmt: skip


if __name__ == "__main__":
    main()
