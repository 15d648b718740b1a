"""Are the file systems that jobs need mounted, and do they answer?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.machine.mounts import Mount, Mounts
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict, raw
from nodeprep.values import Value

AUTOMOUNT = "autofs"


class Want(Value):
    """What must be mounted."""

    mounts: Annotated[
        tuple[str, ...],
        'mount points that jobs need, such as "/data". Without one of these a node is not ready.',
    ] = ()


def judge(seen: Seen) -> Iterator[Verdict]:
    mounts, by = seen[Mounts], f"wanted {seen.wanted_by('mounts')}"
    listed = dict.fromkeys(point.rstrip("/") or "/" for point in seen[Want].mounts)
    yield from seen.each(listed, lambda point: wanted(point, mounts.at_point(point), by), subject)
    yield from others([mount for mount in mounts.mounts if mount.remote and mount.point not in listed])


def subject(point: str) -> Subject:
    return Subject(point, None, point)


def wanted(point: str, mount: Mount | None, by: str) -> Verdict:
    if mount is None:
        message = f"nothing is mounted at {point}, {by}; try: mount {point}; see /etc/fstab and the server"
        return Verdict(subject(point), Status.FAIL, "NotMounted", message, None, "nothing", "a mount")
    shows = f"{point} is {mount.kind} from {mount.source}"
    if mount.answer:
        message = f"{shows}, {by}, and does not answer ({mount.answer}); see its server and the network to it"
        return Verdict(subject(point), Status.FAIL, "NoAnswer", message, None, mount.answer, "an answer")
    if mount.kind == AUTOMOUNT:
        return Verdict(subject(point), Status.OK, "AutomountWaits", f"{shows}: mounted when first used")
    return Verdict(subject(point), Status.OK, "Mounted", shows)


def others(remote: list[Mount]) -> Iterator[Verdict]:
    """Remote file systems that nobody listed, one verdict for all mounts of each: a pod hangs on these too."""
    alike: dict[tuple[str, str], list[Mount]] = {}
    for mount in remote:
        alike.setdefault((mount.device, mount.source), []).append(mount)
    for mounts in alike.values():
        first = mounts[0]
        more = f" ({len(mounts)} mounts)" if len(mounts) > 1 else ""
        shows = f"{first.kind} from {first.source} at {first.point}{more}"
        answers = [answer for mount in mounts if isinstance(answer := raw(mount)["answer"], str)]
        failed = next(filter(None, answers), "")
        if failed:
            message = f"{shows} does not answer ({failed}); what touches it hangs; see its server"
            yield Verdict(subject(first.point), Status.WARN, "RemoteNoAnswer", message, None, failed, "an answer")
        elif answers:  # of one that this user may not ask and nobody listed, nothing is said
            yield Verdict(subject(first.point), Status.OK, "Answers", shows)


CHECK = Check(
    id="fs.mounts",
    question="Are the file systems that jobs need mounted, and do they answer?",
    why="A job on a node without its data fails at once; on one with a dead mount it hangs where no signal reaches it.",
    fix="mount {name}",
    reasons=(
        Reason("NotMounted", Status.FAIL),
        Reason("NoAnswer", Status.FAIL, "See the server, then umount -f -l {name} and mount {name} again."),
        Reason("AutomountWaits", Status.OK),
        Reason("Mounted", Status.OK),
        Reason(
            "RemoteNoAnswer",
            Status.WARN,
            "See the server, then umount -f -l {name} and mount {name} again; or waive it where no job needs it.",
        ),
        Reason("Answers", Status.OK),
    ),
    source="statvfs(3), asked by a child that may hang; the list is the operator's",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Mounts,),
    want=Want,
    judge=judge,
)
