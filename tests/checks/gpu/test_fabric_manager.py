"""gpu.fabric-manager by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.gpu.fabric_manager import CHECK
from nodeprep.facts.machine.gpu import FabricManager, GpuDriver
from nodeprep.facts.machine.limits import PERSISTENCED, Limits
from nodeprep.model import Unreadable, Why
from tests import cluster_values
from tests.gpu_values import MANAGED, driver, gpu, limits, nvswitch
from tests.values import pci, say, verdicts

SWITCHES = pci(gpu(), nvswitch(), nvswitch("0000:08:00.0"))
OPEN, SHUT, UNSEEN = FabricManager(6666, True), FabricManager(6666, False), FabricManager(6666, None)
SOCKET = FabricManager(None, None)
BROKEN = FabricManager(6666, Unreadable(Why.IO_ERROR, "/proc/net/tcp", 5))  # type: ignore[arg-type]
NONE, POD = limits(), limits(shown=False)

ROWS = [
    # processes                port    says
    (MANAGED, OPEN, "ok Running"),
    (MANAGED, UNSEEN, "ok Running"),
    (MANAGED, SOCKET, "ok Running"),
    (MANAGED, BROKEN, "ok Running"),
    (MANAGED, SHUT, "warn NotListening"),
    (NONE, SHUT, "fail NotRunning"),
    (NONE, UNSEEN, "fail NotRunning"),
    (NONE, SOCKET, "fail NotRunning"),
    (NONE, BROKEN, "unknown CannotLook"),  # somebody may listen: another process runs it
    (limits(PERSISTENCED), SHUT, "fail NotRunning"),
    (NONE, OPEN, "warn OtherListener"),
    (POD, OPEN, "ok Running"),
    (POD, SHUT, "fail NotRunning"),
    (POD, UNSEEN, "absent Nothing"),  # a copy that shows neither
    (POD, SOCKET, "unknown CannotLook"),
    (POD, BROKEN, "unknown CannotLook"),
    (None, SHUT, "fail NotRunning"),
    (None, OPEN, "ok Running"),
]


@pytest.mark.parametrize(("known", "manager", "says"), ROWS)
def test_says(known: Limits | None, manager: FabricManager, says: str) -> None:
    facts = (SWITCHES, driver(fabric_manager=manager), *((known,) if known is not None else ()))
    assert say(CHECK, *facts) == says


DRIVER = {"namespace": "gpu-operator", "name": "nvidia-driver-daemonset-x", "writes": ("/run/nvidia",)}
CONTAINERS = [
    # the driver's container       processes  port   says
    ({}, POD, SHUT, "unknown CannotLook"),  # the GPU operator's: its port is in a network of its own
    ({"host_network": True}, POD, SHUT, "fail NotRunning"),
    ({"phase": "Succeeded"}, POD, SHUT, "fail NotRunning"),
    ({"writes": ("/var/lib/kubelet/device-plugins",)}, POD, SHUT, "fail NotRunning"),
    ({"writes": ("/run/nvidia/driver",)}, POD, SHUT, "unknown CannotLook"),
    ({"name": "nvidia-gpu-driver-ubuntu22.04-5c9d-x"}, POD, SHUT, "unknown CannotLook"),
    ({"name": "nvidia-container-toolkit-daemonset-x"}, POD, SHUT, "fail NotRunning"),  # the driver is the host's
    ({}, POD, OPEN, "ok Running"),
    ({}, NONE, SHUT, "fail NotRunning"),  # as root on the host all processes are seen
]


@pytest.mark.parametrize(("different", "known", "manager", "says"), CONTAINERS, ids=range(len(CONTAINERS)))
def test_in_a_driver_container(different: Any, known: Limits, manager: FabricManager, says: str) -> None:
    told = cluster_values.cluster(pods=(cluster_values.pod(**(DRIVER | different)),))
    assert say(CHECK, SWITCHES, driver(fabric_manager=manager), known, told) == says


def test_without_an_nvswitch_nobody_needs_it() -> None:
    """NVLink of a rack has a daemon of its own (IMEX), which runs only where a job asked for it."""
    assert say(CHECK, pci(gpu()), driver(fabric_manager=SHUT), NONE) == "absent Nothing"


def test_without_a_driver_it_cannot_run() -> None:
    assert say(CHECK, SWITCHES, GpuDriver(0.0, None), NONE) == "absent Nothing"


def test_a_human_restarts_it() -> None:
    (one,) = verdicts(CHECK, SWITCHES, driver(), NONE)
    assert one.remedy is None
    assert CHECK.remedies == ()
    assert one.message.startswith("2 NVSwitches here, and nv-fabricmanager does not run")
    assert "docs/runbooks/fabric-manager.md" in CHECK.fix_of(one)
