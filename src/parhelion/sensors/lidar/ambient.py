"""What a sensor that counts photons writes down of every shot, returned or not: ambient light, and noise.

Ouster's pixels without a return are not empty. Their near infrared is that of whatever the beam looks at, and their
signal is the largest count of noise that the receiver found: in recordings 5 or 6 photons, where the weakest returns
have about as many.
"""

from __future__ import annotations

from dataclasses import dataclass

from parhelion.core.arrays import Ints, Keys, Reals, namespace
from parhelion.core.random import to_normal, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.rows import Rows
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.echoes import Echoes, EchoRows
from parhelion.sensors.lidar.intensity import near_infrared
from parhelion.sensors.light.beams import Beams
from parhelion.sensors.light.target import PartNames

SKY_REFLECTANCE = 0.35
"""The sky counts as bright as a surface of this reflectance in the same light: in recordings of an OS0 and an OS1,
pixels without a return, most of them sky, have the same median as others (607 and 586, 351 and 376 counts)."""
NOISE_COUNT = 0.98
NOISE_SPREAD = 0.3
"""Mean and standard deviation of the noise's largest count, as shares of the threshold: 5.4 and 1.6 photons of 5.5. The
recordings have a median of 5 and 6 photons, and 3 to 12 between their 5th and 95th percentiles."""
_DRAW = 8000


@kernel_tree()
@dataclass
class Ambient:
    """Counts of every beam, on the device."""

    near_ir: Reals = None
    """Ambient light [counts]."""
    noise: Reals = None
    """Signal of the noise [photons]."""

    def in_order(self, engine: Engine, beam: Ints) -> tuple[Reals, Reals]:
        """Both as arrays, for beams by number."""
        return engine.frozen(_in_order)(self, beam)


def ambient_light(
    engine: Engine,
    names: PartNames,
    echoes: Echoes,
    beams: Beams,
    keys: Keys | None,
    sun_klx: Reals,
    photons: Reals,
) -> Ambient:
    """Counts of all beams of a launch; `keys` are None where noise has no luck."""
    rows, each = (echoes.wide, echoes.slots) if echoes.probes is None else (echoes.probes.echoes, 4)
    everyone = Rows.kept(engine, beams.count)
    return engine.frozen(_ambient)(names, rows, engine.whole(each), beams, everyone, keys, sun_klx, photons)


def _ambient(
    names: PartNames,
    rows: EchoRows,
    each: Ints,
    beams: Beams,
    everyone: Rows,
    keys: Keys | None,
    sun_klx: Reals,
    photons: Reals,
) -> Ambient:
    engine = running_engine()
    dr, mi, beam = engine.dr, engine.mi, everyone.index
    # The first sub-ray of a beam says what it looks at.
    part = rows.at(beam * each).part
    reflectance = dr.select(part == NOTHING, SKY_REFLECTANCE, names.reflectance(part))
    luck = mi.Float(0.0)
    if keys is not None:
        shot, key = beams.draws(engine, beam, keys)
        a, b, _, _ = words(key, shot, _DRAW)
        luck = to_normal(a, b)[0]
    noise = namespace(luck).maximum(photons * (NOISE_COUNT + NOISE_SPREAD * luck), 0.0)
    found = Ambient(near_infrared(reflectance, sun_klx=sun_klx), noise)
    dr.eval(found.near_ir, found.noise)
    return found


def _in_order(ambient: Ambient, beam: Ints) -> tuple[Reals, Reals]:
    dr, mi = running_engine().dr, running_engine().mi
    values = dr.gather(mi.Float, ambient.near_ir, beam), dr.gather(mi.Float, ambient.noise, beam)
    dr.eval(*values)
    return values
