"""Many agents against one real API server: their requests when all is quiet, and how soon 300 of them are tainted.

    python tests/bench/fleet.py [--agents 1000] [--failing 300] [--minutes 5]

Each agent is our publishing code with a token bound to a pod of its own Node, behind the shipped admission policy. The
facts of its node are simulated. Rates and latencies come from the server's audit log, transitions from a raw watch.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import AREAS, TRAINING_READY, Desired, GatePolicy, NodeCondition, Taint
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.publish.publisher import Publisher
from tests.bench import limits
from tests.bench.agent import boottime
from tests.bench.limits import FEWEST, Figure
from tests.bench.options import Options, decimal, whole
from tests.bench.taint import Announced, installed
from tests.cluster.agents import bound_token
from tests.rigs.cluster import CannotStart, Cluster

NAMES = GatePolicy()
WORKERS = 4
FAILING = 300  # agents at once, or all if there are fewer
SPREAD = 60.0  # seconds over which the agents start, as in a rollout
LONG = 600.0
SETTLE = 20.0  # seconds after a change, for delayed writes


def desired(*, good: bool) -> Desired:
    """The desired state of a node with eight rails, all up or one down."""
    status, reason, message = ("True", "Passed", "13 of 13 gate checks pass") if good else ("False", "NoSignal", DOWN)
    areas = tuple(NodeCondition(kind, status, reason, message) for kind in AREAS)
    if not good:
        first = NodeCondition(TRAINING_READY, "False", "NoSignal", f"Unhealthy: port.state NoSignal: {DOWN}")
        taints = (Taint(NAMES.unhealthy_taint, "NoSignal", NAMES.effect),)
        return Desired(
            NodeState.UNHEALTHY, conditions=(first, *areas), labels={"nodeprep.io/state": "Unhealthy"}, taints=taints
        )
    first = NodeCondition(TRAINING_READY, "True", "Ready", "every gate check passes: rdma-roce")
    labels = {"nodeprep.io/state": "Ready", "nodeprep.io/profile.rdma-roce": "ready", NAMES.rdma_label: "true"}
    return Desired(NodeState.READY, conditions=(first, *areas), labels=labels)


DOWN = "mlx5_3/1 at 0000:5c:00.0 is '1: DOWN', '3: Disabled'; ACTIVE is wanted by profile rdma-roce (at least 8 ports)"


def work(place: Path, spread: float) -> int:
    """One of the processes: runs the agents of its file, and gets faults as lines on stdin."""
    told = json.loads(place.read_text())
    publishers: dict[str, Publisher] = {}
    chance = Random(place.name)
    for one in told["agents"]:
        who: Callable[[], Mapping[str, str]] = partial(dict, Authorization=f"Bearer {one['token']}")
        access = ApiAccess(one["name"], Peer(told["url"], authority=told["authority"]), who)
        publishers[one["name"]] = publisher = Publisher(access)
        publisher.publish(desired(good=True), NAMES, one["uid"], opening=False)
        threading.Timer(chance.uniform(0.0, spread), publisher.start).start()
    uids = {one["name"]: one["uid"] for one in told["agents"]}
    for line in sys.stdin:
        order = json.loads(line)
        for name in order["names"]:
            if name in publishers:
                publishers[name].publish(desired(good=order["good"]), NAMES, uids[name], opening=False)
    return 0


@dataclass
class Fleet:
    """The Nodes, their agents, and the changes that a watch saw."""

    cluster: Cluster
    names: tuple[str, ...]
    said: Announced
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """The API server's audit log."""
        return self.cluster.directory / "audit.log"

    def tell(self, names: tuple[str, ...], *, good: bool) -> float:
        """Tell all agents of these nodes at once. Returns when."""
        line = json.dumps({"names": names, "good": good}) + "\n"
        at = boottime()
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(line)
            worker.stdin.flush()
        return at


def enrolled(cluster: Cluster, name: str) -> dict[str, str]:
    """A Node, and a token bound to a pod on it."""
    node = cluster.create("/api/v1/nodes", {"metadata": {"name": name}})
    return {"name": name, "uid": node["metadata"]["uid"], "token": bound_token(cluster, name)}


@contextmanager
def fleet(count: int) -> Iterator[Fleet]:
    with installed() as cluster:
        names = tuple(f"node-{number:04d}" for number in range(count))
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            enrolments = list(pool.map(lambda name: enrolled(cluster, name), names))
        print(f"{count} Nodes, pods and tokens in {time.monotonic() - began:.0f} s", flush=True)
        said = Announced(cluster)
        threading.Thread(target=said.follow, daemon=True).start()
        made = Fleet(cluster, names, said)
        try:
            for number in range(WORKERS):
                place = cluster.directory / f"agents-{number}.json"
                ours = {"url": cluster.url, "authority": str(cluster.authority), "agents": enrolments[number::WORKERS]}
                place.write_text(json.dumps(ours))
                command = [sys.executable, __file__, "work", str(place), str(SPREAD)]
                made.workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, text=True))
            yield made
        finally:
            for worker in made.workers:
                worker.kill()
                worker.wait()


