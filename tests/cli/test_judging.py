"""How often `check` looks and which profile it holds a node against: on whole trees, and on facts made for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nodeprep import assessment
from nodeprep.assessment import Assessment
from nodeprep.checks import CHECKS, IDS
from nodeprep.cli import place
from nodeprep.cli.check import assessments, look_pair, outcome
from nodeprep.cli.check.choices import FailOn
from nodeprep.cli.check.look_pair import LookPair
from nodeprep.cli.check.node_watch import NodeWatch
from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.rdma.counters import Counters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.look import Look
from nodeprep.model import NO_ACCESS, Fact, Unreadable, Why
from nodeprep.observer import Observer
from tests import cni_values
from tests.cli.program import node
from tests.cluster_values import cluster
from tests.cni_values import cni, terway
from tests.values import pci, port, rdma

CALICO, TERWAY = json.dumps(cni_values.CALICO), json.dumps(cni_values.TERWAY)
TODAY = "2026-11-21"


def asking(profile: str | None = None, *only: str) -> Assessment:
    return assessments.of_node(profile, None, TODAY, only or IDS)


def watch(root: Path, asked: Assessment) -> NodeWatch:
    at = place.place(str(root), None)
    facts = look_pair.facts_for(asked.checks, to_select=asked.selection is None)
    return NodeWatch(asked, lambda excluded: LookPair(Observer(at.host(excluded)), facts, 0.0))


CHOSEN = [
    # node          profile            because
    ("h100-ib", "rdma-infiniband", "8 InfiniBand ports"),
    ("h100-flat", "rdma-infiniband", "8 InfiniBand ports"),
    ("a100-azure", "rdma-infiniband", "8 InfiniBand ports"),
    ("h100-roce", "rdma-roce", "12 Ethernet RDMA ports"),
    ("iwarp", "rdma-roce", "2 Ethernet RDMA ports"),
    ("erdma-cpu", "rdma-erdma-cpu", "1 Elastic RDMA interface"),
    ("erdma-gpu", "rdma-erdma-gpu", "2 Elastic RDMA interfaces and 8 GPUs"),
    ("efa", "none", "4 RDMA ports of neither InfiniBand nor Ethernet"),
    ("terway-shared", "rdma-erdma-cpu", "1 Elastic RDMA interface"),
    ("plain-vm", "none", "no RDMA device in /sys/class/infiniband, no NIC that offers RDMA"),
]


@pytest.mark.parametrize(("name", "profile", "because"), CHOSEN)
def test_the_hardware_chooses(name: str, profile: str, because: str, tmp_path: Path) -> None:
    report = watch(node(name, tmp_path), asking()).report()
    assert (report.profile, report.chosen_by) == (profile, f"chosen by hardware: {because}")
    assert report.missing_hardware == (because if name == "plain-vm" else "")
    assert bool(report.notes) == (name != "plain-vm")


NETWORKS: list[tuple[dict[str, str], str]] = [
    ({"etc/cni/net.d/10-calico.conflist": CALICO}, "base: no RDMA device, the CNI configuration 10-calico.conflist"),
    ({"etc/cni/net.d/10-terway.conflist": TERWAY}, "tcp-shared-eni: no RDMA device, Terway"),
]


@pytest.mark.parametrize(("files", "says"), NETWORKS)
def test_the_pods_network_chooses_for_a_node_without_rdma(files: dict[str, str], says: str, tmp_path: Path) -> None:
    root = node("plain-vm", tmp_path)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    report = watch(root, asking()).report()
    assert f"{report.profile}: {report.chosen_by.removeprefix('chosen by hardware: ')}" == says
    assert (report.missing_hardware, report.notes) == ("", ())


ASKS_KUBERNETES = "terway.pod"


@pytest.mark.parametrize(
    ("seen", "gates"),
    [
        (Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS), False),
        (Unreadable(Why.DENIED, "Kubernetes", 13), True),
        (cluster(), True),
    ],
)
def test_a_profile_nobody_asked_for_gates_on_kubernetes_only_with_access(seen: object, gates: bool) -> None:
    facts = {Pci: pci(), Rdma: rdma(), Cni: cni(), Terway: terway(), Cluster: seen}
    chosen = asking().select(Look(0.0, True, facts))
    assert chosen.profile.name == "tcp-shared-eni"
    said = "6 gates of tcp-shared-eni ask Kubernetes: --kubeconfig FILE --node NAME"
    assert list(assessment.notes(chosen)) == ([] if gates else [said])
    assert (ASKS_KUBERNETES in chosen.profile.gates) == gates
    assert "cni.first" in chosen.profile.gates


def test_one_that_was_asked_for_does_always() -> None:
    chosen = asking("tcp-shared-eni").select(Look(0.0, True, {}))
    assert ASKS_KUBERNETES in chosen.profile.gates


def test_a_profile_once_chosen_is_held_when_the_hardware_goes(tmp_path: Path) -> None:
    root = node("h100-ib", tmp_path)
    watching = watch(root, asking())
    assert watching.report().profile == "rdma-infiniband"
    shutil.rmtree(root / "sys/class/infiniband")
    shutil.rmtree(root / "sys/bus/pci/devices")
    later = watching.report()
    assert later.profile == "rdma-infiniband"
    assert any(finding.status == "fail" for finding in later.findings)
    assert watch(root, asking()).report().profile == "none"


def test_hardware_that_comes_later_is_chosen_then(tmp_path: Path) -> None:
    root = node("h100-ib", tmp_path)
    (root / "sys").rename(tmp_path / "away")
    watching = watch(root, asking())
    assert watching.report().profile == "none"
    (tmp_path / "away").rename(root / "sys")
    assert watching.report().profile == "rdma-infiniband"


def test_hardware_that_cannot_be_looked_at_chooses_nothing_and_is_not_absent(tmp_path: Path) -> None:
    root = node("plain-vm", tmp_path)
    (root / "sys/class/infiniband").write_text("")
    report = watch(root, asking()).report()
    assert (report.profile, report.missing_hardware) == ("none", "")
    assert report.chosen_by.startswith("the hardware could not be looked at: /sys/class/infiniband")


def test_a_profiles_exclusions_hold_before_the_first_read(tmp_path: Path) -> None:
    root = node("h100-ib", tmp_path / "node")
    config = tmp_path / "config.yaml"
    config.write_text('apiVersion: nodeprep.io/v1\nkind: Config\nexclude: ["*/ports/1/rate"]\n')
    rate = root / "sys/class/infiniband/mlx5_3/ports/1/rate"
    rate.write_text("damage")
    asked = assessments.of_node(None, str(config), TODAY, ("port.rate",))
    assert asked.excluded_paths() == ("*/ports/1/rate",)
    report = watch(root, asked).report()
    assert report.profile == "rdma-infiniband"
    assert "damage" not in str(report)
    assert "damage" in str(watch(root, asking(None, "port.rate")).report())


HIDDEN = [
    # pattern                                   what the note says, and whether anything can still be judged
    ("/sys/**", "exclude hides /sys/class/infiniband: nothing can be said of RDMA devices", 3),
    ("/sys/class/infiniband", "exclude hides /sys/class/infiniband: nothing can be said of RDMA devices", 3),
    ("/sys/bus/pci/*", "exclude hides /sys/bus/pci/devices: nothing can be said of PCI functions", 3),
    ("/sys/class/infiniband/mlx5_3", "exclude hides RDMA devices: mlx5_3; nothing can be said of them", 0),
    ("*/mlx5_3/*", "exclude hides RDMA devices: mlx5_3; nothing can be said of them", 0),
    ("/sys/class/net/**", "exclude hides /sys/class/net: nothing can be said of interfaces", 3),
    ("/sys/class/net/ibp59s0/**", "exclude hides interfaces: ibp59s0; nothing can be said of them", 3),
    ("*/0000:5d:00.0*", "exclude hides PCI functions: 0000:5d:00.0; nothing can be said of them", 0),
    ("*/ports/1/counters/*", "", 0),
]


@pytest.mark.parametrize(("pattern", "says", "code"), HIDDEN)
def test_an_exclusion_that_hides_a_device_is_said(pattern: str, says: str, code: int, tmp_path: Path) -> None:
    root = node("h100-ib", tmp_path / "node")
    config = tmp_path / "config.yaml"
    config.write_text(f'apiVersion: nodeprep.io/v1\nkind: Config\nexclude: ["{pattern}"]\n')
    report = watch(root, assessments.of_node(None, str(config), TODAY)).report()
    assert ([one for one in report.notes if one.startswith("exclude hides")] or [""])[0] == says
    assert outcome.outcome(report, FailOn.FAIL).exit_code == code


SEEN = [
    # node          profile           NICs  baseline
    ("h100-ib", None, 12, ""),
    ("h100-flat", None, 9, ""),
    ("plain-vm", "base", 1, ""),
    ("h100-ib", "8", 12, "at least 8 ports in profile rails"),
    ("h100-ib", "named", 12, "profile rails"),
]
RAILS = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: rails\nextends: rdma-infiniband\nexpect:\n"
EXPECTED = {
    "8": "  ports: {link-layer: InfiniBand, at-least: 8}\n",
    "named": '  devices: {"0000:5d:00.0": {id: "15b3:1021"}}\n',
}


@pytest.mark.parametrize(("name", "profile", "nics", "baseline"), SEEN)
def test_a_report_says_how_many_nics_it_saw_and_who_knows_better(
    name: str, profile: str | None, nics: int, baseline: str, tmp_path: Path
) -> None:
    if profile in EXPECTED:
        (tmp_path / "rails.yaml").write_text(RAILS + EXPECTED[profile])
        profile = str(tmp_path / "rails.yaml")
    basis = watch(node(name, tmp_path), asking(profile)).report().basis
    assert (basis.nics, basis.baseline, basis.is_copy, basis.is_named) == (nics, baseline, True, profile is not None)


def test_facts_are_those_of_the_selected_checks() -> None:
    def kinds(*only: str, to_select: bool = False) -> set[type]:
        return {fact.kind for fact in look_pair.facts_for(only, to_select=to_select)}

    assert kinds("time.sync") == {System, *CHECKS["time.sync"].needs}
    assert {Pci, Rdma} <= kinds("time.sync", to_select=True)
    assert Pci in kinds("port.state")  # what ought to be there rests on it
    assert Counters not in kinds("port.state")
    assert Rdma in kinds("pci.aer")  # rates are worth a second look only where there are ports
    assert (
        len(look_pair.facts_for(IDS, to_select=True))
        == len(set(look_pair.facts_for(IDS, to_select=True)))
        <= len(FACTS)
    )


def looks(settle: float, seen: object, *, live: bool = True, times: int = 1) -> list[tuple[float, float | None]]:
    """When each look and the one before it were taken, for a node that shows `seen` as its RDMA devices."""
    looks = LookPair(Observer(Host("/", live=live)), (Fact(Rdma, lambda _: seen),), settle)
    return [(now.at, before.at if before else None) for now, before in (looks.look() for _ in range(times))]


PORTS = rdma(port())
SETTLED = [
    # settle  seen                                               live   looks twice
    (0.05, PORTS, True, True),
    (0.0, PORTS, True, False),
    (0.05, rdma(), True, False),
    (0.05, PORTS, False, False),
    (0.05, Unreadable(Why.IO_ERROR, "/sys/class/infiniband", 5), True, True),
]


@pytest.mark.parametrize(("settle", "seen", "live", "twice"), SETTLED)
def test_rates_take_two_looks(settle: float, seen: object, live: bool, twice: bool) -> None:
    [(now, before)] = looks(settle, seen, live=live)
    assert (before is not None) == twice
    assert before is None or now - before >= settle


def test_every_later_look_has_the_one_before_it() -> None:
    (first, before_first), (second, before_second) = looks(0.05, PORTS, times=2)
    assert before_first is not None
    assert first - before_first >= 0.05
    assert before_second == first < second
