"""Dossiers of sensor models: every claim has an origin, and every check names what exists."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from parhelion.evaluate.dossier import CHECKS, Dossier, dossier_of, page_of
from parhelion.sensors.kinds import kinds

ROOT = Path(__file__).resolve().parents[3]


def dossier(kind: str, model: str) -> Dossier:
    return dossier_of(kinds()[kind].sensor(model), model)


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.kind}-{check.quantity}")
def test_tests_pages_and_presets_of_checks_exist(check) -> None:  # type: ignore[no-untyped-def]
    if check.test:
        file, _, name = check.test.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text
    page, _, anchor = check.page.partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert not anchor or anchor in map(slug, headings)
    presets = kinds()[check.kind].preset_names()
    assert all(any(fnmatch(preset, pattern) for preset in presets) for pattern in check.models)
    assert check.test or check.basis == "recording"


def test_claims_of_a_lidar() -> None:
    found = dossier("lidar", "ouster/os0-64")
    claims = {claim.field: claim for claim in found.claims}
    assert claims["wavelength_nm"].origin == "quoted"
    assert "OS0 data sheets" in claims["wavelength_nm"].source
    assert claims["noise.range_sigma_m"].origin == "stated"
    assert claims["receiver.pulse_length_ns"].origin == "assumed"
    assert "edge-emitting" in claims["receiver.pulse_length_ns"].source
    recorded = [k + 1 for k, check in enumerate(found.checks) if check.basis == "recording"]
    assert set(recorded) <= set(claims["noise.range_sigma_m"].checks)
    assert found.weather["rain"]["grade"] == "by class" or found.weather["rain"]["reason"]
    summary = found.summary()
    assert sum(summary["origins"].values()) == len(found.claims)
    assert json.loads(json.dumps(found.as_dict()))["checks"][0]["kind"] == "lidar"
    page = page_of(found)
    assert page.count("<section") == 5
    assert "noise 1.2 to 1.9 times too large" in page


def test_another_model_has_no_recordings_of_this_one() -> None:
    assert not any("BALM" in check.reference for check in dossier("lidar", "ouster/os2-64").checks)


@pytest.mark.parametrize("kind", [name for name in sorted(kinds()) if name != "lidar"])
def test_every_kind_has_dossiers(kind: str) -> None:
    preset = kinds()[kind].preset_names()[0]
    found = dossier(kind, preset)
    assert found.checks
    assert all(claim.origin == "default" or claim.source for claim in found.claims)


def test_command(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from parhelion.cli.app import app

    page, numbers = tmp_path / "d.html", tmp_path / "d.json"
    result = CliRunner().invoke(app, ["dossier", "bosch/bmi160", "-o", str(page), "--json", str(numbers)])
    assert result.exit_code == 0, result.output
    assert json.loads(numbers.read_text())["kind"] == "imu"
    assert "Every number" in page.read_text()
