"""Run the commands of the tutorials in `docs/tutorials/` as a reader would, with the package that is installed.

    python tools/tutorials.py                        # all pages, with `parhelion` from PATH
    python tools/tutorials.py 01 06 --work /tmp/t    # some pages, in a folder of your choice
    python tools/tutorials.py --pictures             # ... and update docs/images/tutorials

The lines of fences `sh` run in one shell per page, in a copy of the examples that ship with the package. Fences
`sh { .no-run }` are for the reader. Nothing of the source tree is on the path, apart from the pages themselves.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted((DOCS / "tutorials").glob("[0-9][0-9]-*.md"))
PICTURES = DOCS / "images" / "tutorials"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\(\.\./images/tutorials/([\w-]+)\.\w+\)")
WIDTH = 1100
"""Width of pictures in the documentation [pixel]."""


def commands(page: Path) -> str:
    """Lines of a page that are run."""
    return "".join(_BLOCK.findall(page.read_text(encoding="utf-8")))


def run(page: Path, work: Path) -> float:
    """Run a page in a folder with the examples; return its duration [s]."""
    begin = time.perf_counter()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" or os.environ.get("PARHELION_TUTORIALS_FROM_SOURCE")
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-x"], input=commands(page), cwd=work, env=environment, text=True, timeout=900,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout[-6000:]}\n{page.name}: exit code {done.returncode}")
    return time.perf_counter() - begin


def keep_pictures(page: Path, work: Path) -> None:
    """Store the pictures that a page shows, which its commands wrote under the same names."""
    from PIL import Image

    for name in _PICTURE.findall(page.read_text(encoding="utf-8")):
        with Image.open(work / f"{name}.png") as picture:
            picture = picture.convert("RGB")
            picture.thumbnail((WIDTH, 2 * WIDTH))
            PICTURES.mkdir(exist_ok=True)
            picture.save(PICTURES / f"{name}.webp", quality=82, method=6)


def main() -> None:
    options = argparse.ArgumentParser(description="Run the commands of the tutorials.")
    options.add_argument("pages", nargs="*", help="numbers of pages, such as 01; by default all")
    options.add_argument("--work", type=Path, help="folder, which must not exist; by default a temporary one")
    options.add_argument("--pictures", action="store_true", help="update the pictures of the pages")
    options.add_argument("--jobs", type=int, default=1, help="number of pages that run at the same time")
    given = options.parse_args()
    pages = [page for page in PAGES if not given.pages or page.name[:2] in given.pages]
    with tempfile.TemporaryDirectory() as temporary:
        examples = (given.work or Path(temporary) / "work").resolve()
        subprocess.run(["parhelion", "examples", "--copy", str(examples)], check=True, cwd=temporary)
        with ThreadPoolExecutor(given.jobs) as jobs:
            for page, seconds in zip(
                pages, jobs.map(lambda page: run(page, examples / "tutorials"), pages), strict=True
            ):
                print(f"{page.stem:32} {seconds:6.1f} s", flush=True)
                if given.pictures:
                    keep_pictures(page, examples / "tutorials")


if __name__ == "__main__":
    sys.exit(main())
