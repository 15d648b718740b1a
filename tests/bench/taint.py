"""From a link that goes down to the API server's answer to the scheduler, and the requests of a quiet agent.

    python tests/bench/taint.py latency [--flaps N] [--agents N]     # kernel event -> taint, condition, label gone
    python tests/bench/taint.py requests [--minutes N] [--ack]       # requests of one quiet agent, by the audit log

Each agent is the real process on an ECS node of the netns rig, with a token bound to a pod of its Node, behind a real
API server with the shipped admission policy. Its configuration, its profile and its default confirmation are printed.
The link is an ENI's; tests/bench/port.py is the same for an RDMA port. Times are CLOCK_BOOTTIME of one machine. An
ioctl sets the link down in the node's namespace, and a raw watch of Nodes says when the server announced the change.
After two faults an agent is reset, because by default the third would be latched. Each agent has as many faults:
--flaps is rounded up.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from nodeprep.config.agent_settings import AgentSettings
from nodeprep.decide.desired import TRAINING_READY, GatePolicy
from tests.bench import limits
from tests.bench.agent import LINK, boottime, set_link
from tests.bench.limits import Figure, latencies, quantiles
from tests.bench.options import Options, decimal, whole
from tests.cluster.agents import bound_token
from tests.cluster.known_node import SHARED_ENIS
from tests.rigs.agent import Agent
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.netns import Node
from tests.rigs.netns_node import Shape, Unavailable
from tests.rigs.netns_records import NAME, Records, shared
from tests.rigs.relay import Relay, entered
from tests.rigs.waiting import until

SHIPPED = Path(__file__).resolve().parents[2] / "daemonset"
INSTALLED = ("base/namespace", "base/account", "base/admission-policy", "components/alibaba/records")
NAMES = GatePolicy()
CONFIG = "apiVersion: nodeprep.io/v1\nkind: Config\nmode: gate\ndefault: {}\ngate: {{profiles: ['*']}}\n"
PROFILE = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: mine\ngates: [eni.up]\n"
LIMIT, LEAST = 1.0, 0.45  # seconds; design 7; a value below the least says that confirmation was off
# All requests of a quiet agent in a minute. On ACK it reads more records (design 3.5).
ELSEWHERE, ON_ACK = 3, 4
OFTEN, SELDOM = ("renewal", "look", "dry run"), 10.0  # about each minute; minutes between two others
LONG = 120.0
SETTLE = 3.0  # seconds from ready to the next fault: calm, so that its first event starts a look at once
TOGETHER = timedelta(seconds=10)  # seconds that requests of one observation take
FAULTS = 2  # before a reset: by default the third release within half an hour latches


@dataclass
class Announced:
    """The result of a watch of Nodes: by Node, since when (boot time) it is tainted, and not ready; which are ready."""

    cluster: Cluster
    taint: dict[str, float | None] = field(default_factory=dict)
    unready: dict[str, float | None] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def follow(self) -> None:
        """Listen as long as the server runs. It ends the watch of who cannot keep up: then all Nodes are read again."""
        with suppress(OSError, ValueError, KeyError, http.client.HTTPException):
            while True:
                nodes = self.cluster.call("GET", "/api/v1/nodes")[1]
                for node in nodes["items"]:
                    self.take(node, boottime())
                link = self.cluster.link()
                assert link.sock is None
                link.timeout = None
                link.request("GET", f"/api/v1/nodes?watch=1&resourceVersion={nodes['metadata']['resourceVersion']}")
                for line in link.getresponse():
                    at = boottime()
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    self.take(event["object"], at)
                link.close()

    def take(self, node: dict[str, Any], at: float) -> None:
        name = node["metadata"]["name"]
        tainted = any(one["key"] == NAMES.unhealthy_taint for one in node["spec"].get("taints", []))
        said = {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
        with self._news:
            for book, holds in ((self.taint, tainted), (self.unready, said.get(TRAINING_READY) == "False")):
                if not holds:
                    book[name] = None
                elif book.get(name) is None:
                    book[name] = at
            (self.ready.discard if tainted or said.get(TRAINING_READY) != "True" else self.ready.add)(name)
            self._news.notify_all()

    def wait(self, what: Callable[[], bool], why: str, seconds: float = LONG) -> None:
        with self._news:
            if not self._news.wait_for(what, seconds):
                raise TimeoutError(f"after {seconds:g} s still not {why}")


def agent(cluster: Cluster, stack: ExitStack, name: str, shape: Shape, profile: str) -> Agent:
    """An agent with all defaults on the node of that name, which has a Node object."""
    node = stack.enter_context(Node(shape))
    stack.enter_context(Relay(node.pid, cluster.port))
    place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    file = cluster.kubeconfig({"token": bound_token(cluster, name)})
    access = ("--kubeconfig", str(file), "--node", name)
    made = Agent(place, node, program=("-m", "nodeprep", "agent", *access))
    made.configure(CONFIG.format(profile))
    (made.config.parent / "mine.yaml").write_text(PROFILE)
    return stack.enter_context(made)


@contextmanager
def installed() -> Iterator[Cluster]:
    """An API server with the shipped account, rights and admission policy."""
    with Cluster() as cluster:
        for file in INSTALLED:
            cluster.apply(SHIPPED / f"{file}.yaml")
        yield cluster


@contextmanager
def agents(cluster: Cluster, count: int) -> Iterator[dict[str, Agent]]:
    """Agents, each on a node of its own. Kubernetes knows only the names of these nodes."""
    shape = Shape(enis=1, pods=2)
    with ExitStack() as stack:
        names = [f"bench-{number}" for number in range(count)]
        for name in names:
            cluster.create("/api/v1/nodes", {"metadata": {"name": name}})
        yield {name: agent(cluster, stack, name, shape, "./mine.yaml") for name in names}


@contextmanager
def on_ack(cluster: Cluster) -> Iterator[Agent]:
    """The agent of a node whose pods share ENIs, with all records of ACK and the profile for it."""
    with Records(cluster, shared(SHARED_ENIS)), ExitStack() as stack:
        yield agent(cluster, stack, NAME, SHARED_ENIS, "tcp-shared-eni")


def flap(said: Announced, name: str, agent: Agent, faults: int, chance: float) -> list[tuple[float, float]]:
    """The times of each fault of one node, up to the first that the Node does not show."""
    took: list[tuple[float, float]] = []
    time.sleep(chance)
    for number in range(faults):
        try:
            took.append(fault(said, name, agent))
        except TimeoutError as error:
            limits.complain(error)
            break
        if number % FAULTS == FAULTS - 1:
            agent.do("nodeprep", "reset")
    return took


def fault(said: Announced, name: str, agent: Agent) -> tuple[float, float]:
    """Seconds from the end of a node's link to its taint, and to its condition."""
    said.wait(lambda: name in said.ready, f"ready: {name}")
    time.sleep(SETTLE)
    assert agent.node is not None
    down = entered(agent.node.pid, lambda: set_link(LINK, up=False))
    said.wait(lambda: None not in (said.taint.get(name), said.unready.get(name)), f"tainted: {name}")
    tainted, unready = said.taint[name], said.unready[name]
    assert tainted is not None
    assert unready is not None
    entered(agent.node.pid, lambda: set_link(LINK, up=True))
    return tainted - down, unready - down


