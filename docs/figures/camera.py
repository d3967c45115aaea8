"""The pictures of docs/models/camera.md, each by the command that the page shows.

    python docs/figures/camera.py

The commands are read from the page, so that both always agree.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
PAGE = DOCS / "models" / "camera.md"


def commands() -> list[list[str]]:
    """The `parhelion shoot` lines of the page that write a picture of it."""
    found = re.findall(r"^parhelion (shoot .*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [shlex.split(line) for line in found if "images/camera-" in line]


def main() -> None:
    """Run them all, or those whose line contains the word that is given."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for words in commands():
        if wanted in " ".join(words):
            print(" ".join(words), flush=True)
            subprocess.run([sys.executable, "-m", "parhelion", *words], cwd=DOCS, check=True)


if __name__ == "__main__":
    main()
