"""The building blocks of a run's page: headings, tables, figures. All words are escaped; the page runs no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

# Nothing may be fetched and nothing may run, whatever words end up in the page.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --sheet: #f6f7f9; --card: #ffffff; --ink: #1b2330; --muted: #5d6978;
  --line: #dfe3e9; --accent: #b4560a; --bar: #f3c58f; --shade: #10151c;
  --c0: #c2600c; --c1: #2069c4; --c2: #178050; --c3: #b02a6b; --c4: #6a4bc4; --c5: #0b7f8f;
  --c6: #8a6a00; --c7: #606a78; }
@media (prefers-color-scheme: dark) { :root { --sheet: #0e1116; --card: #151a21; --ink: #dfe5ec; --muted: #8d99a8;
  --line: #2b323c; --accent: #ffb454; --bar: #6d4d24; --shade: #0a0c10;
  --c0: #ffb454; --c1: #62adff; --c2: #54c98a; --c3: #ff7ab6; --c4: #b294ff; --c5: #4fd0dd;
  --c6: #e6d055; --c7: #a7b1be; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--sheet); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; } h3 { font-size: .95rem; margin: 1.2rem 0 .4rem; }
p { margin: .3rem 0; } .lead, .note, figcaption { color: var(--muted); } .note, figcaption { font-size: .86rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: .7rem; margin: 1.3rem 0; }
.tiles div, figure, .wide { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tiles div { padding: .65rem .9rem; } .tiles b { display: block; font-size: 1.32rem; font-weight: 600;
  font-variant-numeric: tabular-nums; letter-spacing: -.01em; } .tiles span { color: var(--muted); font-size: .84rem; }
figure { margin: 0 0 .9rem; padding: .8rem; min-width: 0; } figcaption { margin-top: .45rem; }
figure > b { display: block; margin-bottom: .4rem; font-weight: 600; overflow-wrap: anywhere; }
img, svg { display: block; width: 100%; height: auto; border-radius: 6px; } .cloud { background: var(--shade); }
img.scan { height: 84px; background: var(--shade); margin-bottom: .35rem; } img.frame { background: var(--shade); }
.contacts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(13rem, 45%), 1fr)); gap: .6rem; }
.contacts span { color: var(--muted); font-size: .82rem; font-variant-numeric: tabular-nums; }
img.shot { background: var(--shade); }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(25rem, 100%), 1fr)); gap: .9rem;
  margin-bottom: .9rem; }
.pair figure { margin: 0; }
.scale { display: flex; align-items: center; gap: .6rem; color: var(--muted); font-size: .82rem; margin: .1rem 0 .5rem;
  font-variant-numeric: tabular-nums; } .scale i { flex: 0 1 9rem; height: .55rem; border-radius: 3px; }
.key { display: flex; flex-wrap: wrap; gap: .15rem 1rem; font-size: .84rem; color: var(--muted); margin-top: .35rem; }
.key i, td i { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin-right: .4rem; }
.wide { overflow-x: auto; padding: .2rem .9rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .36rem 1.1rem .36rem 0; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; } th { color: var(--muted); font-weight: 500; white-space: nowrap; }
td:last-child, th:last-child { padding-right: 0; } td.n, th.n { text-align: right; white-space: nowrap; }
td:first-child { white-space: nowrap; } td.long { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
.facts td:first-child { color: var(--muted); width: 1%; padding-right: 1.6rem; }
.facts td { overflow-wrap: anywhere; }
.share { display: block; height: .5rem; margin: .45rem 0; min-width: 2px; border-radius: 3px; background: var(--bar); }
td.shares { width: 34%; min-width: 5rem; }
code { font: .86em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
details { margin-top: .6rem; } summary { cursor: pointer; color: var(--accent); padding: .3rem 0; }
svg text { fill: var(--muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg.map text { font-size: 13px; }
svg .mid { text-anchor: middle; } svg .end { text-anchor: end; }
svg .grid { stroke: var(--line); fill: none; } svg .axis { stroke: var(--muted); fill: none; }
svg .dots { fill: none; stroke-width: 2.4; stroke-linecap: round; }
svg .line { fill: none; stroke-width: 1.5; stroke-linejoin: round; } svg .band { opacity: .28; stroke: none; }
svg .mapgrid { stroke: #fff; stroke-opacity: .13; fill: none; } svg .way { fill: none; stroke-width: 2.6; }
svg .halo { fill: none; stroke: #0a0c10; stroke-opacity: .75; stroke-width: 5.4; stroke-linejoin: round; }
svg .other { fill: none; stroke: #fff; stroke-opacity: .75; stroke-width: 1.3; stroke-dasharray: 3 4; }
svg .start { fill: #0a0c10; stroke-width: 2.4; } svg .stop { stroke: #0a0c10; stroke-width: 1.6; }
COLOURS
@media (max-width: 640px) { main { padding: 1.2rem .8rem 3rem; } h1 { font-size: 1.4rem; } img.scan { height: 56px; }
  svg text { font-size: 14px; } svg.map text { font-size: 21px; }
  svg.map .way { stroke-width: 5; } svg.map .halo { stroke-width: 9; } figure { padding: .6rem; }
  .tiles { grid-template-columns: repeat(3, 1fr); gap: .5rem; }
  .tiles div { padding: .45rem .6rem; } .tiles b { font-size: 1.05rem; }
  .cloud { min-height: 13rem; object-fit: cover; } }
@media print { body { background: #fff; } figure, .wide { break-inside: avoid; } }
"""
_MAP_COLOURS = ("#ffb454", "#62adff", "#54c98a", "#ff7ab6", "#b294ff", "#4fd0dd", "#e6d055", "#c3cad3")
"""Of ways: a map is dark in either scheme, so these are the colours of the dark one."""


