"""One playbook is run by real Ansible in a supervised child: what it says is told, and nothing of it is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeprep.repair import playbook_run, supervisor
from nodeprep.repair.playbook_run import PlaybookRun
from nodeprep.repair.repair_lock import RepairLock, RepairUnderWay
from nodeprep.repair.run_outcome import RunEnd, TaskLine, TaskResult
from nodeprep.values import replace
from tests.rigs.absent import cannot_start, needs_root
from tests.rigs.waiting import until

AGENT = Path(playbook_run.__file__).parents[2]
PLENTY = 240.0  # seconds, for a play that takes 2
SHORTEST = 12.0  # for a play that never ends by itself: on an idle machine it comes to its last task in 4
Tasks = list[dict[str, Any]]


@pytest.fixture
def mark() -> Iterator[str]:
    """An argument that only processes of this test have. What they leave is ended, so that a failure leaves nothing."""
    made = uuid.uuid4().hex
    yield made
    for pid in marked(made):
        os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes that have `mark` in their arguments. A zombie has no arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [int(path.parent.name)] * (mark.encode() in path.read_bytes())
        except OSError:
            continue
    return found


def playbook(directory: Path, *tasks: dict[str, Any], hosts: str = "localhost") -> str:
    path = directory / "play.yml"
    path.write_text(json.dumps([{"name": "Try", "hosts": hosts, "gather_facts": False, "tasks": tasks}]))
    return str(path)


def shell(script: str, name: str = "Run it", **more: Any) -> dict[str, Any]:
    return {"name": name, "ansible.builtin.command": {"argv": ["sh", "-c", script]}, **more}


def python(script: str, *arguments: str) -> dict[str, Any]:
    return {"name": "Run it", "ansible.builtin.command": {"argv": [sys.executable, "-c", script, *arguments]}}


def write(path: Path, content: str = "new\n") -> dict[str, Any]:
    return {"name": "Write it", "ansible.builtin.copy": {"dest": str(path), "content": content, "mode": "0644"}}


def tree(directory: Path) -> dict[str, tuple[Any, ...]]:
    """All that can change in a directory: which files, with which content, rights, inode and times."""
    seen = {}
    for path in (directory, *directory.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        seen[str(path)] = (content, state.st_mode, state.st_uid, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)
    return seen


class TestWhatItSays:
    def test_a_change_is_made_once_and_only_reported_by_a_check(self, tmp_path: Path) -> None:
        target = tmp_path / "etc"
        target.mkdir()
        (target / "file").write_text("old\n")
        play = playbook(tmp_path, write(target / "file"))
        before = tree(target)
        told = playbook_run.run(PlaybookRun(play, PLENTY, check=True))
        assert (told.end, told.changed) == (RunEnd.DONE, 1)
        assert tree(target) == before
        (difference,) = told.diffs
        assert difference.task == "Write it"
        assert difference.text.splitlines()[2:] == ["@@ -1 +1 @@", "-old", "+new"]
        assert str(target / "file") in difference.text
        first, second = (playbook_run.run(PlaybookRun(play, PLENTY)) for _ in range(2))
        assert (first.end, first.changed, first.diffs) == (RunEnd.DONE, 1, ())
        assert (target / "file").read_text() == "new\n"
        assert (second.end, second.changed) == (RunEnd.DONE, 0)

    def test_tasks_are_told_in_their_order_while_the_play_runs(self, tmp_path: Path) -> None:
        seen = tmp_path / "seen"
        heard: list[TaskLine] = []

        def say(line: TaskLine) -> None:
            heard.append(line)
            seen.touch()

        tasks = (
            shell("true", "Probe it", changed_when=False),
            shell(f"until [ -e {seen} ]; do sleep 0.1; done", "Wait until the first line was heard"),
            shell("true", "Leave it", when=False),
            shell("exit 1", "Try it", ignore_errors=True),
        )
        told = playbook_run.run(PlaybookRun(playbook(tmp_path, *tasks), PLENTY), say)
        assert (told.end, told.changed, told.failed_task) == (RunEnd.DONE, 1, "")
        assert heard == [
            TaskLine("Probe it", TaskResult.OK),
            TaskLine("Wait until the first line was heard", TaskResult.CHANGED),
            TaskLine("Leave it", TaskResult.SKIPPED),
            TaskLine("Try it", TaskResult.FAILED),
        ]

    def test_a_failure_has_its_task_and_the_programs_own_words(self, tmp_path: Path) -> None:
        says = r"printf '\033[31mno such\007 link:\n  \302\233eth9\n' >&2; exit 3"
        tasks = (write(tmp_path / "file"), shell(says, "Set eth9 up"), shell("true", "Never come here"))
        heard: list[TaskLine] = []
        told = playbook_run.run(PlaybookRun(playbook(tmp_path, *tasks), PLENTY), heard.append)
        assert (told.end, told.changed, told.failed_task) == (RunEnd.FAILED, 1, "Set eth9 up")
        assert told.message.endswith("no such? link: ?eth9")
        assert told.message.isprintable()
        assert [line.task for line in heard] == ["Write it", "Set eth9 up"]

    def test_a_long_message_keeps_its_end(self, tmp_path: Path) -> None:
        says = "i=0; while [ $i -lt 5000 ]; do echo $i >&2; i=$((i+1)); done; exit 1"
        told = playbook_run.run(PlaybookRun(playbook(tmp_path, shell(says)), PLENTY))
        assert told.message.startswith("…")
        assert told.message.endswith("4998 4999")
        assert len(told.message) == playbook_run.MESSAGE

    def test_the_item_that_failed_speaks(self, tmp_path: Path) -> None:
        task = shell("echo about {{ item }} >&2; exit {{ item }}", loop=[0, 7])
        told = playbook_run.run(PlaybookRun(playbook(tmp_path, task), PLENTY))
        assert told.end is RunEnd.FAILED
        assert told.message.endswith("about 7")

    def test_variables_are_no_templates(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        task = {
            "name": "Say it",
            "ansible.builtin.command": {"argv": "{{ on_host + ['sh', '-c', script, interface, host_root, kept] }}"},
            "vars": {"script": f'printf "%s\\n" "$0" "$1" "$2" "$FROM" > {out}', "kept": "{{ empty }}."},
        }
        hostile = "{{ 7 * 7 }}\n{% raw %} 'é' \U0001f600"
        order = PlaybookRun(
            playbook(tmp_path, task), PLENTY, {"interface": hostile, "empty": ""}, False, ("env", "FROM=us"), "/host"
        )
        told = playbook_run.run(order)
        assert (told.end, told.message) == (RunEnd.DONE, "")
        assert out.read_text() == f"{hostile}\n/host\n.\nus\n"


class TestBroken:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (None, "no such playbook"),
            ("- hosts: [localhost\n", "play.yml"),
            ("- hosts: localhost\n  tasks: [{name: Try, no.such.module: {}}]\n", "no.such.module"),
            ('- hosts: nowhere\n  tasks: [{name: Try, ansible.builtin.command: {argv: ["true"]}}]\n', "summary"),
        ],
    )
    def test_what_cannot_be_run_says_why(self, tmp_path: Path, content: str | None, words: str) -> None:
        path = tmp_path / "play.yml"
        if content is not None:
            path.write_text(content)
        told = playbook_run.run(PlaybookRun(str(path), PLENTY))
        assert told.end is RunEnd.BROKEN
        assert words in told.message
        assert told.message.isprintable()

    def test_without_ansible_one_line_says_what_to_run(self, tmp_path: Path) -> None:
        import msgspec

        site = tmp_path / "site"
        site.mkdir()
        (site / "msgspec").symlink_to(Path(msgspec.__file__).parent)
        script = f"""
