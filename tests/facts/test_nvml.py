"""NVML: a child asks a library of ours, and another pod's report is taken for a stranger's word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from nodeprep.doors import clock
from nodeprep.doors.files import reports
from nodeprep.doors.files.reports import NodeReport
from nodeprep.doors.node_host import Host
from nodeprep.doors.nvml.child import NvmlChild
from nodeprep.facts.machine import nvml
from nodeprep.facts.machine.nvml import REPORT_NAME, Nvml
from nodeprep.model import Unreadable, Why
from tests.gpu_values import driver, information
from tests.rigs import fake_nvml, waiting
from tests.rigs.fake_nvml import GPUS
from tests.rigs.scratch import in_memory

SOON = 30.0  # seconds that a busy machine may take longer; who waits for a GPU that hangs, does so for ever
PATIENCE = 60.0  # seconds for a child that answers


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml.library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def library(built: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The child finds the fake library; its variables are set by `setenv`."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built))
    return monkeypatch


@pytest.fixture
def root() -> Iterator[Path]:
    with in_memory() as directory:
        yield fake_nvml.host(directory / "host")


class Patient(Host):
    """A host whose child may start late, as on a busy machine."""

    def nvml(self, *, deadline: float, rest: float) -> dict[str, Any] | Unreadable:
        return super().nvml(deadline=max(deadline, PATIENCE), rest=rest)


def seen(root: Path) -> Nvml:
    found = nvml.observe(Patient(str(root), live=True))
    assert isinstance(found, Nvml), found
    return found


def test_two_healthy_gpus(library: pytest.MonkeyPatch, root: Path) -> None:  # noqa: ARG001 - it is found by the child
    found = seen(root)
    assert (found.asked, found.code, found.driver) == (True, 0, "550.54.15")
    assert [(one.address, one.code, one.uuid) for one in found.gpus] == [
        (address, 0, f"GPU-00000000-0000-0000-0000-{number:012d}") for number, address in enumerate(GPUS, 1)
    ]
    shown = [(one.remap_pending, one.uncorrected, one.slowed, one.mig) for one in found.gpus]
    assert shown == [(False, 0, 0, False)] * 2


SICK: list[tuple[str, str, dict[str, Any]]] = [
    ("PENDING", "1", {"remap_pending": True, "remap_failed": False}),
    ("FAILED", "1", {"remap_failed": True}),
    ("PAGES", "1", {"retired_pending": True}),
    ("ECC", "3", {"uncorrected": 3}),
    ("SLOWED", "0x48", {"slowed": 0x48}),
    ("MIG", "3", {"mig": True, "mig_devices": 3}),
    ("FABRIC", "999", {"fabric_state": 3, "fabric_status": 999}),
    ("FABRIC", "-1", {"fabric_state": 2}),
    ("CODE", "16", {"code": 16, "error": "GPU requires reset", "address": ""}),
]


@pytest.mark.parametrize(("name", "value", "shows"), SICK)
def test_what_is_wrong_with_one(
    library: pytest.MonkeyPatch, root: Path, name: str, value: str, shows: dict[str, Any]
) -> None:
    library.setenv("FAKE_NVML_SICK", "1")
    library.setenv(f"FAKE_NVML_{name}", value)
    first, second = seen(root).gpus
    assert {name: getattr(second, name) for name in shows} == shows
    fine = (first.code, first.remap_pending, first.remap_failed, first.uncorrected, first.slowed)
    assert fine == (0, False, False, 0, 0)


def test_a_lost_one_has_no_address(library: pytest.MonkeyPatch, root: Path) -> None:
    library.setenv("FAKE_NVML_LOST", "1")
    assert [(one.address, one.code) for one in seen(root).gpus] == [(GPUS[0], 0), ("", 15)]


@pytest.mark.parametrize("code", [9, 18, 999])
def test_a_library_that_does_not_start(library: pytest.MonkeyPatch, root: Path, code: int) -> None:
    library.setenv("FAKE_NVML_INIT", str(code))
    found = seen(root)
    assert (found.code, found.gpus, bool(found.error)) == (code, (), True)


def test_without_the_library_that_is_said(library: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> None:
    """The loader stops at a broken file, so this holds also on a machine that has the library."""
    library.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / fake_nvml.NAME).write_text("no library")
    found = seen(root)
    assert (found.code, found.error) == (12, f"{tmp_path}/libnvidia-ml.so.1: file too short")


def test_a_crash_is_the_childs(library: pytest.MonkeyPatch, root: Path) -> None:
    library.setenv("FAKE_NVML_CRASH", "1")
    found = nvml.observe(Patient(str(root), live=True))
    assert isinstance(found, Unreadable)
    assert found.detail == "its child ended with -6: the library crashed"


def test_one_that_hangs_is_asked_by_one_child_only(library: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SIGKILL ends this one, as a wait that survives it cannot be made here: so the next look asks a new child."""
    os.mkfifo(tmp_path / "pipe")
    library.setenv("FAKE_NVML_HANG", str(tmp_path / "pipe"))
    asker, others = NvmlChild(), children()
    began = time.monotonic()
    found = asker.ask(0.5, 300.0)
    assert isinstance(found, Unreadable)
    assert (found.kind, found.detail) == (Why.TIMEOUT, "NVML gave no answer in 0.5 s: a GPU hangs")
    assert time.monotonic() - began < 0.5 + SOON
    waiting.until(lambda: asker.hanging is None or asker.hanging.poll() is not None, "its child has ended")
    assert children(others) == []


