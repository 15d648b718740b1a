"""The event sources on a node with a real RoCE device: what rings when it comes, goes, changes or is spoken of."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.lab import FRONT_END, RAIL, RDMA_DEVICE, Guest
from tests.rigs.lab_guest import REPOSITORY

PYTHON = str(REPOSITORY / ".venv/bin/python")
# Rings for each script: all topics within the patience, until half a second of silence, by the event sources that are
# named.
LISTEN = """
import json, subprocess, sys
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.events.kernel_events import KernelLogEvents, LinkEvents, RdmaEvents, DeviceEvents
from nodeprep.doors.files.reader import Files

kinds = {"links": LinkEvents, "rdma": RdmaEvents, "uevents": DeviceEvents}
kinds["kernel-log"] = lambda: KernelLogEvents(Files())
names, script = sys.argv[1].split(), sys.argv[2]
event_sources = EventSources(sources=[kinds[name]() for name in names]) if names else EventSources()
while event_sources.wait(0.5):
    pass
if script:
    subprocess.run(["sh", "-ec", script], check=True)
rang = set(event_sources.wait(10 if script else 0))
while more := event_sources.wait(0.5):
    rang |= more
print(json.dumps([sorted(rang), {name: [state.alive, state.why] for name, state in event_sources.states().items()}]))
"""
NO_NOTICES = "announces no changes of RDMA devices"


@dataclass(frozen=True, slots=True)
class Heard:
    topics: set[str]
    states: dict[str, tuple[bool, str]]


def listen(guest: Guest, names: str, script: str) -> Heard:
    done = guest.run((PYTHON, "-c", LISTEN, names, script))
    assert done.returncode == 0, done
    topics, states = json.loads(done.text)
    return Heard(set(topics), {name: (alive, why) for name, (alive, why) in states.items()})


def test_every_event_source_is_alive_or_says_why_not(guest: Guest) -> None:
    states = listen(guest, "", "").states
    assert set(states) == {"links", "rdma", "uevents", "kernel-log", "configuration", "infiniband-ports"}
    dead = {name: why for name, (alive, why) in states.items() if not alive}
    assert set(dead) <= {"rdma"}
    assert NO_NOTICES in dead.get("rdma", NO_NOTICES)


LINK = f"rdma link delete {RDMA_DEVICE}; rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}"
RINGS = {
    "an RDMA device goes and comes": ("uevents", LINK, "rdma"),
    "an RDMA device is renamed": ("uevents", f"rdma dev set {RDMA_DEVICE} name other0", "rdma"),
    "a netdev goes down": ("links", f"ip link set {RAIL.netdev} down", "link"),
    "an address goes": ("links", f"ip address del {RAIL.address} dev {RAIL.netdev}", "link"),
    "a module goes": ("uevents", "modprobe -r rdma_ucm", "device"),
    "a driver lets go": ("uevents", f"echo {FRONT_END.bdf} > /sys/bus/pci/drivers/virtio-pci/unbind", "device"),
    "a device is removed": ("uevents", f"echo 1 > /sys/bus/pci/devices/{RAIL.bdf}/remove", "device"),
    "the kernel log speaks of a device": (
        "kernel-log",
        "echo '<2>mlx5_core: health compromised' > /dev/kmsg",
        "kernel-log",
    ),
}


@pytest.mark.parametrize("change", RINGS)
def test_what_rings(guest: Guest, change: str) -> None:
    event_source, script, topic = RINGS[change]
    assert topic in listen(guest, event_source, script).topics


def test_rdma_notices_ring_where_the_kernel_has_them(guest: Guest) -> None:
    heard = listen(guest, "rdma", LINK if listen(guest, "rdma", "").states["rdma"][0] else "")
    alive, why = heard.states["rdma"]
    has_them = "monitor on" in guest.shell("rdma system || true")
    if not alive:
        assert NO_NOTICES in why
        assert not has_them
        pytest.skip(f"the guest's kernel is {guest.shell('uname -r')}: RDMA notices came with Linux 6.12")
    assert heard.topics == {"rdma"}


def test_a_pulled_cable_rings(guest: Guest) -> None:
    running = guest.launch((PYTHON, "-c", LISTEN, "links", "touch /run/listening; sleep 1"))
    guest.shell("until [ -e /run/listening ]; do sleep 0.05; done; rm /run/listening", timeout=60)
    guest.set_link("rail", up=False)
    done = running.wait(60)
    assert done.returncode == 0, done
    assert json.loads(done.text)[0] == ["link"]


def test_listening_loads_no_module(guest: Guest) -> None:
    gone = "modprobe -r rdma_ucm rdma_rxe ib_umad ib_uverbs rdma_cm iw_cm ib_cm ib_core 2>/dev/null || true"
    guest.shell(gone)
    if guest.run(("test", "-e", "/sys/class/infiniband")).returncode == 0:
        cannot_start("ib_core does not leave this guest's kernel: what listening loads was not seen")
    states = listen(guest, "", "").states
    assert states["rdma"] == (False, "no RDMA device and no ib_core in this kernel")
    assert guest.run(("test", "-e", "/sys/module/ib_core")).returncode != 0
