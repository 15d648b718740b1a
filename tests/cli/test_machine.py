"""-o json: the published schema holds for whatever a report may say, and refuses what it does not describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from nodeprep.cli.check import json_report
from nodeprep.cli.check.choices import FailOn
from tests.cli import reports

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
TIME = "2026-11-28T03:00:00Z"
PAGES = sorted((Path(__file__).parent / "pages").glob("*.yaml"))


def said(case: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json_report.text(document(case)))
    return loaded


def document(case: dict[str, Any]) -> dict[str, Any]:
    return json_report.document(reports.report(case), FailOn(case.get("fail-on", "fail")), time=TIME)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_report_is_as_the_schema_says(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    told = said(case)
    VALIDATOR.validate(told)
    assert told["exitCode"] == case["exit"]
    assert len(told["findings"]) == len(case.get("findings", ())) == sum(told["counts"].values())


FULL = {
    "findings": [
        {
            "check": "port.state",
            "status": "fail",
            "at": "0000:19:00.0/1",
            "reason": "NoSignal",
            "remedy": {"playbook": "link_up", "args": {"interface": "eth0"}},
            "blind": {"kind": "denied", "path": "/sys", "errno": 13},
            "root": "port.present",
            "waived": {"reason": "known", "until": "2026-12-24", "days": 3},
        }
    ],
    "skipped": [["time.sync", "needs a live node"]],
}


FIXES = [
    # of a finding                                                           its fix
    ({"status": "fail"}, "Look at it."),
    ({"status": "warn", "reason": "Down", "name": "eth2"}, "up eth2"),
    ({"status": "ok", "reason": "Down"}, ""),
    ({"status": "unknown", "blind": {"kind": "denied", "path": "/sys", "errno": 13}}, "run it as root"),
    ({"status": "unknown", "blind": {"kind": "malformed", "path": "/sys"}}, ""),
    ({"status": "fail", "blind": {"kind": "denied", "path": "/sys", "errno": 13}}, "Look at it."),
]


@pytest.mark.parametrize(("finding", "fix"), FIXES)
def test_a_finding_says_what_to_do(finding: dict[str, Any], fix: str) -> None:
    case = {
        "fixes": {"port.state": {"": "Look at it.", "Down": "up {name}"}},
        "findings": [{"check": "port.state", "at": "0000:19:00.0"} | finding],
    }
    (told,) = said(case)["findings"]
    assert told["fix"] == fix


def objects(value: Any) -> list[dict[str, Any]]:
    """Every object in a document."""
    found = [value] if isinstance(value, dict) else []
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [one for part in inside for one in objects(part)]


def test_every_key_is_required_and_no_other_is_allowed() -> None:
    whole = said(FULL)
    VALIDATOR.validate(whole)
    free = [{"interface": "eth0"}]  # the arguments of a remedy are what that declares
    places = len(objects(whole))
    refused = 0
    for index in range(places):
        for change in ("more", "less"):
            changed = said(FULL)
            place = objects(changed)[index]
            if place in free:
                continue
            if change == "more":
                place["surprise"] = 1
            else:
                place.pop(next(iter(place)))
            assert not VALIDATOR.is_valid(changed), (change, place)
            refused += 1
    assert refused == 2 * (places - 1)


WRONG = [
    # where                               what stands there
    (("verdict",), "fine"),
    (("exitCode",), 2),
    (("apiVersion",), "v2"),
    (("findings", 0, "status"), "FAIL"),
    (("findings", 0, "severity"), "high"),
    (("findings", 0, "reason"), "no signal"),
    (("findings", 0, "message"), ""),
    (("findings", 0, "check"), "state"),
    (("findings", 0, "subject", "port"), "1"),
    (("findings", 0, "remedy", "args", "interface"), 7),
    (("findings", 0, "waived", "until"), "tomorrow"),
    (("findings", 0, "blind", "kind"), "lost"),
    (("skipped", 0, "why"), ""),
    (("counts", "fail"), -1),
]


@pytest.mark.parametrize(("where", "value"), WRONG)
def test_the_schema_refuses(where: tuple[Any, ...], value: object) -> None:
    changed: Any = said(FULL)
    place = changed
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    assert not VALIDATOR.is_valid(changed)


def test_findings_stand_in_the_order_of_checks_then_of_places_and_ports() -> None:
    rows = [("port.state", "b/2"), ("port.state", "b/1"), ("port.state", "a/10"), ("port.state", "a/9"), ("a.b", "z/1")]
    told = said({"findings": [{"check": check, "status": "ok", "at": at} for check, at in rows]})
    order = [(one["check"], one["subject"]["place"], one["subject"]["port"]) for one in told["findings"]]
    assert order == [
        ("port.state", "a", 9),
        ("port.state", "a", 10),
        ("port.state", "b", 1),
        ("port.state", "b", 2),
        ("a.b", "z", 1),
    ]


def test_counts_are_of_findings_that_stand_for_themselves() -> None:
    waived = {"reason": "known", "until": "2026-12-24", "days": 3}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("ok", {}),
        ("ok", {}),
        ("fail", {}),
        ("fail", {"root": "x.y"}),
        ("warn", {"waived": waived}),
        ("absent", {}),
    ]
    counts = said({"findings": [{"check": "a.b", "status": status} | more for status, more in rows]})["counts"]
    assert counts == {"ok": 2, "warn": 0, "fail": 1, "absent": 1, "unknown": 0, "folded": 1, "waived": 1}


@example(text="\x1b[2J\x7f\x85\u202e\udc80")
@given(text=st.text(st.characters(exclude_categories=[]), min_size=1, max_size=40))
def test_any_name_gives_ascii_that_any_reader_takes(text: str) -> None:
    case = {"node": text, "findings": [{"check": "a.b", "status": "fail", "at": "0000:19:00.0", "name": text}]}
    written = json_report.text(document(case))
    assert written.isascii()
    assert all(one.isprintable() or one == "\n" for one in written)
    told = json.loads(written)
    told["node"].encode()  # no lone surrogate is left
    VALIDATOR.validate(told)