def run(count: int, failing: int, minutes: float) -> int:
    with fleet(count) as made:
        said = made.said
        began = time.monotonic()
        said.wait(lambda: len(said.ready) == count, f"all {count} ready", LONG)
        print(f"all ready {time.monotonic() - began:.0f} s after the first start (starts spread over {SPREAD:.0f} s)")
        time.sleep(SPREAD)
        quiet = made.log.stat().st_size
        time.sleep(minutes * 60)
        show("quiet", events(made.log, quiet), count, minutes)
        return limits.code([*broken(made, failing), mended(made, failing)])


def broken(made: Fleet, failing: int) -> list[Figure]:
    """So many nodes fail at once: the number of lost transitions, and of other nodes that were tainted."""
    names, said = made.names[:failing], made.said
    busy = made.log.stat().st_size
    at = made.tell(names, good=False)
    with suppress(TimeoutError):  # nodes without the taint are counted below
        said.wait(lambda: all(said.taint.get(name) for name in names), f"{failing} tainted", LONG)
    took = sorted(tainted - at for name in names if (tainted := said.taint.get(name)))
    print(f"{failing} fail at once: tainted {limits.quantiles(took)}")
    time.sleep(SETTLE)
    silent = set(names) - set(told(made.cluster, "NoSignal"))
    lost = sum(name in silent or None in (said.taint.get(name), said.unready.get(name)) for name in names)
    others = sum(said.taint.get(name) is not None for name in made.names[failing:])
    print(f"transitions lost {lost}, limit 0; nodes tainted that did not fail {others}, limit 0")
    show("after it", events(made.log, busy), failing, SETTLE / 60)
    return [Figure("transitions to a taint lost", lost, most=0), Figure("tainted that did not fail", others, most=0)]


def mended(made: Fleet, failing: int) -> Figure:
    """All of them are mended at once: the number of lost transitions."""
    names, said = made.names[:failing], made.said
    size, before = made.log.stat().st_size, told(made.cluster, "Ready")
    at = made.tell(names, good=True)
    with suppress(TimeoutError):  # nodes that are not ready again are counted below
        said.wait(lambda: len(said.ready) == len(made.names), "all ready again", LONG)
    print(f"all of them mended at once: {boottime() - at:.2f} s later {len(said.ready)} of {len(made.names)} are ready")
    time.sleep(SETTLE)
    heard = set(told(made.cluster, "Ready") - before) & said.ready
    lost = len(set(names) - heard)
    print(f"transitions lost {lost}, limit 0", flush=True)
    show("after it", events(made.log, size), failing, SETTLE / 60)
    return Figure("transitions to ready lost", lost, most=0)


def told(cluster: Cluster, reason: str) -> Counter[str]:
    """The number of Events with this reason, by Node."""
    happened = cluster.call("GET", "/api/v1/namespaces/default/events?limit=10000")[1]["items"]
    return Counter(one["involvedObject"]["name"] for one in happened if one["reason"] == reason)


def events(log: Path, start: int) -> list[Mapping[str, Any]]:
    """The requests of agents since the log had this size."""
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().rpartition(b"\n")[0].splitlines()
    told = [json.loads(line) for line in lines]
    return [one for one in told if one.get("userAgent", "").startswith("nodeprep/")]


def show(what: str, asked: list[Mapping[str, Any]], agents: int, minutes: float) -> None:
    if len(asked) < FEWEST:
        print(f"{what}: {len(asked)} requests in {minutes:.1f} min")
        return
    took = [time_of(one, "stageTimestamp") - time_of(one, "requestReceivedTimestamp") for one in asked]
    cuts = statistics.quantiles(took, n=100, method="inclusive")
    codes = Counter(one["responseStatus"]["code"] for one in asked)
    kinds = Counter(f"{one['verb']} {one['objectRef']['resource']}" for one in asked)
    print(
        f"{what}: {len(asked) / minutes / 60:.1f} requests/s, {len(asked) / minutes / agents:.2f} per agent and minute"
    )
    print(f"  p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms at the server; {dict(codes)}; {dict(kinds)}")


def time_of(event: Mapping[str, Any], key: str) -> float:
    return datetime.fromisoformat(event[key]).timestamp()


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--agents", type=whole(FEWEST), default=1000)
    parser.add_argument("--failing", type=whole(FEWEST), help=f"{FAILING}, or all if there are fewer")
    parser.add_argument("--minutes", type=decimal(0.1), default=5.0)
    given = parser.parse_args()
    failing = given.failing or min(FAILING, given.agents)
    if failing > given.agents:
        parser.error(f"--failing: found '{failing}', wanted at most {given.agents}, for so many are the --agents")
    return run(given.agents, failing, given.minutes)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["work", place, spread]:
            sys.exit(work(Path(place), float(spread)))
    sys.exit(limits.ended(main, CannotStart))
