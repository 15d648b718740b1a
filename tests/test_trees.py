"""The real `nodeprep check` on trees of whole nodes: healthy ones raise no alarm, each fault is named on its device."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep import check_round, facts
from nodeprep.checks import CHECKS
from nodeprep.config import profile_files, wants
from nodeprep.doors.node_host import Host
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.observer import Observer
from tests.cli.program import nodeprep
from tests.rigs import faults, trees

CASES = Path(__file__).parent / "trees" / "cases"
BAD = ("fail", "warn", "unknown")
# One of its four front-end ports is up, as recorded: a mixture is told (docs/adr/0030).
MIXED = {"h100-ib": ["warn port.state mlx5_7/1 UnlikeOthers"]}


def checked(root: Path, profile: str | None) -> tuple[int, dict[str, Any]]:
    chosen = ["--profile", profile] if profile else []
    done = nodeprep("check", "--root", str(root), "-o", "json", *chosen)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def told(report: dict[str, Any]) -> list[str]:
    """The findings of a report without consequences and passes."""
    return sorted(
        f"{finding['status']} {finding['check']} {finding['subject']['name']} {finding['reason']}"
        for finding in report["findings"]
        if finding["status"] in BAD and finding["root"] is None
    )


def verdicts(report: dict[str, Any]) -> list[tuple[str, str, int, str, str]]:
    """Every verdict by place, without names. A bond has only its name as its place."""
    return sorted(
        (
            found["check"],
            found["subject"]["place"] if ":" in found["subject"]["place"] else "",
            found["subject"]["port"] or 0,
            found["status"],
            "" if found["status"] == "ok" else found["reason"],
        )
        for found in report["findings"]
    )


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every described node, built once and read only."""
    at = tmp_path_factory.mktemp("nodes")
    return {name: trees.build(name, at / name) for name in trees.names()}


