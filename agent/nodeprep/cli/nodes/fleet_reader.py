"""Reads the fleet from the API server: its Nodes in pages, the agents' Leases, and the pods where there are GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from nodeprep.cli import terminal
from nodeprep.cli.nodes import names_in_force
from nodeprep.cli.usage import UsageError
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors import clock
from nodeprep.doors.kube import watch
from nodeprep.doors.kube.reader import NODE_NAME, ApiAccess, Object
from nodeprep.doors.kube.watch import ApiLists, ListedObjects, WatchLost
from nodeprep.model import Unreadable
from nodeprep.publish import agent_lease, fleet_rows
from nodeprep.publish.fleet_rows import FleetContext, FleetNode, FleetRow
from nodeprep.values import Value, replace

T = TypeVar("T")

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
LEASES_SETTLE_SECONDS = 2.0  # seconds after which Leases are read again for a Node whose agent seems dead but writes
SINGLE_READS_LIMIT = 16  # named Nodes up to which each has a request of its own
RETRY_PAUSES_SECONDS = (
    1.0,
    2.0,
    5.0,
    10.0,
)  # seconds between attempts while the server cannot be reached; the last goes on
FORBIDDEN = "HTTP 403"
OUTAGE_LIMIT_SECONDS = 60.0  # seconds for which a command that has changed something looks again after failures


class CannotSee(Exception):
    """We cannot look at the fleet; the text is the one line that says why. Exit code 3.

    `forbidden`: the user has no right, and waiting does not change that.
    """

    def __init__(self, words: str, trouble: Unreadable | None = None) -> None:
        super().__init__(words)
        self.forbidden = trouble is not None and trouble.detail.startswith(FORBIDDEN)


class NodeSelection(Value):
    """The selected Nodes: some by name, those of a label selector, or all.

    `may_be_deleted`: a missing name is a deleted Node and not a mistake.
    """

    names: tuple[str, ...] = ()
    selector: str | None = None
    may_be_deleted: bool = False

    @classmethod
    def of(cls, names: list[str] | None, selector: str | None) -> NodeSelection:
        """As it was typed. Raises UsageError."""
        given = tuple(dict.fromkeys(names or ()))
        if given and selector is not None:
            raise UsageError(f"--selector {selector!r} and names of Nodes exclude each other: give one of them")
        if selector is not None and not selector.strip():
            raise UsageError(f"--selector {selector!r}: found nothing, wanted labels such as a=b")
        for name in given:
            if not NODE_NAME.fullmatch(name):
                raise UsageError(f"{name!r} is not a name of a Node; see kubectl get nodes")
        return cls(given, selector)

    @property
    def queries(self) -> tuple[dict[str, str], ...]:
        """The parameters of lists of Nodes. A list may have more Nodes: `includes` leaves them out."""
        if self.selector is not None:
            return ({"labelSelector": self.selector},)
        if not self.names or len(self.names) > SINGLE_READS_LIMIT:
            return ({},)
        return tuple({"fieldSelector": f"metadata.name={name}"} for name in self.names)

    @property
    def watch_query(self) -> dict[str, str]:
        return self.queries[0] if len(self.queries) == 1 else {}

    def includes(self, name: str) -> bool:
        return not self.names or name in self.names


class FleetLook(Value):
    """The fleet as it was at `now`, in seconds since 1970 by the server's clock.

    `clock_offset` is the server's clock minus ours. `notes` say what could not be read. `changed` are the Nodes that
    differ from the look before. None: any may.
    """

    nodes: Mapping[str, FleetNode]
    context: FleetContext
    policy: GatePolicy
    version: str
    now: float
    clock_offset: float
    notes: tuple[str, ...] = ()
    changed: frozenset[str] | None = None

    @property
    def has_news_without_agent(self) -> bool:
        """Whether a changed Node has an agent's keys although no agent is known to live there."""
        meant = [self.nodes[name] for name in self.changed or () if name in self.nodes]
        return any(one.status and not fleet_rows.is_alive(one.name, self.context, self.now) for one in meant)

    @property
    def live_agents(self) -> frozenset[str]:
        """The Nodes whose agent is known to live."""
        return frozenset(name for name in self.nodes if fleet_rows.is_alive(name, self.context, self.now))

    def rows(self) -> list[FleetRow]:
        return [fleet_rows.row(self.nodes[name], self.context, self.now) for name in sorted(self.nodes)]


