"""Makers of lidars: one folder per maker with its packets, intensity scales, ROS driver, UDP and HTTP behaviour.

The field `maker` of a data sheet selects the maker. No other code checks who built a sensor. Other packages add a maker
through an entry point of the group `parhelion.makers` that names a `Maker`:

    [project.entry-points."parhelion.makers"]
    my_maker = "my_package.my_maker:MAKER"

Within one process, `ph.register_maker(MAKER)` does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.makers.codec import Codec
    from parhelion.makers.layouts import CloudLayout
    from parhelion.makers.scales import IntensityScale

GROUP = "parhelion.makers"
LOOPBACK = "127.0.0.1"

Endpoint = tuple[str, int]
"""IPv4 address and UDP port."""


class Datagram(NamedTuple):
    """One UDP datagram of a sensor or of a capture."""

    time_s: float
    """Time of sending or capture [s since 1970]; float64 resolves today's times to 0.3 us."""
    payload: bytes
    source: Endpoint
    target: Endpoint


@dataclass(frozen=True)
class RosDriver:
    """Names and point layout of a maker's ROS 2 driver."""

    topic: str = "/points"
    frame: str = "lidar"
    layout: CloudLayout | None = None
    """Layout of the driver's PointCloud2; None for x, y, z, intensity, ring, time (`layouts.XYZIRT`)."""
    second_return: str = ""
    """Suffix of the topic that carries second returns in dual mode; empty if all returns share one topic."""


@dataclass(frozen=True)
class Maker:
    """Maker of lidars.

    >>> from parhelion.makers import maker_called
    >>> maker_called("ouster").title
    'Ouster'
    """

    name: str
    """Value of `maker` in data sheets, and first part of preset names."""
    title: str
    """Name in messages, for example 'Velodyne'."""
    scales: Mapping[str, IntensityScale] = field(default_factory=dict)
    """Intensity scales by the name that data sheets use (`intensity.scale`)."""
    ros: RosDriver = RosDriver()
    codec: str = ""
    """Codec of the packets as `module:NAME`, imported on first use; empty if the packets are not implemented."""
    no_codec: str = ""
    """Reason for the lack of a codec, for error messages."""
    compared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By medium and preset: recordings or counts that points in the air were compared with; `*` for the other presets
    (docs/weather-validation.md)."""
    near_field: str = ""
    """Evidence for the near field of receivers without a comparison; empty if it is assumed."""

    def load_codec(self) -> Codec:
        """Codec of the maker's packets; raises ConfigError if there is none."""
        if not self.codec:
            raise ConfigError(self.no_codec or f"packets of the maker {self.name!r} are not known")
        found: Codec = resolve_name(self.codec)
        return found


_OWN = {
    "velodyne": "parhelion.makers.velodyne:MAKER",
    "ouster": "parhelion.makers.ouster:MAKER",
    "hesai": "parhelion.makers.hesai:MAKER",
    "robosense": "parhelion.makers.robosense:MAKER",
    "livox": "parhelion.makers.livox:MAKER",
    **{
        name: f"parhelion.makers.others:{name.upper()}"
        for name in ("sick", "hokuyo", "slamtec", "aeva", "leica", "riegl")
    },
}
_registered: dict[str, Maker] = {}


def makers() -> dict[str, Maker]:
    """All makers by name: built-in ones, those of other packages, and those added by `register_maker`."""
    return {**_own(), **_of_other_packages(), **_registered}


def register_maker(maker: Maker) -> None:
    """Add a maker within this process. Packages use an entry point of the group `parhelion.makers` instead."""
    if maker.name in _OWN:
        raise ConfigError(f"makers: {maker.name!r} is a built-in maker; choose another name")
    _registered[maker.name] = maker


def maker_called(name: str) -> Maker:
    """Maker of that name; an unknown name gives one without scales and packets."""
    return makers().get(name) or Maker(name, name.capitalize())


def codecs() -> dict[str, Codec]:
    """Codecs of all makers that have one, by the maker's name."""
    return {name: maker.load_codec() for name, maker in makers().items() if maker.codec}


@cache
def _own() -> dict[str, Maker]:
    return {name: resolve_name(place) for name, place in _OWN.items()}


@cache
def _of_other_packages() -> dict[str, Maker]:
    found: dict[str, Maker] = {}
    for entry in entry_points(group=GROUP):
        maker = entry.load()
        if not isinstance(maker, Maker):
            raise ConfigError(f"makers: the entry point {entry.name!r} ({entry.value}) is not a Maker")
        if maker.name in _OWN:
            raise ConfigError(f"makers: {entry.value} redefines the built-in maker {maker.name!r}")
        found[maker.name] = maker
    return found
