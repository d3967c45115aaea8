"""Packages of the source: the contents of each one, and the packages that it may import.

`tests/unit/test_architecture.py` checks the source against this list. `python tests/packages.py` writes the tables of
docs/architecture.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
PUBLIC = "(public-names)"
"""Public names of `import parhelion`, which come from every package."""


@dataclass(frozen=True)
class Package:
    """One folder of the source."""

    name: str
    holds: str
    """One line for the page."""
    may_import: frozenset[str]
    """Packages that its modules may import, in addition to itself."""


def _package(name: str, holds: str, imports: str = "") -> Package:
    return Package(name, holds, frozenset(imports.split()))


# Ordered from the base up: a package imports only packages that precede it in the list.
PACKAGES = (
    _package("core", "records, poses, trajectories, random streams, typed configuration, errors"),
    _package(
        "makers", "one folder per maker: packets, intensity scale, ROS layout and names, UDP, HTTP, metadata", "core"
    ),
    _package(
        "rays", "the ray engine `cast(rays) -> hits`, and a slow float64 reference with the same signature", "core"
    ),
    _package("surfaces", "BRDFs, materials, spectra, textures", "core"),
    _package("weather", "rain, fog, snow, dust, spray: their effects on light, and `Weather`", "core"),
    _package("io", "one file per format, and the table of formats", "core makers"),
    _package("world", "geometry, materials, labels, actors, loaders", "core rays surfaces weather"),
    _package("motion", "body states, splines, recorded poses, vehicles, living actors, water", "core io world"),
    _package(
        "contact",
        "rigid bodies on wheels: ground that carries vehicles, walls that stop them",
        "core rays world motion",
    ),
    _package(
        "sensors",
        "one folder or file per sensor; `presets/` holds data sheets",
        "core makers rays surfaces weather world motion",
    ),
    _package(
        "pictures",
        "images of scans, drives, worlds and weather effects; charts and report pages",
        "core rays surfaces weather io world",
    ),
    _package(
        "calibrate",
        "recordings → data sheets: noise and intensity of a sensor, fitted to drives and boards",
        "core makers surfaces io world sensors pictures",
    ),
    _package(
        "rebuild",
        "recordings → worlds: poses, surfels, votes of shots, reflectance, and the folder of the place",
        "core makers rays io world sensors pictures calibrate",
    ),
    _package(
        "scenario",
        "worlds, vehicles and sensors on one clock: the scenario file, and the simulation in time steps",
        "core makers surfaces weather io world motion contact sensors",
    ),
    _package(
        "outputs",
        "writers of measurements: files, bags, captures, data sets, Foxglove recordings, the report",
        "core makers surfaces weather io world motion contact sensors pictures scenario",
    ),
    _package(
        "evaluate",
        "comparison of clouds, detections with labels, and odometry with ground truth; sensor placement; report pages",
        "core rays weather io world motion sensors pictures scenario",
    ),
    _package(
        "campaign",
        "many runs of a scenario, in processes or on a Dask cluster, collected in one table; large data sets",
        "core rays weather io world motion sensors pictures scenario outputs evaluate",
    ),
    _package(
        "detect",
        "a detector of road users: training on simulated streets, and scores of any detector by weather",
        "core weather world motion sensors pictures outputs evaluate campaign",
    ),
    _package(
        "live",
        "ROS 2, packets over UDP, Foxglove, browser viewer",
        "core surfaces makers weather io world motion contact sensors pictures scenario outputs",
    ),
    _package(
        "gym",
        "Gymnasium environments: scenarios that an agent drives",
        "core rays world motion contact sensors pictures scenario",
    ),
    _package(
        "cli",
        "thin commands: parse, call, print",
        "core makers rays surfaces weather io world motion contact sensors pictures calibrate rebuild scenario outputs "
        "campaign evaluate detect live gym " + PUBLIC,
    ),
)

# Packages inside `world/`. The first row stands for the modules outside of them.
WORLD_PACKAGES = (
    _package("world", "`World`, meshes, shapes, parts, labels, loaders, world files, water surfaces"),
    _package("kit", "components of worlds: buildings, vehicles, trees, props, waterfront", "world"),
    _package(
        "procedural",
        "layouts, the rules that generate them, and the construction of a world from a layout",
        "world kit",
    ),
    _package("maps", "worlds from maps by their tags, and from floor plans", "world kit procedural"),
    _package("roads", "worlds from OpenDRIVE: surfaces, objects, graph of lanes", "world kit maps"),
    _package("builtin", "built-in worlds, by name", "world kit procedural roads"),
    _package("urdf", "robots from URDF files", "world"),
)


# Packages inside `sensors/`. The first row stands for the modules outside of them.
SENSOR_PACKAGES = (
    _package("sensors", "base class, kinds, data sheets, and the scene shared by all kinds"),
    _package("optics", "scenes, beams, air, sky and light, for lidars and cameras", "sensors"),
    _package("optics/lidar", "patterns, echoes, detection, weather, recorded clouds", "sensors optics"),
    _package("optics/camera", "lenses, exposures, electronics, depth, thermal", "sensors optics"),
    _package("waves", "scenes, mirror paths, bounces, diffraction, for radio and sound", "sensors"),
    _package("waves/radar", "chirps, targets, detections", "sensors waves"),
    _package("waves/echo", "sonar, ultrasonic and microphones", "sensors waves"),
    _package("waves/uwb", "ranging by radio, and Bluetooth", "sensors waves"),
    _package("waves/gnss", "satellites, receivers, positions", "sensors waves"),
    _package("body", "IMU, odometry, barometer, magnetometer", "sensors"),
)


def may_import(packages: tuple[Package, ...]) -> dict[str, frozenset[str]]:
    """Allowed imports by package name."""
    return {package.name: package.may_import for package in packages}


def table(packages: tuple[Package, ...], folder: str = "") -> str:
    """Markdown table of the packages; the first package stands for `folder` itself if `folder` is given."""
    names = [package.name for package in packages]
    lines = ["| package | holds | may import |", "| --- | --- | --- |"]
    for package in packages:
        place = folder if folder and package.name == names[0] else f"{folder}{package.name}/"
        lines.append(f"| `{place}` | {package.holds} | {_listed(package, names)} |")
    return "\n".join(lines)


def _listed(package: Package, names: list[str]) -> str:
    before = names[: names.index(package.name)]
    if PUBLIC in package.may_import:
        return "everything"
    return ", ".join(name for name in before if name in package.may_import) or "no other package"


TABLES = {
    "packages": table(PACKAGES),
    "packages of the world": table(WORLD_PACKAGES, "world/"),
    "packages of the sensors": table(SENSOR_PACKAGES, "sensors/"),
}
"""Tables of the page, by the name in the comments that mark their position."""


def with_tables(page: str) -> str:
    """Text of the page with every table regenerated."""
    for name, text in TABLES.items():
        begin, end = f"<!-- {name}: from tests/packages.py -->\n\n", "\n\n<!-- end -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE.name}: no place for the table {name!r}")
        page = before + begin + text + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