import sys
sys.path[:0] = {[str(AGENT), str(site)]}
from nodeprep.repair import playbook_run, supervisor
try:
    playbook_run.run(playbook_run.PlaybookRun("/play.yml", 1.0))
except playbook_run.AnsibleMissing as missing:
    print(missing)
"""
        done = subprocess.run((sys.executable, "-I", "-S", "-c", script), capture_output=True, text=True, check=True)
        assert done.stdout == f"repair needs Ansible: {sys.executable} -m pip install 'nodeprep[repair]'\n"


# What a task leaves behind. Each is a Python program whose argument is the mark.
FOREVER = "import time; time.sleep(86400)"
START = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {script!r}, sys.argv[1]], {how})"
SILENT = "stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
DOUBLE_FORK = """
import os, time
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
for descriptor in range(3):
    os.close(descriptor)
time.sleep(86400)
"""
DEAF = """
import signal, time
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
time.sleep(86400)
"""
STOPPED = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
# Each is the parent of the next, in a session of its own, and ends at once. Where nobody ends the last of them, it does
# so itself: nobody else could catch it, and it takes the whole machine.
RUNAWAY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 900
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
# It holds the terminal that Ansible writes to, of which ansible-runner awaits the end.
TERMINAL = """
import os, subprocess, sys
def terminal(pid):
    try:
        out = os.readlink(f"/proc/{pid}/fd/1")
    except OSError:
        out = ""
    if out.startswith("/dev/pts/"):
        return out
    return terminal(int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]))
