"""Does the container that enforces Terway's network policies answer?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

WANTED_ANSWER = "a connection"


def judge(seen: Seen) -> Iterator[Verdict]:
    terway = seen[Terway]
    if not terway.present or terway.policy is None:
        return
    policy = terway.policy
    if policy.errno is None:
        yield Verdict(
            NODE, Status.OK, "Answers", f"{policy.address} takes connections", None, WANTED_ANSWER, WANTED_ANSWER
        )
        return
    name = errno.errorcode.get(policy.errno, str(policy.errno))
    message = (
        f"{policy.address} takes no connection ({name}): the container `policy` of Terway's pod does not run, in every "
        "mode it listens there; network policies of new pods are not enforced and kubelet restarts it; see its log"
    )
    yield Verdict(NODE, Status.WARN, "NoAnswer", message, Remedy("terway_restart", {}), name, WANTED_ANSWER)


CHECK = Check(
    id="terway.policy-port",
    question="Does the container that enforces Terway's network policies answer?",
    why="Felix or the Cilium agent in it programs policies and, with datapathv2, the path of every packet of a pod.",
    fix="See the log of the container policy of Terway's pod on this node; then restart the pod.",
    reasons=(
        Reason("Answers", Status.OK),
        Reason("NoAnswer", Status.WARN),
    ),
    source="AliyunContainerService/terway cmd/terway-cli/policy.go: port 9099 (felix, cilium-agent, else socat)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Terway,),
    after=("terway.socket",),
    remedies=("terway_restart",),
    judge=judge,
)
