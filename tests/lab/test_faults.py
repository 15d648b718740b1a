"""Faults made for real in a guest with a real RoCE device: each is the root that `check` names, and goes with it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from nodeprep.facts.rdma import transitions
from tests.rigs.lab import FRONT_END, RAIL, RDMA_DEVICE, RDMA_PORT, Completed, Guest

PROFILE = "/tmp/lab-profile.yaml"
# Drills write to the kernel log as a process; a production profile believes the kernel only.
DRILL = "want:\n  klog.nic: {accept-userspace: true}\n"
SNAPSHOT = "/tmp/lab-snapshot.json"
SLEEPER = "/tmp/containerd"  # a process of that name is what containers inherit their limits from
ADD_LINK = f"rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}"
SET_UP_RAIL = (
    f"until [ -e /sys/class/net/{RAIL.netdev} ]; do sleep 0.1; done; ip link set {RAIL.netdev} up mtu 9000; "
    f"ethtool -s {RAIL.netdev} speed 100000 duplex full; ip address add {RAIL.address} dev {RAIL.netdev}; {ADD_LINK}"
)
PCI = "/sys/bus/pci/devices"
PORT = f"{RDMA_DEVICE}/1"
FATAL = f"mlx5_core {RAIL.bdf}: device's health compromised - reached miss count"
LOOKS = 5  # where a busy host makes the emulated guest too late for a deadline, it is asked again
SETTLES = 1.0  # second in which a port is ACTIVE after its cable is plugged in
LONG = 300.0  # seconds; emulation is slow


@dataclass(frozen=True, slots=True)
class Fault:
    """Shell commands that make it and undo it, and the one finding that must count while it lasts."""

    name: str
    make: str
    undo: str
    status: str
    check: str
    reason: str
    subject: str  # what the finding's name must hold


FAULTS = [
    Fault(
        "RDMA link deleted",
        f"rdma link delete {RDMA_DEVICE}",
        ADD_LINK,
        *("fail", "pci.rdma-driver", "NoRdmaLink", RAIL.bdf),
    ),
    Fault(
        "RDMA module unloaded",
        "modprobe -r rdma_rxe",
        f"modprobe rdma_rxe; {ADD_LINK}",
        *("fail", "pci.rdma-driver", "ModuleNotLoaded", RAIL.bdf),
    ),
    Fault(
        "netdev down",
        f"ip link set {RAIL.netdev} down",
        f"ip link set {RAIL.netdev} up",
        *("fail", "port.state", "AdministrativelyDown", PORT),
    ),
    Fault(
        "address removed",
        f"ip address del {RAIL.address} dev {RAIL.netdev}",
        f"ip address add {RAIL.address} dev {RAIL.netdev}",
        *("fail", "port.gid", "NoRoutableGid", PORT),
    ),
    Fault(
        "MTU lowered",
        f"ip link set {RAIL.netdev} mtu 1500",
        f"ip link set {RAIL.netdev} mtu 9000",
        *("warn", "port.mtu", "BelowMtu", PORT),
    ),
    Fault(
        "uverbs node removed",
        "rm /dev/infiniband/uverbs0",
        "mknod -m 666 /dev/infiniband/uverbs0 c $(tr : ' ' < /sys/class/infiniband_verbs/uverbs0/dev)",
        *("fail", "rdma.device-nodes", "NodeMissing", RDMA_DEVICE),
    ),
    Fault(
        "driver unbound",
        f"echo {RAIL.bdf} > /sys/bus/pci/drivers/virtio-pci/unbind",
        f"echo {RAIL.bdf} > /sys/bus/pci/drivers/virtio-pci/bind; {SET_UP_RAIL}",
        *("fail", "pci.driver-bound", "NotBound", RAIL.bdf),
    ),
    Fault(
        "PCI device removed",
        f"echo 1 > {PCI}/{RAIL.bdf}/remove",
        f"echo 1 > /sys/bus/pci/rescan; {SET_UP_RAIL}",
        *("fail", "pci.expected-nic", "Missing", RAIL.bdf),
    ),
    Fault(
        "fatal line in the kernel log",
        f'echo "<0>{FATAL}" > /dev/kmsg',
        "dmesg --clear",
        *("fail", "klog.nic", "DeviceFailed", RAIL.bdf),
    ),
    Fault(
        "memlock lowered",
        f"prlimit --pid $(pidof {SLEEPER}) --memlock=8388608:",
        f"prlimit --pid $(pidof {SLEEPER}) --memlock=unlimited:",
        *("fail", "limits.memlock", "Limited", "containerd"),
    ),
]


def check(guest: Guest, *options: str) -> tuple[int, dict[str, Any]]:
    argv = ("nodeprep", "check", "-o", "json", "--profile", PROFILE, *(options or ("--settle", "0")))
    done = in_time(lambda: guest.run(argv, timeout=LONG))
    assert done.stderr == b"", done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def in_time(look: Callable[[], Completed]) -> Completed:
    """How `check -o json` ended, asked again while something is unknown: no fault here is expected to hide anything."""
    for _ in range(LOOKS - 1):
        done = look()
        assert done.stdout, done
        if not any(one["status"] == "unknown" for one in counting(json.loads(done.stdout))):
            return done
    return look()


def counting(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings that stand for themselves, but for what is the rig's: its clock, and its 9p root on a busy host."""
    bad = [finding for finding in report["findings"] if finding["status"] in ("fail", "warn", "unknown")]
    return [
        finding for finding in bad if finding["root"] is None and finding["check"] not in ("time.sync", "fs.mounts")
    ]


