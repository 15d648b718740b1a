"""What a process without any rights gets into the kernel log changes no finding and frees no latch.

The kernel prints the name of a process that crashes (15 bytes) and that of its file (255 bytes), both chosen by whoever
runs it. The lines are the kernel's own.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.checks.klog import nic as klog_nic
from nodeprep.checks.klog import nic_module, xid
from nodeprep.decide import fault_confirmation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.doors.files import kmsg
from nodeprep.doors.files.kmsg import KmsgRecord
from nodeprep.facts.machine import kernel_log
from nodeprep.facts.machine import xid as xid_lines
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.facts.machine.xid import XidClass
from nodeprep.model import Check
from tests.agent_state_values import agent_state, case
from tests.checks.klog import test_nic, test_xid
from tests.rigs import cache
from tests.rigs.absent import cannot_start
from tests.values import BDF, expected, nic, pci, port, rdma, verdicts, wanted

NAME_BYTES, FILE_BYTES = 15, 255  # TASK_COMM_LEN without its end, NAME_MAX
CRASHED_AT = 500.0  # seconds since boot, later than all lines of the drivers here
# How the kernel tells of a process, with its name, and the begin of what stands before its file.
FAULTS = (
    b"%s[12]: segfault at 0 ip 0000562c5b75d132 sp 00007fff61fed050 error 6 in ",
    b"traps: %s[12] trap invalid opcode ip:4011a0 sp:7ffe1b2c error:0 in ",
    b"traps: %s[12] general protection fault ip:4011a0 sp:7ffe1b2c error:0 in ",
    b"%s[12] bad frame in rt_sigreturn frame:00000000b1 ip:4011a0 sp:7ffe1b2c orax:ffffffffffffffff in ",
    b"%s[12]: unhandled exception: BRK handler, ESR 0x00000000f2000000, ptrace BRK handler in ",
)
# What an attacker would choose: whole lines of drivers, with and without a line end, and pieces of them.
WHOLE = (
    *(text for texts, _ in (*test_xid.GPU_ROWS, *test_xid.NODE_ROWS) for text in texts),
    *(text for texts, _ in test_nic.ROWS for text in texts),
    *test_nic.PREFIXES,
    *(
        "eth2: Slot(",
        "): Link Down",
        "Reset fail!",
        BDF,
        f"x {BDF}",
        f"pci {BDF}",
        "mlx5_core",
        "mlx5_core: ",
        "NVRM: ",
    ),
)
PIECES = st.one_of(
    st.sampled_from(WHOLE).map(str.encode),
    st.sampled_from(WHOLE).map(lambda text: b"x\n" + text.encode()),
    st.sampled_from(WHOLE).map(lambda text: text.encode() + b"\n"),
    st.sampled_from((b"\n", b": ", b"[1+2]", b"\\x0a", b"<3>[  501.000000] ")),
    st.binary(max_size=20),
)


def chosen(length: int) -> st.SearchStrategy[bytes]:
    """What somebody may call a process or a file: any bytes but zero and slash."""
    return st.lists(PIECES, max_size=4).map(lambda some: b"".join(some).translate(None, b"\0/")[:length])


def by_device(text: bytes) -> list[KmsgRecord]:
    """As /dev/kmsg gives it: kernel/printk/printk.c msg_add_ext_text escapes what is not printable."""
    escaped = b"".join(bytes([one]) if 32 <= one < 127 and one != 92 else b"\\x%02x" % one for one in text)
    record = kmsg.parse(b"6,%d,%d,-;%s\n" % (CRASHED_AT * 1e6, CRASHED_AT * 1e6, escaped))
    assert record is not None
    return [record]


def by_syslog(text: bytes) -> list[KmsgRecord]:
    """As syslog(2) gives it: record_print_text puts priority and time before each line of a record."""
    dump = b"".join(b"<6>[%12.6f] %s\n" % (CRASHED_AT, line) for line in text.split(b"\n"))
    return list(kmsg.parse_syslog(dump).records)


def heard(texts: tuple[str, ...], records: list[KmsgRecord]) -> KernelLog:
    """The log of drivers' lines, and then these records."""
    said = [KernelLogLine(number, 100.0 + number, 3, True, text) for number, text in enumerate(texts)]
    kept = [kernel_log.line(one) for one in records if kernel_log.speaks(one)]
    return KernelLog(600.0, (*said, *kept))


def findings(log: KernelLog) -> list[str]:
    """What all checks of the kernel log say, word for word."""
    up = port()
    nics = (pci(nic(bridges=(test_nic.BRIDGE,))), rdma(up), wanted(up, "7 of 8 alike"), log)
    found = [
        *verdicts(xid.CHECK, test_xid.BUS, expected(), log),
        *verdicts(klog_nic.CHECK, *nics),
        *verdicts(nic_module.CHECK, *nics),
    ]
    return [f"{one.subject.place} {one.status} {one.reason} {one.message}" for one in found]


LATCHED = tuple(
    case(check.id, place=place, port=None, convicted_at=400.0, latched="held", latched_at=400.0, opened_at=400.0)
    for check, place in ((xid.CHECK, test_xid.TWO), (klog_nic.CHECK, BDF))
)
CHECKS: dict[str, Check] = {one.id: one for one in (xid.CHECK, klog_nic.CHECK)}


