"""Tells the Kubernetes API what the node is: a thread that writes only the newest, and never lets the loop wait long.

Judging does not depend on it: without the API server for any length of time, gates open and close, and what stands
then is written when it is back. It does one thing at a time, and what closes or opens a gate comes before all else.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from math import inf
from random import Random
from threading import Condition, Thread

from nodeprep.decide.desired import AGENT_PREFIX, Desired, GatePolicy
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.writer import MERGE, ApiWriter, WriteOutcome
from nodeprep.publish import agent_lease, node_events, node_object, node_patches, node_writing, pace
from nodeprep.publish.node_object import RESET, WrittenNode
from nodeprep.publish.node_status import ApiStatus
from nodeprep.publish.node_writing import RULE, WriteOrder, WriteRequest, WriteResult
from nodeprep.publish.pace import FUTILE_RETRY_SECONDS, GATE_TOKENS, Backoff, TokenBucket
from nodeprep.publish.side_writes import SideWrites
from nodeprep.values import Value, replace

LOGGER = logging.getLogger("nodeprep")
CONNECTION_TIMEOUT_SECONDS = 8.0  # seconds for the requests of one connection
NODE_PERIOD_SECONDS = (
    60.0  # seconds between two looks at what stands on the Node, a little later each (pace.LATER); design 3.5
)
OPENING_TIMEOUT_SECONDS = 1.0  # seconds that an opening gate file waits for the Node to say so


class NodeAnnotations(Value):
    """What the Node says that concerns the loop: whose it is, what a human wishes, what it kept for a lost disk."""

    uid: str
    reset: str = ""
    annotations: tuple[tuple[str, str], ...] = ()


class WantedNode(Value):
    """What ought to stand on the Node of this uid, under these names.

    `serial` counts what was wanted so far; other words for the same have the same. `beliefs` counts how often what was
    denied was to be tried anew.
    """

    desired: Desired
    names: GatePolicy
    uid: str
    serial: int
    beliefs: int = 0


class Publisher:
    """Writes for one node. `tell`, `gates_stand`, `believe_anew` and `published` may be used by any thread.

    `minute` are the seconds between two looks at what stands on the Node; the Lease's time goes with it. `refresh`
    is the age in seconds at which conditions are said again; None: a spread of its own, by the node's name.
    `is_alive`: the checks run; without that neither Lease nor conditions say so. `hear` is called when the Node
    says something new, and `changed` when `published` does; both from the publisher's thread.
    """

    def __init__(self, access: ApiAccess, minute: float = NODE_PERIOD_SECONDS, refresh: float | None = None) -> None:
        self.access = access
        self.minute = minute
        self.is_alive: Callable[[], bool] = lambda: True
        self.hear: Callable[[NodeAnnotations], None] = lambda _: None
        self.changed: Callable[[], None] = lambda: None
        self.published = ApiStatus()
        self._wanted: WantedNode | None = None
        self._tried = 0  # the newest serial that was written, or tried to be
        self._done = 0  # the newest that stands
        self._stopped = False
        self._holds_events = False
        self._heard: NodeAnnotations | None = None
        self._seen: WrittenNode | None = None
        # What the Node said when the newest was first tried, until it stands.
        self._before: WrittenNode | None = None
        self._denied: Mapping[str, str] = {}  # resource -> what a policy said
        self._minute_at = inf  # the first comes a minute after the first writing
        self._node_trouble = ""
        self._lock = Condition()
        self._thread: Thread | None = None
        self._bucket = TokenBucket()
        seed = hashlib.sha256(access.node.encode()).digest()
        self._chance = Random(seed)  # noqa: S311 - spreads a fleet, keeps no secret
        self._node = Backoff(self._chance)
        lease_period = minute * agent_lease.RENEW_SECONDS / NODE_PERIOD_SECONDS
        self._side_writes = SideWrites(access, lease_period, self._chance, self._connected, self._lives)
        self._refresh = node_patches.refresh_after(self._chance.random()) if refresh is None else refresh

    def start(self) -> None:
        self._thread = Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write nothing more; what stands on the Node stays."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()

    def tell(self, desired: Desired, names: GatePolicy, uid: str, *, opening: bool) -> None:
        """This ought to stand on the Node of that uid from now on; new messages alone wait for the minute's look.

        Returns at once; where a gate file is to be opened, when it stands there, cannot be had, or after PATIENCE.
        """
        with self._lock:
            known = self._wanted
            if (
                known is not None
                and (known.names, known.uid) == (names, uid)
                and node_object.says_the_same(known.desired, desired)
            ):
                self._wanted = replace(known, desired=desired)
            else:
                if known is not None and known.names != names:
                    self._denied = {}
                    self._side_writes.believe_anew()
                first = WantedNode(desired, names, uid, 1)
                self._wanted = replace(first, serial=known.serial + 1, beliefs=known.beliefs) if known else first
                self._lock.notify_all()
            serial, self._holds_events = self._wanted.serial, opening
            if opening and self._thread is not None and self._node.not_before <= clock.now():
                self._lock.wait_for(lambda: self._tried >= serial or self._stopped, OPENING_TIMEOUT_SECONDS)

    def gates_stand(self) -> None:
        """Gate files say what they should: others may hear of it."""
        with self._lock:
            if self._holds_events:
                self._holds_events = False
                self._lock.notify_all()

    def believe_anew(self) -> None:
        """The configuration was read again: what was denied may be allowed now."""
        with self._lock:
            self._denied = {}
            if self._wanted is not None:
                self._wanted = replace(self._wanted, serial=self._wanted.serial + 1, beliefs=self._wanted.beliefs + 1)
            self._side_writes.believe_anew()
            self._lock.notify_all()

    def _lives(self) -> bool:
        return self.is_alive()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._stopped and (patience := self._patience()):
                    self._lock.wait(min(patience, self.minute))
                if self._stopped:
                    return
                work = self._next(clock.now())[1]
            try:
                work()
            except Exception as broke:  # the boundary: a fault of ours must not end what closes gates in the cluster
                LOGGER.exception("broke")
                self._node.failed(clock.now(), FUTILE_RETRY_SECONDS)
                self._side_writes.rest(clock.now())
                self._node_trouble = f"a fault of nodeprep's own: {type(broke).__name__}: {broke}; please report it"
            self._publish()

    def _patience(self) -> float:
        """Seconds until there is something to do that may be done."""
        now = clock.now()
        return max(0.0, self._next(now)[0] - now)

    def _next(self, now: float) -> tuple[float, Callable[[], None]]:
        """When to do what: of all that is due the most important, else what is due first."""
        wanted, seen = self._wanted, self._seen
        if wanted is None:
            return inf, self._publish
        kept = self._bucket.wait(now, GATE_TOKENS)
        node = self._node.not_before
        due: list[tuple[float, Callable[[], None]]] = []
        if self._done < wanted.serial:
            due.append((max(node, now + self._bucket.wait(now)), partial(self._write, wanted)))
        if seen is not None:
            due.append((max(self._minute_at, node, now + kept), partial(self._check, wanted)))
            due += self._side_writes.due(seen, max(node, now + kept), with_events=not self._holds_events)
        idle = inf, self._publish
        return next((one for one in due if one[0] <= now), min(due, key=lambda one: one[0], default=idle))

    @contextmanager
    def _connected(self) -> Iterator[WriteRequest]:
        """A way to ask, each request counted; the bucket may be overdrawn by what began, and is waited for before."""
        clock.sleep(self._bucket.wait(clock.now()))
        with ApiWriter(self.access, CONNECTION_TIMEOUT_SECONDS) as writer:

            def ask(method: str, where: str, body: object = None, content_type: str = MERGE, /) -> WriteOutcome:
                self._bucket.take(clock.now())
                return writer.request(method, where, body, content_type)

            yield ask

    def _order(self, wanted: WantedNode) -> WriteOrder:
        """What a rule of our admission policy denied is left alone; what others denied, until the next serial."""
        refresh = self._refresh if self.is_alive() else inf
        is_new = wanted.serial != self._tried
        denied = frozenset(resource for resource, said in self._denied.items() if not is_new or RULE.search(said))
        return WriteOrder(self.access.node, wanted.uid, wanted.desired, wanted.names, refresh, denied)

    def _write(self, wanted: WantedNode) -> None:
        order, still = self._order(wanted), partial(self._is_newest, wanted)
        self._take(
            node_writing.write(order, self._connected, _now, before=self._before, still_wanted=still),
            wanted,
            order.denied,
        )

    def _is_newest(self, wanted: WantedNode) -> bool:
        with self._lock:
            return self._wanted is None or self._wanted.serial == wanted.serial

    def _check(self, wanted: WantedNode) -> None:
        """Whether it still stands as it should. What we know to be owed is written, which reads the Node, too."""
        self._minute_at = clock.now() + pace.later(self.minute, self._chance)
        order, now = self._order(wanted), _now()
        if self._seen is None or not node_writing.owes(self._seen, order, now):
            with self._connected() as ask:
                found = node_writing.look(order, ask, now)
            if found is not None:
                self._take(found, wanted, order.denied)
                return
        with self._lock:
            self._done = min(self._done, wanted.serial - 1)  # it is owed again

    def _take(self, written: WriteResult, wanted: WantedNode, deferred: frozenset[str]) -> None:
        """What came of it: what the Node says goes to the loop, and what happened into an Event.

        `deferred` are the resources that were not tried.
        """
        known = self._denied.values()
        denials = [said for said in written.denied.values() if said not in known]
        with self._lock:
            newest = self._wanted or wanted
            if (newest.names, newest.beliefs) == (wanted.names, wanted.beliefs):
                still = {resource: said for resource, said in self._denied.items() if resource in deferred}
                self._denied = {**still, **written.denied}
            self._before = written.before
        if not written.dropped:
            self._settle(written, wanted)
        if written.seen is not None:
            self._seen = written.seen
            self._tell_others(written, written.seen, denials)

    def _settle(self, written: WriteResult, wanted: WantedNode) -> None:
        """It stands, or is tried again in a while."""
        now, failure = clock.now(), written.failure
        if failure is None:
            self._node.succeeded()
        else:
            node_writing.back_off(self._node, failure, now)
        with self._lock:
            self._tried = wanted.serial
            self._done = self._done if failure else wanted.serial
            self._minute_at = now if failure else min(self._minute_at, now + pace.later(self.minute, self._chance))
            self._lock.notify_all()
        self._node_trouble = self._trouble(written, wanted.uid)

    def _tell_others(self, written: WriteResult, seen: WrittenNode, denials: Iterable[str]) -> None:
        told = (node_events.NodeEvent("WriteDenied", node_writing.mend(said), True) for said in denials)
        self._side_writes.events.extend(node_events.event(seen, one, _now()) for one in (*written.node_events, *told))
        ours = (one for one in seen.annotations.items() if one[0].startswith(f"{AGENT_PREFIX}/"))
        says = NodeAnnotations(seen.uid, seen.annotations.get(RESET, ""), tuple(sorted(ours)))
        if says != self._heard:
            self._heard = says
            self.hear(says)

    def _trouble(self, written: WriteResult, uid: str) -> str:
        name = self.access.node
        if written.failure is not None:
            denied = "; see kubectl auth can-i --list, as this agent" if written.failure.status in (401, 403) else ""
            return f"{written.failure.message}{denied}; what stands on Node {name} may be old"
        if written.stranger and uid:
            return f"Node {name} is another object than before; nothing is written until it was judged"
        return ""

    def _publish(self) -> None:
        denied = "; ".join(filter(None, (*self._denied.values(), self._side_writes.denied)))
        told = "; ".join(
            filter(None, (self._node_trouble, denied and node_writing.mend(denied), self._side_writes.trouble))
        )
        new = ApiStatus(told, denied, self._side_writes.policy_enforced)
        if new != self.published:
            self.published = new
            self.changed()


def _now() -> datetime:
    return datetime.fromtimestamp(clock.wall(), UTC)
