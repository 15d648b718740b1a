"""Builders for tests of repairs by the agent: headers, the Node, Leases, and what a choice is made with."""

from __future__ import annotations

from typing import Any

from nodeprep.agent_state import AgentState, Case, NodeState
from nodeprep.decide import fleet_holds, fleet_notes
from nodeprep.decide.fleet_notes import FleetLease, RepairNote
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.decide.remedy_header import Idle, RemedyHeader, SafetyClass
from nodeprep.decide.repair_budget import BudgetClock
from nodeprep.decide.repair_choice import LastLook, RepairTerms
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Remedy, Subject
from tests.agent_state_values import BOOT, agent_state, case, check, checks

NOW, WALL = 1000.0, 1.8e9
OWN = "n1"
UID = "uid-1"
TAINT = ("nodeprep.io/unhealthy", "NoSchedule")
LINK_UP = Remedy("link_up", {"interface": "eth2"})
RESCAN = Remedy("pci_rescan", {"bdf": "0000:5c:00.0"})
PORT, DRIVER, PLUGIN = "port.state", "pci.driver-bound", "plugin.allocatable"
CHECKS = checks(check(DRIVER), check(PORT, after=(DRIVER,)), check(PLUGIN))


def header(name: str = "link_up", safety: SafetyClass = SafetyClass.S1, **different: Any) -> RemedyHeader:
    """A remedy that everybody may run, and that asks for no idleness."""
    usual: dict[str, Any] = {"purpose": "Mends.", "why": "It is a test.", "idle": Idle.NOTHING, "by_hand": ("mend",)}
    return RemedyHeader(name=name, safety=safety, **(usual | different))


HEADERS = {
    one.name: one
    for one in (
        header(disturbs=("port.flap", "port.state", "counter.physical")),
        header("driver_bind", disturbs=("port.state", "port.netdev")),
        header("pci_rescan", SafetyClass.S2, idle=Idle.RDMA),
        header("memlock", SafetyClass.S2, idle=Idle.RDMA, disturbs=("plugin.allocatable", "plugin.registered")),
        header("plugin_restart", is_act=True, idle=Idle.PLUGIN),
        header("firmware", SafetyClass.S3),
        header("reboot", SafetyClass.S4),
        header("kernel_modules"),
    )
}


def clock(now: float = NOW, wall: float = WALL, boot_id: str = BOOT) -> BudgetClock:
    return BudgetClock(boot_id, now, wall)


def wrong(remedy: Remedy | None = LINK_UP, ago: float = 100.0, **different: Any) -> Case:
    """A conviction of mlx5_3/1 for so many seconds, that still fails."""
    usual: dict[str, Any] = {
        "remedy": remedy,
        "opened_at": NOW - ago - 1,
        "looks": ((NOW - ago, True), (NOW - 1, True)),
        "convicted_at": NOW - ago,
    }
    return case(**(usual | different))


def unhealthy(*cases: Case, **different: Any) -> AgentState:
    """A node that was Ready in this boot, and has these convictions."""
    usual: dict[str, Any] = {"state": NodeState.UNHEALTHY, "since": NOW - 100, "was_ready": True, "cases": cases}
    return agent_state(**(usual | different))


def new(*cases: Case, **different: Any) -> AgentState:
    """A node that was never Ready in this boot."""
    return unhealthy(*cases, **({"state": NodeState.BOOTSTRAP, "was_ready": False} | different))


def node(**different: Any) -> RepairNode:
    """Our Node, with our taint."""
    return RepairNode(**({"uid": UID, "taints": (TAINT,)} | different))


def last_look(at: float, *subjects: Subject) -> LastLook:
    """All that a check needs was looked at then, and these fail, or mlx5_3/1 does."""
    return LastLook({Rdma: at}, frozenset(subjects or (case().subject,)))


def terms(now: float = NOW, **different: Any) -> RepairTerms:
    """Nothing holds anything back."""
    usual: dict[str, Any] = {
        "checks": CHECKS,
        "gates": tuple(CHECKS),
        "headers": HEADERS,
        "clock": clock(now, WALL + now - NOW),
        "node": node(),
        "last_look": last_look(now),
    }
    return RepairTerms(**(usual | different))


def agent_lease(name: str, **note: Any) -> FleetLease:
    """The Lease of an agent that says this."""
    return FleetLease(f"{fleet_holds.AGENT}{name}", name, WALL, 180.0, note=RepairNote(**note))


def slot(number: int = 0, holder: str = "", *, kind: str = "", ago: float = 0.0, seconds: float = 180.0) -> FleetLease:
    """A slot; `kind` is "bootstrap-" for one of new nodes."""
    renewed = WALL - ago if holder else None
    return FleetLease(f"nodeprep-slot-{kind}{number}", holder, renewed, seconds if holder else None, version="7")


def fleet(*others: FleetLease, orders: dict[str, str] | None = None) -> tuple[FleetLease, ...]:
    """All Leases of a fleet in which nothing is wrong: its own, our agent's, and one free slot of each kind."""
    own = (
        FleetLease(fleet_holds.FLEET, orders=orders or {}),
        agent_lease(OWN, faults={fleet_notes.fault_name(PORT, "NoSignal"): WALL}, trying={"link_up": WALL}),
        slot(),
        slot(kind="bootstrap-"),
    )
    given = {lease.name: lease for lease in (*own, *others)}
    return tuple(given.values())


def without(leases: tuple[FleetLease, ...], name: str) -> tuple[FleetLease, ...]:
    return tuple(lease for lease in leases if lease.name != name)
