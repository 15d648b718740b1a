"""A cluster with two real nodes for each module here, which may do to it what it likes, and images of nodeprep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from daemonset.image.debian import CannotBuild
from tests.rigs import images
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Cluster(nodes=2))
        except CannotStart as reason:
            cannot_start(reason)
        yield made


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the archive of a kind (tests/rigs/images.py), each once."""
    directory = tmp_path_factory.mktemp("images")

    @cache
    def made(kind: str) -> Path:
        try:
            images.write(kind, directory / f"{kind}.tar")
        except CannotBuild as reason:
            cannot_start(reason)
        return directory / f"{kind}.tar"

    return made
