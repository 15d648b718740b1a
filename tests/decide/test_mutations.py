"""The histories can fail: each of these changes to the reconciler is a way to open a gate wrongly, and they find it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

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
        "release after one pass", "policy", "return passes >= self.passes and since", "return passes >= 1 or since"
    ),
    Mutation("Unknown counts as pass", "answers", "not {Status.FAIL, Status.UNKNOWN}", "not {Status.FAIL}"),
    Mutation("Unknown releases", "confirmation", "if not answer.could_look_at(case.subject):", "if False:"),
    Mutation(
        "unreadable memory means READY",
        "readiness",
        "return Past(boot_id, node_uid, since",
        "return Past(boot_id, node_uid, state=State.READY, since",
    ),
    Mutation("boot id ignored", "readiness", "if not boot_id or past.boot_id != boot_id:", "if not boot_id:"),
    Mutation("another Node's memory believed", "readiness", "and node_uid != past.node_uid:", "and False:"),
    Mutation("damaged memory believed", "readiness", 'return "" if intact(past, now) else', 'return "" if True else'),
    Mutation(
        "stale look counts",
        "turn",
        "heard.findings, heard.fresh,",
        "heard.findings, dict.fromkeys(rules.checks, Glance(now, now)),",
    ),
    Mutation("turns never latch", "policy", "turns: int = 3", "turns: int = 1000"),
    Mutation("passes free a latch", "cases", "if after.latched or not policy", "if not policy"),
    Mutation("taint in observe", "desired", "Mode.OBSERVE: ModeRow(taints=False", "Mode.OBSERVE: ModeRow(taints=True"),
    Mutation("no taint in gate", "desired", "Mode.GATE: ModeRow(taints=True", "Mode.GATE: ModeRow(taints=False"),
    Mutation("taint that the plugins do not bear", "bearing", "return finding.status", "return True or finding.status"),
    Mutation("a reset leaves the proofs", "confirmation", "proofs={},", "proofs=past.proofs,"),
    Mutation("one failing look convicts", "policy", "Rule(fails=2, of=2, apart=0.5)", "Rule(fails=1, of=1)"),
    Mutation("nothing convicts", "cases", "if not after.convicted and _believed(", "if False and _believed("),
    Mutation(
        "convictions close nothing", "against", "if case.convicted and case.check in", "if False and case.check in"
    ),
    Mutation(
        "opens while a gate fails", "states", "self.roots or self.suspect or self.blind", "self.roots or self.blind"
    ),
    Mutation("opens while a gate is blind", "states", "self.suspect or self.blind)", "self.suspect)"),
    Mutation("a refused profile opens", "readiness", "if profile.refused:", "if False:"),
    Mutation("open in any state", "readiness", "and past.state is not State.READY:", "and False:"),
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
