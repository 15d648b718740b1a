"""The table of metrics, and the values that each takes from a NodeStatus.

Only values: publish/metrics serves them. What could not be read has no series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nodeprep.checks.plugin import advertised
from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import ENI_MACS, EniRow
from nodeprep.facts.kubernetes import device_books
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.device_books import Book
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import CannotLook, Seen, Status, Unreadable, raw
from nodeprep.publish.node_status import NodeStatus
from nodeprep.values import Value

Rows = Mapping[tuple[str, ...], float]

LABEL_LIMIT_CHARACTERS = (
    120  # characters of a label's value: names come from the kernel, from Kubernetes and from files
)
REPEATS_SHOWN = 3  # devices that fail again and again: a node has 300 series at most
SHOWN_SECONDS = 0.001  # of a look: most facts take less, and tell nothing by it
SHOWN_LIMIT_FACTS = 3  # the slowest: on a node under load each of forty facts takes a millisecond
WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK)
ACTIVE = "4"  # enum ib_port_state (include/rdma/ib_verbs.h)
GIGABIT = 1e9 / 8  # bytes; sysfs gives Gb/s, and Prometheus wants bytes

# One series for each counter of each port would be 120 on a node of eight rails. Every counter that a check judges is
# in one kind. The exception is retrans_bytes, which counts the same as retrans_pkts.
KINDS: Mapping[str, tuple[str, ...]] = {
    "link-lost": ("link_downed", "link_error_recovery"),
    "bits": ("symbol_error", "local_link_integrity_errors"),
    "receive": ("port_rcv_errors", "excessive_buffer_overrun_errors"),
    "discard": ("port_xmit_discards",),
    "gave-up": (
        "rnr_nak_retry_err",
        "retry_rnr_exceeded_err",
        "retry_exceeded_err",
        "req_transport_retries_exceeded",
        "roce_adp_retrans_to",
    ),
    "retry": (
        "local_ack_timeout_err",
        "roce_slow_restart",
        "out_of_sequence",
        "packet_seq_err",
        "rcvd_seq_err",
        "out_of_seq_request",
        "rx_drops",
        "rdma_write_wr_err",
        "rdma_read_wr_err",
        "unresponsive_remote_events",
        "unresponsive_remote_err",
        "impaired_remote_conn_events",
        "impaired_remote_conn_err",
        "retrans_timeout_events",
        "retrans_pkts",
    ),
}
ENI_STATES: Mapping[str, str] = {
    "primary": "the node's own",
    "shared": "its addresses are given to pods",
    "pod": "a pod has it for itself",
    "rdma": "an elastic RDMA interface",
    "free": "attached, and nobody's yet",
    "missing": "in the metadata, and the kernel has no link of it",
    "ghost": "the kernel has a link of it, and the metadata does not know it",
    "unknown": "a record that decides it could not be read",
}


class Series(Value):
    """One metric: its name, meaning, labels, and values by labels. Names that end in _total are counters."""

    name: str
    about: str
    labels: tuple[str, ...]
    rows: Callable[[NodeStatus], Rows]

    def of(self, status: NodeStatus) -> dict[tuple[str, ...], float]:
        """The values. Labels that are equal after they are cut become one series, the last of them."""
        return {tuple(map(label_value, labels)): value for labels, value in self.rows(status).items()}


def label_value(text: str) -> str:
    """A label's value: short, and valid text even if a name of the kernel is not."""
    return text.encode("utf-8", "backslashreplace").decode()[:LABEL_LIMIT_CHARACTERS]


def checks(status: NodeStatus) -> Rows:
    """Each check's worst status. What is waived or follows from another fault does not count."""
    said: dict[str, set[Status]] = {}
    for finding in status.report.findings:
        if finding.counts and finding.status is not Status.ABSENT:
            said.setdefault(finding.check, set()).add(finding.status)
    return {(check, next(one for one in WORST_FIRST if one in found)): 1 for check, found in said.items()}


def slowest_facts(status: NodeStatus) -> Rows:
    """The facts that take longest, if they take long at all. Of equal ones the first by name."""
    slow = [(took, fact) for fact, took in status.fact_seconds.items() if took >= SHOWN_SECONDS]
    return {(fact,): took for took, fact in sorted(slow, key=lambda one: (-one[0], one[1]))[:SHOWN_LIMIT_FACTS]}


def ports_up(status: NodeStatus) -> Rows:
    readable = ((port, raw(port)["state"]) for port in ports(status))
    return {label(port): float(state[:1] == ACTIVE) for port, state in readable if isinstance(state, str)}


def port_rates(status: NodeStatus) -> Rows:
    readable = ((port, raw(port)["rate"]) for port in ports(status))
    return {label(port): rate * GIGABIT for port, rate in readable if not isinstance(rate, Unreadable)}


