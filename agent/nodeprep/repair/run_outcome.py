"""How a run of a remedy ended, for whoever ran it or had it run.

The agent has the remediator run remedies, so it loads this and nothing that runs one.
"""

from __future__ import annotations

from nodeprep.newer_python import StrEnum
from nodeprep.values import Value


class TaskResult(StrEnum):
    """How a task ended. In a check, CHANGED means that it would change something."""

    OK = "ok"
    CHANGED = "changed"
    SKIPPED = "skipped"
    FAILED = "failed"


class TaskLine(Value):
    """A task that has ended."""

    task: str
    result: TaskResult


class RunEnd(StrEnum):
    """How a run ended. Only DONE says that every task ran, and none says that the fault is gone."""

    DONE = "done"
    FAILED = "failed"  # a task failed
    TIMED_OUT = "timed-out"  # the deadline came, and everything was ended
    BROKEN = "broken"  # Ansible did not start, was ended by somebody else, or says what cannot be


class FileDiff(Value):
    """What a task would change in a file, as a unified diff."""

    task: str
    text: str


class RunOutcome(Value):
    """How a run ended, after `seconds`.

    `changed` counts the tasks that changed something, up to the end. `failed_task` is the one that failed, or that ran
    when the deadline came; `message` says why. `left` names processes that could not be ended: they
    sleep in the kernel.
    """

    end: RunEnd
    seconds: float
    changed: int = 0
    failed_task: str = ""
    message: str = ""
    diffs: tuple[FileDiff, ...] = ()
    left: tuple[str, ...] = ()
