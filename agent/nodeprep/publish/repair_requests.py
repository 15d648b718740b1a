"""What a repair asks of the API server: each question once, consistently, and with its answer as a report.

No request names a resourceVersion to read by, so the server asks its store: what a cache says may be older than our own
taint. They are few. An approach asks some ten times, and nobody approaches again within half a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from nodeprep.decide.repair_approach import FleetRead, NodeRead, PodsRead, SlotAnswer
from nodeprep.decide.repair_slots import SlotChoice
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.writer import MERGE, ApiWriter, WriteOutcome
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.model import Unreadable
from nodeprep.newer_python import UTC
from nodeprep.publish import agent_lease, fleet_leases, node_writing
from nodeprep.publish.fleet_note import FleetNote
from nodeprep.publish.node_object import WrittenNode
from nodeprep.values import Struct, Value

REPAIR_TIMEOUT_SECONDS = 8.0  # seconds for all requests of one question
PAGE_LEASES = 500  # Leases in one answer
PODS = "/api/v1/pods"


class CannotList(Exception):
    """A list that was not read to its end. Its text is one line."""


class SlotKept(Value):
    """Whether the slot `name` was renewed by a request that began at `began`. `failure` says why not."""

    began: float
    name: str
    is_kept: bool
    failure: str = ""


class SlotReturned(Value):
    """Whether the slot `name` is not ours any more. `failure` says why it may be."""

    name: str
    is_returned: bool
    failure: str = ""


class NoteTold(Value):
    """Whether the own Lease says what we tell. `failure` says why not. `date` is the server's clock, since 1970."""

    is_told: bool
    failure: str = ""
    date: float | None = None


class RepairRequests(Struct):
    """For one node. `note` is what its Lease tells other agents. One thread at a time asks."""

    access: ApiAccess
    note: FleetNote

    def node(self) -> NodeRead:
        """The Node as it is now."""
        began = clock.now()
        with self._connected() as api:
            seen, failure = self._node(api)
        return NodeRead(began, None if seen is None else seen.for_repair, failure)

    def node_and_pods(self) -> PodsRead:
        """The Node, and then the pods that are bound to it."""
        began = clock.now()
        with self._connected() as api:
            seen, failure = self._node(api)
            if seen is None:
                return PodsRead(began, failure=failure)
            try:
                found = _listed(api, PODS, {"fieldSelector": f"spec.nodeName={self.access.node}"})
            except CannotList as why:
                return PodsRead(began, seen.for_repair, failure=str(why))
        pods = cluster_objects.understood("pods", lambda: tuple(cluster_objects.pod(one) for one in found))
        if isinstance(pods, Unreadable):
            return PodsRead(began, seen.for_repair, failure=str(pods))
        return PodsRead(began, seen.for_repair, pods)

    def fleet(self) -> FleetRead:
        """The own note is written first, so of several that ask at once the last to write sees them all."""
        told = self.tell()
        if not told.is_told:
            return FleetRead(clock.now(), is_told=False, failure=told.failure)
        began = clock.now()
        with self._connected() as api:
            try:
                found = _listed(api, agent_lease.path(self.access.namespace), {"limit": str(PAGE_LEASES)})
            except CannotList as why:
                return FleetRead(began, is_told=True, failure=str(why))
        leases = tuple(map(fleet_leases.fleet_lease, found))
        return FleetRead(began, is_told=True, leases=leases, date=told.date)

    def tell(self) -> NoteTold:
        """Write the note on the own Lease. The publisher makes the Lease: where there is none, nobody was told."""
        where = agent_lease.path(self.access.namespace, self.access.node)
        with self.note.held() as text, self._connected() as api:
            answer = api.request("PATCH", where, agent_lease.telling(text), MERGE)
            self.note.told = text if answer.done else self.note.told
        return NoteTold(answer.done, _why(answer), answer.date)

    def take(self, slot: SlotChoice, seconds: float) -> SlotAnswer:
        """Take a slot as it was listed, for so many seconds. A lost race is a denial, and a denial is final."""
        began = clock.now()
        with self._connected() as api:
            answer = self._take(api, slot.name, slot.version, seconds)
        return SlotAnswer(began, slot.name, answer.done, _why(answer))

    def keep(self, name: str, seconds: float) -> SlotKept:
        """Renew a slot that this node holds."""
        began = clock.now()
        with self._connected() as api:
            lease = api.request("GET", self._path(name))
            held = fleet_leases.fleet_lease(lease.body)
            if not lease.done or held.holder != self.access.node:
                failure = _why(lease) or f"{name} is held by {held.holder or 'nobody'}, wanted {self.access.node}"
                return SlotKept(began, name, is_kept=False, failure=failure)
            answer = self._take(api, name, held.version, seconds)
        return SlotKept(began, name, answer.done, _why(answer))

    def give_back(self, name: str) -> SlotReturned:
        """Give a slot back that this node holds. One that somebody else holds is theirs."""
        with self._connected() as api:
            lease = api.request("GET", self._path(name))
            if not lease.done:
                # Without the Lease or the right to read it there is nothing to give back: its time ends it.
                return SlotReturned(name, is_returned=lease.status in (403, 404), failure=_why(lease))
            held = fleet_leases.fleet_lease(lease.body)
            if held.holder != self.access.node:
                return SlotReturned(name, is_returned=True)
            answer = api.request("PATCH", self._path(name), fleet_leases.giving_back(held.version), MERGE)
        return SlotReturned(name, answer.done, _why(answer))

    @contextmanager
    def _connected(self) -> Iterator[ApiWriter]:
        with ApiWriter(self.access, REPAIR_TIMEOUT_SECONDS) as api:
            yield api

    def _path(self, name: str) -> str:
        return agent_lease.path_of(self.access.namespace, name)

    def _take(self, api: ApiWriter, name: str, version: str, seconds: float) -> WriteOutcome:
        now = datetime.fromtimestamp(clock.wall(), UTC)
        body = fleet_leases.taking(self.access.node, version, now, seconds)
        return api.request("PATCH", self._path(name), body, MERGE)

    def _node(self, api: ApiWriter) -> tuple[WrittenNode | None, str]:
        answer = api.request("GET", node_writing.path(self.access.node))
        return (WrittenNode.of(answer.body) if answer.done else None), _why(answer)


def _listed(api: ApiWriter, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
    """All objects of a list, page by page of one moment. Raises CannotList."""
    found: list[dict[str, Any]] = []
    page: dict[str, str] = {}
    while True:
        answer = api.request("GET", f"{path}?{urlencode(query | page)}")
        if not answer.done:
            raise CannotList(answer.message)
        items = answer.body.get("items") or []
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise CannotList(f"GET {path}: .items is {type(items).__name__}, wanted a list of objects")
        found += items
        rest = (answer.body.get("metadata") or {}).get("continue")
        if not rest:
            return found
        page = {"continue": str(rest)}


def _why(answer: WriteOutcome) -> str:
    return "" if answer.done else answer.message
