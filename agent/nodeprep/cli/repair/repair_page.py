"""What `provision` and `repair` say: the plan, each step as it runs, and what they ended with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodeprep.cli import terminal
from nodeprep.cli.page_layout import Page, Paint
from nodeprep.decide.idleness import Idleness
from nodeprep.decide.repair_plan import RefusedRemedy, RepairPlan, RepairStep
from nodeprep.model import Finding, Status
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine, TaskResult
from nodeprep.values import Value

TASK_PAINTS = {TaskResult.CHANGED: Paint.DOUBT, TaskResult.FAILED: Paint.BAD, TaskResult.OK: Paint.GOOD}


class PageStyle(Value):
    """Columns, and whether there is colour."""

    width: int = 80
    colour: bool = False

    def page(self) -> Page:
        return Page(self.width, self.colour)


def plan(found: RepairPlan, style: PageStyle, *, before: int = 0) -> list[str]:
    """The steps with what they mend, and what is refused. `before` steps ran in earlier rounds."""
    page = style.page()
    for number, step in enumerate(found.steps, before + 1):
        page.item("plan", f"{number}. {step.label}  class {step.header.safety}")
        page.item("", step.header.purpose)
        for finding in step.findings:
            page.item("", f"{finding.check}: {finding.verdict.message}", bullet=True)
    _refused(page, found.refusals)
    return page.lines


def _refused(page: Page, refusals: Iterable[RefusedRemedy]) -> None:
    for one in refusals:
        about = f"{one.remedy} for {one.check}" if one.remedy else one.check
        page.item("refused", f"{about}: {one.why}", paint=Paint.DOUBT)


def refused(refusals: Iterable[RefusedRemedy], style: PageStyle) -> list[str]:
    page = style.page()
    _refused(page, refusals)
    return page.lines


def begins(step: RepairStep, number: int, style: PageStyle) -> list[str]:
    page = style.page()
    page.item(f"step {number}", step.label, paint=Paint.STRONG)
    return ["", *page.lines]


def task(line: TaskLine, style: PageStyle) -> list[str]:
    """One task of a playbook, as it ended."""
    page = style.page()
    page.item(line.result, line.task, indent=2, paint=TASK_PAINTS.get(line.result, Paint.PLAIN))
    return page.lines


def ended(outcome: RunOutcome, style: PageStyle, *, dry_run: bool = False) -> list[str]:
    """How a play ended, with its reason where it did not end well; of a dry run, what it would change."""
    page = style.page()
    if outcome.end is RunEnd.DONE:
        count = f"{outcome.changed} {'would change' if dry_run else 'changed'}" if outcome.changed else ""
        page.item("done", f"{count or 'nothing to change'}, {outcome.seconds:.1f} s", indent=2, paint=Paint.GOOD)
        _left(outcome, page)
        changes = (line for one in outcome.diffs for line in one.text.splitlines())
        return [*page.lines, *(f"    {terminal.clean(line)}" for line in changes)]
    where = f"{outcome.failed_task}: " if outcome.failed_task else ""
    page.item(outcome.end, f"{where}{outcome.message}", indent=2, paint=Paint.BAD)
    _left(outcome, page)
    return page.lines


def _left(outcome: RunOutcome, page: Page) -> None:
    for one in outcome.left:
        page.item("", f"cannot be ended: {one}; it sleeps in the kernel", bullet=True)


def not_run(steps: Sequence[RepairStep], style: PageStyle) -> list[str]:
    """The steps that nobody begins beside what cannot be ended."""
    page = style.page()
    for one in steps:
        page.item("not run", f"{one.label}: nothing runs beside what sleeps in the kernel", paint=Paint.BAD)
    return ["", *page.lines] if steps else []


def waits(idleness: Idleness, style: PageStyle) -> list[str]:
    """For whom a step waits."""
    return _users("waits", "until nobody uses it:", idleness, style)


def held(idleness: Idleness, style: PageStyle) -> list[str]:
    """Who uses what the step needs unused."""
    return _users("in use" if idleness.holders else "unknown", "nothing was done:", idleness, style)


def _users(label: str, head: str, idleness: Idleness, style: PageStyle) -> list[str]:
    page = style.page()
    page.item(label, head, indent=2, paint=Paint.DOUBT)
    for line in idleness.words():
        page.item("", line, bullet=True)
    return page.lines


def still(step: RepairStep, findings: Iterable[Finding], outcome: RunOutcome, style: PageStyle) -> list[str]:
    """Both facts where a play ended well and the fault is there: the play's word is no proof."""
    page = style.page()
    for finding in findings:
        words = f"{step.header.name} ended with {outcome.changed} changed, and {finding.check} still says"
        page.item("still", f"{words} {finding.verdict.reason}: {finding.verdict.message}", paint=Paint.BAD)
        if finding.fix:
            page.item("by hand", finding.fix)
    return page.lines


def left(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that count and are no pass."""
    return tuple(one for one in findings if one.counts and one.status in (Status.FAIL, Status.WARN))
