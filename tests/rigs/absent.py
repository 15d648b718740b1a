"""What a test does when its rig cannot start here: it skips loudly; in CI that is a failure (design 8)."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cannot_start(reason: object) -> NoReturn:
    """Skip with the reason, or fail with it where CI says that every rig must start."""
    if os.environ.get("CI") or os.environ.get("NODEPREP_CI"):
        pytest.fail(f"in CI every rig must start: {reason}")
    pytest.skip(str(reason))
