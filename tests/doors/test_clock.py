"""Time, held against the kernel's other words for it: /proc/uptime, and adjtimex by the C library's own header."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nodeprep.doors import clock
from tests.rigs.absent import cannot_start

ASK = r"""
#include <stdio.h>
#include <sys/timex.h>
int main(void) {
    struct timex t = {0};
    int state = adjtimex(&t);
    double unit = t.status & STA_NANO ? 1e-9 : 1e-6;
    printf("%d %.9f %.6f\n", state != TIME_ERROR && !(t.status & STA_UNSYNC), t.offset * unit, t.maxerror * 1e-6);
    return state < 0;
}
"""


def test_now_is_the_time_since_boot() -> None:
    before = clock.now()
    shown = float(Path("/proc/uptime").read_text().split()[0])
    after = clock.now()
    assert before - 0.02 <= shown <= after + 0.02  # /proc/uptime shows hundredths
    assert before <= after


def test_sleep_takes_its_time() -> None:
    before = clock.now()
    clock.sleep(0.05)
    assert 0.05 <= clock.now() - before < 5


def test_wall_time_for_people() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", clock.today())
    shown = datetime.strptime(clock.utc(), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - shown).total_seconds()) < 5
    assert clock.utc().startswith(clock.today())


def test_wall_time_is_utc_wherever_the_node_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # 14 hours ahead
    time.tzset()
    try:
        test_wall_time_for_people()
    finally:
        monkeypatch.undo()
        time.tzset()


def test_state_is_what_the_c_library_reads(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        cannot_start("no C compiler: struct timex cannot be held against its header")
    (tmp_path / "ask.c").write_text(ASK)
    subprocess.run([compiler, "-o", tmp_path / "ask", tmp_path / "ask.c"], check=True)
    said = subprocess.run([tmp_path / "ask"], capture_output=True, text=True, check=True).stdout.split()
    state = clock.state()
    assert state.synchronised is bool(int(said[0]))
    assert state.offset == pytest.approx(float(said[1]), abs=0.01)
    assert state.max_error == pytest.approx(float(said[2]), abs=0.01)
    assert 0 <= state.max_error <= 16.0  # NTP_PHASE_LIMIT


def test_max_error_follows_what_a_time_service_sets() -> None:
    """The value is the kernel's and not a constant: set it through the C library, read it, set it back."""
    if os.geteuid() != 0:
        pytest.skip("only CAP_SYS_TIME may set it")
    before = clock.state().max_error
    if not set_max_error(250_000):
        pytest.skip("only CAP_SYS_TIME may set it")
    try:
        assert clock.state().max_error == pytest.approx(0.25, abs=0.01)
    finally:
        set_max_error(round(before * 1e6))


def set_max_error(microseconds: int) -> bool:
    """Change the kernel's estimate, which nothing but the kernel's NTP code reads."""
    import ctypes

    # modes, padding, offset, freq, maxerror: the head of struct timex on 64 bits
    buffer = (ctypes.c_long * 40)()
    buffer[0], buffer[3] = 0x0004, microseconds  # ADJ_MAXERROR
    return int(ctypes.CDLL(None).adjtimex(buffer)) >= 0
