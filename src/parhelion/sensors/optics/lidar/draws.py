"""Numbers of the random draws of a lidar: one table, so that no two quantities share a draw.

A draw is a pure function of scan, shot and draw number (`core.random`). Two quantities with the same number would be
fully correlated. Media own 500 numbers each, from `Medium.draw` on.
"""

from __future__ import annotations

from parhelion.weather import media

WINDOW_DRAW = 0
"""First draw of the receiver noise of detection windows; one number per separate window of a shot."""
AIM_DRAW = 1000
"""Pointing jitter of a beam."""
PULSE_DRAW = 1001
"""Variation of the extinction from pulse to pulse."""
FALSE_ALARM_DRAW = 2000
"""False alarm of a shot."""
READOUT_DRAW = 3000
"""Range and intensity noise of returns; one number per return."""
PROFILE_DRAW = 4000
"""Noise of calibrated materials; two numbers per return."""
AMBIENT_DRAW = 8000
"""Noise count of a shot without a return."""
WITHIN_STEP_DRAW = 9000
"""Position of a recorded intensity within its rounding step."""
DROPOUT_DRAW = 9100
"""Loss of a return that does not depend on its signal; one number per return."""
SPECKLE_DRAW = 9200
"""Speckle of the surfaces of a shot of a coherent lidar."""
AIR_SPECKLE_DRAW = 9201
"""Speckle of the air in front of them."""

MOST_RETURNS = 8
DRAWS_PER_MEDIUM = 500
SHIFT_DRAW = DRAWS_PER_MEDIUM - 1
"""Range shift, relative to a medium's first draw; the draws of its particles are below it."""


def draw_ranges() -> dict[str, range]:
    """Draw numbers of every quantity that is drawn per shot, including those of all registered media."""
    own = {
        "windows": range(WINDOW_DRAW, AIM_DRAW),
        "aim": range(AIM_DRAW, AIM_DRAW + 1),
        "pulse": range(PULSE_DRAW, PULSE_DRAW + 1),
        "false alarm": range(FALSE_ALARM_DRAW, FALSE_ALARM_DRAW + 1),
        "readout": range(READOUT_DRAW, READOUT_DRAW + MOST_RETURNS),
        "profile": range(PROFILE_DRAW, PROFILE_DRAW + 2 * MOST_RETURNS),
        "ambient": range(AMBIENT_DRAW, AMBIENT_DRAW + 1),
        "within step": range(WITHIN_STEP_DRAW, WITHIN_STEP_DRAW + 1),
        "dropout": range(DROPOUT_DRAW, DROPOUT_DRAW + MOST_RETURNS),
        "speckle": range(SPECKLE_DRAW, AIR_SPECKLE_DRAW + 1),
    }
    air = {one.name: range(one.draw, one.draw + DRAWS_PER_MEDIUM) for one in media.table().values()}
    return own | air