@pytest.fixture(scope="session")
def captured(good: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The profile of a described node, captured from its tree once: a file."""
    at = tmp_path_factory.mktemp("profiles")

    def capture(name: str) -> str:
        file = str(at / f"{name}.yaml")
        done = nodeprep("profile", "capture", "--root", str(good[name]), "-o", file, "--name", "good-sibling")
        assert done.returncode == 0, done.stderr
        return file

    return functools.cache(capture)


@pytest.mark.parametrize("name", trees.names())
def test_a_healthy_node_raises_no_alarm_without_a_profile(good: dict[str, Path], name: str) -> None:
    code, report = checked(good[name], None)
    assert told(report) == MIXED.get(name, [])
    assert code == 0


@pytest.mark.parametrize("name", [name for name in trees.names() if name != "plain-vm"])
def test_nor_with_a_profile_captured_from_itself(
    good: dict[str, Path], captured: Callable[[str], str], name: str
) -> None:
    code, report = checked(good[name], captured(name))
    assert told(report) == []
    assert code == 0


@pytest.mark.parametrize("name", ["h100-ib", "h100-roce", "a100-azure"])
def test_nor_on_a_sibling_whose_functions_sit_elsewhere(
    captured: Callable[[str], str], tmp_path: Path, name: str
) -> None:
    sibling = trees.described(name)
    for group in sibling["nics"]:
        group["at"] = [address.replace("00:", "e0:", 1) for address in group["at"]]
    trees.write(trees.tree(sibling), tmp_path / "sibling")
    code, report = checked(tmp_path / "sibling", captured(name))
    assert told(report) == []
    assert code == 0


RENAMED = ["h100-ib", "h100-roce", "h100-flat", "a100-azure", "iwarp", "efa", "hgx-h100", "gb200", "mi300"]


@pytest.mark.parametrize("name", RENAMED)
@pytest.mark.parametrize("with_profile", [False, True])
def test_names_decide_nothing(
    good: dict[str, Path], captured: Callable[[str], str], tmp_path: Path, name: str, with_profile: bool
) -> None:
    trees.build(name, tmp_path / "renamed")
    faults.rename(tmp_path / "renamed")
    profile = captured(name) if with_profile else None
    before, after = checked(good[name], profile)[1], checked(tmp_path / "renamed", profile)[1]
    if name == "h100-flat":  # without PCI addresses the name is the only place
        assert told(after) == told(before) == []
    else:
        assert verdicts(after) == verdicts(before)


def cases() -> list[tuple[str, int]]:
    return [(path.stem, index) for path in sorted(CASES.glob("*.yaml")) for index in range(len(_says(path.stem)))]


def _says(name: str) -> list[dict[str, Any]]:
    says: list[dict[str, Any]] = yaml.safe_load((CASES / f"{name}.yaml").read_text())["says"]
    return says


@pytest.mark.parametrize(("name", "index"), cases())
def test_a_fault_is_named(captured: Callable[[str], str], tmp_path: Path, name: str, index: int) -> None:
    case = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    says = case["says"][index]
    profile = captured(case["node"]) if says["profile"] == "captured" else says["profile"]
    root = trees.build(case["node"], tmp_path / "node")
    faults.apply(case, root)
    code, report = checked(root, profile)
    assert told(report) == sorted(says["roots"])
    assert code == says["exit"]


def test_no_name_hides_a_fault_or_reaches_the_terminal(tmp_path: Path) -> None:
    root = trees.build("h100-flat", tmp_path / "node")
    devices = root / "sys/class/infiniband"
    (devices / "mlx5_5").rename(devices / "mlx5\x1b[31m_5\n")
    faults.change(devices / "mlx5\x1b[31m_5\n" / "ports/1/state", "1: DOWN")
    done = nodeprep("check", "--root", str(root))
    assert done.returncode == 1
    assert "port.state" in done.stdout
    assert "\x1b" not in done.stdout
    assert checked(root, None)[0] == 1


@pytest.mark.parametrize(
    "case",
    [
        {"node": "h100-ib", "chnage": {"a": "b"}},
        {"node": "h100-ib", "changes": {}},
        {"node": "h100-ib", "says": [{"profile": None, "exit": 0, "root": []}]},
    ],
)
def test_a_key_that_nobody_reads_is_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    with pytest.raises(faults.UnknownKeyError):
        faults.apply(case, tmp_path)


NAMELESS = ("h100-flat",)  # where no PCI address is shown, a name is the only place that there is


def judged(root: Path, profiles: list[Profile]) -> list[list[tuple[str, str, int, str, str]]]:
    """Every verdict by place, with nothing of what things are called, for each profile."""
    look = Observer(Host(str(root), live=False)).look(facts.ALL)
    return [_verdicts(look, profile) for profile in profiles]


def _verdicts(look: Look, profile: Profile) -> list[tuple[str, str, int, str, str]]:
    return sorted(
        (
            one.check,
            one.subject.place if ":" in one.subject.place else "",
            one.subject.port or 0,
            str(one.status),
            "" if one.status == "ok" else one.verdict.reason,
        )
        for one in check_round.judge(CHECKS.values(), look, None, profile, wants.wants(profile)).findings
    )


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_names_decide_nothing_about_a_fault(good: dict[str, Path], tmp_path: Path, path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    if case["node"] in NAMELESS or case.get("swap"):  # names that were swapped are the fault
        return
    root = trees.build(case["node"], tmp_path / "node")
    faults.apply(case, root)
    seen = Observer(Host(str(good[case["node"]]), live=False)).look(facts.ALL)
    captured = profile_capture.capture("x", seen.facts[Rdma], pci=seen.get(Pci), links=seen.get(Links))  # type: ignore[arg-type]
    profiles = [profile_files.effective(name) for name in ("rdma-roce", "rdma-infiniband")]
    profiles += [captured] if captured else []
    before = judged(root, profiles)
    faults.rename(root)
    assert judged(root, profiles) == before


def test_a_node_is_not_built_over_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trees.main(["build", "h100-roce", str(tmp_path / "new")]) == 0
    assert trees.main(["build", "h100-roce", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'new'}: found something there, wanted a directory")
