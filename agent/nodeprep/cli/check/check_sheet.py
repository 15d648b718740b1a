"""The description of a check, for `nodeprep explain`, `nodeprep list` and docs/checks.md."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from nodeprep.checks import CHECKS
from nodeprep.cli import page_layout, terminal
from nodeprep.cli.check import check_selection, json_report
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.page_layout import Page, Paint
from nodeprep.decide.repair_plan import UNBUILT_REMEDIES
from nodeprep.model import EVERYWHERE, Check, Confirmation, Reason, Severity, Stage, Status, filled
from nodeprep.values import Value, field_defaults

SEVERITIES = {
    Severity.GATE: "may close the gate",
    Severity.WARN: "warns",
    Severity.INFO: "only tells",
}
STAGES = {
    Stage.DEVICE: "needs no device plugin",
    Stage.NODE: "looks at what plugins and Kubernetes advertise",
}
# Design 3.2 in words, with the default numbers; the agent's configuration may set others.
CONFIRMATIONS = {
    Confirmation.FAST: "convicts after 2 fresh looks at least 0.5 s apart",
    Confirmation.RECORDS: "convicts after 2 fresh looks at least 15 s apart",
    Confirmation.SLOW: "convicts after 3 of 5 fresh looks over 60 s",
    Confirmation.LATCHED: "convicts at once and holds until reboot, new probe or reset",
}


class WantNumber(Value):
    """A number that an operator may set: its key in YAML, its default, and its meaning."""

    key: str
    default: str
    about: str


def list_all(form: ListFormat) -> int:
    """`nodeprep list`."""
    if form is ListFormat.JSON:
        terminal.put(json_report.text([_listed(check) for check in CHECKS.values()]))
        return 0
    rows = [(check.id, str(check.severity), str(check.stage), check.question) for check in CHECKS.values()]
    terminal.put("\n".join(page_layout.columns([("CHECK", "SEVERITY", "STAGE", "QUESTION"), *rows])))
    return 0


def explain(wanted: str, no_color: bool) -> int:
    """`nodeprep explain` of a check, a family or a reason. Raises UsageError."""
    width, colour = terminal.width(), terminal.colourful(no_color)
    several = [] if wanted in CHECKS else family_rows(wanted) or reason_sheet(wanted, width, colour)
    terminal.put("\n".join(several or sheet(check_selection.find(CHECKS, wanted), width, colour)))
    return 0


def family_rows(family: str) -> list[str]:
    """The checks of a family with their questions; none if there is no such family."""
    of = (check for check in CHECKS.values() if check.id.partition(".")[0] == family)
    rows: list[tuple[str, ...]] = [(check.id, check.question) for check in of]
    return page_layout.columns(rows) if rows else []


def reason_sheet(name: str, width: int, colour: bool = False) -> list[str]:
    """Each check that says a reason, with its status and what to do; nothing if none says it."""
    page = Page(width, colour)
    for check in CHECKS.values():
        for reason in check.reasons:
            if reason.name == name:
                _says(page, check.id, reason.status, filled(check.advice(name, reason.status)))
    for reason in EVERYWHERE:
        if reason.name == name:
            _says(page, "any check", reason.status, filled(reason.fix))
    return page.lines


def _says(page: Page, who: str, status: Status, fix: str) -> None:
    page.gap()
    page.say(f"{who}: {status}", Paint.STRONG)
    if fix:
        page.item("fix", fix)


def needs(check: Check) -> tuple[str, ...]:
    """The facts that it needs to run, by the names of their modules."""
    return tuple(_fact(kind) for kind in check.needs)


def uses(check: Check) -> tuple[str, ...]:
    """The facts that it also reads if the node shows them."""
    return tuple(_fact(kind) for kind in check.uses)


def _fact(kind: type) -> str:
    return kind.__module__.rpartition(".")[2]


def numbers(check: Check) -> tuple[WantNumber, ...]:
    """The numbers that its Want declares, each with its meaning."""
    if check.want is None:
        return ()
    hints = get_type_hints(check.want, include_extras=True)
    return tuple(
        WantNumber(name.replace("_", "-"), _said(value), " ".join(getattr(hints[name], "__metadata__", ())))
        for name, value in field_defaults(check.want).items()
    )


def about_numbers(check: Check) -> tuple[str, ...]:
    """The docstring of its Want, by paragraph."""
    told = inspect.getdoc(check.want) or "" if check.want else ""
    return tuple(" ".join(paragraph.split()) for paragraph in told.split("\n\n") if paragraph)


def _said(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case () | {}:
            return "none"
        case tuple():
            return f"[{', '.join(map(str, value))}]"
        case float():
            return f"{value:g}"
        case None:
            return "unset"
        case _:
            return str(value)


def _listed(check: Check) -> dict[str, Any]:
    """One entry of `list -o json`."""
    return {
        "id": check.id,
        "question": check.question,
        "severity": str(check.severity),
        "stage": str(check.stage),
        "confirmation": str(check.confirmation),
        "needs": list(needs(check)),
        "after": list(check.after),
        "remedies": list(check.remedies),
        "reasons": [
            {"reason": one.name, "status": str(one.status), "fix": filled(check.advice(one.name, one.status))}
            for one in check.reasons
        ],
    }


def sheet(check: Check, width: int, colour: bool = False) -> list[str]:
    """The page of a check, as `nodeprep explain` prints it."""
    page = Page(width, colour)
    page.say(f"{check.id}: {check.question}", Paint.STRONG)
    page.gap()
    page.item("why", check.why)
    page.item("fix", filled(check.fix))
    page.item("severity", f"{check.severity}: {SEVERITIES[check.severity]}")
    page.item("stage", f"{check.stage}: {STAGES[check.stage]}")
    page.item("confirmation", f"{check.confirmation}: the agent {CONFIRMATIONS[check.confirmation]}")
    page.item("needs", looks(check))
    if check.after:
        page.item("after", f"{', '.join(check.after)}: if one of these fails on the same device, this follows from it")
    page.item("repair", repair(check, "{}".format))
    for index, reason in enumerate(check.reasons):
        page.item("" if index else "reasons", told(reason), bullet=True)
    for index, paragraph in enumerate(about_numbers(check)):
        page.item("" if index else "numbers", paragraph)
    for number in numbers(check):
        page.item("", f"{number.key}: {number.default} by default; {number.about}".rstrip("; "))
    page.item("source", check.source)
    return page.lines


def told(reason: Reason) -> str:
    """A reason, its status and its own fix; placeholders are words in capitals."""
    return f"{reason.name} ({reason.status})" + (f": {filled(reason.fix)}" if reason.fix else "")


def repair(check: Check, shown: Callable[[str], str]) -> str:
    """Who mends its fault: which remedies `nodeprep repair` runs, which are planned. `shown` formats a name."""
    built = [shown(one) for one in check.remedies if one not in UNBUILT_REMEDIES]
    unbuilt = [shown(one) for one in check.remedies if one in UNBUILT_REMEDIES]
    planned = f"; planned: {', '.join(unbuilt)}" if unbuilt else ""
    if not built:
        return f"by a human, as the fix says{planned}"
    return f"nodeprep repair {check.id} ({', '.join(built)}), or by hand, as the fix says{planned}"


def looks(check: Check) -> str:
    """Which facts it needs, which others it reads, and whether it compares two looks."""
    besides = f"; looks at {', '.join(uses(check))} where shown" if check.uses else ""
    rates = "; compares two looks at a live node" if check.rates else ""
    return f"{', '.join(needs(check))}{besides}{rates}"
