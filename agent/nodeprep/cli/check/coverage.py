"""How much of a node a report covers: which checks judged something, and which gates of the profile did not."""

from __future__ import annotations

from nodeprep.cli.check.check_selection import DESELECTED
from nodeprep.model import Report, Skipped, Status
from nodeprep.values import Value

NO_RECORD = "no record of "
NO_PCI_LIST = "no record of /sys/bus/pci/devices"
PCI_FAMILY = "pci."
COULD_NOT_LOOK = "could not look"
NOT_KNOWN = "this nodeprep has no such check"


class Coverage(Value):
    """The selected checks in numbers, and the gates of the profile among them.

    `judged` checks found something to judge, `absent` ones nothing. `passed` ones found it right. `unjudged` are gates
    that were not judged, and why. `missing` are those of them that the profile rests on. `is_empty`: the profile rests
    on gates, and each of them found nothing on this node that it is about.
    """

    selected: int
    judged: int
    passed: int
    absent: int
    gates: int
    unjudged: tuple[Skipped, ...]
    missing: tuple[Skipped, ...]
    is_empty: bool


def coverage(report: Report) -> Coverage:
    """What a report covers. Gates that --only or --skip left out do not count."""
    said: dict[str, set[Status]] = {}
    blind: set[str] = set()
    for finding in report.findings:
        said.setdefault(finding.check, set()).add(finding.status)
        if finding.status is Status.UNKNOWN and finding.waived is None:
            blind.add(finding.check)
    skipped = {one.check: one.why for one in report.skipped}
    deselected = {check for check, why in skipped.items() if why == DESELECTED}
    gates = [gate for gate in report.gates if gate not in deselected]
    unjudged = [
        Skipped(gate, COULD_NOT_LOOK if gate in blind else skipped.get(gate, NOT_KNOWN))
        for gate in gates
        if gate in blind or gate not in said
    ]
    needed = [gate for gate in report.basis.rests_on if gate in gates]
    about = [said.get(gate) == {Status.ABSENT} for gate in needed if not gate.startswith(PCI_FAMILY)]
    return Coverage(
        selected=len(said) + len(skipped) - len(deselected) + report.basis.elsewhere,
        judged=sum(bool(statuses - {Status.ABSENT, Status.UNKNOWN}) for statuses in said.values()),
        passed=sum(statuses - {Status.ABSENT} == {Status.OK} for statuses in said.values()),
        absent=sum(statuses == {Status.ABSENT} for statuses in said.values()) + report.basis.elsewhere,
        gates=len(gates),
        unjudged=tuple(unjudged),
        missing=tuple(one for one in unjudged if one.check in needed and not _without_pci_list(one)),
        is_empty=bool(about) and all(about),
    )


def _without_pci_list(gate: Skipped) -> bool:
    """A copy of RDMA devices alone has no list of PCI functions: its ports are judged without."""
    return gate.check.startswith(PCI_FAMILY) and gate.why == NO_PCI_LIST


def reasons(skipped: tuple[Skipped, ...]) -> list[str]:
    """Why they were not judged, as a report of a copy counts it: "15 need a live node"."""
    absent = sum(one.why.startswith(NO_RECORD) for one in skipped)
    blind = sum(one.why in (COULD_NOT_LOOK, NOT_KNOWN) for one in skipped)
    live = len(skipped) - absent - blind
    return [
        *([f"{live} {'needs' if live == 1 else 'need'} a live node"] if live else []),
        *([f"{absent} {'is' if absent == 1 else 'are'} not in this copy"] if absent else []),
        *([f"{blind} could not look"] if blind else []),
    ]
