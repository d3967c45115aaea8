"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples in every run, so that a run says something of the code alone; PARHELION_FUZZ=1 looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", derandomize=False)
settings.load_profile("new" if os.environ.get("PARHELION_FUZZ") == "1" else "same")