def healthy(guest: Guest) -> None:
    """The guest has its real RoCE port, up, and nothing counts against it; its clock is nobody's business here."""
    code, report = check(guest)
    ports = [found for found in report["findings"] if found["check"] == "port.state" and found["status"] == "ok"]
    assert [port["subject"]["name"] for port in ports] == [PORT]
    assert counting(report) == []
    assert code == without_a_fault(report)


def without_a_fault(report: dict[str, Any]) -> int:
    """The exit code of a check that found no fault: a look alone (--settle 0) leaves gates that compare two looks."""
    left = report["basis"]["unjudged"]
    assert {one["why"].partition(" (")[0] for one in left} <= {"compares two looks at a live node"}
    return 3 if left else 0


def rail_is_up(guest: Guest) -> None:
    """The kernel's own word that the guest has its real RoCE port: without it a fault of it would prove nothing."""
    assert guest.run(("cat", f"{RDMA_PORT}/state")).text == "4: ACTIVE"


@pytest.fixture(scope="module")
def prepared(guest: Guest) -> Guest:
    """A guest with a profile captured while it was well, and a container runtime that may lock all memory."""
    guest.shell(f"nodeprep profile capture --force --name lab -o {PROFILE}; printf '{DRILL}' >> {PROFILE}")
    guest.shell(f"cp /bin/sleep {SLEEPER}; prlimit --memlock=unlimited:unlimited {SLEEPER} 100000 > /dev/null 2>&1 &")
    return guest


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_the_root_and_goes_when_undone(prepared: Guest, fault: Fault) -> None:
    rail_is_up(prepared)
    prepared.shell(fault.make)
    code, report = check(prepared)
    found = counting(report)
    assert [(one["status"], one["check"], one["reason"]) for one in found] == [
        (fault.status, fault.check, fault.reason)
    ]
    assert fault.subject in found[0]["subject"]["name"]
    assert code == (1 if fault.status == "fail" else without_a_fault(report))
    prepared.shell(fault.undo)
    settled(lambda: healthy(prepared))