def port_errors(status: NodeStatus) -> Rows:
    counters, places = status.facts.get(Counters), {label(port) for port in ports(status)}
    if not isinstance(counters, Counters):
        return {}
    known = (port for port in counters.ports if label(port) in places)
    return {(*label(port), kind): value for port in known for kind, value in errors(port).items()}


def errors(port: PortCounters) -> dict[str, float]:
    """The sum of each kind that the port counts. None if a part could not be read, because a sum must not fall."""
    values = dict(port.values)
    unread = {blind.path.rpartition("/")[2] for blind in port.unread}
    if "counters" in unread or "hw_counters" in unread:
        return {}
    offered = {kind: [name for name in names if name in values] for kind, names in KINDS.items()}
    return {
        kind: float(sum(values[name] for name in names))
        for kind, names in offered.items()
        if names and unread.isdisjoint(KINDS[kind])
    }


def ports(status: NodeStatus) -> tuple[Port, ...]:
    """Ports of this node's own devices. Functions that are handed out to pods come and go by the hundreds."""
    rdma = status.facts.get(Rdma)
    if not isinstance(rdma, Rdma):
        return ()
    handed_out = {device.name for device in rdma.devices if raw(device)["virtual_function"] is True}
    return tuple(port for port in rdma.ports if port.device not in handed_out)


def label(port: Port | PortCounters) -> tuple[str, str]:
    return port.device, str(port.number)


def resources(status: NodeStatus) -> Rows:
    """Extended resources, each by four books: what the node has, what the Node says of it, and what pods hold."""
    counted = {
        (book.resource, name): count
        for book in books(Seen(status.facts))
        for name, count in (
            # Each plugin of RDMA devices takes some of them, and no number tells how many are a resource's.
            ("hardware", None if book.resource.startswith(device_books.RDMA) else book.hardware),
            ("capacity", book.capacity),
            ("allocatable", book.allocatable),
            ("in_use", None if book.holders is None else sum(one.count for one in book.holders)),
        )
    }
    return {labels: float(count) for labels, count in counted.items() if count is not None}


def books(seen: Seen) -> tuple[Book, ...]:
    """The books as `plugin.allocatable` judges them; the Node's alone where the kubelet cannot be asked."""
    try:
        if seen.get(Kubelet) is not None:
            return advertised.books(seen, ())
    except CannotLook:
        pass  # the check says why
    return device_books.books((), kubelet=None, cluster=advertised.known(seen, Cluster))


def enis(status: NodeStatus) -> Rows:
    """How many ENIs are in which state, on an ECS instance whose metadata and links could be read."""
    if Imds not in status.facts or Links not in status.facts:
        return {}
    try:
        books = ledger.ledger(Seen(status.facts))
    except CannotLook:
        return {}
    if books is None:
        return {}
    counts = dict.fromkeys(ENI_STATES, 0)
    for row in books.rows:
        state = known_state(row)
        if state:
            counts[state] += 1
    return {(state,): float(count) for state, count in counts.items()}


def known_state(row: EniRow) -> str:
    """Its state, "unknown" if a record that decides it could not be read."""
    try:
        state = eni_state(row)
    except CannotLook:
        return "unknown"
    return state


def eni_state(row: EniRow) -> str:
    """One of ENI_STATES. "" for a NIC that no cloud attached."""
    if row.metadata is None:
        return "ghost" if row.mac.startswith(ENI_MACS) else ""
    if row.is_primary:
        return "primary"
    if row.is_eri:
        return "rdma"
    if row.holder is not None:
        return "pod"
    if row.link is None:
        return "missing"
    return "shared" if row.is_for_pods else "free"


def node_ok(status: NodeStatus) -> Rows:
    return single(not status.api_status.trouble) if status.api_status else {}


def admission_policy_ok(status: NodeStatus) -> Rows:
    """None until it was tested."""
    return (
        single(status.api_status.policy_enforced)
        if status.api_status and status.api_status.policy_enforced is not None
        else {}
    )


def suppressed_now(status: NodeStatus) -> Rows:
    return {(one.check, one.remedy, one.reason.value): 1 for one in status.repair.suppressions}


def repair_step(status: NodeStatus) -> Rows:
    """None while nothing is on its way."""
    repair = status.repair
    return {(repair.remedy, repair.check, repair.step): 1} if repair.step else {}


def single(value: float) -> Rows:
    return {(): float(value)}


