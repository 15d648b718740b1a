"""Is there as much shared memory, and as many huge pages, as this node is meant to have?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from nodeprep.facts.machine.limits import Limits
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict
from nodeprep.values import Value, field

PLACE = "/dev/shm"  # noqa: S108 - where it is, not a file of ours
SHM = Subject(PLACE, None, PLACE)


class Want(Value):
    """How much memory there must be.

    64 MiB is what OCI runtimes give a container and too little for NCCL: a host that has less was set up by mistake.
    Pods have a /dev/shm of their own, which their manifest sizes. Pools of huge pages are judged by their size: pages
    that are all taken are in use, as they should be.
    """

    shm_at_least: Annotated[int, "bytes of the host's /dev/shm"] = 64 << 20
    huge_pages: Annotated[Mapping[int, int], "pages wanted by their size in KiB."] = field(default_factory=dict)


def judge(seen: Seen) -> Iterator[Verdict]:
    want = seen[Want]
    yield from seen.each([seen[Limits]], lambda limits: shm(limits, seen), lambda _: SHM)
    yield from seen.each(want.huge_pages.items(), lambda item: pool(*item, seen), lambda item: named(item[0]))


def shm(limits: Limits, seen: Seen) -> Verdict | None:
    size, at_least = limits.shm, seen[Want].shm_at_least
    if size is None:
        return None
    shows = f"{PLACE} has {size} bytes" if size else f"nothing is mounted at {PLACE}"
    if size >= at_least:
        return Verdict(SHM, Status.OK, "Enough", shows, None, str(size), str(at_least))
    wants = f"{at_least} are wanted {seen.wanted_by('shm-at-least')}"
    message = f"{shows}; {wants}; try: mount -o remount,size=50% /dev/shm, and see /etc/fstab"
    return Verdict(SHM, Status.WARN, "ShmSmall", message, None, str(size), str(at_least))


def pool(size: int, wanted: int, seen: Seen) -> Verdict:
    found = next((pages for pages in seen[Limits].huge_pages if pages.size == size), None)
    total = found.total if found else 0
    about, sysfs = named(size), f"/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages"
    shows = f"{total} huge pages of {size} KiB" if found else f"this kernel has no huge pages of {size} KiB"
    if total >= wanted:
        return Verdict(about, Status.OK, "Enough", f"{shows}, {wanted} are wanted", None, str(total), str(wanted))
    wants = f"{wanted} are wanted {seen.wanted_by('huge-pages')}"
    message = f"{shows}; {wants}; memory may be too scattered: write to {sysfs} early in the boot"
    return Verdict(about, Status.WARN, "HugePagesShort", message, None, str(total), str(wanted))


def named(size: int) -> Subject:
    """A pool by the name of its directory."""
    return Subject(f"hugepages-{size}kB", None, f"hugepages-{size}kB")


CHECK = Check(
    id="limits.shm-hugepages",
    question="Is there as much shared memory, and as many huge pages, as this node is meant to have?",
    why="NCCL and data loaders pass data between processes of a node through /dev/shm; full, it kills them.",
    fix="Give the node the memory that is wanted, at boot.",
    reasons=(
        Reason("Enough", Status.OK),
        Reason("ShmSmall", Status.WARN, "mount -o remount,size=50% /dev/shm, and the same in /etc/fstab."),
        Reason(
            "HugePagesShort",
            Status.WARN,
            "hugepages={expected} (with hugepagesz= of that size) on the kernel's command line, then reboot.",
        ),
    ),
    source="NCCL documentation, troubleshooting: shared memory; the bound of 64 MiB is the OCI runtimes' default",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Limits,),
    want=Want,
    judge=judge,
)
