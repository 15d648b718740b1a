"""The kernel log: this machine's own, by both ways in, and what no kernel should write."""

from __future__ import annotations

import ctypes
import os
import pty
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodeprep.doors.files import kmsg
from nodeprep.doors.files.kmsg import KmsgRecord

pytestmark = pytest.mark.usefixtures("kernel_log")
DEVICE = "/dev/kmsg"
SYSLOG_ACTION_CLEAR = 5  # include/linux/syslog.h


def written(text: str) -> str:
    """Put a line into this machine's log as a drill does, marked so that it is found again."""
    line = f"nodeprep test {uuid.uuid4()}: {text}"
    try:
        descriptor = os.open(DEVICE, os.O_WRONLY)
    except OSError as error:
        pytest.skip(f"{DEVICE} may not be written here ({error}): the way from a drill to a record was not tested")
    try:
        os.write(descriptor, f"<11>{line}\n".encode())
    finally:
        os.close(descriptor)
    return line


def found(records: tuple[KmsgRecord, ...], line: str) -> KmsgRecord:
    (record,) = [record for record in records if record.text == line]
    return record


def test_a_line_that_a_process_wrote_is_read_with_level_facility_and_time() -> None:
    line = written("mlx5_core 0000:5c:00.0: unrecoverable hardware error")
    record = found(kmsg.KernelLogReader().read(), line)
    assert (record.level, record.facility) == (3, 1)
    assert abs(record.at - time.clock_gettime(time.CLOCK_MONOTONIC)) < 5


def test_records_come_oldest_first_and_keep_their_numbers() -> None:
    line = written("first")
    before, later = kmsg.KernelLogReader().read(), written("second")
    after = kmsg.KernelLogReader().read()
    assert found(after, line) == found(before, line)
    assert found(after, later).number > found(after, line).number
    assert [record.number for record in after] == sorted({record.number for record in after})


def test_syslog_tells_the_same_where_the_device_may_not_be_opened(tmp_path: Path) -> None:
    line = written("by the other way")
    by_device = found(kmsg.KernelLogReader().read(), line)
    by_syslog = found(kmsg.KernelLogReader(str(tmp_path / "no such device")).read(), line)
    assert (by_syslog.level, by_syslog.facility, by_syslog.at) == (by_device.level, by_device.facility, by_device.at)
    kernel = [
        record.text for record in kmsg.KernelLogReader().read() if record.facility == 0 and "\\x" not in record.text
    ]
    assert set(kernel) <= {record.text for record in kmsg.KernelLogReader(str(tmp_path / "no such device")).read()}


def test_syslog_records_keep_their_numbers_from_dump_to_dump(tmp_path: Path) -> None:
    device, line = str(tmp_path / "no such device"), written("numbered")
    before = kmsg.KernelLogReader(device).read()
    written("and another")
    assert found(kmsg.KernelLogReader(device).read(), line) == found(before, line)


@pytest.mark.parametrize("device", [DEVICE, "/no such device"])
def test_a_log_that_is_read_again_tells_what_one_tells_that_is_read_anew(device: str) -> None:
    log = kmsg.KernelLogReader(device)
    written("before")
    log.read()
    line = written("between")
    again, anew = log.read(), kmsg.KernelLogReader(device).read()
    assert found(again, line) == found(anew, line)
    assert [one for one in again if one.number >= anew[0].number] == list(anew)


def test_only_what_is_wanted_is_kept() -> None:
    wanted = written("wanted")
    log = kmsg.KernelLogReader(wanted=lambda record: record.text == wanted)
    assert [one.text for one in log.read()] == [wanted]
    written("another")
    assert [one.text for one in log.read()] == [wanted]


@pytest.mark.parametrize("device", [DEVICE, "/no such device"])
def test_what_a_human_cleared_is_gone_and_what_comes_after_is_not(device: str) -> None:
    """By the kernel's own SYSLOG_ACTION_CLEAR, which hides and does not delete; other readers of this log see it so."""
    log, before = kmsg.KernelLogReader(device), written("before")
    found(log.read(), before)
    if ctypes.CDLL(None, use_errno=True).klogctl(SYSLOG_ACTION_CLEAR, None, 0):
        pytest.skip(f"the log may not be cleared here ({os.strerror(ctypes.get_errno())}): not tested")
    after = written("after")
    records = log.read()
    found(records, after)
    assert before not in {record.text for record in records}
    assert {record.text for record in log.read()} == {record.text for record in kmsg.KernelLogReader(device).read()}


