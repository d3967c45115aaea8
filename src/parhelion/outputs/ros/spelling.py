"""How names of a scenario are spelt in ROS."""

from __future__ import annotations

import re


def ros_name(text: str) -> str:
    """A name of a scenario as ROS allows it: letters, digits and underscores, not beginning with a digit."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return f"_{plain}" if plain[0].isdigit() else plain
