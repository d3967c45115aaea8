"""`parhelion shoot`: one image or several consecutive ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from parhelion.cli import screen
from parhelion.cli.measure import OutputFiles, ParamOption, ScaleOption, UpOption, frames_of, load_world, parse_pose
from parhelion.cli.recordings import check_file
from parhelion.cli.screen import start_engine
from parhelion.cli.weather_options import WeatherOptions, in_words, weather_options

if TYPE_CHECKING:
    from parhelion import Camera, Daylight, Image, Pose, World

EXAMPLES = (
    "parhelion shoot --world city --camera generic/vga -o city.png",
    "parhelion shoot --world harbour --camera flir/blackfly-s-16s2c --rain 25 -o rain.png --truth truth.png",
    "parhelion shoot --world city --camera generic/vga --rain 50 --rain-blend vane --denoise none -o vane.png",
    "parhelion shoot --world city --camera generic/vga --sun -20 --exposure 0.1 -o night.png",
    "parhelion shoot --world city --camera flir/boson-640 -o heat.png",
    "parhelion shoot --world city --camera generic/vga --time 2024-06-21T18:00+02:00 --at 52.5,13.4 -o evening.exr",
    "parhelion shoot --world city --camera micasense/rededge-mx --ndvi ndvi.png",
)
_SUN = "Light"
Denoise = Literal["auto", "filter", "oidn", "none"]
RainBlend = Literal["physical", "vane"]


@weather_options
def shoot(
    world: Annotated[str, typer.Option("--world", "-w", help="Built-in world, world file (.yaml) or mesh file.")],
    camera: Annotated[str, typer.Option("--camera", "-c", help="Preset, such as generic/vga, or a YAML file.")],
    pose: Annotated[
        str | None, typer.Option(metavar="X,Y,Z[,R,P,Y]", help="Camera position in m; roll, pitch, yaw in degrees.")
    ] = None,
    start: Annotated[float, typer.Option("--start", help="Start time in s.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    pictures: Annotated[
        int, typer.Option(min=1, help="Number of consecutive images, along the path of the world or at --pose.")
    ] = 1,
    samples: Annotated[int, typer.Option(min=1, help="Rays per pixel; more rays take longer and reduce grain.")] = 16,
    bounces: Annotated[int, typer.Option(min=0, help="Maximum number of further scattering events per path.")] = 1,
    width: Annotated[int | None, typer.Option(help="Image width in pixels, at the same field of view.")] = None,
    height: Annotated[int | None, typer.Option(help="Image height in pixels, at the same field of view.")] = None,
    exposure: Annotated[
        float | None, typer.Option(help="Exposure time in s. Default: the camera's automatic exposure.")
    ] = None,
    gain: Annotated[float | None, typer.Option(help="Gain in dB, with --exposure.")] = None,
    noise: Annotated[bool, typer.Option("--noise/--no-noise", help="With or without sensor noise.")] = True,
    denoise: Annotated[
        Denoise,
        typer.Option(help="Removal of rendering grain: built-in filter, Intel's denoiser (requires pyoidn), or none."),
    ] = "auto",
    rain_blend: Annotated[
        RainBlend, typer.Option(help="Blend of rain streaks: by drop sizes and exposure, or the image blend of VANE.")
    ] = "physical",
    lens_drops: Annotated[int, typer.Option(min=0, help="Number of water drops on the lens.")] = 0,
    calibration: Annotated[
        Path | None, typer.Option(help="Lens of your own camera: a calibration file of OpenCV or ROS (YAML).")
    ] = None,
    material: Annotated[str | None, typer.Option(help="Material of a mesh file that names none.")] = None,
    up: UpOption = None,
    scale: ScaleOption = None,
    param: ParamOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File (.png .jpg .tiff .exr .npz), or a folder for several.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Image sheet with depth, normals, classes, instances and optical flow.")
    ] = None,
    ndvi: Annotated[
        Path | None, typer.Option(help="Image of the vegetation index; requires the bands red and nir.")
    ] = None,
    sun: Annotated[
        float | None,
        typer.Option("--sun", help="Elevation of the sun in degrees; below 0 is night.", rich_help_panel=_SUN),
    ] = None,
    azimuth: Annotated[
        float | None, typer.Option(help="Azimuth of the sun in degrees, clockwise from north.", rich_help_panel=_SUN)
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", help="Date and time with time zone; requires --at and pvlib.", rich_help_panel=_SUN),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="LAT,LON", help="Latitude and longitude in degrees.", rich_help_panel=_SUN),
    ] = None,
    turbidity: Annotated[
        float | None, typer.Option(help="Haze: 2 arctic, 3 clear, 10 thick.", rich_help_panel=_SUN)
    ] = None,
    cloud: Annotated[
        float | None, typer.Option(help="Optical depth of clouds: 0 none, 10 overcast.", rich_help_panel=_SUN)
    ] = None,
    *,
    weather: WeatherOptions,
) -> None:
    """Take images of a world with a camera, and print a summary."""
    from parhelion import Camera, Image

    place = parse_pose(pose)
    several = pictures > 1
    files = None if output is None else OutputFiles(Image, output, None, several=several)
    for file in (truth, ndvi):
        if file is not None:
            check_file(file)
    wanted = (
        ("depth", "normal", "label", "instance", "mobility", "flow", "objects")
        if truth is not None
        else ("depth", "label")
    )
    eye = Camera(
        camera,
        width=width,
        height=height,
        samples=samples,
        bounces=bounces,
        truth=wanted,
        noise=noise,
        exposure_s=exposure,
        gain_db=gain,
        denoise=denoise,
        lens_drops=lens_drops,
        rain_blend=rain_blend,
        calibration=calibration,
    )
    if ndvi is not None and not {"red", "nir"} <= set(eye.config.sensor.band_names):
        raise typer.BadParameter(f"{camera} does not have the bands red and nir", param_hint="--ndvi")
    scene = load_world(world, material, up, scale, param)
    scene.weather = weather.weather(scene.weather)
    scene.daylight = _daylight(scene.daylight, sun, azimuth, time, at, turbidity, cloud)
    start_engine()
    seconds = 0.0
    with screen.progress("shooting", pictures) as advance:
        for number, (image, took) in enumerate(frames_of(eye, scene, place, start, pictures, seed)):
            seconds += took
            if files is not None:
                files.write(image, number)
            advance()
    written = [] if files is None else [files.path]
    if truth is not None:
        from parhelion.pictures.camera import draw_image

        draw_image(image, truth)
        written.append(truth)
    if ndvi is not None:
        _draw_ndvi(eye, scene, place, start, seed, ndvi)
        written.append(ndvi)
    _print(eye, scene, image, seconds / pictures)
    for file in written:
        screen.print_line(f"wrote {file}")


def _daylight(
    own: Daylight | None,
    sun: float | None,
    azimuth: float | None,
    time: str | None,
    at: str | None,
    turbidity: float | None,
    cloud: float | None,
) -> Daylight | None:
    """Daylight of the world with the changes of the options."""
    from parhelion import ConfigError, Daylight
    from parhelion.core.config import parse

    fields = {} if own is None else own.model_dump(mode="python", exclude_defaults=True)
    if time is not None or at is not None:
        fields = {name: value for name, value in fields.items() if not name.startswith("sun_")}
        fields["time"] = time
        try:
            fields["latitude_deg"], fields["longitude_deg"] = map(float, (at or "").split(","))
        except ValueError:
            raise ConfigError(f"--at: expected LAT,LON to go with --time, got {at!r}") from None
    changes = {
        "sun_elevation_deg": sun,
        "sun_azimuth_deg": azimuth,
        "turbidity": turbidity,
        "cloud_optical_depth": cloud,
    }
    fields |= {name: value for name, value in changes.items() if value is not None}
    return parse(Daylight, fields, "daylight") if fields else own


def _draw_ndvi(camera: Camera, world: World, place: Pose | None, start: float, seed: int, file: Path) -> None:
    """Vegetation index of the linear radiance, before the gamma curve of the sensor."""
    from parhelion import Camera
    from parhelion.pictures.camera import draw_ndvi

    plain = Camera(
        camera.config,
        samples=camera.samples,
        bounces=camera.bounces,
        truth=("depth",),
        developed=False,
        name=camera.name,
    )
    draw_ndvi(plain.shoot(world, pose=place, time=start, seed=seed), file, plain.reflected_light(world, start))


def _print(camera: Camera, world: World, image: Image, took: float) -> None:
    import numpy as np

    rows = [("pictures", f"{image.width} x {image.height} pixels, {', '.join(image.bands)}")]
    if "exposure_s" in image.metadata:
        exposure, gain = image.metadata["exposure_s"], image.metadata["gain_db"]
        rows.append(("exposure", f"{1e3 * exposure:.3g} ms, gain {gain:.1f} dB"))
    if world.weather is not None:
        rows.append(("weather", in_words(world.weather)))
    if image.depth is not None and np.isfinite(image.depth).any():
        near, far = np.percentile(image.depth[np.isfinite(image.depth)], [1, 99])
        rows.append(("depth", f"{near:.1f} to {far:.1f} m for 98 % of the pixels"))
    rows.append(("time taken", f"{took:.2f} s per image, including set-up for the first one"))
    screen.facts(f"{camera.config.name} in {world.name or 'the world'}", rows)
    if image.label is not None:
        numbers, pixels = np.unique(image.label, return_counts=True)
        names = {**image.names.get("label", {}), 0: "sky"}
        table = sorted(zip(pixels.tolist(), numbers.tolist(), strict=True), reverse=True)[:12]
        labels = [(names.get(n, str(n)), screen.count(p), screen.percent(p / image.label.size)) for p, n in table]
        screen.table("", ("label", "pixels", "share"), labels, numbers=("pixels", "share"))