out = os.open(terminal("self"), os.O_WRONLY | os.O_NOCTTY)
script = "import time; time.sleep(86400)"
subprocess.Popen([sys.executable, "-c", script, sys.argv[1]], stdin=0, stdout=out, stderr=out, start_new_session=True)
"""
STRAYS = {
    "in a session of its own": START.format(script=FOREVER, how=f"start_new_session=True, {SILENT}"),
    "by a double fork": DOUBLE_FORK,
    "deaf to signals": START.format(script=DEAF, how=f"start_new_session=True, {SILENT}"),
    "stopped": START.format(script=STOPPED, how=f"start_new_session=True, {SILENT}"),
    "forking without end": START.format(script=RUNAWAY, how=f"start_new_session=True, {SILENT}"),
    "holding the output of its task": START.format(script=FOREVER, how="start_new_session=True"),
    "holding the terminal": TERMINAL,
}
AWAIT = """
import os, sys, time
def others():
    for name in os.listdir("/proc"):
        if not name.isdecimal() or name == os.readlink("/proc/self"):
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as line:
                if sys.argv[1].encode() in line.read():
                    return True
        except OSError:  # it has ended
            pass
while not others():
    time.sleep(0.05)
"""
ALL = f"""
import subprocess, sys
for script in {list(STRAYS.values())}:
    subprocess.run([sys.executable, "-c", script, sys.argv[1]], check=True)
