"""The text of XML files, read as data: no document type, no entities, size limited."""

from __future__ import annotations

import re
from pathlib import Path

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import read_bytes

LARGEST_FILE_BYTES = 32 * 1024 * 1024
"""Robots of hundreds of links stay below one MiB, since meshes are in files of their own."""
_DECLARATION = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)


def guarded_text(file: Path, largest_bytes: int = LARGEST_FILE_BYTES) -> str:
    """The text of an XML file, refused where it declares a document type or entities.

    An entity can stand for a file of the machine, or for gigabytes. The test is made on the decoded text, so no
    encoding can carry a declaration past it.
    """
    content = read_bytes(file, ConfigError, largest=largest_bytes, what="a robot or a mesh as XML")
    if not content.strip():
        raise FormatError(f"{file}: is empty")
    if b"\0" in content:
        raise FormatError(f"{file}: is not XML text in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # older files: the letters of an author's name
    found = _DECLARATION.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise FormatError(f"{file}: line {line}: <!{found[1].upper()} is not allowed here, remove it")
    return text
