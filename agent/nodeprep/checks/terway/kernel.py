"""Is the kernel new enough for Terway?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.machine.system import System
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    cannot_look,
)

MAJOR, MINOR = 5, 10  # terway cmd/terway-cli/cni.go, processInput
RELEASE = "/proc/sys/kernel/osrelease"


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Terway].present:
        return
    system = seen[System]
    enough, wanted = system.kernel_at_least(MAJOR, MINOR), f"{MAJOR}.{MINOR}"
    shows = f"the kernel is {system.kernel[:60]}; {wanted} or newer is wanted by Terway"
    if enough is None and not system.kernel:  # a dead tree may hold none
        return
    if enough is None:
        yield cannot_look(NODE, Unreadable(Why.MALFORMED, RELEASE, detail=f"{system.kernel[:60]!r} says no version"))
        return
    if enough:
        yield Verdict(NODE, Status.OK, "NewEnough", shows, None, system.kernel, wanted)
        return
    message = f"{shows}, whose init container ends with 'unsupport kernel version': install a newer image"
    yield Verdict(NODE, Status.FAIL, "TooOld", message, None, system.kernel, wanted)


CHECK = Check(
    id="terway.kernel",
    question="Is the kernel new enough for Terway?",
    why="Terway's init container refuses older kernels, so no pod gets a network on this node.",
    fix="Replace the node by one with an image whose kernel is {expected} or newer.",
    reasons=(
        Reason("NewEnough", Status.OK),
        Reason("TooOld", Status.FAIL),
    ),
    source="AliyunContainerService/terway cmd/terway-cli/cni.go, processInput: require >=5.10",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Terway, System),
    judge=judge,
)
