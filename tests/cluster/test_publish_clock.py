"""A wall clock that is wrong, or put right: what stands on the Node follows, and nothing is judged by it."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodeprep.publish import node_patches
from tests.cluster.published_node import BUSY, CHECK, DOWN, RENEWED, UP, Published, published, seconds
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

HOUR = 3600.0
READY = "nodeprep.io/TrainingReady"
# The wall clock of one process, shifted by the seconds in a file that is mapped. time(2) is not: OpenSSL asks it, and
# the rig's certificates are minutes old.
SHIFT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static const volatile long *shift;

__attribute__((constructor)) static void map(void) {
    const char *name = getenv("SHIFT_FILE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    shift = found == MAP_FAILED ? 0 : found;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, at);
    if (!failed && shift && which == CLOCK_REALTIME) at->tv_sec += *shift;
    return failed;
}
"""


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


class Clock:
    """The wall clock of an agent that is started in `environment`."""

    def __init__(self, directory: Path) -> None:
        source, library = directory / "shift.c", directory / "shift.so"
        self.file = directory / "shift"
        source.write_text(SHIFT)
        self.file.write_bytes(struct.pack("l", 0))
        try:
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            cannot_start(f"a shifted clock: {error}")
        self.environment = {"LD_PRELOAD": str(library), "SHIFT_FILE": str(self.file)}

    def shift(self, by: float) -> None:
        with self.file.open("r+b") as file:
            file.write(struct.pack("l", int(by)))


def heartbeat(one: Published) -> datetime:
    return datetime.fromisoformat(one.conditions()[READY]["lastHeartbeatTime"])


def since(one: Published) -> datetime:
    return datetime.fromisoformat(one.conditions()[READY]["lastTransitionTime"])


def is_near(told: datetime, shift: float) -> bool:
    """Whether a time that was just written is that of a clock which is wrong by so much."""
    return abs((told - datetime.now(UTC)).total_seconds() - shift) < BUSY


def test_jumps_of_an_hour_both_ways(
    cluster: Cluster, here: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path)
    with (
        published(cluster, here.node, tmp_path, "jumps", start=False) as one,
        published(cluster, here.node, tmp_path, "steady") as steady,
    ):
        with monkeypatch.context() as shifted:
            for name, value in clock.environment.items():
                shifted.setenv(name, value)
            one.agent.start()
        one.ready()
        for shift in (HOUR, -HOUR):
            clock.shift(shift)
            steady.ready()
            with here.fault(DOWN, UP):
                until(lambda: not steady.agent.gates(), "gate file that is gone where the clock is right")
                until(lambda: not one.agent.gates(), "gate file that is gone, and not in an hour")
                one.closed()
                assert is_near(heartbeat(one), shift)
                assert is_near(since(one), shift), "its own transition, by its own clock"
            one.ready()
            assert is_near(since(one), shift)
        clock.shift(0)
        jumped = time.monotonic()
        until(lambda: is_near(heartbeat(one), 0), "heartbeat by the clock that is right again", CHECK + BUSY)
        print(f"jumps: heartbeat right {seconds(jumped):.1f} s after the last jump")
        assert len(one.writes(jumped)) == 1, "once"
        assert one.is_open()
        until(lambda: is_near(renewed(one), 0), "Lease by the clock that is right again", RENEWED + BUSY)


def renewed(one: Published) -> datetime:
    lease = one.lease()
    return datetime.fromisoformat(lease["spec"]["renewTime"]) if lease else datetime.fromtimestamp(0, UTC)


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_conditions_of_a_clock_that_was_wrong(cluster: Cluster, here: Checked, tmp_path: Path, wrong: float) -> None:
    """A heartbeat of the future is said anew at once; the time of a transition that was no new one stays."""
    name = f"wrong-by-{wrong:+.0f}".replace("+", "").replace("-3600", "minus-3600")
    with published(cluster, here.node, tmp_path, name) as one:
        one.ready()
        one.agent.kill()
        then = node_patches.stamp(datetime.now(UTC) + timedelta(seconds=wrong))
        old = [{**told, "lastHeartbeatTime": then, "lastTransitionTime": then} for told in one.conditions().values()]
        one.patch({"status": {"conditions": old}}, "status")
        begun = time.monotonic()
        one.agent.start()
        until(lambda: is_near(heartbeat(one), 0), "heartbeat that is right")
        assert one.conditions()[READY]["lastTransitionTime"] == then
        time.sleep(2)
        assert all(write.path.endswith("/status") for write in one.writes(begun))
        assert one.is_open()