# PTRACE_SEIZE: a process that was killed ends for its parent when its tracer lets it go.
SEIZE = """
import ctypes, sys
library = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
print(library.ptrace(0x4206, int(sys.stdin.readline()), None, None), flush=True)
sys.stdin.read()
"""


def asked_twice(asker: NvmlChild) -> tuple[bool, int, list[dict[str, Any] | Unreadable], list[int]]:
    """Whether its first child was held in time, that child, both answers, and the children after these."""
    tracer = subprocess.Popen([sys.executable, "-c", SEIZE], stdin=PIPE, stdout=PIPE)
    assert tracer.stdin
    assert tracer.stdout
    assert tracer.stdout.readline() == b"ready\n"
    others = children()
    with tracer, ThreadPoolExecutor(1) as pool:
        first = pool.submit(asker.ask, 5.0, 300.0)
        waiting.until(lambda: children(others) or first.done(), "a child of NVML")
        child, *_ = (*children(others), 0)
        tracer.stdin.write(b"%d\n" % child)
        tracer.stdin.flush()
        seized = tracer.stdout.readline() == b"0\n"
        answers = [first.result(), asker.ask(5.0, 300.0)]
        alive = children(others)
        tracer.communicate()
    return seized, child, answers, alive


def test_while_a_child_hangs_no_other_is_started(library: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tracer that does not let it go stands for a kernel that does not: the child does not end by SIGKILL."""
    os.mkfifo(tmp_path / "pipe")
    library.setenv("FAKE_NVML_HANG", str(tmp_path / "pipe"))
    asker = NvmlChild()
    seized, child, answers, alive = asked_twice(asker)
    for _ in range(4):
        if seized:  # else the machine used up the child's time
            break
        asker = NvmlChild()
        seized, child, answers, alive = asked_twice(asker)
    assert [one.detail for one in answers if isinstance(one, Unreadable)] == [
        "NVML gave no answer in 5 s: a GPU hangs",
        "NVML has not returned from an earlier look",
    ]
    assert alive == [child], "no second child was started"
    library.delenv("FAKE_NVML_HANG")
    assert isinstance(asker.ask(PATIENCE, 300.0), dict), "it has ended, so the next look asks again"


def children(before: Collection[int] = ()) -> list[int]:
    """The processes that we started, without those of a test before this one."""
    pids = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in pids for pid in task.read_text().split() if int(pid) not in before]


def test_an_answer_stands_for_a_while(library: pytest.MonkeyPatch) -> None:
    asker = NvmlChild()
    first = asker.ask(PATIENCE, 300.0)
    library.setenv("FAKE_NVML_COUNT", "1")
    assert asker.ask(PATIENCE, 300.0) is first
    again = asker.ask(PATIENCE, 0.0)
    assert isinstance(again, dict)
    assert len(again["gpus"]) == 1


WORTH = [
    # the driver                                                   asked
    ({"version": None, "persistence": True}, False),
    ({"persistence": True}, True),
    ({"users": 2}, True),
    ({"users": 0}, True),  # set up though nobody has one open: the old persistence mode
    ({"users": 0, "gpus": (information(uuid=None),)}, False),
    ({"users": None}, True),  # a kernel without CONFIG_MODULE_UNLOAD, as Firecracker guests have
    ({"users": None, "gpus": (information(uuid=None),)}, False),
    ({"users": None, "gpus": None}, False),
]


@pytest.mark.parametrize(("shows", "asked"), WORTH)
def test_gpus_that_nobody_uses_are_not_started(shows: dict[str, Any], asked: bool) -> None:
    assert nvml.is_worth_asking(driver(**shows)) is asked


def test_no_child_is_started_for_them(library: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library.setenv("FAKE_NVML_CRASH", "1")
    assert seen(fake_nvml.host(tmp_path / "host", persistence=False)).asked is False


ADDRESSES = [
    ("00000000:1B:00.0", "0000:1b:00.0"),
    ("00000001:00:00.0", "0001:00:00.0"),
    ("00010000:00:00.0", "00010000:00:00.0"),  # a domain of more than 16 bits, as VMs of Azure have
    ("", ""),
    ("gpu", ""),
]


@pytest.mark.parametrize(("given", "address"), ADDRESSES)
def test_an_address_is_written_as_the_kernel_writes_it(given: str, address: str) -> None:
    assert nvml.address_of(given) == address


class Pod:
    """The agent's pod: its root has the driver's files and the report, and no processes of the host."""

    def __init__(self, directory: Path) -> None:
        self.host = fake_nvml.host(directory / "host")
        self.root = fake_nvml.host(directory / "pod")
        (self.root / "proc/1/stat").unlink()
        (self.root / "proc/1/mountinfo").write_text("")
        self.reports = self.root / nvml.REPORT_DIRECTORY.lstrip("/")

    def report(self) -> None:
        program = [sys.executable, "-m", "nodeprep", "nvml", "--once", "--host-root", str(self.host)]
        subprocess.run([*program, "--directory", str(self.reports)], check=True)

    def seen(self) -> Nvml | Unreadable:
        return nvml.observe(Host(str(self.root), live=True))


@pytest.fixture
def pod() -> Iterator[Pod]:
    with in_memory() as directory:
        yield Pod(directory)


def test_the_agent_sees_what_the_pod_with_the_library_sees(library: pytest.MonkeyPatch, pod: Pod) -> None:
    library.setenv("FAKE_NVML_ECC", "7")
    pod.report()
    library.setenv("FAKE_NVML_CRASH", "1")  # the agent itself never asks
    found = pod.seen()
    assert isinstance(found, Nvml)
    assert [one.uncorrected for one in found.gpus] == [7, 0]


def test_without_a_report_the_manifest_is_named(pod: Pod) -> None:
    found = pod.seen()
    assert isinstance(found, Unreadable)
    assert found.is_not_mounted
    assert "daemonset/components/nvml" in found.detail


def test_what_the_pod_could_not_see_is_told(library: pytest.MonkeyPatch, pod: Pod) -> None:
    library.setenv("FAKE_NVML_CRASH", "1")
    pod.report()
    found = pod.seen()
    assert isinstance(found, Unreadable)
    assert "the library crashed" in found.detail


STRANGE: list[Any] = [
    [],
    7,
    {"_": "Port"},
    {"_": "Nvml", "at": "now"},
    {"_": "Nvml", "at": 1.0, "asked": True, "gpus": 3},
]


@pytest.mark.parametrize("content", STRANGE, ids=range(len(STRANGE)))
def test_a_strangers_word_breaks_nothing(pod: Pod, content: Any) -> None:
    reports.write(str(pod.reports), REPORT_NAME, NodeReport(boot_id(), clock.now(), content))
    assert isinstance(pod.seen(), Unreadable)


OLD: list[tuple[dict[str, Any], str]] = [
    ({"at": -181.0}, "wanted at most 180 s"),
    ({"boot_id": "another"}, "written before this boot"),
]


@pytest.mark.parametrize(("different", "told"), OLD)
def test_an_old_report_is_none(pod: Pod, different: dict[str, Any], told: str) -> None:
    report = NodeReport(different.get("boot_id", boot_id()), clock.now() + different.get("at", 0.0), {})
    reports.write(str(pod.reports), REPORT_NAME, report)
    found = pod.seen()
    assert isinstance(found, Unreadable)
    assert told in found.detail


def test_a_link_and_a_large_file_are_no_reports(pod: Pod) -> None:
    pod.reports.mkdir(parents=True)
    (pod.reports / "other.json").write_text("{}")
    (pod.reports / REPORT_NAME).symlink_to("other.json")
    assert isinstance(pod.seen(), Unreadable)
    (pod.reports / REPORT_NAME).unlink()
    (pod.reports / REPORT_NAME).write_text(json.dumps("x" * nvml.REPORT_BYTES))
    assert isinstance(pod.seen(), Unreadable)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_check_tells_a_lost_gpu(library: pytest.MonkeyPatch, root: Path) -> None:
    """As a user sees it, on a host."""
    library.setenv("FAKE_NVML_LOST", "0")
    program = [sys.executable, "-m", "nodeprep", "check", "--host-root", str(root), "--only", "gpu.nvml", "-o", "json"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 1, done
    bad = [(one["reason"], one["subject"]["place"]) for one in findings if one["status"] == "fail"]
    assert bad == [("GpuLost", GPUS[0])], done
