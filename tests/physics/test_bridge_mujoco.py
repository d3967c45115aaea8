"""MuJoCo moves a crate down a ramp; the points of a VLP-16 on it follow the closed form of the slide."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco", reason="needs the extra 'physics'")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "bridge"
SLOPE, FRICTION, GRAVITY = np.radians(20.0), 0.2, 9.80665
DOWN = np.array([np.cos(SLOPE), 0.0, -np.sin(SLOPE)])
NORMAL = np.array([np.sin(SLOPE), 0.0, np.cos(SLOPE)])
START = np.array([-2.07578, 0.0, 3.02157])
HALF = np.array([0.25, 0.3, 0.2])


def test_points_on_a_sliding_crate_follow_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    sys.modules.pop("mujoco_ramp", None)
    from mujoco_ramp import watch

    pull = GRAVITY * (np.sin(SLOPE) - FRICTION * np.cos(SLOPE))
    errors, travelled = [], []
    for (_, _, scan), bridge in watch(1.1):
        crate = next(one for one in bridge.world.objects if one.name == "box")
        mine = scan.instance == crate.instance
        time = scan.start_time + scan.time[mine]
        place = scan.xyz[mine] + np.array([5.5, -0.8, 2.2]) - START
        # Along the slope, in the frame of a crate that slides by 1/2 g (sin - mu cos) t^2.
        slid = 0.5 * pull * time**2
        along = place @ DOWN - slid
        front = (along > 0.1) & (np.abs(place[:, 1]) < HALF[1] - 0.03) & (np.abs(place @ NORMAL) < HALF[2] - 0.03)
        assert front.sum() > 15
        errors.append(along[front] - HALF[0])
        travelled.append(slid[front])
    assert len(errors) == 11
    assert travelled[-1].max() > 0.8
    # The unit has a range noise of 6 mm per shot, and offsets of its channels within the 30 mm of the data sheet.
    assert max(one.std() for one in errors) < 0.009
    assert abs(np.concatenate(errors).mean()) < 0.015
    # The error does not grow with the distance: 4 mm per metre, of which 1 mm is MuJoCo's.
    assert abs(np.polyfit(np.concatenate(travelled), np.concatenate(errors), 1)[0]) < 0.004
