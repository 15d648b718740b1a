"""The kernel's event sources: notices as it lays them out, its log, and a namespace's own links."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodeprep.doors.events import kernel_events
from nodeprep.doors.events.event_source import EventSource, EventSourceAbsent
from nodeprep.doors.events.kernel_events import DeviceEvents, KernelLogEvents, LinkEvents, NetlinkEvents, RdmaEvents
from nodeprep.doors.files.reader import Files
from nodeprep.model import Topic
from tests.doors.netlink_kernel import kernel, nlmsg, u8, u32
from tests.rigs.absent import cannot_start

pytestmark = pytest.mark.usefixtures("kernel_log")
NOTHING: frozenset[Topic] = frozenset()
LINK, RDMA, DEVICE, KERNEL_LOG = Topic.LINK, Topic.RDMA, Topic.DEVICE, Topic.KERNEL_LOG


def rtmsg(kind: int, protocol: int) -> bytes:
    """A notice of a route: family, lengths, tos, table, protocol, scope, type, flags."""
    return nlmsg(kind, struct.pack("=8BI", socket.AF_INET, 32, 0, 0, 254, protocol, 253, 1, 0))[:32]


ROUTES = [
    (nlmsg(16, bytes(16)), {LINK}),  # RTM_NEWLINK
    (nlmsg(20, bytes(8)), {LINK}),  # RTM_NEWADDR
    (nlmsg(32, bytes(12)), {LINK}),  # RTM_NEWRULE
    (rtmsg(24, 3), {LINK}),  # RTPROT_BOOT: CNI plugins
    (rtmsg(25, 4), {LINK}),  # RTPROT_STATIC
    (rtmsg(24, 80), {LINK}),  # Calico's Felix
    (rtmsg(24, 12), NOTHING),  # RTPROT_BIRD
    (rtmsg(25, 186), NOTHING),  # RTPROT_BGP
    (rtmsg(32, 12), {LINK}),  # a rule has another layout: nobody learned it
]


@pytest.mark.parametrize(("notice", "topics"), ROUTES)
def test_what_links_and_routes_announce(notice: bytes, topics: set[Topic]) -> None:
    assert LinkEvents().meaning(notice) == topics


def uevent(subsystem: str, path: str = "/devices/x") -> bytes:
    words = ["add@" + path, "ACTION=add", f"DEVPATH={path}", f"SUBSYSTEM={subsystem}", "SEQNUM=1"]
    return "\0".join(words).encode() + b"\0"


UEVENTS = [
    ("infiniband", {RDMA}),
    ("infiniband_verbs", {RDMA}),
    ("infiniband_mad", {RDMA}),
    ("net", {LINK}),
    ("pci", {DEVICE}),
    ("module", {DEVICE}),
    ("drivers", {DEVICE}),
    ("auxiliary", {DEVICE}),
    ("misc", {DEVICE}),
    ("nvidia", {DEVICE}),
    ("nvidia-uvm", {DEVICE}),
    ("queues", NOTHING),
    ("block", NOTHING),
    ("slab", NOTHING),
    ("cgroup", NOTHING),
    ("", NOTHING),
]


@pytest.mark.parametrize(("subsystem", "topics"), UEVENTS)
def test_what_uevents_announce(subsystem: str, topics: set[Topic]) -> None:
    assert DeviceEvents().meaning(uevent(subsystem)) == topics


@pytest.mark.parametrize("notice", [b"", b"SUBSYSTEM=pci", b"add@/x\0NO_SUBSYSTEM=pci\0", b"\xff" * 100])
def test_a_uevent_without_a_subsystem_announces_nothing(notice: bytes) -> None:
    assert DeviceEvents().meaning(notice) == NOTHING


@contextmanager
def opened(source: EventSource) -> Iterator[int]:
    try:
        descriptor = source.open()
    except EventSourceAbsent as absent:
        cannot_start(f"{source.name} was not heard: {absent}")
    try:
        yield descriptor
    finally:
        source.close()


def heard(source: EventSource, descriptor: int, seconds: float = 60) -> frozenset[Topic]:
    """What it says within some seconds, if poll(2) says that there is something."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while time.monotonic() < deadline:
        if poll.poll(100) and (said := source.drain()):
            return said
    return NOTHING


class OwnGroup(NetlinkEvents):
    """A group in which programs may talk to each other; the kernel never does."""

    name = "own"
    topics = frozenset({LINK})
    protocol = socket.NETLINK_USERSOCK
    groups = 1


