"""What findings come to: every exit code of design 5, and what does not count."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.cli.check import outcome
from nodeprep.cli.check.choices import FailOn
from tests.cli import reports

WAIVED = {"reason": "known", "until": "2026-12-24", "days": 3}
ROWS = [
    # findings                                                                       --fail-on   verdict        exit
    ([{"status": "ok"}], "fail", "ready", 0),
    ([{"status": "ok"}], "warn", "ready", 0),
    ([{"status": "ok"}, {"status": "absent"}], "fail", "ready", 0),
    ([{"status": "absent"}], "fail", "nothing-to-judge", 0),
    ([{"status": "absent"}, {"status": "warn"}], "fail", "ready", 0),
    ([], "fail", "nothing-to-judge", 0),
    ([{"status": "fail"}, {"status": "ok"}], "fail", "not-ready", 1),
    ([{"status": "fail"}], "warn", "not-ready", 1),
    ([{"status": "warn"}, {"status": "ok"}], "fail", "ready", 0),
    ([{"status": "warn"}, {"status": "ok"}], "warn", "not-ready", 1),
    ([{"status": "warn", "severity": "warn"}, {"status": "ok"}], "warn", "not-ready", 1),
    ([{"status": "unknown"}, {"status": "ok"}], "fail", "unknown", 3),
    ([{"status": "unknown", "severity": "warn"}, {"status": "ok"}], "fail", "ready", 0),
    ([{"status": "unknown", "severity": "info"}, {"status": "ok"}], "warn", "ready", 0),
    ([{"status": "unknown"}, {"status": "fail"}], "fail", "not-ready", 1),
    ([{"status": "unknown"}, {"status": "warn"}], "warn", "not-ready", 1),
    ([{"status": "unknown"}, {"status": "warn"}], "fail", "unknown", 3),
    ([{"status": "fail", "root": "port.present"}, {"status": "ok"}], "fail", "ready", 0),
    ([{"status": "unknown", "root": "port.present"}, {"status": "ok"}], "fail", "ready", 0),
    ([{"status": "fail", "waived": WAIVED}, {"status": "ok"}], "fail", "ready", 0),
    ([{"status": "unknown", "waived": WAIVED}, {"status": "ok"}], "fail", "ready", 0),
    ([{"status": "warn", "waived": WAIVED}, {"status": "ok"}], "warn", "ready", 0),
]


@pytest.mark.parametrize(("findings", "fail_on", "verdict", "code"), ROWS)
def test_comes_to(findings: list[dict[str, object]], fail_on: str, verdict: str, code: int) -> None:
    report = reports.report({"findings": [{"check": "port.state"} | finding for finding in findings]})
    end = outcome.outcome(report, FailOn(fail_on))
    assert (end.word, end.exit_code) == (verdict, code)


Rows = dict[str, Any]
STATE, RATE, LOG = "port.state", "port.rate", "klog.nic"
GATES = (STATE, RATE, LOG)
FINE: list[Rows] = [{"check": STATE, "status": "ok"}, {"check": RATE, "status": "ok"}]
NO_PORT: list[Rows] = [{"check": STATE, "status": "absent"}, {"check": RATE, "status": "ok"}]
COPY: Rows = {"is_copy": True}
ON: Rows = {"rests_on": [STATE]}
SELECTED: Rows = {"is_selection": True}
NAMED: Rows = {"is_named": True}
UNDECIDED: Rows = {"undecided": ["assign[0] of /c.yaml goes by labels of the node, and they are not known yet"]}
LIVE, LOST = "needs a live node", "no record of /sys/bus/pci/devices"
BASES: list[tuple[Rows, list[Rows], Rows, bool, str, int]] = [
    # basis                          findings  skipped                        --strict  verdict             exit
    ({}, [*FINE, {"check": LOG, "status": "ok"}], {}, False, "ready", 0),
    ({}, [*FINE, {"check": LOG, "status": "absent"}], {}, False, "ready", 0),
    # On a live node, and in a recording of one, each gate has to be judged.
    ({}, FINE, {LOG: LIVE}, False, "unknown", 3),
    ({}, FINE, {LOG: "compares two looks"}, False, "unknown", 3),
    ({}, FINE, {}, False, "unknown", 3),
    ({}, FINE, {LOG: "deselected"}, False, "ready", 0),
    ({}, [*FINE, {"check": LOG, "status": "unknown", "severity": "warn"}], {}, False, "unknown", 3),
    ({}, [*FINE, {"check": LOG, "status": "unknown", "waived": WAIVED}], {}, False, "ready", 0),
    # A copy is never ready, and needs what the profile rests on.
    (COPY, FINE, {LOG: LIVE}, False, "no-fault-seen", 0),
    (COPY, FINE, {LOG: LIVE}, True, "no-fault-seen", 3),
    (COPY, [*FINE, {"check": LOG, "status": "ok"}], {}, True, "no-fault-seen", 0),
    (COPY | ON, FINE, {LOG: LIVE}, False, "no-fault-seen", 0),
    (COPY | ON, [FINE[1]], {STATE: LIVE, LOG: LIVE}, False, "no-fault-seen", 3),
    (COPY | ON, [FINE[1]], {STATE: "no record of /sys/class/infiniband"}, False, "no-fault-seen", 3),
    (COPY | ON, [{"check": STATE, "status": "unknown"}, FINE[1]], {LOG: LIVE}, False, "unknown", 3),
    (COPY | ON, [{"check": STATE, "status": "fail"}], {LOG: LIVE}, True, "not-ready", 1),
    # Nothing is never ready: no NIC, or nothing of what the profile is about.
    ({"nics": 0}, [*FINE, {"check": LOG, "status": "ok"}], {}, False, "nothing-to-judge", 0),
    ({"nics": 0} | NAMED, [*FINE, {"check": LOG, "status": "ok"}], {}, False, "nothing-to-judge", 3),
    ({"nics": 1} | NAMED, [*FINE, {"check": LOG, "status": "ok"}], {}, False, "ready", 0),
    (COPY | {"nics": 0}, FINE, {LOG: LIVE}, False, "nothing-to-judge", 0),
    (ON | NAMED, [*NO_PORT, {"check": LOG, "status": "ok"}], {}, False, "nothing-to-judge", 3),
    (ON, [*NO_PORT, {"check": LOG, "status": "ok"}], {}, False, "nothing-to-judge", 0),
    # Nobody can tell which gates count.
    (UNDECIDED, [*FINE, {"check": LOG, "status": "ok"}], {}, False, "unknown", 3),
    (UNDECIDED | {"nics": 0}, [*FINE, {"check": LOG, "status": "ok"}], {}, False, "unknown", 3),
    (UNDECIDED, [{"check": STATE, "status": "fail"}], {LOG: LIVE}, False, "not-ready", 1),
    (UNDECIDED | COPY, FINE, {LOG: LIVE}, False, "unknown", 3),
    (UNDECIDED | COPY | {"nics": 0}, FINE, {LOG: LIVE}, False, "nothing-to-judge", 0),
    (UNDECIDED | SELECTED, FINE, {LOG: "deselected"}, False, "passed", 0),
    # A selection is judged, and not the node.
    (SELECTED, FINE, {LOG: "deselected"}, False, "passed", 0),
    (SELECTED, FINE, {LOG: LIVE}, False, "unknown", 3),
    (SELECTED | COPY, FINE, {LOG: LIVE}, False, "passed", 0),
    (SELECTED | COPY, FINE, {LOG: LIVE}, True, "unknown", 3),
    (SELECTED | COPY | ON, [FINE[1]], {STATE: LIVE, LOG: "deselected"}, False, "unknown", 3),
    (SELECTED | COPY | ON, [FINE[1]], {STATE: "deselected", LOG: "deselected"}, False, "passed", 0),
    (SELECTED | COPY, [], {LOG: LIVE, STATE: "deselected", RATE: "deselected"}, False, "not-judged", 3),
    (SELECTED, [NO_PORT[0]], {RATE: "deselected", LOG: "deselected"}, False, "not-judged", 0),
    (SELECTED | NAMED, [NO_PORT[0]], {RATE: "deselected", LOG: "deselected"}, False, "not-judged", 3),
    (SELECTED | NAMED, NO_PORT, {LOG: "deselected"}, False, "passed", 0),
    (SELECTED | NAMED | {"elsewhere": 2}, [], dict.fromkeys(GATES, "deselected"), False, "not-judged", 3),
    (SELECTED, [{"check": STATE, "status": "fail"}], {LOG: "deselected"}, False, "not-ready", 1),
]


@pytest.mark.parametrize(("basis", "findings", "skipped", "strict", "verdict", "code"), BASES)
def test_rests_on(  # noqa: PLR0917 - a row
    basis: Rows, findings: list[Rows], skipped: Rows, strict: bool, verdict: str, code: int
) -> None:
    given = {"basis": basis, "gates": GATES, "findings": findings, "skipped": list(skipped.items())}
    end = outcome.outcome(reports.report(given), FailOn.FAIL, strict=strict)
    assert (end.word, end.exit_code) == (verdict, code)


@pytest.mark.parametrize(("why", "code"), [(LOST, 0), (LIVE, 3)])
def test_a_copy_without_a_pci_list_is_judged_by_its_ports(why: str, code: int) -> None:
    driver = "pci.driver-bound"
    basis = COPY | {"rests_on": [STATE, driver]}
    given = {"basis": basis, "gates": [STATE, driver], "findings": FINE[:1], "skipped": [(driver, why)]}
    assert outcome.outcome(reports.report(given), FailOn.FAIL).exit_code == code


def test_a_node_without_what_profiles_are_for_is_never_ready() -> None:
    report = reports.report({"looked-for": "no RDMA device", "findings": [{"check": "time.sync", "status": "ok"}]})
    assert outcome.outcome(report, FailOn.FAIL).word == "nothing-to-judge"
