"""Does the container runtime find a network configuration?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import CONFLIST, Terway
from nodeprep.facts.network.cni import SUFFIXES, Cni
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    cni = seen[Cni]
    if cni.files:
        shows = f"{cni.directory} holds {len(cni.files)} network configuration{'s' * (len(cni.files) > 1)}"
        yield Verdict(NODE, Status.OK, "Configured", shows, None, str(len(cni.files)))
        return
    terway = seen.get(Terway)
    is_terways = terway is not None and terway.present  # it wants a configuration whatever a kubelet leaves
    if not is_terways and not cni.kubelet:
        return
    wanted = "a configuration"
    tail, remedy = "see the pod of the network plugin on this node", None
    if is_terways:
        wanted, remedy = CONFLIST, Remedy("terway_restart", {})
        tail = f"Terway writes {CONFLIST} once its daemon runs: see its pod on this node (app=terway-eniip)"
    by = f"the kubelet wants {wanted} and keeps the node NotReady; {tail}"
    if cni.files is None:
        message = f"{cni.directory} is not there; {by}"
        yield Verdict(NODE, Status.FAIL, "NoDirectory", message, remedy, "no directory", wanted)
    else:
        message = f"{cni.directory} holds no {', '.join(SUFFIXES)}; {by}"
        yield Verdict(NODE, Status.FAIL, "NoConfiguration", message, remedy, "no file", wanted)


CHECK = Check(
    id="cni.directory",
    question="Does the container runtime find a network configuration?",
    why='Without one no pod with a network of its own starts: "cni plugin not initialized".',
    fix="See the pod of the network plugin on this node: it writes the file.",
    reasons=(
        Reason("Configured", Status.OK),
        Reason("NoDirectory", Status.FAIL),
        Reason("NoConfiguration", Status.FAIL),
    ),
    source="containerd/go-cni opts.go, loadFromConfDir; AliyunContainerService/terway daemon, ensureCNIConfig",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Cni,),
    uses=(Terway,),
    remedies=("terway_restart",),
    judge=judge,
)
