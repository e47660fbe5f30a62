"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A time limit for each example measures how busy the machine is.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
