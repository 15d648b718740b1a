"""What the manifests say: the agent's privileges, what it sees of its host, and that all names come from one place."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nodeprep.config import configuration
from nodeprep.decide.desired import TRAINING_READY
from nodeprep.doors.files.file_root import OF_ALL
from nodeprep.publish import admission_policy
from nodeprep.publish.admission_policy import ServiceAccount
from tests.daemonset.manifests import OVERLAYS, ROOT, UPSTREAM, Object, agent, combined, mounts, of, overlay

PACKAGE = ROOT.parent / "agent/nodeprep"
WRITABLE = {"/var/lib/nodeprep", "/run/nodeprep", "/run/nodeprep-agent"}
# Whoever may open what lies in these is root of the node, or has the secrets of its pods.
NEVER = {
    "/",
    "/proc",
    "/sys",
    "/sys/kernel",
    "/sys/fs",
    "/etc",
    "/etc/kubernetes",
    "/run",
    "/var",
    "/var/run",
    "/var/lib",
    "/var/lib/kubelet",
    "/root",
    "/home",
}
HOST_ONLY = "only the proof that nobody uses a device asks, which `repair` makes on the host"
# What the agent would read of a host and is not shown, and why.
NOT_SHOWN = {
    "/etc/crio": "clusters with CRI-O; a patch of their own",
    "/etc/eni": "only an event source; polling finds the same",
    "/etc/hosts": HOST_ONLY,
    "/run/netns": HOST_ONLY,
    "/proc/1/root/run/netns": HOST_ONLY,
    "/proc/thread-self": "its own",
    "/sys/kernel/iommu_groups": HOST_ONLY,
    "/etc/kubernetes": "the credentials of the kubelet; /var/lib/kubelet/pods says as well that there is one",
    "/etc/nodeprep": "the pod has its own, from the ConfigMap",
    "/proc/1/stat": "what tells that a root has the whole of /proc, which leads into every pod",
    "/proc/self": "its own",
    "/sys/kernel/debug": "a file system inside /sys; only an explanation",
    "/etc/sysctl.conf": "a file, which an editor replaces; and where there is none, a mount would make a directory",
    "/run/containerd": "whoever connects to the runtime is root of the node; its Node says whether it is ready",
    "/run/cri-dockerd.sock": "as /run/containerd",
    "/run/crio": "as /run/containerd",
    "/run/k3s": "as /run/containerd",
    "/run/NetworkManager": "in /run are the sockets of the container runtime; its unit in /etc/systemd says as well",
    "/run/cloud-init": "in /run; /var/lib/cloud says as well",
    "/run/nvidia": "in /run; with a driver container the agent sees the module and the nodes, and not whose they are",
    "/run/nvidia-persistenced": "in /run, and a socket; the GPUs' UUIDs are there as well where it runs",
    "/var/run/nvidia-persistenced": "as /run/nvidia-persistenced",
    "/run/sysctl.d": "in /run, and no distribution puts anything there",
    "/run/systemd": "in it is the socket of systemd; its units in /etc/systemd say as well",
    "/var/lib/kubelet": "whoever connects to a socket in device-plugins registers plugins; the rest are secrets",
    "/var/lib/rancher": "clusters with k3s; a patch of their own",
    "/var/run/secrets": "the pod has its own",
}
PATH = re.compile(r"/(?:bin|boot|dev|etc|home|lib|opt|proc|root|run|sbin|srv|sys|usr|var)/[^\s*{}]+")


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_agent_has_no_more_privileges_than_the_design_gives_it(name: str) -> None:
    objects = overlay(name)
    pod, container = agent(objects)
    assert {key: pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC", "hostUsers")} == {
        "hostNetwork": True,
        "hostPID": None,
        "hostIPC": None,
        "hostUsers": None,
    }
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYSLOG"]},
    }
    assert pod["automountServiceAccountToken"] is False
    (token,) = [one["projected"] for one in pod["volumes"] if "projected" in one]
    assert token["sources"][0]["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3600}
    assert token["sources"][2]["downwardAPI"]["items"] == [
        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    ]


@pytest.mark.parametrize("name", OVERLAYS)
def test_what_it_may_write_of_its_host(name: str) -> None:
    shown = mounts(overlay(name))
    assert {path for path, one in shown.items() if not one["mount"].get("readOnly")} == WRITABLE
    for path, one in shown.items():
        assert path not in NEVER
        assert "emptyDir" in one or one["hostPath"]["path"] == path
        # Whatever else is missing is made: a pod that waits for a directory would leave the node without a judge.
        kinds = ("File",) if path.startswith("/proc/1/") else ("Directory", "DirectoryOrCreate")
        assert "emptyDir" in one or one["hostPath"]["type"] in kinds


def named_paths() -> dict[str, str]:
    """Every path of a host that the facts and the event sources name, and where."""
    found: dict[str, str] = {}
    for file in (*(PACKAGE / "facts").rglob("*.py"), *(PACKAGE / "doors").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                path = PATH.match(node.value)
                if path and "\n" not in node.value:
                    found.setdefault(path[0].rstrip("/"), file.name)
    return found


def test_it_sees_all_that_its_facts_read_but_for_this(tmp_path: Path) -> None:
    shown = mounts(combined(tmp_path, [ROOT / "overlays/ack"], "lingjun", "kubelet-books", "nvml"))
    read = {path for path in named_paths() if path != "/proc" and not OF_ALL.match(path)}  # the rest: in its own /proc
    seen = {path: next((one for one in shown if f"{path}/".startswith(f"{one}/")), None) for path in read}
    hidden = {path for path, by in seen.items() if by is None}
    unsaid = {path for path in hidden if not any(f"{path}/".startswith(f"{one}/") for one in NOT_SHOWN)}
    assert not {path: named_paths()[path] for path in unsaid}
    assert not {one for one in NOT_SHOWN if not any(f"{path}/".startswith(f"{one}/") for path in hidden)}


@pytest.mark.parametrize("name", OVERLAYS)
def test_its_configuration_is_sound_and_the_admission_policy_is_made_from_it(name: str, tmp_path: Path) -> None:
    objects = overlay(name)
    (config,) = of(objects, "ConfigMap")
    file = tmp_path / "config.yaml"
    file.write_text(config["data"]["config.yaml"])
    settings = configuration.load_settings(str(file), None)
    assert settings.agent.mode == ("gate" if name == "lab" else "observe")
    (account,) = of(objects, "ServiceAccount")
    bound = ServiceAccount(account["metadata"]["namespace"], account["metadata"]["name"])
    shipped = [one for one in objects if one["kind"].startswith("ValidatingAdmissionPolicy")]
    wanted = admission_policy.admission_policies(settings.agent.gate, bound)
    assert sorted(map(str, shipped)) == sorted(map(str, by_key(wanted)))


def test_a_changed_configuration_is_a_rollout(tmp_path: Path) -> None:
    """The ConfigMap has another name, and the agent's pod mounts that; the agent reads its file at its start."""
    names = []
    for number, components in enumerate(((), ("gate",), ("repair", "mode-repair"))):
        (tmp_path / str(number)).mkdir()
        objects = combined(tmp_path / str(number), [ROOT / "overlays/generic"], *components)
        pod, container = agent(objects)
        assert "--config-by-rollout" in container["args"]
        (config,) = of(objects, "ConfigMap")
        (volume,) = (one for one in pod["volumes"] if one["name"] == "config")
        assert volume["configMap"]["name"] == config["metadata"]["name"]
        names.append(config["metadata"]["name"])
    assert len(set(names)) == len(names)


