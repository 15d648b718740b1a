"""Does nothing but Terway configure the ENIs of this node?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.os_network import InterfaceClaim, OsNetwork
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


def judge(seen: Seen) -> Iterator[Verdict]:
    imds = seen.get(Imds)
    # An instance whose metadata does not answer is still an ECS instance.
    if (imds is not None and raw(imds)["instance"] is None) or not seen[Terway].present:
        return
    claims = seen[OsNetwork].claims
    yield from map(verdict, claims)
    if not claims:
        yield Verdict(NODE, Status.OK, "TerwayOnly", "no program of the system sets up secondary interfaces")


def verdict(claim: InterfaceClaim) -> Verdict:
    message = f"{claim.program} sets up secondary interfaces beside Terway: {claim.file}: {claim.says[:160]}"
    unmanage = Remedy("os_unmanage_eni")
    about = Subject(claim.file, None, claim.program)
    return Verdict(about, Status.WARN, "ClaimsEnis", message, unmanage, claim.says[:160], "left to Terway")


CHECK = Check(
    id="eni.os-manager",
    question="Does nothing but Terway configure the ENIs of this node?",
    why="cloud-init, networkd, NetworkManager and eni.service give each NIC that they see an address, a default route "
    "and rules of their own, and some take Terway's away: at the next boot or lease, not when you look.",
    fix="cloud-init: datasource: {{AliYun: {{apply_full_imds_network_config: false}}}}; networkd: Unmanaged=yes for "
    "all but the primary MAC and ManageForeignRoutingPolicyRules=no; NetworkManager: unmanaged-devices; eni.service: "
    "off.",
    reasons=(
        Reason("TerwayOnly", Status.OK),
        Reason("ClaimsEnis", Status.WARN),
    ),
    source="cloud-init DataSourceAliYun.py; systemd networkd.conf(5); NetworkManager.conf(5); terway hack/init.sh",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(OsNetwork, Terway),
    uses=(Imds,),
    remedies=("os_unmanage_eni",),
    judge=judge,
)
