"""Proves that tests notice faults in what decides, publishes and asks the system: `make prove-planted`.

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
FAILED = (1, 2)  # pytest's exit codes for tests that failed; 2 where -x stopped the other processes
FIRST_FAILURE = re.compile(r"^FAILED (\S+)", re.MULTILINE)
# By room: the tests that run, without those that play whole histories or emulate a machine.
ROOMS = {
    "decide": ("tests/decide", "tests/agent"),
    "publish": ("tests/publish",),
    "doors": ("tests/doors",),
}
LEFT_OUT = ("tests/decide/test_mutations.py",)
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
        "return -_passes_since(case), order",
        "return 0.0, order",
    ),
    Planted(
        "a latched fault is mended by a playbook",
        "decide/active_faults.py",
        "case.remedy is None or case.latched or",
        "case.remedy is None or",
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
        "self.answered_at.get(topic, -inf) + EVENT_STORM_SECONDS)",
        "-inf)",
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
        "decide/upgrade.py",
        "upgraded_at + UPGRADE_HOLD_SECONDS if former and former == case.observed else None",
        "upgraded_at if former and former == case.observed else None",
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
        "priority & 7, priority >> 3, text)",
        "priority & 7, 0, text)",
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
    with tempfile.TemporaryDirectory(prefix="nodeprep-planted-") as directory:
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
    with tempfile.TemporaryDirectory(prefix="nodeprep-planted-") as directory:
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
