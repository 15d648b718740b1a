"""Agents in mode repair on nodes of the netns rig, each with a remediator, before a real API server.

Real here: both programs and their sockets, files and signals, Ansible, the node's links, the API server. The agent's
waits are shortened by an argument that nothing shipped has. `ip` of the node is a script that writes down what a
playbook has it do; it does that, only says so, or waits. Where minutes must pass, both programs start again in a time
namespace whose CLOCK_BOOTTIME is ahead, as on a machine that was suspended.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodeprep.agent_state import PastAttempt
from nodeprep.decide import attempt_note, fleet_notes
from tests.cluster import accounts, published_node
from tests.cluster.published_node import LEASES, NODES, SHIPPED, Published
from tests.rigs.agent import LONG, PROGRAM, Agent
from tests.rigs.api_proxy import Proxy
from tests.rigs.cluster import Cluster
from tests.rigs.netns import REPOSITORY, Node
from tests.rigs.netns_check import checked
from tests.rigs.netns_node import KUBECONFIG, Shape
from tests.rigs.relay import Relay
from tests.rigs.remediator_process import Remediator
from tests.rigs.waiting import until

SLOT, NEW_SLOT = "nodeprep-slot-", "nodeprep-slot-bootstrap-"
FLEET = "nodeprep-repair"
RIGHTS = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]}]
WAITS = "settled=0.5,conviction=1,passes=1,unknown=1,silent=2,retry=1"
PROFILE = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: links\ngates: [eni.up]\n"
REPAIRS = "repair: {tries: 3, deadline: {safe: 600}}\n"
LIMIT = 240.0  # seconds; on a machine that is busy a play and the looks after it take more than the 30 of an idle one
TABLE = "/run/ip-calls"
HELD = b"/usr/local/sbin/ip"
# In the node's mount namespace: before a playbook calls `ip`, it calls this.
SCRIPT = f"""#!/bin/sh
case "$*" in
  "link set dev "*" up") echo "$4" >>{TABLE}; [ ! -e /run/ip-lies-"$4" ] || exit 0
    while [ -e /run/ip-waits ]; do sleep 0.05; done ;;
esac
exec "$(PATH=/usr/sbin:/sbin:/usr/bin:/bin command -v ip)" "$@"
"""


def configuration(mode: str = "repair", more: str = REPAIRS, limit: float = LIMIT) -> str:
    """Less patience than the defaults, and links may flap for ever. A remedy has `limit` seconds to help."""
    return f"""\
apiVersion: nodeprep.io/v1
kind: Config
mode: {mode}
default: links.yaml
gate: {{profiles: [links]}}
confirmation: {{passes: 2, pass-span: 1, pass-every: 0.5, flap-window: 1}}
readiness: {{validation-limit: {limit:g}, remedy-after: 0}}
{more}"""


@contextmanager
def terway_nodes(count: int) -> Iterator[list[Node]]:
    """So many nodes, each with one ENI and a pod on it."""
    with ExitStack() as stack:
        yield [stack.enter_context(checked(Shape(enis=1, pods=1))).node for _ in range(count)]


@dataclass(slots=True)
class ClockedAgent(Agent):
    """An agent whose CLOCK_BOOTTIME is so many seconds ahead of this machine's."""

    ahead: int = 0

    def argv(self, *more: str) -> list[str]:
        return [*clocked(self.ahead), *Agent.argv(self, *more)]


def clocked(ahead: int) -> tuple[str, ...]:
    """The words before a command that give it such a clock."""
    return ("unshare", "--time", f"--boottime={ahead}") if ahead else ()


