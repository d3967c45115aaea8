"""Report pages: headings, tables, figures, legends. All text is escaped; a page loads nothing and executes nothing
but the script that saves its figures.

html.write_page(path, html.page("Title", html.section("anchor", "Heading", html.table(columns, rows))))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from os import PathLike
from typing import Any
from urllib.parse import quote

from parhelion.core.files import atomic_write
from parhelion.pictures import export

LIGHT = ("#c2600c", "#2069c4", "#178050", "#b02a6b", "#6a4bc4", "#0b7f8f", "#8a6a00", "#606a78")
"""Curve colours by number on a light page."""
DARK = ("#ffb454", "#62adff", "#54c98a", "#ff7ab6", "#b294ff", "#4fd0dd", "#e6d055", "#c3cad3")
"""Curve colours by number on a dark page, and on maps, which are always dark."""

# The browser loads nothing, and executes only a script with this hash, regardless of the text of a page.
_POLICY = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src '{export.HASH}'"
_STACKED_FROM = 3
"""Tables of at least this many columns show each row as a list on narrow pages."""
_LONG = 24
"""Number of characters above which a cell may break anywhere, also inside of a name."""

_STYLE = """
:root { color-scheme: light dark; --sheet: #f6f7f9; --card: #ffffff; --ink: #1b2330; --muted: #5d6978;
  --line: #dfe3e9; --accent: #b4560a; --bar: #f3c58f; --shade: #10151c; LIGHT }
@media (prefers-color-scheme: dark) { :root { --sheet: #0e1116; --card: #151a21; --ink: #dfe5ec; --muted: #8d99a8;
  --line: #2b323c; --accent: #ffb454; --bar: #6d4d24; --shade: #0a0c10; DARK } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--sheet); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; } h3 { font-size: .95rem; margin: 1.2rem 0 .4rem; }
p { margin: .3rem 0; } .lead, .note, figcaption { color: var(--muted); } .note, figcaption { font-size: .86rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: .7rem; margin: 1.3rem 0; }
.tiles div, figure, .wide { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tiles div { padding: .65rem .9rem; } .tiles b { display: block; font-size: 1.25rem; font-weight: 600;
  white-space: nowrap; font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.tiles span { color: var(--muted); font-size: .84rem; }
figure { margin: 0 0 .9rem; padding: .8rem; min-width: 0; } figcaption { margin-top: .45rem; }
figure > b { display: block; margin-bottom: .4rem; font-weight: 600; overflow-wrap: anywhere; }
img, :not(svg) > svg { display: block; width: 100%; height: auto; border-radius: 6px; }
img.scan { height: 84px; margin-bottom: .35rem; } .cloud, .scan, .frame, .shot { background: var(--shade); }
.contacts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(13rem, 45%), 1fr)); gap: .6rem; }
.contacts span { color: var(--muted); font-size: .82rem; font-variant-numeric: tabular-nums; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); gap: .4rem .9rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(25rem, 100%), 1fr)); gap: .9rem;
  margin-bottom: .9rem; }
.pair figure { margin: 0; } .wide + figure, .wide + .pair, .note + .pair { margin-top: .9rem; }
.scale { display: flex; align-items: center; gap: .6rem; color: var(--muted); font-size: .82rem; margin: .1rem 0 .5rem;
  font-variant-numeric: tabular-nums; } .scale i { flex: 0 1 9rem; height: .55rem; border-radius: 3px; }
