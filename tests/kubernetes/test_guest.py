"""The guest rig: a node of its own kernel in the real cluster, whose pods have a real RoCE device by a real plugin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import training
from tests.kubernetes.training import LONG
from tests.rigs import rdma_plugin
from tests.rigs.cluster_tools import BASE
from tests.rigs.ending import ending
from tests.rigs.guest import Guest
from tests.rigs.lab import RAIL, RDMA_DEVICE, RDMA_PORT
from tests.rigs.lab_guest import REPOSITORY
from tests.rigs.waiting import until

NAME = "guest"
PROGRAM = REPOSITORY / "tests/rigs/guest.py"
SLEEP = "exec sleep 2147483647"


@pytest.fixture(scope="module")
def guest(new_guest: Guest) -> Guest:
    """Without what the module before had there: no agent, no pods but the plugin's."""
    training.cleared(new_guest)
    new_guest.cluster.apply(rdma_plugin.manifest([{"operator": "Exists"}]))
    # As it starts, it sets its interfaces up: a test's link that is down must not be among them.
    until(lambda: advertised(new_guest) == str(rdma_plugin.COUNT), "the plugin advertises the device", LONG)
    return new_guest


@pytest.fixture(autouse=True)
def restored(guest: Guest) -> Iterator[None]:
    yield
    assert guest.lab.restore() == ()


def pod(
    guest: Guest, name: str, command: str, *, image: str = BASE, hca: int = 0, mounts: Sequence[Any] = (), **spec: Any
) -> None:
    """A pod on the guest that runs a shell's command, and may have the plugin's resource; Ready on return."""
    container: dict[str, Any] = {"name": "main", "image": image, "command": ["sh", "-c", command]}
    container["volumeMounts"] = list(mounts)
    if hca:
        container["resources"] = {"limits": {rdma_plugin.RESOURCE: str(hca)}}
    usual = {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0, "hostNetwork": True}
    guest.cluster.create(
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": name}, "spec": {**usual, "restartPolicy": "Always", "containers": [container], **spec}},
    )
    guest.cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", f"--timeout={LONG:g}s")


def inside(guest: Guest, name: str, *command: str) -> str:
    return guest.cluster.kubectl("exec", name, "--", *command).strip()


def advertised(guest: Guest) -> str:
    return str(guest.object()["status"]["allocatable"].get(rdma_plugin.RESOURCE, ""))


def test_the_node_is_a_machine_of_its_own(guest: Guest) -> None:
    seen = guest.object()
    about: Mapping[str, str] = seen["status"]["nodeInfo"]
    assert about["kernelVersion"] == guest.run("uname", "-r").strip() != os.uname().release
    assert about["bootID"] == guest.boot_id != Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert guest.run("stat", "-f", "-c", "%T", "/sys/fs/cgroup").strip() == "cgroup2fs"
    limits = guest.run("sh", "-c", "cat /proc/$(pidof containerd)/limits").splitlines()
    (locked,) = (line.split()[-3:] for line in limits if line.startswith("Max locked memory"))
    assert locked == ["unlimited", "unlimited", "bytes"]


@pytest.mark.parametrize("program", ["containerd", "kubelet", rdma_plugin.PROGRAM])
def test_its_programs_seldom_wake_only_to_look(guest: Guest, program: str) -> None:
    """Each wake is a switch of processes, which costs an emulated processor its translated blocks. Children inherit."""
    named = guest.cluster.program.name if program == "kubelet" else program  # all of Kubernetes is one program here
    pid = guest.run("pidof", "-s", named).strip()
    assert guest.run("cat", f"/proc/{pid}/timerslack_ns").strip() == "4000000"


def test_a_pod_sees_the_link_of_the_guests_kernel(guest: Guest) -> None:
    pod(guest, "looker", SLEEP)
    assert inside(guest, "looker", "cat", f"{RDMA_PORT}/state") == "4: ACTIVE"
    guest.run("ip", "link", "set", RAIL.netdev, "down")
    until(lambda: "DOWN" in inside(guest, "looker", "cat", f"{RDMA_PORT}/state"), "the pod's port is DOWN")
    guest.run("ip", "link", "set", RAIL.netdev, "up")
    until(lambda: "ACTIVE" in inside(guest, "looker", "cat", f"{RDMA_PORT}/state"), "the pod's port is ACTIVE")


