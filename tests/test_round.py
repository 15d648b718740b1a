"""The check round: what a check may see, folding, and silence as evidence."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep import check_round
from nodeprep.check_round import ELSEWHERE
from nodeprep.checks import ALIBABA_CLOUD
from nodeprep.decide import fault_causes
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import NO_PROFILE, Profile
from nodeprep.look import Look
from nodeprep.model import (
    NO_ACCESS,
    Check,
    Finding,
    Reason,
    Seen,
    Severity,
    Status,
    Subject,
    Unreadable,
    Verdict,
    Why,
    not_mounted,
    not_recorded,
)
from nodeprep.values import replace
from tests import agent_state_values
from tests.values import nic, pci, port, rdma

PLACE = "0000:5c:00.0"


def check(check_id: str, says: Any, **different: Any) -> Check:
    because = tuple(Reason("Because", status) for status in (Status.OK, Status.WARN, Status.FAIL, Status.ABSENT))
    return agent_state_values.check(check_id, **({"needs": (Rdma,), "judge": says, "reasons": because} | different))


def look_of(*facts: object, live: bool = True, **unreadable: Unreadable) -> Look:
    named = {"rdma": Rdma, "pci": Pci}
    return Look(
        1.0, live, {type(fact): fact for fact in facts} | {named[key]: value for key, value in unreadable.items()}
    )


def verdict(status: Status = Status.OK, place: str = PLACE, blind: Unreadable | None = None) -> Verdict:
    return Verdict(Subject(place, 1, "mlx5_3/1"), status, "Because", "", blind=blind)


def test_a_device_is_not_accused_because_we_were_busy() -> None:
    def asks(seen: Seen) -> Iterator[Verdict]:
        yield from seen.each(seen[Rdma].ports, lambda port: verdict() if port.state else None)

    look = look_of(rdma(port(state=Unreadable(Why.BUSY, "Rdma"))), pci(nic()))
    (finding,) = check_round.judge([check("port.state", asks)], look, look, NO_PROFILE, {}).findings
    assert (finding.status, finding.verdict.reason) == (Status.UNKNOWN, "CannotLook")


def test_a_check_that_says_nothing_is_absent() -> None:
    told = check_round.judge([check("port.state", lambda _seen: iter(()))], look_of(rdma()), None, NO_PROFILE, {})
    assert [finding.status for finding in told.findings] == [Status.ABSENT]


def test_a_check_that_breaks_keeps_what_it_said_before_and_is_unknown() -> None:
    def breaks(_seen: Seen) -> Iterator[Verdict]:
        yield verdict()
        raise KeyError("eth9")

    told = check_round.judge([check("port.state", breaks)], look_of(rdma()), None, NO_PROFILE, {})
    assert [(finding.status, finding.verdict.reason) for finding in told.findings] == [
        (Status.OK, "Because"),
        (Status.UNKNOWN, "CheckBroke"),
    ]


REFUSED = [
    # declared                                          said
    (Reason("Because", Status.OK), Status.FAIL),
    (Reason("Because", Status.FAIL), Status.OK),
    (Reason("because", Status.OK), Status.OK),
    (Reason("BecauseOf", Status.WARN), Status.WARN),
]


@pytest.mark.parametrize(("declared", "said"), REFUSED)
def test_what_a_check_does_not_declare_is_a_fault_of_ours_and_of_no_other_check(declared: Reason, said: Status) -> None:
    def says(_seen: Seen) -> Iterator[Verdict]:
        yield verdict(said)

    strange, fine = check("port.state", says, reasons=(declared,)), check("port.rate", says)
    told = check_round.judge([strange, fine], look_of(rdma()), None, NO_PROFILE, {})
    assert [(finding.check, finding.status, finding.verdict.reason) for finding in told.findings] == [
        ("port.state", Status.UNKNOWN, "CheckBroke"),
        ("port.rate", said, "Because"),
    ]
    assert told.findings[0].verdict.message == (
        f"port.state broke: UndeclaredReason: {said} Because is not among its reasons; please report it"
    )


def test_what_every_check_may_say_needs_no_declaration() -> None:
    def asks(seen: Seen) -> Iterator[Verdict]:
        yield from seen.each(seen[Rdma].ports, lambda port: verdict() if port.state else None)

    look = look_of(rdma(port(state=Unreadable(Why.DENIED, "/sys/x"))))
    (finding,) = check_round.judge([check("port.state", asks, reasons=())], look, None, NO_PROFILE, {}).findings
    assert (finding.status, finding.verdict.reason, finding.fix) == (Status.UNKNOWN, "CannotLook", "")


@pytest.mark.parametrize("reason", ["DeviceNotAnswering", "CheckBroke", "Nothing", "OtherPlatform"])
def test_what_the_runner_says_no_check_may_say(reason: str) -> None:
    def says(_seen: Seen) -> Iterator[Verdict]:
        yield replace(verdict(Status.FAIL), reason=reason)

    (finding,) = check_round.judge([check("port.state", says)], look_of(rdma()), None, NO_PROFILE, {}).findings
    assert (finding.status, finding.verdict.reason) == (Status.UNKNOWN, "CheckBroke")
    assert "UndeclaredReason" in finding.verdict.message


FIXES = [
    # status, the fix of its reason           what the finding says to do
    (Status.FAIL, "ip link set {name} up", "ip link set mlx5_3/1 up"),
    (Status.WARN, "", "see 0000:5c:00.0"),
    (Status.OK, "", ""),
]


@pytest.mark.parametrize(("status", "fix", "told"), FIXES)
def test_a_finding_says_what_to_do(status: Status, fix: str, told: str) -> None:
    def says(_seen: Seen) -> Iterator[Verdict]:
        yield verdict(status)

    one = check("port.state", says, fix="see {place}", reasons=(Reason("Because", status, fix),))
    (finding,) = check_round.judge([one], look_of(rdma()), None, NO_PROFILE, {}).findings
    assert finding.fix == told


def test_an_unreadable_fact_is_unknown_with_path_and_reason() -> None:
    def asks(seen: Seen) -> Iterator[Verdict]:
        yield from seen.each(seen[Rdma].ports, lambda _port: verdict())

    denied = Unreadable(Why.DENIED, "/sys/class/infiniband", errno.EACCES, "Permission denied")
    (finding,) = check_round.judge([check("port.state", asks)], look_of(rdma=denied), None, NO_PROFILE, {}).findings
    assert finding.status is Status.UNKNOWN
    assert finding.verdict.message == "node: could not look at /sys/class/infiniband: denied (Permission denied)"


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (look_of(live=False), "needs a live node"),
        (look_of(live=False, rdma=not_recorded("/sys/class/infiniband")), "no record of /sys/class/infiniband"),
        (look_of(rdma=not_mounted("/var/lib/x", "x.yaml")), "not mounted in this pod: x.yaml mounts it"),
    ],
)
def test_what_a_dead_tree_cannot_answer_is_not_run(look: Look, why: str) -> None:
    told = check_round.judge([check("port.state", lambda _seen: iter([verdict()]))], look, None, NO_PROFILE, {})
    assert told.findings == ()
    assert [skipped.why for skipped in told.skipped] == [why]


def test_a_gate_is_unknown_where_a_mount_is_missing() -> None:
    """Never absent: that would pass."""
    gates = Profile("strict", gates=("port.state",))

    def asked(seen: Seen) -> Iterator[Verdict]:
        yield from (verdict() for _ in seen[Rdma].ports)

    asks = check("port.state", asked)
    look = look_of(rdma=not_mounted("/var/lib/x", "x.yaml"))
    (finding,) = check_round.judge([asks], look, None, gates, {}).findings
    assert (finding.status, finding.verdict.reason) == (Status.UNKNOWN, "NotMounted")
    told = check_round.judge([asks], look, None, NO_PROFILE, {}, insisted=frozenset(["port.state"]))
    assert [one.status for one in told.findings] == [Status.UNKNOWN]


def test_rates_need_two_looks() -> None:
    def rate(seen: Seen) -> Iterator[Verdict]:
        assert seen.before is not None
        assert seen.before[Rdma].ports == ()
        assert seen.seconds == 9.0
        yield verdict()

    asks = check("counter.physical", rate, rates=True)
    assert check_round.judge([asks], look_of(rdma(port())), None, NO_PROFILE, {}).findings == ()
    before, now = look_of(rdma()), Look(10.0, True, {Rdma: rdma(port())})
    (finding,) = check_round.judge([asks], now, before, NO_PROFILE, {}).findings
    assert finding.status is Status.OK


def silent(errno_: int = errno.EIO) -> Unreadable:
    return Unreadable(Why.IO_ERROR, "/sys/class/infiniband/mlx5_3/ports/1/state", errno_)


@pytest.mark.parametrize(
    ("blind", "before", "severity", "expected"),
    [
        (silent(), True, Severity.GATE, (Status.FAIL, "DeviceNotAnswering")),
        (silent(), True, Severity.WARN, (Status.WARN, "DeviceNotAnswering")),
        (silent(errno.ENODEV), True, Severity.GATE, (Status.FAIL, "DeviceNotAnswering")),
        (silent(), False, Severity.GATE, (Status.UNKNOWN, "CannotLook")),
        (silent(errno.EINVAL), True, Severity.GATE, (Status.UNKNOWN, "CannotLook")),
    ],
)
def test_silence_twice_of_a_device_on_the_bus_is_evidence(
    blind: Unreadable, before: bool, severity: Severity, expected: tuple[Status, str]
) -> None:
    def asks(seen: Seen) -> Iterator[Verdict]:
        yield from seen.each(seen[Rdma].ports, lambda port: verdict() if port.state else None)

    look = look_of(rdma(port(state=blind)), pci(nic()))
    asked = check("port.state", asks, severity=severity)
    (finding,) = check_round.judge([asked], look, look if before else None, NO_PROFILE, {}).findings
    assert (finding.status, finding.verdict.reason) == expected


def test_silence_of_a_device_that_left_the_bus_stays_unknown() -> None:
    look = look_of(rdma(port(state=silent())), pci())

    def asks(seen: Seen) -> Iterator[Verdict]:
        yield from seen.each(seen[Rdma].ports, lambda port: verdict() if port.state else None)

    (finding,) = check_round.judge([check("port.state", asks)], look, look, NO_PROFILE, {}).findings
    assert finding.status is Status.UNKNOWN


AFTER = {
    "module.core": (),
    "pci.rdma-driver": (),
    "port.present": ("pci.rdma-driver",),
    "port.state": ("port.present",),
    "port.gid": ("port.state", "gpu.driver"),
}


def found(check_id: str, status: Status = Status.FAIL, place: str = PLACE) -> Finding:
    return Finding(check_id, Severity.GATE, verdict(status, place))


NOBODY_ASKED = Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS)


def test_what_needs_an_access_that_nobody_gave_is_not_run() -> None:
    told = check_round.judge(
        [check("port.state", lambda _seen: iter([verdict()]))], look_of(rdma=NOBODY_ASKED), None, NO_PROFILE, {}
    )
    assert told.findings == ()
    assert told.skipped[0].why == "needs access to Kubernetes (--kubeconfig FILE --node NAME)"


def test_unless_the_profile_gates_on_it() -> None:
    def asks(seen: Seen) -> Iterator[Verdict]:
        yield verdict(Status.FAIL if seen[Rdma].ports else Status.OK)

    gates = Profile("strict", gates=("port.state",))
    (finding,) = check_round.judge([check("port.state", asks)], look_of(rdma=NOBODY_ASKED), None, gates, {}).findings
    assert (finding.status, finding.verdict.blind) == (Status.UNKNOWN, NOBODY_ASKED)


def test_or_the_operator_insists_on_it() -> None:
    def asks(seen: Seen) -> Iterator[Verdict]:
        yield verdict(Status.FAIL if seen[Rdma].ports else Status.OK)

    told = check_round.judge(
        [check("port.state", asks)],
        look_of(rdma=NOBODY_ASKED),
        None,
        NO_PROFILE,
        {},
        insisted=frozenset({"port.state"}),
    )
    assert [finding.status for finding in told.findings] == [Status.UNKNOWN]


def test_what_could_only_use_it_goes_on_without() -> None:
    def asks(seen: Seen) -> Iterator[Verdict]:
        yield verdict(Status.FAIL if seen.get(Cluster) else Status.OK)

    one = check("port.state", asks, needs=(Pci,), uses=(Cluster,))
    for silent in (NOBODY_ASKED, Unreadable(Why.TIMEOUT, "https://10.0.0.1:6443")):
        look = Look(1.0, True, {Pci: pci(), Cluster: silent})
        (finding,) = check_round.judge([one], look, None, NO_PROFILE, {}).findings
        assert finding.status is Status.OK


@pytest.mark.parametrize(
    ("findings", "roots"),
    [
        ([found("port.state"), found("port.gid")], [None, "port.state"]),
        ([found("pci.rdma-driver"), found("port.gid")], [None, "pci.rdma-driver"]),
        (
            [found("pci.rdma-driver"), found("port.present"), found("port.gid")],
            [None, "pci.rdma-driver", "pci.rdma-driver"],
        ),
        ([found("port.state", place="0000:5d:00.0"), found("port.gid")], [None, None]),
        ([found("port.state", Status.WARN), found("port.gid")], [None, None]),
        ([found("port.state"), found("port.gid", Status.OK)], [None, None]),
        ([found("port.state"), found("port.gid", Status.UNKNOWN)], [None, "port.state"]),
        ([found("port.state", place=""), found("port.gid")], [None, "port.state"]),
        ([found("port.present", place="*"), found("port.state")], [None, None]),
        ([found("pci.rdma-driver"), found("port.present", place="*")], [None, "pci.rdma-driver"]),
    ],
)
def test_a_consequence_folds_under_the_root_on_its_device(findings: list[Finding], roots: list[str | None]) -> None:
    assert [finding.root for finding in check_round.fold(findings, AFTER)] == roots


@given(st.permutations([found("pci.rdma-driver"), found("port.present"), found("port.state"), found("port.gid")]))
def test_folding_does_not_depend_on_order(findings: list[Finding]) -> None:
    assert {finding.check: finding.root for finding in check_round.fold(findings, AFTER)} == {
        "pci.rdma-driver": None,
        "port.present": "pci.rdma-driver",
        "port.state": "pci.rdma-driver",
        "port.gid": "pci.rdma-driver",
    }


def test_unknown_ids_in_after_are_no_ancestors() -> None:
    assert fault_causes.ancestors("port.gid", AFTER) == {"port.state", "port.present", "pci.rdma-driver"}


def test_checks_of_alibaba_cloud_are_absent_elsewhere_and_not_run() -> None:
    def breaks(_seen: Seen) -> Iterator[Verdict]:
        raise AssertionError("it was run")

    asked = [check(one if "." in one else f"{one}.state", breaks) for one in sorted(ALIBABA_CLOUD)]
    told = check_round.judge(asked, look_of(rdma=NOBODY_ASKED), None, NO_PROFILE, {})
    assert told.skipped == ()
    assert [finding.verdict for finding in told.findings] == [ELSEWHERE] * len(ALIBABA_CLOUD)


def test_on_a_node_of_alibaba_cloud_they_are_run() -> None:
    ecs = System(0.0, "node", "6.1.0", "boot", True, "Alibaba Cloud", "Alibaba Cloud ECS", "")
    told = check_round.judge(
        [check("eni.state", lambda _seen: iter([verdict()]))], look_of(ecs, rdma()), None, NO_PROFILE, {}
    )
    assert [finding.status for finding in told.findings] == [Status.OK]


def test_nor_are_they_passed_over_where_the_profile_gates_on_them() -> None:
    asked = [check("eni.state", lambda _seen: iter([verdict(Status.FAIL)]))]
    told = check_round.judge(asked, look_of(rdma()), None, Profile("strict", gates=("eni.state",)), {})
    assert [finding.status for finding in told.findings] == [Status.FAIL]
