"""What a pulse-echo sensor measures: echoes as points, and what its microphones hear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from parhelion.core.files import write_whole
from parhelion.core.frame_points import FramePoints
from parhelion.core.measured import Record, column
from parhelion.core.pose import Floats
from parhelion.core.records import ORIGINS

SOUND = len(ORIGINS)
"""Value of `origin` of a sound of the world that comes straight; over mirrors it is multipath."""
ECHO_ORIGINS = (*ORIGINS, "sound")


@dataclass(frozen=True, eq=False)
class EchoWaveform(Record):
    """Sound pressure at each microphone, from the moment the pulse begins."""

    samples: NDArray[np.float32] = field(metadata=column("Pa", "sensor", "m", "t", dtype="float32"))
    """Shape (microphones, samples)."""
    rate_hz: float
    """Samples a second."""
    position: Floats = field(metadata=column("m", "sensor", "m", 3))
    """Of the microphones, shape (microphones, 3)."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("mt", np.shape(self.samples), strict=False))

    def save_wav(self, path: str | PathLike[str]) -> None:
        """Write all channels as 16-bit WAV, the loudest sample at full scale."""
        import io
        import wave
        from pathlib import Path

        peak = float(np.abs(self.samples).max(initial=0.0)) or 1.0
        pcm = np.round(self.samples.T / peak * 32767.0).astype("<i2")
        stream = io.BytesIO()
        with wave.open(stream, "wb") as file:
            file.setnchannels(self.samples.shape[0])
            file.setsampwidth(2)
            file.setframerate(round(self.rate_hz))
            file.writeframes(pcm.tobytes())
        write_whole(Path(path), stream.getvalue())


@dataclass(frozen=True, eq=False, repr=False)
class EchoScan(FramePoints):
    """One ping: its echoes, nearest first, and the world's sounds where it listens.

    Fields: range (half the way of an echo, the whole way of a sound), azimuth, elevation, path_length, attenuation,
    snr, bounces, label, instance, origin, source, time of arrival.
    """

    waveform: EchoWaveform | None = field(default=None, kw_only=True)
    """Where it was asked for."""
    nearest: float = field(default=float("inf"), kw_only=True)
    """Range of the first echo of its own pulse that passes the threshold [m]; infinite where none does."""
