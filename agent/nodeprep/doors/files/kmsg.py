"""Reads the kernel log from /dev/kmsg, or by syslog(2) where /dev/kmsg may not be opened, as in containers."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby

from nodeprep import log_speakers
from nodeprep.pattern import Pattern
from nodeprep.values import Value

RECORD = 8192  # bytes; a read shorter than the record is EINVAL, and escapes make records grow
SYSLOG_ACTION_READ_ALL = 3  # include/uapi/linux/syslog.h; needs CAP_SYSLOG where dmesg_restrict is set
SYSLOG_ACTION_SIZE_BUFFER = 10
RECORDS_LIMIT = 20_000  # records, the newest; rings of the usual sizes hold fewer
READS = 500_000  # a limit for a log that is written faster than we can read
# The time exists if printk.time is on. The caller, in the second bracket, exists if printk.caller is on.
LINE = Pattern(r"<(\d{1,4})>(?:\[ *(\d{1,12})\.(\d{6})\](?:\[[^\]]*\])? )?(.*)")


class KmsgRecord(Value):
    """One kernel-log record. `facility` 0 is the kernel itself; `at` counts seconds since boot; `number` only grows.

    `of_process`: the kernel tells of a process, and the text holds a name that the process chose, or may.
    """

    number: int
    at: float
    level: int
    facility: int
    text: str
    of_process: bool = False


class KernelLogReader:
    """The kernel log for repeated reads: no record is read twice.

    Only records that are `wanted` are kept, by default all. The device is read if it may be opened, else syslog(2).
    """

    def __init__(self, device: str = "/dev/kmsg", wanted: Callable[[KmsgRecord], bool] = bool) -> None:
        self._device = device
        self._wanted = wanted
        self._descriptor: int | None = None  # its position is behind the last record that was read
        self._records: deque[KmsgRecord] = deque(maxlen=RECORDS_LIMIT)
        self._dump, self._dumped = b"", EMPTY_DUMP

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def read(self) -> tuple[KmsgRecord, ...]:
        """The records since the last `dmesg --clear`, oldest first. Raises OSError if neither source may be read."""
        descriptor = _opened(self._device)
        if descriptor is None:
            return self._by_syslog()
        if self._descriptor is None:
            self._descriptor = descriptor
            self._records.extend(filter(self._wanted, _records(descriptor)))
            return tuple(self._records)
        try:
            self._records.extend(filter(self._wanted, _records(self._descriptor)))
            oldest = next(_records(descriptor), None)
        finally:
            os.close(descriptor)
        while self._records and (oldest is None or self._records[0].number < oldest.number):
            self._records.popleft()
        return tuple(self._records)

    def _by_syslog(self) -> tuple[KmsgRecord, ...]:
        dump = _dump()
        if not dump.startswith(self._dump):  # cleared, or the oldest were overwritten
            self._dump, self._dumped = b"", EMPTY_DUMP
        end = dump.rfind(b"\n") + 1
        self._dumped = parse_syslog(dump[len(self._dump) : end], self._dumped, self._wanted)
        self._dump = dump[:end]
        return self._dumped.records


def _opened(device: str) -> int | None:
    """A descriptor at the oldest record that was not cleared; None if this is not the device of the log."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):  # a root mounted without its /dev may hold a plain file
            # SEEK_DATA skips cleared records: `dmesg --clear` is how an operator says "seen and dealt with".
            os.lseek(descriptor, 0, os.SEEK_DATA)
            return descriptor
    except OSError as error:
        if error.errno != errno.ESPIPE:  # a console, which some containers have in its place
            os.close(descriptor)
            raise
    os.close(descriptor)
    return None


def _records(descriptor: int) -> Iterator[KmsgRecord]:
    for _ in range(READS):
        try:
            data = os.read(descriptor, RECORD)
        except BlockingIOError:  # no more
            break
        except BrokenPipeError:  # overwritten while we read: the next read gives the oldest record that is left
            continue
        if not data:
            break
        record = parse(data)
        if record is not None:
            yield record


def parse(data: bytes) -> KmsgRecord | None:
    """Decode one read(2) of /dev/kmsg: `prio,seq,usec,flags[,...];text`, then lines of KEY=value."""
    head, semicolon, rest = data.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not all(field.isdigit() for field in fields[:3]):
        return None
    text = rest.partition(b"\n")[0].decode(errors="replace")
    priority, number, microseconds = (int(field) for field in fields[:3])
    facility = priority >> 3
    of_process = facility == 0 and log_speakers.is_of_process(text)
    return KmsgRecord(number, microseconds / 1e6, priority & 7, facility, text, of_process)


def _dump() -> bytes:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    size = libc.klogctl(SYSLOG_ACTION_SIZE_BUFFER, None, 0)
    if size < 0:
        raise OSError(ctypes.get_errno() or errno.EPERM, "syslog(2)")
    buffer = ctypes.create_string_buffer(size)
    length = libc.klogctl(SYSLOG_ACTION_READ_ALL, buffer, size)
    if length < 0:
        raise OSError(ctypes.get_errno() or errno.EPERM, "syslog(2)")
    return ctypes.string_at(buffer, length)


class SyslogDump(Value):
    """The newest wanted records of a syslog(2) dump, and the number of its last line."""

    records: tuple[KmsgRecord, ...] = ()
    number: int = -1


EMPTY_DUMP = SyslogDump()


def parse_syslog(
    data: bytes, before: SyslogDump = EMPTY_DUMP, wanted: Callable[[KmsgRecord], bool] = bool
) -> SyslogDump:
    """Decode a syslog(2) dump, or new lines of one: `<prio>[seconds.micros] text`.

    A dump has no record numbers. Times replace them, because a record has the same time in every dump. Nor does it tell
    a record of several lines from several records (`log_speakers.are_of_processes`). Raises OSError if no line of this
    dump and of those before it was understood.
    """
    records = deque(before.records, maxlen=RECORDS_LIMIT)
    number = before.number
    understood = False
    # Only the kernel's own line end counts: the name of a device may contain other line ends.
    matches = (LINE.fullmatch(line.decode(errors="replace")) for line in data.split(b"\n"))
    for _, alike in groupby(filter(None, matches), lambda match: match.string[: match.start(4)]):
        understood = True
        lines = tuple(alike)
        priority, at = int(lines[0][1]), int(lines[0][2] or 0) * 1_000_000 + int(lines[0][3] or 0)
        facility = priority >> 3
        of_processes = log_speakers.are_of_processes([line[4] for line in lines], timed=at > 0)
        for line, of_process in zip(lines, of_processes, strict=True):
            number = max(number + 1, at)
            record = KmsgRecord(number, at / 1e6, priority & 7, facility, line[4], facility == 0 and of_process)
            if wanted(record):
                records.append(record)
    if data.strip(b"\0\n") and not understood and before.number < 0:
        raise OSError(errno.EBADMSG, "syslog(2): not one line that looks like the kernel's")
    return SyslogDump(tuple(records), number)
