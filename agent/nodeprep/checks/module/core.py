"""Are the kernel modules loaded that RDMA needs?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Verdict,
    raw,
)

CORE = ("ib_core", "ib_uverbs")  # the second pulls in the first


def judge(seen: Seen) -> Iterator[Verdict]:
    modules, expected = seen[Modules], seen[Expected]
    needed_by = why_core(seen)
    at_work = proven(seen)
    # A module at work that the listing lacks, and no index either: the copy kept only some modules.
    partial = any(modules.has(name) is None and not modules.is_loaded(name) for name in at_work)
    if needed_by:
        # Consequences on all devices follow from the pair, so this is one finding on the node.
        gone = [name for name in CORE if name not in at_work and not modules.is_loaded(name)]
        yield verdict(Subject(NODE.place, None, " and ".join(gone or CORE)), needed_by, gone, modules)
    for name in expected.modules:
        if name not in CORE and not (partial and not modules.is_loaded(name)):
            gone = [] if modules.is_loaded(name) else [name]
            yield verdict(Subject(name, None, name), expected.by, gone, modules)


def why_core(seen: Seen) -> str:
    """What on this node needs the core modules, "" if nothing does."""
    rdma, expected = seen[Rdma], seen[Expected]
    if rdma.devices:
        return f"RDMA device {rdma.devices[0].name}"
    if expected.wants_rdma or set(CORE).intersection(expected.modules):
        return expected.by
    pci = seen.get(Pci)
    return next((nic.label for nic in (pci.nics if pci else ()) if nic.offers_rdma), "")


def proven(seen: Seen) -> frozenset[str]:
    """Modules that must be at work, for they made what is shown."""
    nodes = seen.explaining(DevNodes)
    # A class that cannot be listed is there all the same.
    makes = {"ib_core": bool(seen[Rdma].devices), "ib_uverbs": nodes is not None and raw(nodes)["verbs"] is not None}
    return frozenset(name for name, made in makes.items() if made)


def verdict(subject: Subject, by: str, gone: list[str], modules: Modules) -> Verdict:
    if not gone:
        return Verdict(subject, Status.OK, "Loaded", f"{subject.name}: loaded", None, "loaded", "loaded")
    shows = f"{subject.name}: not loaded; needed by {by}"
    lacking = [name for name in gone if modules.has(name) is False]
    if lacking:
        shows = f"{shows}; the running kernel has no {' and '.join(lacking)}: install its package of extra modules"
        return Verdict(subject, Status.FAIL, "NoModule", shows, None, "not loaded", "loaded")
    loading = [name for name in gone if name in modules.loading]
    shows = f"{shows}; {' and '.join(loading)} is being loaded or unloaded right now" if loading else shows
    load = Remedy("kernel_modules", {"module": gone[-1]})
    return Verdict(subject, Status.FAIL, "NotLoaded", shows, load, "not loaded", "loaded")


CHECK = Check(
    id="module.core",
    question="Are the kernel modules loaded that RDMA needs?",
    why="Without ib_uverbs no process can open an RDMA device, however healthy the hardware.",
    fix="modprobe ib_uverbs; keep it with a line in /etc/modules-load.d/.",
    reasons=(
        Reason("Loaded", Status.OK),
        Reason(
            "NoModule",
            Status.FAIL,
            "Install the extra modules of the running kernel (uname -r): it has no {name}.",
        ),
        Reason("NotLoaded", Status.FAIL, "modprobe {module}; keep it with a line in /etc/modules-load.d/."),
    ),
    source="Linux drivers/infiniband/core; rdma-core kernel-boot/modules/rdma.conf",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Modules, Rdma, Expected),
    uses=(Pci, DevNodes),
    after=("erdma.module",),
    remedies=("kernel_modules",),
    judge=judge,
)
