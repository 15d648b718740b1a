"""A test whose rig cannot start here skips loudly. In CI it fails (design 8)."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cannot_start(reason: object) -> NoReturn:
    """Skip with the reason, or fail with it if CI says that every rig must start."""
    if os.environ.get("CI") or os.environ.get("NODEPREP_CI"):
        pytest.fail(f"in CI every rig must start: {reason}")
    pytest.skip(str(reason))
