"""Is Ethernet lossless for RDMA as the switches have it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.qos import NetdevQos, QosSettings
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import ETHERNET
from nodeprep.model import (
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    cannot_look,
    raw,
)
from nodeprep.values import Value, field

RNIC = "4"  # enum rdma_node_type: iWARP runs over TCP, which tolerates loss


class Want(Value):
    """What the switches are set to; nothing is judged by default, for nothing else knows it."""

    pfc: Annotated[
        tuple[int, ...] | None,
        "priorities with flow control, often 3.",
    ] = None
    ecn: Annotated[
        tuple[int, ...] | None,
        "priorities with congestion notification, often 3.",
    ] = None
    trust: Annotated[Literal["dscp", "pcp"] | None, "which mark of a frame gives its priority."] = None
    dscp: Annotated[
        Mapping[int, int],
        "DSCP values and the priorities that they must map to, often 26 to 3.",
    ] = field(default_factory=dict)
    strict: Annotated[bool, "what differs closes the gate."] = False


def judge(seen: Seen) -> Iterator[Verdict]:
    expected, want = seen[Expected], seen[Want]
    roce = (port for port in seen[Rdma].ports if expected.of(port) is not None)
    yield from seen.each(roce, lambda port: verdict(port, seen, want) if is_roce(port, seen[Rdma]) else None)


def is_roce(port: Port, rdma: Rdma) -> bool:
    device = rdma.device(port.device)
    return port.layer == ETHERNET and not (device is not None and (device.node_type or "").startswith(RNIC))


def verdict(port: Port, seen: Seen, want: Want) -> Verdict | None:
    settings, links = seen[QosSettings], seen.get(Links)
    legs = links.legs(port.netdev) if links and port.netdev else ()
    names = tuple(leg.name for leg in legs) or (port.netdev,)
    netdevs = [qos for name in names if (qos := settings.of(name)) is not None]
    if not netdevs:
        return None  # its netdev is elsewhere, or not recorded
    if want in (Want(), Want(strict=True)):
        shows = "; ".join(f"{qos.netdev}: {shown(qos)}" for qos in netdevs)
        message = f"{port.where}: {shows}; no profile says what the switches have"
        return Verdict(port.subject, Status.OK, "NothingWanted", message)
    found = [(qos, *one) for qos in netdevs for one in compare(qos, want)]
    wrong = [
        f"{qos.netdev} has {name} {seen_as}; {wanted} is wanted {seen.wanted_by(name.partition(' ')[0].lower())}"
        for qos, name, seen_as, wanted in found
        if seen_as
    ]
    if wrong:
        status = Status.FAIL if want.strict else Status.WARN
        message = f"{port.where}: {'; '.join(wrong)}; the switches must have it too"
        first = next(qos.netdev for qos, _, seen_as, _ in found if seen_as)
        return Verdict(port.subject, status, "OtherSettings", message, args={"interface": first})
    hidden = [f"{qos.netdev} {name}" for qos, name, seen_as, _ in found if not seen_as]
    if hidden and settings.asked:
        detail = "the driver does not show it; vendor tools such as mlnx_qos may"
        return cannot_look(port.subject, Unreadable(Why.MISSING_TOOL, ", ".join(hidden), detail=detail))
    if hidden:
        return None  # only a live driver tells
    return Verdict(
        port.subject, Status.OK, "AsWanted", f"{port.where}: {', '.join(q.netdev for q in netdevs)} as wanted"
    )


def compare(qos: NetdevQos, want: Want) -> Iterator[tuple[str, str, str]]:
    """What differs from the wish: its name, what is shown ("" if nothing is), and what is wanted."""
    if want.pfc is not None and (qos.pfc is None or set(qos.pfc) != set(want.pfc)):
        yield "PFC", "" if qos.pfc is None else priorities(qos.pfc), priorities(want.pfc)
    if want.ecn is not None and (qos.ecn is None or set(qos.ecn) != set(want.ecn)):
        yield "ECN", "" if qos.ecn is None else priorities(qos.ecn), priorities(want.ecn)
    if want.trust is not None and qos.trust != want.trust:
        yield "trust", qos.trust or "", want.trust
    for value, priority in sorted(want.dscp.items()):
        if qos.dscp is None or (value, priority) not in qos.dscp:
            mapped = [str(to) for mark, to in qos.dscp or () if mark == value]
            shows = "" if qos.dscp is None else " and ".join(mapped) or "no priority"
            yield f"DSCP {value} to", shows, f"priority {priority}"


def priorities(numbers: tuple[int, ...]) -> str:
    return f"on {','.join(map(str, sorted(numbers)))}" if numbers else "off"


def shown(qos: NetdevQos) -> str:
    fields = raw(qos)
    parts = [f"PFC {priorities(fields['pfc'])}"] if isinstance(fields["pfc"], tuple) else []
    parts += [f"ECN {priorities(fields['ecn'])}"] if isinstance(fields["ecn"], tuple) else []
    parts += [f"trust {fields['trust']}"] if isinstance(fields["trust"], str) else []
    parts += [f"DSCP {mark} to {to}" for mark, to in fields["dscp"]] if isinstance(fields["dscp"], tuple) else []
    return ", ".join(parts) or "its driver shows no settings"


CHECK = Check(
    id="qos.lossless",
    question="Is Ethernet lossless for RDMA as the switches have it?",
    why="RoCE that loses frames goes back and sends them again: one NIC without PFC or ECN slows the whole job.",
    fix="mlnx_qos -i {interface} --trust dscp --pfc 0,0,0,1,0,0,0,0, or dcb pfc set dev {interface} prio-pfc 3:on; "
    "the values are those that the message wants.",
    reasons=(
        Reason("NothingWanted", Status.OK),
        Reason("OtherSettings", Status.FAIL),
        Reason("OtherSettings", Status.WARN),
        Reason("AsWanted", Status.OK),
    ),
    source="Linux include/uapi/linux/dcbnl.h (IEEE 802.1Qaz); NVIDIA's RoCE configuration guide (qos/, ecn/ of OFED)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Expected, QosSettings),
    uses=(Links,),
    after=("port.netdev",),
    want=Want,
    judge=judge,
)