@dataclass(slots=True)
class Repaired(Published):
    """A Node with its agent, and the remediator of its node. `release` is what the remediator runs, None for ours."""

    agent: ClockedAgent
    remediator: Remediator
    serving: ExitStack
    release: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        """A remediator runs on the node, the first one or another one after that."""
        self.serving.close()
        before = (*clocked(self.agent.ahead), *entering(self.node))
        of_release = ("env", f"PYTHONPATH={self.release}") if self.release is not None else ()
        program = (*of_release, sys.executable, "-m", "nodeprep")
        self.remediator = Remediator(self.remediator.directory, before=before, program=program)
        self.process = self.serving.enter_context(self.remediator.serving())

    def replace_remediator(self, release: Path | None) -> None:
        """A rollout: it ends as the kubelet has it end, and another release takes its place, ours if it is None."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=LONG) == 0
        self.release = release
        self.serve()

    def replace_agent(self, release: Path | None) -> None:
        """The same of the agent."""
        assert self.agent.stop() == 0
        self.agent.variables.pop("PYTHONPATH", "")
        if release is not None:
            self.agent.variables["PYTHONPATH"] = str(release)
        self.agent.start()

    def leap(self, seconds: int) -> None:
        """So much later, by their own clock, agent and remediator run again."""
        self.agent.kill()
        self.agent.ahead += seconds
        self.serve()
        self.agent.start()

    def down(self, link: str = "eth1") -> None:
        """The fault: somebody set the link down."""
        self.node.ip("link", "set", link, "down")

    def up(self, link: str = "eth1") -> None:
        self.node.ip("link", "set", link, "up")

    @property
    def node(self) -> Node:
        assert self.agent.node is not None
        return self.agent.node

    def is_up(self, link: str = "eth1") -> bool:
        return "UP" in json.loads(self.node.ip("-j", "link", "show", link))[0]["flags"]

    def calls(self) -> list[str]:
        """Which links playbooks set up, in their order."""
        return self.node.run("cat", TABLE).stdout.split()

    def lies(self, link: str, *, lies: bool) -> None:
        """Whether what a playbook does to a link is only said to be done."""
        self.node.run("touch" if lies else "rm", f"/run/ip-lies-{link}")

    def waits(self, *, waits: bool) -> None:
        """Whether a playbook is held in its middle."""
        self.node.run("touch" if waits else "rm", "/run/ip-waits")

    def in_their_middle(self) -> list[int]:
        """The processes of playbooks that are held on this node, by our numbers."""
        here, found = Path(f"/proc/{self.node.pid}/ns/net").stat().st_ino, []
        for one in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it ended meanwhile; a zombie has no namespaces
                if HELD in (one / "cmdline").read_bytes() and (one / "ns/net").stat().st_ino == here:
                    found.append(int(one.name))
        return found

    def step(self, step: str, number: int = 1) -> None:
        """Returns when the agent that runs now has said so often that a repair has come to this step."""
        self.agent.wait("repair-step", number, step=step)

    def steps(self, step: str) -> int:
        """How often it has said so."""
        return len(self.agent.lines("repair-step", step=step))

    def held(self, number: int = 1) -> None:
        """Returns when so many requests, since the last `lift`, wait for an answer that never comes."""
        what = f"{number} requests of {self.name} that are held"
        until(lambda: sum(asked.held for asked in self.proxy.requests) >= number, what)

    def lift(self) -> None:
        """Requests are answered again."""
        self.proxy.lift()
        for asked in self.proxy.requests:
            asked.held = False

    def mended(self) -> None:
        """The gate is open again, and all is over."""
        until(lambda: self.is_open() and not self.repair()["step"], f"{self.name} is mended")

    def repair(self) -> dict[str, Any]:
        """What the agent says of its repairs."""
        return dict(self.agent.report()["agent"]["repair"])

    def records(self) -> list[dict[str, Any]]:
        """The remediator's ledger: a record for each beginning and each end."""
        return self.remediator.records() if self.remediator.ledger.exists() else []

    def ran(self) -> list[tuple[float, float]]:
        """When each of its runs began and ended, in seconds since 1970, by the remediator's ledger."""
        records = self.records()
        began = {one["id"]: one["at"] for one in records if one["state"] == "began"}
        return [(began[one["id"]], one["at"]) for one in records if one["state"] != "began"]

    def outcomes(self) -> list[str]:
        """Of its attempts that are over, oldest first."""
        return [one["outcome"] for one in self.repair()["attempts"]]

    def suppressed(self) -> dict[str, str]:
        """Why remedies that are due do not run, by check."""
        return {one["check"]: one["reason"] for one in self.repair()["suppressed"]}

    def kept_by_the_node(self) -> tuple[PastAttempt, ...]:
        """The attempts that its Node keeps, oldest first."""
        return attempt_note.attempts(self.annotations().get(attempt_note.ATTEMPTS, "")) or ()

    def note(self) -> dict[str, Any]:
        """What its Lease tells the other agents."""
        told = (self.lease() or {}).get("metadata", {}).get("annotations", {}).get(fleet_notes.NOTE, "{}")
        return dict(json.loads(told))

    def told(self) -> list[tuple[str, str]]:
        """Reason and message of its Events about repairs."""
        return [(one["reason"], one["message"]) for one in self.events() if one["reason"].startswith("Repair")]


