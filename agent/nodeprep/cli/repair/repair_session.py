"""One repair of a node by hand: plan, proof, play, look again, until nothing new is to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import uuid4

from nodeprep.cli.repair import repair_page
from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.config import remedy_files
from nodeprep.decide import repair_plan
from nodeprep.decide.idleness import Idleness
from nodeprep.decide.remediator_limits import RefusedRun, RunRefusal
from nodeprep.decide.remedy_arguments import InvalidArgument
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_plan import PlanTerms, RefusalReason, RefusedRemedy, RepairPlan, RepairStep, StepKey
from nodeprep.decide.repair_policy import PlayDeadlines
from nodeprep.doors import clock
from nodeprep.doors.node_host import Host
from nodeprep.model import Finding, Report
from nodeprep.repair import host_tools, machine_names, remedy_act
from nodeprep.repair.remedy_act import OwnRunner, RemedyAct, RemedyRunner
from nodeprep.repair.repair_history import BEGAN, INTERRUPTED, REFUSED, RepairHistory, RepairRecord
from nodeprep.repair.repair_lock import RepairLock
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine, TaskResult
from nodeprep.values import Struct, Value, field, replace

ROUNDS = 8  # of plans: a module, a driver, an RDMA link, an interface; more would be a circle
LOOK_PERIOD_SECONDS = 1.0  # between two looks that wait for a pass
IDLE_PERIOD_SECONDS = 2.0  # between two proofs of --wait-idle
REFUSALS = {
    RunRefusal.CLASS: RefusalReason.CLASS,
    RunRefusal.ARGUMENT: RefusalReason.ARGUMENT,
    RunRefusal.MISSING_TOOL: RefusalReason.MISSING_TOOL,
    RunRefusal.IN_USE: RefusalReason.IN_USE,
    RunRefusal.DOUBT: RefusalReason.DOUBT,
}


class SessionTerms(Value):
    """What a session may do. `checks` are those to mend, None for all.

    `wait_idle` is how long to wait for what is in use, `recheck` for the passes after a play; both in seconds.
    `ignored` are the daemons of `idle.ignore`: who only watches a device does not use it. `lock` is that of the node,
    which a play holds too. `deadlines` are those of `repair.deadline`, as for the agent.
    """

    command: str
    checks: frozenset[str] | None
    limit: SafetyClass
    dry_run: bool = False
    wait_idle: float = 0.0
    recheck: float = 15.0
    ignored: tuple[str, ...] = ()
    lock: RepairLock | None = None
    deadlines: PlayDeadlines = field(default_factory=PlayDeadlines)


class SessionEnd(Struct):
    """What happened: the steps that ran, and what was refused.

    `failed`: a play ended badly. `doubted`: a proof was impossible. `declined`: the operator did not agree. `left` are
    the processes that sleep in the kernel: nothing runs beside them.
    """

    ran: list[RepairStep] = field(default_factory=list)
    refusals: list[RefusedRemedy] = field(default_factory=list)
    failed: bool = False
    doubted: bool = False
    declined: bool = False
    left: tuple[str, ...] = ()


class RepairDialogue(Value):
    """How a session talks: `say` prints lines, `agree` asks whether a plan may run."""

    say: Callable[[Iterable[str]], object]
    agree: Callable[[RepairPlan], bool]
    style: PageStyle


class RepairSession:
    """Mends one node, with the lock held by its caller. `look` looks at the node and judges it.

    `runner` runs the remedies, by default this process.
    """

    def __init__(
        self,
        look: Callable[[], Report],
        host: Host,
        history: RepairHistory,
        terms: SessionTerms,
        dialogue: RepairDialogue,
        *,
        runner: RemedyRunner | None = None,
    ) -> None:
        self._look, self._host, self._history, self._terms = look, host, history, terms
        self._runner = runner or OwnRunner(host)
        self._dialogue, self._style = dialogue, dialogue.style
        self._tried: set[StepKey] = set()
        self._attempts: dict[StepKey, RepairRecord] = {}
        self.end = SessionEnd()
        self.report = look()

    def run(self) -> Report:
        """Mend what can be mended. Returns the last report. Raises OSError where the history cannot be kept."""
        for _ in range(ROUNDS):
            plan = self._plan()
            fresh = [one for one in plan.refusals if one not in self.end.refusals]
            told = repair_page.plan(replace(plan, refusals=tuple(fresh)), self._style, before=len(self._tried))
            self._say(["", *told] if told and self._tried else told)
            self.end.refusals += fresh
            if not plan.steps:
                break
            if not all(step.header.is_act for step in plan.steps):
                self._runner.require_ansible()
            if not self._dialogue.agree(plan):
                self.end.declined = True
                break
            ran = [pair for step in plan.steps if not self.end.left and (pair := self._mended(step)) is not None]
            if self._terms.dry_run or not ran:
                break
            self._look_again(ran)
            if self.end.left:
                self._say(repair_page.not_run([one for one in plan.steps if one.key not in self._tried], self._style))
                break
        return self.report

    def _say(self, lines: Iterable[str]) -> None:
        self._dialogue.say(lines)

    def _plan(self) -> RepairPlan:
        headers = remedy_files.headers()
        tools = host_tools.found(tool for one in headers.values() for tool in one.tools)
        names = machine_names.observe(self._host)
        terms = self._terms
        return repair_plan.plan(
            self.report, PlanTerms(headers, names, terms.limit, tools, terms.checks, frozenset(self._tried))
        )

    def _mended(self, step: RepairStep) -> tuple[RepairStep, RunOutcome] | None:
        """Prove that a step may run, and run it. None if it did not begin."""
        self._tried.add(step.key)
        self._say(repair_page.begins(step, len(self._tried), self._style))
        refused = self._refusal(step)
        if refused is not None:
            self.end.refusals.append(refused)
            if not self._terms.dry_run:
                self._history.add(self._record(step, uuid4().hex, REFUSED, why=refused.why))
            return None
        outcome = self._played(step)
        if outcome is None:
            return None
        self.end.ran.append(step)
        self.end.failed = self.end.failed or outcome.end is not RunEnd.DONE or bool(outcome.left)
        return step, outcome

    def _refusal(self, step: RepairStep) -> RefusedRemedy | None:
        """Why a step must not run at this moment, which is also told; None if it may."""
        check, name = step.findings[0].check, step.header.name
        try:  # an earlier step may have changed the names
            remedy_act.hold_arguments(self._host, step.header, step.args)
        except InvalidArgument as error:
            refused = RefusedRemedy(check, name, RefusalReason.ARGUMENT, str(error))
            self._say(repair_page.refused([refused], self._style))
            return refused
        idle = self._idleness(step)
        if idle.is_idle:
            return None
        self._say(repair_page.held(idle, self._style))
        self.end.doubted = self.end.doubted or not idle.holders
        reason = RefusalReason.IN_USE if idle.holders else RefusalReason.DOUBT
        return RefusedRemedy(check, name, reason, "; ".join(idle.words()))

    def _idleness(self, step: RepairStep) -> Idleness:
        """Who uses what must be unused, at this moment; with --wait-idle, when nobody does or the time is over."""
        until = clock.now() + (0.0 if self._terms.dry_run else self._terms.wait_idle)
        told: tuple[str, ...] = ()
        while True:
            found = remedy_act.idle(self._host, step.header, step.args, self._terms.ignored)
            if found.is_idle or not found.holders or clock.now() >= until:  # no time mends a doubt
                return found
            if found.words() != told:
                told = found.words()
                self._say(repair_page.waits(found, self._style))
            clock.sleep(IDLE_PERIOD_SECONDS)

    def _played(self, step: RepairStep) -> RunOutcome | None:
        """Run it and keep that. None where the remediator refused it."""
        attempt, is_dry = uuid4().hex, self._terms.dry_run
        if not is_dry:
            self._history.add(self._record(step, attempt, BEGAN))
        try:
            outcome = self._outcome(step, attempt)
        except RefusedRun as refused:
            self._refused(step, refused)
            if not is_dry:
                self._history.add(self._record(step, attempt, REFUSED, why=str(refused)))
            return None
        except KeyboardInterrupt as stopped:
            left = tuple(map(str, stopped.args))  # `playbook_run.run`
            self._leave(left)
            if not is_dry:
                why = f"cannot be ended: {', '.join(left)}" if left else "what ran was ended"
                self._history.add(self._record(step, attempt, INTERRUPTED, why=f"Ctrl-C or SIGTERM; {why}"))
            raise
        self._leave(outcome.left)
        self._say(repair_page.ended(outcome, self._style, dry_run=is_dry))
        if not is_dry:
            self._attempts[step.key] = self._record(step, attempt, outcome.end, outcome=outcome)
            self._history.add(self._attempts[step.key])
        return outcome

    def _leave(self, left: tuple[str, ...]) -> None:
        """What sleeps in the kernel holds the lock from now on, and nothing runs beside it."""
        self.end.left = left
        if left and self._terms.lock is not None:
            self._terms.lock.leave(left)

    def _refused(self, step: RepairStep, refused: RefusedRun) -> None:
        """Tell what the remediator refuses, by the word that we would have for it."""
        reason = REFUSALS.get(refused.reason, RefusalReason.REMEDIATOR)
        told = RefusedRemedy(step.findings[0].check, step.header.name, reason, str(refused))
        self.end.refusals.append(told)
        self.end.doubted = self.end.doubted or reason is RefusalReason.DOUBT
        self._say(repair_page.refused([told], self._style))

    def _outcome(self, step: RepairStep, attempt: str) -> RunOutcome:
        """Run it. Each task that ends is told. One that failed ends the play, and is told there with its reason."""
        seconds = self._terms.deadlines.of(step.header.safety)

        def say(line: TaskLine) -> None:
            if line.result is not TaskResult.FAILED:
                self._say(repair_page.task(line, self._style))

        lock = self._terms.lock
        held = () if lock is None else (lock.descriptor,)
        act = RemedyAct(step.header, step.args, seconds, self._terms.dry_run, attempt, held=held)
        return self._runner.run(act, say)

    def _record(
        self, step: RepairStep, attempt: str, state: str, *, why: str = "", outcome: RunOutcome | None = None
    ) -> RepairRecord:
        record = RepairRecord(
            attempt,
            clock.wall(),
            self._host.boot_id(),
            self._terms.command,
            step.header.name,
            state,
            dict(step.args),
            tuple(dict.fromkeys(finding.check for finding in step.findings)),
            why=why,
        )
        if outcome is None:
            return record
        return replace(record, changed=outcome.changed, seconds=outcome.seconds, why=outcome.message)

    def _look_again(self, ran: list[tuple[RepairStep, RunOutcome]]) -> None:
        """Look until what was mended passes, or the time is over. A play's word is no proof."""
        until = clock.now() + self._terms.recheck
        while True:
            self.report = self._look()
            failing = [(step, outcome, self._still(step)) for step, outcome in ran]
            if not any(found for _, _, found in failing) or clock.now() >= until:
                break
            clock.sleep(LOOK_PERIOD_SECONDS)
        for step, outcome, found in failing:
            if found:
                self.end.failed = True
                still = tuple(dict.fromkeys(one.check for one in found))
                self._history.add(replace(self._attempts[step.key], at=clock.wall(), still=still))
            if found and outcome.end is RunEnd.DONE:
                self._say(repair_page.still(step, found, outcome, self._style))

    def _still(self, step: RepairStep) -> tuple[Finding, ...]:
        """The findings of the step that stand as they were: the same check, subject and reason."""
        before = {(one.check, one.subject, one.verdict.reason) for one in step.findings}
        return tuple(
            one
            for one in repair_page.left(self.report.findings)
            if (one.check, one.subject, one.verdict.reason) in before
        )
