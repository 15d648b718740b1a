"""Does Terway's daemon take connections?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway, UnixSocket
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

WANTED_ANSWER = "a connection"


def judge(seen: Seen) -> Iterator[Verdict]:
    terway = seen[Terway]
    if terway.present and terway.daemon is not None:
        yield verdict(terway.daemon)


def verdict(daemon: UnixSocket) -> Verdict:
    code = daemon.errno
    if code is None:
        return Verdict(
            NODE, Status.OK, "Answers", f"{daemon.address} takes connections", None, WANTED_ANSWER, WANTED_ANSWER
        )
    name = errno.errorcode.get(code, str(code))
    restart = Remedy("terway_restart", {})
    tail = "every pod that starts or ends here waits for it; see Terway's pod on this node (app=terway-eniip)"
    if code in (errno.ENOENT, errno.ENOTDIR):
        message = f"{daemon.address} is not there ({name}): Terway's daemon did not start since the boot; {tail}"
        return Verdict(NODE, Status.FAIL, "NotStarted", message, restart, name, WANTED_ANSWER)
    if code == errno.ECONNREFUSED:
        message = f"{daemon.address} refuses ({name}): it is what a dead daemon left, nobody listens; {tail}"
        return Verdict(NODE, Status.FAIL, "Dead", message, restart, name, WANTED_ANSWER)
    message = f"{daemon.address} takes no connection ({name}): Terway's daemon hangs; {tail}"
    return Verdict(NODE, Status.FAIL, "NoAnswer", message, restart, name, WANTED_ANSWER)


CHECK = Check(
    id="terway.socket",
    question="Does Terway's daemon take connections?",
    why='The CNI plugin asks it for the network of each pod: "dial unix eni.socket" leaves pods ContainerCreating.',
    fix="See the logs of Terway's pod on this node, the init container's first; then restart it.",
    reasons=(
        Reason("Answers", Status.OK),
        Reason("NotStarted", Status.FAIL),
        Reason("Dead", Status.FAIL),
        Reason("NoAnswer", Status.FAIL),
    ),
    source="AliyunContainerService/terway daemon/server.go; skills/terway-troubleshooting",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Terway,),
    after=("terway.directories", "terway.kernel"),
    remedies=("terway_restart",),
    judge=judge,
)
