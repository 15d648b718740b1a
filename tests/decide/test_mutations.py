"""The histories can fail: each of these changes to the reconciler is a way to open a gate wrongly, and they find it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DECIDE = Path("agent/nodeprep/decide")
COUNT = 3000  # histories; the rarest of these shows within some 700


@dataclass(frozen=True, slots=True)
class Mutation:
    """One piece of source in one module of decide, which stands there once, and what takes its place."""

    name: str
    module: str
    old: str
    new: str


MUTATIONS = (
    Mutation(
        "release after one pass",
        "confirmation_policy",
        "return passes >= self.passes and since",
        "return passes >= 1 or since",
    ),
    Mutation("Unknown counts as pass", "check_results", "not {Status.FAIL, Status.UNKNOWN}", "not {Status.FAIL}"),
    Mutation("Unknown releases", "fault_confirmation", "if not result.could_look_at(case.subject):", "if False:"),
    Mutation(
        "unreadable memory means READY",
        "gate_readiness",
        "return AgentState(boot_id, node_uid, since",
        "return AgentState(boot_id, node_uid, state=NodeState.READY, since",
    ),
    Mutation(
        "boot id ignored", "gate_readiness", "if not boot_id or agent_state.boot_id != boot_id:", "if not boot_id:"
    ),
    Mutation("another Node's memory believed", "gate_readiness", "and node_uid != agent_state.node_uid:", "and False:"),
    Mutation(
        "damaged memory believed",
        "gate_readiness",
        "plausible = stored_state.has_plausible_times(agent_state, now)",
        "plausible = True",
    ),
    Mutation(
        "stale look counts",
        "reconciliation",
        "counting = repair_validation.counting(agent_state, observed.observations)",
        "counting = dict.fromkeys(policy.checks, CheckObservation(now, now))",
    ),
    Mutation("turns never latch", "confirmation_policy", "flap_count: int = 3", "flap_count: int = 1000"),
    Mutation("passes free a latch", "cases", "if after.latched or not policy", "if not policy"),
    Mutation("taint in observe", "desired", "Mode.OBSERVE: ModeRow(taints=False", "Mode.OBSERVE: ModeRow(taints=True"),
    Mutation("no taint in gate", "desired", "Mode.GATE: ModeRow(taints=True", "Mode.GATE: ModeRow(taints=False"),
    Mutation(
        "taint that the plugins do not bear",
        "taint_toleration",
        "return finding.status",
        "return True or finding.status",
    ),
    Mutation(
        "a reset leaves the proofs", "fault_confirmation", "pass_streaks={},", "pass_streaks=agent_state.pass_streaks,"
    ),
    Mutation(
        "one failing look convicts",
        "confirmation_policy",
        "ConfirmationRule(fails=2, of=2, apart=0.5)",
        "ConfirmationRule(fails=1, of=1)",
    ),
    Mutation("nothing convicts", "cases", "if not after.convicted and _is_confirmed(", "if False and _is_confirmed("),
    Mutation(
        "convictions close nothing",
        "active_faults",
        "if case.convicted and case.check in",
        "if False and case.check in",
    ),
    Mutation(
        "opens while a gate fails",
        "state_table",
        "self.roots or self.has_suspect or self.has_blind_gate",
        "self.roots or self.has_blind_gate",
    ),
    Mutation(
        "opens while a gate is blind", "state_table", "self.has_suspect or self.has_blind_gate)", "self.has_suspect)"
    ),
    Mutation("a refused profile opens", "gate_readiness", "if profile.refusal:", "if False:"),
    Mutation("open in any state", "gate_readiness", "and agent_state.state is not NodeState.READY:", "and False:"),
    Mutation("a label without a profile", "desired", "if any(one.ready and one.rdma for", "if any(one.rdma for"),
)


def played(scratch: Path, mutation: Mutation | None) -> tuple[int, str]:
    """The exit code of the histories over a copy of the package, and what they print."""
    shutil.copytree(REPOSITORY / "agent", scratch / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    if mutation is not None:
        module = scratch / DECIDE / f"{mutation.module}.py"
        source = module.read_text()
        assert source.count(mutation.old) == 1, f"{mutation.name}: {module.name} holds no single {mutation.old!r}"
        module.write_text(source.replace(mutation.old, mutation.new))
    # The coverage of a copy is nobody's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    environment["PYTHONPATH"] = f"{scratch / 'agent'}:{REPOSITORY}"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    argv = [sys.executable, str(REPOSITORY / "tests/histories.py"), "--count", str(COUNT)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_copy_itself_violates_nothing(tmp_path: Path) -> None:
    code, said = played(tmp_path, None)
    assert (code, "; 0 violations" in said) == (0, True), said


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_the_histories_find(mutation: Mutation, tmp_path: Path) -> None:
    code, said = played(tmp_path, mutation)
    assert (code, said.startswith("VIOLATION in history")) == (1, True), said
