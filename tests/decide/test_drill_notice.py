"""What is a drill's among findings and cases, and what counts as its notice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import drill_notice
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.model import Finding, Report, Severity, Status, Subject, Verdict, Waived
from nodeprep.values import replace
from tests.agent_state_values import case

NOTICE = DrillNotice(
    "link-down",
    "eth1",
    ("eth1", "0000:5c:00.0", "00:16:3e:aa:bb:01", "mlx5_0"),
    "b1",
    100.0,
    400.0,
    (("port.mtu", "0000:5c:00.0/1"),),
)
PORT = Subject("0000:5c:00.0", 1, "mlx5_0/1")


def finding(subject: Subject, status: Status = Status.FAIL, check: str = "port.state") -> Finding:
    return Finding(check, Severity.GATE, Verdict(subject, status, "NoSignal", "it is down"))


ROWS = [
    # subject, status, check, whether it is the drill's
    (PORT, Status.FAIL, "port.state", True),
    (PORT, Status.WARN, "port.state", True),
    (PORT, Status.OK, "port.state", False),
    (PORT, Status.UNKNOWN, "port.state", False),
    (PORT, Status.FAIL, "port.mtu", False),  # it failed before
    (Subject("0000:ff:00.0", 1, "mlx5_1/1"), Status.FAIL, "port.state", False),
    (Subject("eth1", None, "eth1"), Status.FAIL, "port.state", True),
    (Subject("00:16:3e:aa:bb:01", None, "eni-1"), Status.FAIL, "eni.up", True),
    (Subject("0000:17:00.0", None, "0000:17:00.0 (MT2892, mlx5_0/eth7)"), Status.FAIL, "pci.link", True),
    (Subject("*", None, "ports"), Status.FAIL, "port.present", True),  # a count that the device is missing in
    (Subject(), Status.FAIL, "imds.reachable", False),  # of the node: nothing says that it is the drill's
]


@pytest.mark.parametrize(("subject", "status", "check", "is_made"), ROWS)
def test_which_findings_are_the_drills(subject: Subject, status: Status, check: str, is_made: bool) -> None:
    one = finding(subject, status, check)
    assert drill_notice.made(NOTICE, one) is is_made
    (marked,) = drill_notice.marked([one], NOTICE)
    assert marked == replace(one, drill="link-down" if is_made else "")
    assert drill_notice.marked([one], None) == (one,)
    assert not drill_notice.made(None, one)


@pytest.mark.parametrize(
    ("different", "is_made"),
    [
        ({"opened_at": 100.0}, True),
        ({"opened_at": 99.9}, False),
        ({"opened_at": 200.0, "place": "0000:ff:00.0"}, False),
    ],
)
def test_a_case_that_was_open_before_is_none_of_the_drills(different: dict[str, Any], is_made: bool) -> None:
    one = case("port.state", **({"place": "0000:5c:00.0", "port": 1} | different))
    assert drill_notice.has_made(NOTICE, one) is is_made
    assert not drill_notice.has_made(None, one)


def test_a_report_says_which_drill_runs() -> None:
    waived = replace(finding(PORT), waived=Waived("known", "2030-01-01", 9))
    judged = Report("n1", "b1", "rdma", "test", (), (finding(PORT), waived), (), notes=("first",))
    told = drill_notice.report(judged, NOTICE)
    assert [one.drill for one in told.findings] == ["link-down", "link-down"]
    assert told.notes == ("first", "drill link-down of eth1 runs now: somebody made that fault (nodeprep drill list)")
    assert drill_notice.report(judged, None) is judged


@pytest.mark.parametrize(
    ("boot_id", "now", "holds"),
    [("b1", 100.0, True), ("b1", 399.9, True), ("b1", 400.0, False), ("b1", 99.0, False), ("b2", 200.0, False)],
)
def test_a_notice_ends_by_itself(boot_id: str, now: float, holds: bool) -> None:
    assert NOTICE.holds(boot_id, now) is holds


def test_what_failed_before_is_kept_once() -> None:
    found = [
        finding(PORT),
        finding(PORT),
        finding(PORT, Status.OK, "port.rate"),
        finding(Subject(), Status.WARN, "time.sync"),
    ]
    assert drill_notice.failing(found) == (("port.state", "0000:5c:00.0/1"), ("time.sync", ""))


TEXT = st.text(min_size=1, max_size=20)
NOTICES = st.builds(
    DrillNotice,
    name=TEXT,
    device=TEXT,
    names=st.lists(TEXT, max_size=5).map(tuple),
    boot_id=TEXT,
    began=st.floats(0, 1e9),
    until=st.floats(0, 1e9),
    before=st.lists(st.tuples(TEXT, TEXT), max_size=5).map(tuple),
)


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


@given(NOTICES)
def test_what_is_written_is_read(notice: DrillNotice) -> None:
    assert drill_notice.parsed(plain(drill_notice.document(notice))) == notice


@given(
    NOTICES,
    st.sampled_from(["name", "device", "names", "boot_id", "began", "until", "before"]),
    st.sampled_from([None, 7, "", [1], [["a"]], {}, True, "x" * 10]),
)
def test_damage_is_no_notice_or_a_whole_one(notice: DrillNotice, key: str, value: Any) -> None:
    found = drill_notice.parsed({**plain(drill_notice.document(notice)), key: value})
    assert found is None or plain(drill_notice.document(found)) == {**plain(drill_notice.document(notice)), key: value}


@pytest.mark.parametrize("content", [None, [], "drill", 7, {}])
def test_what_is_no_mapping_is_no_notice(content: object) -> None:
    assert drill_notice.parsed(content) is None
