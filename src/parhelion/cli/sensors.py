"""`parhelion sensors`: every kind of sensor with its presets, as tables or one data sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen

if TYPE_CHECKING:
    from parhelion import Lidar
    from parhelion.sensors.kinds import SensorKind

EXAMPLES = (
    "parhelion sensors                       # every kind, with its presets",
    "parhelion sensors ouster/os1-128        # one data sheet, with sources and assumptions",
    "parhelion sensors bosch/bmi160",
    "parhelion sensors my-imu.yaml           # a sheet of your own, of any kind",
)


def sensors(
    name: Annotated[str | None, typer.Argument(help="A preset's name or a YAML file, for its data sheet.")] = None,
) -> None:
    """List all kinds of sensors with their presets, or show one data sheet with its sources and assumptions."""
    if name is None:
        _list()
        return
    kind = _kind_of(name)
    if kind.name == "lidar":
        _show(name)
    else:
        _show_sheet(kind.sensor(name), name)


def _kind_of(name: str) -> SensorKind:
    """The kind of sensor that a preset or a data sheet describes."""
    from parhelion.core.errors import unknown_name
    from parhelion.sensors.kinds import kind_of_sheet, kinds
    from parhelion.sensors.sheets import RENAMED, YAML_SUFFIXES

    presets = {
        preset: kind for kind in kinds().values() for preset in (*kind.preset_names(), *RENAMED.get(kind.name, ()))
    }
    if name.lower() in presets:
        return presets[name.lower()]
    if not name.lower().endswith(YAML_SUFFIXES):
        raise unknown_name("sensor", name, presets, "(or give the path of a YAML file)")
    return kind_of_sheet(name)


def _list() -> None:
    from parhelion.sensors.kinds import kinds

    for kind in kinds().values():
        if kind.name == "lidar":
            _list_lidars(kind.preset_names())
        else:
            rows = [(preset, f"{kind.sensor(preset).rate_hz:g}") for preset in kind.preset_names()]
            screen.table(kind.summary, ("sensor", "Hz"), rows, numbers=("Hz",))
    screen.say("One data sheet: parhelion sensors ouster/os1-128")


def _show_sheet(sensor: Any, name: str) -> None:
    """The fields of a data sheet, and where they come from."""
    sheet = sensor.config.model_dump(mode="json")
    sources, assumed = sheet.pop("sources", []), sheet.pop("assumed", {})
    rows = []
    for key, value in sheet.items():
        if isinstance(value, dict):
            rows += [(f"{key}.{inner}", str(number)) for inner, number in value.items() if number is not None]
        elif value is not None and key != "name":
            rows.append((key, str(value)))
    screen.facts(f"{sheet.get('name', name)}  ({name})", rows)
    _say_sources(sources, assumed)


def _list_lidars(presets: list[str]) -> None:
    from parhelion import Lidar

    rows = []
    for preset in presets:
        lidar = Lidar(preset)
        config = lidar.config
        rows.append(
            (
                preset,
                config.pattern.kind,
                _channels(lidar),
                screen.count(len(lidar.shots())),
                f"{lidar.rate_hz:g}",
                f"{lidar.max_range(0.1):.0f}",
                f"{lidar.max_range(0.9):.0f}",
                f"{config.wavelength_nm:g}",
            )
        )
    columns = ("sensor", "pattern", "channels", "shots/scan", "Hz", "m at 10 %", "m at 90 %", "nm")
    screen.table("lidars: one cloud a turn or frame", columns, rows, numbers=columns[2:])


def _channels(lidar: Lidar) -> int:
    import numpy as np

    return len(np.unique(lidar.shots().ring))


def _show(name: str) -> None:
    import numpy as np

    from parhelion import Lidar

    lidar = Lidar(name)
    config, shots = lidar.config, lidar.shots()
    elevation = np.degrees(shots.elevation)
    beam, limits, receiver = config.beam, config.range, config.receiver
    rated = ", ".join(f"{entry.range_m:g} m at {100 * entry.reflectance:g} %" for entry in limits.rated)
    # An azimuth range says nothing on a full turn, and wraps.
    azimuth = np.degrees(shots.azimuth)
    screen.facts(
        f"{config.name}  ({name})",
        [
            ("pattern", _pattern(lidar)),
            ("shots a scan", f"{screen.count(len(shots))}, {_channels(lidar)} channels"),
            ("azimuth", "full turn" if np.ptp(azimuth) > 350 else f"{azimuth.min():.1f} to {azimuth.max():.1f} deg"),
            ("elevation", f"{elevation.min():.2f} to {elevation.max():.2f} deg"),
            ("wavelength", f"{config.wavelength_nm:g} nm"),
            ("beam", _beam(beam)),
            ("range", f"{limits.min_m:g} to {limits.max_m:g} m, step {limits.resolution_m:g} m"),
            ("rated", rated),
            ("detects", ", ".join(f"{100 * r:g} % to {lidar.max_range(r):.0f} m" for r in (0.1, 0.5, 0.9))),
            ("returns", _returns(receiver)),
            ("noise", _noise(config.noise)),
            ("intensity", f"{config.intensity.scale} scale"),
        ],
    )
    sheet = config.model_dump(mode="json")
    _say_sources(sheet["sources"], sheet["assumed"])


def _say_sources(sources: list[dict[str, Any]], assumed: dict[str, str]) -> None:
    screen.say("\nsources")
    for source in sources:
        quoted = " (as commonly quoted, not checked against it)" if source.get("quoted") else ""
        screen.say(f"  - {source['title']}{quoted}: {', '.join(source['covers'])}")
        if source.get("note"):
            screen.say(f"    {' '.join(source['note'].split())}")
    if assumed:
        screen.say("\nassumed")
        for field, reason in assumed.items():
            screen.say(f"  - {field}: {' '.join(reason.split())}")


def _pattern(lidar: Lidar) -> str:
    pattern = lidar.config.pattern
    rates = sorted({pattern.rate_hz, *pattern.rates_hz})
    text = f"{pattern.kind}, {lidar.rate_hz:g} Hz"
    if len(rates) > 1:
        text += f" (offers {', '.join(f'{rate:g}' for rate in rates)} Hz)"
    columns = getattr(pattern, "columns_offered", [])
    if columns:
        text += f", {pattern.columns} columns (offers {', '.join(map(str, sorted({pattern.columns, *columns})))})"  # type: ignore[union-attr]
    return text


def _beam(beam: Any) -> str:
    wide, high = beam.divergence_mrad
    size = f"{wide:g} x {high:g} mrad at {beam.divergence_at}"
    return f"{size}, {beam.exit_diameter_mm:g} mm at the exit, {beam.profile} {beam.shape}, {beam.sub_rays} sub-rays"


def _returns(receiver: Any) -> str:
    offered = f" (offers {', '.join(receiver.returns_offered)})" if receiver.returns_offered else ""
    most = f"up to {receiver.max_returns}"
    return f"{receiver.returns}{offered}, {most}; echoes within {receiver.merge_distance_m:g} m merge"


def _noise(noise: Any) -> str:
    if noise.range_sigma_table:
        points = ", ".join(f"{100 * sigma:g} cm at {distance:g} m" for distance, sigma in noise.range_sigma_table)
        return f"range sigma {points}"
    text = f"range sigma {100 * noise.range_sigma_m:g} cm"
    if noise.range_sigma_snr_m:
        text += f" and {noise.range_sigma_snr_m:g} m / SNR"
    if noise.azimuth_jitter_deg or noise.elevation_jitter_deg:
        text += f", angles {noise.azimuth_jitter_deg:g} / {noise.elevation_jitter_deg:g} deg"
    return text
