"""A test whose rig cannot start here skips loudly. In CI it fails (design 8)."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IN_CI = bool(os.environ.get("CI") or os.environ.get("NODEPREP_CI"))


def cannot_start(reason: object) -> NoReturn:
    """Skip with the reason, or fail with it if CI says that every rig must start."""
    if IN_CI:
        pytest.fail(f"in CI every rig must start: {reason}")
    pytest.skip(str(reason))


def needs_root(reason: str) -> pytest.MarkDecorator:
    """Skip for an ordinary user. CI is root, as the rigs need, so there the test always runs."""
    return pytest.mark.skipif(os.geteuid() != 0 and not IN_CI, reason=reason)
