"""Does no firewall chain drop by its policy what is forwarded for pods?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.netfilter import Netfilter
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict

DROP = "drop"


def judge(seen: Seen) -> Iterator[Verdict]:
    # Other CNIs add rules for their pods, so Docker's policy does not matter there.
    if not seen[Terway].present:
        return
    dropping = [chain for chain in seen[Netfilter].forward if chain.policy == DROP]
    if dropping:
        names = ", ".join(f"{one.family} {one.table} {one.name}".strip()[:60] for one in dropping[:3])
        message = (
            f"policy of {names} is drop: what no rule there accepts of pods is lost; Terway wants accept: "
            f"see {dropping[0].command[:120]}, and who set it (Docker does)"
        )
        yield Verdict(NODE, Status.WARN, "ForwardDropped", message, observed=DROP, expected="accept")
    elif seen[Netfilter].forward:
        yield Verdict(NODE, Status.OK, "ForwardAccepted", "chains of forwarded packets accept by their policy")


CHECK = Check(
    id="sysctl.forward-policy",
    question="Does no firewall chain drop by its policy what is forwarded for pods?",
    why="Docker and hardening scripts set FORWARD to drop: packets of pods pass routes and rules and vanish there.",
    fix="iptables -P FORWARD ACCEPT, or rules that accept the pods' addresses; then mend what set it.",
    reasons=(
        Reason("ForwardDropped", Status.WARN),
        Reason("ForwardAccepted", Status.OK),
    ),
    source="Terway README (FORWARD policy ACCEPT); Linux include/uapi/linux/netfilter/nf_tables.h, ip_tables.h",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Netfilter, Terway),
    judge=judge,
)
