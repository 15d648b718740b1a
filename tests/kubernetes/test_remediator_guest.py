"""The component `repair` on a machine of its own, from the shipped manifests: it mends the machine, not its container.

The machine has a real RoCE device, and a real plugin that gives it to pods. `nodeprep repair --via-remediator` plans on
it, and the remediator's pod acts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.kubernetes import remediated, training
from tests.kubernetes.remediated import REPAIR
from tests.kubernetes.shipped import Object, agents, configuration, container, overlay
from tests.kubernetes.training import LONG, PODS, running, training_pod
from tests.rigs import rdma_plugin
from tests.rigs.guest import Guest
from tests.rigs.lab import RAIL, RDMA_DEVICE
from tests.rigs.lab_guest import REPOSITORY
from tests.rigs.waiting import until

PROFILE, PLAYS = "/run/node.yaml", 900.0  # seconds for a command that has playbooks run: each takes 15 to 60 here
PROFILE_TEXT = f"""apiVersion: nodeprep.io/v1
kind: Profile
name: node
extends: rdma-roce
expect:
  modules: [ib_core, ib_umad, ib_uverbs]
  devices:
    "{RAIL.bdf}": {{driver: virtio-pci, rdma: {RDMA_DEVICE}, software: rxe}}
"""
UNIT = f"/etc/systemd/system/nodeprep-rdma-{RDMA_DEVICE}.service"
MODULES = "/etc/modules-load.d/nodeprep.conf"
OBSERVE = configuration().replace("mode: gate", "mode: observe")
# A play takes one to two minutes in emulation. test_remediator.py shows the component on a native node.
pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def guest(new_guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Without what the module before had there; with the plugin, and our two DaemonSets."""
    cluster = new_guest.cluster
    training.cleared(new_guest)
    assert new_guest.lab.restore() == ()
    cluster.apply(rdma_plugin.manifest([{"operator": "Exists"}]))
    cluster.apply(overlay(tmp_path_factory.mktemp("manifests") / "own", {"config.yaml": OBSERVE}, REPAIR))
    remediated.rolled_out(cluster, LONG)
    new_guest.run("sh", "-c", f"cat >{PROFILE} <<'END'\n{PROFILE_TEXT}END")
    return new_guest


@pytest.fixture(autouse=True)
def restored(guest: Guest) -> Iterator[None]:
    yield
    guest.run("rm", "-f", UNIT, MODULES)
    assert guest.lab.restore() == ()


def repair(guest: Guest, check: str, code: int) -> str:
    """What `nodeprep repair --via-remediator` prints on the machine, as root."""
    words = ("python", "-m", "nodeprep", "repair", check, "--via-remediator", "--yes", "--profile", PROFILE)
    done = guest.lab.run(words, timeout=PLAYS, env={"PYTHONPATH": f"{REPOSITORY}/agent"})
    said = (done.stdout + done.stderr).decode(errors="replace")
    print(said)
    assert done.returncode == code, said
    return said


def inside(guest: Guest, *command: str) -> str:
    return remediated.in_remediator(guest.cluster, guest, *command)


def mounts(guest: Guest) -> str:
    return inside(guest, "cat", "/proc/1/mountinfo")


def test_a_deleted_rdma_link_is_made_again(guest: Guest) -> None:
    """In the machine's namespaces and on its disk. The container's files and mounts are as they were."""
    before = mounts(guest)
    guest.run("rdma", "link", "delete", RDMA_DEVICE)
    repair(guest, "pci.rdma-driver", 0)
    assert f"netdev {RAIL.netdev}" in guest.run("rdma", "link", "show", f"{RDMA_DEVICE}/1")
    assert f"rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}" in guest.run("cat", UNIT)
    assert inside(guest, "sh", "-c", f"ls -d {UNIT} /etc/systemd/system 2>/dev/null || echo none").strip() == "none"
    assert mounts(guest) == before
    last = remediated.records(guest)[-1]
    assert (last["remedy"], last["state"], last["changed"] > 0) == ("rdma_link_add", "done", True)


