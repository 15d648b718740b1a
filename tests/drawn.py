"""A test over many cases takes a share of them, drawn anew in each run. `make prove` takes them all."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

ALL = 1.0


def shares(share: float) -> pytest.MarkDecorator:
    """Marks a test that takes a `share`: this one in `make test`, and all in `make prove`."""
    every = pytest.param(ALL, marks=pytest.mark.prove)
    return pytest.mark.parametrize("share", [share, every], ids=["drawn", "all"])


def some(cases: Iterable[T], share: float) -> Sequence[T]:
    """So many of the cases by chance, and one at least. A case must name itself where it fails: no seed repeats it."""
    every = tuple(cases)
    if share >= ALL or not every:
        return every
    return tuple(one for one in every if random.random() < share) or (random.choice(every),)
