"""Does every ENI's route table lead out of that ENI?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import eni_tables
from nodeprep.facts.alibaba.eni_tables import FIRST, FROM_POD, LAST, EniTables
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.network.routes import Route, Routes
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    cannot_look,
    raw,
)

TRAP = "ECS's manual numbers tables so by hand (1002 for eth2), where Terway's are 1000 + ifindex"
ADDRESSES_IN_MESSAGE = 3  # addresses in one message


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Terway].present:
        return
    enis = eni_tables.eni_tables(seen)
    told: dict[Subject, Verdict] = {}
    for table in tables(enis.routes):
        link = enis.link_of_table(table)
        verdict = of_eni(table, link, enis) if link and link.name != "lo" else of_nobody(table, enis)
        told[verdict.subject] = max(told.get(verdict.subject, verdict), verdict, key=badness)
    yield from told.values()


def badness(verdict: Verdict) -> int:
    """A pod whose ENI went has a rule for a table that is nobody's: that says more of the ENI than its own table."""
    return (Status.OK, Status.WARN, Status.UNKNOWN, Status.FAIL).index(verdict.status)


def tables(routes: Routes) -> list[int]:
    """Numbers in Terway's range that hold routes, or that rules for pods name."""
    named = {rule.table for rule in routes.rules if rule.priority == FROM_POD and rule.action == "lookup"}
    return sorted(one for one in named | {route.table for route in routes.routes} if FIRST <= one <= LAST)


def of_eni(table: int, link: Link, enis: EniTables) -> Verdict:
    subject, pods = eni_tables.of(link), pods_of(table, enis.routes)
    wants = f"table {table} is the one of {link.name} (ifindex {link.index})"
    found = defaults(table, enis.routes)
    foreign = [route for route in found if route.oif != link.name]
    expected = f"default dev {link.name} onlink"
    restart, about = Remedy("terway_restart"), {"table": str(table)}
    if foreign:
        message = f"{wants}, and holds {foreign[0]}; {TRAP}: see ip route show table {table}"
        return Verdict(subject, Status.FAIL, "OtherInterface", message, restart, str(foreign[0]), expected, args=about)
    if pods and not any(route.family == "inet" for route in found):
        message = f"{wants}, and has no default route: {pods} leave by table main; see ip route show table {table}"
        return Verdict(subject, Status.FAIL, "EmptyTable", message, restart, "no default route", expected, args=about)
    wrong, gateway = misled(link, enis, found)
    if wrong is not None:
        message = f"{wants}, and holds {wrong}; the metadata says gateway {gateway}: see ip route show table {table}"
        return Verdict(subject, Status.FAIL, "OtherGateway", message, restart, wrong.via, gateway, args=about)
    if any(not route.onlink for route in found):
        message = f"{wants}, and {found[0]} in it is not onlink as Terway writes it: somebody else did; {TRAP}"
        return Verdict(subject, Status.WARN, "NotOnlink", message, None, str(found[0]), expected, args=about)
    if found and (blind := unread_gateway(link, enis)):
        return cannot_look(subject, blind)
    return Verdict(subject, Status.OK, "Table", wants, observed=", ".join(map(str, found)))


def unread_gateway(link: Link, enis: EniTables) -> Unreadable | None:
    """Why it is not known which gateway the metadata says, None where that is known or it says none."""
    interface = enis.instance.with_mac(link.own_mac) if enis.instance else None
    gateway = raw(interface)["gateway"] if interface else enis.no_instance
    return gateway if isinstance(gateway, Unreadable) else None


def misled(link: Link, enis: EniTables, found: list[Route]) -> tuple[Route | None, str]:
    """The IPv4 default route that is used, if its gateway is not the ENI's, which is the other; None where unknown."""
    interface = enis.instance.with_mac(link.own_mac) if enis.instance else None
    gateway = raw(interface)["gateway"] if interface else ""
    first = min((one for one in found if one.family == "inet"), key=lambda one: one.metric, default=None)
    if not isinstance(gateway, str) or first is None or not gateway or first.via in ("", gateway):
        return None, ""
    return first, gateway


def of_nobody(table: int, enis: EniTables) -> Verdict:
    """A table whose number belongs to no interface: its ENI is gone, or the table is not Terway's."""
    pods, found = pods_of(table, enis.routes), defaults(table, enis.routes)
    sources = [rule.source.removesuffix("/32") for rule in enis.routes.rules if rule.table == table]
    known = (enis.subject(source, None) for source in sources if source)
    subject = next((one for one in known if one != NODE), NODE)
    nobody, about = f"no interface has ifindex {table - FIRST}", {"table": str(table)}
    if pods and not found:
        message = f"rules name table {table}, which is empty ({nobody}: its ENI is gone): {pods} leave by table main"
        restart, wants = Remedy("terway_restart"), "a default route"
        return Verdict(subject, Status.FAIL, "NoInterface", message, restart, "empty", wants, args=about)
    shows = f"table {table} holds {found[0] if found else 'routes'}"
    message = (
        f"{shows}, and {nobody}; an ENI that gets this number is misled. {TRAP}: use a number outside 1000 to 1999"
    )
    wants = "below 1000 or above 1999"
    return Verdict(subject, Status.WARN, "ForeignTable", message, None, str(table), wants, args=about)


def defaults(table: int, routes: Routes) -> list[Route]:
    return [one for one in routes.table(table) if one.destination == "default" and one.kind == "unicast"]


def pods_of(table: int, routes: Routes) -> str:
    """The pods that a rule sends to this table, in words; "" if there are none."""
    rules = [rule for rule in routes.rules if rule.priority == FROM_POD and rule.table == table]
    sources = [rule.source.removesuffix("/32") for rule in rules if rule.family == "inet"]
    more = f" and {len(sources) - ADDRESSES_IN_MESSAGE} more" if len(sources) > ADDRESSES_IN_MESSAGE else ""
    return f"packets of {', '.join(sources[:ADDRESSES_IN_MESSAGE])}{more}" if sources else ""


CHECK = Check(
    id="route.tables",
    question="Does every ENI's route table lead out of that ENI?",
    why="A pod whose table is empty or leads elsewhere sends by another ENI, and the vSwitch drops what it sends.",
    fix="Restart this node's Terway pod; take hand-made routes out of tables 1000 to 1999 (ip route show table "
    "{table}).",
    reasons=(
        Reason(
            "OtherInterface",
            Status.FAIL,
            "Take hand-made routes out of tables 1000 to 1999: ip route del {observed} table {table}; then restart "
            "this node's Terway pod.",
        ),
        Reason("EmptyTable", Status.FAIL),
        Reason("OtherGateway", Status.FAIL),
        Reason(
            "NotOnlink",
            Status.WARN,
            "Take hand-made routes out of tables 1000 to 1999: ip route del {observed} table {table}; Terway writes "
            "its own when its pod starts.",
        ),
        Reason("Table", Status.OK),
        Reason("NoInterface", Status.FAIL),
        Reason(
            "ForeignTable",
            Status.WARN,
            "Take hand-made routes out of tables 1000 to 1999: ip route flush table {table}; use a number outside.",
        ),
    ),
    source="Terway plugin/driver/utils GetRouteTableID (1000 + ifindex); ECS manual, NIC routing (table 1001)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.RECORDS,
    needs=(Routes, Links, Terway),
    uses=(Imds,),
    after=("eni.missing-link", "eni.up"),
    remedies=("terway_restart",),
    judge=judge,
)
