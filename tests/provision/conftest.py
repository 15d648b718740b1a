"""One guest for the session. Each test finds it as it was after its first boot: a node from zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provision.roce_node import put
from tests.rigs.absent import cannot_start
from tests.rigs.systemd_guest import CannotStart, SystemdGuest

CONFIG = "/etc/nodeprep/config.yaml"


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
    """A node from zero. Its plays may take long: its processor is emulated, and other tests want the real one too."""
    put(booted, CONFIG, "apiVersion: nodeprep.io/v1\nkind: Config\nrepair: {deadline: {safe: 600}}\n")
    yield booted
    booted.restore()
