"""Does every ENI that Terway manages hold no address but the node's own?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import EniRow, Ledger
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Address, Links
from nodeprep.facts.network.os_network import OsNetwork
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import CannotLook, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

# Not `ip address flush`: that takes the node's own address away too, which Terway put there.
LET_GO = (
    "make that program let go of it (networkctl reload && networkctl reconfigure {interface}; nmcli device set "
    "{interface} managed no), {commands}, and restart the node's Terway pod"
)
HOST_PREFIX_LENGTHS = (32, 128)  # terway plugin/datapath: the node's address is added with a mask of all bits


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is None or not books.has_terway:
        return
    own, is_asked_for = of_node(books), asked_for(seen)
    yield from seen.each(books.attached, lambda row: verdict(row, own, is_asked_for=is_asked_for))


def of_node(books: Ledger) -> frozenset[str]:
    """The node's addresses: those on its primary ENI, by the metadata."""
    primary = books.instance.primary
    return frozenset((primary.primary_address, *primary.ipv6_addresses)) if primary else frozenset()


def asked_for(seen: Seen) -> bool:
    """Whether a program of the system is still told to set up ENIs. It is taken for so where nobody can see that."""
    try:
        found = seen.get(OsNetwork)
        return found is None or bool(found.claims)
    except CannotLook:
        return True


def verdict(row: EniRow, own: frozenset[str], *, is_asked_for: bool) -> Verdict | None:
    foreign = [one for one in row.addresses() if one.address not in own or one.prefix not in HOST_PREFIX_LENGTHS]
    if row.is_primary or row.link is None or not row.is_for_pods:
        return None
    if not foreign:
        return Verdict(row.subject, Status.OK, "NodeOnly", f"{row.where} holds no address but the node's")
    words = ", ".join(described(one) for one in foreign[:4])
    name = row.link.name
    commands = " && ".join(f"ip address del {one.address}/{one.prefix} dev {name}" for one in foreign)
    about = {"interface": name, "commands": commands}
    is_systems = any(one.dynamic or (row.metadata and one.address == row.metadata.primary_address) for one in foreign)
    reason, unmanage = "ForeignAddress", None
    message = f"{row.where} holds {words}, which is not the node's: Terway takes it away with the next pod"
    if is_systems and is_asked_for:
        message = (
            f"{row.where} holds {words}: the system manages it beside Terway (DHCP), whose rules and routes it will "
            f"take away; see networkctl status {name}, nmcli device, cloud-init query"
        )
        reason, unmanage = "ManagedBySystem", Remedy("os_unmanage_eni", {"interface": name})
    elif is_systems:
        message = (
            f"{row.where} holds {words}, and no configuration asks for it any more: it goes at a reboot, or when the "
            f"program that set it has let go of {name} and then {commands}"
        )
        reason = "LeftOver"
    return Verdict(row.subject, Status.WARN, reason, message, unmanage, words, "none but the node's /32", args=about)


def described(one: Address) -> str:
    return f"{one.address}/{one.prefix}{' dynamic' if one.dynamic else ''}"


CHECK = Check(
    id="eni.foreign-address",
    question="Does every ENI that Terway manages hold no address but the node's own?",
    why="An ENI with an address of its own was set up by DHCP as well: a second default route, rules that vanish at "
    "the next lease, and answers that leave by the wrong ENI.",
    fix="Take the ENI from the system's network manager (eni.os-manager names it; nodeprep repair eni.os-manager). "
    f"Then {LET_GO}.",
    reasons=(
        Reason("NodeOnly", Status.OK),
        Reason("ManagedBySystem", Status.WARN),
        Reason("LeftOver", Status.WARN, f"Reboot, or {LET_GO}."),
        Reason(
            "ForeignAddress",
            Status.WARN,
            "See who set {observed} (eni.os-manager, hand-made scripts), then {commands}, and restart the node's "
            "Terway pod.",
        ),
    ),
    source="terway plugin/driver/utils EnsureAddr (deletes other addresses); terway issue 141; "
    "cloud-init DataSourceAliYun (dhcp4 on every NIC)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Links, Terway),
    uses=(Rdma, Cluster, OsNetwork),
    remedies=("os_unmanage_eni",),
    judge=judge,
)
