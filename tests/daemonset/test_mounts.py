"""Every mount of every pod that is shipped: what it shows of its node, and what may be done with it.

What a pod reaches by them is measured from inside (tests/kubernetes/test_reach.py), and no list is believed. This one
is here so that nobody adds a mount without looking there, and at docs/security.md.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.model import Shown, raw
from nodeprep.observer import Observer
from tests.daemonset.manifests import OVERLAYS, ROOT, UPSTREAM, Object, agent, combined, of, overlay, pod_of
from tests.rigs import trees

NODE_READS, DEEPLY, WRITES = "read", "read, also what is mounted inside", "read and write"
POD = "read, of the cluster"
NOTHING = "empty, in place of the node's"
AGENT = {
    "/etc/nodeprep": ("ConfigMap nodeprep-config", POD),
    "/host/dev": ("/dev", DEEPLY),
    "/host/dev/pts": ("", NOTHING),
    "/host/dev/shm": ("", NOTHING),
    "/host/etc/cni": ("/etc/cni", DEEPLY),
    "/host/etc/containerd": ("/etc/containerd", DEEPLY),
    "/host/etc/sysctl.d": ("/etc/sysctl.d", DEEPLY),
    "/host/lib": ("/lib", DEEPLY),
    "/host/opt/cni": ("/opt/cni", DEEPLY),
    "/host/proc/1/mountinfo": ("/proc/1/mountinfo", NODE_READS),
    "/host/proc/1/mounts": ("/proc/1/mounts", NODE_READS),
    "/host/run/nodeprep": ("/run/nodeprep", WRITES),
    "/host/run/nodeprep-agent": ("/run/nodeprep-agent", WRITES),
    "/host/sys/bus": ("/sys/bus", DEEPLY),
    "/host/sys/class": ("/sys/class", DEEPLY),
    "/host/sys/devices": ("/sys/devices", DEEPLY),
    "/host/sys/kernel/mm": ("/sys/kernel/mm", DEEPLY),
    "/host/sys/module": ("/sys/module", DEEPLY),
    "/host/usr": ("/usr", DEEPLY),
    "/host/var/lib/kubelet/pod-resources": ("/var/lib/kubelet/pod-resources", NODE_READS),
    "/host/var/lib/kubelet/pods": ("", NOTHING),
    "/host/var/lib/nodeprep": ("/var/lib/nodeprep", WRITES),
    "/var/run/secrets/kubernetes.io/serviceaccount": ("a token of an hour", POD),
}
TERWAY = {
    "/host/etc/NetworkManager": ("/etc/NetworkManager", NODE_READS),
    "/host/etc/cloud": ("/etc/cloud", DEEPLY),
    "/host/etc/systemd": ("/etc/systemd", DEEPLY),
    "/host/etc/udev": ("/etc/udev", DEEPLY),
    "/host/var/lib/cloud": ("/var/lib/cloud", DEEPLY),
    "/host/var/lib/cni": ("/var/lib/cni", DEEPLY),
    "/host/var/run/eni": ("/var/run/eni", NODE_READS),
}
LINGJUN = {
    "/host/var/rdma": ("/var/rdma", NODE_READS),
    "/host/var/run/hc-eni-host": ("/var/run/hc-eni-host", NODE_READS),
}
BOOKS = "nodeprep-kubelet-books"
KUBELET_BOOKS = {"/host/run/nodeprep-kubelet-books": ("/run/nodeprep-kubelet-books", NODE_READS)}
OF_BOOKS = {
    "/host/var/lib/kubelet/device-plugins": ("/var/lib/kubelet/device-plugins", NODE_READS),
    "/run/nodeprep-kubelet-books": ("/run/nodeprep-kubelet-books", WRITES),
}
NVML = "nodeprep-nvml"
OF_NVML = {"/run/nodeprep-nvml": ("/run/nodeprep-nvml", WRITES)}
REMEDIATOR = "nodeprep-remediator"
OF_REMEDIATOR = {
    "/host/proc": ("/proc", NODE_READS),
    "/var/lib/nodeprep-remediator": ("/var/lib/nodeprep-remediator", WRITES),
    "/run/nodeprep-remediator": ("/run/nodeprep-remediator", WRITES),
}
WAIT_READY = {"/run/nodeprep": ("/run/nodeprep", NODE_READS)}
SHIPPED = {"ack": AGENT | TERWAY, "generic": AGENT, "lab": AGENT}
BY_COMPONENT = {
    "terway": TERWAY,
    "lingjun": LINGJUN,
    "kubelet-books": KUBELET_BOOKS,
    "nvml": {"/host/run/nodeprep-nvml": ("/run/nodeprep-nvml", NODE_READS)},
    "repair": {"/run/nodeprep-remediator": ("/run/nodeprep-remediator", NODE_READS)},
}


def mounted(pod: Object, container: Object) -> dict[str, tuple[str, str]]:
    """What each mount of a container shows, and what may be done with it, in the words of the tables above."""
    volumes = {one["name"]: one for one in pod["volumes"]}
    return {one["mountPath"]: meaning(volumes[one["name"]], one) for one in container["volumeMounts"]}


def meaning(volume: Object, mount: Object) -> tuple[str, str]:
    reads = mount.get("readOnly", False)
    if "hostPath" in volume:
        deep = mount.get("recursiveReadOnly") == "IfPossible"
        return volume["hostPath"]["path"], (DEEPLY if deep else NODE_READS) if reads else WRITES
    assert reads
    if "emptyDir" in volume:
        return "", NOTHING
    if "configMap" in volume:
        return f"ConfigMap {volume['configMap']['name'].partition('-config')[0]}-config", POD
    (token, *_) = volume["projected"]["sources"]
    assert token["serviceAccountToken"]["expirationSeconds"] == 3600
    return "a token of an hour", POD


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_mount_of_the_agent(name: str) -> None:
    assert mounted(*agent(overlay(name))) == SHIPPED[name]


@pytest.mark.parametrize("component", sorted(path.name for path in (ROOT / "components").iterdir()))
def test_every_mount_that_a_component_adds(component: str, tmp_path: Path) -> None:
    """One adds a pod. None adds a container to the agent's."""
    objects = combined(tmp_path, [ROOT / "base"], component)
    pod, container = agent(objects)
    assert mounted(pod, container) == AGENT | BY_COMPONENT.get(component, {})
    assert "initContainers" not in pod
    workloads = [one for one in objects if "template" in one.get("spec", {})]
    assert workloads == of(objects, "DaemonSet")
    more = {"kubelet-books": {BOOKS}, "nvml": {NVML}, "repair": {REMEDIATOR}}.get(component, set())
    assert {one["metadata"]["name"] for one in workloads} == {"nodeprep"} | more


