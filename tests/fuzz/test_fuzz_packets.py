"""Damaged packets of every maker: decoders skip or refuse them, and never fail otherwise.

`python tests/fuzz/test_fuzz_packets.py 100000` tries that many packets of each maker.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ParhelionError
from parhelion.makers import Datagram, codecs

MODELS = {
    "velodyne": ["velodyne/vlp-16"],
    "ouster": ["ouster/os1-32"],
    "hesai": ["hesai/xt32", "hesai/pandar64"],
    "robosense": ["robosense/rs-16", "robosense/helios-32"],
    "livox": ["livox/mid-360", "livox/avia"],
}
PACKETS_PER_CALL = 64


@cache
def sent_by(model: str) -> tuple[list[bytes], dict[str, object] | None]:
    """Packets of one scan, and the metadata that decoding needs."""
    world = ph.World()
    world.add(ph.shapes.box(8, 8, 4), material="concrete")
    scan = ph.Lidar(model, sub_rays=1).scan(world, pose=ph.Pose(), seed=1)
    stream = codecs()[model.split("/", maxsplit=1)[0]].stream(model, epoch_s=1.7e9)
    packets = [one.payload for one in [*stream.add(scan), *stream.finish()]]
    return packets, None if stream.metadata is None else dict(stream.metadata)


def damaged(packet: bytes, chance: random.Random) -> bytes:
    """One packet with changed, missing or further bytes; its first bytes mostly stay, so that it is recognised."""
    data = bytearray(packet)
    kind = chance.random()
    for _ in range(chance.choice((0, 1, 2, 8, 64))):
        place = chance.randrange(len(data)) if chance.random() < 0.5 else chance.randrange(min(64, len(data)))
        data[place] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    if kind < 0.05:
        del data[chance.randrange(len(data)) :]
    elif kind < 0.1:
        data += bytes(chance.randrange(1, 64))
    elif kind < 0.3:
        start = chance.randrange(len(data))
        data[start : start + 16] = bytes(chance.randrange(256) for _ in range(min(16, len(data) - start)))
    return bytes(data)


def recordings(model: str, count: int, seed: int) -> Iterator[list[Datagram]]:
    """Short recordings with some damaged, missing, repeated and late packets."""
    packets, _ = sent_by(model)
    chance = random.Random(f"{seed}/{model}")
    for _ in range(0, count, PACKETS_PER_CALL):
        start = chance.randrange(max(1, len(packets) - PACKETS_PER_CALL))
        found = packets[start : start + PACKETS_PER_CALL]
        found = [damaged(one, chance) if chance.random() < 0.7 else one for one in found]
        if chance.random() < 0.3:
            chance.shuffle(found)
        yield [Datagram(1.7e9 + 1e-3 * k, one, ("127.0.0.1", 1), ("127.0.0.1", 2)) for k, one in enumerate(found)]


def try_packets(model: str, count: int, seed: int) -> tuple[int, int, float]:
    """Recordings that were read and refused, and the slowest [s]."""
    codec, metadata = codecs()[model.split("/", maxsplit=1)[0]], sent_by(model)[1]
    is_own = codec.recogniser(metadata)
    read, refused, slowest = 0, 0, 0.0
    for datagrams in recordings(model, count, seed):
        begun = time.perf_counter()
        own = [one for one in datagrams if is_own(one.payload)]
        try:
            for scan in codec.frames(own, model=None, metadata=metadata, source="fuzz"):
                assert np.isfinite(scan.xyz).all()
                assert np.isfinite(scan.shots.direction).all()
                assert len(scan.shots) < 4_000_000
            read += 1
        except ParhelionError:
            refused += 1
        if codec.has_imu:
            codec.imu(one.payload for one in datagrams)
        slowest = max(slowest, time.perf_counter() - begun)
    return read, refused, slowest


@pytest.mark.parametrize("maker", ["hesai", "robosense", "livox"])
def test_damaged_packets(maker: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for model in MODELS[maker]:
            read, _, slowest = try_packets(model, 1000, 3)
            assert read > 0
            assert slowest < 5.0


if __name__ == "__main__":
    for name, models in MODELS.items():
        for one in models:
            print(name, one, *try_packets(one, int(sys.argv[1]) // len(models), 7))
