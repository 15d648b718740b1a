"""The agent under chaos: started, stopped, killed, and its log read line by line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from nodeprep import state_file
from nodeprep.doors.files.state_store import DamagedFile, Store
from tests.rigs.netns import ENVIRONMENT, REPOSITORY, Node

LONG = 60.0  # seconds for a start or an end on a busy machine
LATE = "no whole answer"  # what `nodeprep reset` says of an agent that did not answer in 5 s
PORT = 9842
SHOWN = ("started", "start-trouble", "state", "convicted", "released", "latched")  # in the time line
WORDS = ("from", "to", "state", "check", "subject", "why", "message")

Tell = Callable[..., None]


class Process:
    """One agent on the node at a time. `tell` gets every event, before or after it, as the rules need it.

    `offset` shifts CLOCK_BOOTTIME of the next start. `tampered`: its state file was damaged since the last start.
    `anew`: nothing proves the node at the next start.
    """

    def __init__(self, node: Node, place: Path, tell: Tell) -> None:
        self.node = node
        self.place = place
        self.tell = tell
        self.offset = 0
        self.state = self.first_state = ""
        self.latched = False
        self.tampered = False
        self.anew = False
        self._damaged: dict[str, bytes] = {}  # the content that was damaged before the start, by file
        self.starts = 0
        self.events: Counter[str] = Counter()
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._started = Event()
        self._reader: Thread | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def memory(self) -> Path:
        """The state directory as the node has it mounted."""
        return Path(f"/proc/{self.node.pid}/root{self.place}/state")

    @property
    def run_directory(self) -> Path:
        return self.place / "run"

    @property
    def socket_directory(self) -> Path:
        """Where its state file is kept if the state directory has no room."""
        return self.place / "socket"

    @property
    def where(self) -> tuple[str, ...]:
        """The options for its directories."""
        return tuple(word for name in ("state", "run", "socket") for word in (f"--{name}-dir", f"{self.place}/{name}"))

    def argv(self, *words: str) -> list[str]:
        inside = ["nsenter", "-t", str(self.node.pid), "-n", "-m", f"--wd={REPOSITORY}"]
        shifted = ["unshare", "--time", "--boottime", str(self.offset), "--"]
        return [*inside, *shifted, sys.executable, "-m", "nodeprep", *words]

    def start(self) -> None:
        """Start it and wait until it says so."""
        words = ("agent", "--config", f"{self.place}/etc/config.yaml", *self.where, "--port", str(PORT))
        self._started.clear()
        self._damaged = {one.path: _content(one.path) for one in self.damage()}
        self.starts += 1
        self.latched = False
        self._process = subprocess.Popen(
            self.argv(*words), stderr=subprocess.PIPE, text=True, errors="replace", env={**os.environ, **ENVIRONMENT}
        )
        self._reader = Thread(target=self._read, args=(self._process, self.tampered), daemon=True)
        self._reader.start()
        if not self._started.wait(LONG) or self._process.poll() is not None:
            self.tell("wrong", text=f"the agent did not start in {LONG:g} s: {self.lines[-3:]}")
        if self.anew and self.first_state != "Bootstrap":
            self.tell("wrong", text=f"nothing vouched for the node, and the agent began as {self.first_state}")
        self.tampered = self.anew = False
        self.tell("started", pid=self._process.pid)

    def refuses(self) -> None:
        """Start it although it must not run: it says why in one line and exits 2."""
        done = subprocess.run(
            self.argv("agent", "--config", f"{self.place}/etc/config.yaml", *self.where, "--port", "0"),
            capture_output=True, text=True, check=False, timeout=LONG, env={**os.environ, **ENVIRONMENT},
        )  # fmt: skip
        if done.returncode != 2 or len(done.stderr.strip().splitlines()) != 1:
            self.tell("wrong", text=f"a bad configuration: exit {done.returncode}, {done.stderr[:300]!r}")

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> None:
        """End it, and check that its state file is whole."""
        assert self._process is not None
        assert self._reader is not None
        self.tell("ending", by=number.name)
        self.send(number)
        code = self._process.wait(LONG)
        self._reader.join(LONG)
        self._process = None
        wanted = 0 if number is signal.SIGTERM else -number
        if code != wanted:
            self.tell("wrong", text=f"after {number.name} the agent exited {code}, wanted {wanted}: {self.lines[-3:]}")
        if self.tampered:
            return
        for one in self.damage():
            if self._damaged.get(one.path) == _content(one.path):
                self.tampered = self.anew = True  # it ended before it wrote there, so the next start reads the damage
            else:
                self.tell("wrong", text=f"after {number.name} the memory is not whole: {one}")

    def store(self) -> Store:
        return Store(str(self.memory), str(self.socket_directory))

    def believes_closed(self) -> bool:
        """Whether no gate is open by its state file."""
        loaded = state_file.load(self.store())
        return loaded.agent_state is None or not loaded.agent_state.gates

    def damage(self) -> list[DamagedFile]:
        return list(self.store().load().damaged)

    def reset(self) -> None:
        """Reset it as a human would, who asks again if the agent is late.

        It may be reset at any time between the two events. An opening is judged from the second on, by the time of the
        first.
        """
        self.tell("reset")
        since = now()
        while True:
            done = self.node.run("nodeprep", "reset", "--socket-dir", f"{self.place}/socket", check=False)
            if LATE not in done.stderr or now() - since > LONG:
                break
        self.tell("was-reset", since=since)
        self.latched = False
        if done.returncode:
            self.tell("wrong", text=f"nodeprep reset: exit {done.returncode}: {done.stderr.strip()[-300:]}")

    def _read(self, process: subprocess.Popen[str], tampered: bool) -> None:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            self.lines = [*self.lines[-20:], line.rstrip()]
            try:
                entry: dict[str, Any] = json.loads(line)
                event = entry["event"]
            except (ValueError, KeyError, TypeError):
                self.tell("wrong", text=f"a line of the log is no JSON: {line.strip()[:300]!r}")
                continue
            if "Traceback" in line:
                self.tell("wrong", text=f"a traceback in the log: {line.strip()[:3000]}")
            said.append(event)
            self._heard(event, entry)
        # The trouble is the line after the start's, and a SIGKILL may come between the two.
        if tampered and said[:1] == ["started"] and said[1:] and "start-trouble" not in said:
            self.tell("wrong", text="the memory was damaged before a start, and the log does not say so")

    def _heard(self, event: str, entry: dict[str, Any]) -> None:
        self.events[event] += 1
        if event == "started":
            self.state = self.first_state = entry["state"]
            self._started.set()
        elif event == "state":
            self.state = entry["to"]
        elif event == "latched":
            self.latched = True
        if event in SHOWN:
            words = " ".join(str(entry[key]) for key in WORDS if key in entry)
            self.tell("log", line=f"{event} {words[:150]}")


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def _content(path: str) -> bytes:
    return Path(path).read_bytes()
