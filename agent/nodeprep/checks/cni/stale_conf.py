"""Did an upgrade of Terway leave its old configuration behind?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import terway
from nodeprep.facts.alibaba.terway import CONFLIST, OLD, Terway
from nodeprep.facts.network.cni import Cni
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    cni = seen[Cni]
    names = [file.name for file in cni.files or ()]
    if CONFLIST not in names or not terway.is_of_kubernetes(cni, seen.get(Terway)):
        return
    if OLD not in names:
        yield Verdict(NODE, Status.OK, "None", f"{CONFLIST} stands alone", None, CONFLIST)
        return
    message = (
        f"{OLD} stands beside {CONFLIST} in {cni.directory} and sorts before it, so pods get the network of the old "
        f"version; Terway removes it after it wrote the new one; try: mv {cni.directory}/{OLD} /var/tmp/"
    )
    yield Verdict(NODE, Status.WARN, "OldConfiguration", message, None, OLD, CONFLIST)


CHECK = Check(
    id="cni.stale-conf",
    question="Did an upgrade of Terway leave its old configuration behind?",
    why="The old file sorts before the new one, so the runtime goes on with settings that the cluster left.",
    fix="See the log of Terway's pod for why its start did not end; move {observed} out of the directory.",
    reasons=(
        Reason("None", Status.OK),
        Reason("OldConfiguration", Status.WARN),
    ),
    source="AliyunContainerService/terway daemon, ensureCNIConfig: it removes 10-terway.conf",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Cni,),
    uses=(Terway,),
    judge=judge,
)