def settled(asserts: Callable[[], None], seconds: float = LONG) -> None:
    """Assert until it holds: the kernel brings addresses and GIDs back in its own time."""
    until = time.monotonic() + seconds
    while True:
        try:
            asserts()
        except AssertionError:
            if time.monotonic() > until:
                raise
            continue
        return


def test_a_nic_without_rdma_is_nobodys_concern(prepared: Guest) -> None:
    rail_is_up(prepared)
    prepared.shell(f"echo 1 > {PCI}/{FRONT_END.bdf}/remove")
    healthy(prepared)
    prepared.shell("echo 1 > /sys/bus/pci/rescan")


def test_a_flapping_cable_is_seen_between_two_looks(prepared: Guest) -> None:
    rail_is_up(prepared)
    prepared.shell(f"until [ $(cut -d. -f1 /proc/uptime) -gt {transitions.BOOT_SECONDS:.0f} ]; do sleep 1; done")
    began = time.monotonic()
    check(prepared)
    look = time.monotonic() - began
    done = in_time(lambda: seen_flapping(prepared, look))
    report = json.loads(done.stdout)
    found = [(one["status"], one["check"], one["reason"]) for one in counting(report)]
    assert found == [("fail", "port.flap", "Flapping")]
    assert done.returncode == 1
    settled(lambda: healthy(prepared))


def seen_flapping(guest: Guest, look: float) -> Completed:
    """How a check ended between whose two looks, which take `look` seconds each, the cable was pulled four times.

    Where the first look or the pulls took longer than was thought, there is more time for them in another try.
    """
    first, pulls = 3 * look, 10.0
    for _ in range(LOOKS - 1):
        done, looks, pulled = pulled_between(guest, first, first + pulls)
        if looks < first and pulled + SETTLES < first + pulls:
            return done
        first, pulls = max(first, 2 * looks), max(pulls, 2 * (pulled - first))
    return pulled_between(guest, first, first + pulls)[0]


def pulled_between(guest: Guest, first: float, settle: float) -> tuple[Completed, float, float]:
    """How a check with this time between its looks ended, where the cable was pulled from `first` seconds on.

    With the seconds that both looks took, and those after which the cable was plugged in for the last time.
    """
    began = time.monotonic()
    running = guest.launch(("nodeprep", "check", "-o", "json", "--profile", PROFILE, "--settle", f"{settle:.1f}"))
    time.sleep(first)  # the first look is over
    for up in (False, True) * 4:
        guest.set_link(RAIL.id, up=up)
        guest.shell(f"until [ $(cat /sys/class/net/{RAIL.netdev}/carrier) = {up:d} ]; do sleep 0.1; done")
    pulled = time.monotonic() - began
    done = running.wait(settle + LONG)
    return done, time.monotonic() - began - settle, pulled


def test_a_snapshot_of_a_faulty_guest_says_the_same_here(prepared: Guest) -> None:
    rail_is_up(prepared)
    prepared.shell(f"ip link set {RAIL.netdev} down")
    inside = in_time(lambda: from_a_snapshot(prepared))
    text = prepared.run(("cat", SNAPSHOT)).stdout
    assert inside.returncode == 1
    assert [one["check"] for one in counting(json.loads(inside.stdout)) if one["check"] != "time.sync"] == [
        "port.state"
    ]
    outside = replayed(text)
    assert outside == inside.stdout


def from_a_snapshot(guest: Guest) -> Completed:
    guest.shell(f"nodeprep snapshot --force --settle 0 --profile {PROFILE} -o {SNAPSHOT}", timeout=LONG)
    return guest.run(("nodeprep", "check", "--snapshot", SNAPSHOT, "-o", "json"))


def replayed(snapshot: bytes) -> bytes:
    """What this machine makes of a snapshot taken on another."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(snapshot)
        file.flush()
        argv = (sys.executable, "-m", "nodeprep", "check", "--snapshot", file.name, "-o", "json")
        return subprocess.run(argv, capture_output=True, check=False).stdout
