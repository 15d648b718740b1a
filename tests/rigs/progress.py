"""Follows a program that takes minutes: each half minute a line on stderr says its progress."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from tests.rigs.ending import ending

EVERY = 30.0  # seconds between two lines: a CI without output gives up after minutes


def say(line: str) -> None:
    """Write a line to stderr at once. stdout is for the program's own output."""
    print(line, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Minutes and seconds: "7:05"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@dataclass(slots=True)
class Heard:
    """The stderr of a program so far: the number of its `steps`, and all other lines."""

    steps: Collection[str] = ()
    done: int = 0
    said: list[str] = field(default_factory=list)

    def hear(self, lines: Iterable[str]) -> None:
        for line in map(str.rstrip, lines):
            if line in self.steps:
                self.done += 1
            elif line:
                self.said.append(line)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: exit code, stdout, stderr without its steps, and the seconds that it took."""

    code: int
    output: str
    said: list[str]
    seconds: float


def follow(
    command: Sequence[str],
    told: Callable[[Heard, float], str],
    *,
    steps: Collection[str] = (),
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    every: float = EVERY,
) -> Ended:
    """Runs a program to its end and says its progress each `every` seconds.

    It dies with us, so a build does not continue after its rig was interrupted.

    Args:
        command: the program and its arguments.
        told: makes the line from the output so far and the seconds that have passed.
        steps: lines on stderr that are a step each, and not an error.
        cwd: where it runs.
        env: its environment; ours if None.
        every: seconds between two lines.
    """
    heard, output, begun = Heard(steps), list[str](), time.monotonic()
    pipe = subprocess.PIPE
    started = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    with ending(started) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout, process.stderr
        readers = [
            Thread(target=lambda: output.append(out.read()), daemon=True),
            Thread(target=lambda: heard.hear(err), daemon=True),
        ]
        for reader in readers:
            reader.start()
        lines = 1
        while True:
            try:
                process.wait(max(0.0, begun + lines * every - time.monotonic()))
                break
            except subprocess.TimeoutExpired:
                say(told(heard, time.monotonic() - begun))
                lines += 1
        for reader in readers:
            reader.join()
    return Ended(process.returncode, "".join(output), heard.said, time.monotonic() - begun)
