"""Lint of words: flags private idiom in docstrings, comments, messages, identifiers and documentation.

    python tools/wording.py [--count] [PATH ...]

Reads Python and Markdown files, by default those of the repository. Each finding names the file, the line and the words
to use instead; the exit status is 1 if there are any. A line that ends with `wording: ok` is skipped, for quotations and
for words in another sense. Add a row to WORDS, OPENINGS or NAMES to reject another expression.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("src", "tests", "bench", "docs", "examples", "tools", "README.md", "CONTRIBUTING.md", "SECURITY.md")
EXEMPT = "wording: ok"
SELF = ("wording.py", "test_wording.py")
"""The lint and its test contain the expressions."""
PER = (
    "beam|channel|turn|revolution|scan|second|minute|frame|point|pulse|ray|shot|sensor|pixel|metre|epoch|sample|kernel"
)
COUNTED = (
    "points|times|rays|shots|pulses|columns|samples|ms|us|s|MB|kB|bytes|scans|fixes|messages|kernels|files|frames|returns"
    "|echoes|numbers|rows|draws|once|twice|one|two|three|four|five|ten|[0-9]+"
)
WORDS = {
    r"(?:tells?|told|telling) (?:\w+ ){0,3}apart": "distinguish",
    r"tells?|told|telling": "report, warn, log, state, show, return",
    r"says?|said": "state, report, print, name, specify",
    r"luck|lucky": "variance, per-pulse variation, random",
    r"(?:the|as|an?|than|are|is|be) usual|usual (?!ly)\w+": "default, typical, common",
    r"at hand": "available",
    r"anew|afresh": "again, regenerate",
    r"as (?:it|they) comes?": "unmodified, in the original order",
    r"whoever|whosoever": "a user who, callers that",
    r"what becomes of": "outputs of",
    r"where nothing else is said|if nothing else is said": "by default",
    r"seen again": "revisited",
    r"(?:a|one|each|every|first|second|single|several|many|few|two|three) looks?": "observation, view",
    r"uneven": "heterogeneous, rough, non-uniform",
    r"(?:an?|one|each|every|per|whole|full|first|last|next|single|many|several|two|three|of|whole) turns?(?= (?:of|at|has|is"
    r"|as|in|by|takes)\b|[.,;:)])": "revolution, frame (of a lidar); rotation; curve",
    r"things?": "object, item, quantity",
    r"the way of|the page of an?": "data flow; run report",
    r"doors?(?= (?:of|for|that|to))|guarded door": "entry point",
    r"mended|mends?": "fixed",
    r"nobody|somebody": "no one, no caller, someone",
    r"(?:; |, )else(?=[.)\"'])": "by default …",
    rf"(?:{COUNTED}) an? (?:{PER})": "per …",
}
"""Expression in prose, and what to write instead."""
OPENINGS = {
    r"(?:What|Whether|How|Who|Whom|Whose|Which|Where|That|Of|Made|Told|So that)\b": "a noun phrase or an imperative verb",
}
"""First words of a docstring, and what to start with instead."""
NAMES = {
    "tell": "report", "tells": "reports", "told": "reported, sent", "telling": "context", "said": "label, text",
    "luck": "pulse_draw", "lucky": "varies_per_pulse", "usual": "default", "uneven": "heterogeneous", "hush": "silence",
    "thing": "object", "things": "objects",
}  # fmt: skip
"""Part of an identifier, and what to write instead."""

_WORDS = [(re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE), better) for pattern, better in WORDS.items()]
_OPENINGS = [(re.compile(pattern), better) for pattern, better in OPENINGS.items()]
Finding = tuple[int, str, str]


def prose(text: str, line: int) -> Iterator[Finding]:
    """Findings in a text that starts at `line` of its file; code in backticks is skipped."""
    for offset, words in enumerate(re.sub(r"`[^`\n]*`", "``", text).splitlines()):
        taken: list[tuple[int, int]] = []
        for pattern, better in _WORDS:
            for found in pattern.finditer(words):
                if not any(found.start() < end and start < found.end() for start, end in taken):
                    taken.append(found.span())
                    yield line + offset, found.group(0), better


def python_findings(text: str) -> Iterator[Finding]:
    """Findings in docstrings, comments, messages and names of a Python file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for pattern, better in _OPENINGS:
                if found := pattern.match(node.value.value.strip()):
                    yield node.lineno, f"opens with {found.group(0)!r}", better
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and len(token.string.split()) > 2):
            yield from prose(token.string, token.start[0])
        elif token.type == tokenize.NAME:
            for part in re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token.string).lower().split("_"):
                if part in NAMES:
                    yield token.start[0], f"name {token.string}", NAMES[part]


def markdown_findings(text: str) -> Iterator[Finding]:
    """Findings in the prose of a Markdown file; blocks of code are skipped."""
    yield from prose(re.sub(r"(?ms)^```.*?^```", lambda block: "\n" * block.group(0).count("\n"), text), 1)


def findings(file: Path) -> Iterator[Finding]:
    """Findings in one file, without lines that are exempt."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    for line, words, better in python_findings(text) if file.suffix == ".py" else markdown_findings(text):
        if EXEMPT not in lines[line - 1]:
            yield line, words, better


def files(paths: list[str]) -> list[Path]:
    """Python and Markdown files under the given paths."""
    every = [Path(path) for path in paths]
    found = [file for path in every for file in (path.rglob("*") if path.is_dir() else [path])]
    return sorted(file for file in found if file.suffix in (".py", ".md") and file.name not in SELF)


def main() -> int:
    """Print the findings, or with --count how often each expression occurs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files and folders; by default those of the repository")
    parser.add_argument("--count", action="store_true", help="count findings by file and by expression")
    options = parser.parse_args()
    count: Counter[str] = Counter()
    for file in files(options.paths or [root for root in ROOTS if Path(root).exists()]):
        for line, words, better in sorted(findings(file)):
            count[words.lower() if options.count else "all"] += 1
            if not options.count:
                print(f"{file}:{line}: {words!r}: write {better}")
    if options.count:
        for words, times in count.most_common(60):
            print(f"{times:6d}  {words}")
    print(f"{sum(count.values())} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