def read_bytes() -> int:
    """What this process has read so far, as the kernel counts it."""
    return int(
        next(line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")).split()[1]
    )


def test_what_was_read_once_is_not_read_again() -> None:
    log = kmsg.KernelLogReader()
    for number in range(100):
        written(f"{number} of many")
    before = read_bytes()
    log.read()
    first, before = read_bytes() - before, read_bytes()
    written("one more")
    log.read()
    if not os.access(DEVICE, os.R_OK):
        pytest.skip(f"{DEVICE} may not be read here: not tested")
    assert read_bytes() - before < first / 5


def test_a_console_in_the_devices_place_is_left_to_syslog_and_leaks_nothing() -> None:
    """As LXC has it: /dev/kmsg is a link to /dev/console, which cannot seek."""
    ours, theirs = pty.openpty()
    try:
        log, line, held = kmsg.KernelLogReader(os.ttyname(theirs)), written("beside a console"), descriptors()
        found(log.read(), line)
        assert descriptors() == held
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_line_that_nobody_understands_spoils_no_log_that_was_understood() -> None:
    before = kmsg.parse_syslog(b"<6>[    1.500000] one\n")
    assert kmsg.parse_syslog(b"garbage\n", before) == before


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_log_that_was_read_is_closed_with_its_reader() -> None:
    log = kmsg.KernelLogReader()
    log.read()
    held = descriptors()
    log.read()
    assert descriptors() == held
    del log
    assert descriptors() == held - os.access(DEVICE, os.R_OK)


def test_of_a_dump_only_what_came_to_it_is_taken_apart() -> None:
    first, later = b"<6>[    1.500000] one\n<3>[    1.500000] two\n", b"<6>[    1.500000] three\n"
    before = kmsg.parse_syslog(first)
    assert kmsg.parse_syslog(later, before) == kmsg.parse_syslog(first + later)
    kept = kmsg.parse_syslog(later, before, lambda one: one.level == 3)
    assert [one.text for one in kept.records] == ["one", "two"]


@pytest.mark.parametrize("content", [b"", b"6,1,2,-;not the kernel\n" * 1000])
def test_a_file_in_the_devices_place_is_not_taken_for_the_log(tmp_path: Path, content: bytes) -> None:
    impostor = tmp_path / "kmsg"
    impostor.write_bytes(content)
    texts = {record.text for record in kmsg.KernelLogReader(str(impostor)).read()}
    assert "not the kernel" not in texts
    assert texts


def test_a_fifo_in_the_devices_place_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    assert kmsg.KernelLogReader(str(tmp_path / "kmsg")).read()


def test_parse_takes_apart_a_record() -> None:
    data = (
        b"4,512,73500000,-;mlx5_core 0000:5c:00.0: text; with a semicolon\n SUBSYSTEM=pci\n DEVICE=+pci:0000:5c:00.0\n"
    )
    assert kmsg.parse(data) == KmsgRecord(512, 73.5, 4, 0, "mlx5_core 0000:5c:00.0: text; with a semicolon")
    assert kmsg.parse(b"12,7,1,c,caller=T1;x") == KmsgRecord(7, 1e-06, 4, 1, "x")
    assert kmsg.parse(b"6,339,5140900;NET: no flags") == KmsgRecord(339, 5.1409, 6, 0, "NET: no flags")


@pytest.mark.parametrize("data", [b"", b"no record", b"a,b,c,-;text", b"4,5;text", b"-4,5,6,-;text", b"4,,6,-;text"])
def test_parse_refuses_what_is_no_record(data: bytes) -> None:
    assert kmsg.parse(data) is None


FIELDS = st.lists(st.one_of(st.integers(0, 1 << 70).map(lambda one: b"%d" % one), st.binary(max_size=8)), max_size=5)
RECORDS = st.builds(lambda fields, text: b",".join(fields) + b";" + text, FIELDS, st.binary(max_size=200))


@given(st.one_of(st.binary(max_size=200), RECORDS))
@example(b"4,5,6,-;a\nb")
def test_parse_never_breaks(data: bytes) -> None:
    found = kmsg.parse(data)
    assert found is None or (found.level in range(8) and found.number >= 0 and "\n" not in found.text)


SYSLOG_ROWS = [
    (
        b"<6>[    1.500000] mlx5_core 0000:5c:00.0: text",
        KmsgRecord(1_500_000, 1.5, 6, 0, "mlx5_core 0000:5c:00.0: text"),
    ),
    (b"<12>[12345.000001] written", KmsgRecord(12345_000_001, 12345.000001, 4, 1, "written")),
    (b"<6>[    1.500000][    T1] with a caller", KmsgRecord(1_500_000, 1.5, 6, 0, "with a caller")),
    (b"<6>[    1.500000] [drm] no caller", KmsgRecord(1_500_000, 1.5, 6, 0, "[drm] no caller")),
    (b"<3>printk.time is off", KmsgRecord(0, 0.0, 3, 0, "printk.time is off")),
]


@pytest.mark.parametrize(("line", "record"), SYSLOG_ROWS)
def test_parse_syslog_takes_apart_a_line(line: bytes, record: KmsgRecord) -> None:
    assert kmsg.parse_syslog(line + b"\n").records == (record,)


def test_records_of_the_same_time_have_numbers_of_their_own() -> None:
    dump = b"<6>[    1.500000] one\n<6>[    1.500000] two\n<6>[    1.500001] three\n<6>[    2.000000] four\n"
    assert [record.number for record in kmsg.parse_syslog(dump).records] == [1_500_000, 1_500_001, 1_500_002, 2_000_000]


CRASH = "a[7]: segfault at 0 ip 1 sp 2 error 6 in x"
LOADS = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03"
T = "<6>[    1.500000]"
SPLIT_ROWS = [
    # lines of a dump                                                          which of them hold words of a process
    ((f"{T} {CRASH}", f"{T} {LOADS}[1000+2000]"), (True, True)),
    ((f"{T} {LOADS}", f"{T} {CRASH}"), (True, True)),
    ((f"{T}[   T7] {CRASH}", f"{T}[   T7] {LOADS}"), (True, True)),
    ((f"{T}[   T7] {CRASH}", f"{T}[   T8] {LOADS}"), (True, False)),  # another task printed it
    ((f"{T} {CRASH}", f"<3>[    1.500000] {LOADS}"), (True, False)),  # a record has one priority
    ((f"{T} {CRASH}", f"<6>[    1.500001] {LOADS}"), (True, False)),  # and one time
    ((f"<6>{CRASH}", f"<6>{LOADS}"), (True, True)),
    ((f"<6>{CRASH}", f"<3>{LOADS}"), (True, False)),
    ((f'{T} overlayfs: unrecognized mount option "x', f"{T} {LOADS}"), (False, True)),
    (('<6>overlayfs: unrecognized mount option "x', f"<6>{LOADS}"), (False, False)),  # without times nobody can tell
    ((f"{T} {LOADS}", f"{T} NVRM: more"), (False, False)),
    ((f"{T} pci 0000:19:00.0: BAR 0", f"{T} {LOADS}", f"{T} any"), (False, False, False)),
    (("<12>[    1.500000] written", f"<12>[    1.500000] {LOADS}"), (False, False)),  # a process wrote both
]


@pytest.mark.parametrize(("lines", "of_process"), SPLIT_ROWS)
def test_of_lines_that_may_be_one_record_what_holds_words_of_a_process(
    lines: tuple[str, ...], of_process: tuple[bool, ...]
) -> None:
    records = kmsg.parse_syslog("".join(f"{one}\n" for one in lines).encode()).records
    assert tuple(one.of_process for one in records) == of_process


def test_the_device_keeps_a_record_with_line_ends_in_one_piece() -> None:
    record = kmsg.parse(f"6,7,1500000,-;{CRASH}\\x0a{LOADS}[1000+2000]\n".encode())
    assert record is not None
    assert record.of_process
    written = kmsg.parse(f"14,7,1500000,-;{CRASH}\n".encode())
    assert written is not None
    assert (written.facility, written.of_process) == (1, False)


def test_a_name_that_a_device_gives_itself_makes_no_line_of_the_kernels() -> None:
    named = "<6>[    1.500000] usb 1-1: Product: x\u2028<2>[    1.600000] a\x0b<2>[    1.7] b\x85c\rd"
    (record,) = kmsg.parse_syslog(named.encode() + b"\n").records
    assert (record.level, record.at) == (6, 1.5)


def test_a_cut_first_line_is_dropped_and_a_dump_of_garbage_is_no_empty_log() -> None:
    cut = kmsg.parse_syslog(b"] the rest of a line\n<6>[    1.500000] whole\n")
    assert [record.text for record in cut.records] == ["whole"]
    assert kmsg.parse_syslog(b"").records == ()
    with pytest.raises(OSError, match="not one line"):
        kmsg.parse_syslog(b"garbage\nmore of it\n")


def test_the_newest_count() -> None:
    dump = b"".join(b"<6>[%5d.000000] line\n" % second for second in range(kmsg.RECORDS_LIMIT + 1))
    records = kmsg.parse_syslog(dump).records
    assert (len(records), records[0].at, records[-1].at) == (kmsg.RECORDS_LIMIT, 1.0, float(kmsg.RECORDS_LIMIT))


LINES = st.builds(
    lambda priority, second, text: b"<%d>[%5d.000001] " % (priority, second) + text,
    st.integers(0, 300),
    st.integers(0, 99_999),
    st.binary(max_size=40),
)


@given(st.lists(st.one_of(st.binary(max_size=60), LINES), max_size=6).map(b"\n".join))
def test_parse_syslog_breaks_only_by_saying_so(data: bytes) -> None:
    try:
        records = kmsg.parse_syslog(data).records
    except OSError as error:
        assert "not one line" in str(error)  # noqa: PT017 - both ends are right, and only these
        return
    numbers = [one.number for one in records]
    assert numbers == sorted(set(numbers))
    assert {one.level for one in records} <= set(range(8))