def test_the_remediator_has_no_token_no_binding_and_no_root_of_the_host(tmp_path: Path) -> None:
    """It is privileged, so what it mounts is no border. It is what it needs, and shows what it may be asked for."""
    objects = combined(tmp_path, [ROOT / "base"], "repair")
    pod, container = pod_of(objects, REMEDIATOR)
    assert mounted(pod, container) == OF_REMEDIATOR
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (REMEDIATOR, False)
    assert pod["enableServiceLinks"] is False
    assert {key: pod.get(key) for key in ("hostPID", "hostIPC", "runtimeClassName", "initContainers")} == dict.fromkeys(
        ("hostPID", "hostIPC", "runtimeClassName", "initContainers")
    )
    bound = {subject["name"] for one in objects for subject in one.get("subjects", ())}
    assert REMEDIATOR not in bound
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == agent(objects)[0]["priorityClassName"]
    assert not any("S3" in word or "allow" in word for word in container["args"])


@pytest.mark.parametrize("component", sorted(path.name for path in (ROOT / "components").iterdir()))
def test_only_the_agent_and_the_remediator_reach_its_socket(component: str, tmp_path: Path) -> None:
    for one in of(combined(tmp_path, [ROOT / "base"], component), "DaemonSet"):
        pod = one["spec"]["template"]["spec"]
        paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
        reaches = any("/run/nodeprep-remediator/".startswith(f"{path.rstrip('/')}/") for path in paths)
        assert reaches == (component == "repair" and one["metadata"]["name"] in ("nodeprep", REMEDIATOR))
        ledger = "/var/lib/nodeprep-remediator" in paths
        assert ledger == (one["metadata"]["name"] == REMEDIATOR)


