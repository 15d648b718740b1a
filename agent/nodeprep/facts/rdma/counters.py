"""Error and traffic counters of RDMA ports: those that a check judges, for each read can be a firmware command."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import CLASS, Port
from nodeprep.model import Fact, Shown, Subject, Unreadable, Why, derived, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

# Bits of the files in counters/ (drivers/infiniband/core/sysfs.c). They stop at their maximum. Traffic has 64 where
# the hardware has the extended set; then nothing stops at 32.
WIDTHS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_xmit_discards": 16,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "port_xmit_packets": 32,
    "port_rcv_packets": 32,
}
# hw_counters by name, whichever driver offers them: mlx5, rxe, efa, bnxt_re, irdma.
TRANSPORT = (
    "rnr_nak_retry_err",
    "local_ack_timeout_err",
    "roce_slow_restart",
    "roce_adp_retrans_to",
    "out_of_sequence",
    "packet_seq_err",
    "req_transport_retries_exceeded",
    "rcvd_seq_err",
    "out_of_seq_request",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "completer_retry_err",
    "rx_drops",
    "rdma_write_wr_err",
    "rdma_read_wr_err",
    "unresponsive_remote_events",
    "unresponsive_remote_err",
    "impaired_remote_conn_events",
    "impaired_remote_conn_err",
    "retrans_bytes",
    "retrans_pkts",
    "retrans_timeout_events",
)
HARDWARE_TRAFFIC = ("sent_pkts", "rcvd_pkts", "tx_pkts", "rx_pkts")
HARDWARE = frozenset((*TRANSPORT, *HARDWARE_TRAFFIC, "link_downed"))
STANDARD_COUNTERS = frozenset(WIDTHS)
NOT_OFFERED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODATA)


@shown
class PortCounters(Shown):
    """One port's counters by name. `values` holds what was read; `unread` what refused, with its reason.

    `saturated` names those that reached the highest value they can hold: they count no further until they are reset.
    """

    device: str
    number: int
    bdf: str
    values: tuple[tuple[str, int], ...]
    unread: tuple[Unreadable, ...]
    saturated: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.device}/{self.number}"

    @property
    def place(self) -> str:
        return self.bdf or self.device

    @property
    def subject(self) -> Subject:
        return Subject(self.place, self.number, self.name)

    def get(self, name: str) -> int | None:
        return dict(self.values).get(name)

    def since(self, then: PortCounters) -> dict[str, int]:
        """By how much each counter grew; without those that were reset meanwhile or could not count any further."""
        old = dict(then.values)
        known = (pair for pair in self.values if pair[0] in old and pair[0] not in then.saturated)
        return {name: value - old[name] for name, value in known if value >= old[name]}


@shown
class Counters(Shown):
    """Counters of every port; `at` is when they were read, for rates."""

    at: float
    ports: tuple[PortCounters, ...]

    def of(self, port: Port | PortCounters) -> PortCounters | None:
        """The same port in this look."""
        return self._by_place.get((port.place, port.number))

    @derived
    def _by_place(self) -> dict[tuple[str, int], PortCounters]:
        """As subjects are compared, without making any."""
        return {(port.place, port.number): port for port in reversed(self.ports)}


def observe(host: Host) -> Counters | Unreadable:
    ports = rdma.places(host.files)
    if isinstance(ports, Unreadable):
        return ports
    return Counters(host.now(), tuple(_port(host, name, number, bdf) for name, number, bdf in ports))


def _port(host: Host, device: str, number: int, bdf: str) -> PortCounters:
    here = f"{CLASS}/{device}/ports/{number}"
    values: dict[str, int] = {}
    unread: list[Unreadable] = []
    saturated: list[str] = []
    for directory, wanted in (("hw_counters", HARDWARE), ("counters", STANDARD_COUNTERS)):
        names = host.files.names(f"{here}/{directory}")
        if isinstance(names, Unreadable):
            unread.append(names)
            continue
        for name in names or ():
            path = f"{here}/{directory}/{name}"
            if name not in wanted or path in host.refused:
                continue
            value = host.files.number(path)
            if isinstance(value, int):
                values[name] = value
                # Drivers' own counters of the same name are wider: rxe's link_downed does not end at 255.
                if directory == "counters" and value == (1 << WIDTHS[name]) - 1:
                    saturated.append(name)
            elif isinstance(value, Unreadable) and _offered(host, path, value):
                unread.append(value)
    return PortCounters(device, number, bdf, tuple(sorted(values.items())), tuple(unread), tuple(saturated))


def _offered(host: Host, path: str, value: Unreadable) -> bool:
    """Whether the port has such a counter. A counter that is missing says EINVAL or "N/A (no PMA)".

    It is not asked again: each time would be a line in the kernel log.
    """
    if value.errno in NOT_OFFERED or "N/A" in value.detail:
        host.refused.add(path)
        return False
    return value.kind is not Why.MISSING


FACT = Fact(Counters, observe, every=10.0)
