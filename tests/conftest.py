"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The time of an example depends on the machine. pytest's own timeout ends one that hangs.
settings.register_profile("nodeprep", deadline=None)
settings.load_profile("nodeprep")

# emulated guests, clusters, images, namespaces: several wait for each other
RIGS = ("lab", "provision", "cluster", "kubernetes", "daemonset", "systems", "netns", "slurm")
HANGS = 1800  # seconds


# Searches for cycles took a sixth of what the tests of values compute. What pytest has collected stays to the end:
# 18,000 tests and all modules. So no search need go through it.
gc.set_threshold(20_000, 20, 50)


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in RIGS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(HANGS))


# A script that starts us with `&` ignores SIGINT, and our children would inherit it: then Ctrl-C ends nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def held_interpreter() -> Iterator[None]:
    """A computing thread keeps others from running for more than a second, as when all processors are taken."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1.2)
    yield
    sys.setswitchinterval(usual)
