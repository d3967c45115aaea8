"""Writes the table of docs/point-fields.md from the one table of fields, `parhelion.core.clouds.FIELDS`."""

from __future__ import annotations

from pathlib import Path

from parhelion.core.clouds import FIELDS, ORIGINS

PAGE = Path(__file__).resolve().parents[1] / "point-fields.md"
BEGIN, END = "<!-- fields: begin -->", "<!-- fields: end -->"


def table() -> str:
    """All fields as Markdown, `xyz` first."""
    rows = [
        "| field | type | shape | unit | meaning |",
        "| --- | --- | --- | --- | --- |",
        "| `xyz` | float32 or float64 | (n, 3) | m | coordinates in the frame that `frame` names |",
    ]
    for name, spec in FIELDS.items():
        shape = "(n,)" if spec.columns == 1 else f"(n, {spec.columns})"
        meaning = spec.meaning.replace("names['", "`names['").replace("']", "']`")
        rows.append(f"| `{name}` | {spec.dtype} | {shape} | {spec.unit or '-'} | {meaning} |")
    origins = ", ".join(f"{number} {word}" for number, word in enumerate(ORIGINS))
    return "\n".join([*rows, "", f"Values of `origin`: {origins}."])


def main() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