def by_key(objects: object) -> list[object]:
    """As kustomize writes them: keys in the order of the alphabet."""
    return list(yaml.safe_load(yaml.safe_dump(list(objects), sort_keys=True)))  # type: ignore[call-overload]


def test_the_shipped_admission_policy_is_what_the_command_prints() -> None:
    command = (sys.executable, "-m", "nodeprep", "config", "admission-policy")
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shipped = (ROOT / "base/admission-policy.yaml").read_text()
    comments = "".join(line for line in shipped.splitlines(keepends=True) if line.startswith("#"))
    assert shipped == comments + printed, (
        "nodeprep config admission-policy has changed: put it into daemonset/base/admission-policy.yaml"
    )


def test_probes_ask_where_the_agent_answers() -> None:
    pod, container = agent(overlay("generic"))
    settings = configuration.load_settings(str(ROOT / "base/config.yaml"), None).agent.metrics
    (port,) = container["ports"]
    assert port["containerPort"] == settings.port
    for kind, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
        get = container[f"{kind}Probe"]["httpGet"]
        assert get == {"host": settings.bind, "port": port["name"], "path": path}
    assert pod["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_quota_names_the_priority_of_its_pods(name: str) -> None:
    objects = overlay(name)
    pod, _ = agent(objects)
    (daemonset,), (quota,) = of(objects, "DaemonSet"), of(objects, "ResourceQuota")
    assert quota["metadata"]["namespace"] == daemonset["metadata"]["namespace"]
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": [pod["priorityClassName"]]}


def test_every_component_is_in_an_overlay_or_in_the_readme() -> None:
    told = (ROOT / "README.md").read_text()
    assert not [path.name for path in (ROOT / "components").iterdir() if f"`components/{path.name}`" not in told]
    assert not [name for name in OVERLAYS if f"`overlays/{name}`" not in told]


def waiting(directory: Path, plugin: str) -> tuple[Object, Object]:
    """Upstream's DaemonSet, and what components/wait-ready makes of it."""
    (before,) = yaml.safe_load_all((UPSTREAM / plugin).read_text())
    work = directory / "work"
    work.mkdir()
    (directory / "plugin").mkdir()
    (directory / "plugin" / plugin).write_text((UPSTREAM / plugin).read_text())
    manifest = {"kind": "Kustomization", "resources": [plugin]}
    (directory / "plugin/kustomization.yaml").write_text(yaml.safe_dump(manifest))
    (after,) = combined(work, [directory / "plugin"], "wait-ready")
    return before, after


@pytest.mark.parametrize("plugin", ["nvidia-device-plugin.yaml", "sriovdp-daemonset.yaml"])
def test_a_plugin_of_nodes_without_that_profile_does_not_wait(plugin: str, tmp_path: Path) -> None:
    """On a GPU node without RoCE the gate never opens: it would advertise nothing for ever."""
    before, after = waiting(tmp_path, plugin)
    assert after == before


def test_the_shared_rdma_plugin_waits_and_is_else_as_upstream_ships_it(tmp_path: Path) -> None:
    before, after = waiting(tmp_path, "rdma-shared-dp-ds.yaml")
    pod = after["spec"]["template"]["spec"]
    (waits,) = pod.pop("initContainers")
    run = next(one for one in pod["volumes"] if one["name"] == "nodeprep-run")
    pod["volumes"].remove(run)
    assert after == before
    assert run["hostPath"]["path"] == waits["volumeMounts"][0]["mountPath"] == "/run/nodeprep"
    opened = tmp_path / "run/rdma-roce.device"
    assert str(opened) in refused(waits["args"], tmp_path / "run")


def refused(words: list[str], directory: Path) -> str:
    command = (sys.executable, "-m", "nodeprep", *words, "--timeout", "0", "--run-dir", str(directory))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, f"{shlex.join(command)}: {done.stderr}"
    return done.stderr


def test_the_rule_for_the_node_readiness_controller_reads_our_condition(tmp_path: Path) -> None:
    objects = combined(tmp_path, [ROOT / "base"], "node-readiness")
    (rule,) = of(objects, "NodeReadinessRule")
    assert rule["spec"]["conditions"] == [{"type": TRAINING_READY, "requiredStatus": "True"}]
