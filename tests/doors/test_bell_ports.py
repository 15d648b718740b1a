"""The poll of InfiniBand ports, on class trees of files."""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.events.port_events import LISTING, PORT_POLL_SECONDS, PortEvents
from nodeprep.model import Topic
from tests.rigs.absent import cannot_start
from tests.rigs.hung_mounts import UNAVAILABLE
from tests.rigs.no_thread import NO_THREAD, no_thread

NOTHING: frozenset[Topic] = frozenset()
RDMA = frozenset({Topic.RDMA})
QUICK = 0.05  # seconds between polls here


def port(root: Path, device: str, link_layer: str = "InfiniBand") -> Path:
    made = root / f"sys/class/infiniband/{device}/ports/1"
    made.mkdir(parents=True)
    for name, text in (("link_layer", link_layer), ("state", "4: ACTIVE"), ("phys_state", "5: LinkUp")):
        (made / name).write_text(f"{text}\n")
    return made


def say(attribute: Path, text: str) -> None:
    """Change it at once, as the kernel does: who writes a file anew empties it first, and that could be read."""
    file = os.open(attribute, os.O_WRONLY)
    os.pwrite(file, text.encode().ljust(os.fstat(file).st_size, b"\n"), 0)
    os.close(file)


@contextmanager
def polling(root: Path, listing: float = LISTING) -> Iterator[PortEvents]:
    event_source = PortEvents(str(root), QUICK, listing)
    event_source.open()
    try:
        assert heard(event_source, 0.5) == NOTHING, "how it was at first is no news"
        yield event_source
    finally:
        event_source.close()


def heard(event_source: PortEvents, seconds: float = 10) -> frozenset[Topic]:
    """What it says within some seconds, if poll(2) says that there is something."""
    assert event_source._poll
    poll = select.poll()
    poll.register(event_source._poll.descriptor, select.POLLIN)
    return event_source.drain() if poll.poll(seconds * 1000) else NOTHING


def test_its_periods_are_those_of_the_design() -> None:
    assert (PORT_POLL_SECONDS, LISTING) == (1.0, 60.0)


@pytest.mark.parametrize("name", ["state", "phys_state"])
def test_a_state_that_changes_rings_once(tmp_path: Path, name: str) -> None:
    ports = [port(tmp_path, f"mlx5_{number}") for number in range(3)]
    with polling(tmp_path) as event_source:
        say(ports[2] / name, "1: DOWN")
        assert heard(event_source) == RDMA
        assert heard(event_source, 0.5) == NOTHING
        say(ports[0] / name, "1: DOWN")
        assert heard(event_source) == RDMA


def test_a_port_that_is_gone_rings(tmp_path: Path) -> None:
    """A regular file outlives its name as no kernel attribute does, so that it takes a list of the ports to see it."""
    state = port(tmp_path, "mlx5_0") / "state"
    with polling(tmp_path) as event_source:
        state.unlink()
        event_source.heard()
        assert heard(event_source) == RDMA
        state.mkdir()
        event_source.heard()
        assert heard(event_source, 0.5) == NOTHING


def test_what_cannot_be_read_is_a_state_too(tmp_path: Path) -> None:
    """As of a device that is gone (ENODEV), by a descriptor that lost its file."""
    port(tmp_path, "mlx5_0")
    before = descriptors()
    with polling(tmp_path) as event_source:
        (lost, *_) = [one for one in descriptors() - before if one[1].endswith("/state")]
        hole = os.open(tmp_path, os.O_RDONLY)
        os.dup2(hole, int(lost[0]))  # EISDIR
        os.close(hole)
        assert heard(event_source) == RDMA
        assert heard(event_source, 0.5) == NOTHING


def test_files_of_ports_that_went_are_closed(tmp_path: Path) -> None:
    before = descriptors()
    made = port(tmp_path, "mlx5_0")
    with polling(tmp_path) as event_source:
        assert len([path for _, path in descriptors() - before if "/ports/1/" in path]) == 2
        for _ in range(20):
            event_source.heard()
            assert heard(event_source, 0.1) == NOTHING
        deadline = time.monotonic() + 10
        while len([path for _, path in descriptors() - before if "/ports/1/" in path]) != 2:
            assert time.monotonic() < deadline  # it may list them for the last time just now
            time.sleep(0.01)
        (made / "link_layer").write_text("Ethernet")
        event_source.heard()
        assert heard(event_source) == RDMA
        assert [path for _, path in descriptors() - before if "/ports/1/" in path] == []