def latency(flaps: int, count: int) -> list[Figure]:
    defaults = AgentSettings()
    rules = {
        kind.name.lower(): f"{rule.fails} of {rule.of} looks, {rule.least_span:g} s"
        for kind, rule in defaults.confirmation.rules.items()
    }
    print(f"configuration:\n{CONFIG.format('./mine.yaml')}profile:\n{PROFILE}", end="")
    print(
        f"defaults: {rules}; release after {defaults.confirmation.passes} passes "
        f"over {defaults.confirmation.pass_span:g} s"
    )
    print(f"each fault {SETTLE:g} s after the Node was ready; `nodeprep reset` after every {FAULTS} faults of a node")
    with installed() as cluster, agents(cluster, count) as started:
        said = Announced(cluster)
        threading.Thread(target=said.follow, daemon=True).start()
        with ThreadPoolExecutor(count) as pool:
            each = -(-flaps // count)
            jobs = [
                pool.submit(flap, said, name, agent, each, number * 40.0 / count)
                for number, (name, agent) in enumerate(started.items())
            ]
            took = [one for job in jobs for one in job.result()]
    print(f"{len(took)} faults of {LINK} on {count} nodes")
    figures = [Figure("faults that the Node told of", len(took), least=each * count)]
    for number, what in enumerate(("taint", "condition")):
        seconds = [one[number] for one in took]
        print(f"link down -> {what:10} {quantiles(seconds)}  limit of p99 {LIMIT * 1e3:.0f} ms, none below {LEAST} s")
        figures += latencies(f"link down -> {what}", seconds, LIMIT, LEAST)
    return figures


def kind(event: dict[str, Any], after: dict[str, Any]) -> str:
    """The purpose of a request of the agent, by the audit log and by the request `after` it."""
    uri, asked = event["requestURI"], (event["verb"], event["objectRef"]["resource"])
    if "dryRun=All" in uri:
        return "dry run"
    if asked == ("patch", "leases"):
        return "renewal"
    if asked == ("patch", "nodes"):
        return "refresh"
    # To write its conditions again it reads the Node from the store, not from the server's memory. It is a look, too.
    writes = after and (after["verb"], after["objectRef"]["resource"]) == ("patch", "nodes")
    return "look" if asked == ("get", "nodes") and (uri.endswith("?resourceVersion=0") or writes) else "records"


def a_minute(stamps: list[datetime]) -> float:
    """The rate per minute, by the time from the first to the last. A single one counts once in `SELDOM` minutes."""
    if len(stamps) < limits.FEWEST:
        return len(stamps) / SELDOM
    return (len(stamps) - 1) / (max(stamps) - min(stamps)).total_seconds() * 60


def sets(stamps: list[datetime]) -> list[datetime]:
    """The begin of each set of requests that are sent together."""
    return [one for one, before in zip(stamps, [None, *stamps], strict=False) if not before or one - before > TOGETHER]


def requests(minutes: float, *, ack: bool) -> list[Figure]:
    """The requests of one quiet agent, when it is ready and has settled.

    The rate comes from the time between requests. Their number in a period would be wrong by one of a kind at its ends.
    """
    with installed() as cluster, ExitStack() as stack:
        one = stack.enter_context(on_ack(cluster)) if ack else stack.enter_context(agents(cluster, 1))["bench-0"]
        until(lambda: one.lines("state", to="Ready"), "ready", LONG)
        time.sleep(70)
        log = cluster.directory / "audit.log"
        before = len(log.read_text().splitlines())
        time.sleep(minutes * 60)
        events = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    mine = [event for event in events if event.get("userAgent", "").startswith("nodeprep/")]
    came: dict[str, list[datetime]] = {what: [] for what in (*OFTEN, "refresh", "records")}
    for event, after in zip(mine, [*mine[1:], {}], strict=True):
        came[kind(event, after)].append(datetime.fromisoformat(event["stageTimestamp"]))
    rates = {what: a_minute(stamps) for what, stamps in came.items()}
    if read := sets(came["records"]):
        rates["records"] = a_minute(read) * len(came["records"]) / len(read)
    where, most = ("on ACK", ON_ACK) if ack else ("elsewhere", ELSEWHERE)
    said = ", ".join(f"{what} {rate:.2f}" for what, rate in rates.items())
    print(f"{where}: {len(mine)} requests in {minutes:g} min: {dict(Counter(e['requestURI'] for e in mine))}")
    print(f"{where}: {sum(rates.values()):.2f} requests a minute in all ({said}), limit {most}")
    return [
        Figure(f"{where}, requests of a quiet agent", sum(rates.values()), most=most, unit="a minute"),
        *(Figure(f"{where}, requests for a {what}", len(came[what]), least=1) for what in OFTEN),
    ]


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("what", nargs="?", choices=["latency", "requests"], help="by default, both")
    parser.add_argument("--flaps", type=whole(2), default=200)
    parser.add_argument("--agents", type=whole(1), default=8)
    parser.add_argument("--minutes", type=decimal(1), default=10.0)
    parser.add_argument("--ack", action="store_true", help="the quiet agent's node is one of ACK with shared ENIs")
    given = parser.parse_args()
    code = 0
    if given.what in (None, "latency"):
        code = limits.code(latency(given.flaps, given.agents))
    if given.what in (None, "requests"):
        code = limits.code(requests(given.minutes, ack=given.ack)) or code
    return code


if __name__ == "__main__":
    sys.exit(limits.ended(main, CannotStart, Unavailable))
