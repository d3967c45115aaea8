"""Tables of measurements, shown in the terminal, as Markdown and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from timing import Ratio

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
"""Lines between which `write_markdown` inserts the tables of a page."""


@dataclass(frozen=True)
class Goal:
    """Value that a measurement must reach."""

    bound: str
    """'at least' or 'at most'."""
    value: float
    unit: str = ""

    def met(self, measured: float) -> bool:
        """Return True if a measured value reaches the goal."""
        return measured >= self.value if self.bound == "at least" else measured <= self.value

    def verdict(self, measured: float | Ratio) -> str:
        """The goal in words, and the outcome; 'unclear' if the noise of a ratio spans the goal."""
        figures = (measured.middle, measured.low, measured.high) if isinstance(measured, Ratio) else (measured,)
        answers = {self.met(figure) for figure in figures}
        word = "unclear" if len(answers) > 1 else "met" if answers.pop() else "MISSED"
        return f"{'≥' if self.bound == 'at least' else '≤'} {self.value:g}{self.unit}: {word}"


@dataclass
class Table:
    """One table: rows of cells by column title; a missing cell is blank."""

    name: str
    """Name for `--only`."""
    title: str
    columns: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences below the table: the measurement, and the parts that were skipped with reasons."""

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
        """The table as plain data, numbers unrounded."""
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
        # A file or pipe has no width limit, and a truncated cell would lose its value.
        console = Console(highlight=False, width=200)
    console.print(drawn)
    for note in table.notes:
        console.print(f"  {note}", style="dim", markup=False, soft_wrap=True)
    console.print()


def plain(table: Table) -> str:
    """The table in plain text."""
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
    """The table as a section of a Markdown page."""
    head = [f"{'#' * level} {table.title}", "", "| " + " | ".join(table.columns) + " |"]
    head.append("| " + " | ".join("---" if k == 0 else "---:" for k in range(len(table.columns))) + " |")
    rows = ["| " + " | ".join(row) + " |" for row in table.cells()]
    notes = ["", *(f"{note}  " for note in table.notes)] if table.notes else []
    return "\n".join([*head, *rows, *notes, ""])


def write_markdown(path: Path, header: list[str], tables: list[Table]) -> None:
    """Write tables into a page: between its markers if it has them, otherwise as the whole page."""
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