.key { display: flex; flex-wrap: wrap; gap: .15rem 1rem; font-size: .84rem; color: var(--muted); margin-top: .35rem; }
.key i, td i { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin-right: .4rem; }
.key i { vertical-align: -.05em; background: var(--k); }
.key i.line, .key i.thick, .key i.dashed { width: 1.2rem; height: .17rem; vertical-align: .22em; }
.key i.thick { height: .3rem; opacity: .5; }
.key i.dashed { background: repeating-linear-gradient(90deg, var(--k) 0 .28rem, #0000 0 .46rem); }
.key i.dots { border-radius: 50%; width: .5rem; height: .5rem; } .key i.rings { border-radius: 50%; background: none;
  border: 2px solid var(--k); } .key i.crosses { background: none; width: auto; height: auto; }
.key i.crosses::before { content: "×"; color: var(--k); font: 700 1.1em/0 system-ui; }
.wide { overflow-x: auto; padding: .2rem .9rem; background: linear-gradient(90deg, var(--card) 40%, #0000) 0 0/2rem 100%
  no-repeat local, linear-gradient(270deg, var(--card) 40%, #0000) 100% 0/2rem 100% no-repeat local,
  linear-gradient(90deg, var(--line), #0000) 0 0/.7rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--line), #0000) 100% 0/.7rem 100% no-repeat scroll, var(--card); }
.save { display: flex; justify-content: flex-end; gap: .1rem; font-size: .74rem; } figure > .save { float: right; }
.save button { all: unset; cursor: pointer; color: var(--muted); padding: .1rem .35rem; border-radius: 4px; }
.save button:hover, .save button:focus-visible { color: var(--accent); background: var(--sheet); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .36rem 1.1rem .36rem 0; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; } th { color: var(--muted); font-weight: 500; }
td:last-child, th:last-child { padding-right: 0; } td.n, th.n, .mean { text-align: right; } td { white-space: nowrap; }
.long, .mean, .facts td:last-child { white-space: normal; } .long { overflow-wrap: anywhere; min-width: 9rem; }
.facts td:first-child { color: var(--muted); width: 1%; padding-right: 1.6rem; }
.facts td:last-child { overflow-wrap: anywhere; }
.share { display: block; height: .5rem; margin: .45rem 0; min-width: 2px; border-radius: 3px; background: var(--bar); }
td.shares { width: 34%; min-width: 5rem; }
code { font: .86em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
details { margin-top: .6rem; } summary { cursor: pointer; color: var(--accent); padding: .3rem 0; }
svg text { fill: var(--muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg.map text { font-size: 13px; }
svg .mid { text-anchor: middle; } svg .end { text-anchor: end; }
svg .grid { stroke: var(--line); fill: none; } svg .axis { stroke: var(--muted); fill: none; }
svg .dots { fill: none; stroke-width: 2.4; stroke-linecap: round; } svg .dots.large { stroke-width: 5.2; }
svg .rings { fill: none; stroke-width: 1.4; } svg .line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
svg .dashed { stroke-dasharray: 5 4; } svg .thick { stroke-width: 4; stroke-opacity: .5; }
svg .band { opacity: .28; stroke: none; }
svg .mapgrid { stroke: #fff; stroke-opacity: .13; fill: none; } svg .way { fill: none; stroke-width: 2.6; }
svg .halo { fill: none; stroke: #0a0c10; stroke-opacity: .75; stroke-width: 5.4; stroke-linejoin: round; }
svg .other { fill: none; stroke: #fff; stroke-opacity: .75; stroke-width: 1.3; stroke-dasharray: 3 4; }
svg .start { fill: #0a0c10; stroke-width: 2.4; } svg .stop { stroke: #0a0c10; stroke-width: 1.6; }
COLOURS
@media (max-width: 640px) { main { padding: 1.2rem .8rem 3rem; } h1 { font-size: 1.4rem; } img.scan { height: 56px; }
  svg text { font-size: 14px; } .panels svg text { font-size: 11.5px; } svg.map text { font-size: 21px; }
  svg.map .way { stroke-width: 5; } svg.map .halo { stroke-width: 9; } figure { padding: .6rem; }
  .tiles { grid-template-columns: repeat(3, 1fr); gap: .5rem; }
  .tiles div { padding: .45rem .6rem; } .tiles b { font-size: .95rem; }
  table { font-size: .86rem; } th, td { padding-right: .7rem; } .long { min-width: 8rem; }
  .stack, .stack tbody, .stack tr { display: block; } .stack thead, .stack td:empty { display: none; }
  .stack tr { padding: .45rem 0; border-bottom: 1px solid var(--line); } .stack tr:last-child { border-bottom: 0; }
  .stack td { display: flow-root; width: auto; min-width: 0; padding: .1rem 0; border-bottom: 0; text-align: right;
    white-space: normal; overflow-wrap: anywhere; }
  .stack td::before { content: attr(data-th); float: left; padding-right: 1rem; color: var(--muted); }
  .stack td:first-child { font-weight: 600; text-align: left; } .stack td:first-child:not(.n)::before { display: none; }
  .facts td:first-child { white-space: normal; width: 40%; padding-right: .8rem; }
  figure:has(.sheet) { overflow-x: auto; } img.sheet { width: 54rem; }
  .cloud { min-height: 13rem; object-fit: cover; } }
@media print { body { background: #fff; } .save { display: none; } figure, .wide { break-inside: avoid; } }
"""


class Raw(str):
    """Text that is already HTML."""

    __slots__ = ()


def text(value: Any) -> str:
    """A value as HTML."""
    return str(value) if isinstance(value, Raw) else escape(str(value))


def count(number: int) -> str:
    """Integer with digit groups: 12 345 678."""
    return f"{number:,}".replace(",", " ")


def shown(value: float | None, form: str = ".4g") -> str:
    """A number for a table, below ten million without an exponent; a dash for None."""
    words = "–" if value is None else format(value, form)
    return count(round(value)) if value is not None and "e+0" in words and abs(value) < 1e7 else words


def with_interval(mean: float | None, low: float | None, high: float | None, form: str = ".3g") -> str:
    """A mean with its interval: '0.25 (0.21 to 0.30)'; a dash for no mean."""
    if mean is None or low is None or high is None:
        return shown(mean, form)
    # Narrow columns break the line only before the bracket.
    return f"{shown(mean, form)} ({shown(low, form)}\u00a0to\u00a0{shown(high, form)})"


def code(words: str) -> Raw:
    """Text in the font of commands and file names."""
    return Raw(f"<code>{escape(words)}</code>")


def link(path: str, words: str) -> Raw:
    """Link to a file beside the page."""
    return Raw(f'<a href="{escape(quote(path), quote=True)}">{escape(words)}</a>')


def paragraph(words: Any, kind: str = "note") -> str:
    """Paragraph; `kind` is its class: 'note' (small), 'lead' or ''. Returns '' for empty text."""
    return f'<p class="{kind}">{text(words)}</p>' if words else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, kinds: str = "") -> str:
    """A table; `kinds` has one letter per column: 'n' number, 'm' mean with interval, 'l' long text, 's' share bar,
    '-' other.
    """
    kinds = kinds.ljust(max(len(columns), 32), "-")
    marks = {"n": "n", "m": "mean", "l": "long", "s": "shares"}

    def look(k: int, cell: Any, shown: str) -> str:
        long = isinstance(cell, str) and not isinstance(cell, Raw) and len(cell) > _LONG and kinds[k] in "n-"
        names = [marks[kind] for kind in kinds[k] if kind in shown] + (["long"] if long else [])
        return f' class="{" ".join(names)}"' if names else ""

    head = "".join(f"<th{look(k, name, 'nm')}>{text(name)}</th>" for k, name in enumerate(columns))
    stacked = len(columns) >= _STACKED_FROM
    named = [f' data-th="{escape(str(name), quote=True)}"' if stacked and name else "" for name in columns] or [""] * 32
    lines = [
        "".join(f"<td{look(k, cell, 'nmls')}{named[k]}>{text(cell)}</td>" for k, cell in enumerate(row)) for row in rows
    ]
    if not lines:
        return ""
    top = f"<thead><tr>{head}</tr></thead>" if columns else ""
    kind = (' class="stack"' if stacked else "") if columns else ' class="facts"'
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table{kind}>{top}<tbody>{body}</tbody></table></div>'


def tiles(facts: Iterable[tuple[str, Any]]) -> str:
    """A row of large numbers, each with its name."""
    body = "".join(f"<div><b>{text(value)}</b><span>{text(name)}</span></div>" for name, value in facts)
    return f'<div class="tiles">{body}</div>' if body else ""


def section(name: str, title: str, *parts: str, kind: str = "") -> str:
    """Section with a heading and the anchor `name`; '' if it would be empty."""
    body = "".join(parts)
    mark = f' class="{kind}"' if kind else ""
    return f'<section id="{escape(name, quote=True)}"{mark}><h2>{text(title)}</h2>{body}</section>\n' if body else ""


def figure(title: str, content: str, caption: Any = "") -> str:
    """Picture or chart in a frame; '' if there is none."""
    if not content:
        return ""
    top = f"<b>{text(title)}</b>" if title else ""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f"<figure>{top}{content}{below}</figure>"


def image(address: str, words: str, kind: str) -> str:
    """An embedded picture; `words` is its alternative text."""
    return f'<img class="{kind}" src="{address}" alt="{escape(words, quote=True)}">'


def cell(picture: str, words: str) -> str:
    """A picture of a contact sheet, with its title below."""
    return f"<div>{picture}<span>{text(words)}</span></div>"


def contact_sheet(*cells: str) -> str:
    """Many small pictures."""
    return f'<div class="contacts">{"".join(cells)}</div>' if cells else ""


def pair(*figures: str) -> str:
    """Figures side by side on wide pages."""
    body = "".join(figures)
    return f'<div class="pair">{body}</div>' if body else ""


def panels(name: str, *charts: str) -> str:
    """Charts of one figure, side by side on wide pages; `name` is their alternative text."""
    return f'<div class="panels" role="group" aria-label="{escape(name, quote=True)}">{"".join(charts)}</div>'


def key(entries: Iterable[tuple[str, int | str] | tuple[str, int | str, str]], *, on_map: bool = False) -> str:
    """A legend: names with the colour (number of a curve's colour, or CSS) and optionally the style of their curve."""
    spans = []
    for name, colour, *look in entries:
        number = DARK[colour % 8] if on_map and isinstance(colour, int) else colour
        css = f"var(--c{number % 8})" if isinstance(number, int) else number
        mark = f' class="{look[0]}"' if look else ""
        spans.append(f'<span><i{mark} style="--k: {css}"></i>{text(name)}</span>')
    return f'<div class="key">{"".join(spans)}</div>' if spans else ""


def scale(low: str, high: str, stops: str) -> str:
    """A colour scale with its two ends."""
    bar = f'<i style="background: linear-gradient(90deg, {stops})"></i>'
    return f'<div class="scale">{text(low)}{bar}{text(high)}</div>'


def swatch(word: str, red_green_blue: Iterable[float]) -> Raw:
    """A word with a square of its colour, given in [0, 1]."""
    colour = " ".join(f"{255 * part:.0f}" for part in red_green_blue)
    return Raw(f'<i style="background: rgb({colour})"></i>{escape(word)}')


def share_bar(share: float) -> Raw:
    """Bar whose length is a fraction of 1."""
    return Raw(f'<span class="share" style="width: {100 * min(max(share, 0.0), 1.0):.1f}%"></span>')


def folded(title: str, content: str) -> str:
    """Content that is hidden until the reader opens it."""
    return f"<details><summary>{text(title)}</summary>{content}</details>" if content else ""


def page(
    title: str, *parts: str, lead: Sequence[Any] = (), facts: Iterable[tuple[str, Any]] = (), command: str = ""
) -> str:
    """Complete page: title, `lead` lines, tiles of `facts`, the `command` that created it, then the parts."""
    made = Raw(f"Created by {code(command)}") if command else ""
    head = (
        f"<h1>{text(title)}</h1>{paragraph(Raw('<br>'.join(map(text, lead))), 'lead')}{tiles(facts)}{paragraph(made)}"
    )
    curves = "".join(f"svg .s{k} {{ stroke: var(--c{k}); }} svg .f{k} {{ fill: var(--c{k}); }}\n" for k in range(8))
    ways = "".join(f"svg.map .s{k} {{ stroke: {c}; }} svg.map .f{k} {{ fill: {c}; }}\n" for k, c in enumerate(DARK))
    style = _STYLE.replace("COLOURS\n", curves + ways)
    for word, colours in (("LIGHT", LIGHT), ("DARK", DARK)):
        style = style.replace(word, " ".join(f"--c{k}: {colour};" for k, colour in enumerate(colours)))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title><style>{style}</style></head>\n"
        f"<body><main>\n<header>{head}</header>\n{''.join(parts)}</main><script>{export.SCRIPT}</script></body></html>\n"
    )


def write_page(path: str | PathLike[str], content: str) -> None:
    """Write a page; an earlier file is replaced only by a complete one."""
    with atomic_write(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
