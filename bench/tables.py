"""Tables of measurements for the terminal, Markdown and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from timing import Ratio

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
"""Marks between which `write_markdown` puts the tables of a page."""


@dataclass(frozen=True)
class Goal:
    """Target of a measurement."""

    bound: str
    """'at least' or 'at most'."""
    value: float
    unit: str = ""

    def met(self, measured: float) -> bool:
        """Test whether a measured figure reaches the goal."""
        return measured >= self.value if self.bound == "at least" else measured <= self.value

    def verdict(self, measured: float | Ratio) -> str:
        """Goal as text, and whether it was met; 'unclear' for ratios whose range includes the goal."""
        figures = (measured.middle, measured.low, measured.high) if isinstance(measured, Ratio) else (measured,)
        answers = {self.met(figure) for figure in figures}
        word = "unclear" if len(answers) > 1 else "met" if answers.pop() else "MISSED"
        return f"{'≥' if self.bound == 'at least' else '≤'} {self.value:g}{self.unit}: {word}"


@dataclass
class Table:
    """Table with rows of cells by column title; a missing cell is blank."""

    name: str
    """Name for `--only`."""
    title: str
    columns: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences under the table: what was measured, and what was skipped and why."""

    def add(self, row: dict[str, Any]) -> None:
        """Append a row of cells by column title."""
        unknown = set(row) - set(self.columns)
        if unknown:
            raise ValueError(f"table {self.name!r} has no column {', '.join(sorted(unknown))}")
        self.rows.append(row)

    def cells(self) -> list[list[str]]:
        """All rows as text."""
        return [[_text(row.get(column)) for column in self.columns] for row in self.rows]

    def record(self) -> dict[str, Any]:
        """Table as plain data with unrounded numbers."""
        rows = [{k: asdict(v) if isinstance(v, Ratio) else v for k, v in row.items()} for row in self.rows]
        return {"name": self.name, "title": self.title, "rows": rows, "notes": self.notes}


def show(table: Table) -> None:
    """Print a table, with rich if it is installed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
    except ImportError:
        print(plain(table), flush=True)
        return
    drawn = RichTable(title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if number == 0 else "right")
    for row in table.cells():
        drawn.add_row(*row)
    console = Console(highlight=False)
    if not console.is_terminal:
        # Files and pipes have no width limit, and a cut cell would lose its figure.
        console = Console(highlight=False, width=200)
    console.print(drawn)
    for note in table.notes:
        console.print(f"  {note}", style="dim", markup=False, soft_wrap=True)
    console.print()


def plain(table: Table) -> str:
    """Table as plain text."""
    lines = [table.columns, *table.cells()]
    widths = [max(len(line[k]) for line in lines) for k in range(len(table.columns))]
    text = [
        "  ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    text.insert(1, "-" * len(text[0]))
    return "\n".join([table.title, *text, *(f"  {note}" for note in table.notes), ""])


def markdown(table: Table, level: int = 3) -> str:
    """Table as a section of a Markdown page."""
    head = [f"{'#' * level} {table.title}", "", "| " + " | ".join(table.columns) + " |"]
    head.append("| " + " | ".join("---" if k == 0 else "---:" for k in range(len(table.columns))) + " |")
    rows = ["| " + " | ".join(row) + " |" for row in table.cells()]
    notes = ["", *(f"{note}  " for note in table.notes)] if table.notes else []
    return "\n".join([*head, *rows, *notes, ""])


def write_markdown(path: Path, header: list[str], tables: list[Table]) -> None:
    """Write tables into a page: between its marks if it has them, otherwise as the whole page."""
    facts = "\n".join(f"- {line}" for line in header)
    body = "\n".join([BEGIN, "", facts, "", *(markdown(table) for table in tables), END])
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    page = before + body + after if begin and end else f"# Benchmarks\n\n{body}\n"
    path.write_text(page, encoding="utf-8")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ")
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", " ")
