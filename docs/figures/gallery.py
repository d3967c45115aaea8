"""Pictures of docs/gallery.md: runs the lines of the page and stores what they draw in docs/images/gallery.

python docs/figures/gallery.py           # all
python docs/figures/gallery.py 09 23     # the lines are run all the same, but only these are stored
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from page import IMAGES
from PIL import Image

PAGE = IMAGES.parent / "gallery.md"
_BLOCK = re.compile(r"^```python \{ \.gallery \}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WIDTH = 900
"""Largest width [pixel]."""


def blocks() -> list[str]:
    """Lines of the page, the first of which are the common beginning."""
    return _BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def main() -> None:
    wanted, folder = sys.argv[1:], IMAGES / "gallery"
    folder.mkdir(exist_ok=True)
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for block in blocks():
            exec(compile(block, str(PAGE), "exec"), names)
            for file in sorted(Path(work).glob("*.png")):
                if not wanted or file.stem in wanted:
                    with Image.open(file) as picture:
                        small = picture.convert("RGB")
                    small.thumbnail((WIDTH, 2 * WIDTH))
                    small.save(folder / f"{file.stem}.webp", quality=76, method=6)
                    print(f"{file.stem}: {(folder / f'{file.stem}.webp').stat().st_size / 1e3:.0f} kB", flush=True)
                file.unlink()
        os.chdir(IMAGES)


if __name__ == "__main__":
    main()