"""


class TestNothingIsLeft:
    @pytest.mark.parametrize("stray", STRAYS)
    def test_after_success(self, tmp_path: Path, mark: str, stray: str) -> None:
        tasks = (python(STRAYS[stray], mark), python(AWAIT, mark))
        told = playbook_run.run(PlaybookRun(playbook(tmp_path, *tasks), PLENTY))
        assert (told.end, told.message, told.left) == (RunEnd.DONE, "", ())
        assert marked(mark) == []

    def test_after_a_failure(self, tmp_path: Path, mark: str) -> None:
        tasks = (python(ALL, mark), python(AWAIT, mark), shell("exit 1", "Fail"))
        told = playbook_run.run(PlaybookRun(playbook(tmp_path, *tasks), PLENTY))
        assert (told.end, told.failed_task, told.left) == (RunEnd.FAILED, "Fail", ())
        assert marked(mark) == []

    @pytest.mark.parametrize("task", [FOREVER, DEAF], ids=["sleeping", "deaf"])
    def test_at_the_deadline(self, tmp_path: Path, mark: str, task: str) -> None:
        tasks = (python(ALL, mark), python(AWAIT, mark), python(task, mark) | {"name": "Hang"})
        play = PlaybookRun(playbook(tmp_path, *tasks), SHORTEST)
        while (told := playbook_run.run(play)).failed_task != "Hang" and play.deadline < PLENTY:
            play = replace(play, deadline=play.deadline * 3)  # a busy machine had not come so far
        assert (told.end, told.changed, told.failed_task, told.left) == (RunEnd.TIMED_OUT, 2, "Hang", ())
        assert told.message == f"it was not done after {play.deadline:g} s, and was ended"
        assert marked(mark) == []


FREEZE = """
import sys
directory = sys.argv[1]
open(f"{directory}/cgroup.procs", "w").write("0")
open(f"{directory}/freezer.state", "w").write("FROZEN")
"""


def test_who_sleeps_in_the_kernel_is_named_and_not_waited_for(tmp_path: Path, freezer: Path) -> None:
    play = PlaybookRun(playbook(tmp_path, python(FREEZE, str(freezer)) | {"name": "Sleep"}), SHORTEST)
    while not (told := playbook_run.run(play)).left and play.deadline < PLENTY:
        play = replace(play, deadline=play.deadline * 3)  # a busy machine had not come so far: it was not frozen yet
    assert (told.end, told.failed_task) == (RunEnd.TIMED_OUT, "Sleep")
    assert told.seconds < play.deadline + supervisor.KILLING + playbook_run.MARGIN, "nobody waits for it"
    (left,) = told.left
    number = int(re.sub(r"^python[\d.]* \((\d+)\)$", r"\1", left))
    assert str(number) in (freezer / "cgroup.procs").read_text().split()
    (freezer / "freezer.state").write_text("THAWED")
    until(lambda: not Path(f"/proc/{number}").exists(), "its end, for it has been killed")


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_supervisor_that_says_nothing_is_awaited_like_what_sleeps_in_the_kernel(tmp_path: Path) -> None:
    """Its disk hangs. It may still run what it supervises, so nobody says that all is over."""
    stopped, told = list[int](), list[str]()

    def stop(_: TaskLine) -> None:
        (outside,) = [one for one in children_of(os.getpid()) if b"supervisor" in cmdline(one)]
        stopped.extend(children_of(outside))
        os.kill(stopped[0], signal.SIGSTOP)

    def hangs(processes: Sequence[str]) -> None:
        told.extend(processes)
        os.kill(stopped[0], signal.SIGCONT)

    play = PlaybookRun(playbook(tmp_path, shell("true"), shell("sleep 600", "Sleep")), SHORTEST)
    ended = playbook_run.run(play, stop, hangs)
    while not stopped and play.deadline < PLENTY:  # a busy machine had not come so far
        play = replace(play, deadline=play.deadline * 3)
        ended = playbook_run.run(play, stop, hangs)
    assert [re.sub(r"\d+", "N", one) for one in told] == ["supervisor (N)"]
    assert (ended.end, ended.left) == (RunEnd.TIMED_OUT, ())


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


NOT_BEGUN = """
import sys
from nodeprep.decide.remediator_limits import RefusedRun
from nodeprep.repair import playbook_run
from nodeprep.repair.playbook_run import PlaybookRun
try:
    print(playbook_run.run(PlaybookRun(sys.argv[1], 100.0)))
except RefusedRun as refused:
    print(refused.reason, refused)
"""


@needs_root("a bounding set")
def test_what_could_not_begin_is_refused(tmp_path: Path) -> None:
    """It is no failure of the remedy: here nobody may make a PID namespace."""
    play = playbook(tmp_path, write(tmp_path / "changed"))
    argv = ("setpriv", "--bounding-set", "-sys_admin", sys.executable, "-c", NOT_BEGUN, play)
    environment = {**os.environ, "PYTHONPATH": str(AGENT), "TMPDIR": str(tmp_path)}
    told = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
    assert told.stdout.startswith(
        "missing-tool no process could be started: [Errno 1] unshare: Operation not permitted"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["play.yml"]


# A program of its own calls `run`, so that it can be killed. It prints when the play has begun its second task.
CALLER = """
import os, sys
from contextlib import nullcontext
from nodeprep.repair import playbook_run, supervisor
from nodeprep.repair.playbook_run import PlaybookRun
from nodeprep.repair.repair_lock import RepairLock
with RepairLock(os.environ["LOCKS"], "a caller") if "LOCKS" in os.environ else nullcontext() as lock:
    play = PlaybookRun(sys.argv[1], 240.0, held=(lock.descriptor,) if lock else ())
    told = playbook_run.run(play, lambda line: print(line.task, flush=True))
