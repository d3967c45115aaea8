"""A hook of MkDocs: links from pages to source files and examples lead to copies of them in the site, as plain text.

In the repository a link such as `../src/parhelion/cli/measure.py` leads to the file itself. The site holds only what lies
in `docs/`, so it gets a copy of each file that a page links to.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?:\.\./)+((?:src|tests|examples)/[\w/.-]+\.(?:py|yaml))\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files that pages link to."""
    linked = {name for page in files.documentation_pages() for name in LINK.findall(page.content_string)}
    for name in sorted(linked):
        # Browsers show .txt; they download .py and .yaml.
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, f"{name}.txt", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at the copies."""
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(rf"]({up}\1.txt)", markdown)
