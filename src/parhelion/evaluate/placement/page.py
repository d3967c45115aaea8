"""The page of an answer."""

from __future__ import annotations

import io
from typing import Any

from parhelion.evaluate.placement.picture import answer_picture
from parhelion.evaluate.placement.result import CHOSEN_COLUMNS, all_rows, chosen_rows, part_rows
from parhelion.evaluate.placement.study import Answer
from parhelion.pictures import run_page as html
from parhelion.pictures.run_images import png_uri


def page_of(answer: Answer, result: dict[str, Any], command: str = "", picture: Any = None) -> str:
    """The whole page as HTML; `picture` is that of `answer_picture`, where it was drawn already."""
    title = result["name"] or "Placement"
    made = f"<p><code>{html.text(command)}</code></p>" if command else ""
    tiles = [
        ("score", f"{result['score']:.3f}"),
        ("chosen", f"{result['choose']} of {len(result['candidates'])}"),
        ("combinations", f"{result['search']['combinations']:,}".replace(",", " ")),
        ("search", result["search"]["used"]),
    ]
    head = (
        f'<header><h1>{html.text(title)}</h1><p class="lead">{html.text(result["source"])}, world '
        f"{html.text(result['world'])}</p>{made}{html.tiles(tiles)}</header>\n"
    )
    note = (
        '<p class="note">“Loss without it” is what the set’s score falls by without that one. A score is a share of 1: '
        "coverage by weight, ground seen, and one less the mean error over the largest that counts.</p>"
    )
    kinds = "---nnnn"
    figure = answer_picture(answer) if picture is None else picture
    return html.page(
        title,
        head,
        html.section("map", "From above", html.figure("", html.image(_uri(figure), "The chosen set", "frame"))),
        html.section("chosen", "Chosen", html.table(CHOSEN_COLUMNS, chosen_rows(result), kinds=kinds), note),
        html.section("parts", "Score", html.table((), part_rows(result), kinds="-l")),
        html.section(
            "candidates", "All candidates, the best alone first",
            html.table(("candidate", *CHOSEN_COLUMNS[1:]), all_rows(result), kinds=kinds),
        ),
    )  # fmt: skip


def _uri(figure: Any) -> str:
    from PIL import Image

    stream = io.BytesIO()
    figure.savefig(stream, format="png", facecolor=figure.get_facecolor())
    return png_uri(Image.open(stream).convert("RGB"))