def send(times: int, notice: bytes) -> None:
    """Send to the group; the kernel, whom it goes to as well, does not listen there."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_USERSOCK) as peer:
        for _ in range(times):
            with suppress(ConnectionRefusedError):
                peer.sendto(notice, (0, 1))


def test_what_no_kernel_sent_rings_nothing() -> None:
    event_source = OwnGroup()
    with opened(event_source) as descriptor:
        send(1, nlmsg(16, u32(1, 1)))
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(5000), "it did arrive"
        assert event_source.drain() == NOTHING
        assert not poll.poll(0), "and was taken"


def test_more_than_the_socket_holds_is_a_ring() -> None:
    event_source = OwnGroup()
    with opened(event_source) as descriptor:
        send(3000, bytes(2000))
        assert heard(event_source, descriptor) == {LINK}


def test_the_kernel_tells_of_devices_that_change() -> None:
    event_source, change = DeviceEvents(), Path("/sys/class/misc/tun/uevent")
    if not os.access(change, os.W_OK):
        pytest.skip(f"{change} may not be written here: uevents were not tried")
    with opened(event_source) as descriptor:
        assert event_source.drain() == NOTHING
        change.write_text("change")
        assert heard(event_source, descriptor) == {DEVICE}


def test_rdma_notices_say_why_there_are_none() -> None:
    event_source = RdmaEvents()
    if Path("/sys/class/infiniband").is_dir():
        pytest.skip("ib_core is loaded here: the lab tests what it announces")
    with pytest.raises(EventSourceAbsent, match="no ib_core in this kernel") as absent:
        event_source.open()
    assert not absent.value.final, "it may be loaded later"


ANSWERS = [
    (u8(66, 1) + u8(93, 1) + u8(96, 0) + u8(103, 1), True),  # Linux 6.12
    (u8(66, 1) + u8(93, 1), False),  # Linux 6.1
    (b"", False),
    (u8(66, 1) + struct.pack("=HH", 0, 1), False),  # an attribute without an end
    (u8(66, 1) + b"\0", False),
]


@pytest.mark.parametrize(("answer", "has_them"), ANSWERS)
def test_the_kernel_says_whether_it_has_rdma_notices(answer: bytes, has_them: bool) -> None:
    """By RDMA_NLDEV_SYS_ATTR_MONITOR_MODE: older ones let anybody join the group and never send to it."""
    with kernel(lambda _kind, _body: [answer]) as (asking, played):
        assert kernel_events.announces(asking) is has_them
    assert [kind for kind, _ in played.asked] == [5 << 10 | 6]


def write(line: str) -> None:
    try:
        descriptor = os.open("/dev/kmsg", os.O_WRONLY)
    except OSError as error:
        pytest.skip(f"/dev/kmsg may not be written here ({error}): the event source of the kernel log was not heard")
    try:
        os.write(descriptor, f"{line} nodeprep test {uuid.uuid4()}\n".encode())
    finally:
        os.close(descriptor)


OTHERS = 20  # times that others may write to the log while we listen
LINES = [
    ("<11>an error", {KERNEL_LOG}),
    ("<12>a warning", {KERNEL_LOG}),
    ("<14>mlx5_core 0000:5c:00.0: Port module event", {KERNEL_LOG}),
    ("<14>a firewall's note of a packet", NOTHING),
]


@pytest.mark.parametrize(("line", "topics"), LINES)
def test_a_line_of_the_kernel_log(line: str, topics: set[Topic]) -> None:
    event_source = KernelLogEvents(Files())

    def hears() -> object:
        event_source.drain()
        write(line)
        return heard(event_source, descriptor, 0.5)

    with opened(event_source) as descriptor:
        if not topics:
            alone(hears)
            return
        write(line)
        assert heard(event_source, descriptor) == topics


def alone(hears: Callable[[], object]) -> None:
    """It hears nothing. The log is the whole machine's, so who writes to it meanwhile has us listen again."""
    for _ in range(OTHERS):
        if not hears():
            return
    pytest.fail(f"it heard something {OTHERS} times of as many")


def test_what_was_said_before_it_was_opened_is_no_news() -> None:
    def hears() -> object:
        event_source = KernelLogEvents(Files())
        write("<11>said before it was opened")
        with opened(event_source):
            return event_source.drain()

    alone(hears)


def test_a_storm_in_the_kernel_log_is_one_ring() -> None:
    event_source = KernelLogEvents(Files())

    def hears() -> object:
        for _ in range(50):
            write("<11>storm")
        assert heard(event_source, descriptor) == {KERNEL_LOG}
        return event_source.drain()

    with opened(event_source) as descriptor:
        alone(hears)


@pytest.mark.parametrize("kind", ["absent", "file", "fifo", "other device"])
def test_what_is_no_kernel_log_is_not_listened_to(tmp_path: Path, kind: str) -> None:
    device = tmp_path / "dev/kmsg"
    device.parent.mkdir()
    if kind == "file":
        device.write_text("6,1,2,-;not the kernel\n")
    elif kind == "fifo":
        os.mkfifo(device)
    elif kind == "other device":
        try:
            os.mknod(device, 0o20666, os.makedev(1, 3))
        except PermissionError:
            cannot_start("no device nodes can be made here")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(EventSourceAbsent, match="kmsg is not") as absent:
        KernelLogEvents(Files(str(tmp_path))).open()
    assert not absent.value.final
    assert len(list(Path("/proc/self/fd").iterdir())) == before
