"""The only source of time: CLOCK_BOOTTIME for ages, wall time for people, and how far the kernel trusts its clock."""

from __future__ import annotations

import time

from nodeprep.values import Value

STA_UNSYNC = 0x0040  # include/uapi/linux/timex.h
STA_NANO = 0x2000
TIME_ERROR = 5


class ClockState(Value):
    """What adjtimex(2) says: whether something keeps the clock, its offset and its maximum error, in seconds."""

    synchronised: bool
    offset: float
    max_error: float


def now() -> float:
    """Seconds since boot, sleep included (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def today() -> str:
    """The UTC date, YYYY-MM-DD."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def utc(wall: float | None = None) -> str:
    """A moment of the wall clock for people, by default now, as RFC 3339 writes it in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))


def utc_minute(wall: float) -> str:
    """A moment of the wall clock for people, to the minute, as RFC 3339 writes it in UTC."""
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(wall))


def wall() -> float:
    """Seconds since 1970 by the wall clock, for what others hold against their own."""
    return time.time()


def computed() -> float:
    """Seconds that the threads of this process have had a processor."""
    return time.process_time()


def computed_by(thread: int) -> float:
    """Seconds that a thread of this process, by its number of the kernel, has had a processor; 0 once it has ended.

    The clock of clock_getcpuclockid(3) for threads: pthread_getcpuclockid(3) of one that has ended may crash.
    """
    try:
        return time.clock_gettime((~thread << 3) | 6)
    except OSError:
        return 0.0


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def state() -> ClockState:
    """Ask the kernel how its clock is kept. Reading (modes = 0) needs no privilege. Raises OSError."""
    import ctypes

    class Timeval(ctypes.Structure):
        _fields_ = (("sec", ctypes.c_long), ("usec", ctypes.c_long))

    class Timex(ctypes.Structure):  # struct timex of glibc and musl on 64 bits; 11 spare ints at its end
        _fields_ = (
            ("modes", ctypes.c_uint),
            ("offset", ctypes.c_long),
            ("freq", ctypes.c_long),
            ("maxerror", ctypes.c_long),
            ("esterror", ctypes.c_long),
            ("status", ctypes.c_int),
            ("constant", ctypes.c_long),
            ("precision", ctypes.c_long),
            ("tolerance", ctypes.c_long),
            ("time", Timeval),
            ("tick", ctypes.c_long),
            ("spare", ctypes.c_long * 24),
        )

    timex = Timex()
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.adjtimex(ctypes.byref(timex))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    unit = 1e-9 if timex.status & STA_NANO else 1e-6
    kept = answer != TIME_ERROR and not timex.status & STA_UNSYNC
    return ClockState(kept, timex.offset * unit, timex.maxerror * 1e-6)
