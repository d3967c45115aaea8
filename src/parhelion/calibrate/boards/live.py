"""Calibration of boards while the sensor runs: the board that it sees, and the shots per angle of incidence so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from parhelion.calibrate.boards.boards import BoardsFile
from parhelion.calibrate.boards.find import Board, find_boards
from parhelion.calibrate.boards.profile import BIN_DEG, angle_edges, taken_at
from parhelion.calibrate.boards.shots import BoardShots, joined_shots
from parhelion.calibrate.range_images import Mask
from parhelion.core.config import load
from parhelion.core.errors import ConfigError
from parhelion.core.files import write_whole

RECENT_SHOTS = 4000
"""Shots among which the board is found, at least one measurement."""
FIND_EVERY = 5
"""Measurements between two searches for the board, which take up to 0.3 s."""
LEAST_SHARE = 0.05
"""Share of the fullest bin below which a bin counts as outside the board: strays at its rim."""
MOVED_M, MOVED_DEG = 0.03, 2.0
"""Change of the board's distance and direction above which it was moved, and counting starts again."""


@dataclass(frozen=True, eq=False)
class BoardView:
    """Board in front of the sensor, and the shots at it so far."""

    shots: BoardShots
    """Shots of the last measurements."""
    board: Board | None
    """None until a board is found."""
    taken: Mask
    """Shots at the board."""
    counts: NDArray[np.int64]
    """Shots per bin of `BIN_DEG` of incidence, since the board stands."""
    wanted: int
    """Shots that each bin needs."""
    problem: str = ""
    """Reason for the lack of a board."""
    restarted: bool = False
    """True if the board has moved, so that counting starts again."""

    @property
    def covered(self) -> NDArray[np.int64]:
        """Bins that the board covers."""
        if not self.counts.any():
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.counts >= max(1.0, LEAST_SHARE * float(self.counts.max())))

    @property
    def is_complete(self) -> bool:
        """True if every covered bin has its shots."""
        return bool(len(self.covered)) and bool((self.counts[self.covered] >= self.wanted).all())

    def rows(self) -> list[tuple[str, int]]:
        """Covered bins in words, with their shots."""
        return [(f"{BIN_DEG * k:.0f}-{BIN_DEG * (k + 1):.0f} deg", int(self.counts[k])) for k in self.covered]

    def top_view(self, width: int = 61, height: int = 21) -> list[str]:
        """Lines of text with the scene from above: sensor `o`, board `#`, other returns `.`, edges `+`.

        The board is up. A character is twice as high as wide.
        """
        points = self.shots.points
        there = np.isfinite(points[:, 0])
        far = 1.0 if self.board is None else 1.6 * self.board.distance_m
        ahead = np.array([1.0, 0.0]) if self.board is None else -self.board.normal[:2]
        ahead = ahead / max(float(np.linalg.norm(ahead)), 1e-9)
        half = far * 0.5 * width / (2.0 * (height - 2))
        lines = [[" "] * width for _ in range(height)]

        def put(places: NDArray[np.float64], mark: str) -> None:
            up, left = places[:, :2] @ ahead, places[:, 0] * -ahead[1] + places[:, 1] * ahead[0]
            row = np.rint((height - 2) * (1.0 - up / far)).astype(np.int64)
            column = np.rint((width - 1) * 0.5 * (1.0 - left / half)).astype(np.int64)
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            for r, c in set(zip(row[inside].tolist(), column[inside].tolist(), strict=True)):
                lines[r][c] = mark

        put(points[there & ~self.taken], ".")
        put(points[there & self.taken], "#")
        if self.board is not None:
            foot = -self.board.normal * self.board.distance_m
            put(np.stack([foot + edge * self.board.across for edge in self.board.edges_m[:2]]), "+")
        put(np.zeros((1, 3)), "o")
        return ["".join(line).rstrip() for line in lines]


@dataclass
class BoardCounter:
    """Counter of the shots at the board in front of a running sensor."""

    wanted: int = 300
    """Shots per bin of incidence."""
    width_m: float | None = None
    distance_m: float | None = None
    seed: int = 1
    _recent: list[BoardShots] = field(default_factory=list)
    _first: Board | None = None
    _board: Board | None = None
    _number: int = 0
    _counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(angle_edges()) - 1, np.int64))

    def add(self, shots: BoardShots) -> BoardView:
        """View after the shots of one more measurement."""
        self._recent.append(shots)
        while len(self._recent) > 1 and sum(map(len, self._recent[1:])) >= RECENT_SHOTS:
            self._recent.pop(0)
        restarted = False
        if self._board is None or self._number % FIND_EVERY == 0:
            try:
                board = self._found()
            except ConfigError as error:
                none = np.zeros(len(shots), bool)
                return BoardView(shots, None, none, self._counts.copy(), self.wanted, str(error))
            restarted = self._first is not None and _moved(self._first, board)
            self._board = board
            if self._first is None or restarted:
                self._first, self._recent = board, [shots]
                self._counts[:] = 0
        self._number += 1
        board = self._board
        taken = taken_at(board, shots)
        angle = board.incidence_deg(shots.rows(taken))
        self._counts += np.histogram(angle, angle_edges())[0]
        return BoardView(shots, board, taken, self._counts.copy(), self.wanted, restarted=restarted)

    def _found(self) -> Board:
        recent = joined_shots(self._recent)
        return find_boards(recent, distance_m=self.distance_m, width_m=self.width_m, seed=self.seed)[0]


def _moved(before: Board, now: Board) -> bool:
    turned = np.degrees(np.arccos(np.clip(float(before.normal @ now.normal), -1.0, 1.0)))
    return abs(before.distance_m - now.distance_m) > MOVED_M or bool(turned > MOVED_DEG)


# ---- boards file ----------------------------------------------------------------------------------------------------


def check_boards(file: Path) -> None:
    """Raise ConfigError if an existing boards file cannot be extended."""
    if file.exists():
        load(BoardsFile, file)


def add_board(file: Path, entry: dict[str, Any]) -> None:
    """Add a recording to a boards file, which is created if needed. Comments and order of an existing file stay."""
    line = "- " + yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=1000).strip()
    if not file.exists():
        write_whole(file, f"boards:\n  {line}\n".encode())
        return
    check_boards(file)
    text = file.read_text(encoding="utf-8")
    whole = yaml.compose(text, yaml.SafeLoader)
    pairs = whole.value if isinstance(whole, yaml.MappingNode) else []
    boards = next((value for key, value in pairs if key.value == "boards"), None)
    if isinstance(boards, yaml.SequenceNode) and boards.value and not boards.flow_style:
        end = text.find("\n", boards.value[-1].end_mark.index - 1)
        head, rest = (text + "\n", "") if end < 0 else (text[: end + 1], text[end + 1 :])
        text = f"{head}{' ' * boards.start_mark.column}{line}\n{rest}"
    elif boards is None:
        text = f"{text.rstrip()}\nboards:\n  {line}\n".lstrip()
    else:  # an empty list, or one in brackets
        content = yaml.safe_load(text)
        content["boards"] = [*(content["boards"] or []), entry]
        text = yaml.safe_dump(content, sort_keys=False)
    write_whole(file, text.encode())
