"""limits.memlock by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.limits.memlock import CHECK, Want
from nodeprep.facts.limits import Limits, Process
from nodeprep.model import Unreadable, Why
from tests.values import device, expected, rdma, say, verdicts

GIB = 1 << 30
BROKEN = Unreadable(Why.DENIED, "/proc/1871/limits", 13)


def process(name: str = "containerd", soft: object = None, unit: str = "", pid: int = 1871) -> Process:
    return Process(name, pid, unit, soft, None)  # type: ignore[arg-type]


def limits(*processes: Process) -> Limits:
    return Limits(0.0, processes, (), 1 << 40, 1 << 39)


NIC = rdma(devices=(device(),))
ROWS = [
    # process    limit         unit                   says
    ("containerd", None, "containerd.service", "ok Unlimited"),
    ("containerd", GIB, "containerd.service", "warn Limited memlock(unit=containerd)"),
    ("containerd", GIB + 1, "containerd.service", "warn Limited memlock(unit=containerd)"),
    ("containerd", GIB - 1, "containerd.service", "fail Limited memlock(unit=containerd)"),
    ("containerd", 0, "", "fail Limited memlock(unit=containerd)"),
    ("containerd", 8 << 20, "k3s.service", "fail Limited"),
    ("crio", 8 << 20, "crio.service", "fail Limited memlock(unit=crio)"),
    ("dockerd", 8 << 20, "docker.service", "fail Limited memlock(unit=docker)"),
    ("kubelet", 8 << 20, "kubelet.service", "fail Limited memlock(unit=kubelet)"),
    ("containerd", BROKEN, "containerd.service", "unknown CannotLook"),
]


@pytest.mark.parametrize(("name", "limit", "unit", "says"), ROWS)
def test_says(name: str, limit: object, unit: str, says: str) -> None:
    assert say(CHECK, limits(process(name, limit, unit)), NIC, expected()) == says


def test_the_bound_is_the_operators() -> None:
    facts = (limits(process(soft=4096)), NIC, expected())
    assert say(CHECK, *facts, want=Want(fail_below=4096)) == "warn Limited memlock(unit=containerd)"
    assert say(CHECK, *facts, want=Want(fail_below=4097)) == "fail Limited memlock(unit=containerd)"


def test_only_where_rdma_is_or_ought_to_be() -> None:
    low = limits(process(soft=65536))
    assert say(CHECK, low, rdma(), expected()) == "absent Nothing"
    assert say(CHECK, low, rdma(), expected(wants_rdma=True)) == "fail Limited memlock(unit=containerd)"
    assert say(CHECK, limits(), NIC, expected()) == "absent Nothing"


def test_the_kubelets_limit_is_nobodys_where_a_runtime_runs() -> None:
    both = limits(process("kubelet", 8 << 20), process("containerd", None))
    assert say(CHECK, both, NIC, expected()) == "ok Unlimited"


def test_of_two_alike_the_tighter_counts_and_another_runtime_for_itself() -> None:
    three = limits(process(soft=None, pid=1), process(soft=GIB, pid=2), process("dockerd", None, pid=3))
    found = verdicts(CHECK, three, NIC, expected())
    assert [(one.subject.key, one.status) for one in found] == [("containerd", "warn"), ("dockerd", "ok")]
    assert "pid 2" in found[0].message


def test_message_names_process_unit_and_limit() -> None:
    (verdict,) = verdicts(CHECK, limits(process(soft=8 << 20, unit="containerd.service")), NIC, expected())
    assert verdict.message.startswith("containerd (pid 1871, containerd.service) may lock 8 MiB, and so may")
    assert (verdict.observed, verdict.expected) == ("8388608", "unlimited")
    (unshown,) = verdicts(CHECK, limits(process(soft=8 << 20)), NIC, expected())
    assert unshown.message.startswith("containerd (pid 1871, unit not shown) may lock 8 MiB")


@pytest.mark.parametrize(
    ("limit", "words"),
    [(0, "0 bytes"), (1, "1 bytes"), (65536, "64 KiB"), (3 << 20, "3 MiB"), (2 << 30, "2 GiB"), (1500, "1500 bytes")],
)
def test_sizes_are_exact(limit: int, words: str) -> None:
    (verdict,) = verdicts(CHECK, limits(process(soft=limit)), NIC, expected())
    assert f"may lock {words}," in verdict.message