class Fleet(Value):
    """A part of a cluster to look at. `config` is a file with the names of our taints."""

    access: ApiAccess
    selection: NodeSelection
    namespace: str
    config: str | None = None
    gpus: bool = True

    def look(self) -> FleetLook:
        """Raises CannotSee; UsageError for a Node that is not there and a selector that the server does not take."""
        with ApiLists(self.access) as api:
            names = names_in_force.names_in_force(api, self.config, self.namespace)
            found, version = self._nodes(api, lambda node: fleet_rows.fleet_node(node, names.policy))
            nodes = {one.name: one for one in found}
            context, notes = self._context(api, nodes)
            clock_offset = api.now - clock.wall()
            return FleetLook(
                nodes,
                context,
                names.policy,
                version,
                api.now,
                clock_offset,
                (*filter(None, (names.read_error,)), *notes),
            )

    def with_names(self, names: Iterable[str]) -> Fleet:
        """These Nodes, by name, because a selector may use a label that we change. A Node may be deleted meanwhile."""
        return replace(self, selection=NodeSelection(tuple(names), may_be_deleted=True))

    @property
    def with_deleted(self) -> Fleet:
        """The same Nodes after they were seen. A Node may be deleted meanwhile."""
        return replace(self, selection=replace(self.selection, may_be_deleted=True))

    def objects(self, api: ApiLists, keep: Callable[[Object], T | None]) -> tuple[T, ...]:
        """What `keep` makes of each selected Node, by an `api` of the caller. Raises as `look` does."""
        return self._nodes(api, keep)[0]

    def follow(self, cycle: float, until: float | None = None) -> Iterator[FleetLook]:
        """Looks without a limit, or until a time of our clock: one at first, one after each change and each `cycle`.

        Reports a lost watch or server on stderr once, and asks again. Raises as `look` does, for the first look only.
        """
        look = self.look()
        yield look
        last_words, failures, refreshed, settled = "", 0, clock.now(), LEASES_SETTLE_SECONDS
        while until is None or clock.now() < until:
            seconds = cycle if until is None else min(cycle, until - clock.now())
            try:
                early = False
                for change in watch.watch(
                    self.access, NODES, look.version, max(1, round(seconds)), **self._watch_query
                ):
                    look = self._changed(look, change.kind, change.object, change.version)
                    due = settled <= LEASES_SETTLE_SECONDS or clock.now() - refreshed >= settled
                    if early := due and look.has_news_without_agent:
                        break  # its agent may have come to life since the Leases were read
                    if look.changed:
                        yield look
                clock.sleep(max(0.0, refreshed + LEASES_SETTLE_SECONDS - clock.now()))
                before, look, refreshed = look, self._refreshed(look), clock.now()
                # Deleted agents leave Nodes behind that still change.
                without_effect = early and before.live_agents == look.live_agents
                settled = min(2 * settled, cycle) if without_effect else LEASES_SETTLE_SECONDS
                failures, last_words = 0, ""
            except WatchLost as lost:
                last_words = _say_once(f"lost the watch, listing again: {lost}", last_words)
                clock.sleep(RETRY_PAUSES_SECONDS[min(failures, len(RETRY_PAUSES_SECONDS) - 1)] if failures else 0.0)
                failures += 1
                try:
                    look = self.with_deleted.look()
                except CannotSee as cannot:
                    last_words = _say_once(str(cannot), last_words)
                    continue
            yield look

    def _refreshed(self, look: FleetLook) -> FleetLook:
        """The same Nodes with what is new beside them. Raises WatchLost."""
        with ApiLists(self.access) as api:
            context, notes = self._context(api, look.nodes)
            if api.lost is not None:
                raise WatchLost(str(api.lost))
        return replace(look, context=context, now=clock.wall() + look.clock_offset, notes=notes, changed=None)

    @property
    def _watch_query(self) -> dict[str, str]:
        return self.selection.watch_query

    def _changed(self, look: FleetLook, kind: str, obj: Object, version: str) -> FleetLook:
        now = clock.wall() + look.clock_offset
        node = fleet_rows.fleet_node(obj, look.policy)
        if kind == "BOOKMARK" or not self.selection.includes(node.name):
            return replace(look, version=version, now=now, changed=frozenset())
        nodes = {name: one for name, one in look.nodes.items() if name != node.name}
        if kind != "DELETED":
            nodes[node.name] = node
        return replace(look, nodes=nodes, version=version, now=now, changed=frozenset({node.name}))

    def _nodes(self, api: ApiLists, keep: Callable[[Object], T | None]) -> tuple[tuple[T, ...], str]:
        found: list[tuple[str, T]] = []
        version = ""

        def named(obj: Object) -> tuple[str, T] | None:
            name = str((obj.get("metadata") or {}).get("name", ""))
            made = keep(obj) if self.selection.includes(name) else None
            return None if made is None else (name, made)

        for query in self.selection.queries:
            answer = api.listed(NODES, "nodes", named, may="list nodes", **query)
            if isinstance(answer, Unreadable):
                if self.selection.selector is not None and watch.is_refused_selector(answer):
                    raise UsageError(f"--selector {self.selection.selector!r}: {answer.detail}")
                raise CannotSee(f"cannot look at the fleet: {answer}", answer)
            found += answer.items
            version = version or answer.version  # of the first page: the watch brings all later changes
        missing = sorted(set(self.selection.names) - {name for name, _ in found})
        if missing and not self.selection.may_be_deleted:
            raise UsageError(f"no Node {', '.join(missing)}; nodeprep nodes lists them")
        return tuple(one for _, one in found), version

    def _context(self, api: ApiLists, nodes: Mapping[str, FleetNode]) -> tuple[FleetContext, tuple[str, ...]]:
        leases = api.listed(
            agent_lease.path(self.namespace), "leases", fleet_rows.renewal, may=f"list leases -n {self.namespace}"
        )
        pods = self._pods(api, nodes)
        notes: list[str] = []
        if isinstance(leases, Unreadable):
            notes.append(f"cannot tell which agents are alive, so states have a question mark: {leases}")
        elif not leases.items and any(one.state or one.status for one in nodes.values()):
            notes.append(f"no agent's Lease in namespace {self.namespace}; --namespace names another")
        if isinstance(pods, Unreadable):
            notes.append(f"cannot tell which GPUs are free: {pods}")
        used: dict[str, int] = {}
        for node, count in () if isinstance(pods, Unreadable) else pods:
            used[node] = used.get(node, 0) + count
        return FleetContext(
            renewed=None if isinstance(leases, Unreadable) else dict(leases.items),
            used=None if isinstance(pods, Unreadable) else used,
        ), tuple(notes)

    def _pods(self, api: ApiLists, nodes: Mapping[str, FleetNode]) -> tuple[tuple[str, int], ...] | Unreadable:
        """The GPUs of each pod that holds some: of a few Nodes one by one, else of all."""
        with_gpus = [name for name, node in nodes.items() if node.gpus]
        if not with_gpus or not self.gpus:
            return ()
        few = self.selection.names and len(with_gpus) <= SINGLE_READS_LIMIT
        places = [f",spec.nodeName={name}" for name in with_gpus] if few else [""]
        found: list[tuple[str, int]] = []
        for place in places:
            answer: ListedObjects[tuple[str, int]] | Unreadable = api.listed(
                PODS, "pods", fleet_rows.gpus_used, may="list pods --all-namespaces", fieldSelector=UNFINISHED + place
            )
            if isinstance(answer, Unreadable):
                return answer
            found += answer.items
        return tuple(found)


def with_retries(look: Callable[[], T], until: float) -> T:
    """The result of `look`; while it raises CannotSee we look again, until a time of our clock. Raises CannotSee."""
    last_words, failures = "", 0
    while True:
        try:
            return look()
        except CannotSee as cannot:
            left = until - clock.now()
            if left <= 0 or cannot.forbidden:
                raise
            last_words = _say_once(f"looking again: {cannot}", last_words)
        clock.sleep(min(left, RETRY_PAUSES_SECONDS[min(failures, len(RETRY_PAUSES_SECONDS) - 1)]))
        failures += 1


def _say_once(words: str, said: str) -> str:
    if words != said:
        terminal.complain(words)
    return words
