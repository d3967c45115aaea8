"""Photon transfer, and a street in rain and in snow as a camera stores it: docs/images/camera-electronics.png."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREY, RED, finish, sheet

import parhelion as ph
from parhelion.core.image import Intrinsics
from parhelion.core.random import Stream
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.optics.camera.electronics import SensorElectronics, axis_cosines, develop
from parhelion.sensors.optics.camera.lens_drops import lens_drops, through_lens_drops
from parhelion.sensors.optics.camera.readout import AutoExposure, Exposure
from parhelion.sensors.optics.camera.streaks import layer_of, streaks_of, with_layer
from parhelion.surfaces.wet import wet_factor

WIDTH, HEIGHT = 288, 216
LENS = Intrinsics(WIDTH, HEIGHT, 260.0, 260.0, 0.5 * (WIDTH - 1), 0.5 * (HEIGHT - 1))
SKY = np.array([7.0, 9.0, 10.0])
"""Radiance of an overcast sky in three bands [W/(m^2 sr)]."""
SENSOR = SensorElectronics()
APERTURE_M = 0.003
FINER = 3
"""Rays of a pixel, each way."""


def street(world: ph.World, *, wet: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Radiance (h, w, 3) of a city under an overcast sky, brighter from above, and depth (h, w)."""
    row, column = (np.mgrid[: FINER * HEIGHT, : FINER * WIDTH] + 0.5) / FINER - 0.5
    left, up = (LENS.cx - column) / LENS.fx, (LENS.cy - row) / LENS.fy
    direction = np.stack([np.ones_like(left), left, up], axis=-1).reshape(-1, 3)
    hits = RayScene(world.geometry()).cast(Rays.of(world.viewpoint.xyz, direction @ world.viewpoint.rotation.T))
    waves = SENSOR.wavelengths_nm
    table = np.array([[material.reflectance_at(nm) for nm in waves] for material in world.materials])
    reflectance = table[world.parts.material[np.maximum(hits.part, 0)]]
    if wet:
        reflectance = reflectance * wet_factor(reflectance)
    sky_seen = 0.5 * (1.0 + np.abs(hits.normal[:, 2]))
    radiance = np.where(hits.found[:, None], reflectance * SKY * (0.2 + 0.8 * sky_seen)[:, None], SKY)
    depth = hits.range / np.linalg.norm(direction, axis=1)
    mean = radiance.reshape(HEIGHT, FINER, WIDTH, FINER, 3).mean(axis=(1, 3))
    return mean, depth.reshape(HEIGHT, FINER, WIDTH, FINER).min(axis=(1, 3))


def shoot(world: ph.World, weather: ph.Weather, exposure_s: float, *, on_lens: int = 0) -> NDArray[np.uint8]:
    """The street in this weather."""
    radiance, depth = street(world, wet=weather.rain is not None)
    begin = perf_counter()
    streaks = streaks_of(weather, LENS, world.viewpoint, 4.0, exposure_s, aperture_m=APERTURE_M, focus_m=15.0)
    layer = layer_of(streaks, WIDTH, HEIGHT, depth)
    print(f"{weather!r}: {streaks.inside.sum()} streaks, {1e3 * (perf_counter() - begin):.0f} ms")
    planes = [radiance[..., band].ravel() for band in range(3)]
    planes = with_layer(planes, layer.share, layer.light, list(SKY))
    if on_lens:
        drops = lens_drops(LENS, seed=3, count=on_lens)
        planes = [through_lens_drops(plane, drops, WIDTH, HEIGHT) for plane in planes]
    auto = AutoExposure(target=0.2, min_time_s=1e-5, max_time_s=exposure_s)
    made = develop(planes, SENSOR, auto, Stream(1, "figure"), width=WIDTH, height=HEIGHT, cos_axis=axis_cosines(LENS))
    print(f"  {1e3 * made.exposure_time_s:.2f} ms, {made.gain_db:.1f} dB")
    # Fewer grey levels make a smaller file without a visible difference.
    return made.colour // 8 * 8 + 4


def draw_photon_transfer(axes: Any) -> None:
    """Noise of flat fields by their level, and the law that it follows."""
    sensor = SensorElectronics(wavelengths_nm=(550.0,), quantum_efficiency=(0.6,), bayer=None, white_balance="none")
    gain = sensor.dn_per_e()
    electrons = np.geomspace(1.0, 13_000.0, 30)
    found = []
    for number, level in enumerate(electrons):
        flat = np.full((100, 100), level / (sensor.electrons_per_radiance()[0] * 0.01))
        pair = [develop(flat, sensor, Exposure(0.01), Stream(2, "ptc", 2 * number + k), with_raw=True) for k in (0, 1)]
        one, two = (made.raw.astype(float) for made in pair if made.raw is not None)
        found.append((0.5 * (one + two).mean() - sensor.black_level_dn, np.sqrt(0.5) * (one - two).std(), one.std()))
    mean, noise, whole = np.array(found).T
    law = np.sqrt(gain * gain * (electrons + sensor.read_noise_e**2) + 1.0 / 12.0)
    axes.loglog(mean, whole, ".", color=GREY, markersize=4, label="one frame, with fixed pattern")
    axes.loglog(mean, noise, "o", color=BLUE, markersize=3.5, label="difference of two frames")
    axes.loglog(gain * electrons, law, color=RED, linewidth=1.0, label="√(K µ + K² σ² + 1/12)")
    axes.set(xlabel="signal above black [DN]", ylabel="noise [DN]", title="Photon transfer, 12 bits", ylim=(0.3, 60))
    axes.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    axes.legend(fontsize=7.5, loc="upper left")


if __name__ == "__main__":
    figure, panels = sheet(10.0, 2.9, 3, width_ratios=[1.25, 1.0, 1.0])
    draw_photon_transfer(panels[0])
    city = ph.World.load("city")
    rain, snow = ph.Weather(rain_rate_mm_h=50, wind_m_s=(0.0, 1.5, 0.0)), ph.Weather(snow_rate_mm_h=2)
    shots = (("Rain, 50 mm/h", rain, 0.008, 14), ("Snow, 2 mm/h", snow, 0.004, 0))
    for axes, (title, weather, exposure_s, on_lens) in zip(panels[1:], shots, strict=True):
        axes.imshow(shoot(city, weather, exposure_s, on_lens=on_lens), interpolation="nearest")
        axes.set(title=title, xticks=[], yticks=[])
    finish(figure, "camera-electronics")
