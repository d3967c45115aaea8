"""What a calibration from boards shows while it runs: its stages, the points of each recording, and curves so far."""

from __future__ import annotations

from collections.abc import Mapping

from parhelion.calibrate.board_file import BoardCalibration
from parhelion.calibrate.board_report import board_page
from parhelion.pictures import run_page as html
from parhelion.sensors.lidar.profile import MaterialProfile

AT_WORK = {
    "read": "{} is being read", "board": "the board in {} is looked for", "profile": "profile and gaps of {}",
    "held-out": "{} is held against shots that were kept back", "sheet": "the sheet is put together",
}  # fmt: skip
"""What goes on in each kind of stage."""


class BoardWatch:
    """The pages of one calibration: pictures are drawn once and kept."""

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self._images: dict[str, str] = {}

    def page(
        self, found: BoardCalibration, simulated: Mapping[str, MaterialProfile | None] | None = None, *,
        finished: bool = False,
    ) -> str:  # fmt: skip
        """The page after some stages, as HTML; `simulated` holds the materials that the new sheet has simulated."""
        return board_page(
            found, self.recording, simulated or {}, before=[_stages(found, finished)], images=self._images
        )


def _stages(found: BoardCalibration, finished: bool) -> str:
    states = ["done"] * found.done + ["at work"] + ["waits"] * len(found.stages)
    recordings: list[tuple[str, ...]] = []
    materials: list[tuple[str, ...]] = []
    for number, stage in enumerate(found.stages):
        both = states[number : number + 2]
        if stage.kind == "read":
            recordings.append((stage.material, stage.recording, *both, *_shots(found, len(recordings))))
        elif stage.kind == "profile":
            materials.append((stage.material, *both))
    taken = sum(one.taken for one in found.recordings)
    left = sum(one.shots - one.taken for one in found.recordings if one.board is not None)
    return html.tiles([
        ("stages done", f"{found.done} of {len(found.stages)}"),
        ("boards found", f"{sum(one.board is not None for one in found.recordings)} of {len(recordings)}"),
        ("materials fitted", f"{len(found.materials)} of {len(materials)}"),
        ("shots taken", _count(taken)), ("shots left out", _count(left)),
    ]) + html.section(
        "stages", "Stages", f'<p class="lead">{html.text(_words(found, finished))}</p>',
        "<h3>Recordings</h3>",
        html.table(
            ("material", "recording", "read", "board found", "shots", "taken", "of them lost", "left out"), recordings,
            kinds="-l--nnnn",
        ),
        "<h3>Materials</h3>",
        html.table(("material", "profile and gaps", "held-out comparison"), materials),
    )  # fmt: skip


def _words(found: BoardCalibration, finished: bool) -> str:
    if finished:
        return "All stages are done."
    if found.done == len(found.stages):
        return "The calibration is done; its boards are simulated with the new sheet."
    stage = found.stages[found.done]
    now = AT_WORK[stage.kind].format(stage.recording or stage.material)
    return f"The calibration runs, and this page follows it. Now: {now}."


def _shots(found: BoardCalibration, number: int) -> tuple[str, str, str, str]:
    """How many shots the recording of this number has, and what became of them."""
    if number >= len(found.recordings):
        return "", "", "", ""
    one = found.recordings[number]
    if one.board is None:
        return _count(one.shots), "", "", ""
    return _count(one.shots), _count(one.taken), _count(one.lost), _count(one.shots - one.taken)


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")
