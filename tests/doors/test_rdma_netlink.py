"""RDMA netlink byte by byte, as include/uapi/rdma/rdma_netlink.h has it. A real RoCE device: tests/lab."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nodeprep.door_values import RdmaHolder
from nodeprep.doors.netlink import nldev
from nodeprep.doors.netlink.nldev import NldevDevice, NldevPort, NldevTables, Resources
from nodeprep.doors.netlink.nlsocket import Refused
from nodeprep.values import asdict, replace
from tests.doors.netlink_kernel import foreign, kernel, nest, nla, text, u8, u32, u64

NLDEV = 5 << 10
GET, PORT_GET, SYS_GET, RES_GET, CM_ID_GET, PD_GET, STAT_GET, CTX_GET = (
    NLDEV | command for command in (1, 5, 6, 9, 11, 14, 17, 22)
)
MAY_BE_ASKED = {GET, PORT_GET, SYS_GET, RES_GET, CM_ID_GET, PD_GET, STAT_GET, CTX_GET}
GONE = errno.EINVAL  # what nldev says of a device or an operation that it does not know

CX7 = NldevDevice(
    index=3,
    name="mlx5_0",
    protocol="ib",
    node_guid="a088:c203:00ab:cdef",
    sys_image_guid="a088:c203:00ab:cdee",
    fw="28.41.1000",
    node_type=1,
    ports=(
        NldevPort(1, 4, 5, None, None, 17, 1, (("out_of_sequence", 12), ("lifespan", 1 << 40))),
        NldevPort(2, 2, 5, None, None, 0, 0, None),
    ),
)
E810 = NldevDevice(
    index=9,
    name="rocep5s0f0",
    protocol="iw",
    node_guid="5054:00ff:fe12:3456",
    sys_image_guid="0000:0000:0000:0000",
    fw=None,
    node_type=4,
    ports=(NldevPort(1, 1, 3, "eth4", 6, None, None, None),),
)
HELD = (
    RdmaHolder("mlx5_0", "ctx", 4711, None),
    RdmaHolder("mlx5_0", "ctx", None, None),
    RdmaHolder("mlx5_0", "pd", 4711, None),
    RdmaHolder("mlx5_0", "pd", None, "ib_core"),
    RdmaHolder("mlx5_0", "cm_id", None, "nvme_rdma"),
)
COUNTS = (("pd", 2), ("cq", 3), ("qp", 1 << 33), ("cm_id", 1), ("mr", 0), ("ctx", 2), ("srq", 0))
NODE = NldevTables((CX7, E810), (Resources("mlx5_0", COUNTS), Resources("rocep5s0f0", ())), HELD, "shared", ())


def handle(device: NldevDevice) -> bytes:
    return u32(1, device.index) + text(2, device.name)


def guid(words: str | None) -> int:
    return int((words or "").replace(":", ""), 16)


def device(shown: NldevDevice) -> bytes:
    firmware = text(5, shown.fw) if shown.fw else b""
    return (
        handle(shown) + u32(3, len(shown.ports)) + u64(4, 0x1234) + firmware + u64(6, guid(shown.node_guid))
        + u64(7, guid(shown.sys_image_guid)) + u8(14, shown.node_type or 0) + u8(84, 1) + u8(101, 2)
        + text(67, shown.protocol or "") + nest(4000, u32(1, 99)) + u64(4001, 5)
    )  # fmt: skip


def port(of: NldevDevice, shown: NldevPort) -> bytes:
    infiniband = b""
    if shown.lid is not None and shown.sm_lid is not None:
        infiniband = u64(4, 1) + u64(8, 0xFE80 << 48) + u32(9, shown.lid) + u32(10, shown.sm_lid) + u8(11, 0)
    netdev = u32(50, shown.netdev_index or 0) + text(51, shown.netdev) if shown.netdev else b""
    state = u8(12, shown.state or 0) + u8(13, shown.physical or 0)
    return handle(of) + u32(3, shown.number) + infiniband + state + netdev + u8(4000, 7)


def counters(of: NldevDevice, shown: NldevPort) -> bytes | int:
    if shown.counters is None:
        return errno.EINVAL
    rows = (nest(81, text(82, name), u64(83, value), u8(4000, 0)) for name, value in shown.counters)
    return handle(of) + u32(3, shown.number) + nest(80, *rows)


def summary(of: NldevDevice, counts: Sequence[tuple[str, int]]) -> bytes:
    return handle(of) + nest(
        15, *(nest(16, text(17, name), u64(18, count), u64(118, 1 << 20)) for name, count in counts)
    )


def held(of: NldevDevice, table: int, *rows: bytes) -> bytes:
    return handle(of) + nest(table, *(nest(table + 1, u32(21, 5), row, u8(4000, 0)) for row in rows))


PROCESS, STRANGER = u32(28, 4711), b""
MODULES = {name: text(29, name) for name in ("ib_core", "nvme_rdma")}
TABLES: dict[tuple[int, int], list[bytes]] = {
    # Two messages, as a long table is sent; the same process has two protection domains.
    (CTX_GET, 3): [held(CX7, 86, PROCESS), held(CX7, 86, STRANGER)],
    (PD_GET, 3): [held(CX7, 46, PROCESS, PROCESS, MODULES["ib_core"])],
    (CM_ID_GET, 3): [held(CX7, 30, MODULES["nvme_rdma"])],
}


class Node:
    """A node with both devices; `refuses` gives an errno for (question, device, port)."""

    def __init__(self, refuses: dict[tuple[int, int, int], int] | None = None) -> None:
        self.refuses = refuses or {}

    def __call__(self, kind: int, body: bytes) -> Sequence[bytes] | int:
        assert kind in MAY_BE_ASKED, "a question that loads modules, changes something or reaches for the hardware"
        index, number = (
            struct.unpack("=4xI4xI", body) if len(body) == 16 else (*struct.unpack("=4xI", body), 0) if body else (0, 0)
        )
        refused = self.refuses.get((kind, index, number)) or self.refuses.get((kind, 0, 0))
        return refused or self.said(kind, index, number)

    def said(self, kind: int, index: int, number: int) -> Sequence[bytes] | int:
        if kind == GET:
            return [device(shown) for shown in NODE.devices if index in (0, shown.index)]
        if kind == SYS_GET:
            return [u8(66, 1) + u8(93, 1) + u8(103, 0)]
        if kind == RES_GET:
            return [summary(of, dict_.counts) for of, dict_ in zip(NODE.devices, NODE.resources, strict=True)]
        if kind in (CTX_GET, PD_GET, CM_ID_GET):
            return TABLES.get((kind, index), [])
        of = next(shown for shown in NODE.devices if shown.index == index)
        shown = of.ports[number - 1]
        answer = port(of, shown) if kind == PORT_GET else counters(of, shown)
        return answer if isinstance(answer, int) else [answer]


def look(refuses: dict[tuple[int, int, int], int] | None = None) -> NldevTables:
    with kernel(Node(refuses)) as (asking, _):
        return nldev.NldevReader(asking).read()


def test_a_node_with_two_devices() -> None:
    assert look() == NODE


def test_values_are_plain() -> None:
    assert foreign(asdict(look())) == []


def test_what_is_denied_is_named_and_the_rest_is_seen() -> None:
    denied = {(CTX_GET, 0, 0): errno.EPERM, (PD_GET, 0, 0): errno.EPERM, (STAT_GET, 0, 0): errno.EACCES}
    said = look(denied)
    assert said.denied == ("STAT_GET", "RES_CTX_GET", "RES_PD_GET")
    assert said.holders == (RdmaHolder("mlx5_0", "cm_id", None, "nvme_rdma"),)
    assert [one.state for each in said.devices for one in each.ports] == [4, 2, 1]
    assert [one.counters for each in said.devices for one in each.ports] == [None, None, None]
    assert said.resources == NODE.resources


def test_devices_that_may_not_be_listed() -> None:
    assert look({(GET, 0, 0): errno.EPERM}) == NldevTables((), NODE.resources, (), "shared", ("GET",))


def test_everything_denied() -> None:
    said = look({(kind, 0, 0): errno.EPERM for kind in MAY_BE_ASKED - {GET}})
    assert set(said.denied) == {
        "PORT_GET", "RES_CTX_GET", "RES_PD_GET", "RES_CM_ID_GET", "RES_GET", "SYS_GET",
    }  # fmt: skip
    assert said.devices[0].ports[0] == NldevPort(1, None, None, None, None, None, None, None, errno.EPERM)


@pytest.mark.parametrize("answer", [errno.EINVAL, errno.EOPNOTSUPP])
def test_an_older_kernel_knows_fewer_questions(answer: int) -> None:
    """CTX_GET came with Linux 5.14, STAT_GET with 5.3, SYS_GET with 5.2: the counts still tell of contexts."""
    said = look({(kind, 0, 0): answer for kind in (CTX_GET, STAT_GET, SYS_GET)})
    assert (said.denied, said.netns_mode) == ((), None)
    assert [holder.kind for holder in said.holders] == ["pd", "pd", "cm_id"]
    assert dict(said.resources[0].counts)["ctx"] == 2


def test_the_oldest_kernel_lists_devices_only() -> None:
    said = look({(kind, 0, 0): errno.EINVAL for kind in (CTX_GET, STAT_GET, SYS_GET, RES_GET, PD_GET, CM_ID_GET)})
    assert [one.name for one in said.devices] == ["mlx5_0", "rocep5s0f0"]
    assert (said.resources, said.holders, said.denied) == ((), (), ())


@pytest.mark.parametrize("answer", [GONE, errno.ENODEV])
def test_a_device_that_goes_between_two_questions_is_left_out(answer: int) -> None:
    gone = {(kind, 3, number): answer for kind in MAY_BE_ASKED for number in (0, 1, 2)}
    said = look(gone)
    assert said.devices == (E810,)
    assert said.holders == ()


def test_a_device_that_goes_after_its_ports_were_asked_has_no_holders() -> None:
    said = look({(kind, 3, 0): GONE for kind in (CTX_GET, PD_GET, CM_ID_GET)})
    assert (said.devices, said.holders) == (NODE.devices, ())


@pytest.mark.parametrize("answer", [errno.EIO, errno.ETIMEDOUT, errno.EINVAL])
def test_a_port_that_the_driver_cannot_query_says_so_and_spoils_nothing_else(answer: int) -> None:
    said = look({(PORT_GET, 3, 1): answer})
    assert said.devices[0].ports == (NldevPort(1, None, None, None, None, None, None, None, answer), CX7.ports[1])
    assert replace(said, devices=()) == replace(NODE, devices=())


@pytest.mark.parametrize("answer", [errno.EMSGSIZE, errno.EIO, errno.ETIMEDOUT])
def test_counters_that_do_not_come_leave_the_port(answer: int) -> None:
    assert look({(STAT_GET, 3, 1): answer}).devices[0].ports[0] == replace(CX7.ports[0], counters=None)


@pytest.mark.parametrize("question", [GET, RES_GET, CTX_GET])
def test_a_table_that_fails_is_no_empty_table(question: int) -> None:
    """Nobody may take a device for idle because the kernel was out of memory."""
    with pytest.raises(Refused, match="Cannot allocate memory"):
        look({(question, 0, 0): errno.ENOMEM})


WHOLE = port(CX7, CX7.ports[0])


def ends(body: bytes) -> Iterator[int]:
    """Where a message may end: at an attribute's end, with or without its padding."""
    offset = 0
    while offset < len(body):
        yield offset
        length = int(struct.unpack_from("=H", body, offset)[0])
        yield from range(offset + length, offset + length + -length % 4)
        offset += length + -length % 4


