"""The house plan: which rooms there are, what each holds and what it may import.

The architecture test holds the source to it, and docs/architecture.md shows it: `python tests/house_plan.py` writes the
tables of that page again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
PUBLIC = "(public-names)"
"""What `import parhelion` gives; it reaches into every room."""


@dataclass(frozen=True)
class Room:
    """One folder of the source."""

    name: str
    holds: str
    """One line for the page."""
    may_import: frozenset[str]
    """Rooms that its modules may import, beside itself."""


def _room(name: str, holds: str, imports: str = "") -> Room:
    return Room(name, holds, frozenset(imports.split()))


# From the foundation up: a room imports only rooms above it in the list.
ROOMS = (
    _room("core", "records, poses, trajectories, random streams, typed configuration, errors"),
    _room(
        "makers", "one folder per maker: packets, intensity scale, ROS layout and names, UDP, HTTP, metadata", "core"
    ),
    _room("rays", "the ray engine `cast(rays) -> hits`, and a slow float64 reference with the same signature", "core"),
    _room("surfaces", "BRDFs, materials, spectra, textures", "core"),
    _room("weather", "rain, fog, snow, dust: what they do to light, and `Weather`", "core"),
    _room("io", "one file a format, one table of them", "core makers"),
    _room("world", "geometry, materials, labels, actors, loaders", "core rays surfaces weather"),
    _room("motion", "body states, splines, recorded poses, vehicles, living actors, water", "core io world"),
    _room(
        "sensors",
        "one folder or file a sensor; `presets/` are data sheets",
        "core makers rays surfaces weather world motion",
    ),
    _room(
        "pictures",
        "scans, drives, worlds and what weather did, as images",
        "core rays surfaces weather io world",
    ),
    _room(
        "calibrate",
        "recordings → data sheets: a sensor's own noise from drives and boards",
        "core makers surfaces io world sensors pictures",
    ),
    _room(
        "scenario",
        "worlds, vehicles and sensors on one clock: what a scenario file says, and the walk through time",
        "core makers surfaces weather io world motion sensors",
    ),
    _room(
        "outputs",
        "writers of measurements: files, bags, captures, data sets, Foxglove recordings, the report",
        "core makers surfaces weather io world motion sensors pictures scenario",
    ),
    _room(
        "evaluate",
        "clouds against clouds, detections against labels, odometry against the truth, places for sensors, and the "
        "pages of it",
        "core rays weather io world motion sensors pictures scenario",
    ),
    _room(
        "campaign",
        "many runs of a scenario, on processes or a Dask cluster, into one table; data sets in bulk",
        "core rays weather io world sensors pictures scenario outputs evaluate",
    ),
    _room(
        "live",
        "ROS 2, packets over UDP, Foxglove, the viewer in the browser",
        "core makers weather io world motion sensors pictures scenario outputs",
    ),
    _room(
        "cli",
        "thin commands: parse, call, print",
        "core makers rays surfaces weather io world motion sensors pictures calibrate scenario outputs campaign "
        "evaluate live " + PUBLIC,
    ),
)

# The rooms inside `world/`. Its first row stands for the modules that lie in none of them.
WORLD_ROOMS = (
    _room("world", "`World` itself, meshes, shapes, parts, labels, loaders, world files, water surfaces"),
    _room("kit", "the parts that worlds are made of: buildings, vehicles, trees, props, waterfront", "world"),
    _room("procedural", "layouts, the rules that draw them, and the way from a layout to a world", "world kit"),
    _room("builtin", "worlds that come with the package, by name", "world kit procedural"),
    _room("urdf", "robots from URDF files", "world"),
)


# The rooms inside `sensors/`. Its first row stands for the modules that lie in none of them.
SENSOR_ROOMS = (
    _room("sensors", "the base class, the kinds, data sheets, and the scene that all kinds share"),
    _room("optics", "scenes, beams, air, sky and light, for lidars and cameras", "sensors"),
    _room("optics/lidar", "patterns, echoes, detection, weather, recorded clouds", "sensors optics"),
    _room("optics/camera", "lenses, exposures, electronics, depth, thermal", "sensors optics"),
    _room("waves", "scenes, mirror paths, bounces, diffraction, for radio and sound", "sensors"),
    _room("waves/radar", "chirps, targets, detections", "sensors waves"),
    _room("waves/echo", "sonar, ultrasonic and microphones", "sensors waves"),
    _room("waves/uwb", "ranging by radio, and Bluetooth", "sensors waves"),
    _room("waves/gnss", "satellites, receivers, positions", "sensors waves"),
    _room("body", "IMU, odometry, barometer, magnetometer", "sensors"),
)


def may_import(rooms: tuple[Room, ...]) -> dict[str, frozenset[str]]:
    """What each room may import, by its name."""
    return {room.name: room.may_import for room in rooms}


def table(rooms: tuple[Room, ...], folder: str = "") -> str:
    """The rooms as a table in Markdown; `folder` is the one that they lie in, and the first room then is itself."""
    names = [room.name for room in rooms]
    lines = ["| room | holds | may import |", "| --- | --- | --- |"]
    for room in rooms:
        place = folder if folder and room.name == names[0] else f"{folder}{room.name}/"
        lines.append(f"| `{place}` | {room.holds} | {_listed(room, names)} |")
    return "\n".join(lines)


def _listed(room: Room, names: list[str]) -> str:
    before = names[: names.index(room.name)]
    if PUBLIC in room.may_import:
        return "everything"
    return ", ".join(name for name in before if name in room.may_import) or "no other room"


TABLES = {
    "rooms": table(ROOMS),
    "rooms of the world": table(WORLD_ROOMS, "world/"),
    "rooms of the sensors": table(SENSOR_ROOMS, "sensors/"),
}
"""Tables of the page, by the name in the comments that mark their place."""


def with_tables(page: str) -> str:
    """The text of the page with every table as it is here."""
    for name, text in TABLES.items():
        begin, end = f"<!-- {name}: from tests/house_plan.py -->\n\n", "\n\n<!-- end -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE.name}: no place for the table {name!r}")
        page = before + begin + text + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
