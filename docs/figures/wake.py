"""Wake of a vessel from above and along its course: docs/images/wake.png."""

from __future__ import annotations

import numpy as np
from page import BLUE, GREY, ORANGE, finish, sheet

from parhelion.motion.wake import KELVIN_ANGLE_RAD, kelvin_waves, transverse_length_m

SPEED_M_S = 4.0

if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 3.3, 2, width_ratios=(1.3, 1.0))
    x, y = np.linspace(0.0, 120.0, 361), np.linspace(-50.0, 50.0, 301)
    behind, aside = np.meshgrid(x, y, indexing="ij")
    height = np.concatenate([
        kelvin_waves(b, a, SPEED_M_S, 0.5)[0] for b, a in zip(behind, aside, strict=True)
    ]).reshape(behind.shape)  # fmt: skip
    shown = left.pcolormesh(x, y, 100.0 * height.T, cmap="RdBu_r", vmin=-8, vmax=8, rasterized=True)
    for sign in (-1.0, 1.0):
        left.plot(x, sign * np.tan(KELVIN_ANGLE_RAD) * x, "--", color=GREY, linewidth=1.0)
    left.set(xlabel="behind the bow [m]", ylabel="aside [m]", title="4 m/s, lines at 19.47°", ylim=(-50, 50))
    figure.colorbar(shown, ax=left, label="height [cm]", shrink=0.85)
    length = transverse_length_m(SPEED_M_S)
    course = kelvin_waves(x, np.zeros_like(x), SPEED_M_S, 0.5)[0]
    k = 2.0 * np.pi / length
    far = x > 0.5 * length
    share = 0.1 * SPEED_M_S**2 / (2.0 * 9.80665) * np.exp(-0.5 * (0.5 * k) ** 2)
    phase = share * np.sqrt(2.0 * np.pi / (k * x[far])) * np.cos(k * x[far] + np.pi / 4.0)
    right.plot(x, 100.0 * course, color=BLUE, label="sum of the waves")
    right.plot(x[far], 100.0 * phase, "--", color=ORANGE, label="stationary phase")
    right.set(xlabel="behind the bow [m]", ylabel="height [cm]", title=f"On the course: length 2πv²/g = {length:.1f} m")
    right.legend(fontsize=8)
    finish(figure, "wake")
