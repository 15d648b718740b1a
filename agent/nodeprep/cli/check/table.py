"""A report for an operator: the verdict first, each fault once with what to do, and one line for what is fine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nodeprep.cli import page_layout
from nodeprep.cli.check import finding_groups, headline, outcome, unread
from nodeprep.cli.check.choices import FailOn
from nodeprep.cli.check.finding_groups import Group, UnreadableGroup
from nodeprep.cli.check.outcome import VerdictWord
from nodeprep.cli.page_layout import Page, Paint
from nodeprep.model import OTHER_PLATFORM, Finding, Report, Status
from nodeprep.values import Value, replace

FIXES_SHOWN = 4  # fixes of one fault that are printed in full: a person pastes them
CLAUSE = "; "  # between the clauses of a message
PAINTS = {
    VerdictWord.READY: Paint.GOOD,
    VerdictWord.NOT_READY: Paint.BAD,
    VerdictWord.UNKNOWN: Paint.DOUBT,
    VerdictWord.NOTHING: Paint.STRONG,
    VerdictWord.NO_FAULT: Paint.STRONG,
    VerdictWord.PASSED: Paint.GOOD,
    VerdictWord.NOT_JUDGED: Paint.DOUBT,
}


class Style(Value):
    """How a table is printed. `where` says what was looked at: a live node, a dead tree or a snapshot.

    `agent` describes the agent of the node, "" if there is none. `strict`: every gate of a copy has to be judged.
    `whole_width` are the columns that the rows of -o wide may take, None for as many as they need. `failing`: what is
    fine, absent or waived is left out.
    """

    where: str
    fail_on: FailOn = FailOn.FAIL
    width: int = 80
    colour: bool = False
    agent: str = ""
    strict: bool = False
    whole_width: int | None = None
    failing: bool = False


def table(report: Report, style: Style) -> list[str]:
    """The report as lines. Checks of a platform that this node is not of are counted and not named."""
    page = Page(style.width, style.colour)
    end = outcome.outcome(report, style.fail_on, strict=style.strict)
    page.say(headline.headline(report, end), PAINTS[end.word])
    report = _here(report)
    if end.word is VerdictWord.NOTHING and not report.notes and not _remarkable(report.findings):
        return page.lines
    _header(page, report, style)
    failing = finding_groups.faults(report.findings, Status.FAIL)
    warning = finding_groups.faults(report.findings, Status.WARN)
    loose = finding_groups.attach(failing, report.findings)
    for group in (*failing, *warning):
        _fault(page, group, report.findings)
    for blind in finding_groups.blinds(report.findings):
        _blind(page, blind)
    if style.failing:
        return page.lines
    _waived(page, report.findings, [finding for finding in loose if not finding.waived])
    _rest(page, report.findings)
    return page.lines


def _here(report: Report) -> Report:
    findings = tuple(one for one in report.findings if one.verdict.reason != OTHER_PLATFORM.name)
    return replace(report, findings=findings)


def _remarkable(findings: Iterable[Finding]) -> bool:
    return any(finding.status not in (Status.OK, Status.ABSENT) for finding in findings)


def _header(page: Page, report: Report, style: Style) -> None:
    page.gap()
    page.item("node", headline.listed(report.node or "<unnamed>", f"boot {report.boot_id}" if report.boot_id else ""))
    page.item("profile", headline.listed(report.profile, report.chosen_by))
    page.item("root", style.where)
    if style.agent:
        page.item("agent", style.agent)
    if report.skipped:
        page.item("not run", headline.not_run(report.skipped))
    for note in report.notes:
        page.item("note", note)


def _fault(page: Page, group: Group, findings: Iterable[Finding]) -> None:
    page.gap()
    status = group.findings[0].status
    reason = group.findings[0].verdict.reason
    among = {finding.subject.key for finding in findings if finding.check == group.check}
    of = f" ({len(group.findings)} of {len(among)})" if len(among) > 1 else ""
    page.item(status.upper(), f"{group.check}: {reason}{of}", paint=Paint.BAD if status is Status.FAIL else Paint.DOUBT)
    words = [f"{f'drill {one.drill}: ' if one.drill else ''}{told(one)}" for one in group.findings]
    shared = _shared(words)
    for one in words:
        page.item("", one.removesuffix(shared), bullet=len(words) > 1)
    if shared:
        page.item("", f"each: {shared.removeprefix(CLAUSE)}")
    fixes = list(dict.fromkeys(finding.fix for finding in group.findings))
    shown = fixes if len(fixes) <= FIXES_SHOWN else fixes[:1]
    for number, fix in enumerate(shown):
        page.item("" if number else "fix", fix, indent=0 if number else 2)
    if fixes[len(shown) :]:
        page.item("", f"the same for the {len(fixes) - 1} others")
    page.item("more", f"nodeprep explain {group.check}", indent=2)
    _consequences(page, group.consequences)


def _shared(words: list[str]) -> str:
    """The clauses with which all messages of several devices end: they are said once."""
    clauses = [one.split(CLAUSE) for one in words]
    count = 0
    while len(words) > 1 and all(len(one) > count + 1 for one in clauses) and _have_one(clauses, count):
        count += 1
    return "".join(f"{CLAUSE}{one}" for one in clauses[0][len(clauses[0]) - count :])


def _have_one(clauses: list[list[str]], place: int) -> bool:
    """Whether all have the same clause there, counted from the end."""
    return len({one[-1 - place] for one in clauses}) == 1


def told(finding: Finding) -> str:
    """The message, with the device, what was seen and what was wanted if the message does not name them."""
    verdict = finding.verdict
    words = verdict.message
    if finding.subject.place and not any(
        name and name in words for name in (verdict.subject.name, finding.subject.place)
    ):
        words = f"{verdict.subject.name}: {words}"
    if not _says(words, verdict.observed):
        words += f"; seen: {verdict.observed}"
    if not _says(words, verdict.expected):
        words += f"; wanted: {verdict.expected}"
    return words


def _says(words: str, value: str) -> bool:
    """Whether a message has a value; of "4: ACTIVE", the word is enough."""
    return value in words or value.rpartition(": ")[2] in words


def _blind(page: Page, blind: UnreadableGroup) -> None:
    page.gap()
    devices = dict.fromkeys(_where(finding) for finding in blind.findings if finding.subject.place)
    on = f" on {', '.join(devices)}" if len(devices) <= 2 and devices else f" on {len(devices)} devices"
    page.item("UNKNOWN", f"{', '.join(blind.checks)}{on if devices else ''}", paint=Paint.DOUBT)
    if not blind.blinds:
        page.item("", blind.findings[0].verdict.message)
        return
    first, *others = blind.blinds
    page.item("", f"{first.path}{f' and {len(others)} more like it' if others else ''}: {unread.unread(first)}")
    if unread.cure(first):
        page.item("fix", unread.cure(first), indent=2)
    page.item("more", f"nodeprep explain {blind.checks[0]}", indent=2)


def _where(finding: Finding) -> str:
    name, place = finding.subject.name, finding.subject.place
    return f"{name} at {place}" if ":" in place and place not in name else name


def _waived(page: Page, findings: tuple[Finding, ...], loose: Iterable[Finding]) -> None:
    for finding, consequences in finding_groups.waived(findings):
        page.gap()
        page.item("WAIVED", f"{finding.check}: {finding.verdict.reason}", paint=Paint.STRONG)
        page.item("", told(finding))
        waiver = finding.waived
        if waiver is not None:
            days = headline.number(waiver.days_left, "day")
            page.item("because", f"{waiver.reason} (until {waiver.until}, {days} left)", indent=2)
        _consequences(page, consequences)
    followers = Counter((finding.root, finding.check) for finding in loose)
    for (root, check), count in followers.items():
        page.item("", f"{check}: {headline.number(count, 'consequence')} of {root}")


def _consequences(page: Page, consequences: list[Finding]) -> None:
    if consequences:
        ids = dict.fromkeys(f"{finding.check} {finding.verdict.reason}" for finding in consequences)
        page.item("", f"and {headline.number(len(consequences), 'consequence')}: {', '.join(ids)}")


def _rest(page: Page, findings: tuple[Finding, ...]) -> None:
    """How many checks are fine; and how many found nothing of their kind here, so that nobody takes that for fine."""
    fine = Counter(check.partition(".")[0] for check in _fine(findings))
    absent = _absent(findings)
    if fine or absent:
        page.gap()
    if fine:
        families = ", ".join(f"{family} {count}" for family, count in fine.items())
        page.item("fine", f"{headline.number(fine.total(), 'check')}: {families}", paint=Paint.GOOD)
    if absent:
        page.item("absent", f"nothing here for {headline.number(absent, 'check')}; -o wide names them")


def _absent(findings: Iterable[Finding]) -> int:
    """How many checks found nothing to judge."""
    return sum({finding.check: finding.status is Status.ABSENT for finding in findings}.values())


def _fine(findings: Iterable[Finding]) -> list[str]:
    """The checks that passed on every device."""
    said: dict[str, set[Status]] = {}
    for finding in findings:
        said.setdefault(finding.check, set()).add(finding.status)
    return [check for check, statuses in said.items() if statuses == {Status.OK}]


def wide(report: Report, style: Style) -> list[str]:
    """The verdict, then every finding in a row with what was seen and wanted.

    On a terminal a row is as wide as that, and the longest cells are cut; in a pipe every cell is whole.
    """
    header = ("CHECK", "STATUS", "DEVICE", "REASON", "OBSERVED", "EXPECTED", "NOTE")
    shown = (one for one in _here(report).findings if not style.failing or finding_groups.is_bad(one))
    rows = page_layout.columns([header, *map(_row, shown)], style.whole_width)
    end = outcome.outcome(report, style.fail_on, strict=style.strict)
    page = Page(10_000, style.colour)
    page.say(headline.headline(report, end), PAINTS[end.word])
    return [*page.lines, "", *rows]


def _row(finding: Finding) -> tuple[str, ...]:
    verdict = finding.verdict
    subject = finding.subject
    device = subject.name if not subject.place or subject.place in subject.name else f"{subject.name}@{subject.place}"
    follows = f"follows from {finding.root}" if finding.root else ""
    waived = f"waived until {finding.waived.until}: {finding.waived.reason}" if finding.waived else ""
    blind = f"{verdict.blind.path}: {unread.unread(verdict.blind)}" if verdict.blind else ""
    drill = f"made by drill {finding.drill}" if finding.drill else ""
    note = "; ".join(filter(None, (drill, follows, waived, blind)))
    cells = (finding.check, finding.status, device, verdict.reason, verdict.observed, verdict.expected, note)
    return tuple(str(cell) or "<none>" for cell in cells)
