"""Others write to the Node all the time while a port flaps: nothing of theirs is lost, and ours is right in the end."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

from tests.cluster.published_node import DOWN, STATE, UNHEALTHY, UP, Object, Published, configuration, published
from tests.rigs.agent import OPEN
from tests.rigs.api_proxy import delays
from tests.rigs.cluster import Cluster
from tests.rigs.cluster_client import PATCH
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

WRITERS, ROUNDS = 4, 250  # of each
FLAPS = 20
PAUSE = 0.2  # seconds between the rounds of one writer
LATE = 0.02  # seconds by which the agent's writes come later, so that somebody is often faster
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(slots=True)
class Writer:
    """Adds, changes and removes a taint, a label, an annotation and a condition of its own.

    Each round it reads the Node first: what it last wrote must stand there. Lost races are tried anew.
    """

    name: str
    path: str
    link: http.client.HTTPSConnection
    wrote: str | None = None  # in the label, the annotation and the taint; None: it took them away
    said: str | None = None  # in the condition
    races: int = 0
    lost: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"example.com/{self.name}"

    def rounds(self, stop: Event) -> None:
        for number in range(ROUNDS):
            if stop.is_set():
                return
            value = None if number % 5 == 4 else f"{self.name}-{number}"
            self.until_accepted("", partial(self.of_node, value))
            self.wrote = value
            self.until_accepted("/status", partial(self.of_status, value))
            self.said = value
            time.sleep(PAUSE)
        self.look()

    def until_accepted(self, part: str, made: Callable[[Object], Object]) -> None:
        while True:
            body = made(self.look())
            code, told = self.ask("PATCH", part, body)
            if code == 200:
                return
            assert code == 409, told
            self.races += 1

    def look(self) -> Object:
        """The Node; whatever of the last writes is not there is noted."""
        node = self.ask("GET")[1]
        there = (
            node["metadata"].get("labels", {}).get(self.key),
            node["metadata"].get("annotations", {}).get(self.key),
            next((one["value"] for one in node["spec"].get("taints", []) if one["key"] == self.key), None),
            next((one["message"] for one in conditions(node) if one["type"] == self.key), None),
        )
        if there != (self.wrote, self.wrote, self.wrote, self.said):
            self.lost.append(f"{there} in place of {self.wrote} and {self.said}")
        return node

    def of_node(self, value: str | None, node: Object) -> Object:
        taints = [one for one in node["spec"].get("taints", []) if one["key"] != self.key]
        taints += [{"key": self.key, "value": value, "effect": "NoSchedule"}] if value else []
        version = node["metadata"]["resourceVersion"]
        words = {self.key: value}
        metadata = {"resourceVersion": version, "labels": words, "annotations": words}
        return {"metadata": metadata, "spec": {"taints": taints}}

    def of_status(self, value: str | None, node: Object) -> Object:
        kept = [one for one in conditions(node) if one["type"] != self.key]
        kept += [{"type": self.key, "status": "True", "reason": "Said", "message": value}] if value else []
        version = node["metadata"]["resourceVersion"]
        return {"metadata": {"resourceVersion": version}, "status": {"conditions": kept}}

    def ask(self, method: str, part: str = "", body: object = None) -> tuple[int, Object]:
        self.link.request(method, self.path + part, json.dumps(body) if body else None, {"Content-Type": PATCH})
        answer = self.link.getresponse()
        return answer.status, json.loads(answer.read())


def conditions(node: Object) -> list[Object]:
    return list(node.get("status", {}).get("conditions", []))


def test_a_thousand_rounds_of_others_and_twenty_flaps(cluster: Cluster, tmp_path: Path) -> None:
    with (
        checked(Shape(enis=1, pods=1)) as here,
        published(cluster, here.node, tmp_path, "crowded", config=configuration(span=0)) as one,
    ):
        one.ready()
        one.patch({"spec": {"unschedulable": True, "taints": [CORDON]}})  # as kubectl cordon and its controller do
        one.proxy.rule(delays(LATE), "PATCH")
        begun = time.monotonic()
        stop = Event()
        writers = [Writer(f"w{number}", one.path, cluster.link()) for number in range(WRITERS)]
        with ThreadPoolExecutor(WRITERS) as pool:
            at_work = [pool.submit(writer.rounds, stop) for writer in writers]
            try:
                flaps = 0
                while flaps < FLAPS or not all(work.done() for work in at_work):
                    flap(here, one)
                    flaps += 1
            finally:
                stop.set()
            for work in at_work:
                work.result()
        for writer in writers:
            writer.link.close()
        took = time.monotonic() - begun
        one.ready()
        ours = [write.status for write in one.writes(begun)]
        print(
            f"{WRITERS * ROUNDS} rounds of {WRITERS} writers in {took:.0f} s, who lost {sum(w.races for w in writers)}"
            f" races; {flaps} flaps, {len(ours)} writes of ours, {ours.count(409)} of them lost races"
        )
        assert [loss for writer in writers for loss in writer.lost] == []
        for writer in writers:
            writer.link.connect()
            writer.look()
            assert writer.lost == [], "at the end, after our last write"
            writer.link.close()
        assert ours.count(409) >= 3, "nobody was in the way: this proves nothing"
        assert ours.count(200) >= 2 * 3
        told = one.object()["spec"]
        assert told["unschedulable"] is True
        assert [taint for taint in told["taints"] if taint["key"] == CORDON["key"]] == [CORDON]
        assert UNHEALTHY not in one.taints()
        assert one.labels()[STATE] == "Ready"


def flap(here: Checked, one: Published) -> None:
    here.do(DOWN)
    until(lambda: one.agent.gates() == set(), "gate file that is gone")
    here.do(UP)
    until(lambda: one.agent.gates() == OPEN, "gate file")
