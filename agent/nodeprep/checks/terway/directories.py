"""Are the directories there in which Terway keeps its records?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import DIRECTORIES, Terway
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

WANTED_DIRECTORIES = ", ".join(DIRECTORIES)


def judge(seen: Seen) -> Iterator[Verdict]:
    terway = seen[Terway]
    if not terway.present:
        return
    if not terway.missing:
        yield Verdict(
            NODE, Status.OK, "Present", f"{WANTED_DIRECTORIES} are there", None, WANTED_DIRECTORIES, WANTED_DIRECTORIES
        )
        return
    lacking = " and ".join(terway.missing)
    message = f"there is no directory {lacking}; Terway's daemon keeps its records there; try: mkdir -m 0700 -p " + (
        " ".join(terway.missing)
    )
    yield Verdict(NODE, Status.FAIL, "Missing", message, Remedy("terway_dirs", {}), f"no {lacking}", WANTED_DIRECTORIES)


CHECK = Check(
    id="terway.directories",
    question="Are the directories there in which Terway keeps its records?",
    why='Terway\'s daemon ends with "pod.db: no such file or directory" without them.',
    fix="mkdir -m 0700 -p /var/lib/cni/terway /var/run/eni, then restart Terway's pod.",
    reasons=(
        Reason("Present", Status.OK),
        Reason("Missing", Status.FAIL),
    ),
    source="AliyunContainerService/terway issue 112, hack/init.sh",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Terway,),
    remedies=("terway_dirs",),
    judge=judge,
)
