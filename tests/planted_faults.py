"""Proves that tests notice faults in what decides, publishes, repairs and asks the system: `make prove-planted`.

    python tests/planted_faults.py [NAME ...]

Each fault is planted alone in a copy of the repository. The tests of its room run there until one fails. Exits 1
and names every fault that no test noticed. tests/sabotage.py does so for the checks, tests/decide/test_mutations.py for
whole histories.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = Path("agent/nodeprep")
PLACE = "/var/tmp"  # of the copies: an attempt of the remediator has a /tmp of its own
FAILED = (1, 2)  # pytest's exit codes for tests that failed; 2 where -x stopped the other processes
FIRST_FAILURE = re.compile(r"^FAILED (\S+)", re.MULTILINE)
CLI_OF_REPAIR = tuple(f"tests/cli/test_repair_{name}.py" for name in ("session", "command", "page"))
CLI_OF_FLEET = ("tests/cli/test_fleet_history.py",)
# By room: the tests that run, without those that play whole histories or emulate a machine.
ROOMS = {
    "agent": ("tests/agent",),
    "decide": ("tests/decide", "tests/agent"),
    "publish": ("tests/publish",),
    "doors": ("tests/doors",),
    "repair": ("tests/repair",),
    "cli": (*CLI_OF_REPAIR, *CLI_OF_FLEET, "tests/repair/test_repair_history.py"),
    "config": ("tests/config/test_remedy_files.py", "tests/playbooks/test_contract.py"),
}
# Those of Ansible and of the wheel take minutes. tests/netns and tests/kubernetes play whole repairs.
LEFT_OUT = ("tests/decide/test_mutations.py", "tests/repair/test_playbook_run.py", "tests/repair/test_wheel.py")
TEST_SECONDS = 60  # for each test: with a fault in a deadline, some wait for minutes. Else the longest takes 20 s


@dataclass(frozen=True, slots=True)
class Planted:
    """One piece of source in one module, which stands there once, and what takes its place."""

    name: str
    module: str
    old: str
    new: str

    @property
    def room(self) -> str:
        return self.module.partition("/")[0]


FAULTS = (
    Planted(
        "a consequence is shown as a cause",
        "decide/active_faults.py",
        "if not _is_consequence(case, found, checks)]",
        "if True]",
    ),
    Planted(
        "of faults that pass the first comes back",
        "decide/active_faults.py",
        "return made, -_passes_since(case), order",
        "return made, 0.0, order",
    ),
    Planted(
        "a latched fault is mended by a playbook",
        "decide/active_faults.py",
        "case.remedy is None or case.latched or",
        "case.remedy is None or",
    ),
    Planted(
        "another Node object frees a latched fault",
        "decide/gate_readiness.py",
        "_latched(agent_state.cases) if discard_reason == ANOTHER_NODE",
        "_latched(agent_state.cases) if False",
    ),
    Planted(
        "a remedy runs for what was seen minutes ago",
        "decide/repair_approach.py",
        "return terms.clock.now >= at and is_fresh and",
        "return terms.clock.now >= at and",
    ),
    Planted(
        "nobody asks for the last look before a remedy",
        "decide/repair_approach.py",
        "return {kind: again for kind, begun",
        "return {kind: again + 600.0 for kind, begun",
    ),
    Planted(
        "a remedy that is held back lets no other get to its end",
        "decide/repair_choice.py",
        "if one.key == terms.approached), next",
        "if False), next",
    ),
    Planted(
        "a fault that the last look does not see is mended",
        "decide/repair_approach.py",
        "is_fresh and approach.candidate.case.subject in look.failing",
        "is_fresh",
    ),
    Planted(
        "an approach waits for its last look for ever",
        "decide/repair_approach.py",
        "if settling and now > settled_at(approach, terms) + LOOK_LIMIT_SECONDS:",
        "if False:",
    ),
    Planted(
        "the first look after a play judges a remedy that changed the reason",
        "decide/repair_validation.py",
        "    if fails and _wants_another(case, attempt):",
        "    if fails and (_wants_another(case, attempt) or case.reason != attempt.reason):",
    ),
    Planted(
        "a remedy did not help where nobody could look",
        "decide/repair_validation.py",
        "since + max(terms.limit, UNSEEN_SECONDS)",
        "since + terms.limit",
    ),
    Planted(
        "a start judges a remedy before it has looked",
        "decide/repair_validation.py",
        ", attempt.heard_at + terms.waits.silent)",
        ", 0.0)",
    ),
    Planted(
        "what was seen before a start judges a remedy",
        "decide/attempt_steps.py",
        "return replace(case, looks=()) if is_judged",
        "return case if is_judged",
    ),
    Planted(
        "a start gives up an attempt before it asks",
        "decide/attempt_steps.py",
        "step_since=min(attempt.step_since, now), heard_at=now)",
        "step_since=min(attempt.step_since, now))",
    ),
    Planted(
        "a root that passes again is beyond us",
        "decide/state_table.py",
        "(case.remedy is None and not case.passes)",
        "(case.remedy is None)",
    ),
    Planted(
        "a wrong clock takes living repairs for dead",
        "decide/repair_approach.py",
        "if abs(ahead) <= fleet_notes.SKEW_SECONDS:",
        "if ahead > 0:",
    ),
    Planted(
        "what sleeps in the kernel is not awaited",
        "repair/attempt.py",
        "_tell_task, _tell_hangs)",
        "_tell_task)",
    ),
    Planted(
        "an attempt that waits for what sleeps in the kernel is ended at its time",
        "repair/remediator.py",
        "            if running.hangs:\n                return",
        "            if False:\n                return",
    ),
    Planted(
        "what sleeps in the kernel is cancelled",
        "repair/remediator.py",
        "if not running.is_cancelled and not running.hangs:",
        "if not running.is_cancelled:",
    ),
    Planted(
        "a remediator that is to end does not say what hangs",
        "repair/remediator.py",
        "clock.sleep(HEARD_SECONDS)",
        "pass",
    ),
    Planted(
        "silence ends what sleeps in the kernel",
        "decide/repair_attempt.py",
        "    if attempt.hangs:",
        "    if False:",
    ),
    Planted(
        "a slot ends while a long judgement goes on",
        "decide/repair_attempt.py",
        "judged_in + lasts)",
        "0.0)",
    ),
    Planted(
        "a failure that was seen long ago judges a remedy",
        "decide/repair_validation.py",
        "if fails and terms.is_seen:",
        "if fails:",
    ),
    Planted(
        "a lock is kept whose words found no room",
        "repair/repair_lock.py",
        "            os.close(descriptor)\n            raise\n",
        "            raise\n",
    ),
    Planted(
        "a repair by hand goes on beside what sleeps in the kernel",
        "cli/repair/repair_session.py",
        "if not self.end.left and (pair",
        "if (pair",
    ),
    Planted(
        "the Node keeps no attempts",
        "decide/desired.py",
        "ATTEMPTS: attempt_note.text(agent_state),",
        'ATTEMPTS: "",',
    ),
    Planted(
        "the Node keeps no approval",
        "decide/desired.py",
        "APPROVED: attempt_note.approved(agent_state),",
        'APPROVED: "",',
    ),
    Planted(
        "the agent does not say that its memory is not whole",
        "agent/repairing.py",
        "memory=reconciler.memory_trouble,",
        'memory="",',
    ),
    Planted(
        "the agent forgets the drill that runs",
        "agent/repairing.py",
        "drill=reconciler.drill,",
        "drill=None,",
    ),
    Planted(
        "the agent goes by a Node of which it read nothing",
        "agent/repairing.py",
        "node=seen,",
        "node=None,",
    ),
    Planted(
        "what could not enter the host was a try",
        "repair/attempt.py",
        'end = AttemptEnd("refused", RunRefusal.MISSING_TOOL, str(error))',
        'end = AttemptEnd("broken", why=str(error))',
    ),
    Planted(
        "a play that hangs keeps its slot for the deadline and four minutes longer than it may",
        "decide/repair_attempt.py",
        "and now + lasts <= until",
        "and now <= until",
    ),
    Planted(
        "a daemon that a remedy broke is a fault that changed",
        "decide/repair_validation.py",
        "AttemptOutcome.UNRELEASED if case.reason == attempt.reason else",
        "AttemptOutcome.UNRELEASED if case.reason == attempt.reason and case.remedy is not None else",
    ),
    Planted(
        "a lost disk forgets for the fleet what did not help",
        "decide/attempt_note.py",
        "unhelpful={**_unhelpful(found, clock.boot_id), **state.unhelpful},",
        "unhelpful=state.unhelpful,",
    ),
    Planted(
        "a node on which jobs may land counts as a new one",
        "decide/reconciliation.py",
        "if policy.mode is Mode.OBSERVE or wanted.taint_hindrance:",
        "if False:",
    ),
    Planted("a fault is mended at once", "decide/active_faults.py", "now - case.convicted_at >= least_age", "True"),
    Planted(
        "a suspected fault lets a gate open",
        "decide/active_faults.py",
        "if case.looks[-1][1]), None)",
        "if False), None)",
    ),
    Planted(
        "a profile that does not gate sets the taint",
        "decide/desired.py",
        "any(one.gating and not one.ready for one in profiles)",
        "any(not one.ready for one in profiles)",
    ),
    Planted("the bootstrap taint stays", "decide/desired.py", "agent_state.state is not NodeState.READY", "True"),
    Planted(
        "an event storm starts a look for each event",
        "decide/look_schedule.py",
        "self.muted_until.get(topic, -inf))",
        "-inf)",
    ),
    Planted(
        "a fault behind another event waits as in a storm",
        "decide/look_schedule.py",
        "(SECOND_LOOK_SECONDS if was_calm else EVENT_STORM_SECONDS)",
        "EVENT_STORM_SECONDS",
    ),
    Planted(
        "an event storm starts five looks a second",
        "decide/look_schedule.py",
        "(SECOND_LOOK_SECONDS if was_calm else EVENT_STORM_SECONDS)",
        "SECOND_LOOK_SECONDS",
    ),
    Planted(
        "an old record counts beside a fresh look",
        "decide/look_schedule.py",
        "if now - begun.get(kind, -inf) <= RECORD_VALIDITY_SECONDS}",
        "if True}",
    ),
    Planted(
        "one intolerant DaemonSet is forgotten at once",
        "decide/taint_toleration.py",
        "(since is None or now - since < ABSENT_LIMIT_SECONDS)",
        "False",
    ),
    Planted(
        "a bad release closes gates",
        "decide/rule_change.py",
        "    return changed_at + RULE_HOLD_SECONDS, change",
        "    return changed_at, change",
    ),
    Planted(
        "the next wrong configuration renews the hold",
        "decide/rule_change.py",
        "known = before if is_known else None",
        "known = None",
    ),
    Planted(
        "what a remedy disturbs convicts",
        "decide/reconciliation.py",
        "counting = repair_validation.counting(agent_state, observed.observations)",
        "counting = observed.observations",
    ),
    Planted(
        "the first look after a remedy convicts",
        "decide/repair_validation.py",
        "disturbed={**state.disturbed, **dict.fromkeys(disturbed, now)},",
        "disturbed=state.disturbed,",
    ),
    Planted(
        "a repaired case is looked at by its periods",
        "decide/repair_validation.py",
        "at = since if last < since else max(last + period, since)",
        "at = last + 60.0",
    ),
    Planted(
        "after a remedy one pass opens a gate",
        "decide/reconciliation.py",
        "confirmation = repair_validation.confirmation(agent_state, policy.confirmation, policy.waits)",
        "confirmation = policy.confirmation",
    ),
    Planted(
        "a remedy that came out is forgotten before its fault passed",
        "decide/repair_validation.py",
        "ran = state.attempt is not None or any(one.outcome != AttemptOutcome.REFUSED for one in state.attempts)",
        "ran = state.attempt is not None",
    ),
    Planted(
        "a remedy is judged by all faults",
        "decide/repair_validation.py",
        "    if not case.convicted:",
        "    if not any(one.convicted for one in state.cases):",
    ),
    Planted(
        "one spent fault keeps all from being mended",
        "decide/repair_budget.py",
        "mine = [one for one in counted if fault(one) == fault(case)]",
        "mine = counted",
    ),
    Planted(
        "a silent remediator has ended",
        "decide/repair_attempt.py",
        "return max(attempt.step_since + attempt.deadline, attempt.heard_at) + terms.waits.silent",
        "return attempt.heard_at + 10.0",
    ),
    Planted(
        "two remedies that take turns never end",
        "decide/repair_budget.py",
        "UNCOUNTED = (AttemptOutcome.REFUSED,)",
        "UNCOUNTED = (AttemptOutcome.REFUSED, AttemptOutcome.CHANGED)",
    ),
    Planted(
        "a remedy runs without a gate",
        "decide/repair_choice.py",
        "        (SuppressionReason.TAINT, _taint(state, terms)),\n",
        "",
    ),
    Planted(
        "a remedy runs that nobody could remember",
        "decide/repair_attempt.py",
        'case AttemptStep.LEDGER, LedgerSaved(trouble=""):',
        "case AttemptStep.LEDGER, LedgerSaved():",
    ),
    Planted(
        "a reboot gives all tries back",
        "decide/repair_budget.py",
        "return max(clock.wall - attempt.wall, clock.now, 0.0)",
        "return DAY_SECONDS",
    ),
    Planted(
        "several remedies run at a time",
        "decide/repair_choice.py",
        "if state.attempt is not None:",
        "if False:",
    ),
    Planted(
        "what only a new version sees is mended",
        "decide/repair_choice.py",
        "        (SuppressionReason.DISPUTED, _disputed(case)),\n",
        "",
    ),
    Planted(
        "what a new version finds first on an open node is mended",
        "decide/rule_change.py",
        '"" if doubt == RuleChange.CONFIGURATION else doubt',
        '""',
    ),
    Planted(
        "a start asks to run once more",
        "decide/attempt_steps.py",
        "AttemptStep.ASKED if step is AttemptStep.LEDGER else step",
        "step",
    ),
    Planted(
        "a slot that was denied is ours",
        "decide/repair_approach.py",
        "if not answer.is_taken:",
        "if False:",
    ),
    Planted(
        "an old list of pods counts",
        "decide/repair_approach.py",
        "any(now - one > terms.waits.fresh for one in seen)",
        "False",
    ),
    Planted(
        "three nodes with one fault are repaired",
        "decide/fleet_holds.py",
        "(_correlated(notes, fault, wall) if serving else None)",
        "None",
    ),
    Planted(
        "what was resumed seems held",
        "decide/fleet_holds.py",
        "for node, at in said.items() if at > since}",
        "for node, at in said.items() if at > 0}",
    ),
    Planted(
        "a reason of a pause may hide its end",
        "decide/repair_orders.py",
        "    if MARK in why:",
        "    if False:",
    ),
    Planted(
        "what is for a human is approved",
        "decide/repair_plan.py",
        "    if header.safety is not SafetyClass.S3:",
        "    if False:",
    ),
    Planted(
        "a slot that anybody may take seems held",
        "cli/repair/fleet_history.py",
        "    if repair_slots.is_free(slot, now):",
        "    if False:",
    ),
    Planted(
        "an approval that was used seems to count",
        "cli/repair/fleet_history.py",
        'if found.text == used:\n        state = ": used"\n    elif',
        "if",
    ),
    Planted(
        "a remedy that never helps runs on",
        "decide/fleet_holds.py",
        "        _held(notes, remedy, _resumed(fleet, remedy, wall), wall)\n        or ",
        "        ",
    ),
    Planted(
        "an approval counts again after another one",
        "decide/repair_orders.py",
        "found.until <= last.until",
        "found.until == last.until",
    ),
    Planted(
        "a time to come says that a remedy helped",
        "decide/fleet_holds.py",
        "helped=_past(note.helped, wall), ",
        "",
    ),
    Planted(
        "a remedy in which a node died did it no harm",
        "decide/fleet_holds.py",
        "unhelpful={**note.unhelpful, **died}",
        "unhelpful=note.unhelpful",
    ),
    Planted(
        "a node that died waits for its turn for ever",
        "decide/fleet_holds.py",
        "replace(note, trying={}, ",
        "replace(note, ",
    ),
    Planted(
        "a configuration takes the doubt in a version away",
        "decide/rule_change.py",
        "RuleChange.BOTH if _is_of_version(agent_state, now) else change",
        "change",
    ),
    Planted(
        "the second fault of a bad version is mended",
        "decide/rule_change.py",
        "is_asked = state is NodeState.READY or (was_open and state is not NodeState.BOOTSTRAP)",
        "is_asked = state is NodeState.READY",
    ),
    Planted(
        "a driver that an operator's pod brings is touched",
        "decide/repair_approach.py",
        "    if owned:\n",
        "    if False:\n",
    ),
    Planted(
        "what a reboot ended is not told",
        "publish/repair_lines.py",
        "after.former_agent_state if before is None",
        "after.agent_state if before is None",
    ),
    Planted(
        "an approval counts twice",
        "decide/repair_orders.py",
        "if is_used(found, used):",
        "if False:",
    ),
    Planted(
        "a pause that cannot be read holds nothing",
        "decide/repair_orders.py",
        "    if until is None:\n        shown",
        "    if False:\n        shown",
    ),
    Planted(
        "taints of others are dropped",
        "publish/node_patches.py",
        "            lasting.append(taint)\n            continue\n",
        "            continue\n",
    ),
    Planted(
        "lastTransitionTime moves with each heartbeat",
        "publish/node_patches.py",
        'same = there is not None and there.get("status") == one.status',
        "same = False",
    ),
    Planted(
        "a heartbeat of the future lasts",
        "publish/node_patches.py",
        "or at > now + timedelta(seconds=1):",
        "or False:",
    ),
    Planted(
        "the Node's version is not sent",
        "publish/node_patches.py",
        "        version=seen.version,\n        labels=_changes",
        '        version="",\n        labels=_changes',
    ),
    Planted(
        "an opening writes the Node first",
        "publish/node_writing.py",
        "(NODE, STATUS) if closing else (STATUS, NODE)",
        "(NODE, STATUS)",
    ),
    Planted(
        "another Node of the same name is written",
        "publish/node_writing.py",
        "    if seen.uid != order.uid:\n        return WriteResult(seen, is_other_node=True)\n    wanted",
        "    wanted",
    ),
    Planted(
        "a released Node is written",
        "publish/node_writing.py",
        "if RELEASED in seen.annotations else desired",
        "if False else desired",
    ),
    Planted(
        "a missing right is asked for without end",
        "publish/pace.py",
        "FUTILE_RETRY_SECONDS if self.refusals > QUICK_RETRIES else 0.0",
        "0.0",
    ),
    Planted("back-off does not grow", "publish/pace.py", "2.0 ** min(self.failures, 10)", "1.0"),
    Planted(
        "the Lease is renewed while no check runs",
        "publish/side_writes.py",
        "        if not self.is_alive():",
        "        if False:",
    ),
    Planted(
        "one policy alone counts as enforced",
        "publish/side_writes.py",
        "self.policy_enforced = all(self._enforced.values())",
        "self.policy_enforced = any(self._enforced.values())",
    ),
    Planted(
        "a repair of an earlier closure counts for this one",
        "publish/transition_totals.py",
        "and one.at >= since and",
        "and",
    ),
    Planted(
        "a repair is timed by a clock that was set meanwhile",
        "publish/transition_totals.py",
        "min(max(by_wall, attempt.step_since - attempt.deadline), attempt.step_since)",
        "by_wall",
    ),
    Planted(
        "each start counts the attempts that it finds",
        "publish/transition_totals.py",
        "known = totals.beginning, {one.id for one in before.attempts}",
        "known = totals.beginning, set[str]()",
    ),
    Planted(
        "the first repair of a node is no increase",
        "publish/metrics.py",
        "repairs = status.mode is Mode.REPAIR",
        "repairs = False",
    ),
    Planted(
        "a gate file of another boot counts",
        "publish/gate_files.py",
        "(found.boot_id, found.node_uid) == (boot_id, node_uid)",
        "found.node_uid == node_uid",
    ),
    Planted(
        "a gate file of another name counts",
        "publish/gate_files.py",
        " or file_name(one.profile, one.stage) != name:",
        ":",
    ),
    Planted(
        "readiness before the first full round",
        "publish/probes.py",
        "if status is None or not status.complete:",
        "if status is None:",
    ),
    Planted(
        "a signal that comes while a supervisor starts is dropped",
        "doors/pid_namespace.py",
        "(signal.SIG_BLOCK, relayed)",
        "(signal.SIG_BLOCK, ())",
    ),
    Planted("a file that is written is not synced", "doors/files/atomic.py", "        os.fsync(descriptor)\n", ""),
    Planted(
        "a torn memory is believed",
        "doors/files/state_store.py",
        "if header[2] != _digest(serial, content):",
        "if False:",
    ),
    Planted(
        "a second agent gets the lock",
        "doors/files/state_store.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    ),
    Planted(
        "a dead mount gets a child at each look",
        "doors/files/statvfs.py",
        "            self._hanging.append((child, silent))",
        "            pass",
    ),
    Planted(
        "a server that dribbles holds a reader",
        "doors/http/exchange.py",
        "return min(self._until, clock.now() + self._silence)",
        "return clock.now() + self._silence",
    ),
    Planted(
        "an answer without limit is read",
        "doors/http/exchange.py",
        "            if len(body) > limit:",
        "            if False:",
    ),
    Planted(
        "an attack by two lengths is read",
        "doors/http/exchange.py",
        'if b"transfer-encoding" in names and b"content-length" in names:',
        "if False:",
    ),
    Planted(
        "what a user wrote to the kernel log counts as the kernel's",
        "doors/files/kmsg.py",
        "priority & 7, facility, text, of_process)",
        "priority & 7, 0, text, of_process)",
    ),
    Planted(
        "a crash of a process counts as a driver's line",
        "doors/files/kmsg.py",
        "of_process = facility == 0 and log_speakers.is_of_process(text)",
        "of_process = False",
    ),
    Planted(
        "of a crash with a line end in its name only the first line is a process's",
        "doors/files/kmsg.py",
        "facility == 0 and of_process)",
        "facility == 0 and log_speakers.is_of_process(line[4]))",
    ),
    Planted(
        "an argument that no header names is taken",
        "decide/remedy_arguments.py",
        "if name not in header.parameters:",
        "if False:",
    ),
    Planted(
        "an argument of no shape is taken",
        "decide/remedy_arguments.py",
        "if name in given and not _shape(parameter, given[name]):",
        "if False:",
    ),
    Planted(
        "a number above the most is taken",
        "decide/remedy_arguments.py",
        "parameter.least <= int(value) <= parameter.most",
        "parameter.least <= int(value)",
    ),
    Planted(
        "names that could not be read resolve every argument",
        "decide/remedy_arguments.py",
        "    if known is None:\n        raise",
        "    if known is None:\n        return\n        raise",
    ),
    Planted(
        "a choice may hold what a template reads",
        "decide/remedy_arguments.py",
        "value in parameter.choices and bool(WORD.fullmatch(value))",
        "value in parameter.choices",
    ),
    Planted(
        "a class above the limit is planned",
        "decide/repair_plan.py",
        "if header.safety.is_above(terms.limit):",
        "if False:",
    ),
    Planted(
        "a class for humans is planned",
        "decide/repair_plan.py",
        "if header.safety is SafetyClass.S4:",
        "if False:",
    ),
    Planted(
        "a waived finding is mended",
        "decide/repair_plan.py",
        "if finding.waived is not None or finding.status",
        "if finding.status",
    ),
    Planted(
        "a consequence has a step of its own",
        "decide/repair_plan.py",
        "if finding.root is None and finding.verdict.remedy is not None:",
        "if finding.verdict.remedy is not None:",
    ),
    Planted(
        "a step runs again with the same arguments",
        "decide/repair_plan.py",
        "elif made.key not in terms.done:",
        "else:",
    ),
    Planted(
        "a missing tool is found while it runs",
        "decide/repair_plan.py",
        "    if lacking:",
        "    if False:",
    ),
    Planted(
        "S1 may cut the node off",
        "decide/idleness.py",
        "return OF_THE_NODE if wanted.netdevs else ()",
        "return ()",
    ),
    Planted(
        "a source that failed is no doubt",
        "decide/idleness.py",
        "doubts.append(IdleDoubt(source, state.failed))",
        "pass",
    ),
    Planted(
        "an ignored daemon's routes and sockets are ignored too",
        "decide/idleness.py",
        "if source not in (IdleSource.OPEN_DEVICE_NODES, IdleSource.RDMA_CONTEXTS):",
        "if False:",
    ),
    Planted(
        "a glob of idle.ignore is taken as a name",
        "decide/idleness.py",
        "return fnmatchcase(command, name)",
        "return command == name",
    ),
    Planted(
        "the RDMA devices of an interface go on",
        "decide/idleness.py",
        "port.netdev in netdevs or port.bdf in functions",
        "port.bdf in functions",
    ),
    Planted(
        "virtual functions are nobody's",
        "decide/idleness.py",
        "functions |= {one for owner in tuple(functions) for one in owned.get(owner, ())}",
        "functions |= set()",
    ),
    Planted(
        "a holder of a claim is none",
        "decide/idle_holders.py",
        "if container.claims and _has_devices(target, pod.where) else []",
        "if False else []",
    ),
    Planted(
        "an old kernel's count is believed",
        "decide/idle_holders.py",
        "if _release(kernel) < COUNTS_SINCE:",
        "if False:",
    ),
    Planted(
        "what rides on an interface is overseen",
        "decide/idle_holders.py",
        "found |= more",
        "break",
    ),
    Planted(
        "a default route in another table is overseen",
        "decide/idle_holders.py",
        "tables = {MAIN, *(rule.table for rule in routes.rules if _is_for_all(rule))}",
        "tables = {MAIN}",
    ),
    Planted(
        "a socket that listens is none",
        "decide/idle_holders.py",
        "not is_daemons and (one.state not in ENDED_STATES or _is_unconnected(one))",
        "not is_daemons and one.state == 'established'",
    ),
    Planted(
        "an interface in another namespace is idle",
        "decide/idle_holders.py",
        "if links.named(name) is None:",
        "if False:",
    ),
    Planted(
        "what was read before proves idleness",
        "repair/idle_proof.py",
        "    host.files.forget()\n    told = ",
        "    told = ",
    ),
    Planted(
        "a source that hangs is quiet",
        "repair/idle_proof.py",
        "states.get(source, late)",
        "states.get(source, SourceState())",
    ),
    Planted(
        "an excluded path proves that nobody is there",
        "repair/idle_proof.py",
        "if host.files.is_excluded(path):",
        "if False:",
    ),
    Planted(
        "daemons of idle.ignore hold",
        "repair/idle_proof.py",
        "deadline), safety, ignored)",
        "deadline), safety, ())",
    ),
    Planted(
        "a kubelet that is there is none",
        "repair/idle_sources.py",
        "kubelet.pids(running) or home",
        "kubelet.pids(running)",
    ),
    Planted(
        "a pod that ended holds its devices",
        "repair/idle_sources.py",
        "_pod_names(host), _ended_pods(host, {one.pod_uid for one in found.entries})",
        "_pod_names(host), ()",
    ),
    Planted(
        "processes that are not seen hold nothing",
        "repair/idle_sources.py",
        "if found.unseen:",
        "if False:",
    ),
    Planted(
        "names of pods that cannot be had are none",
        "repair/machine_names.py",
        "None if isinstance(running, Unreadable) else",
        "frozenset() if isinstance(running, Unreadable) else",
    ),
    Planted(
        "a file that nobody may run is a program",
        "repair/host_tools.py",
        "isinstance(entry, FileEntry) and entry.is_executable",
        "isinstance(entry, FileEntry)",
    ),
    Planted(
        "a torn line takes the next with it",
        "doors/files/line_file.py",
        "whole = _cut_torn(descriptor)",
        "whole = os.fstat(descriptor).st_size",
    ),
    Planted(
        "a line that was written in part is kept",
        "doors/files/line_file.py",
        "    if done != len(data):",
        "    if done < 0:",
    ),
    Planted(
        "the history grows without end",
        "repair/repair_history.py",
        "if size > LIMIT_BYTES:",
        "if False:",
    ),
    Planted(
        "two repairs at a time",
        "repair/repair_lock.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
    ),
    Planted(
        "the same container counts as a new one",
        "repair/container_restart.py",
        "if one.id not in former and waiting",
        "if waiting",
    ),
    Planted(
        "every container of a plugin's pod is stopped",
        "decide/restart_choice.py",
        "one.container.where == pod and any(_is_served(mount) for mount in one.mounts)",
        "one.container.where == pod",
    ),
    Planted(
        "who looks at the directory of plugins serves one",
        "decide/restart_choice.py",
        "not mount.is_read_only and ",
        "",
    ),
    Planted(
        "a pod that calls itself Terway is restarted",
        "decide/restart_choice.py",
        "if one.sandbox in ids and",
        "if",
    ),
    Planted(
        "a container that holds a device is restarted",
        "repair/remedy_act.py",
        "return container_restart.idle(host, args.get(POD))",
        "return Idleness()",
    ),
    Planted(
        "a labelled pod that holds a device is the agent's",
        "repair/agent_restart.py",
        "        if held:",
        "        if False:",
    ),
    Planted(
        "a remedy of class S3 needs no name in the manifest",
        "decide/remediator_limits.py",
        "if header.name not in limits.third_class:",
        "if False:",
    ),
    Planted(
        "a limit of a day allows one run more",
        "decide/remediator_limits.py",
        "if count >= limit:",
        "if count > limit:",
    ),
    Planted(
        "the agent's pod is no restart",
        "decide/remediator_limits.py",
        "if not check and header.uses_runtime:",
        "if not check and header.is_act:",
    ),
    Planted(
        "a key that no request has is passed over",
        "decide/remediator_protocol.py",
        "        if self._keys:",
        "        if False:",
    ),
    Planted(
        "of two keys alike the last counts",
        "decide/remediator_protocol.py",
        "if len(made) != len(pairs):",
        "if False:",
    ),
    Planted(
        "an attempt runs again",
        "repair/remediator.py",
        "if self._ledger.record(request.attempt) is not None:",
        "if False:",
    ),
    Planted(
        "whoever says nothing is of our version",
        "repair/remediator.py",
        "if not caller.is_equal:",
        "if False:",
    ),
    Planted(
        "a ledger that somebody else wrote is ours",
        "repair/attempt_ledger.py",
        "self._is_lost = self._is_lost or self._seen() != self._known",
        "pass",
    ),
    Planted(
        "a ledger that was lost is found again",
        "repair/attempt_ledger.py",
        "self._is_lost = self._is_lost or self._seen() != self._known",
        "self._is_lost = self._seen() != self._known",
    ),
    Planted(
        "a line of the ledger that is none is passed over",
        "repair/attempt_ledger.py",
        "if record is None:",
        "if False:",
    ),
    Planted(
        "a container is stopped on the proof of others",
        "repair/container_restart.py",
        "if not held.is_idle:",
        "if False:",
    ),
    Planted(
        "who was hung up on is heard",
        "repair/remediator_socket.py",
        "elif not key.data.is_gone:",
        "elif True:",
    ),
    Planted(
        "what was cut off has no end",
        "repair/remediator.py",
        "        for record in left:\n            why = ",
        "        for record in ():\n            why = ",
    ),
    Planted(
        "a process that cannot start ends the remediator",
        "repair/remediator.py",
        "        except OSError as error:\n            why = ",
        "        except EOFError as error:\n            why = ",
    ),
    Planted(
        "an attempt asks nobody who uses it",
        "repair/attempt.py",
        "    if not idle.is_idle:",
        "    if False:",
    ),
    Planted(
        "a line has no end",
        "repair/remediator_socket.py",
        "if len(connection.came) > LINE_BYTES:",
        "if False:",
    ),
    Planted(
        "a check stops containers",
        "repair/container_restart.py",
        "        if check:\n            say",
        "        if False:\n            say",
    ),
    Planted(
        "a container of the former sandbox is the agent's new one",
        "repair/agent_restart.py",
        "and one.sandbox != sandbox.id",
        "",
    ),
    Planted(
        "an agent without a limit is stopped too",
        "repair/agent_restart.py",
        "if not _is_limited(host, containers, changed=done.changed > 0):",
        "if False:",
    ),
    Planted(
        "a dry run stops the agent",
        "repair/agent_restart.py",
        "        if not check:\n            stopped",
        "        if True:\n            stopped",
    ),
    Planted(
        "nobody is asked who uses it",
        "cli/repair/repair_session.py",
        "        if idle.is_idle:\n            return None",
        "        if True:\n            return None",
    ),
    Planted(
        "a dry run is kept as a repair",
        "cli/repair/repair_session.py",
        "        if not is_dry:\n            self._history.add(self._record(step, attempt, BEGAN))",
        "        if True:\n            self._history.add(self._record(step, attempt, BEGAN))",
    ),
    Planted(
        "a play's word is the proof",
        "cli/repair/repair_session.py",
        "                self.end.failed = True\n                still",
        "                still",
    ),
    Planted(
        "a fault that changed its reason is the same",
        "cli/repair/repair_session.py",
        "if (one.check, one.subject, one.verdict.reason) in before",
        "if (one.check, one.subject) in {known[:2] for known in before}",
    ),
    Planted(
        "who does not agree is not heard",
        "cli/repair/repair_session.py",
        "if not self._dialogue.agree(plan):",
        "if not self._dialogue.agree(plan) and False:",
    ),
    Planted(
        "a refused step is not kept",
        "cli/repair/repair_session.py",
        "self._history.add(self._record(step, uuid4().hex, REFUSED, why=refused.why))",
        "pass",
    ),
    Planted(
        "arguments are not resolved again before a step",
        "cli/repair/repair_session.py",
        "remedy_act.hold_arguments(self._host, step.header, step.args)",
        "pass",
    ),
    Planted(
        "a failed task is told twice",
        "cli/repair/repair_session.py",
        "if line.result is not TaskResult.FAILED:",
        "if True:",
    ),
    Planted(
        "a doubt is a refusal as any other",
        "cli/repair/repair_session.py",
        "self.end.doubted = self.end.doubted or not idle.holders",
        "pass",
    ),
    Planted(
        "a repair that nobody could prove ends with 1",
        "cli/repair/repair_command.py",
        "    if end.doubted and not end.ran:",
        "    if False:",
    ),
    Planted(
        "a repair that failed ends with 0",
        "cli/repair/repair_command.py",
        "not (end.declined or end.failed or refused)",
        "not (end.declined or refused)",
    ),
    Planted(
        "a refused remedy ends with 0",
        "cli/repair/repair_command.py",
        "not (end.declined or end.failed or refused)",
        "not (end.declined or end.failed)",
    ),
    Planted(
        "a consequence that was mended counts as refused",
        "cli/repair/repair_command.py",
        "if one.reason is not RefusalReason.FOLLOWS]",
        "]",
    ),
    Planted(
        "a check that did not run passes",
        "cli/repair/repair_command.py",
        "code = FAILED if bad or check in why else code",
        "code = FAILED if bad else code",
    ),
    Planted(
        "what a waiver excuses is a fault",
        "cli/repair/repair_command.py",
        "if one.check in said and one.waived is None:",
        "if one.check in said:",
    ),
    Planted(
        "a step that was cut off has ended",
        "cli/repair/history_command.py",
        "replace(one, state=CUT_OFF) if one.state == BEGAN else one",
        "one",
    ),
    Planted(
        "what is still wrong is not shown",
        "cli/repair/repair_page.py",
        "one.counts and one.status in (Status.FAIL, Status.WARN)",
        "one.counts and one.status is Status.FAIL",
    ),
    Planted(
        "what cannot be ended is not named",
        "cli/repair/repair_page.py",
        "for one in outcome.left:",
        "for one in ():",
    ),
    Planted(
        "a file without a header has one",
        "config/remedy_files.py",
        "        if held is None:",
        "        if False:",
    ),
    Planted(
        "a remedy without a class is safe",
        "config/remedy_files.py",
        "typed_yaml.not_empty(typed_yaml.one_of(*SafetyClass), f\"one of {', '.join(SafetyClass)}\")",
        "typed_yaml.one_of(*SafetyClass)",
    ),
    Planted(
        "an act is a playbook",
        "config/remedy_files.py",
        "is_act = path.parent.name == ACTS",
        "is_act = False",
    ),
    Planted(
        "what is restarted at the end is nothing",
        "config/remedy_files.py",
        'Restarted(stated.get("restarts", Restarted.NOTHING))',
        "Restarted.NOTHING",
    ),
    Planted(
        "the agent's pod keeps its limit",
        "repair/agent_restart.py",
        "if header.restarts is not Restarted.AGENT or done.end is not RunEnd.DONE:",
        "if True:",
    ),
    Planted(
        "a change at a time that has not come blocks each rollout",
        "decide/rule_change.py",
        '        rule_change="",\n        former_passed={},\n        former_gates=(),\n',
        '        rule_change="",\n        former_passed={},\n',
    ),
    Planted(
        "a boot before the Node is read forgets which one it was",
        "decide/gate_readiness.py",
        "node_uid=node_uid or agent_state.node_uid",
        "node_uid=node_uid",
    ),
    Planted(
        "a slot of new nodes serves for a node that may serve",
        "decide/repair_approach.py",
        "candidate.key != approach.candidate.key or candidate.serving != approach.candidate.serving:",
        "candidate.key != approach.candidate.key:",
    ),
    Planted(
        "out of files the pages are asked for without a rest",
        "publish/web.py",
        "            self._paused_until = clock.now() + SELECT_MARGIN_SECONDS\n            return\n",
        "            return\n",
    ),
    Planted(
        "the history quotes a configuration",
        "publish/history_lines.py",
        "            fields = {}  # its message",
        "            pass  # its message",
    ),
    Planted(
        "a label that jobs select goes last",
        "publish/node_object.py",
        "if key.startswith(PROFILE) or key == names.rdma_label}",
        "if key.startswith(PROFILE)}",
    ),
    Planted(
        "a policy that nobody tried yet is missed",
        "publish/node_status.py",
        "if self.policy_enforced is False else",
        "if not self.policy_enforced else",
    ),
    Planted(
        "an older note comes after a newer one",
        "publish/fleet_note.py",
        "        with self._lock:\n            yield self.text",
        "        yield self.text",
    ),
    Planted(
        "a device of which nobody knows whose it is has no port",
        "publish/series.py",
        'for device in rdma.devices if raw(device)["virtual_function"] is True}',
        'for device in rdma.devices if raw(device)["virtual_function"]}',
    ),
    Planted(
        "an Event is lost with the server",
        "publish/side_writes.py",
        "        if node_writing.is_lost(answer):",
        "        if False:",
    ),
    Planted(
        "while a remedy runs the Node is looked at once a minute",
        "publish/publisher.py",
        "return min(period, REPAIRING_PERIOD_SECONDS) if wanted.desired.state in UNDER_REPAIR else period",
        "return period",
    ),
    Planted(
        "a note that nobody took is told",
        "publish/repair_requests.py",
        "self.note.told = text if answer.done else self.note.told",
        "self.note.told = text",
    ),
    Planted(
        "a slot that nobody took back is given back",
        "publish/repair_requests.py",
        "is_returned=lease.status in (403, 404)",
        "is_returned=True",
    ),
    Planted(
        "a look that had no processor takes a server for dead",
        "doors/processor.py",
        "return Why.BUSY if idle < deadline / 2",
        "return Why.BUSY if idle < deadline / 20",
    ),
    Planted(
        "a server lets us wait for a day",
        "doors/kube/requests.py",
        "min(float(told), MOST_WAIT)",
        "float(told)",
    ),
    Planted(
        "a credential that was taken back is used on",
        "doors/kube/reader.py",
        "            if self._access.plugin is not None:\n                self._access.plugin.forget()\n",
        "",
    ),
    Planted(
        "a line without end is kept",
        "doors/kube/requests.py",
        "if len(rest) > LONGEST_LINE:",
        "if False:",
    ),
    Planted(
        "of many attempts the Node keeps the oldest",
        "decide/attempt_note.py",
        "counted[-ATTEMPTS_LIMIT:]",
        "counted[:ATTEMPTS_LIMIT]",
    ),
    Planted(
        "a damaged record of a drill ends the command",
        "decide/drill_record.py",
        "except (KeyError, TypeError, ValueError):",
        "except (KeyError, TypeError):",
    ),
    Planted(
        "all who ask at once want the same slot",
        "decide/repair_slots.py",
        "start = zlib.crc32(node.encode()) % len(there)",
        "start = 0",
    ),
    Planted(
        "who comes last loses its place",
        "publish/web.py",
        "            self._drop(self.clients[0])",
        "            self._drop(self.clients[-1])",
    ),
    Planted(
        "what failed counts as written",
        "publish/publisher.py",
        "self._written_serial = self._written_serial if failure else wanted.serial",
        "self._written_serial = wanted.serial",
    ),
    Planted(
        "a fault of our own is tried again without end",
        "publish/publisher.py",
        "                self._node.failed(clock.now(), FUTILE_RETRY_SECONDS)\n",
        "",
    ),
    Planted(
        "a server's words show a secret",
        "doors/grpc/status.py",
        'redaction.masked(unquote_to_bytes(message).decode(errors="replace"))',
        'unquote_to_bytes(message).decode(errors="replace")',
    ),
    Planted(
        "a credential that was taken back writes on",
        "doors/kube/writer.py",
        "if answer.status == 401 and self._access.plugin is not None:",
        "if False:",
    ),
    Planted(
        "an answer that is too deep ends a write",
        "doors/kube/writer.py",
        "except (ValueError, RecursionError):",
        "except ValueError:",
    ),
)


def planted(scratch: Path, fault: Planted | None) -> None:
    """Make a copy of the repository in `scratch`, with the fault: some tests find the agent beside themselves."""
    apart = shutil.ignore_patterns("__pycache__", ".*", "build")
    shutil.copytree(REPOSITORY, scratch, ignore=apart, dirs_exist_ok=True, symlinks=True)
    if fault is None:
        return
    module = scratch / PACKAGE / fault.module
    source = module.read_text()
    if source.count(fault.old) != 1:
        sys.exit(f"{fault.name}: {fault.module} holds {fault.old!r} {source.count(fault.old)} times, wanted once")
    module.write_text(source.replace(fault.old, fault.new))


def run(scratch: Path, tests: Iterable[str]) -> tuple[int, str]:
    """The exit code of these tests in the copy, and what they print."""
    environment = os.environ | {"PYTHONPATH": f"{scratch / 'agent'}:{scratch}", "PYTHONDONTWRITEBYTECODE": "1"}
    apart = [argument for file in LEFT_OUT for argument in ("--ignore", file)]
    limit = ("--timeout", str(TEST_SECONDS))
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider", *limit, *apart, *tests]
    done = subprocess.run(argv, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def noticed_by(fault: Planted) -> str:
    """The first test that failed, "" if none did."""
    with tempfile.TemporaryDirectory(prefix="nodeprep-planted-", dir=PLACE) as directory:
        scratch = Path(directory)
        planted(scratch, fault)
        code, said = run(scratch, ROOMS[fault.room])
    first = FIRST_FAILURE.search(said)
    return first[1] if code in FAILED and first else ""


def main(names: list[str]) -> int:
    unknown = set(names) - {one.name for one in FAULTS}
    if unknown:
        print(f"there is no fault {', '.join(sorted(unknown))}; there are:", *(one.name for one in FAULTS), sep="\n  ")
        return 2
    with tempfile.TemporaryDirectory(prefix="nodeprep-planted-", dir=PLACE) as directory:
        planted(Path(directory), None)
        code, said = run(Path(directory), (test for tests in ROOMS.values() for test in tests))
    if code:
        print(f"without a fault the tests fail too\n{said}")
        return 1
    faults = [one for one in FAULTS if not names or one.name in names]
    unnoticed = []
    for fault in faults:
        test = noticed_by(fault)
        print(
            f"{'noticed' if test else 'UNNOTICED'}  {fault.module}: {fault.name}{f' ({test})' if test else ''}",
            flush=True,
        )
        unnoticed += [] if test else [fault]
    print(f"{len(faults)} faults planted, {len(faults) - len(unnoticed)} noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
