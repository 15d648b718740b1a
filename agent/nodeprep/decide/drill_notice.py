"""What an agent is told of a drill, and which findings and cases are the drill's.

A drill makes a real fault. The agent treats it as one, and says beside it that somebody made it. `nodeprep drill`
writes the notice before it makes the fault and removes it afterwards (docs/adr/0045).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep.agent_state import Case
from nodeprep.model import SEVERAL, Finding, Report, Status, Subject
from nodeprep.values import Value, asdict, field_names, replace

NAMES_LIMIT = 256  # names, and findings of before; a node with sixteen rails has some 200 findings that are no pass
FAILING = (Status.FAIL, Status.WARN)


class DrillNotice(Value):
    """One drill. `name` is its kind ("link-down"), `device` what it was ordered for, as it was typed.

    `names` are what its device may be called in findings: interface, address, MAC, RDMA device. `before` are the check
    and the place of each finding that was no pass before. `began` and `until` are CLOCK_BOOTTIME seconds of the boot
    `boot_id`: from a second before the fault is made, to the latest end.
    """

    name: str
    device: str
    names: tuple[str, ...]
    boot_id: str
    began: float
    until: float
    before: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        return f"drill {self.name} of {self.device}"

    def holds(self, boot_id: str, now: float) -> bool:
        """Whether it is of this boot and not over. One that a killed drill left behind ends by itself."""
        return self.boot_id == boot_id and self.began <= now < self.until

    def concerns(self, check: str, subject: Subject) -> bool:
        """Whether a fault that appeared since then is the drill's: on its device, or a count that it is missing in."""
        if (check, subject.key) in self.before:
            return False
        return subject.place == SEVERAL.place or not subject.names.isdisjoint(self.names)


def made(notice: DrillNotice | None, finding: Finding) -> bool:
    """Whether a finding is the drill's."""
    return notice is not None and finding.status in FAILING and notice.concerns(finding.check, finding.subject)


def has_made(notice: DrillNotice | None, case: Case) -> bool:
    """Whether a case is the drill's. One that was open before it is not."""
    return notice is not None and case.opened_at >= notice.began and notice.concerns(case.check, case.subject)


def marked(findings: Iterable[Finding], notice: DrillNotice | None) -> tuple[Finding, ...]:
    """The findings, those of the drill with its name."""
    if notice is None:
        return tuple(findings)
    return tuple(replace(one, drill=notice.name) if made(notice, one) else one for one in findings)


def report(judged: Report, notice: DrillNotice | None) -> Report:
    """The report with the findings of the drill marked, and a note of it."""
    if notice is None:
        return judged
    note = f"{notice.words} runs now: somebody made that fault (nodeprep drill list)"
    return replace(judged, findings=marked(judged.findings, notice), notes=(*judged.notes, note))


def failing(findings: Iterable[Finding]) -> tuple[tuple[str, str], ...]:
    """The check and the place of each finding that is no pass, for `before`."""
    return tuple(dict.fromkeys((one.check, one.subject.key) for one in findings if one.status in FAILING))


def document(notice: DrillNotice) -> dict[str, Any]:
    """The notice as plain JSON."""
    return asdict(notice)


def parsed(content: object) -> DrillNotice | None:
    """The notice that JSON says; None if it says none. Fields of a newer version are left out."""
    if not isinstance(content, Mapping):
        return None
    known = {name: content.get(name) for name in field_names(DrillNotice)}
    names, before = _texts(known["names"]), known["before"]
    pairs = [_texts(one) for one in before] if isinstance(before, list) else None
    texts: list[Any] = [known[one] for one in ("name", "device", "boot_id")]
    times: list[Any] = [known[one] for one in ("began", "until")]
    if names is None or pairs is None or len(pairs) > NAMES_LIMIT or not all(one and len(one) == 2 for one in pairs):
        return None
    if not all(isinstance(one, str) and one for one in texts) or not all(type(one) in (int, float) for one in times):
        return None
    return DrillNotice(
        texts[0],
        texts[1],
        names,
        texts[2],
        float(times[0]),
        float(times[1]),
        tuple((one[0], one[1]) for one in pairs if one),
    )


def _texts(given: object) -> tuple[str, ...] | None:
    """A list of texts; None if it is none or too long."""
    if not isinstance(given, list) or len(given) > NAMES_LIMIT or not all(isinstance(one, str) for one in given):
        return None
    return tuple(given)
