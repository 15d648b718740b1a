"""The way of one finding in docs/architecture.md: each step of it is run, and what it gives is what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep import check_round
from nodeprep.checks import CHECKS
from nodeprep.config import profile_files
from nodeprep.doors.node_host import Host
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine import pci
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network import links
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.model import Finding, Status, Unreadable, Why
from tests.cli.program import nodeprep
from tests.rigs import faults, trees
from tests.values import changed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## The way of one finding") : PAGE.index("## From a file to the taint")]
PROSE = " ".join(SECTION.split())
PROFILE, CHANGES = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
(PRINTED,) = re.findall(r"```\n(FAIL.*?)```", SECTION, re.DOTALL)
NODE, CARD, PORT, NETDEV = "h100-roce", "0000:4c:00.0", "mlx5_4", "eth2"
DOWN: dict[str, Any] = yaml.safe_load(CHANGES)


def says(*words: str) -> None:
    """The page has these words."""
    assert [one for one in words if " ".join(one.split()) not in PROSE] == []


@pytest.fixture(name="profile")
def profile_file(tmp_path: Path) -> Path:
    at = tmp_path / "eight-rails.yaml"
    at.write_text(PROFILE)
    return at


def node(at: Path, change: dict[str, Any] = DOWN, **case: Any) -> Path:
    root = trees.build(NODE, at)
    faults.apply({"change": change, **case}, root)
    return root


def look(root: Path) -> Look:
    host = Host(str(root), live=False)
    facts: dict[type, object] = {Rdma: rdma.observe(host), Links: links.observe(host), Pci: pci.observe(host)}
    return Look(0.0, live=False, facts=facts)


def port_in(seen: Look) -> Port:
    found = seen.get(Rdma)
    assert found is not None
    return next(port for port in found.ports if port.device == PORT)


def judged(seen: Look, profile: Profile, before: Look | None = None) -> dict[str, Finding]:
    """What is said of the rail and of the whole node, by check."""
    found = check_round.judge(tuple(CHECKS.values()), seen, before, profile, {}).findings
    return {one.check: one for one in found if one.subject.place in (CARD, "", "ports")}


def test_the_port_becomes_a_value(tmp_path: Path) -> None:
    seen = look(node(tmp_path / "tree"))
    port, found = port_in(seen), seen.get(Links)
    told = f'Port(state="{port.state}", physical="{port.physical}", netdev="{port.netdev}", bdf="{port.bdf}", …)'
    says(f"`{port.name}` becomes `{told}`")
    link = found.named(NETDEV) if found else None
    assert link is not None
    says(f'`Link(name="{link.name}", up={link.up}, …)`')


def test_half_a_word_is_damage(tmp_path: Path) -> None:
    cut = f"sys/class/infiniband/{PORT}/ports/1/state"
    says("Half a word is `Unreadable(malformed)`")
    for text in ("4: ACT", "ACTIVE"):
        port = port_in(look(node(tmp_path / text.partition(":")[0], {cut: text})))
        with pytest.raises(Exception, match="malformed"):
            assert port.state


def test_who_wants_it(tmp_path: Path, profile: Path) -> None:
    seen = look(node(tmp_path / "tree"))
    expected = check_round.expect(seen, profile_files.effective(str(profile)))
    assert isinstance(expected, Expected)
    says(f"`Expected.of(port)` is `{expected.of(port_in(seen))}`")


def test_what_the_checks_say(tmp_path: Path, profile: Path) -> None:
    wants = profile_files.effective(str(profile))
    found = judged(look(node(tmp_path / "tree")), wants)
    state, netdev = found["port.state"], found["port.netdev"]
    remedy = state.verdict.remedy
    assert remedy is not None
    says(
        f"`port.state` says {state.status.upper()} `{state.verdict.reason}`, because IFF_UP of {NETDEV} is clear",
        f"filled in: `{state.fix}`",
        f"`{remedy.playbook}(interface={remedy.args['interface']})`",
        f"`port.netdev` says {netdev.status.upper()}, because `port.state` says why a port is not ACTIVE",
    )
    assert [one.check for one in found.values() if one.status is Status.FAIL] == ["port.state"]
    flags = f"sys/class/net/{NETDEV}/flags"
    for told, change in (
        ("With IFF_UP set it would say `{}`", {flags: "0x1003"}),
        ("without a record of the flags `{}`", {flags: None}),
    ):
        other = judged(look(node(tmp_path / told[:7].strip(), DOWN | change)), wants)
        says(told.format(other["port.state"].verdict.reason))


def test_what_follows_has_its_cause_as_its_root(tmp_path: Path) -> None:
    good, kept = trees.build(NODE, tmp_path / "good"), tmp_path / "good.yaml"
    assert nodeprep("profile", "capture", "--root", str(good), "-o", str(kept), "--name", "good").returncode == 0
    found = judged(look(node(tmp_path / "tree", {}, unbind=[CARD])), profile_files.effective(str(kept)))
    present = found["port.present"]
    says(f"`port.present` says {present.status.upper()} `{present.verdict.reason}`", f"has the root `{present.root}`")
    failed = {one.check: one.root for one in found.values() if one.status is Status.FAIL}
    assert failed.pop("pci.driver-bound") is None
    assert set(failed.values()) == {"pci.driver-bound"}


def test_what_is_printed(tmp_path: Path, profile: Path) -> None:
    done = nodeprep("check", "--root", str(node(tmp_path / "tree")), "--profile", str(profile))
    assert done.stdout[done.stdout.index("FAIL") :].split("\n\n")[0] == PRINTED.rstrip()
    says(f"The exit code is {done.returncode}.")


def test_a_state_that_cannot_be_read(tmp_path: Path, profile: Path) -> None:
    cut = node(tmp_path / "tree", {f"sys/class/infiniband/{PORT}/ports/1/state": "4: ACT"})
    done = nodeprep("check", "--root", str(cut), "--profile", str(profile))
    says(f"the verdict would be UNKNOWN with path and errno, and the exit code {done.returncode}")
    found = judged(look(cut), profile_files.effective(str(profile)))["port.state"]
    assert (found.status, found.verdict.reason) == (Status.UNKNOWN, "CannotLook")
    assert f"/sys/class/infiniband/{PORT}/ports/1/state" in found.verdict.message


def test_a_device_that_does_not_answer_twice(tmp_path: Path, profile: Path) -> None:
    seen = look(node(tmp_path / "tree", {}))
    found = seen.get(Rdma)
    assert found is not None
    silent = Unreadable(Why.IO_ERROR, f"/sys/class/infiniband/{PORT}/ports/1/state", 5)
    ports = tuple(changed(port, state=silent) if port.device == PORT else port for port in found.ports)
    blind = Look(0.0, live=True, facts={**seen.facts, Rdma: changed(found, ports=ports)})
    state = judged(blind, profile_files.effective(str(profile)), blind)["port.state"]
    says(f"the verdict would be {state.status.upper()} `{state.verdict.reason}`")
