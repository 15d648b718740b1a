"""limits.memlock by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.limits.memlock import CHECK, Want
from nodeprep.facts.machine.limits import InheritedLimit, Limits, RuntimeProcess
from nodeprep.model import Unreadable, Why
from tests.values import device, expected, rdma, say, verdicts

GIB = 1 << 30
BROKEN = Unreadable(Why.DENIED, "/proc/1871/limits", 13)


def process(name: str = "containerd", soft: object = None, unit: str = "", pid: int = 1871) -> RuntimeProcess:
    return RuntimeProcess(name, pid, unit, soft, None)  # type: ignore[arg-type]


def limits(*processes: RuntimeProcess) -> Limits:
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


# In a pod, by what its own container was given


def inherited(runtime: str = "containerd", unit: str = "containerd.service", soft: int | None = 8 << 20) -> Limits:
    return Limits(0.0, (), (), 1 << 40, 1 << 39, InheritedLimit(runtime, unit, "2026-11-22T18:00Z", soft, soft))


@pytest.mark.parametrize(
    ("runtime", "unit", "limit", "says"),
    [
        ("containerd", "containerd.service", None, "ok Unlimited"),
        ("containerd", "containerd.service", GIB, "warn Limited memlock(unit=containerd)"),
        ("containerd", "containerd.service", GIB - 1, "fail Limited memlock(unit=containerd)"),
        ("crio", "crio.service", 0, "fail Limited memlock(unit=crio)"),
        ("dockerd", "docker.service", 8 << 20, "fail Limited memlock(unit=docker)"),
        ("containerd", "", 8 << 20, "fail Limited"),
        ("", "", 8 << 20, "fail Limited"),
        ("", "", None, "ok Unlimited"),
    ],
)
def test_in_a_pod(runtime: str, unit: str, limit: int | None, says: str) -> None:
    assert say(CHECK, inherited(runtime, unit, limit), NIC, expected()) == says
    assert say(CHECK, inherited(runtime, unit, limit), rdma(), expected()) == "absent Nothing"


def test_in_a_pod_the_bound_is_the_operators() -> None:
    assert say(CHECK, inherited(), NIC, expected(), want=Want(fail_below=1)) == "warn Limited memlock(unit=containerd)"


def test_in_a_pod_the_message_says_since_when_and_that_the_pod_must_be_made_anew() -> None:
    (verdict,) = verdicts(CHECK, inherited(), NIC, expected())
    assert verdict.subject.key == "containerd"
    assert verdict.message == (
        "containerd (containerd.service) lets this agent's container, made 2026-11-22T18:00Z, lock 8 MiB, and so "
        "containers without CAP_IPC_LOCK; RDMA wants unlimited, and 1 GiB at least are wanted by default (fail-below): "
        "set LimitMEMLOCK=infinity for containerd.service and restart it; then stop this pod, which keeps the limit of "
        "that time: kubectl -n nodeprep delete pod POD, or "
        "crictl stopp"
    )
    (nameless,) = verdicts(CHECK, inherited("", ""), NIC, expected())
    assert nameless.message.startswith("container runtime (unit not shown) lets this agent's container")
    assert "LimitMEMLOCK=infinity for its unit and restart it" in nameless.message


def test_in_a_pod_what_could_not_be_read_is_unknown() -> None:
    blind = Limits(0.0, (), (), 1 << 40, 1 << 39, Unreadable(Why.DENIED, "/proc/self/limits", 13))  # type: ignore[arg-type]
    assert say(CHECK, blind, NIC, expected()) == "unknown CannotLook"