def descriptors() -> set[tuple[str, str]]:
    """Number and path of every open file of this process."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add((entry.name, str(entry.readlink())))
    return found


def test_other_ports_are_none_of_its_business(tmp_path: Path) -> None:
    states = [port(tmp_path, "mlx5_0", "Ethernet") / "state", port(tmp_path, "odd0", "Something") / "state"]
    with polling(tmp_path) as event_source:
        for state in states:
            state.write_text("1: DOWN\n")
        assert heard(event_source, 0.5) == NOTHING


def test_ports_that_come_are_found_when_another_event_source_says_so(tmp_path: Path) -> None:
    with polling(tmp_path) as event_source:
        state = port(tmp_path, "mlx5_0") / "state"
        assert heard(event_source, 0.3) == NOTHING, "it is not listed every time"
        event_source.heard()
        assert heard(event_source) == RDMA
        state.write_text("1: DOWN\n")
        assert heard(event_source) == RDMA


def test_ports_that_come_unannounced_are_found_too(tmp_path: Path) -> None:
    with polling(tmp_path, listing=1.0) as event_source:
        port(tmp_path, "mlx5_0")
        assert heard(event_source) == RDMA


def test_ports_that_come_beside_others_are_found_too(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0")
    with polling(tmp_path, listing=1.0) as event_source:
        port(tmp_path, "mlx5_1")
        assert heard(event_source) == RDMA


def test_closed_it_ends_its_thread_and_can_be_opened_again(tmp_path: Path) -> None:
    state = port(tmp_path, "mlx5_0") / "state"
    event_source = PortEvents(str(tmp_path), QUICK)
    event_source.open()
    event_source.close()
    event_source.close()
    assert event_source.drain() == NOTHING
    deadline = time.monotonic() + 10
    while any(thread.name == PortEvents.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    event_source.open()
    assert heard(event_source, 0.5) == NOTHING
    for text in ("1: DOWN\n", "4: ACTIVE\n") * 10:  # the first may be what a busy machine sees at first
        state.write_text(text)
        if heard(event_source, 1) == RDMA:
            break
    else:
        pytest.fail("it is not heard again")
    event_source.close()


def test_whatever_ends_its_thread_is_told_and_not_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    event_sources = EventSources(sources=[PortEvents(str(tmp_path), listing=math.inf)])  # no clock waits for that
    try:
        assert event_sources.wait(10) == RDMA
        assert event_sources.states()[PortEvents.name].why.startswith("OverflowError: timestamp")
        assert event_sources.wait(10) == RDMA, "it is opened again"
        assert event_sources.states()[PortEvents.name].restarts == 1
    finally:
        event_sources.close()
    assert capfd.readouterr().err == ""


def test_without_a_thread_it_is_a_dead_event_source_and_opened_again(tmp_path: Path) -> None:
    with no_thread():
        event_sources = EventSources(sources=[PortEvents(str(tmp_path))])
    try:
        assert event_sources.states()[PortEvents.name].why == f"no thread: {NO_THREAD}"
        assert event_sources.wait(10) == RDMA
        assert event_sources.states()[PortEvents.name].alive
    finally:
        event_sources.close()


HUNG = """
import os, time
from pathlib import Path
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.events.port_events import PortEvents
root = Path(os.environ["MOUNTS"])
port = root / "sys/class/infiniband/mlx5_0/ports/1"
port.mkdir(parents=True)
(port / "link_layer").write_text("InfiniBand")
(port / "state").symlink_to("/hung0/state")
event_sources = EventSources(sources=[PortEvents(str(root), stuck=1.0)])
time.sleep(0.5)
began = time.monotonic()
event_sources.wait(2.0)
print(round(time.monotonic() - began))
print(event_sources.states()["infiniband-ports"])
event_sources.close()
"""


def test_a_device_that_does_not_answer_hangs_nobody_else() -> None:
    rig = Path(__file__).parents[1] / "rigs/hung_mounts.py"
    words = [sys.executable, str(rig), "run", "--", sys.executable, "-c", HUNG]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == UNAVAILABLE:
        cannot_start(done.stderr)
    assert done.returncode == 0, done.stderr
    seconds, state = done.stdout.splitlines()
    assert 2 <= int(seconds) < 30
    assert "alive=False" in state
    assert "no answer from /sys/class/infiniband/mlx5_0/ports/1 for" in state