@pytest.mark.parametrize("host_network", [True, False])
def test_a_pod_asks_the_api_server_by_what_the_kubelet_tells_it(guest: Guest, host_network: bool) -> None:
    """kubectl without a kubeconfig does as agents do: it takes the pod's token, and the Service's address."""
    name = f"asker-{host_network}".lower()
    mounts = [{"name": "program", "mountPath": "/rig"}]
    volumes = [{"name": "program", "hostPath": {"path": str(guest.cluster.program)}}]
    command = f"/rig kubectl auth whoami -o json 2>&1; {SLEEP}"
    pod(guest, name, command, mounts=mounts, volumes=volumes, hostNetwork=host_network)

    def said() -> Any:
        with suppress(json.JSONDecodeError):  # not all of it is there yet
            return json.loads(guest.cluster.kubectl("logs", name))

    told = until(said, f"{name} says who it is", LONG)
    assert told["status"]["userInfo"]["extra"]["authentication.kubernetes.io/node-name"] == [NAME]


def test_the_plugin_gives_the_device_to_those_who_ask_for_it(guest: Guest) -> None:
    pod(guest, "trainer", SLEEP, image=rdma_plugin.IMAGE, hca=1)
    assert {"rdma_cm", "uverbs0"} <= set(inside(guest, "trainer", "ls", "/dev/infiniband").split())
    assert "PORT_ACTIVE" in inside(guest, "trainer", "ibv_devinfo", "-d", RDMA_DEVICE)
    names = inside(guest, "trainer", "cat", f"/{rdma_plugin.PCI_NAMES}") + "\n"
    assert names == rdma_plugin.short(names), "the plugin parses more at each look than a guest has"
    pod(guest, "other", SLEEP, image=rdma_plugin.IMAGE)
    assert inside(guest, "other", "sh", "-c", "ls /dev/infiniband 2>/dev/null; ibv_devinfo 2>&1; true") == (
        "No IB devices found"
    )


def test_the_plugin_advertises_a_device_whose_link_is_down(guest: Guest) -> None:
    """Why a gate is needed: it looks at files, not at ports. It does see that a device is gone."""
    guest.run("ip", "link", "set", RAIL.netdev, "down")
    end = time.monotonic() + 2.5 * rdma_plugin.INTERVAL
    while time.monotonic() < end:
        assert advertised(guest) == str(rdma_plugin.COUNT)
        time.sleep(0.5)
    assert "DOWN" in guest.run("cat", f"{RDMA_PORT}/state")
    guest.run("rdma", "link", "delete", RDMA_DEVICE)
    until(lambda: advertised(guest) == "0", "the plugin says that the device is gone", LONG)
    assert guest.lab.restore() == ()
    until(lambda: advertised(guest) == str(rdma_plugin.COUNT), "the plugin advertises the device again", LONG)


def test_a_killed_owner_leaves_no_guest() -> None:
    source = (
        "import time; from tests.rigs.cluster import Cluster; from tests.rigs import lab; from tests.rigs.lab_qemu"
        " import Machine\nwith Cluster() as c:\n print(lab.Guest(frozenset(), Machine(enter=c.inside())).pid,"
        " c.directory, flush=True)\n time.sleep(300)"
    )
    with ending(
        subprocess.Popen((sys.executable, "-c", source), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    ) as owner:
        assert owner.stdout
        pid, directory = owner.stdout.readline().split()
        process = Path("/proc", pid)
        until(lambda: "qemu" in (process / "comm").read_text(), "QEMU runs")
        owner.kill()
    until(lambda: not process.exists() and not Path(directory).exists(), "QEMU and the cluster's files are gone")


def test_ctrl_c_ends_the_program(tmp_path: Path) -> None:
    command = (sys.executable, str(PROGRAM), "run", "--", "true")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with ending(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)) as ours:
        until(lambda: list(tmp_path.glob("*/etcd.log")), "its cluster starts")
        ours.send_signal(signal.SIGINT)
        assert ours.communicate(timeout=60)[1] == ""
    assert ours.returncode == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.prove  # boots a second guest
def test_the_program_runs_a_command_beside_a_node_with_rdma(guest: Guest) -> None:
    kubectl = "kubectl get nodes -o 'jsonpath={.items[*].metadata.name} {.items[*].status.nodeInfo.kernelVersion}'"
    command = (sys.executable, str(PROGRAM), "run", "--", "sh", "-c", f"{kubectl}; exit 7")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, f"{NAME} {guest.run('uname', '-r').strip()}"), done.stderr