ALL = (
    Series("nodeprep_check_status", "Worst status of a check now, none if it is absent", ("check", "status"), checks),
    Series(
        "nodeprep_ready",
        "Whether the node is ready for a profile (1) or not (0)",
        ("profile",),
        lambda status: {(found.name,): float(found.ready) for found in status.desired.profiles},
    ),
    Series(
        "nodeprep_gate_reason",
        "What keeps a profile from being ready: 1 for the check and the reason of it",
        ("profile", "check", "reason", "drill"),
        lambda status: {
            (one.name, one.check, one.reason, one.drill): 1 for one in status.desired.profiles if not one.ready
        },
    ),
    Series(
        "nodeprep_drill",
        "1 while somebody makes a fault on purpose, by its kind and device (nodeprep drill)",
        ("drill", "device"),
        lambda status: {(status.drill.name, status.drill.device): 1} if status.drill else {},
    ),
    Series(
        "nodeprep_state",
        "What the agent is about with its node: 1 for the state it is in, and no other",
        ("state",),
        lambda status: {(status.agent_state.state.value,): 1},
    ),
    Series(
        "nodeprep_fact_seconds",
        f"How long the newest observations of the {SHOWN_LIMIT_FACTS} slowest facts took, from a millisecond on",
        ("fact",),
        slowest_facts,
    ),
    Series(
        "nodeprep_last_round_timestamp_seconds",
        "When the last round ended, in seconds since 1970",
        (),
        lambda status: single(status.round_time),
    ),
    Series("nodeprep_rounds_total", "Rounds since the agent started", (), lambda status: single(status.rounds)),
    Series("nodeprep_port_up", "Whether an RDMA port is ACTIVE (1) or not (0)", ("device", "port"), ports_up),
    Series("nodeprep_port_rate_bytes", "Rate of an RDMA port in bytes per second", ("device", "port"), port_rates),
    Series("nodeprep_port_errors_total", "Errors that a port counted", ("device", "port", "kind"), port_errors),
    Series(
        "nodeprep_resource",
        "Extended resources: devices, the Node's numbers, and units in use",
        ("resource", "book"),
        resources,
    ),
    Series("nodeprep_eni", "Elastic network interfaces of the instance, by what they are for", ("state",), enis),
    Series(
        "nodeprep_repair_suppressed_total",
        "Remedies that were due and not run, by what held them back",
        ("reason",),
        lambda status: {(reason,): float(times) for reason, times in status.repair.suppressed.items()},
    ),
    Series(
        "nodeprep_repair_suppressed_now",
        "1 for a remedy that is due and does not run now, by what holds it back",
        ("check", "remedy", "reason"),
        suppressed_now,
    ),
    Series(
        "nodeprep_repair_tries_left",
        "Tries that are left today for a fault that has a remedy; of several faults the fewest",
        ("check", "remedy"),
        lambda status: {labels: float(left) for labels, left in status.repair.tries_left.items()},
    ),
    Series("nodeprep_repair_step", "1 for the step of the remedy on its way", ("remedy", "check", "step"), repair_step),
    Series(
        "nodeprep_api_requests_total",
        "Requests to the API server, by verb and HTTP code",
        ("verb", "code"),
        lambda status: {labels: float(times) for labels, times in status.api_requests.items()},
    ),
    Series(
        "nodeprep_config_ok",
        "Whether the configuration on disk is the one in force (1), or could not be read (0)",
        (),
        lambda status: single(not status.config_trouble),
    ),
    Series(
        "nodeprep_state_file_ok",
        "Whether the agent state is kept on disk (1), or only in the process (0)",
        (),
        lambda status: single(not status.store_trouble),
    ),
    Series(
        "nodeprep_gate_files_ok",
        "Whether gate files stand as the gates do (1), or one cannot be written or removed (0)",
        (),
        lambda status: single(not status.gate_trouble),
    ),
    Series("nodeprep_node_ok", "Whether Node and Lease say what they should (1), or cannot be written", (), node_ok),
    Series(
        "nodeprep_admission_policy_ok",
        "Whether a foreign label and Lease were denied to it when last tried",
        (),
        admission_policy_ok,
    ),
    Series(
        "nodeprep_mounts_ok", "Whether only its own mounts are writable", (), lambda status: single(not status.exposed)
    ),
    Series(
        "nodeprep_repeat_offender",
        f"In how many different hours a device was convicted lately (history.repeat-days); the worst {REPEATS_SHOWN}",
        ("device", "check"),
        lambda status: {(one.device, one.check): one.hours for one in status.repeat_offenders[:REPEATS_SHOWN]},
    ),
    Series("nodeprep_waivers", "Findings that a waiver excuses now", (), lambda status: single(status.waivers)),
    Series(
        "nodeprep_upgrade_deferred_checks",
        "What holds a rollout up",
        (),
        lambda status: single(status.rollout_wait_count),
    ),
    Series("nodeprep_taint_ok", "Whether no plugin keeps a due taint away", (), lambda status: single(status.taint_ok)),
    Series(
        "nodeprep_event_source_up",
        "Whether an event source of the kernel is heard (1), or its facts are only polled (0)",
        ("event_source",),
        lambda status: {
            (event_source,): float(found.alive)
            for event_source, found in status.event_sources.items()
            if not found.absent
        },
    ),
    Series(
        "nodeprep_event_source_restarts_total",
        "How often an event source was opened again after it had died, from the first time on",
        ("event_source",),
        lambda status: {
            (event_source,): float(found.restarts)
            for event_source, found in status.event_sources.items()
            if found.restarts
        },
    ),
)