print(told.end, told.message, flush=True)
"""


@contextmanager
def caller(play: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        (sys.executable, "-c", CALLER, play),
        env={**os.environ, "PYTHONPATH": str(AGENT), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def supervisor_of(process: subprocess.Popen[str]) -> int:
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


class TestWhoeverIsKilled:
    @pytest.fixture
    def play(self, tmp_path: Path, mark: str) -> str:
        tasks = (python(ALL, mark), python(AWAIT, mark) | {"name": "Await"}, python(FOREVER, mark))
        return playbook(tmp_path, *tasks)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    def test_nothing_outlives_the_caller(self, tmp_path: Path, mark: str, play: str, number: int) -> None:
        with caller(play, TMPDIR=str(tmp_path)) as process:
            assert process.stdout is not None
            while process.stdout.readline() != "Await\n":
                assert process.poll() is None
            assert marked(mark)
            assert list(tmp_path.glob("nodeprep-repair-*"))
            process.send_signal(number)
            assert process.wait(PLENTY) == -number
        until(lambda: not marked(mark), "the end of all that it started")
        until(lambda: not list(tmp_path.glob("nodeprep-repair-*")), "the end of the private directory")

    def test_a_lock_is_held_until_the_end_of_all(self, tmp_path: Path, mark: str) -> None:
        """A play that takes a while to end, of a caller that is gone: the next repair begins after it."""
        ending = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(1), sys.exit())); time.sleep(900)"
        play = playbook(tmp_path, shell("true"), python(ending, mark))
        locks = str(tmp_path / "locks")
        with caller(play, LOCKS=locks) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "Run it\n"
            until(lambda: marked(mark), "the second task")
            process.kill()
            assert process.wait(PLENTY) == -signal.SIGKILL
            told = set[str]()
            while True:
                try:
                    with RepairLock(locks, "the next"):
                        assert not marked(mark), "the next one begins while the play is there"
                        break
                except RepairUnderWay as busy:
                    told.add(str(busy))
        assert told <= {f"a caller (pid {process.pid}) repairs this node ({locks}/lock): wait until it has ended"}

    @pytest.mark.parametrize(
        ("number", "says"),
        [
            (signal.SIGTERM, "the supervising process was told to end by a signal"),
            (signal.SIGKILL, "the supervising process ended early: somebody killed it"),
        ],
    )
    def test_nothing_outlives_the_supervisor(
        self, tmp_path: Path, mark: str, play: str, number: int, says: str
    ) -> None:
        with caller(play, TMPDIR=str(tmp_path)) as process:
            assert process.stdout is not None
            while process.stdout.readline() != "Await\n":
                assert process.poll() is None
            os.kill(supervisor_of(process), number)
            assert process.stdout.readline() == f"broken {says}\n"
            assert process.wait(PLENTY) == 0
        until(lambda: not marked(mark), "the end of all that it started")  # the kernel ends them in its own time
        assert not list(tmp_path.glob("nodeprep-repair-*"))


HOSTILE = {
    "ANSIBLE_STRATEGY": "nonsense",
    "ANSIBLE_CONFIG": "/nonsense.cfg",
    "ANSIBLE_CALLBACKS_ENABLED": "nonsense",
    "ANSIBLE_CHECK_MODE": "nonsense",
    "LC_ALL": "C",
    "RUNNER_OMIT_EVENTS": "true",
}


# How often the processes above this one waited in three seconds: all of Ansible, its supervisor and the test. They have
# a namespace of process ids of their own, but /proc is the host's.
WAITED = """\
waited() {
    process=self
    while [ "$process" != 1 ]; do
        awk '/^voluntary/ { print $2 }' "/proc/$process/status"
        process=$(awk '/^PPid/ { print $2 }' "/proc/$process/status")
    done | awk '{ all += $1 } END { print all }'
}
set -e; before=$(waited); sleep 3; after=$(waited); echo "$((after - before))" > "$0"
"""


def test_ansible_seldom_looks_whether_a_task_has_ended(tmp_path: Path) -> None:
    """A node that is mended may train at the same time. With Ansible's own setting it looks 1,000 times a second."""
    out = tmp_path / "out"
    task = {"name": "Wait", "ansible.builtin.command": {"argv": ["sh", "-c", WAITED, str(out)]}}
    assert playbook_run.run(PlaybookRun(playbook(tmp_path, task), PLENTY)).end is RunEnd.DONE
    assert 0 < int(out.read_text()) < 3 * 600