def test_a_removed_module_is_loaded_again(guest: Guest) -> None:
    guest.run("modprobe", "-r", "ib_umad")
    repair(guest, "module.core", 0)
    assert "ib_umad" in guest.run("cat", "/proc/modules")
    assert guest.run("cat", MODULES) == "ib_umad\n"
    assert inside(guest, "sh", "-c", f"ls {MODULES} 2>/dev/null || echo none").strip() == "none"
    assert "nothing to do" in repair(guest, "module.core", 0)


def test_a_machine_without_the_tool_says_so(guest: Guest) -> None:
    """Whatever the image has: it has no such tool either, and what it has does not count."""
    tool = guest.run("sh", "-c", "realpath $(command -v rdma)").strip()
    guest.run("sh", "-c", "touch /run/no-tool; chmod 644 /run/no-tool")
    guest.run("mount", "--bind", "/run/no-tool", tool)
    try:
        told = remediated.ran(
            guest.cluster, guest, "rdma_link_add", wait=PLAYS, name="rxe7", type="rxe", netdev=RAIL.netdev
        )
    finally:
        guest.run("umount", tool)
    assert told["refused"] == "missing-tool", told
    assert told["why"] == "rdma_link_add: the host has no rdma"


def lives(guest: Guest, name: str) -> tuple[str, int]:
    """The uid of a training pod, and how often its container was started again."""
    told: Object = guest.cluster.call("GET", f"{PODS}/{name}")[1]
    return told["metadata"]["uid"], container(told)["restartCount"]


def test_a_training_pod_goes_on_while_its_plugin_is_started_again(guest: Guest) -> None:
    """It holds the device: what would disturb it is refused by its name, and it is neither restarted nor deleted."""
    cluster = guest.cluster
    until(lambda: training.advertised(guest.object()) == str(rdma_plugin.COUNT), "the plugin advertises", LONG)
    cluster.kubectl("label", "node", guest.name, "--overwrite", f"{training.RDMA_LABEL}=true")
    training_pod(cluster, "trainer")
    until(lambda: running(cluster.call("GET", f"{PODS}/trainer")[1]), "the training pod runs", LONG)
    before, agent = lives(guest, "trainer"), container(agents(cluster)[guest.name])["restartCount"]
    told = remediated.ran(cluster, guest, "mtu", interface=RAIL.netdev, mtu="4300", wait=PLAYS)
    assert told["refused"] == "in-use", told
    assert "default/trainer" in told["why"]
    (plugin,) = training.plugin_pods(cluster)
    name = f"kube-system/{plugin['metadata']['name']}"
    told = remediated.ran(cluster, guest, "plugin_restart", pod=name, wait=PLAYS)
    assert (told["rc"], told["changed"]) == (0, 1), told

    def restarted() -> bool:
        return [container(one).get("restartCount") for one in training.plugin_pods(cluster)] == [1]

    until(restarted, "the kubelet says that the plugin's container was started again", LONG)
    assert [one["metadata"]["uid"] for one in training.plugin_pods(cluster)] == [plugin["metadata"]["uid"]]
    told = remediated.ran(cluster, guest, "plugin_restart", pod="default/trainer", wait=PLAYS)
    assert told["rc"] != 0, told
    assert lives(guest, "trainer") == before
    assert container(agents(cluster)[guest.name])["restartCount"] == agent
    assert training.port_of(cluster, "trainer") == "PORT_ACTIVE"
    asked = [json.loads(line) for line in cluster.audited()]
    ours = [one for one in asked if one["user"].get("username", "").startswith("system:serviceaccount:nodeprep:")]
    assert ours
    assert not [
        one["requestURI"] for one in ours if one["verb"].startswith("delete") or "eviction" in one["requestURI"]
    ]