class Raw(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: Any) -> str:
    """A value as HTML."""
    return str(value) if isinstance(value, Raw) else escape(str(value))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, kinds: str = "") -> str:
    """A table; `kinds` has a letter a column: 'n' for numbers, flush right, 'l' for long words, '-' for others."""
    marks = {"n": ' class="n"', "l": ' class="long"', "s": ' class="shares"'}
    look = [marks.get(kind, "") for kind in kinds.ljust(max(len(columns), 32), "-")]
    head = "".join(f"<th{look[k] if 'n' in look[k] else ''}>{text(name)}</th>" for k, name in enumerate(columns))
    lines = ["".join(f"<td{look[k]}>{text(cell)}</td>" for k, cell in enumerate(row)) for row in rows]
    if not lines:
        return ""
    top = f"<thead><tr>{head}</tr></thead>" if columns else ""
    kind = "" if columns else ' class="facts"'
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table{kind}>{top}<tbody>{body}</tbody></table></div>'


def tiles(facts: Iterable[tuple[str, Any]]) -> str:
    """A row of large numbers, each with what it is."""
    return (
        '<div class="tiles">'
        + "".join(f"<div><b>{text(v)}</b><span>{text(n)}</span></div>" for n, v in facts)
        + "</div>"
    )


def section(name: str, title: str, *parts: str, kind: str = "") -> str:
    """A part of the page with a heading; '' where it would be empty. `name` is its anchor."""
    body = "".join(parts)
    mark = f' class="{kind}"' if kind else ""
    return f'<section id="{escape(name, quote=True)}"{mark}><h2>{text(title)}</h2>{body}</section>\n' if body else ""


def figure(title: str, content: str, caption: Any = "") -> str:
    """A picture or plot in a frame; '' where there is none."""
    if not content:
        return ""
    top = f"<b>{text(title)}</b>" if title else ""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f"<figure>{top}{content}{below}</figure>"


def image(address: str, words: str, kind: str) -> str:
    """A picture that the page holds itself; `words` for those who do not see it."""
    return f'<img class="{kind}" src="{address}" alt="{escape(words, quote=True)}">'


def cell(picture: str, words: str) -> str:
    """A picture of a contact sheet, with what it is below it."""
    return f"<div>{picture}<span>{text(words)}</span></div>"


def contact_sheet(*cells: str) -> str:
    """Many small pictures."""
    return f'<div class="contacts">{"".join(cells)}</div>' if cells else ""


def pair(*figures: str) -> str:
    """Figures beside each other where there is room."""
    body = "".join(figures)
    return f'<div class="pair">{body}</div>' if body else ""


def key(entries: Iterable[tuple[str, int | None]], *, on_map: bool = False) -> str:
    """Names with the colour of their curve; None is the colour of what is in the background."""
    swatch = [
        (name, "var(--line)" if c is None else _MAP_COLOURS[c % 8] if on_map else f"var(--c{c % 8})")
        for name, c in entries
    ]
    body = "".join(f'<span><i style="background: {colour}"></i>{text(name)}</span>' for name, colour in swatch)
    return f'<div class="key">{body}</div>' if body else ""


def scale(low: str, high: str, stops: str) -> str:
    """A colour scale with its two ends."""
    return (
        f'<div class="scale">{text(low)}<i style="background: linear-gradient(90deg, {stops})"></i>{text(high)}</div>'
    )


def swatch(word: str, red_green_blue: Iterable[float]) -> Raw:
    """A word with a square of its colour, given in [0, 1]."""
    colour = " ".join(f"{255 * part:.0f}" for part in red_green_blue)
    return Raw(f'<i style="background: rgb({colour})"></i>{escape(word)}')


def share_bar(share: float) -> Raw:
    """A bar as long as a share of 1."""
    return Raw(f'<span class="share" style="width: {100 * min(max(share, 0.0), 1.0):.1f}%"></span>')


def folded(title: str, content: str) -> str:
    """What is shown when asked for."""
    return f"<details><summary>{text(title)}</summary>{content}</details>" if content else ""


def page(title: str, *parts: str) -> str:
    """The whole page."""
    curves = "".join(f"svg .s{k} {{ stroke: var(--c{k}); }} svg .f{k} {{ fill: var(--c{k}); }}\n" for k in range(8))
    ways = "".join(
        f"svg.map .s{k} {{ stroke: {c}; }} svg.map .f{k} {{ fill: {c}; }}\n" for k, c in enumerate(_MAP_COLOURS)
    )
    style = _STYLE.replace("COLOURS\n", curves + ways)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title><style>{style}</style></head>\n<body><main>\n{''.join(parts)}</main></body></html>\n"
    )
