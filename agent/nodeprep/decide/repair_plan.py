"""Which remedies a report asks for, in which order, and which of them are refused before anything is done.

Findings stand in the operator's order, in which a cause comes before what follows from it. A finding that follows from
another has no step: when its cause is mended it may be gone, and the next look shows whether it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.decide import remedy_arguments
from nodeprep.decide.remedy_arguments import InvalidArgument, MachineNames
from nodeprep.decide.remedy_header import RemedyHeader, SafetyClass
from nodeprep.model import Finding, Remedy, Report, Status
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value

# Remedies that checks name and that have no file yet, each with its reason.
UNBUILT_REMEDIES: Mapping[str, str] = {
    "erdma_install": "it needs a mirror of the driver's packages, their checksum and an approval (S3); do it by hand",
}
StepKey = tuple[str, tuple[tuple[str, str], ...]]  # the name of a remedy and its arguments
MENDED = (Status.FAIL, Status.WARN)


class RefusalReason(StrEnum):
    """Why a remedy does not run. A closed set: history and metrics count by it."""

    NOT_BUILT = "not-built"
    CLASS = "class"
    ARGUMENT = "argument"
    MISSING_TOOL = "missing-tool"
    IN_USE = "in-use"
    DOUBT = "doubt"
    FOLLOWS = "follows"
    NO_REMEDY = "no-remedy"
    REMEDIATOR = "remediator"  # its limits, or something else repairs; it says which


class RepairStep(Value):
    """One remedy with its arguments, and the findings that it should mend."""

    header: RemedyHeader
    args: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def key(self) -> StepKey:
        """What makes it the same step again."""
        return self.header.name, tuple(sorted(self.args.items()))

    @property
    def label(self) -> str:
        """As `link_up(interface=eth0)`, and `terway_restart` without arguments."""
        args = ", ".join(f"{name}={value}" for name, value in sorted(self.args.items()))
        return f"{self.header.name}({args})" if args else self.header.name


class RefusedRemedy(Value):
    """A remedy, or a finding without one, that does not run: which check asks, the word, and why in one line."""

    check: str
    remedy: str
    reason: RefusalReason
    why: str


class RepairPlan(Value):
    """What would run, in this order, and what would not."""

    steps: tuple[RepairStep, ...] = ()
    refusals: tuple[RefusedRemedy, ...] = ()


class PlanTerms(Value):
    """What a plan is made with: all headers by name, the machine's names, the highest class, the programs there are.

    `checks` are those to mend, None for all. `done` are the keys of steps that ran already: none runs twice.
    """

    headers: Mapping[str, RemedyHeader]
    machine: MachineNames
    limit: SafetyClass
    tools: frozenset[str]
    checks: frozenset[str] | None = None
    done: frozenset[StepKey] = frozenset()


def plan(report: Report, terms: PlanTerms) -> RepairPlan:
    """The remedies of all findings that count, each once."""
    steps: dict[object, RepairStep] = {}
    refusals: list[RefusedRemedy] = []
    for finding in _asked(report.findings, terms):
        made = _step(finding, terms)
        if isinstance(made, RefusedRemedy):
            refusals += [made] if made not in refusals else []
        elif made.key in steps:
            known = steps[made.key]
            steps[made.key] = RepairStep(known.header, known.args, (*known.findings, finding))
        elif made.key not in terms.done:
            steps[made.key] = made
    return RepairPlan(tuple(steps.values()), tuple(refusals))


def _asked(findings: Iterable[Finding], terms: PlanTerms) -> Iterable[Finding]:
    """The findings to mend. Without names, those that have no remedy or follow from others are left out in silence."""
    for finding in findings:
        if finding.waived is not None or finding.status not in MENDED:
            continue
        if terms.checks is None:
            if finding.root is None and finding.verdict.remedy is not None:
                yield finding
        elif finding.check in terms.checks:
            yield finding


def _step(finding: Finding, terms: PlanTerms) -> RepairStep | RefusedRemedy:
    remedy, check = finding.verdict.remedy, finding.check
    if finding.root is not None:
        why = f"{check} follows from {finding.root} here: nodeprep repair {finding.root}"
        return RefusedRemedy(check, "", RefusalReason.FOLLOWS, why)
    if remedy is None:
        return RefusedRemedy(check, "", RefusalReason.NO_REMEDY, f"no remedy of ours mends this: {finding.fix}")
    header = terms.headers.get(remedy.playbook)
    if header is None:
        why = UNBUILT_REMEDIES.get(remedy.playbook, "this installation has no such playbook")
        return RefusedRemedy(check, remedy.playbook, RefusalReason.NOT_BUILT, why)
    return _refused(check, header, remedy, terms) or RepairStep(header, dict(remedy.args), (finding,))


def unapprovable(remedy: str, headers: Mapping[str, RemedyHeader]) -> str:
    """Why no approval makes sense for a remedy, "" if it runs only after one. `headers` are those that there are."""
    header = headers.get(remedy)
    third = ", ".join(sorted(name for name, one in headers.items() if one.safety is SafetyClass.S3)) or "there is none"
    if header is None:
        why = UNBUILT_REMEDIES.get(remedy)
        return f"{remedy} is not built: {why}" if why else f"found {remedy!r}, wanted a remedy of class S3: {third}"
    if header.safety in (SafetyClass.S1, SafetyClass.S2):
        return f"{remedy} is of class {header.safety} and needs no approval; one of class S3 does: {third}"
    if header.safety is not SafetyClass.S3:
        return f"{remedy} is of class {header.safety}, which is for a human, approved or not: {header.why}"
    return ""


def _refused(check: str, header: RemedyHeader, remedy: Remedy, terms: PlanTerms) -> RefusedRemedy | None:
    if header.safety is SafetyClass.S4:
        return RefusedRemedy(
            check, header.name, RefusalReason.CLASS, f"it is of class S4, which is for a human: {header.why}"
        )
    if header.safety.is_above(terms.limit):
        why = f"it is of class {header.safety}, and --max-class is {terms.limit}: {header.why}"
        return RefusedRemedy(check, header.name, RefusalReason.CLASS, why)
    lacking = [tool for tool in header.tools if tool not in terms.tools]
    if lacking:
        why = f"this host has no {' and no '.join(lacking)}: install it"
        return RefusedRemedy(check, header.name, RefusalReason.MISSING_TOOL, why)
    try:
        remedy_arguments.resolve(header, remedy.args, terms.machine)
    except InvalidArgument as error:
        return RefusedRemedy(check, header.name, RefusalReason.ARGUMENT, str(error))
    return None
