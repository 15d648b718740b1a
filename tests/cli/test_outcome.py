"""What findings come to: every exit code of design 5, and what does not count."""

from __future__ import annotations

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


def test_a_node_without_what_profiles_are_for_is_never_ready() -> None:
    report = reports.report({"looked-for": "no RDMA device", "findings": [{"check": "time.sync", "status": "ok"}]})
    assert outcome.outcome(report, FailOn.FAIL).word == "nothing-to-judge"
