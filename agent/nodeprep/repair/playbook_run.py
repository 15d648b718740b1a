"""Runs one Ansible playbook so that nothing of it outlives its deadline, whatever its tasks start.

Ansible runs in a child of a child: the process in between (`supervisor`) ends everything at the deadline, and also if
this process is killed. Nothing of Ansible is imported here.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import IO, Any

import nodeprep
from nodeprep.decide.remediator_limits import RefusedRun, RunRefusal
from nodeprep.doors import children, clock
from nodeprep.pattern import Pattern
from nodeprep.repair import host_tools, supervisor
from nodeprep.repair.run_outcome import FileDiff, RunEnd, RunOutcome, TaskLine, TaskResult
from nodeprep.values import Value, field

MISSING = f"repair needs Ansible: {sys.executable} -m pip install 'nodeprep[repair]'"
MARGIN = 30.0  # seconds after its own limit in which the supervisor must have spoken, on a machine that is busy
AWAITED_LOOK = 1.0  # seconds between two looks whether one that sleeps in the kernel has ended, perhaps for days
ENDING_SECONDS = supervisor.GRACE + supervisor.KILLING + MARGIN  # for it to end what runs, and to say so
MESSAGE = 1000  # characters of a message; its end says most
ESCAPES = Pattern(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")  # of a terminal: colours, titles
READ = 65536


class AnsibleMissing(Exception):
    """The extra `repair` is not installed. Its text is one line that says what to run."""

    def __init__(self) -> None:
        super().__init__(MISSING)


class PlaybookRun(Value):
    """What to run, and for how long at most.

    `playbook` is an absolute path, `deadline` in seconds. The playbook sees `variables` as they are: braces in them are
    no template. `check` changes nothing and asks for the differences. `on_host` and `host_root` lead from our own
    container to the host: the words before a command, and the directory before a path. `held` are descriptors that
    stay open until the last task has ended, also if this process is killed: of a lock.
    """

    playbook: str
    deadline: float
    variables: Mapping[str, str] = field(default_factory=dict)
    check: bool = False
    on_host: tuple[str, ...] = ()
    host_root: str = ""
    held: tuple[int, ...] = ()


def require_ansible() -> None:
    """Raises AnsibleMissing."""
    if find_spec("ansible_runner") is None or find_spec("ansible") is None:
        raise AnsibleMissing


def run(
    play: PlaybookRun,
    say: Callable[[TaskLine], None] = lambda _: None,
    hangs: Callable[[Sequence[str]], None] | None = None,
) -> RunOutcome:
    """Run a playbook and tell `say` of each task when it has ended. Afterwards nothing is left of it.

    But who sleeps in the kernel cannot be ended. With `hangs`, it hears who that is, and then they are awaited, for as
    long as it takes. Without it, they are named and left.

    Raises:
        AnsibleMissing: the extra `repair` is not installed.
        KeyboardInterrupt: as it came. What ran was ended first, and its `args` are the processes that could not be.
        RefusedRun: no process could be started, so nothing ran.
        OSError: no private directory could be made.
    """
    require_ansible()
    if not Path(play.playbook).is_file():
        return RunOutcome(RunEnd.BROKEN, 0.0, message=f"{play.playbook}: no such playbook")
    began, story = clock.now(), _Story(say, hangs)
    private = Path(tempfile.mkdtemp(prefix="nodeprep-repair-"))
    try:
        (private / supervisor.ORDER).write_text(json.dumps(_order(play)))
        with tempfile.TemporaryFile() as errors:
            with _supervisor(private, play, errors, story) as process:
                try:
                    _hear_out(process, story, began + play.deadline + supervisor.KILLING + MARGIN)
                except KeyboardInterrupt as stopped:
                    _close(process.stdin)  # it ends what runs
                    _hear_out(process, story, clock.now() + ENDING_SECONDS)
                    stopped.args = story.left
                    raise
            errors.seek(0)
            words = errors.read().decode(errors="replace")
        if process.returncode == supervisor.NOT_STARTED:
            raise RefusedRun(RunRefusal.MISSING_TOOL, _one_line(words))
        if story.end is None:
            return story.without_end(story.heard_at - began, words)
    finally:
        shutil.rmtree(private, ignore_errors=True)  # the supervisor has done it, unless it was killed
    return _outcome(story, story.end, play, story.heard_at - began)


def _order(play: PlaybookRun) -> Mapping[str, Any]:
    variables = {**play.variables, "on_host": play.on_host, "host_root": play.host_root}
    return {"playbook": play.playbook, "check": play.check, "variables": variables}


@contextmanager
def _supervisor(
    private: Path, play: PlaybookRun, errors: IO[bytes], story: _Story
) -> Iterator[subprocess.Popen[bytes]]:
    """The process in between. It sees by the end of its input that we are gone, however that came."""
    try:
        process = subprocess.Popen(
            (sys.executable, "-P", "-s", "-m", supervisor.__name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env={"PYTHONPATH": str(Path(nodeprep.__file__).parents[1]), "PATH": host_tools.PATH, "LANG": "C.UTF-8"},
            pass_fds=play.held,
            start_new_session=True,  # Ctrl-C is for us
        )
    except OSError as error:
        raise RefusedRun(RunRefusal.MISSING_TOOL, f"{sys.executable}: {error.strerror}") from error
    assert process.stdin is not None  # noqa: S101 - for mypy
    order = {"private": str(private), "seconds": play.deadline, "deadline": clock.now() + play.deadline}
    try:
        with suppress(BrokenPipeError):  # it says on its stderr why it ended
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        yield process
    finally:
        _dismissed(process, has_left=bool(story.left), holds=bool(play.held))


def _dismissed(process: subprocess.Popen[bytes], *, has_left: bool, holds: bool) -> None:
    """See it off. Where it has not spoken yet, it ends what runs first.

    Its own end waits for what sleeps in the kernel (`has_left`). One that holds a lock meanwhile stays until then.
    """
    for pipe in (process.stdin, process.stdout):
        _close(pipe)
    try:
        process.wait(0.0 if has_left else ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        if holds:
            children.unreaped.append(process)
            return
        process.kill()
        children.ended(process)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(BrokenPipeError):
            pipe.close()


def _hear_out(process: subprocess.Popen[bytes], story: _Story, until: float) -> None:
    """Hear it to its last word, and await what it could not end. One that says nothing any more counts as that."""
    if story.end is None:
        for told in _messages(process, story, until):
            story.hear(told)
        story.heard_at = clock.now()
    if story.end is None and process.poll() is None:
        story.left = (f"supervisor ({process.pid})",)
    if not story.left or story.hangs is None:
        return
    story.hangs(story.left)
    if story.end is None:
        for told in _messages(process, story, inf, look=AWAITED_LOOK):
            story.hear(told)
    process.wait()  # its end waits for them
    story.left = ()


def _messages(
    process: subprocess.Popen[bytes], story: _Story, until: float, *, look: float = supervisor.LOOK
) -> Iterator[Mapping[str, Any]]:
    """What comes, up to the supervisor's last word or its end. Not up to the pipe's: something else might hold it."""
    assert process.stdout is not None  # noqa: S101 - for mypy
    pipe = process.stdout.fileno()
    while clock.now() < until:
        over = process.poll() is not None  # before the read: what it wrote is in the pipe then
        readable, _, _ = select.select((pipe,), (), (), 0 if over else look)
        part = os.read(pipe, READ) if readable else b""
        *lines, story.unheard = (story.unheard + part).split(b"\n")
        for line in lines:
            yield (told := json.loads(line))
            if "end" in told:
                return
        if over and not part:
            return


class _Story:
    """What was heard of a run so far. `running` is the task that began last, `end` what the supervisor says at last.

    `left` are the processes that could not be ended and are still there, `heard_at` is when the last word came, and
    `unheard` is what came of the next one.
    """

    def __init__(self, say: Callable[[TaskLine], None], hangs: Callable[[Sequence[str]], None] | None) -> None:
        self._say, self.hangs = say, hangs
        self.changed, self.heard_at, self.unheard = 0, 0.0, b""
        self.running = ""
        self.end: Mapping[str, Any] | None = None
        self.left: tuple[str, ...] = ()

    def hear(self, told: Mapping[str, Any]) -> None:
        if "end" in told:
            self.end = told["end"]
            self.left = tuple(told["end"]["left"])
        elif "begun" in told:
            self.running = _one_line(told["begun"])
        else:
            line = TaskLine(_one_line(told["task"]), TaskResult(told["result"]))
            self.changed += line.result is TaskResult.CHANGED
            self._say(line)

    def without_end(self, seconds: float, errors: str) -> RunOutcome:
        """The outcome where the supervisor was killed, and the kernel has killed what it supervised."""
        message = f"the supervising process ended early: {_one_line(errors) or 'somebody killed it'}"
        if self.left:
            message = "the supervising process says nothing, and what runs may go on"
        return RunOutcome(RunEnd.BROKEN, seconds, self.changed, self.running, message, left=self.left)


def _outcome(story: _Story, told: Mapping[str, Any], play: PlaybookRun, seconds: float) -> RunOutcome:
    end, task, message = _ended(told, play, story.running)
    shown = (told["result"] or {}).get("diffs", ())
    diffs = tuple(FileDiff(_one_line(one["task"]), _text(one["text"])) for one in shown)
    return RunOutcome(end, seconds, story.changed, task, message, diffs, story.left)


def _ended(told: Mapping[str, Any], play: PlaybookRun, running: str) -> tuple[RunEnd, str, str]:
    """How a run ended, with the task and the message."""
    if told["why"] == supervisor.ChildEnd.LATE:
        return RunEnd.TIMED_OUT, running, f"it was not done after {play.deadline:g} s, and was ended"
    if told["why"] == supervisor.ChildEnd.ABANDONED:
        return RunEnd.BROKEN, running, "the supervising process was told to end by a signal"
    result = told["result"]
    if result is None:
        return RunEnd.BROKEN, running, f"Ansible ended without a result: {_one_line(told['said'])}"
    code, stats, failed = result["code"], result["stats"], result["failed"]
    if code and failed:
        return RunEnd.FAILED, _one_line(failed["task"]), _one_line(failed["message"])
    if code:
        return RunEnd.BROKEN, "", f"Ansible ended with {code}: {_one_line(result['said'])}"
    if not stats or not stats["processed"] or stats["failures"] or stats["dark"]:
        return RunEnd.BROKEN, "", f"Ansible says that it succeeded, and its summary is {stats}"
    return RunEnd.DONE, "", ""


def _one_line(text: str) -> str:
    """A text of a program as one line that a terminal can show. Its end says most."""
    line = " ".join(_text(text).split())
    return line if len(line) <= MESSAGE else "…" + line[1 - MESSAGE :]


def _text(text: str) -> str:
    """Without what moves a cursor or hides something, but with its lines and tabs."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in ESCAPES.sub("", text))
