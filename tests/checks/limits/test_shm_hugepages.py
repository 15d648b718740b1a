"""limits.shm-hugepages by its rows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nodeprep.checks.limits.shm_hugepages import CHECK, Want
from nodeprep.facts.machine.limits import HugePages, Limits
from nodeprep.model import Unreadable, Why
from tests.values import say, verdicts

MIB = 1 << 20
BROKEN = Unreadable(Why.IO_ERROR, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 5)


def limits(shm: object, *pools: HugePages) -> Limits:
    return Limits(0.0, (), pools, 1 << 40, shm)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shm", "says"),
    [
        (64 * MIB, "ok Enough"),
        (64 * MIB - 1, "warn ShmSmall"),
        (1 << 40, "ok Enough"),
        (0, "warn ShmSmall"),
        (None, "absent Nothing"),
        (BROKEN, "unknown CannotLook"),
    ],
)
def test_shm(shm: object, says: str) -> None:
    assert say(CHECK, limits(shm)) == says


def test_shm_as_the_operator_wants_it() -> None:
    assert say(CHECK, limits(100), want=Want(shm_at_least=100)) == "ok Enough"
    assert say(CHECK, limits(100), want=Want(shm_at_least=101)) == "warn ShmSmall"
    assert say(CHECK, limits(0), want=Want(shm_at_least=0)) == "ok Enough"


TAKEN = HugePages(2048, 1024, 0)
SPOILT = HugePages(2048, BROKEN, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pools", "wanted", "says"),
    [
        ((TAKEN,), {}, "absent Nothing"),  # all in use is how they should be
        ((TAKEN,), {2048: 1024}, "ok Enough"),
        ((TAKEN,), {2048: 1025}, "warn HugePagesShort"),
        ((TAKEN,), {2048: 1023}, "ok Enough"),
        ((TAKEN,), {1048576: 1}, "warn HugePagesShort"),
        ((), {2048: 1}, "warn HugePagesShort"),
        ((), {2048: 0}, "ok Enough"),
        ((SPOILT,), {2048: 1}, "unknown CannotLook"),
        (
            (SPOILT, HugePages(1048576, 8, 8)),
            {2048: 1, 1048576: 8},
            "unknown CannotLook; ok Enough",
        ),
    ],
)
def test_huge_pages(pools: tuple[HugePages, ...], wanted: Mapping[int, int], says: str) -> None:
    assert say(CHECK, limits(None, *pools), want=Want(huge_pages=wanted)) == says


def test_subjects_do_not_collide_and_messages_say_what_is_there() -> None:
    want = Want(huge_pages={2048: 2048, 1048576: 8})
    found = verdicts(CHECK, limits(MIB, TAKEN), want=want)
    assert [one.subject.key for one in found] == ["/dev/shm", "hugepages-2048kB", "hugepages-1048576kB"]
    assert found[0].message.startswith("/dev/shm has 1048576 bytes; 67108864 are wanted by default (shm-at-least);")
    assert found[1].message.startswith("1024 huge pages of 2048 KiB; 2048 are wanted by profile site (huge-pages);")
    assert found[2].message.startswith(
        "this kernel has no huge pages of 1048576 KiB; 8 are wanted by profile site (huge-pages);"
    )
    (_, unknown) = verdicts(CHECK, limits(0, SPOILT), want=Want(huge_pages={2048: 1}))
    assert (unknown.subject.key, unknown.reason) == ("hugepages-2048kB", "CannotLook")
    (unmounted,) = verdicts(CHECK, limits(0))
    assert unmounted.message.startswith("nothing is mounted at /dev/shm;")
