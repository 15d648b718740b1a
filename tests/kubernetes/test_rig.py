"""The rig itself: real nodes side by side that run pods, die, reboot, and leave nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from daemonset.image import oci
from tests.rigs import cluster as rig
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE, tools
from tests.rigs.ending import ending
from tests.rigs.waiting import until

PROGRAM = (sys.executable, str(Path(rig.__file__)))
RUN = (*PROGRAM, "run", "--nodes", "1", "--")
PORT = 9842
BOOTSTRAP = "nodeprep.io/bootstrap"
# What the kubelet and containerd would leave on the machine, or set there.
PLACES = [Path(name) for name in ("/var/lib/kubelet", "/etc/kubernetes", "/etc/cni", "/opt/cni", "/run/containerd")]
SETTINGS = (
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/random/boot_id",
    "net/ipv4/ip_forward",
)


def container(command: str, image: str = BASE) -> dict[str, Any]:
    return {"name": "main", "image": image, "imagePullPolicy": "Never", "command": ["sh", "-c", command]}


def daemon_set(name: str, **pod: Any) -> str:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, **pod}}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
    )


def pods(cluster: Cluster, app: str) -> Mapping[str, dict[str, Any]]:
    """Those of a DaemonSet by their node, once they have one."""
    _, found = cluster.call("GET", f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")
    return {pod["spec"]["nodeName"]: pod for pod in found["items"] if "nodeName" in pod["spec"]}


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> str:
    """The name of a DaemonSet in the host's network that serves its node's boot id at one port of each node."""
    served = container(f"cp /host/sys/kernel/random/boot_id /srv; echo up; exec httpd -f -p {PORT} -h /srv")
    served["volumeMounts"] = [
        {"name": "proc", "mountPath": "/host", "readOnly": True},
        {"name": "srv", "mountPath": "/srv"},
    ]
    volumes = [{"name": "proc", "hostPath": {"path": "/proc"}}, {"name": "srv", "emptyDir": {}}]
    cluster.apply(daemon_set("server", containers=[served], hostNetwork=True, volumes=volumes))
    cluster.kubectl("rollout", "status", "daemonset/server", "--timeout=240s")
    return "server"


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return cluster.nodes["n1"]


def test_nodes_are_ready_and_apart(cluster: Cluster) -> None:
    status = [node.object()["status"] for node in cluster.nodes.values()]
    assert [one["addresses"][0]["address"] for one in status] == ["198.51.100.1", "198.51.100.2"]
    assert {one["nodeInfo"]["bootID"] for one in status} == {node.boot_id for node in cluster.nodes.values()}
    assert all(one["nodeInfo"]["kubeletVersion"].startswith("v1.36.") for one in status)
    for node in cluster.nodes.values():
        assert node.run("cat", "/proc/sys/kernel/random/boot_id").strip() == node.boot_id
        assert {"eth0", "lo"} <= set(node.run("ls", "/sys/class/net").split())
        assert node.run("ip", "-o", "-4", "address", "show", "eth0").split()[3] == f"{node.address}/32"


def test_a_daemon_set_serves_one_port_on_every_node(cluster: Cluster, server: str) -> None:
    assert set(pods(cluster, server)) == set(cluster.nodes)
    for node in cluster.nodes.values():
        name = pods(cluster, server)[node.name]["metadata"]["name"]
        assert cluster.kubectl("logs", name) == "up\n"
        for asked in cluster.nodes.values():
            url = f"http://{asked.address}:{PORT}/boot_id"
            assert cluster.kubectl("exec", name, "--", "wget", "-qO-", url).strip() == asked.boot_id


def test_a_pod_finds_the_api_server_by_what_the_kubelet_tells_it(cluster: Cluster) -> None:
    """kubectl in a pod has the account's token and the variables of the Service `kubernetes`, and nothing else."""
    who = "system:serviceaccount:default:default"
    cluster.kubectl("create", "clusterrolebinding", "looker", "--clusterrole=view", "--user", who)
    program = {"name": "kubectl", "hostPath": {"path": str(cluster.program), "type": "File"}}
    for name, network in (("host", True), ("own", False)):
        own = container("kubectl get pods -o name; exec sleep 100000")
        own["volumeMounts"] = [{"name": "kubectl", "mountPath": "/bin/kubectl", "readOnly": True}]
        cluster.apply(daemon_set(name, containers=[own], hostNetwork=network, volumes=[program]))
        cluster.kubectl("rollout", "status", f"daemonset/{name}", "--timeout=240s")
        for pod in (f"pod/{one['metadata']['name']}" for one in pods(cluster, name).values()):
            until(lambda pod=pod: f"{pod}\n" in cluster.kubectl("logs", pod), f"{pod} is told of itself", 30)  # type: ignore[misc]


