"""Writes the node's state to the Kubernetes API: a thread that writes only the newest, and hardly delays the loop.

Judging does not depend on it. Without the API server, gates still open and close, and their current state is written
when the server is back. The thread does one thing at a time. What closes or opens a gate comes first.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from math import inf
from random import Random
from threading import Condition, Thread

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import AGENT_PREFIX, Desired, GatePolicy
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.writer import MERGE, ApiWriter, WriteOutcome
from nodeprep.newer_python import UTC
from nodeprep.publish import agent_lease, node_events, node_object, node_patches, node_writing, pace
from nodeprep.publish.fleet_note import FleetNote
from nodeprep.publish.node_events import NodeEvent
from nodeprep.publish.node_object import RESET, STATE, WrittenNode
from nodeprep.publish.node_status import ApiStatus
from nodeprep.publish.node_writing import RULE, WriteOrder, WriteRequest, WriteResult
from nodeprep.publish.pace import FUTILE_RETRY_SECONDS, GATE_TOKENS, Backoff, TokenBucket
from nodeprep.publish.side_writes import SideWrites
from nodeprep.values import Value, replace

LOGGER = logging.getLogger("nodeprep")
CONNECTION_TIMEOUT_SECONDS = 8.0  # seconds for the requests of one connection
REPAIRING_PERIOD_SECONDS = 10.0  # as long as a remedy runs or is judged
UNDER_REPAIR = (NodeState.REPAIRING, NodeState.VALIDATING)
NODE_PERIOD_SECONDS = 60.0  # seconds between two looks at the Node, each a little later (pace.spread); design 3.5
OPENING_TIMEOUT_SECONDS = 1.0  # seconds that an opening gate file waits for the Node to say so


class NodeAnnotations(Value):
    """What the Node says to the loop: its uid, a human's reset, and what the Node kept for a lost disk.

    `stated` is the node state that it had when it was first read, "" if no agent ever said one. `created` is when the
    object was made, seconds since 1970, None if nobody knows.
    """

    uid: str
    reset: str = ""
    annotations: tuple[tuple[str, str], ...] = ()
    stated: str = ""
    created: float | None = None


class WantedNode(Value):
    """What should stand on the Node of this uid, under these names.

    `serial` counts what was wanted so far. A change of messages only keeps the serial. `generation` counts how often
    denials were forgotten.
    """

    desired: Desired
    names: GatePolicy
    uid: str
    serial: int
    generation: int = 0


class Publisher:
    """Writes for one node. Any thread may use what has no underscore.

    `period` is the seconds between two looks at the Node. The Lease's period grows with it. `refresh` is the age in
    seconds at which conditions are written again. None: spread by the node's name. `is_alive`: the checks run;
    otherwise neither Lease nor conditions say so. `on_annotations` is called when the Node says something new, and
    `on_status_change` when `api_status` changes. Both are called by the publisher's thread.
    """

    def __init__(self, access: ApiAccess, period: float = NODE_PERIOD_SECONDS, refresh: float | None = None) -> None:
        self.access = access
        self.period = period
        self.is_alive: Callable[[], bool] = lambda: True
        self.on_annotations: Callable[[NodeAnnotations], None] = lambda _: None
        self.on_status_change: Callable[[], None] = lambda: None
        self.api_status = ApiStatus()
        self._wanted: WantedNode | None = None
        self._tried_serial = 0  # the newest serial that was tried
        self._written_serial = 0  # the newest serial that is written
        self._stopped = False
        self._holds_events = False
        self._last_annotations: NodeAnnotations | None = None
        self._seen: WrittenNode | None = None
        # The Node when the newest serial was first tried, until it is written.
        self._before: WrittenNode | None = None
        self._denied: Mapping[str, str] = {}  # resource -> what a policy said
        self._check_at = inf  # the first look comes one period after the first write
        self._node_trouble = ""
        self._lock = Condition()
        self._thread: Thread | None = None
        self._bucket = TokenBucket()
        seed = hashlib.sha256(access.node.encode()).digest()
        self._rng = Random(seed)  # noqa: S311 - spreads a fleet, keeps no secret
        self._node = Backoff(self._rng)
        lease_period = period * agent_lease.RENEW_SECONDS / NODE_PERIOD_SECONDS
        self._side_writes = SideWrites(access, lease_period, self._rng, self._connected, self._is_alive_now)
        self._refresh = node_patches.refresh_after(self._rng.random()) if refresh is None else refresh

    def start(self) -> None:
        self._thread = Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write nothing more. What is on the Node stays."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()

    def publish(self, desired: Desired, names: GatePolicy, uid: str, *, opening: bool) -> None:
        """From now on this should stand on the Node of that uid. New messages alone wait for the periodic look.

        Returns at once. If a gate file is to be opened, returns when the Node says so, when that is impossible, or
        after OPENING_TIMEOUT_SECONDS.
        """
        with self._lock:
            known = self._wanted
            if (
                known is not None
                and (known.names, known.uid) == (names, uid)
                and node_object.differ_only_in_messages(known.desired, desired)
            ):
                self._wanted = replace(known, desired=desired)
            else:
                if known is not None and known.names != names:
                    self._denied = {}
                    self._side_writes.forget_denials()
                first = WantedNode(desired, names, uid, 1)
                self._wanted = replace(first, serial=known.serial + 1, generation=known.generation) if known else first
                self._lock.notify_all()
            serial, self._holds_events = self._wanted.serial, opening
            if opening and self._thread is not None and self._node.not_before <= clock.now():
                self._lock.wait_for(lambda: self._tried_serial >= serial or self._stopped, OPENING_TIMEOUT_SECONDS)

    def finish(self, seconds: float) -> bool:
        """Wait until the newest is written, for so long at most. Whether it is."""
        with self._lock:
            return self._thread is not None and self._lock.wait_for(
                lambda: self._wanted is None or self._written_serial >= self._wanted.serial, seconds
            )

    def gates_written(self) -> None:
        """The gate files are written, so Events may be posted now."""
        with self._lock:
            if self._holds_events:
                self._holds_events = False
                self._lock.notify_all()

    def forget_denials(self) -> None:
        """The configuration was read again: what was denied may be allowed now."""
        with self._lock:
            self._denied = {}
            if self._wanted is not None:
                self._wanted = replace(
                    self._wanted, serial=self._wanted.serial + 1, generation=self._wanted.generation + 1
                )
            self._side_writes.forget_denials()
            self._lock.notify_all()

    @property
    def node(self) -> RepairNode | None:
        """The Node as it was last read, for repairs. None before the first time."""
        return None if self._seen is None else self._seen.for_repair

    @property
    def note(self) -> FleetNote:
        """What the Lease tells other agents about repairs."""
        return self._side_writes.note

    def post(self, told: Iterable[NodeEvent]) -> None:
        """Post these as Events of the Node. Before the Node was read there is none to post them about."""
        with self._lock:
            if self._seen is not None:
                self._side_writes.events.extend(node_events.event(self._seen, one, _now()) for one in told)
                self._lock.notify_all()

    def _is_alive_now(self) -> bool:
        return self.is_alive()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._stopped and (seconds := self._seconds_to_next()):
                    self._lock.wait(min(seconds, self.period))
                if self._stopped:
                    return
                work = self._next(clock.now())[1]
            try:
                work()
            except Exception as broke:  # the boundary: a fault of ours must not end what closes gates in the cluster
                LOGGER.exception("broke")
                self._node.failed(clock.now(), FUTILE_RETRY_SECONDS)
                self._side_writes.pause(clock.now())
                self._node_trouble = f"a fault of nodeprep's own: {type(broke).__name__}: {broke}; please report it"
            self._update_status()

    def _seconds_to_next(self) -> float:
        """Seconds until there is something to do that may be done."""
        now = clock.now()
        return max(0.0, self._next(now)[0] - now)

    def _next(self, now: float) -> tuple[float, Callable[[], None]]:
        """When to do what: the most important thing that is due, else what is due first."""
        wanted, seen = self._wanted, self._seen
        if wanted is None:
            return inf, self._update_status
        reserve_wait = self._bucket.wait(now, GATE_TOKENS)
        node = self._node.not_before
        due: list[tuple[float, Callable[[], None]]] = []
        if self._written_serial < wanted.serial:
            due.append((max(node, now + self._bucket.wait(now)), partial(self._write, wanted)))
        if seen is not None:
            due.append((max(self._check_at, node, now + reserve_wait), partial(self._check, wanted)))
            due += self._side_writes.due(seen, max(node, now + reserve_wait), with_events=not self._holds_events)
        idle = inf, self._update_status
        return next((one for one in due if one[0] <= now), min(due, key=lambda one: one[0], default=idle))

    @contextmanager
    def _connected(self) -> Iterator[WriteRequest]:
        """A connection whose requests are counted. It waits for the bucket first, and may overdraw it."""
        clock.sleep(self._bucket.wait(clock.now()))
        with ApiWriter(self.access, CONNECTION_TIMEOUT_SECONDS) as writer:

            def ask(method: str, where: str, body: object = None, content_type: str = MERGE, /) -> WriteOutcome:
                self._bucket.take(clock.now())
                return writer.request(method, where, body, content_type)

            yield ask

    def _order(self, wanted: WantedNode) -> WriteOrder:
        """What our admission policy denied is left alone. What others denied is tried with the next serial."""
        refresh = self._refresh if self.is_alive() else inf
        is_new = wanted.serial != self._tried_serial
        denied = frozenset(resource for resource, said in self._denied.items() if not is_new or RULE.search(said))
        return WriteOrder(self.access.node, wanted.uid, wanted.desired, wanted.names, refresh, denied)

    def _write(self, wanted: WantedNode) -> None:
        order, still = self._order(wanted), partial(self._is_newest, wanted)
        self._accept(
            node_writing.write(order, self._connected, _now, before=self._before, still_wanted=still),
            wanted,
            order.denied,
        )

    def _period_of(self, wanted: WantedNode) -> float:
        """Seconds until the next look at the Node. While a remedy runs, a taint that is taken away comes back soon."""
        period = pace.spread(self.period, self._rng)
        return min(period, REPAIRING_PERIOD_SECONDS) if wanted.desired.state in UNDER_REPAIR else period

    def _is_newest(self, wanted: WantedNode) -> bool:
        with self._lock:
            return self._wanted is None or self._wanted.serial == wanted.serial

    def _check(self, wanted: WantedNode) -> None:
        """Whether the Node still says what it should. A known difference is written, which reads the Node too."""
        self._check_at = clock.now() + self._period_of(wanted)
        order, now = self._order(wanted), _now()
        if self._seen is None or not node_writing.needs_write(self._seen, order, now):
            with self._connected() as ask:
                found = node_writing.look(order, ask, now)
            if found is not None:
                self._accept(found, wanted, order.denied)
                return
        with self._lock:
            self._written_serial = min(self._written_serial, wanted.serial - 1)  # it is to be written again

    def _accept(self, written: WriteResult, wanted: WantedNode, deferred: frozenset[str]) -> None:
        """The result of a write: what the Node says goes to the loop, and transitions become Events.

        `deferred` are the resources that were not tried.
        """
        known = self._denied.values()
        denials = [said for said in written.denied.values() if said not in known]
        with self._lock:
            newest = self._wanted or wanted
            if (newest.names, newest.generation) == (wanted.names, wanted.generation):
                still = {resource: said for resource, said in self._denied.items() if resource in deferred}
                self._denied = {**still, **written.denied}
            self._before = written.before
        if not written.is_superseded:
            self._settle(written, wanted)
        if written.seen is not None:
            self._seen = written.seen
            self._pass_on(written, written.seen, denials)

    def _settle(self, written: WriteResult, wanted: WantedNode) -> None:
        """It is written, or it is tried again after a while."""
        now, failure = clock.now(), written.failure
        if failure is None:
            self._node.succeeded()
        else:
            node_writing.back_off(self._node, failure, now)
        with self._lock:
            self._tried_serial = wanted.serial
            self._written_serial = self._written_serial if failure else wanted.serial
            self._check_at = now if failure else min(self._check_at, now + self._period_of(wanted))
            self._lock.notify_all()
        self._node_trouble = self._trouble_of(written, wanted.uid)

    def _pass_on(self, written: WriteResult, seen: WrittenNode, denials: Iterable[str]) -> None:
        words = (NodeEvent("WriteDenied", node_writing.with_fix(said), True) for said in denials)
        self._side_writes.events.extend(node_events.event(seen, one, _now()) for one in (*written.node_events, *words))
        ours = (one for one in seen.annotations.items() if one[0].startswith(f"{AGENT_PREFIX}/"))
        last = self._last_annotations
        stated = seen.labels.get(STATE, "") if last is None or last.uid != seen.uid else last.stated
        asked = seen.annotations.get(RESET, "")
        says = NodeAnnotations(seen.uid, asked, tuple(sorted(ours)), stated, seen.created)
        if says != self._last_annotations:
            self._last_annotations = says
            self.on_annotations(says)

    def _trouble_of(self, written: WriteResult, uid: str) -> str:
        name = self.access.node
        if written.failure is not None:
            denied = "; see kubectl auth can-i --list, as this agent" if written.failure.status in (401, 403) else ""
            return f"{written.failure.message}{denied}; what stands on Node {name} may be old"
        if written.is_other_node and uid:
            return f"Node {name} is another object than before; nothing is written until it was judged"
        return ""

    def _update_status(self) -> None:
        denied = "; ".join(filter(None, (*self._denied.values(), self._side_writes.denied)))
        words = "; ".join(
            filter(None, (self._node_trouble, denied and node_writing.with_fix(denied), self._side_writes.trouble))
        )
        new = ApiStatus(words, denied, self._side_writes.policy_enforced)
        if new != self.api_status:
            self.api_status = new
            self.on_status_change()


def _now() -> datetime:
    return datetime.fromtimestamp(clock.wall(), UTC)
