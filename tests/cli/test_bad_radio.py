"""Radio and sound: what a scenario cannot mean is one sentence, and the exit code is not 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import parhelion as ph
from parhelion.sensors.sheets import PRESETS

FLOOR = {"name": "floor", "shape": {"kind": "box", "size_m": [50, 50, 1]}, "material": "concrete", "label": "road",
         "pose": {"xyz": [0, 0, -0.5]}}  # fmt: skip
WALL = {"name": "west-wall", "shape": {"kind": "box", "size_m": [0.3, 20, 6]}, "material": "brick", "label": "wall",
        "pose": {"xyz": [0, 0, 3]}}  # fmt: skip
OUTSIDE = {"a": [2, 0, 1], "b": [5, 0, 3], "c": [-3, 5, 3], "d": [4, 4, 2]}
MODELS = {"uwb": "qorvo/dw1000", "gnss": "u-blox/m8", "radar": "ti/iwr6843", "echo": "generic/ultrasonic-ranger"}


def scenario(
    folder: Path, kind: str, xyz: list[float], objects: list[Any], change: dict[str, Any], **options: Any
) -> Path:
    """A scenario of one standing sensor; `change` replaces fields of its sheet, by their paths with dots."""
    model = MODELS[kind]
    if change:
        sheet = yaml.safe_load((PRESETS / kind / f"{model}.yaml").read_text())
        for path, value in change.items():
            at, (*outer, last) = sheet, path.split(".")
            for name in outer:
                at = at[name]
            at[last] = value
        model = "sheet.yaml"
        (folder / model).write_text(yaml.safe_dump(sheet))
    (folder / "world.yaml").write_text(yaml.safe_dump({"objects": objects}))
    entry = {"name": "mine", "type": kind, "model": model, "mount": {"xyz": xyz}, "options": options}
    file = folder / "scenario.yaml"
    text = {"name": "bad", "seed": 1, "duration_s": 0.2, "world": "world.yaml", "sensors": [entry], "outputs": []}
    file.write_text(yaml.safe_dump(text))
    return file


CASES: dict[str, tuple[str, list[float], dict[str, Any], dict[str, Any], str]] = {
    "anchor in a wall": ("uwb", [3, 0, 1], {}, {"anchors": {**OUTSIDE, "a": [0.02, 0, 1]}},
                         "uwb mine: anchors: a at (0.02, 0, 1) m is inside 'west-wall'"),
    "tag in a wall": ("uwb", [0, 0, 1], {}, {"anchors": OUTSIDE},
                      "uwb mine: its position (0, 0, 1) m is inside 'west-wall'"),
    "anchors at one place": ("uwb", [3, 0, 1], {}, {"anchors": [[1, 1, 1]] * 4},
                             "sensors[0].options.anchors: all 4 are at one place"),
    "no bandwidth": ("uwb", [3, 0, 1], {"bandwidth_mhz": 0}, {"anchors": OUTSIDE},
                     "sheet.yaml: bandwidth_mhz: expected a number above 0 and up to 10000 MHz, got 0"),
    "carrier of no material": ("uwb", [3, 0, 1], {"carrier_ghz": 0.8}, {"anchors": OUTSIDE},
                               "uwb mine: radio material 'brick': no permittivity at 0.8 GHz; its bands are 1 to 40"),
    "no such backend": ("uwb", [3, 0, 1], {}, {"anchors": OUTSIDE, "backend": "raytracer"},
                        "sensors[0].options.backend: must be own or sionna, got 'raytracer'"),
    "antenna in a wall": ("gnss", [0, 0, 1], {}, {}, "gnss mine: the antenna at (0.00, 0.00, 1.00) m is inside"),
    "place of no planet": ("gnss", [3, 0, 1], {}, {"latitude_deg": 95, "longitude_deg": 0},
                           "sensors[0].options.latitude_deg: must be from -90 to 90, got 95"),
    "radar in a wall": ("radar", [0, 0, 1], {}, {}, "the sensor is inside something"),
    "radar without bandwidth": ("radar", [3, 0, 1], {"waveform.bandwidth_mhz": 0}, {},
                                "sheet.yaml: waveform.bandwidth_mhz: expected a number above 0"),
    "radar of no band": ("radar", [3, 0, 1], {"frequency_ghz": 200.0}, {},
                         "sheet.yaml: frequency_ghz: expected a number from 1 to 100 GHz"),
    "sonar in a wall": ("echo", [0, 0, 1], {}, {}, "the sensor is inside something"),
    "pulse without length": ("echo", [3, 0, 1], {"pulse.duration_ms": 0}, {},
                             "sheet.yaml: pulse.duration_ms: expected a number above 0"),
}  # fmt: skip
"""By what is wrong: kind, place, changes of the sheet, options, and words of the sentence."""


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_no_output(fails: Any, tmp_path: Path, case: str) -> None:
    kind, xyz, change, options, words = CASES[case]
    file = scenario(tmp_path, kind, xyz, [FLOOR, WALL], change, **options)
    assert words in fails("run", file, "-o", tmp_path / "out")
    assert not list(tmp_path.glob("out/*.csv"))


@pytest.mark.parametrize(
    ("spoil", "options", "words"),
    [
        (lambda text: text[: len(text) // 2], {}, "sky.rnx: is cut off: the record of line"),
        (
            lambda text: text,
            {"epoch": "2024-06-23T12:00:00Z"},
            "none is within hours of the epoch 2024-06-23 12:00 UTC",
        ),
    ],
    ids=["cut off", "another day"],
)
def test_navigation_files(fails: Any, tmp_path: Path, spoil: Any, options: dict[str, Any], words: str) -> None:
    sky = tmp_path / "sky.rnx"
    ph.Gnss("u-blox/m8", epoch="2024-06-21T12:00:00Z").save_navigation(ph.World(), sky)
    sky.write_text(spoil(sky.read_text()))
    file = scenario(tmp_path, "gnss", [3, 0, 1], [FLOOR], {}, ephemeris=str(sky), **options)
    assert words in fails("run", file, "-o", tmp_path / "out")


def test_too_few_satellites_are_reported_and_give_no_fix(run: Any, tmp_path: Path) -> None:
    change = {"fix": {"elevation_mask_deg": 60.0}, "constellations": ["gps"]}
    file = scenario(tmp_path, "gnss", [3, 0, 1], [FLOOR], change)
    result = run("run", file, "-o", tmp_path / "out")
    assert result.exit_code == 0
    assert (
        "warning: gnss mine: at 0 s the sky has 1 of the 4 satellites that a fix needs (gps; more than 60"
        in result.stderr
    )
