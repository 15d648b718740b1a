"""The node with a real RoCE device, for the systems that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs import started
from tests.rigs.guest import Guest


@pytest.fixture(scope="session")
def new_guest() -> Iterator[Guest]:
    """A node that just registered: no agent, no plugin. To the next module it comes as the one before left it."""
    with started.guest(("good", "repair")) as guest:
        yield guest