@contextmanager
def fleet(cluster: Cluster, slots: int = 1, new: int = 2) -> Iterator[ExitStack]:
    """What components/repair has for all agents: the Leases, of so many slots for nodes that serve and for new ones.

    Agents that enter the stack end before these go.
    """
    cluster.namespace("nodeprep")
    names = (FLEET, *(f"{SLOT}{one}" for one in range(slots)), *(f"{NEW_SLOT}{one}" for one in range(new)))
    for name in names:
        cluster.create(LEASES, {"metadata": {"name": name}})
    try:
        with ExitStack() as agents:
            yield agents
    finally:
        for name in names:
            cluster.call("DELETE", f"{LEASES}/{name}")


def entering(node: Node) -> tuple[str, ...]:
    """The words before a command that has to run on a node."""
    return ("nsenter", "-t", str(node.pid), "-n", "-m", f"--wd={REPOSITORY}")


def holder(cluster: Cluster, slot: str = f"{SLOT}0") -> str:
    spec = cluster.call("GET", f"{LEASES}/{slot}")[1].get("spec") or {}
    return str(spec.get("holderIdentity") or "")


def now(ago: float = 0.0) -> str:
    """As Kubernetes writes the time."""
    return datetime.fromtimestamp(time.time() - ago, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def hold_slot(cluster: Cluster, node: str | None, seconds: int = 600, ago: float = 0.0) -> None:
    """Somebody takes the slot, or gives it back."""
    at = now(ago)
    spec = {"holderIdentity": node, "leaseDurationSeconds": node and seconds, "renewTime": node and at}
    code, told = cluster.call("PATCH", f"{LEASES}/{SLOT}0", {"spec": spec})
    assert code == 200, told


def pass_time(cluster: Cluster) -> None:
    """The slot as it is when the time of its holder is just over."""
    spec = cluster.call("GET", f"{LEASES}/{SLOT}0")[1]["spec"]
    ago = spec["leaseDurationSeconds"] + fleet_notes.SKEW_SECONDS + 1
    code, told = cluster.call("PATCH", f"{LEASES}/{SLOT}0", {"spec": {"renewTime": now(ago)}})
    assert code == 200, told


def order(cluster: Cluster, key: str, value: str | None) -> None:
    """What a human writes on the Lease of the fleet."""
    code, told = cluster.call("PATCH", f"{LEASES}/{FLEET}", {"metadata": {"annotations": {key: value}}})
    assert code == 200, told


@contextmanager
def repaired(
    cluster: Cluster,
    node: Node,
    directory: Path,
    name: str,
    *,
    config: str = "",
    waits: str = WAITS,
    serves: bool = True,
    new: bool = False,
    profile: str = PROFILE,
) -> Iterator[Repaired]:
    """A Node whose agent is Ready, with what it has as its account from the shipped manifests.

    `waits` are those of repairs, "" for what ships. `serves`: a remediator runs on its node. `new`: its agent is not
    started yet, and was never.
    """
    published_node.create(cluster, name)
    token = accounts.account(cluster, name, [*accounts.RULES, *SHIPPED, *RIGHTS])
    place = directory / name
    place.mkdir()
    node.run("sh", "-c", f"mkdir -p /usr/local/sbin && mount -t tmpfs rig /usr/local/sbin && : >{TABLE}")
    node.run("sh", "-c", "cat >/usr/local/sbin/ip && chmod 755 /usr/local/sbin/ip", text=SCRIPT)
    node.run("sh", "-c", "mkdir -p /etc/kubernetes && cat >/etc/kubernetes/kubelet.conf", text=KUBECONFIG)
    with Proxy(cluster) as proxy, Relay(node.pid, proxy.port):
        file = cluster.kubeconfig({"token": token}, {"server": proxy.url})
        options = ("--kubeconfig", str(file), "--node", name, *(("--repair-waits", waits) if waits else ()))
        agent = ClockedAgent(place, node, 0, (*PROGRAM, *options))
        agent.variables = {"NODEPREP_REMEDIATOR_DIR": f"{place}/remediator/socket"}
        agent.configure(config or configuration())
        (agent.config.parent / "links.yaml").write_text(profile)
        (place / "remediator").mkdir()
        made = Repaired(cluster, name, proxy, agent, Remediator(place / "remediator"), ExitStack())
        try:
            with made.serving, ExitStack() as ended:
                if serves:
                    made.serve()
                if new:
                    ended.push(agent)
                    yield made
                    return
                ended.enter_context(agent)
                until(lambda: made.is_open() and made.lease() is not None, f"{name} is open, and its agent has a Lease")
                yield made
        finally:
            made.up()
            node.run("sh", "-c", "umount /usr/local/sbin; rm -f /run/ip-*")
            cluster.call("DELETE", f"{NODES}/{name}")
            cluster.call("DELETE", f"{LEASES}/agent-{name}")
            accounts.remove(cluster, name)
