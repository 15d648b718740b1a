"""Do the RDMA modules come from one build?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.machine.modules import OFED, Modules
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict

STACK = ("ib_core", "mlx5_core", "mlx5_ib")  # what MLNX_OFED and DOCA-OFED replace together
DRIVER = "mlx5_core"  # out of tree it always states its version
VERBS_ABI = "6"  # IB_USER_VERBS_ABI_VERSION (include/uapi/rdma/ib_user_verbs.h); rdma-core speaks no other


def judge(seen: Seen) -> Iterator[Verdict]:
    modules, nodes = seen[Modules], seen.get(DevNodes)
    stated = {name: version for name, version in modules.versions if name in STACK}
    shows = ", ".join(f"{name} {version}" for name, version in stated.items())
    abi = nodes.verbs_abi if nodes else None
    if abi is not None and abi != VERBS_ABI:
        message = f"the kernel speaks verbs ABI {abi}, user space speaks {VERBS_ABI}"
        yield says(Status.WARN, "VerbsAbi", message, abi, VERBS_ABI)
    elif len(set(stated.values())) > 1:
        yield says(Status.WARN, "MixedVersions", f"modules of different builds are loaded: {shows}", shows)
    elif modules.versions and modules.is_loaded(OFED) and modules.is_loaded(DRIVER) and DRIVER not in stated:
        message = f"{OFED} of an OFED stack is loaded beside the distribution's {DRIVER}, which states no version"
        yield says(Status.WARN, "MixedStacks", message, "inbox and OFED")
    elif any(modules.is_loaded(name) for name in STACK) or abi is not None:
        stack = "OFED" if modules.is_loaded(OFED) else "the kernel's own"
        yield says(Status.OK, "OneBuild", f"the RDMA stack is {stack}{': ' + shows if shows else ''}", shows)


def says(status: Status, reason: str, message: str, observed: str, expected: str = "one build") -> Verdict:
    return Verdict(NODE, status, reason, message, None, observed, expected)


CHECK = Check(
    id="module.flavour",
    question="Do the RDMA modules come from one build?",
    why="A kernel update that leaves half of an OFED behind loads modules that do not fit each other: devices without "
    "RDMA, or crashes.",
    fix="Drain the node; rebuild OFED for the running kernel (dkms status) or remove it whole, then reboot.",
    reasons=(
        Reason(
            "VerbsAbi",
            Status.WARN,
            "Install the rdma-core (libibverbs) that fits the running kernel; with OFED, drain the node, rebuild it "
            "for that kernel (dkms status) and reboot.",
        ),
        Reason("MixedVersions", Status.WARN),
        Reason("MixedStacks", Status.WARN),
        Reason("OneBuild", Status.OK),
    ),
    source="Linux include/uapi/rdma/ib_user_verbs.h; MLNX_OFED installation guide",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Modules,),
    uses=(DevNodes,),
    judge=judge,
)
