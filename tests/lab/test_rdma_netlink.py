"""RDMA netlink on a real RoCE device, with sysfs and `rdma` as the other witnesses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.rigs.lab import RAIL, RDMA_DEVICE, RDMA_PORT, Guest
from tests.rigs.lab_guest import REPOSITORY

PYTHON = str(REPOSITORY / ".venv/bin/python")
READ = """
import json
from nodeprep.doors.netlink import nldev
from nodeprep.values import asdict
said = nldev.read()
print(json.dumps(said and asdict(said)))
"""
LEAK = """
import os, resource
from nodeprep.doors.netlink import nldev

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 10

for _ in range(400):  # until Python's heap has the size that it keeps
    nldev.read()
before, descriptors = resident(), len(os.listdir("/proc/self/fd"))
for _ in range(300):
    assert nldev.read().devices
print(before, resident(), len(os.listdir("/proc/self/fd")) - descriptors)
"""
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
SYSFS = f"/sys/class/infiniband/{RDMA_DEVICE}"


def read(guest: Guest, *within: str) -> dict[str, Any]:
    done = guest.run((*within, PYTHON, "-c", READ))
    assert done.returncode == 0, done
    said: dict[str, Any] = json.loads(done.text)
    return said


def rdma(guest: Guest, *question: str) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = json.loads(guest.run(("rdma", "--json", *question)).text)
    return said


@contextmanager
def served(guest: Guest) -> Iterator[int]:
    """A verbs server that waits for its client; gives its pid."""
    guest.shell(f"ibv_rc_pingpong -d {RDMA_DEVICE} -g 1 > /run/pingpong 2>&1 & echo $! > /run/pingpong.pid")
    try:
        guest.shell("until rdma resource show | grep -q 'qp 2 '; do sleep 0.1; done")
        yield int(guest.shell("cat /run/pingpong.pid"))
    finally:
        guest.shell("kill $(cat /run/pingpong.pid); while pgrep -x ibv_rc_pingpong; do sleep 0.1; done")


def test_sysfs_shows_the_same_device(guest: Guest) -> None:
    (device,) = read(guest)["devices"]
    (port,) = device["ports"]
    assert (device["name"], device["protocol"], device["fw"]) == (RDMA_DEVICE, "roce", None)
    assert device["node_guid"] == guest.shell(f"cat {SYSFS}/node_guid")
    assert device["sys_image_guid"] == guest.shell(f"cat {SYSFS}/sys_image_guid")
    assert f"{device['node_type']}: CA" == guest.shell(f"cat {SYSFS}/node_type")
    assert f"{port['state']}: ACTIVE" == guest.shell(f"cat {RDMA_PORT}/state")
    assert f"{port['physical']}: LinkUp" == guest.shell(f"cat {RDMA_PORT}/phys_state")
    assert (port["number"], port["netdev"]) == (1, RAIL.netdev)
    assert port["netdev_index"] == int(guest.shell(f"cat /sys/class/net/{RAIL.netdev}/ifindex"))
    assert (port["lid"], port["sm_lid"], port["errno"]) == (None, None, None)


def test_sysfs_shows_the_same_counters(guest: Guest) -> None:
    guest.shell(
        f"ibv_rc_pingpong -d {RDMA_DEVICE} -g 1 -n 20 > /dev/null &"
        "until ss -ltn | grep -q :18515; do sleep 0.1; done;"  # the server listens
        f"ibv_rc_pingpong -d {RDMA_DEVICE} -g 1 -n 20 {RAIL.address.split('/')[0]} > /dev/null; wait"
    )
    counters = dict(read(guest)["devices"][0]["ports"][0]["counters"])
    shown = dict(line.rsplit(":", 1) for line in guest.shell(f"grep '' {RDMA_PORT}/hw_counters/*").splitlines())
    theirs = {path.rsplit("/", 1)[1]: int(value) for path, value in shown.items()}
    theirs.pop("lifespan")  # how long sysfs keeps the others, in ms
    assert counters == theirs
    assert counters["sent_pkts"] > 0


def test_rdma_shows_the_same(guest: Guest) -> None:
    said = read(guest)
    (device,), (link,) = rdma(guest, "dev"), rdma(guest, "link")
    assert (said["devices"][0]["index"], said["devices"][0]["name"]) == (device["ifindex"], device["ifname"])
    assert said["devices"][0]["node_guid"] == device["node_guid"]
    assert (link["port"], link["netdev"], link["netdev_index"]) == tuple(
        said["devices"][0]["ports"][0][name] for name in ("number", "netdev", "netdev_index")
    )
    assert guest.shell("rdma system").startswith(f"netns {said['netns_mode']}")


def resources(guest: Guest) -> dict[str, int]:
    (row,) = rdma(guest, "resource", "show")
    return {name: count for name, count in row.items() if name not in ("ifindex", "ifname")}


def test_an_idle_device_is_held_by_the_kernel_alone(guest: Guest) -> None:
    said = read(guest)
    assert said["denied"] == []
    assert said["holders"] == [{"device": RDMA_DEVICE, "kind": "pd", "pid": None, "kernel_user": "ib_core"}]
    assert dict(said["resources"][0]["counts"]) == resources(guest)
    assert dict(said["resources"][0]["counts"])["ctx"] == 0


def test_a_process_that_uses_the_device_is_named(guest: Guest) -> None:
    with served(guest) as pid:
        said, theirs = read(guest), resources(guest)
        contexts = rdma(guest, "resource", "show", "ctx")
    assert {"device": RDMA_DEVICE, "kind": "ctx", "pid": pid, "kernel_user": None} in said["holders"]
    assert {"device": RDMA_DEVICE, "kind": "pd", "pid": pid, "kernel_user": None} in said["holders"]
    assert dict(said["resources"][0]["counts"]) == theirs
    assert theirs["ctx"] == 1
    assert [row["pid"] for row in contexts] == [pid]


def test_a_process_that_only_opened_the_device_is_named(guest: Guest) -> None:
    """No queue pair, no protection domain: a context is all there is, and a driver reload would break it."""
    guest.shell(f"ibv_asyncwatch -d {RDMA_DEVICE} > /run/watch 2>&1 & echo $! > /run/watch.pid")
    try:
        guest.shell("until [ -s /run/watch ]; do sleep 0.1; done || cat /run/watch")
        pid = int(guest.shell("cat /run/watch.pid"))
        held = [holder for holder in read(guest)["holders"] if holder["pid"]]
    finally:
        guest.shell("kill $(cat /run/watch.pid)")
    assert held == [{"device": RDMA_DEVICE, "kind": "ctx", "pid": pid, "kernel_user": None}]


def test_an_ordinary_user_sees_the_same(guest: Guest) -> None:
    """Linux refuses none of these questions to anybody; what it hides, it hides by namespace."""
    # The checkout may lie below a home that is root's alone. The guest has modes of its own.
    guest.shell("; ".join(f"chmod o+x '{directory}'" for directory in (REPOSITORY, *REPOSITORY.parents)))
    with served(guest):
        assert read(guest, *NOBODY) == read(guest)


def test_in_another_pid_namespace_the_holder_has_no_name(guest: Guest) -> None:
    with served(guest):
        said = read(guest, "unshare", "--pid", "--fork", "--mount-proc")
    assert dict(said["resources"][0]["counts"])["ctx"] == 1
    assert {"device": RDMA_DEVICE, "kind": "ctx", "pid": None, "kernel_user": None} in said["holders"]


def test_in_another_network_namespace_the_port_has_no_netdev(guest: Guest) -> None:
    port = read(guest, "unshare", "--net")["devices"][0]["ports"][0]
    assert (port["state"], port["netdev"], port["netdev_index"]) == (4, None, None)


def test_a_netdev_that_was_set_down(guest: Guest) -> None:
    guest.shell(f"ip link set {RAIL.netdev} down")
    port = read(guest)["devices"][0]["ports"][0]
    assert (port["state"], port["physical"], port["netdev"]) == (1, 3, RAIL.netdev)


def test_a_device_that_was_deleted(guest: Guest) -> None:
    before = read(guest)["devices"][0]["index"]
    guest.shell(f"rdma link delete {RDMA_DEVICE}")
    said = read(guest)
    assert (said["devices"], said["resources"], said["holders"], said["netns_mode"]) == ([], [], [], "shared")
    guest.restore()
    assert read(guest)["devices"][0]["index"] > before


def test_a_device_that_comes_and_goes_under_the_question(guest: Guest) -> None:
    """Whatever is half gone is left out or whole; nothing raises."""
    flap = (
        f"while :; do rdma link delete {RDMA_DEVICE}; rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}; done"
    )
    look = (
        "from nodeprep.doors.netlink import nldev\n"
        "seen = [len(nldev.read().devices) for _ in range(300)]\n"
        "print(seen.count(0), seen.count(1), len(seen))"
    )
    guest.shell(f"sh -c '{flap}' > /dev/null 2>&1 & echo $! > /run/flap.pid")
    try:
        done = guest.run((PYTHON, "-c", look), timeout=280)
    finally:
        guest.shell("kill $(cat /run/flap.pid)")
    assert done.returncode == 0, done
    absent, present, looks = map(int, done.text.split())
    assert absent + present == looks
    assert min(absent, present) > 0, "the device did not come and go"


def test_a_socket_that_cannot_be_opened_is_no_missing_rdma(guest: Guest) -> None:
    look = (
        "import resource\n"
        "from nodeprep.doors.netlink import nldev\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "nldev.read()"
    )
    assert b"OSError: [Errno 24] Too many open files" in guest.run((PYTHON, "-c", look)).stderr


def test_looking_loads_no_module(guest: Guest) -> None:
    everything = "rdma_rxe rdma_ucm rdma_cm iw_cm ib_cm ib_umad ib_uverbs ib_core"
    guest.shell(f"rdma link delete {RDMA_DEVICE}; modprobe -r {everything}; [ ! -e /sys/module/ib_core ]")
    assert guest.run((PYTHON, "-c", READ)).text == "null"
    assert guest.run(("test", "-e", "/sys/module/ib_core")).returncode == 1
    loads = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)"
    guest.run((PYTHON, "-c", loads))
    assert guest.run(("test", "-e", "/sys/module/ib_core")).returncode == 0, "opening the socket is what loads it"


def test_hundreds_of_looks_leave_nothing_behind(guest: Guest) -> None:
    done = guest.run((PYTHON, "-c", LEAK), timeout=580)
    assert done.returncode == 0, done
    before, after, descriptors = map(int, done.text.split())
    print(f"RDMA netlink, 300 looks: {before} -> {after} KiB resident, {descriptors} descriptors more")
    assert descriptors == 0
    # pyroute2's own socket, kept open, would take 1.5 KiB a question, and there are seven: 3 MiB.
    assert after - before < 1024
