"""Hooks of MkDocs: copies of linked source files, and tables of the fields of files.

Links from pages to source files and examples lead to copies of them in the site, as plain text.

In the repository a link such as `../src/parhelion/cli/measure.py` leads to the file itself. The site holds only what lies
in `docs/`, so it gets a copy of each file that a page links to.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
FIELDS = "<!-- fields of files -->"
LINK = re.compile(r"\]\((?:\.\./)+((?:src|tests|examples)/[\w/.-]+\.(?:py|yaml))\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files that pages link to."""
    linked = {name for page in files.documentation_pages() for name in LINK.findall(page.content_string)}
    for name in sorted(linked):
        # Browsers show .txt; they download .py and .yaml.
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, f"{name}.txt", content=text))
    return files


def field_tables() -> str:
    """A section per kind of file, with a table of fields for each of its parts."""
    from parhelion.cli.starters import described_schema, schema_kinds

    parts = []
    for kind, (summary, model) in schema_kinds().items():
        schema = described_schema(model(), kind)
        parts.append(f"## {kind}\n\n{summary[0].upper()}{summary[1:]}.\n")
        if "properties" in schema:
            parts.append(_table(kind, schema, schema))
        parts += [
            f"### {kind}: {name}\n\n{_one_line(part.get('description', ''))}\n\n{_table(kind, part, schema)}"
            for name, part in schema.get("$defs", {}).items()
            if part.get("properties")
        ]
    return "\n".join(parts)


def _table(kind: str, part: dict[str, Any], schema: dict[str, Any]) -> str:
    required = part.get("required", [])
    tables = {name for name, one in schema.get("$defs", {}).items() if one.get("properties")}
    rows = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in part["properties"].items():
        default = "required" if name in required else f"`{json.dumps(field['default'])}`" if "default" in field else ""
        cells = (f"`{name}`", _type(kind, field, tables), default[:60], _one_line(field.get("description", "")))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _type(kind: str, field: dict[str, Any], tables: set[str]) -> str:
    """Type of a field with its limits."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        if name not in tables:
            return name
        return f"[{name}](#{re.sub(r'[^a-z0-9_-]+', '-', f'{kind}-{name}'.lower())})"
    for union in ("anyOf", "oneOf"):
        if union in field:
            return " or ".join(dict.fromkeys(_type(kind, one, tables) for one in field[union]))
    if "const" in field or "enum" in field:
        return ", ".join(f"`{one}`" for one in field.get("enum", [field.get("const")]))
    limits = [
        f"{sign} {field[key]:g}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
        if key in field
    ]
    name = {"array": "list", "object": "mapping", "null": "none"}.get(field.get("type", ""), field.get("type", "any"))
    items = field.get("items")
    if name == "list" and isinstance(items, dict):
        name = f"list of {_type(kind, items, tables)}"
    return " ".join([name, *limits])


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at the copies, and fill in the tables of fields."""
    if FIELDS in markdown:
        markdown = markdown.replace(FIELDS, field_tables())
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(rf"]({up}\1.txt)", markdown)
