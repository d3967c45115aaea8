"""`parhelion materials`: the library of surfaces, as a table or one in detail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file

if TYPE_CHECKING:
    from parhelion import Material

EXAMPLES = (
    "parhelion materials",
    "parhelion materials --wavelength 1550",
    "parhelion materials leaf --png leaf.png",
)


def materials(
    name: Annotated[str | None, typer.Argument(help="A material, for its numbers and sources.")] = None,
    wavelength: Annotated[float, typer.Option(help="Wavelength of the reflectance, in nm.")] = 905.0,
    png: Annotated[Path | None, typer.Option(help="Picture of the spectrum.")] = None,
) -> None:
    """List the materials with their reflectance at a wavelength, or show one of them."""
    if name is not None:
        _show(name, wavelength, png)
    elif png is not None:
        example = "parhelion materials leaf --png leaf.png"
        raise typer.BadParameter(f"name the material to draw, such as: {example}", param_hint="--png")
    else:
        _list(wavelength)


def _list(wavelength_nm: float) -> None:
    from parhelion.surfaces.library import material, material_names

    rows = []
    for name in material_names():
        entry = material(name)
        rows.append((name, f"{100 * entry.reflectance_at(wavelength_nm):.1f}", _kind(entry), entry.description))
    share = f"% at {wavelength_nm:g} nm"
    screen.table("", ("material", share, "surface", "description"), rows, numbers=(share,))
    screen.say("Grey targets of any whole percent: lambert-0 to lambert-100.")


def _kind(material: Material) -> str:
    kinds: list[str] = [material.brdf.model]
    if material.specular is not None:
        kinds.append(material.specular.kind)
    if material.retro is not None:
        kinds.append("retro")
    return " + ".join(kinds)


def _show(name: str, wavelength_nm: float, png: Path | None) -> None:
    from parhelion.surfaces.library import material

    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    entry = material(name)
    first, last = entry.wavelength_range_nm
    details = [part for part in (entry.brdf, entry.specular, entry.retro) if part is not None]
    numbers = [f"{key} {value}" for part in details for key, value in part.model_dump().items() if value is not None]
    usual = [w for w in (850.0, 905.0, 1064.0, 1550.0) if first <= w <= last]
    screen.facts(
        entry.name,
        [
            ("description", entry.description),
            (f"at {wavelength_nm:g} nm", f"{100 * entry.reflectance_at(wavelength_nm):.1f} %"),
            ("elsewhere", ", ".join(f"{100 * entry.reflectance_at(w):.1f} % at {w:g} nm" for w in usual)),
            ("spectrum", f"{len(entry.spectrum.wavelength_um)} values from {first:g} to {last:g} nm"),
            ("surface", ", ".join(numbers)),
            *(("source", source) for source in entry.sources),
        ],
    )
    if png is not None:
        from parhelion.pictures import draw_spectrum

        draw_spectrum(entry, png, wavelength_nm)
        screen.say(f"wrote {png}")
