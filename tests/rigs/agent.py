"""`nodeprep agent` for tests, on this machine or on a node of the netns rig. Tests read its log, pages and gate files.

    python tests/rigs/agent.py deaf --config FILE --state-dir DIR --run-dir DIR --socket-dir DIR     # without any event
    source

Real here: the program, its process, files, sockets and signals. The configuration has shorter times than the defaults,
so that a node is ready after seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nodeprep.cli.daemon.directories import SOCKET
from tests.rigs.netns import ENVIRONMENT, Node
from tests.rigs.waiting import until

Line = dict[str, Any]  # of the log
Found = TypeVar("Found")
PROGRAM, DEAF = ("-m", "nodeprep", "agent"), (__file__, "deaf")
LONG = 180.0  # seconds; everything here takes less, on a busy machine too
SOONER = 20.0  # seconds; less than every period, which is 30 or more
PASSES, SPAN, EVERY = 2, 2.0, 0.5
GATES = ("eni.up", "route.default", "route.out", "cni.parse")  # none asks Kubernetes
CONFIGURATION = f"""\
apiVersion: nodeprep.io/v1
kind: Config
mode: gate
default: mine.yaml
gate: {{profiles: ["*"]}}
confirmation: {{passes: {PASSES}, pass-span: {SPAN:g}, pass-every: {EVERY:g}}}
"""
PROFILE = f"""\
apiVersion: nodeprep.io/v1
kind: Profile
name: mine
gates: [{", ".join(GATES)}]
"""
OPEN = {"mine.device", "mine.ready"}  # the gate files of that profile
GET = """
import http.client, sys
link = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
link.request("GET", sys.argv[2])
answer = link.getresponse()
print(answer.status, answer.read().decode(), sep="\\n", end="")
"""
SAMPLE = re.compile(r"(?m)^([a-z_]+(?:\{[^}]*\})?) (\S+)$")


def at(line: Line) -> float:
    """When a line was logged, in seconds since 1970."""
    return datetime.fromisoformat(line["time"]).timestamp()


@dataclass(slots=True)
class Agent:
    """One agent's directories, and its process while it runs. Leaving the context kills a process that still runs.

    `directory` holds the configuration and the log, and also the directories of state, gate files and socket unless
    others are given. `node` is where it runs, None for this machine. Agents of one node need ports of their own.
    `variables` are more of its environment.
    """

    directory: Path
    node: Node | None = None
    port: int = 0
    program: tuple[str, ...] = PROGRAM
    config: Path = Path()
    state: Path = Path()
    run: Path = Path()
    socket: Path = Path()
    variables: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _marks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.config = self.directory / "conf/config.yaml" if self.config == Path() else self.config
        self.state = self.directory / "state" if self.state == Path() else self.state
        self.run = self.directory / "run" if self.run == Path() else self.run
        self.socket = self.directory / "socket" if self.socket == Path() else self.socket
        self.configure(CONFIGURATION)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        if error is not None:
            print(self.log.read_text() if self.log.exists() else "no log")

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def configure(self, text: str) -> None:
        """Replace the configuration; the profile lies beside it."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        (self.config.parent / "mine.yaml").write_text(PROFILE)
        new = self.config.with_suffix(".new")
        new.write_text(text)
        new.replace(self.config)

    def argv(self, *more: str) -> list[str]:
        """The command that starts it, from here."""
        on_it = ["nsenter", "-t", str(self.node.pid), "-n", "-m"] if self.node else []
        named = {"config": self.config, "state-dir": self.state, "run-dir": self.run, "socket-dir": self.socket}
        places = [word for name, place in named.items() for word in (f"--{name}", str(place))]
        return [*on_it, sys.executable, *self.program, *places, "--port", str(self.port), *more]

    def start(self) -> Self:
        """Start one; it appends to the same log."""
        with self.log.open("ab") as log:
            self._marks.append(log.tell())
            self._process = subprocess.Popen(
                self.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment() | self.variables
            )
        return self

    def kill(self) -> None:
        """As kill -9 does."""
        self.signal(signal.SIGKILL)
        self.ended()

    def stop(self) -> int:
        """As the kubelet does; its exit code."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Its exit code, once it has one."""
        assert self._process is not None
        return self._process.wait(timeout=LONG)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def lines(self, event: str = "", **fields: object) -> list[Line]:
        """The log lines since the last start: those of one event if it is given, and with these fields."""
        with self.log.open("rb") as log:
            log.seek(self._marks[-1])
            whole = log.read().rpartition(b"\n")[0].splitlines()
        told = [json.loads(line) for line in whole]
        return [one for one in told if event in ("", one["event"]) and fields.items() <= one.items()]

    def wait(self, event: str, number: int = 1, **fields: object) -> Line:
        """The `number`th such line; waits for it."""

        def found() -> list[Line]:
            assert self._process is not None
            lines = self.lines(event, **fields)
            assert lines or self._process.poll() is None, f"it ended with {self._process.poll()}"
            return lines[number - 1 :]

        return until(found, f"{event} {fields} ({number}) in {self.log}")[0]

    def ready(self) -> Line:
        """The first line that says Ready; waits for it and for the gate files."""
        line = self.wait("state", to="Ready")
        until(lambda: self.gates() == OPEN, "gate file")
        return line

    def gates(self) -> set[str]:
        """The gate files that are there."""
        names = {one.name for one in self.run.iterdir()} if self.run.exists() else set()
        return {name for name in names if name.endswith((".device", ".ready"))}

    def report(self) -> dict[str, Any]:
        """The content of `/report`; waits until the agent listens and has looked at something."""

        def told() -> dict[str, Any] | None:
            with suppress(OSError):
                found = self.local("/report")
                return found if found["report"] else None
            return None

        found = until(told, "report")
        assert found is not None
        return found

    def local(self, page: str) -> dict[str, Any]:
        """The content of a page of the unix socket now. Raises OSError."""
        answer = b""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(LONG)
            link.connect(str(self.socket / SOCKET))
            link.sendall(f"GET {page} HTTP/1.0\r\n\r\n".encode())
            while piece := link.recv(1 << 16):
                answer += piece
        found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
        return found

    def condition(self, kind: str = "nodeprep.io/TrainingReady") -> dict[str, str]:
        found: dict[str, str]
        (found,) = (one for one in self.report()["agent"]["conditions"] if one["type"] == kind)
        return found

    def page(self, name: str) -> tuple[int, str]:
        """Status and text of a page that it serves to the network."""
        status, _, text = self.do("python", "-c", GET, str(self.port), name).stdout.partition("\n")
        return int(status), text

    def metrics(self) -> dict[str, float]:
        return {name: float(value) for name, value in SAMPLE.findall(self.page("/metrics")[1])}

    def do(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command where the agent runs; "nodeprep" finds its state file."""
        directories = {"STATE": self.state, "RUN": self.run, "SOCKET": self.socket}
        where = [f"NODEPREP_{name}_DIR={place}" for name, place in directories.items()]
        ours = {"nodeprep": (sys.executable, "-m", "nodeprep"), "python": (sys.executable,)}
        words = (*ours.get(argv[0], argv[:1]), *argv[1:])
        if self.node is not None:
            return self.node.run("env", *where, *words, check=check)
        command = ("env", *where, *words)
        return subprocess.run(command, capture_output=True, text=True, check=check, env=environment(), timeout=LONG)


def environment() -> dict[str, str]:
    """As on a node of the netns rig, without the variables of the tester's own agent."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("NODEPREP")}
    return {**ours, **ENVIRONMENT, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin"}


def deaf(words: list[str]) -> None:
    """Run `nodeprep agent` without event sources, locks and pages for the network."""
    from nodeprep.agent import loop
    from nodeprep.cli import place
    from nodeprep.cli.daemon import agent_command as command
    from nodeprep.cli.kubernetes_access import NO_CLUSTER
    from nodeprep.config import configuration
    from nodeprep.doors import clock
    from nodeprep.doors.events.listener import EventSources
    from nodeprep.doors.files.state_store import Store
    from nodeprep.publish import log_lines, web
    from nodeprep.publish.web import LocalPages

    parser = argparse.ArgumentParser()
    for name in ("--config", "--state-dir", "--run-dir", "--socket-dir", "--port"):
        parser.add_argument(name, required=True)
    given = parser.parse_args(words)
    for directory in (given.state_dir, given.run_dir, given.socket_dir):
        Path(directory).mkdir(exist_ok=True)
    log_lines.to_stderr()
    means = loop.AgentParts(
        place.place(None, None, NO_CLUSTER).host,
        lambda: configuration.load_settings(given.config, clock.today()),
        EventSources(sources=()),
        Store(given.state_dir, given.socket_dir),
        given.run_dir,
    )
    one = loop.Agent(means, means.read_settings())
    with web.serve_local(Path(given.socket_dir, SOCKET), LocalPages(lambda: command.report(one), one.forget)):
        one.run()


if __name__ == "__main__":
    deaf(sys.argv[2:])
