"""A cluster with two real nodes for each module here, which may do to it what it likes, and images of nodeprep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemonset.image.debian import CannotBuild
from tests.rigs import images, started
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import Cluster
from tests.rigs.guest import Guest

DRILLS = "test_repair_drills"  # the module that is alone on its machine: a proof, and no part of `make test`
REPAIRED = ("test_remediator_guest", DRILLS)  # modules whose guest has a remediator
RELEASE = "test_a_release_whose_port_state_always_fails"  # the one test that wants a failing image on the guest


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with started.cluster(nodes=2) as made:
        yield made


@pytest.fixture(scope="session")
def new_guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A node that just registered: no agent, no plugin. To the next module it comes as the one before left it."""
    tests = request.session.items
    kinds = ["good"]
    kinds += ["failing"] if any(test.name == RELEASE for test in tests) else []
    kinds += ["repair"] if any(test.path.stem in REPAIRED for test in tests) else []
    with started.guest(kinds, 2 if any(test.path.stem == DRILLS for test in tests) else 1) as guest:
        yield guest


@pytest.fixture(scope="session")
def image() -> Callable[[str], Path]:
    """Gives the archive of a kind (tests/rigs/images.py)."""

    def made(kind: str) -> Path:
        try:
            return images.archive(kind)
        except CannotBuild as reason:
            cannot_start(reason)

    return made