def test_a_taint_and_a_label_from_the_first_moment(cluster: Cluster, server: str) -> None:
    added = cluster.add_node("n3", [f"{BOOTSTRAP}=new:NoSchedule"], {"example.test/rack": "r1"})
    taints = [one for one in added.object()["spec"]["taints"] if one["key"] == BOOTSTRAP]
    assert taints == [{"key": BOOTSTRAP, "value": "new", "effect": "NoSchedule"}]
    assert added.object()["metadata"]["labels"]["example.test/rack"] == "r1"
    assert "n3" not in pods(cluster, server)
    cluster.kubectl("taint", "node", "n3", f"{BOOTSTRAP}-")
    until(lambda: "n3" in pods(cluster, server), "a pod on n3 once it is free")


def test_an_image_of_ours_runs(cluster: Cluster, node: Node, tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    (layer / "said").write_text("from a layer\n")
    base = tmp_path / "base"
    (base / "bin").mkdir(parents=True)
    busybox = base / "bin/busybox"
    busybox.write_bytes((tools() / "base/bin/busybox").read_bytes())
    busybox.chmod(0o755)
    oci.write([base, layer], tmp_path / "i.tar", name="nodeprep.test/own:dev", entrypoint=["/bin/busybox", "cat"])
    node.import_image(tmp_path / "i.tar")
    own = {"name": "main", "image": "nodeprep.test/own:dev", "imagePullPolicy": "Never", "args": ["/said"]}
    spec = {"nodeName": node.name, "restartPolicy": "Never", "containers": [own]}
    cluster.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "own"}, "spec": spec})
    cluster.kubectl("wait", "pod/own", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=240s")
    assert cluster.kubectl("logs", "own") == "from a layer\n"


def hasty(program: Path, directory: Path) -> Path:
    """Kubernetes whose kubelet is too early once: containerd answers `ctr` and not yet a kubelet."""
    tried, path = directory / "tried", directory / "hasty"
    early = 'command failed" err="failed to run Kubelet: rpc error: desc = server is not initialized yet"'
    path.write_text(
        f"#!/bin/sh\n[ \"$1\" != kubelet ] || [ -e {tried} ] || {{ touch {tried}; echo '{early}'; exit 1; }}\n"
        f'exec {program} "$@"\n'
    )
    path.chmod(0o755)
    return path


def test_a_reboot(cluster: Cluster, server: str, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, uid = node.boot_id, node.object()["metadata"]["uid"]
    for directory in ("/run/nodeprep", "/var/lib/nodeprep"):
        (node.path(directory) / "kept").touch()
        assert node.run("ls", directory) == "kept\n"
    monkeypatch.setattr(cluster, "program", hasty(cluster.program, tmp_path))
    node.reboot()
    node.wait_ready()
    assert (tmp_path / "tried").exists()
    assert node.boot_id != before
    assert node.object()["metadata"]["uid"] == uid
    assert node.run("ls", "/run/nodeprep", "/var/lib/nodeprep").split() == [
        "/run/nodeprep:",
        "/var/lib/nodeprep:",
        "kept",
    ]

    def restarted() -> bool:
        (status,) = pods(cluster, server)[node.name]["status"]["containerStatuses"]
        return bool(status["restartCount"] == 1 and status["ready"])

    until(restarted, "the pod runs again")
    name = pods(cluster, server)[node.name]["metadata"]["name"]
    # It is running before it has written its file.
    until(lambda: cluster.kubectl("exec", name, "--", "cat", "/srv/boot_id").strip() == node.boot_id, "its new boot id")


def test_a_node_that_dies(cluster: Cluster, server: str) -> None:
    node = cluster.nodes["n2"]
    url = f"http://{node.address}:{PORT}/boot_id"
    name = pods(cluster, server)["n1"]["metadata"]["name"]
    inside, ask = ("exec", name, "--"), ("wget", "-qO-", url)
    assert cluster.kubectl(*inside, *ask).strip() == node.boot_id
    node.kill()
    with pytest.raises(RuntimeError, match="exec"):
        cluster.kubectl(*inside, "timeout", "2", *ask)
    assert node.object()["metadata"]["name"] == "n2"
    node.start()
    node.wait_ready()


def test_an_api_server_that_dies(cluster: Cluster, server: str, node: Node) -> None:
    dead = cluster.processes["kube-apiserver"]
    dead.kill()
    dead.wait()
    with pytest.raises(OSError, match=r"."):
        cluster.call("GET", "/readyz")
    cluster.start_server()
    assert set(pods(cluster, server)) >= {"n1", "n2"}
    node.wait_ready()


def test_a_proxy_may_stand_before_the_api_server(cluster: Cluster, node: Node) -> None:
    listen = (
        "import socket; one = socket.socket(); one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
        "one.bind(('10.96.0.1', 443)); one.listen(); print('up', flush=True);"
        "[one.accept()[0].sendall(b'proxy') for _ in iter(int, 1)]"
    )
    argv = cluster.inside(sys.executable, "-c", listen)
    ask = ("python3", "-c", "import socket; print(socket.create_connection(('10.96.0.1', 443), 5).recv(5))")
    with ending(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) as proxy:
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == "up\n"
        assert node.run(*ask) == "b'proxy'\n"
        assert cluster.call("GET", "/api/v1/nodes/n1")[0] == 200  # ours comes by another address
        proxy.kill()
    until(
        lambda: node.run("sh", "-c", "timeout 2 bash -c '</dev/tcp/10.96.0.1/443' && echo reached", check=False), "it"
    )


def left(directory: str) -> list[str]:
    """What is still there of a rig: processes, mounts, cgroups and files that name its directory."""
    name = Path(directory).name
    found = [str(path) for path in Path("/sys/fs/cgroup").glob(f"{name}*")]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{name}*")]
    found += [directory] if Path(directory).exists() else []
    for path in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "mountinfo"):
            try:
                if directory.encode() in (path / file).read_bytes():
                    found.append(f"{path / file}")
            except OSError:  # it ended meanwhile
                continue
    return found


def does(error: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        (lambda: 7, 7, ""),
        (does(rig.CannotStart("cluster: not installed: ip")), 2, "cluster: not installed: ip\n"),
        (does(RuntimeError("etcd ended:\nno space")), 2, "etcd ended:\nno space\n"),
        (does(TimeoutError("not within 120 s: it")), 2, "not within 120 s: it\n"),
        (does(LookupError("the guest is gone")), 2, "the guest is gone\n"),
        (does(KeyboardInterrupt()), 130, ""),
    ],
)
def test_an_end(work: Callable[[], int], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rig.ended(work, LookupError) == code
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["sh", "-c", "exit 7"], 7, ""),
        (["sh", "-c", "kill $$"], 143, ""),
        (["kubctl", "get", "nodes"], 2, "COMMAND: found 'kubctl' (No such file or directory), wanted a program\n"),
        (["/tmp"], 2, "COMMAND: found '/tmp' (Permission denied), wanted a program\n"),
    ],
)
def test_a_command(cluster: Cluster, argv: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rig.outcome(argv, cluster) == code
    assert capsys.readouterr().err == said


@pytest.mark.usefixtures("cluster")  # so that it can start at all
def test_ctrl_c_is_no_failure() -> None:
    # Where the signal comes before our program has seen its command start, that lives on with our ends of the pipes.
    command = (*PROGRAM, "run", "--", "sh", "-c", 'echo "$KUBECONFIG"; exec sleep 20')
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as ours:
        assert ours.stdout is not None
        directory = str(Path(ours.stdout.readline().strip()).parent)
        ours.send_signal(signal.SIGINT)
        assert ours.communicate(timeout=60) == ("", "")
    assert ours.returncode == 130
    assert left(directory) == []


def machine() -> tuple[list[Path], list[str]]:
    return [path for path in PLACES if path.exists()], [Path("/proc/sys", key).read_text() for key in SETTINGS]


@pytest.mark.usefixtures("cluster")  # so that it can start at all
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_nothing_is_left_behind(end: signal.Signals) -> None:
    before = machine()
    script = 'kubectl apply -f - >&2 && kubectl rollout status daemonset/any >&2 && echo "$KUBECONFIG" && sleep 60'
    with ending(
        subprocess.Popen(
            (*RUN, "sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
    ) as ours:
        assert ours.stdin is not None
        assert ours.stdout is not None
        ours.stdin.write(daemon_set("any", containers=[container("exec sleep 100000")]))
        ours.stdin.close()
        directory = str(Path(ours.stdout.readline().strip()).parent)
        try:
            assert len(left(directory)) > 10
        finally:
            ours.send_signal(end)
    until(lambda: not left(directory), f"nothing of {directory}, but there is {left(directory)}")
    assert machine() == before
