"""`nodeprep provision` and `nodeprep repair`: mend this host by hand, with our own checks as the proof."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from nodeprep.checks import IDS
from nodeprep.cli import duration, place, terminal, usage
from nodeprep.cli.check import check_command, check_selection
from nodeprep.cli.check.check_command import CheckOptions
from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.cli.repair.repair_session import RepairDialogue, RepairSession, SessionEnd, SessionTerms
from nodeprep.cli.usage import UsageError
from nodeprep.config.configuration import Settings
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_plan import RefusalReason, RepairPlan
from nodeprep.doors import own_namespaces
from nodeprep.model import Finding, Report, Status
from nodeprep.repair import remediator_client
from nodeprep.repair.playbook_run import AnsibleMissing
from nodeprep.repair.remediator_client import NoRemediator, RemediatorClient
from nodeprep.repair.repair_history import RepairHistory
from nodeprep.repair.repair_lock import RepairLock, RepairUnderWay
from nodeprep.values import Value, replace

DIRECTORY, DIRECTORY_VARIABLE = "/var/lib/nodeprep-repair", "NODEPREP_REPAIR_DIR"
VIA = "via-remediator"
DONE, FAILED, IN_DOUBT, INTERRUPTED = 0, 1, 3, 130
# A process of the node: a rig whose node lives in namespaces names one (docs/architecture.md).
NODE_PROCESS = "NODEPREP_NODE_PROCESS"
YES = ("y", "yes")


class RepairOptions(Value):
    """The options of `provision` and `repair`, as they were typed. `checks` are ids, families or globs; empty: all."""

    command: str
    check: CheckOptions
    checks: tuple[str, ...] = ()
    dry_run: bool = False
    yes: bool = False
    max_class: SafetyClass = SafetyClass.S2
    wait_idle: str = "0"
    recheck: str = "15"
    via_remediator: bool = False


def directory() -> str:
    """Where the history and the lock of repairs are."""
    return os.environ.get(DIRECTORY_VARIABLE) or DIRECTORY


def run(asked: RepairOptions) -> int:
    """Mend and print; returns the exit code. Raises UsageError."""
    require_host(asked.command, asks=not (asked.yes or asked.dry_run))
    remediator = _remediator(asked)
    watch, writer = check_command.watched(asked.check, 1.0)
    terms = session_terms(asked, watch.assessment.settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what runs is ended and told, as for Ctrl-C
    style = PageStyle(terminal.width(), terminal.colourful(asked.check.no_color))
    dialogue = RepairDialogue(_say, partial(_agrees, asked), style)
    host = place.place(None, None, asked.check.cluster).host()
    try:
        with _lock(asked) as held, usage.usage():
            terms = replace(terms, lock=held)
            session = RepairSession(watch.report, host, RepairHistory(directory()), terms, dialogue, runner=remediator)
            report = session.run()
    except KeyboardInterrupt:
        terminal.complain(f"nodeprep {asked.command}: interrupted; nodeprep repair history tells what was under way")
        return INTERRUPTED
    except AnsibleMissing as missing:
        raise UsageError(f"nodeprep {asked.command}: {missing}") from missing
    except RepairUnderWay as busy:
        terminal.complain(f"nodeprep {asked.command}: {busy}")
        return FAILED
    except OSError as error:
        raise UsageError(_unwritable(error)) from error
    return ended(asked, terms, session.end, report, writer)


def _remediator(asked: RepairOptions) -> RemediatorClient | None:
    """The one of this node, where it is to run the remedies. Raises UsageError where none of our version answers."""
    if not asked.via_remediator:
        return None
    client = RemediatorClient(remediator_client.socket_path())
    try:
        client.require()
    except NoRemediator as none:
        raise UsageError(f"nodeprep {asked.command} --{VIA}: {none}") from none
    return client


def _lock(asked: RepairOptions) -> AbstractContextManager[RepairLock | None]:
    """What keeps a second repair away. The node's own lock is the remediator's, where that one repairs."""
    if asked.dry_run:
        return nullcontext()
    if asked.via_remediator:
        Path(directory()).mkdir(0o700, parents=True, exist_ok=True)
        return RepairLock(f"{directory()}/{VIA}", f"nodeprep {asked.command} --{VIA}")
    return RepairLock(directory(), f"nodeprep {asked.command}")


def _unwritable(error: OSError) -> str:
    """Why nothing more was done: the history or the private directory of a playbook could not be written."""
    path = str(error.filename or "")
    if path.startswith(directory()):
        return (
            f"{path}: {error.strerror}; wanted a place for the history of repairs: nothing is changed without a trace"
        )
    return f"{path or tempfile.gettempdir()}: {error.strerror}; wanted room for the files of a playbook"


def session_terms(asked: RepairOptions, settings: Settings) -> SessionTerms:
    """What a session may do by these options and this configuration. Raises UsageError."""
    checks = frozenset(check_selection.select(IDS, asked.checks, (), "repair")[0]) if asked.checks else None
    return SessionTerms(
        asked.command,
        checks,
        asked.max_class,
        asked.dry_run,
        duration.seconds("--wait-idle", asked.wait_idle),
        duration.seconds("--recheck", asked.recheck),
        settings.idle.ignore,
        deadlines=settings.agent.repair.deadline,
    )


def require_host(command: str, *, asks: bool) -> None:
    """Raise UsageError where we cannot change this host: not root, not on the host itself, nobody to ask."""
    if os.geteuid() != 0:
        raise UsageError(f"nodeprep {command}: found user {os.geteuid()}, wanted root: sudo nodeprep ...")
    away = own_namespaces.elsewhere(os.environ.get(NODE_PROCESS, "1"))
    if away:
        raise UsageError(
            f"nodeprep {command}: runs in {away}; wanted the host itself: where a pod or container shares the "
            f"host's PIDs, nsenter --target 1 --mount --net -- nodeprep {command}"
        )
    if asks and (sys.stdout is None or sys.stdin is None or not sys.stdin.isatty()):
        raise UsageError(f"nodeprep {command}: stdin is no terminal, so nobody can be asked: wanted --yes")


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        terminal.put(line)


def _agrees(asked: RepairOptions, plan: RepairPlan) -> bool:
    if asked.yes or asked.dry_run:
        return True
    count = "this remedy" if len(plan.steps) == 1 else f"these {len(plan.steps)} remedies"
    return says_yes(f"Run {count}?")


def says_yes(question: str) -> bool:
    """What the person at the terminal answers."""
    sys.stdout.write(f"\n{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in YES


def ended(
    asked: RepairOptions, terms: SessionTerms, end: SessionEnd, report: Report, writer: Callable[[Report], int]
) -> int:
    """Print the verdict of our own checks; returns the exit code. `writer` prints a whole report and returns its code.

    A check that followed from a mended one was not refused.
    """
    refused = [one for one in end.refusals if one.reason is not RefusalReason.FOLLOWS]
    if asked.dry_run and (end.ran or end.refusals):
        return FAILED if refused or end.failed else DONE
    if end.declined and not end.ran:
        terminal.put("nothing was done: you did not agree")
        return FAILED
    if not end.ran and not end.refusals:
        terminal.put("nothing to do: no finding has a remedy of ours")
    if asked.dry_run:
        return DONE
    terminal.put("")
    code = writer(report) if terms.checks is None else _of_checks(terms.checks, report)
    if end.doubted and not end.ran:
        return IN_DOUBT
    return DONE if code == 0 and not (end.declined or end.failed or refused) else FAILED


def _of_checks(checks: frozenset[str], report: Report) -> int:
    """What each check that was to be mended says now, one line for a fault. A consequence is a fault too."""
    said: dict[str, list[Finding]] = {check: [] for check in IDS if check in checks}
    for one in report.findings:
        if one.check in said and one.waived is None:
            said[one.check].append(one)
    why = {one.check: one.why for one in report.skipped}
    code = DONE
    for check, findings in said.items():
        bad = [one for one in findings if one.status not in (Status.OK, Status.ABSENT)]
        for one in bad:
            words = f"{one.verdict.reason}: {terminal.clean(one.verdict.message)}"
            terminal.put(f"{one.status.upper()} {check}: {words}")
        if check in why and not findings:
            terminal.put(f"NOT RUN {check}: {why[check]}")
        elif not bad:
            terminal.put(f"OK {check}" if any(one.status is Status.OK for one in findings) else f"ABSENT {check}")
        code = FAILED if bad or check in why else code
    return code
