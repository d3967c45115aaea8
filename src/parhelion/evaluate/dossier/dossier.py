"""Dossier of a sensor model: every number with its source or assumption, and every check with its verdict.

dossier = dossier_of("ouster/os0-64")
dossier.as_dict(), page_of(dossier)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from typing import Any

from parhelion.core.config import DataSheet
from parhelion.evaluate.dossier.checks import Check, checks_of
from parhelion.pictures import html

ORIGINS = {
    "stated": "stated by a source",
    "quoted": "commonly quoted from a source that was not available",
    "assumed": "assumed, with a reason",
    "default": "default of the model, no source in the sheet",
}
"""Origin of a number, and its meaning."""
_LONGEST = 90  # characters of a value in the page


@dataclass(frozen=True)
class Claim:
    """One field of a data sheet."""

    field: str
    value: Any
    origin: str
    """'stated', 'quoted', 'assumed' or 'default'."""
    source: str
    """Title of the source, or the reason of the assumption."""
    checks: tuple[int, ...]
    """Numbers of the checks that this field decides, from 1."""


@dataclass(frozen=True, eq=False)
class Dossier:
    """All claims and checks of one model."""

    model: str
    kind: str
    name: str
    claims: list[Claim]
    checks: list[Check]
    sources: list[dict[str, Any]]
    weather: dict[str, dict[str, str]]
    """Validity of lidars by medium: grade and reason."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in the JSON file."""
        return {
            "model": self.model,
            "kind": self.kind,
            "name": self.name,
            "summary": self.summary(),
            "claims": [asdict(claim) for claim in self.claims],
            "checks": [asdict(check) for check in self.checks],
            "sources": self.sources,
            "weather_validity": self.weather,
        }

    def summary(self) -> dict[str, dict[str, int]]:
        """Number of fields by origin, and of checks by verdict and basis."""
        return {
            "origins": {name: sum(claim.origin == name for claim in self.claims) for name in ORIGINS},
            "verdicts": dict(Counter(check.verdict for check in self.checks)),
            "bases": dict(Counter(check.basis for check in self.checks)),
        }


def dossier_of(sensor: Any, model: str) -> Dossier:
    """Dossier of a sensor; `model` is its preset name, or the path of its data sheet.

    Checks against recordings belong to presets. A user's own sheet has only those of all sensors of its kind.
    """
    from parhelion.sensors.kinds import kinds

    kind = next(name for name, one in kinds().items() if type(sensor) is one.sensor)
    sheet: DataSheet = sensor.config
    checks = checks_of(kind, model.lower())
    claims = [_claim(field, value, sheet, checks) for field, value in _fields(sheet)]
    grades = getattr(sensor, "weather_validity", None) or {}
    weather = {medium: {"grade": one.words, "reason": one.reason} for medium, one in grades.items()}
    sources = [source.model_dump(mode="json") for source in sheet.sources]
    return Dossier(model, kind, sheet.name, claims, checks, sources, weather)


def _fields(sheet: DataSheet) -> Iterator[tuple[str, Any]]:
    """Fields of two levels with their values; unset ones are omitted."""
    for key, value in sheet.model_dump(mode="json", exclude={"name", "sources", "assumed"}).items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", one) for inner, one in value.items() if _is_set(one))
        elif _is_set(value):
            yield key, value


def _is_set(value: Any) -> bool:
    return value is not None and value not in ([], {}, "")


def _claim(field: str, value: Any, sheet: DataSheet, checks: list[Check]) -> Claim:
    numbers = tuple(k + 1 for k, check in enumerate(checks) if any(fnmatch(field, pattern) for pattern in check.fields))
    for entry, reason in sheet.assumed.items():
        if _covers(entry, field):
            return Claim(field, value, "assumed", reason, numbers)
    for source in sheet.sources:
        if any(_covers(entry, field) for entry in source.covers):
            return Claim(field, value, "quoted" if source.quoted else "stated", source.title, numbers)
    return Claim(field, value, "default", "", numbers)


def _covers(entry: str, field: str) -> bool:
    """Test whether an entry of a sheet, such as `noise` or `pattern.channels`, concerns a field."""
    return field == entry or field.startswith(f"{entry}.") or entry.startswith(f"{field}.")


# ---- page ------------------------------------------------------------------------------------------------------------


CHECK_COLUMNS = ("", "quantity", "verdict", "basis", "compared with", "tolerance", "test, page")
CLAIM_COLUMNS = ("field", "value", "origin", "source or reason", "checks")


def summary_rows(dossier: Dossier) -> list[tuple[str, str]]:
    """Counts as labelled values, for the terminal and the page."""
    counts = dossier.summary()
    rows = [(meaning, f"{counts['origins'][name]} fields") for name, meaning in ORIGINS.items()]
    verdicts = ", ".join(f"{number} {word}" for word, number in counts["verdicts"].items()) or "none"
    recorded = counts["bases"].get("recording", 0)
    return [*rows, ("checks", f"{verdicts}; {recorded} of them against recordings")]


def page_of(dossier: Dossier, command: str = "") -> str:
    """The dossier as HTML; `command` is the command line that created it."""
    origins = dossier.summary()["origins"]
    checks = [
        (
            k + 1,
            one.quantity,
            one.verdict,
            one.basis,
            one.reference,
            one.tolerance,
            f"tests/{one.test}, docs/{one.page}",
        )
        for k, one in enumerate(dossier.checks)
    ]
    claims = [
        (one.field, _short(one.value), one.origin, one.source or "–", ", ".join(map(str, one.checks)) or "–")
        for one in dossier.claims
    ]
    weather = [(medium, one["grade"], one["reason"]) for medium, one in dossier.weather.items()]
    sources = [(one["title"], ", ".join(one["covers"]), one["note"]) for one in dossier.sources]
    note = html.paragraph(
        "Agrees: within the tolerance. Partly: some of the compared quantities are outside, as the tolerance states. "
        "Differs: not reproduced. "
        "Closed forms and publications test the equations that all sensors of the kind share, with sheets made for the "
        "test; recordings test the numbers of this sheet."
    )
    return html.page(
        f"Dossier: {dossier.name}",
        html.section("summary", "Summary", html.table((), summary_rows(dossier))),
        html.section("checks", "Checks", html.table(CHECK_COLUMNS, checks, kinds="nl--lll"), note),
        html.section("weather", "Weather", html.table(("medium", "grade", "reason"), weather, kinds="--l")),
        html.section("claims", "Every number", html.table(CLAIM_COLUMNS, claims, kinds="-l-ll")),
        html.section("sources", "Sources", html.table(("title", "covers", "remarks"), sources, kinds="lll")),
        lead=(f"{dossier.kind} {dossier.model}",),
        facts=[(word, origins[word]) for word in ORIGINS] + [("checks", len(dossier.checks))],
        command=command,
    )


def _short(value: Any) -> str:
    words = str(value)
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
