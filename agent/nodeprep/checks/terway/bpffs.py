"""Has Terway's eBPF data path what it lives in?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import TYPE, Terway
from nodeprep.facts.network.cni import Cni, CniNetwork
from nodeprep.facts.network.links import Links
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict, raw

DATAPATH = "datapathv2"
KEY = "eniip_virtual_type"
POINT, LINK = "/sys/fs/bpf", "cilium_net"


def judge(seen: Seen) -> Iterator[Verdict]:
    terway = seen[Terway]
    if not terway.present:
        return
    by = wanted_by(terway, seen.get(Cni))
    if by is None:
        return
    shows = f"{DATAPATH} is configured in {by}"
    if not terway.bpffs:
        message = f"no bpf is mounted at {POINT}; {shows} and pins its maps there; try: mount bpffs {POINT} -t bpf"
        yield Verdict(
            NODE, Status.FAIL, "NotMounted", message, Remedy("mount_bpffs", {}), "no mount", f"bpf at {POINT}"
        )
        return
    links = seen.get(Links)
    if links is not None and links.named(LINK) is None:
        message = (
            f"there is no link {LINK}; {shows}, whose Cilium agent makes it: pods' packets go nowhere; see the "
            "container policy of Terway's pod on this node"
        )
        yield Verdict(NODE, Status.FAIL, "NoLink", message, None, "no link", LINK)
        return
    yield Verdict(NODE, Status.OK, "Ready", f"{shows}; {POINT} is mounted", None, DATAPATH, DATAPATH)


def wanted_by(terway: Terway, cni: Cni | None) -> str | None:
    """Who says that the data path uses eBPF: Terway at its start, else its configuration. None: nobody."""
    if terway.capabilities and terway.capabilities.get("datapath"):
        return "node_capabilities" if terway.capabilities["datapath"].lower() == DATAPATH else None
    for file in (cni.files if cni else None) or ():
        network = raw(file)["network"]
        plugins = network.plugins if isinstance(network, CniNetwork) else ()
        if any(one.type == TYPE and str(one.option(KEY)).lower() == DATAPATH for one in plugins):
            return file.name[:60]
    return None


CHECK = Check(
    id="terway.bpffs",
    question="Has Terway's eBPF data path what it lives in?",
    why="Without the BPF file system the Cilium agent keeps no map over a restart, and the init container ends.",
    fix="mount bpffs /sys/fs/bpf -t bpf",
    reasons=(
        Reason("NotMounted", Status.FAIL),
        Reason(
            "NoLink",
            Status.FAIL,
            "See the log of the container policy of Terway's pod on this node; then restart the pod.",
        ),
        Reason("Ready", Status.OK),
    ),
    source="AliyunContainerService/terway cmd/terway-cli/cni.go, storeRuntimeConfig (mountHostBpf) and cni_linux.go",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Terway,),
    uses=(Cni, Links),
    remedies=("mount_bpffs",),
    judge=judge,
)
