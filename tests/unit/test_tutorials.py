"""Pages of tutorials, gallery and API reference against the files that they name; `make test-wheel` runs them."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples" / "tutorials"
PAGES = sorted((DOCS / "tutorials").glob("[0-9][0-9]-*.md"))
_RUN = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_file_of_the_tutorials_belongs_to_a_page() -> None:
    numbers = {page.name[:2]: page.read_text(encoding="utf-8") for page in PAGES}
    for file in EXAMPLES.iterdir():
        if file.name != "__pycache__":
            assert file.name in numbers[file.name[:2]], f"{file.name}: its page does not name it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_name_files_that_exist_or_that_it_writes(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = "".join(_RUN.findall(text)).splitlines()
    assert lines, "a page without a command"
    for line in lines:
        for name in re.findall(r"\b\d\d-[\w-]+\.(?:yaml|py|urdf)", line):
            assert (EXAMPLES / name).is_file(), name
    for picture in re.findall(r"\(\.\./images/tutorials/([\w-]+)\.webp\)", text):
        assert f"{picture}.png" in "".join(lines), f"no command writes {picture}.png"


def test_yaml_shown_on_a_page_is_that_of_the_file() -> None:
    """Each line of a YAML block is a line of one of the tutorial's files."""
    for page in PAGES:
        files = "\n".join(file.read_text(encoding="utf-8") for file in EXAMPLES.glob(f"{page.name[:2]}-*"))
        known = {line.split("#")[0].rstrip() for line in files.splitlines()}
        for block in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                assert line.rstrip() in known, f"{page.name}: {line}"


def test_the_gallery_has_thirty_pictures_each_with_its_lines() -> None:
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"\(images/gallery/(\d\d)\.webp\)", text)
    code = re.findall(r"^```python \{ \.gallery \}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shown == [f"{number:02}" for number in range(1, 31)]
    assert [re.findall(r'"(\d\d)\.png"', block) for block in code[1:]] == [[number] for number in shown]
    for block in code:
        ast.parse(block)
    files = sorted((DOCS / "images" / "gallery").iterdir())
    assert [file.stem for file in files] == shown
    assert sum(file.stat().st_size for file in files) < 3_000_000


def test_public_modules_are_in_the_api_reference() -> None:
    """`ph.evaluate` and `ph.calibrate`, and what they export."""
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("api/*.md"))
    named = [str(name) for name in re.findall(r"^::: (\S+)$", pages, re.MULTILINE)]
    assert {"parhelion.evaluate", "parhelion.calibrate"} <= set(named)
    shown = set()
    for name in named:
        module, _, attribute = name.rpartition(".")
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError:
            found = getattr(importlib.import_module(module), attribute)
        shown |= {attribute, *getattr(found, "__all__", ())}
        if not hasattr(found, "__all__") and name.startswith("parhelion.evaluate."):
            shown |= {key for key in vars(found) if not key.startswith("_")}
    for public in ("evaluate", "calibrate"):
        missing = set(importlib.import_module(f"parhelion.{public}").__all__) - shown
        assert missing == set(), f"parhelion.{public}"


def test_the_container_files_name_what_exists() -> None:
    """No Docker daemon here: the sources that the image copies, its extras, and the targets that its commands use."""
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    sources = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.+)$", recipe, re.MULTILINE)]
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for source in [name for names in sources for name in names]:
        assert (ROOT / source).exists()
        assert f"!{source}" in allowed
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.search(r"\[([\w,]+)\]\"", recipe)
    assert extras is not None
    assert all(re.search(rf"^{extra} = ", project, re.MULTILINE) for extra in extras[1].split(","))
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    target = container["postCreateCommand"].split("make .venv")[1]
    assert f"$(VENV){target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
