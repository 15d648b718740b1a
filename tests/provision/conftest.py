"""One guest for the session. Each test finds it as it was after its first boot: a node from zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.systemd_guest import CannotStart, SystemdGuest


@pytest.fixture(scope="session")
def booted() -> Iterator[SystemdGuest]:
    try:
        started = SystemdGuest.start()
    except CannotStart as reason:
        cannot_start(reason)
    with started:
        print(f"systemd guest: booted in {started.seconds:.0f} s: {started.state}")
        started.keep()
        yield started


@pytest.fixture
def guest(booted: SystemdGuest) -> Iterator[SystemdGuest]:
    """A node from zero."""
    yield booted
    booted.restore()
