"""Tells the Kubernetes API what the node is: a thread that writes only the newest, and never lets the loop wait long.

Judging does not depend on it: without the API server for any length of time, gates open and close, and what stands
then is written when it is back.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from random import Random
from threading import Condition, Thread
from typing import Any

from nodeprep.decide.desired import AGENT_PREFIX, Desired, GatePolicy
from nodeprep.doors import clock
from nodeprep.doors.kube import Access
from nodeprep.doors.kube_write import JSON, MERGE, Outcome, Writer
from nodeprep.publish import event, lease
from nodeprep.publish.node import RESET, Seen, refresh_after
from nodeprep.publish.pace import Pace
from nodeprep.publish.status import Published
from nodeprep.publish.writing import CONFLICT, UNPROCESSABLE, Order, Written, is_lost, path, write

LOGGER = logging.getLogger("nodeprep")
WHOLE = 8.0  # seconds for the requests of one turn
CHECK = 60.0  # seconds between two looks at what stands on the Node; design 3.5
TEST, SOON = 3600.0, 600.0  # seconds between two tests of a fence (design 3.5), and where there is none yet
ALIVE = 5.0  # seconds until a Lease that was due is thought of again, where the checks did not run yet
PATIENCE = 1.0  # seconds that an opening gate file waits for the Node to say so
HELD = 16  # Events that wait for the server; older ones go
FOREIGN = "fence-test.example.com/nodeprep"  # a label that is not ours: writing it must be denied
FENCE_RULE = "nodeprep:labels"  # which the fence names when it denies that


@dataclass(frozen=True, slots=True)
class NodeSays:
    """What the Node says that concerns the loop: whose it is, what a human wishes, what it kept for a lost disk."""

    uid: str
    reset: str = ""
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Publisher:
    """Writes for one node. `tell`, `gates_stand`, `believe_anew` and `published` may be used by any thread.

    `is_alive`: the checks run, without which the Lease is not renewed. `hear` is called when the Node says something
    new, and `changed` when `published` does; both from the publisher's thread.
    """

    access: Access
    is_alive: Callable[[], bool] = lambda: True
    hear: Callable[[NodeSays], None] = lambda _: None
    changed: Callable[[], None] = lambda: None
    published: Published = field(default_factory=Published)
    _wanted: tuple[Desired, GatePolicy, str] | None = None
    _serial: int = 0  # of what is wanted
    _tried: int = 0  # the newest that was written, or tried to be
    _done: int = 0  # the newest that stands
    _stopped: bool = False
    _holds_events: bool = False
    _heard: NodeSays | None = None
    _seen: Seen | None = None
    _denied: dict[str, str] = field(default_factory=dict)
    _events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=HELD))
    _due: dict[str, float] = field(default_factory=lambda: {"check": -inf, "lease": -inf, "fence": -inf})
    _node_trouble: str = ""
    _lease_trouble: str = ""
    _fenced: bool | None = None
    _lock: Condition = field(default_factory=Condition)
    _thread: Thread | None = None
    _chance: Random = field(init=False)
    _pace: Pace = field(init=False)
    _refresh: float = field(init=False)

    def __post_init__(self) -> None:
        seed = hashlib.sha256(self.access.node.encode()).digest()
        self._chance = Random(seed)  # noqa: S311 - spreads a fleet, keeps no secret
        self._pace = Pace(self._chance)
        self._refresh = refresh_after(self._chance.random())

    def start(self) -> None:
        self._thread = Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write nothing more; what stands on the Node stays."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()

    def tell(self, desired: Desired, names: GatePolicy, uid: str, *, opening: bool) -> None:
        """This ought to stand on the Node of that uid from now on.

        Returns at once; where a gate file is to be opened, when it stands there, cannot be had, or after PATIENCE.
        """
        with self._lock:
            if self._wanted != (desired, names, uid):
                self._wanted = desired, names, uid
                self._serial += 1
                self._lock.notify_all()
            serial, self._holds_events = self._serial, opening
            if opening and self._thread is not None and self._pace.wait(clock.now()) == 0.0:
                self._lock.wait_for(lambda: self._tried >= serial or self._stopped, PATIENCE)

    def gates_stand(self) -> None:
        """Gate files say what they should: others may hear of it."""
        with self._lock:
            if self._holds_events:
                self._holds_events = False
                self._lock.notify_all()

    def believe_anew(self) -> None:
        """The configuration changed: what was denied may be allowed now."""
        with self._lock:
            self._denied = {}
            self._due["fence"] = self._due["check"] = -inf
            self._lock.notify_all()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._stopped and (patience := self._patience()):
                    self._lock.wait(patience)
                if self._stopped:
                    return
            try:
                self._turn()
            except Exception as broke:  # the boundary: a fault of ours must not end what closes gates in the cluster
                LOGGER.exception("broke")
                self._pace.failed(clock.now(), CHECK)
                self._node_trouble = f"a fault of nodeprep's own: {type(broke).__name__}: {broke}; please report it"
                self._publish()

    def _patience(self) -> float:
        """Seconds until there is something to do that may be done."""
        now = clock.now()
        due = min(self._due.values()) if self._wanted is not None else inf
        if self._done < self._serial or (self._events and not self._holds_events):
            due = now
        return min(max(due - now, self._pace.wait(now), 0.0), CHECK)

    def _turn(self) -> None:
        with self._lock:
            wanted, serial = self._wanted, self._serial
        if wanted is None:
            return
        now = clock.now()
        with Writer(self.access, WHOLE) as writer:
            ask = self._paced(writer)
            if serial > self._done or now >= self._due["check"]:
                self._write(ask, wanted, serial)
            for name, work in (("lease", self._renew), ("fence", self._test_fence)):
                if now >= self._due[name] and self._pace.failures == 0 and self._seen is not None:
                    work(ask, self._seen)
            while self._events and not self._holds_events and self._pace.failures == 0:
                self._post(ask)

    def _paced(self, writer: Writer) -> Callable[..., Outcome]:
        """Requests that keep the pace: a bucket that is empty is waited for, a server in trouble left alone."""

        def ask(method: str, where: str, body: object = None, content_type: str = MERGE) -> Outcome:
            clock.sleep(min(self._pace.wait(clock.now()), WHOLE))
            self._pace.take(clock.now())
            answer = writer.request(method, where, body, content_type)
            if is_lost(answer):
                self._pace.failed(clock.now(), answer.retry_after)
            else:
                self._pace.succeeded()
            return answer

        return ask

    def _write(self, ask: Callable[..., Outcome], wanted: tuple[Desired, GatePolicy, str], serial: int) -> None:
        desired, names, uid = wanted
        order = Order(self.access.node, uid, desired, names, self._refresh, frozenset(self._denied))
        written = write(order, ask, _now, cached=serial == self._done)
        self._take(written)
        failure = written.failure
        if failure is not None and not is_lost(failure):
            # A race may be won the next time; a right or a Node that is missing will be missing for a while.
            self._pace.failed(clock.now(), 0.0 if failure.status == CONFLICT else CHECK / 2)
        with self._lock:
            self._tried = serial
            self._done = self._done if failure else serial
            self._due["check"] = clock.now() + self._spread(CHECK)
            self._lock.notify_all()
        self._node_trouble = self._trouble(written, uid)
        self._publish()

    def _take(self, written: Written) -> None:
        """What the Node says goes to the loop, and what happened into an Event."""
        self._denied = {**self._denied, **written.denied}
        if written.seen is None:
            return
        self._seen = written.seen
        made = [event.event(written.seen, one, _now()) for one in written.happenings]
        denials = [event.Happening("WriteDenied", f"{what}: {said}", True) for what, said in written.denied.items()]
        made += [event.event(written.seen, one, _now()) for one in denials]
        self._events.extend(made)
        said = written.seen.annotations
        ours = tuple(sorted((key, value) for key, value in said.items() if key.startswith(f"{AGENT_PREFIX}/")))
        heard = NodeSays(written.seen.uid, said.get(RESET, ""), ours)
        if heard != self._heard:
            self._heard = heard
            self.hear(heard)

    def _trouble(self, written: Written, uid: str) -> str:
        if written.failure is not None:
            return f"{written.failure.message}; what stands on Node {self.access.node} may be old"
        if written.stranger and uid:
            return f"Node {self.access.node} is another object than before; nothing is written until it was judged"
        return ""

    def _renew(self, ask: Callable[..., Outcome], seen: Seen) -> None:
        """Say that the checks ran, if they did."""
        if not self.is_alive():
            self._due["lease"] = clock.now() + ALIVE
            return
        self._due["lease"] = clock.now() + self._spread(lease.RENEW)
        node, where = self.access.node, lease.path(self.access.namespace, self.access.node)
        answer = ask("PATCH", where, lease.renewal(node, seen.uid, _now()), MERGE)
        if answer.status == 404:
            made = lease.created(self.access.namespace, node, seen.uid, _now())
            answer = ask("POST", lease.path(self.access.namespace), made, JSON)
        self._lease_trouble = "" if answer.done else f"{answer.message}; others will take this agent for dead"
        self._publish()

    def _test_fence(self, ask: Callable[..., Outcome], seen: Seen) -> None:
        """Whether the cluster keeps this agent from what is not its own: a foreign label must be denied."""
        foreign = {"metadata": {"labels": {FOREIGN: "denied"}}}
        answer = ask("PATCH", f"{path(seen.name)}?dryRun=All", foreign, MERGE)
        if answer.done:
            self._fenced = False
        elif answer.status == UNPROCESSABLE and FENCE_RULE in answer.message:
            self._fenced = True
        self._due["fence"] = clock.now() + self._spread(TEST if self._fenced else SOON)
        self._publish()

    def _post(self, ask: Callable[..., Outcome]) -> None:
        """An Event that is there already was sent before; one that may not be written is worth nothing more."""
        answer = ask("POST", event.PATH, self._events[0], JSON)
        if not is_lost(answer):
            self._events.popleft()

    def _publish(self) -> None:
        denied = "; ".join(f"denied: {said}" for said in self._denied.values())
        told = "; ".join(filter(None, (self._node_trouble, denied, self._lease_trouble)))
        new = Published(told, denied, self._fenced)
        if new != self.published:
            self.published = new
            self.changed()

    def _spread(self, seconds: float) -> float:
        """A tenth earlier or later, so that a fleet that started at once does not ask at once for ever."""
        return seconds * self._chance.uniform(0.9, 1.1)


def _now() -> datetime:
    return datetime.fromtimestamp(clock.wall(), UTC)