@pytest.mark.parametrize("left", range(len(WHOLE)))
def test_an_answer_cut_short(left: int) -> None:
    said = {GET: device(CX7), PORT_GET: WHOLE[:left], STAT_GET: u8(4000, 1), SYS_GET: u8(66, 1)}
    with kernel(lambda kind, _: [said[kind]] if kind in said else []) as (asking, _):
        if left not in ends(WHOLE):
            with pytest.raises(OSError, match="netlink: Nldev") as error:
                nldev.NldevReader(asking).read()
            assert error.value.errno == errno.EBADMSG
            return
        cut = asdict(nldev.NldevReader(asking).read().devices[0].ports[0])
    whole = asdict(CX7.ports[0]) | {"counters": ()}
    assert all(value in (whole[name], None) for name, value in cut.items())


def test_a_mode_of_a_newer_kernel_is_its_number() -> None:
    def answer(kind: int, _: bytes) -> list[bytes]:
        return [u8(66, 7)] if kind == SYS_GET else []

    with kernel(answer) as (asking, _):
        assert nldev.NldevReader(asking).read() == NldevTables((), (), (), "7", ())


def test_names_that_are_not_utf8_are_still_names() -> None:
    def answer(kind: int, _: bytes) -> list[bytes]:
        return [u32(1, 0) + nla(2, b"ib\xff0\0")] if kind == GET else []

    with kernel(answer) as (asking, played):
        asked = nldev.NldevReader(asking)
        with pytest.raises(OSError, match="SYS_GET: acknowledged, but not answered"):
            asked.read()
    assert [kind for kind, _ in played.asked] == [GET, RES_GET, CTX_GET, PD_GET, CM_ID_GET, SYS_GET]


# Opening the socket would load ib_core, so a test may not try whether it can.
MODULES_OF_THIS_KERNEL = Path("/lib/modules") / os.uname().release
HAS_RDMA = Path("/sys/class/infiniband").exists() or any(MODULES_OF_THIS_KERNEL.rglob("ib_core.ko*"))
without_rdma = pytest.mark.skipif(HAS_RDMA, reason="this kernel has RDMA netlink; tests/lab reads it")


@without_rdma
def test_a_kernel_without_rdma_netlink() -> None:
    assert nldev.read() is None


@without_rdma
def test_a_kernel_without_rdma_netlink_where_sysfs_is_not_mounted() -> None:
    """Then only opening the socket tells."""
    look = f"""
import os, sys
sys.path.insert(0, {str(Path(nldev.__file__).parents[3])!r})
from nodeprep.doors.netlink import nldev
print(os.path.isdir("/sys/class"), nldev.read())
"""
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    hide = ("unshare", *flags, "sh", "-c", 'mount -t tmpfs none /sys && exec "$@"', "sh")
    done = subprocess.run((*hide, sys.executable, "-c", look), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False None\n", "")
