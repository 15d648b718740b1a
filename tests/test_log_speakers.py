"""Which lines of the kernel log hold words of a process: those of its sources, and none of a driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep import log_speakers
from nodeprep.doors.files import kmsg
from nodeprep.facts.machine import printk
from tests.facts import test_printk, test_xid
from tests.rigs import printk_table

LOGS = Path(__file__).parent / "trees" / "logs"
IN = " in NVRM: Xid (PCI:0000:3b:00): 79, x[1132,562c5b75d000+1000]"
# As the kernel prints them, with the source in Linux 6.1 unless another is named.
OF_PROCESSES = [
    f"NVRM: Xid (PCI:[12]: segfault at 0 ip 0000562c5b75d132 sp 00007fff61fed050 error 6{IN}",  # x86 mm/fault.c
    f"[12]: segfault at 0 ip 0000562c5b75d132 sp 00007fff61fed050 error 6{IN} likely on CPU 1 (core 1, socket 0)",
    f"a\\x0ab\\x0ac\\x0a\\x0a\\x0a\\x0a\\x0a\\x0a\\x0a\\x0a\\x0a[12]: segfault at 0 ip 00005 sp 0000 error 6{IN}",
    f"a\nb[12]: segfault at 0 ip 0000562c5b75d132 sp 00007fff61fed050 error 6{IN}",
    f"traps: a b[12] trap invalid opcode ip:4011a0 sp:7ffe1b2c error:0{IN}",  # x86 kernel/traps.c
    f"traps: x[12] general protection fault ip:4011a0 sp:7ffe1b2c error:0{IN}",
    f"x[12] general protection ip:4011a0 sp:7ffe1b2c error:0{IN}",  # Linux 4.x, without "traps: "
    f"x[12] bad frame in rt_sigreturn frame:00000000b1 ip:4011a0 sp:7ffe1b2c orax:ffffffffffffffff{IN}",
    "x[12] vsyscall attempted with vsyscall=none ip:ffffffffff600000 cs:33 sp:7ffe1b2c ax:0 si:0 di:0",
    "umip: x[12] ip:4011a0 sp:7ffe1b2c: SGDT instruction cannot be used by applications.",
    f"x[12]: unhandled exception: BRK handler, ESR 0x00000000f2000000, ptrace BRK handler{IN}",  # arm64 kernel/traps.c
    f"x[12]: unhandled level 1 translation fault (11) at 0x00000000, esr 0x92000005{IN}",  # arm64, Linux 4.x
    "x[12]: undefined instruction: pc=00000000004005f4",
    "x[12]: syscall 1234",
    f"x[12]: unhandled signal 11 code 0x1 at 0x0000000000000000{IN}",  # riscv kernel/traps.c
    IN,  # mm/memory.c, its beginning torn off
    "NVRM: GPU 0000 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",  # mm/oom_kill.c
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,task_memcg=/a,task=NVRM: Xid,pid=12,uid=0",
    "Memory cgroup out of memory: Killed process 12 (NVRM: Xid) total-vm:1kB, anon-rss:1kB",
    "Out of memory: Killed process 12 (NVRM: Xid) total-vm:1kB, anon-rss:1kB",
    "oom_reaper: reaped process 12 (NVRM: Xid), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    "[   1234]     0  1234   123456     1234    90112        0             0 NVRM: Xid",
    "Memory cgroup stats for /kubepods/a:",
    "process 'x' launched '/tmp/NVRM: loading NVIDIA UNIX' with NULL argv: empty string added",  # fs/exec.c
    "warning: process `x' used the deprecated sysctl system call with ",
    "warning: `x' uses 32-bit capabilities (legacy support in use)",
    "process `x' is using obsolete setsockopt SO_BSDCOMPAT",
    '"x" (12) uses obsolete CP15 Barrier instruction at 0x400000',  # arm64 kernel/armv8_deprecated.c
    "Pid 12(x) over core_pipe_limit",  # fs/coredump.c
    "Process 12(x) has RLIMIT_CORE set to 1",
    "Core dump to |/usr/bin/x pipe failed",
    "coredump: 12(x): over coredump_pipe_limit, skipping core dump",  # Linux 6.12
    "x: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL), nodemask=(null)",  # mm/page_alloc.c
    "x (12) used greatest stack depth: 11000 bytes left",  # kernel/exit.c
    "x (12): drop_caches: 3",  # fs/drop_caches.c
    "NVRM: loading NVIDIA UNIX IN=eth0 OUT= MAC= SRC=10.0.0.1 DST=10.0.0.2 LEN=40",  # net/netfilter/nf_log_syslog.c
    "NVRM: API mismatch: the client 'x' (pid 12)\\x0aNVRM: has the version 1, but this kernel module has",
]


@pytest.mark.parametrize("text", OF_PROCESSES, ids=lambda one: one[:50])
def test_lines_that_tell_of_a_process(text: str) -> None:
    assert log_speakers.is_of_process(text)


PREFIXES = ("", "mlx5_core 0000:5c:00.0: ", "mlx5_core 0000:5c:00.0 eth2: ", "infiniband mlx5_3: ", "mlx5_3: ")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_format_of_a_driver_tells_of_a_process(prefix: str) -> None:
    arguments = {**dict.fromkeys("diuoxX", "7"), "c": "+", "s": "word", "%": "%"}
    rows = printk_table.rows_written()
    assert rows
    for row in rows:
        text = prefix + printk.CONVERSION.sub(lambda found: arguments.get(found[1] or "%", "word"), row.format)
        assert not log_speakers.is_of_process(text), row


def test_no_published_line_of_a_driver_tells_of_a_process() -> None:
    published = [*(text for text, _ in test_printk.PUBLISHED), *(text for text, *_ in test_xid.PUBLISHED)]
    others = [text for text in test_xid.OTHERS if "API mismatch" not in text]
    assert [text for text in (*published, *others) if log_speakers.is_of_process(text)] == []


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.dmesg")), ids=lambda one: one.name)
def test_no_line_of_a_recorded_boot_tells_of_a_process(log: Path) -> None:
    records = kmsg.parse_syslog(log.read_bytes()).records
    assert records
    assert not any(one.of_process for one in records)


@pytest.mark.parametrize("text", [text for text, *_ in test_xid.PUBLISHED])
def test_a_record_of_several_lines_of_a_driver_counts_whole(text: str) -> None:
    assert log_speakers.are_of_processes((text, "NVRM: more", "and more"), timed=True) == (False, False, False)
