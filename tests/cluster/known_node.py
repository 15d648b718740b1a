"""A node of the netns rig of which a real API server keeps the records, and what `nodeprep check` says on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rigs.absent import cannot_start
from tests.rigs.cluster import Cluster
from tests.rigs.netns import Node
from tests.rigs.netns_check import is_late, steadily
from tests.rigs.netns_node import Shape, Unavailable
from tests.rigs.netns_records import NAME, Changes, Object, Records
from tests.rigs.relay import Relay

SHARED_ENIS = Shape(enis=2, pods=2)
BAD = ("warn", "fail", "unknown")


@dataclass(frozen=True, slots=True)
class Fault:
    """Changes of records and shell commands that make it, and what is wrong while it lasts.

    `changes` may be what gives them: they are those of the time at which it is made. `undo` are the commands that undo
    `make`.
    """

    name: str
    says: tuple[str, ...]
    changes: Changes | Callable[[], Changes] = field(default_factory=dict)
    profile: str = "tcp-shared-eni"
    make: str = ""
    undo: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A report of `nodeprep check -o json`."""

    report: dict[str, Any]
    code: int

    def findings(self, *statuses: str) -> list[dict[str, Any]]:
        return [one for one in self.report["findings"] if one["status"] in statuses]

    @property
    def bad(self) -> tuple[str, ...]:
        """What is wrong: "STATUS CHECK REASON", and "< ROOT" for what follows from something else."""
        return tuple(
            f"{one['status']} {one['check']} {one['reason']}" + (f" < {one['root']}" if one["root"] else "")
            for one in self.findings(*BAD)
        )

    def messages(self, check: str) -> list[str]:
        return [one["message"] for one in self.report["findings"] if one["check"] == check]


@dataclass(frozen=True, slots=True)
class Known:
    """The node, its records and the kubeconfig of the administrator."""

    node: Node
    cluster: Cluster
    records: Records
    kubeconfig: Path

    def check(self, profile: str, *more: str, kubeconfig: Path | None = None, hung: Collection[str] = ()) -> Said:
        """With access to the API server, by another kubeconfig if one is given. Checks in `hung` get no answer."""
        access = ("--kubeconfig", str(kubeconfig or self.kubeconfig), "--node", NAME)
        return self.alone(profile, *access, *more, hung=hung)

    def alone(self, profile: str, *more: str, hung: Collection[str] = ()) -> Said:
        words = ("--settle", "0", "--skip", "time.sync", "-o", "json", "--profile", profile, *more)
        return steadily(lambda: self._check(*words), late=lambda said: is_late(said.report, hung))

    def _check(self, *words: str) -> Said:
        done = self.node.run("nodeprep", "check", *words, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return Said(json.loads(done.stdout or done.stderr), done.returncode)

    def shell(self, script: str) -> None:
        """Run it on the node; {table} in it is that of eth1."""
        if "{table}" in script:
            script = script.format(table=self.node.table(1))
        done = self.node.run("sh", "-ec", script, check=False)
        assert done.returncode == 0, done.stderr

    @contextmanager
    def having(self, fault: Fault) -> Iterator[None]:
        changes = fault.changes() if callable(fault.changes) else fault.changes
        with self.records.changed(changes), ExitStack() as after:
            if fault.undo:
                after.callback(self.shell, fault.undo)
            if fault.make:
                self.shell(fault.make)
            yield


@contextmanager
def known(cluster: Cluster, shape: Shape, objects: Callable[[Shape], dict[str, Object]]) -> Iterator[Known]:
    with ExitStack() as stack:
        try:
            node = stack.enter_context(Node(shape))
        except Unavailable as error:
            cannot_start(error)
        stack.enter_context(Relay(node.pid, cluster.port))
        records = stack.enter_context(Records(cluster, objects(shape)))
        yield Known(node, cluster, records, cluster.kubeconfig())