REPORTING = [("kubelet-books", BOOKS, OF_BOOKS, None), ("nvml", NVML, OF_NVML, "nvidia")]


@pytest.mark.parametrize(("component", "name", "shows", "runtime"), REPORTING)
def test_a_pod_that_reports_has_no_right(
    tmp_path: Path, component: str, name: str, shows: dict[str, tuple[str, str]], runtime: str | None
) -> None:
    """Whoever connects to the kubelet's socket registers plugins (docs/adr/0022), and NVML's pod has all GPUs."""
    pod, container = pod_of(combined(tmp_path, [ROOT / "base"], component), name)
    assert mounted(pod, container) == shows
    assert pod.get("runtimeClassName") == runtime
    assert "initContainers" not in pod
    assert {key: pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC", "serviceAccountName")} == dict.fromkeys(
        ("hostNetwork", "hostPID", "hostIPC", "serviceAccountName")
    )
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"ports", "startupProbe", "livenessProbe", "readinessProbe"} & container.keys()


def test_every_mount_of_a_plugin_that_waits(tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "plugin/plugin.yaml").write_text((UPSTREAM / "rdma-shared-dp-ds.yaml").read_text())
    (tmp_path / "plugin/kustomization.yaml").write_text("kind: Kustomization\nresources: [plugin.yaml]\n")
    (plugin,) = combined(tmp_path / "own", [tmp_path / "plugin"], "wait-ready")
    pod = plugin["spec"]["template"]["spec"]
    (waits,) = pod["initContainers"]
    assert mounted(pod, waits) == WAIT_READY
    assert waits["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", sorted(path.stem for path in trees.HERE.glob("nodes/*.yaml")))
def test_the_directories_of_sys_have_all_that_facts_read_of_it(name: str, tmp_path: Path) -> None:
    """Links of sysfs lead from one of them to another. Two things are left out, which only explain (docs/adr/0021)."""
    whole, parts, left = trees.build(name, tmp_path / "whole"), trees.build(name, tmp_path / "parts"), tmp_path / "left"
    (parts / "sys").rename(left)
    for source in (source.removeprefix("/sys/") for source, _ in AGENT.values() if source.startswith("/sys/")):
        if (left / source).exists():
            (parts / "sys" / source).parent.mkdir(parents=True, exist_ok=True)
            (left / source).rename(parts / "sys" / source)
    shutil.rmtree(whole / "sys/kernel/iommu_groups", ignore_errors=True)
    shutil.rmtree(whole / "sys/kernel/debug", ignore_errors=True)
    assert seen(parts) == seen(whole)


def seen(root: Path) -> dict[str, object]:
    """Every fact but for the time at which it was observed."""
    facts = Observer(Host(str(root), live=False)).look(FACTS).facts
    return {
        kind.__name__: {name: one for name, one in raw(fact).items() if name != "at"}
        if isinstance(fact, Shown)
        else fact
        for kind, fact in facts.items()
    }


def test_security_md_says_of_each_what_may_be_mounted_inside() -> None:
    page = (ROOT.parent / "docs/security.md").read_text()
    table = page.partition("### What is mounted inside a mount")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(/[^`]+)`", "".join(row.split("|")[1] for row in table.splitlines() if row[:1] == "|")))
    shown = {
        source
        for rows in (AGENT, TERWAY, LINGJUN, KUBELET_BOOKS, OF_BOOKS, OF_NVML, OF_REMEDIATOR, WAIT_READY)
        for source, _ in rows.values()
        if source[:1] == "/"
    }
    assert told == shown