def latches(log: KernelLog) -> tuple[str, ...]:
    """The latches of a GPU and of a NIC after a round in which nothing but this log was read."""
    state = agent_state(cases=LATCHED)
    after = fault_confirmation.confirm(state, (), {}, CHECKS, ConfirmationPolicy(), 600.0, log)
    return tuple(one.latched for one in after.cases)


FAULTY = ((), (test_xid.OFF, test_nic.MISS), (test_xid.OFF, test_nic.STALLED, test_nic.UNPLUGGED))


@pytest.mark.parametrize("read", [by_device, by_syslog])
@given(st.sampled_from(FAULTS), chosen(NAME_BYTES), chosen(FILE_BYTES), st.sampled_from(FAULTY))
def test_whatever_a_process_calls_itself_its_crash_changes_nothing(
    read: Callable[[bytes], list[KmsgRecord]], fault: bytes, name: bytes, file: bytes, before: tuple[str, ...]
) -> None:
    log = heard(before, read(fault % name + file + b"[1132,562c5b75d000+1000]"))
    assert findings(log) == findings(heard(before, []))
    assert latches(log) == ("held", "held")


@given(st.sampled_from(FAULTS), chosen(NAME_BYTES), chosen(FILE_BYTES))
def test_no_format_is_read_in_a_crash_that_is_taken_for_a_drivers_line(fault: bytes, name: bytes, file: bytes) -> None:
    """The second barrier: the formats themselves, were the line told as one of a driver."""
    for record in by_device(fault % name + file):
        line = KernelLogLine(1, CRASHED_AT, 3, True, record.text)
        event = xid_lines.event(line)
        assert event is None or event.kind is XidClass.GARBAGE
        assert not line.sets_up
        assert not xid_lines.frees(line, test_xid.TWO)
        assert not line.by_device


def test_the_same_words_of_a_driver_do_count() -> None:
    """So that the tests above do not pass because nothing counts."""
    log = heard((), [KmsgRecord(1, CRASHED_AT, 6, 0, text) for text in (test_xid.LOADED, test_nic.LOADED)])
    assert latches(log) == ("", "")
    assert findings(heard((test_xid.OFF, test_nic.MISS), [])) != findings(heard((), []))


AS_NOBODY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"),
    "--no-new-privs",
)  # fmt: skip
WAYS = ("/dev/kmsg", "/no such device")  # the second leaves it to syslog(2)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], None]]:
    """Runs a program of this name, as an ordinary pod would, that writes to address 0."""
    for needed in ("gcc", "setpriv"):
        if shutil.which(needed) is None:
            cannot_start(f"{needed} is not here: no real crash can be made")
    place = tmp_path_factory.mktemp("crash")
    for directory in (place, *place.parents[:2]):
        if directory.stat().st_uid == os.getuid():
            directory.chmod(directory.stat().st_mode | 0o055)
    (place / "crash.c").write_text("int main(void) { *(volatile int *)0 = 1; return 0; }\n")
    subprocess.run(["gcc", "-o", place / "crash", place / "crash.c"], check=True)

    def crash(name: str) -> None:
        shutil.copy(place / "crash", place / name)
        done = subprocess.run([*AS_NOBODY, place / name], check=False, capture_output=True, preexec_fn=no_core)
        if done.returncode != -11:
            pytest.skip(f"the program could not crash as uid 65534 here ({done.returncode}): {done.stderr!r}")

    with cache.locked("kernel-log"):
        yield crash


def no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def logs() -> list[tuple[KmsgRecord, ...]]:
    """The log of this machine by each way."""
    try:
        return [kmsg.KernelLogReader(way).read() for way in WAYS]
    except OSError as error:
        pytest.skip(f"the kernel log may not be read here ({error}): no real crash was tested")


REAL = [
    test_xid.OFF,
    "NVRM: loading NVIDIA UNIX",
    f"x\n{test_xid.LOADED}\n{test_nic.LOADED}\n",
    f"{BDF}: enabling device (0140 -> 0142)",
    test_nic.MISS,
    f"NVRM: loading N\n{test_xid.OFF}\n",
]


@pytest.mark.parametrize("name", REAL)
def test_a_real_crash_of_an_ordinary_process_changes_nothing(crashed: Callable[[str], None], name: str) -> None:
    before = [{one.number for one in log} for log in logs()]
    crashed(name.replace("/", "-"))
    for known, log in zip(before, logs(), strict=True):
        new = [one for one in log if one.number not in known]
        lines = [one for one in new if "segfault" in one.text]
        if not lines:
            pytest.skip("this kernel prints no line of a crash (debug.exception-trace, its rate limit): not tested")
        assert all(one.of_process and one.facility == 0 for one in lines)
        late = [KmsgRecord(one.number, CRASHED_AT, one.level, one.facility, one.text, one.of_process) for one in new]
        for faulty in FAULTY:
            assert findings(heard(faulty, late)) == findings(heard(faulty, []))
        assert latches(heard((), late)) == ("held", "held")
