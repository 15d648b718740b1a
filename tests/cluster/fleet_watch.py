"""What a watch of the API server says of a fleet that repairs: who holds a slot, and the states of the Nodes.

The server's resource versions are the revisions of one store, so they order what two watches say. A Node says its state
a moment after its agent has changed it. So a node that has given its slot back may still be called Validating.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from itertools import groupby
from socket import SHUT_RDWR
from threading import Thread
from typing import Any, NamedTuple

from tests.cluster.published_node import LEASES, NODES, STATE
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

ACTING = ("Repairing", "Validating")
MARK = "nodeprep.test/mark"
Object = dict[str, Any]


@dataclass(slots=True)
class ListWatch:
    """The objects of one list, as they were and then as each change left them, oldest first."""

    cluster: Cluster
    path: str
    seen: list[Object] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    @contextmanager
    def following(self) -> Iterator[None]:
        listed = self.cluster.call("GET", self.path)[1]
        self.seen += sorted(listed["items"], key=version)
        link = self.cluster.link()
        link.request("GET", f"{self.path}?watch=true&resourceVersion={listed['metadata']['resourceVersion']}")
        link.sock.settimeout(None)  # a watch may be quiet for minutes
        reader = Thread(target=self._read, args=(link,))
        reader.start()
        try:
            yield
        finally:
            with suppress(OSError):
                link.sock.shutdown(SHUT_RDWR)
            reader.join()
            link.close()

    def _read(self, link: HTTPConnection) -> None:
        with suppress(OSError, HTTPException):
            answer = link.getresponse()
            while line := answer.readline():
                told = json.loads(line)
                if told["type"] == "ERROR":
                    self.trouble.append(line.decode())
                    return
                self.seen.append(told["object"])

    def come_to(self, name: str) -> None:
        """Returns when it has seen all that was written before now, by a mark on the object of that name."""
        code, told = self.cluster.call("PATCH", f"{self.path}/{name}", {"metadata": {"annotations": {MARK: "x"}}})
        assert code == 200, told
        code, told = self.cluster.call("PATCH", f"{self.path}/{name}", {"metadata": {"annotations": {MARK: None}}})
        assert code == 200, told
        until(lambda: self.trouble or version(self.seen[-1]) >= version(told), f"the watch of {self.path}")
        assert self.trouble == []


def version(one: Object) -> int:
    return int(one["metadata"]["resourceVersion"])


class Renewal(NamedTuple):
    """A slot was taken at that time, seconds since 1970, for so many seconds."""

    at: float
    seconds: float


def moment(said: str) -> float:
    """A time of Kubernetes, in seconds since 1970."""
    return datetime.fromisoformat(said).timestamp()


def holder_of(slot: Object) -> str:
    """Who holds a slot, "" for nobody."""
    return str((slot.get("spec") or {}).get("holderIdentity") or "")


@dataclass(slots=True)
class FleetWatch:
    """Both lists of a fleet. `slot` is the name of a slot's Lease."""

    slot: str
    leases: ListWatch
    nodes: ListWatch

    def come_to(self, node: str) -> None:
        """Returns when it has seen all that was written before now. `node` is one of its Nodes."""
        self.leases.come_to(self.slot)
        self.nodes.come_to(node)

    def slots(self) -> list[Object]:
        """The Lease of the slot as each change left it."""
        return [one for one in list(self.leases.seen) if one["metadata"]["name"] == self.slot]

    def holders(self) -> list[str]:
        """Who held the slot, one after the other; "" for nobody."""
        return [name for name, _ in groupby(map(holder_of, self.slots()))]

    def renewals(self, node: str) -> list[Renewal]:
        """When a node took and renewed the slot."""
        mine = [one["spec"] for one in self.slots() if holder_of(one) == node]
        return [Renewal(moment(one["renewTime"]), float(one["leaseDurationSeconds"])) for one in mine]

    def state(self, node: str) -> str:
        """What a Node said last."""
        said = [one for one in list(self.nodes.seen) if one["metadata"]["name"] == node]
        return str(said[-1]["metadata"].get("labels", {}).get(STATE, ""))

    def most_at_once(self) -> set[str]:
        """The most nodes that were in repair at the same moment.

        A node is from when its Node first says so. It is no more when its Node says another state, or it had given its
        slot back: a node that never took one cannot.
        """
        holder, acting, over, most = "", set[str](), set[str](), set[str]()
        for one in sorted((*self.slots(), *self.nodes.seen), key=version):
            name = one["metadata"]["name"]
            if name == self.slot:
                before, holder = holder, holder_of(one)
                over = (over if holder else over | {before}) - {holder}
            else:
                says = one["metadata"].get("labels", {}).get(STATE) in ACTING
                acting = acting | {name} if says else acting - {name}
            most = max(most, acting - over, key=len)
        return most


@contextmanager
def watching(cluster: Cluster, slot: str) -> Iterator[FleetWatch]:
    made = FleetWatch(slot, ListWatch(cluster, LEASES), ListWatch(cluster, NODES))
    with ExitStack() as both:
        for one in (made.leases, made.nodes):
            both.enter_context(one.following())
        yield made
