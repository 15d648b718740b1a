"""-o line, -o junit, --failing and --quiet: the same report for many hosts, for CI, and for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep import __version__
from nodeprep.cli.check import json_report, junit_report, line_report
from nodeprep.cli.check.choices import FailOn
from tests.cli import program, reports

TIME = "2026-11-28T03:00:00Z"
PORT = {"check": "port.state", "status": "fail", "at": "0000:5d:00.0/1", "name": "mlx5_5/1", "reason": "NoSignal"}
FINE = {"check": "pci.link", "status": "ok", "at": "0000:5d:00.0"}
LINES: list[tuple[dict[str, Any], str]] = [
    ({"findings": [PORT, FINE]}, "gpu-17 NOT READY port.state NoSignal mlx5_5/1 0000:5d:00.0"),
    (
        {"findings": [FINE, PORT, {**PORT, "at": "0000:5e:00.0/1", "name": "mlx5_6/1"}, {**PORT, "check": "port.gid"}]},
        "gpu-17 NOT READY port.state NoSignal mlx5_5/1 0000:5d:00.0 (+2)",
    ),
    ({"findings": [{"check": "time.sync", "status": "fail", "reason": "Wrong"}]}, "gpu-17 NOT READY time.sync Wrong"),
    ({"findings": [FINE]}, "gpu-17 READY"),
    ({"findings": [FINE], "gates": ["route.out"]}, "gpu-17 UNKNOWN route.out: "),
    ({"findings": [{**PORT, "status": "warn"}]}, "gpu-17 READY"),
    ({"findings": [{**PORT, "status": "warn"}], "fail-on": "warn"}, "gpu-17 NOT READY port.state NoSignal mlx5_5/1 "),
    ({"findings": [], "basis": {"nics": 0}}, "gpu-17 NOTHING TO JUDGE"),
]


def of(case: dict[str, Any]) -> Any:
    return reports.report({"node": "gpu-17", **case})


@pytest.mark.parametrize(("case", "says"), LINES)
def test_one_line_a_host(case: dict[str, Any], says: str) -> None:
    told = line_report.line(of(case), FailOn(case.get("fail-on", "fail")))
    assert told.startswith(says)
    assert "\n" not in told


def junit(case: dict[str, Any]) -> ET.Element:
    return ET.fromstring(junit_report.text(of(case), FailOn(case.get("fail-on", "fail")), time=TIME))


@pytest.mark.parametrize(
    ("case", "errors"), [({"findings": [FINE], "gates": ["route.out"]}, 1), ({"findings": [FINE]}, 0)]
)
def test_what_ends_with_3_is_no_green_document(case: dict[str, Any], errors: int) -> None:
    (suite,) = junit(case)
    told = [one for one in suite.iter("error") if "route.out" in one.get("message", "")]
    assert (suite.get("errors"), len(told)) == (str(errors), errors)


def test_a_test_case_for_each_check_and_device() -> None:
    blind = {"check": "port.gid", "status": "unknown", "blind": {"kind": "denied", "path": "/sys", "errno": 13}}
    waived = {**PORT, "check": "port.mtu", "waived": {"reason": "cable on order", "until": "2030-01-31", "days": 3}}
    follows = {**PORT, "check": "port.rate", "root": "port.state"}
    absent, warns = {"check": "eni.up", "status": "absent"}, {**PORT, "check": "port.flap", "status": "warn"}
    suites = junit(
        {"findings": [PORT, FINE, blind, waived, follows, absent, warns], "skipped": [["imds.role", "asks a server"]]}
    )
    (suite,) = suites
    counts = {"tests": "8", "failures": "1", "errors": "1", "skipped": "4"}
    assert counts.items() <= suites.attrib.items()
    assert counts.items() <= suite.attrib.items()
    assert (suite.get("name"), suite.get("timestamp"), suite.get("hostname")) == ("gpu-17", TIME, "gpu-17")
    assert [(one.get("name"), [part.tag for part in one]) for one in suite] == [
        ("port.state mlx5_5/1", ["failure"]),
        ("pci.link 0000:5d:00.0", []),
        ("port.gid", ["error"]),
        ("port.mtu mlx5_5/1", ["skipped"]),
        ("port.rate mlx5_5/1", ["skipped"]),
        ("eni.up", ["skipped"]),
        ("port.flap mlx5_5/1", ["system-out"]),
        ("imds.role", ["skipped"]),
    ]
    failure = suite[0][0]
    assert failure.get("type") == "NoSignal"
    assert failure.text
    assert "NoSignal" in (failure.get("message") or "")


def test_with_fail_on_warn_a_warning_is_a_failure() -> None:
    assert junit({"findings": [{**PORT, "status": "warn"}], "fail-on": "warn"}).get("failures") == "1"


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_name_is_xml(text: str) -> None:
    junit({"node": text, "findings": [{**PORT, "name": text}]})


def test_only_what_fails() -> None:
    case = {"findings": [PORT, FINE, {"check": "eni.up", "status": "absent"}]}
    told = json_report.document(of(case), FailOn.FAIL, time=TIME, failing=True)
    assert [one["check"] for one in told["findings"]] == ["port.state"]
    assert told["counts"]["ok"] == 1  # and the verdict is that of the whole
    assert (told["version"], told["time"]) == (__version__, TIME)


def test_the_program_says_it(tmp_path: Path) -> None:
    root = program.node("h100-roce", tmp_path)
    program.set_down(root, "mlx5_3")
    judged = program.nodeprep("check", "--root", str(root), "-o", "line")
    assert judged.returncode == 1
    assert " NOT READY port.state " in judged.stdout
    assert judged.stdout.count("\n") == 1
    silent = program.nodeprep("check", "--root", str(root), "--quiet")
    assert (silent.returncode, silent.stdout, silent.stderr) == (1, "", "")
    xml = program.nodeprep("check", "--root", str(root), "-o", "junit")
    assert int(ET.fromstring(xml.stdout).get("failures") or 0) >= 1
    short = program.nodeprep("check", "--root", str(root), "--failing").stdout
    assert "port.state" in short
    assert "fine" not in short
    assert "absent" not in short
    told = json.loads(program.nodeprep("check", "--root", str(root), "-o", "json", "--failing").stdout)
    assert {one["status"] for one in told["findings"]} <= {"fail", "warn", "unknown"}
    both = program.nodeprep("check", "--root", str(root), "--quiet", "--watch", "1")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--watch prints each look, and --quiet nothing" in both.stderr
