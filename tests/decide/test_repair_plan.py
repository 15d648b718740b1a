"""Which remedies a report asks for: a table of findings, and properties of every plan."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import repair_plan
from nodeprep.decide.remedy_arguments import MachineNames
from nodeprep.decide.remedy_header import CLASSES, Idle, Parameter, ParameterKind, RemedyHeader, SafetyClass
from nodeprep.decide.repair_plan import PlanTerms, RefusalReason, RefusedRemedy, RepairPlan
from nodeprep.model import Finding, Remedy, Report, Severity, Status, Subject, Verdict, Waived

NETDEV = {"interface": Parameter(ParameterKind.NETDEV)}
MACHINE = MachineNames(frozenset({"eth0", "eth1"}), frozenset(), frozenset())


def header(name: str, safety: SafetyClass = SafetyClass.S1, tools: tuple[str, ...] = ("ip",)) -> RemedyHeader:
    return RemedyHeader(name, "Mends.", safety, "Nobody loses by it.", Idle.NOTHING, ("mend",), NETDEV, tools=tools)


HEADERS = {
    "link_up": header("link_up"),
    "mtu": header("mtu", SafetyClass.S2),
    "bind": header("bind", SafetyClass.S3),
    "reboot": header("reboot", SafetyClass.S4),
    "rdma": header("rdma", tools=("ip", "rdma", "modprobe")),
}


def finding(
    check: str,
    remedy: str | None = None,
    interface: str = "eth0",
    *,
    status: Status = Status.FAIL,
    root: str | None = None,
    waived: bool = False,
) -> Finding:
    planned = None if remedy is None else Remedy(remedy, {"interface": interface})
    verdict = Verdict(Subject(interface), status, "Down", f"{interface} is down", planned)
    excuse = Waived("known", "2030-01-01", 9) if waived else None
    return Finding(check, Severity.GATE, verdict, root, excuse, "ip link set up")


def plan(
    *findings: Finding,
    limit: SafetyClass = SafetyClass.S2,
    tools: frozenset[str] = frozenset({"ip"}),
    checks: frozenset[str] | None = None,
    done: frozenset[tuple[str, tuple[tuple[str, str], ...]]] = frozenset(),
) -> RepairPlan:
    report = Report("n1", "boot", "rdma", "test", (), findings, ())
    return repair_plan.plan(report, PlanTerms(HEADERS, MACHINE, limit, tools, checks, done))


def test_steps_stand_in_the_order_of_the_findings_and_each_once() -> None:
    made = plan(
        finding("eni.up", "link_up", "eth1"),
        finding("port.mtu", "mtu", status=Status.WARN),
        finding("port.state", "link_up", "eth1"),
    )
    assert [step.label for step in made.steps] == ["link_up(interface=eth1)", "mtu(interface=eth0)"]
    assert [one.check for one in made.steps[0].findings] == ["eni.up", "port.state"]
    assert made.refusals == ()


@pytest.mark.parametrize("status", [Status.OK, Status.ABSENT, Status.UNKNOWN])
def test_what_does_not_fail_asks_for_nothing(status: Status) -> None:
    assert plan(finding("port.state", "link_up", status=status)) == RepairPlan()


@pytest.mark.parametrize("limit", CLASSES)
def test_no_limit_lets_run_what_is_for_a_human(limit: SafetyClass) -> None:
    (refused,) = plan(finding("port.state", "reboot"), limit=limit).refusals
    assert refused.reason is RefusalReason.CLASS
    assert "for a human" in refused.why


def test_what_follows_is_left_to_the_next_look() -> None:
    """And what an operator excused, and what no remedy mends, unless somebody names it."""
    rest = (
        finding("port.state", "link_up", root="pci.driver-bound"),
        finding("eni.up", "link_up", waived=True),
        finding("pci.link"),
    )
    assert plan(*rest) == RepairPlan()
    named = plan(*rest, checks=frozenset({"port.state", "eni.up", "pci.link"}))
    assert named.steps == ()
    assert [(one.check, one.reason) for one in named.refusals] == [
        ("port.state", RefusalReason.FOLLOWS),
        ("pci.link", RefusalReason.NO_REMEDY),
    ]
    assert named.refusals[0].why.endswith("nodeprep repair pci.driver-bound")
    assert named.refusals[1].why == "no remedy of ours mends this: ip link set up"


REFUSED = [
    ("erdma_install", "eth0", RefusalReason.NOT_BUILT, "needs a mirror of the driver's packages, their checksum"),
    ("unheard_of", "eth0", RefusalReason.NOT_BUILT, "this installation has no such playbook"),
    ("bind", "eth0", RefusalReason.CLASS, "it is of class S3, and --max-class is S2: Nobody loses by it."),
    ("rdma", "eth0", RefusalReason.MISSING_TOOL, "this host has no rdma and no modprobe: install it"),
    ("link_up", "eth9", RefusalReason.ARGUMENT, "link_up: interface: found 'eth9'"),
]


@pytest.mark.parametrize(("remedy", "interface", "reason", "says"), REFUSED)
def test_what_is_refused(remedy: str, interface: str, reason: RefusalReason, says: str) -> None:
    made = plan(finding("port.state", remedy, interface), finding("port.state", remedy, interface))
    (one,) = made.refusals
    assert made.steps == ()
    assert (one.check, one.remedy, one.reason) == ("port.state", remedy, reason)
    assert says in one.why


APPROVED = {
    one.name: one
    for one in (
        header("link_up"),
        header("mtu", SafetyClass.S2),
        header("firmware", SafetyClass.S3),
        header("bind", SafetyClass.S3),
        header("reboot", SafetyClass.S4),
    )
}
APPROVABLE = [
    # a remedy, why an approval of it makes no sense
    ("firmware", ""),
    ("link_up", "link_up is of class S1 and needs no approval; one of class S3 does: bind, firmware"),
    ("mtu", "mtu is of class S2 and needs no approval"),
    ("reboot", "reboot is of class S4, which is for a human, approved or not: Nobody loses by it."),
    ("erdma_install", "erdma_install is not built: it needs a mirror"),
    ("firmwar", "found 'firmwar', wanted a remedy of class S3: bind, firmware"),
    ("", "found '', wanted a remedy of class S3"),
]


@pytest.mark.parametrize(("remedy", "why"), APPROVABLE)
def test_what_an_approval_is_for(remedy: str, why: str) -> None:
    told = repair_plan.unapprovable(remedy, APPROVED)
    assert bool(told) == bool(why)
    assert why in told


def test_where_no_remedy_needs_an_approval_it_says_so() -> None:
    assert repair_plan.unapprovable("mtu", {"mtu": APPROVED["mtu"]}).endswith("one of class S3 does: there is none")


@pytest.mark.parametrize("limit", CLASSES)
def test_the_highest_class(limit: SafetyClass) -> None:
    names = [("link_up", SafetyClass.S1), ("mtu", SafetyClass.S2), ("bind", SafetyClass.S3)]
    made = plan(*(finding("port.state", name) for name, _ in names), limit=limit)
    assert [step.header.name for step in made.steps] == [name for name, one in names if not one.is_above(limit)]


def test_what_ran_does_not_run_again() -> None:
    (step,) = plan(finding("port.state", "link_up")).steps
    assert plan(finding("port.state", "link_up"), done=frozenset({step.key})) == RepairPlan()
    assert plan(finding("port.state", "link_up", "eth1"), done=frozenset({step.key})).steps


FINDINGS = st.builds(
    finding,
    st.sampled_from(["a.a", "b.b", "c.c"]),
    st.sampled_from([None, *HEADERS, "erdma_install"]),
    st.sampled_from(["eth0", "eth1", "eth9", "{{x}}"]),
    status=st.sampled_from(Status),
    root=st.sampled_from([None, "a.a"]),
    waived=st.booleans(),
)


@given(
    findings=st.lists(FINDINGS, max_size=8),
    limit=st.sampled_from(CLASSES),
    tools=st.frozensets(st.sampled_from(["ip", "rdma", "modprobe"])),
    checks=st.none() | st.frozensets(st.sampled_from(["a.a", "b.b"])),
)
def test_every_plan(
    findings: list[Finding], limit: SafetyClass, tools: frozenset[str], checks: frozenset[str] | None
) -> None:
    """Nothing runs that is excused, above the limit, without its tools, or with an argument that does not resolve."""
    made = plan(*findings, limit=limit, tools=tools, checks=checks)
    for step in made.steps:
        assert not step.header.safety.is_above(limit)
        assert tools.issuperset(step.header.tools)
        assert step.args["interface"] in ("eth0", "eth1")
        for one in step.findings:
            assert one in findings
            assert (one.root, one.waived) == (None, None)
            assert one.status in (Status.FAIL, Status.WARN)
            assert checks is None or one.check in checks
    keys = [step.key for step in made.steps]
    assert len(keys) == len(set(keys))
    assert len(set(made.refusals)) == len(made.refusals)
    told: Mapping[str, set[str]] = {
        "mended": {one.check for step in made.steps for one in step.findings},
        "refused": {one.check for one in made.refusals},
    }
    for one in findings:
        counts = one.status in (Status.FAIL, Status.WARN) and one.waived is None
        if counts and (one.check in checks if checks is not None else one.root is None and one.verdict.remedy):
            assert one.check in told["mended"] | told["refused"], "nothing is dropped in silence"


def test_a_refusal_is_a_line() -> None:
    for one in plan(finding("port.state", "link_up", "eth0\x1b[2J")).refusals:
        assert isinstance(one, RefusedRemedy)
        assert one.why.isprintable()
