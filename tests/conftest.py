"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes is the machine's matter; pytest's own timeout ends one that hangs.
settings.register_profile("nodeprep", deadline=None)
settings.load_profile("nodeprep")
