"""Whose words a line of the kernel log holds: a driver's, or those of a process, of which the kernel only tells.

Whoever runs a program chooses its name (15 bytes) and that of its file (255 bytes). The kernel prints both of a program
that crashes, and the line is the kernel's own (facility 0). So a line of this kind proves nothing about a device.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodeprep.pattern import Pattern

# A PCI device as printk writes it: dev_printk "DRIVER ADDRESS: " (drivers/base/core.c), netdev_printk and ibdev_printk
# "DRIVER ADDRESS NAME: " (net/core/dev.c, drivers/infiniband/core/device.c), with " (unnamed net_device)" and the like.
# No driver's name is shorter than "pci". So 15 bytes cannot hold this much.
DEVICE = (
    r"\A[\w.-]{3,} (?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r"(?: [^\s:()\[\]]+| \((?:unnamed net_device|uninitialized|unregistering|unregistered|released|dummy|unknown)\))*: "
)
# A function of a driver, its line, and a process id. mlx5 and others print them before some messages.
FUNCTION = r"(?:\w+:\d+:(?:\(pid \d+\):)? )?"
NAME = r".{0,60}?"  # task_struct.comm: at most 15 bytes, of which /dev/kmsg writes some as \x0a
OF_PROCESS = Pattern(
    r"\A(?:"
    # x86 mm/fault.c show_signal_msg; UML, sparc and arc say the same
    rf"{NAME}\[\d+\]: segfault at "
    # x86 kernel/traps.c show_signal ("traps: " before it), entry/vsyscall/vsyscall_64.c warn_bad_vsyscall
    rf"|{NAME}\[\d+\] .{{1,80}}? ip:[0-9a-f]+ (?:sp|cs):"
    # x86 kernel/signal.c signal_fault, arm64 kernel/signal.c; x86 kernel/umip.c
    rf"|{NAME}\[\d+\]:? bad frame in |umip: {NAME}\[\d+\] ip:"
    # arm64 kernel/traps.c arm64_show_signal ("unhandled exception: "), do_undefinstr, bad_el0_sync, do_ni_syscall;
    # powerpc and riscv kernel/traps.c ("unhandled signal")
    rf"|{NAME}\[\d+\]: (?:unhandled |undefined instruction|syscall \d)"
    # mm/memory.c print_vma_addr, where another line came between the beginning of a record and its end
    r"| in "
    # mm/oom_kill.c, mm/memcontrol.c
    rf"|{NAME} invoked oom-killer: |oom-kill:|oom_reaper: |Memory cgroup |(?:Memory cgroup o|O)ut of memory"
    r"|Killed process |Tasks? (?:state|in) |\[ *\d+\] +\d+ +\d+ +\d+ "
    # fs/exec.c and kernel/: "process 'X' launched 'FILE' with NULL argv", "warning: process `X' used the deprecated"
    r"|(?:warning: )?(?:process )?[`'\"]"
    # fs/coredump.c, in the words of old and of new kernels; kernel/signal.c print_fatal_signal
    r"|Pid \d+\(|Process \d+\(|coredump: |Core dump to |\|?[^ ]* pipe failed"
    rf"|{NAME}(?:/\d+)?: potentially unexpected fatal signal "
    # mm/page_alloc.c warn_alloc; kernel/exit.c check_stack_usage; fs/drop_caches.c; mm/mremap.c; fs/proc/base.c
    rf"|{NAME}: (?:page|vmalloc|vmap) (?:allocation failure|error)"
    rf"|{NAME} ?\(\d+\):? (?:used greatest stack depth|drop_caches: |attempted to duplicate a private )"
    rf"|{NAME} ?\(\d+\): /proc/\d+/oom_adj is deprecated"
    # NVIDIA's RM, at NV_ESC_CHECK_VERSION_STR: the name and the version that a client of the driver gave itself
    r"|NVRM: API mismatch: the client "
    r")"
    # net/netfilter/nf_log_syslog.c: behind the prefix of a rule, up to 127 characters
    r"|\A.{0,127}?IN=\S* OUT=\S* ",
    re.DOTALL,  # a name may hold a line end
)
OF_DEVICE = Pattern(
    rf"{DEVICE}|\A(?:NVRM: |nvidia[-_]|nv_peer_mem |infiniband |NETDEV WATCHDOG: "
    r"|<?(?:mlx[45]|bnxt|ice|irdma|efa|erdma|hns)\w*>?[: ])"
)


def is_of_process(text: str) -> bool:
    """Whether the kernel tells of a process in this line, whose name or file stands in it."""
    return OF_PROCESS.match(text) is not None


def are_of_processes(texts: Sequence[str], *, timed: bool) -> tuple[bool, ...]:
    """Which lines hold, or may hold, words of a process. The lines follow each other, with the same time and priority.

    syslog(2) makes several such lines of a record that holds a line end, and nothing marks where the next record
    begins. A name may hold line ends. So all these lines are a process's if one of them is. Those after the first count
    only if the first is a driver's. That is not asked of a log without times (`timed`): there nearly all are alike.
    """
    if any(map(is_of_process, texts)):
        return (True,) * len(texts)
    believed = not timed or OF_DEVICE.match(texts[0]) is not None
    return tuple(place > 0 and not believed for place in range(len(texts)))