def test_a_module_goes_to_python_without_a_file(tmp_path: Path) -> None:
    """As a file it needs a directory and a removal: for one command Ansible starts 20 programs instead of 7."""
    out = tmp_path / "out"
    task = shell(f'cd "$TMPDIR/.."; find . -name "AnsiballZ*" >{out}; find . -name order.json >>{out}')
    assert playbook_run.run(PlaybookRun(playbook(tmp_path, task), PLENTY)).end is RunEnd.DONE
    assert out.read_text().splitlines() == ["./order.json"]


def test_ansible_does_not_search_for_cycles(tmp_path: Path) -> None:
    """An eighth of what a play computes in an emulated guest. A filter beside the playbook runs in Ansible itself."""
    out = tmp_path / "out"
    (tmp_path / "filter_plugins").mkdir()
    source = "import gc\nclass FilterModule:\n    filters = lambda self: {'searches': lambda _: gc.isenabled()}\n"
    (tmp_path / "filter_plugins" / "collector.py").write_text(source)
    play = playbook(tmp_path, write(out, "{{ 'it' | searches }}"))
    assert playbook_run.run(PlaybookRun(play, PLENTY)).end is RunEnd.DONE
    assert out.read_text() == "False"


class TestNobodyElseHasASay:
    def test_private_files_are_removed(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        task = shell(f'printf %s "$TMPDIR" > {out}; mkdir "$TMPDIR/mine"; : > "$TMPDIR/mine/file"')
        told = playbook_run.run(PlaybookRun(playbook(tmp_path, task), PLENTY))
        assert told.end is RunEnd.DONE
        private = Path(out.read_text()).parent
        assert private.name.startswith("nodeprep-repair-")
        assert not private.exists()

    def test_the_callers_surroundings_do_not_count(self, tmp_path: Path) -> None:
        """Neither its environment, nor files of its directory or its home, nor its umask."""
        out, mine, here = (tmp_path / name for name in ("out", "mine", "here"))
        here.mkdir()
        mine.mkdir()
        for name in ("ansible.cfg", ".ansible.cfg"):
            (here / name).write_text("[defaults]\nstrategy = nonsense\n")
        for name in ("ansible_runner", "sitecustomize"):
            (here / f"{name}.py").write_text("raise SystemExit(9)\n")
        play = playbook(mine, shell(f"env > {out}; umask >> {out}"), write(tmp_path / "file"))
        hostile = f"os.environ.update({HOSTILE}, HOME={str(here)!r}, PYTHONPATH={str(here)!r})"
        script = f"import os; os.umask(0o077); os.chdir({str(here)!r}); {hostile}\n"
        done = subprocess.run(
            (sys.executable, "-c", script + CALLER, play),
            env={**os.environ, "PYTHONPATH": str(AGENT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == ["Run it", "Write it", "done "]
        told = out.read_text()
        assert str(here) not in told
        assert "nonsense" not in told
        assert "HOME=/nonexistent\n" in told
        assert "SYSTEMCTL_FORCE_BUS=1\n" in told, "else it cannot connect; tests/provision runs it on a real systemd"
        assert re.search(r"^ANSIBLE_CONFIG=\S+/nodeprep-repair-\w+/ansible\.cfg$", told, re.MULTILINE)
        assert told.endswith("\n0022\n")


@needs_root("a network namespace needs root")
def test_no_connection_is_opened(tmp_path: Path) -> None:
    """In a network namespace without any way out. strace sees each process, and each address that it connects to."""
    trace, written = tmp_path / "trace", tmp_path / "file"
    play = playbook(tmp_path, shell("true"), write(written))
    calls_seen = "trace=connect,sendto,execve,/^rename"
    quiet = ("strace", "-f", "--seccomp-bpf", "-qq", "-s", "500", "-o", str(trace), "-e", calls_seen)
    try:
        done = subprocess.run(
            ("unshare", "-n", *quiet, sys.executable, "-c", CALLER, play),
            env={**os.environ, "PYTHONPATH": str(AGENT)},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as reason:
        cannot_start(reason)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done ", done.stderr
    calls = trace.read_text().splitlines()
    assert any("rename" in call and f'"{written}"' in call for call in calls), "it sees what a module does"
    families = {found for call in calls for found in re.findall(r"sa_family=(AF_\w+)", call)}
    assert families <= {"AF_UNIX", "AF_NETLINK"}
