"""One guest for the session, healthy again after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.lab import CannotStart, Guest


@pytest.fixture(scope="session")
def guest() -> Iterator[Guest]:
    try:
        started = Guest.start()
    except CannotStart as reason:
        cannot_start(reason)
    with started:
        yield started


@pytest.fixture(autouse=True)
def restored(request: pytest.FixtureRequest) -> Iterator[None]:
    """Undoes what the test did to the guest; what could not be set up at the start is not asked for again."""
    yield
    if "guest" not in request.fixturenames:
        return
    guest: Guest = request.getfixturevalue("guest")
    left = set(guest.restore()) - set(guest.setup_errors)
    if left:
        raise guest.error(f"not restored after {request.node.name}: {'; '.join(sorted(left))}")
