"""Does the kernel let packets from the node's network reach the pods?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.checks.route.refusal import refusal
from nodeprep.facts.routes import Answer, Routes
from nodeprep.facts.sysctls import Sysctls
from nodeprep.facts.terway import Terway
from nodeprep.model import NODE, Check, Damping, Remedy, Seen, Severity, Stage, Status, Verdict

FILTER = "StrictFilter"


def judge(seen: Seen) -> Iterator[Verdict]:
    routes, sysctls = seen[Routes], seen.get(Sysctls)
    mute = {answer.pod for answer in routes.out if answer.errno}  # of these route.out says why
    asked = [answer for answer in routes.back if answer.errno != errno.ENODEV]
    causes = {answer: refusal(answer, routes, sysctls) for answer in asked if answer.errno}
    stopped = [one for one, cause in causes.items() if one.pod not in mute or cause.reason == FILTER]
    heard = [answer for answer in asked if answer.pod not in mute]
    if stopped:
        yield verdict(stopped, seen)
    elif heard:
        message = f"packets from {heard[0].source} by {heard[0].iif} would reach {len(heard)} pods"
        yield Verdict(NODE, Status.OK, "WayBack", message)


def verdict(stopped: list[Answer], seen: Seen) -> Verdict:
    first, terway = stopped[0], seen.get(Terway)
    cause = refusal(first, seen[Routes], seen.get(Sysctls))
    remedy = None
    if cause.key and terway is not None and terway.present:
        remedy = Remedy("sysctl_terway", {"key": cause.key, "value": "0" if cause.reason == FILTER else "1"})
    more = f" and {len(stopped) - 1} more" if len(stopped) > 1 else ""
    message = f"from {first.source} by {first.iif} to pod {first.pod}{more}: {cause.words}"
    if cause.reason == FILTER:
        message += "; NodePort and node-to-pod traffic takes this way: loose (2) or none (0) is wanted"
    message += f". Ask the kernel again: {first.question}"
    observed = f"{len(stopped)} of {len(seen[Routes].back)} pods"
    return Verdict(NODE, Status.FAIL, cause.reason, message, remedy, observed, "none")


CHECK = Check(
    id="route.reverse-path",
    question="Does the kernel let packets from the node's network reach the pods?",
    why="Policy routes make the way back another one: a strict reverse-path filter drops NodePort traffic in silence.",
    fix="sysctl -w net.ipv4.conf.all.rp_filter=0 and the interface's own, and the same in /etc/sysctl.d.",
    source="Linux net/ipv4/fib_frontend.c __fib_validate_source; Documentation/networking/ip-sysctl.rst rp_filter",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    damping=Damping.SOFT,
    needs=(Routes,),
    uses=(Sysctls, Terway),
    after=("sysctl.rp-filter",),
    remedies=("sysctl_terway",),
    judge=judge,
)
