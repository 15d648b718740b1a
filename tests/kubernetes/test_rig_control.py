"""What COMMAND of `cluster.py run` can do with nodes: run images on them, enter and reboot them, lock their memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daemonset.image import oci
from tests.rigs import cluster as rig
from tests.rigs.cluster import Cluster
from tests.rigs.cluster_control import Control
from tests.rigs.cluster_tools import BASE, tools

REPOSITORY = Path(rig.__file__).resolve().parents[2]
PROGRAM = (sys.executable, str(Path(rig.__file__)), "run")
OWN = "nodeprep.test/own:dev"
LOCKED = "locked memory stays limited to"


@pytest.fixture(scope="module")
def controlled(cluster: Cluster) -> Iterator[Cluster]:
    with Control(cluster.directory, cluster.nodes):
        yield cluster


@pytest.fixture
def ran(controlled: Cluster) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program of the rig as COMMAND would."""
    environment = {**os.environ, **controlled.environment()}

    def run(*argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, env=environment, input=text, capture_output=True, text=True, check=False)

    return run


def test_a_node_is_entered(controlled: Cluster, ran: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    for name, node in controlled.nodes.items():
        assert ran("node-enter", name, "cat", "/proc/sys/kernel/random/boot_id").stdout.strip() == node.boot_id
        assert ran("node-enter", name, "--", "hostname", "-I").stdout.split()[0] == node.address
    assert ran("node-enter", "n1", "sh", "-c", "exit 7").returncode == 7
    assert ran("node-enter", "n1", text="cat /proc/sys/kernel/random/boot_id; exit 3\n").returncode == 3
    assert BASE in ran("node-enter", "n1", "ctr", "-n", "k8s.io", "images", "ls", "-q").stdout.split()
    assert ran("node-enter", "n1", "kubectl", "get", "node", "n1", "-o", "name").stdout == "node/n1\n"


def test_a_node_is_rebooted(controlled: Cluster, ran: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    node = controlled.nodes["n2"]
    before, uid = node.boot_id, node.object()["metadata"]["uid"]
    (node.path("/run/nodeprep") / "gone").touch()
    done = ran("node-reboot", "n2")
    assert (done.returncode, done.stderr) == (0, "node-reboot: n2 boots\n")
    assert done.stdout.startswith("n2 is Ready after ")
    assert done.stdout.endswith(f" s; its boot was {before} and is {node.boot_id}\n")
    assert before != node.boot_id == node.object()["status"]["nodeInfo"]["bootID"]
    assert node.object()["metadata"]["uid"] == uid
    assert ran("node-enter", "n2", "ls", "/run/nodeprep").stdout == ""


WRONG = [
    # words                                    what is said
    (["node-enter"], "node-enter: found nothing, wanted: node-enter NODE [COMMAND...]"),
    (["node-enter", "--help"], "node-enter: found --help, wanted: node-enter NODE [COMMAND...]"),
    (["node-enter", "n9", "ls"], "node-enter: NODE: found 'n9', wanted one of those that there are: n1, n2"),
    (["node-reboot", "n9"], "node-reboot: NODE: found 'n9', wanted one of those that there are: n1, n2"),
    (["node-reboot", "n1", "now"], "node-reboot: found n1 now, wanted: node-reboot NODE"),
]


@pytest.mark.parametrize(("argv", "said"), WRONG, ids=[" ".join(argv) for argv, _ in WRONG])
def test_wrong_words(ran: Callable[..., subprocess.CompletedProcess[str]], argv: Sequence[str], said: str) -> None:
    done = ran(*argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == said


def test_a_node_that_is_dead_is_not_entered(
    controlled: Cluster, ran: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    node = controlled.nodes["n2"]
    node.kill()
    done = ran("node-enter", "n2", "ls")
    assert (done.returncode, done.stderr) == (2, "node-enter: n2 does not run\n")
    assert ran("node-reboot", "n2").returncode == 0, "which is how it comes back"


def test_a_rig_that_is_gone(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    with Control(tmp_path, cluster.nodes):
        pass
    done = subprocess.run((tmp_path / "bin/node-enter", "n1", "ls"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "node-enter: the rig ends\n")
    (tmp_path / "control.sock").unlink()
    done = subprocess.run((tmp_path / "bin/node-enter", "n1", "ls"), capture_output=True, text=True, check=False)
    assert done.stderr == f"node-enter: no rig answers at {tmp_path} (No such file or directory)\n"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two images of one program."""
    directory = tmp_path_factory.mktemp("archives")
    (directory / "layer/bin").mkdir(parents=True)
    busybox = directory / "layer/bin/busybox"
    busybox.write_bytes((tools() / "base/bin/busybox").read_bytes())
    busybox.chmod(0o755)
    made = directory / "own.tar", directory / "other.tar"
    for archive, name in zip(made, (OWN, "nodeprep.test/other:dev"), strict=True):
        oci.write([directory / "layer"], archive, name=name, entrypoint=["/bin/busybox", "echo", name])
    return made


@pytest.mark.usefixtures("cluster")  # so that it can start at all
def test_images_are_there_before_the_command(archives: tuple[Path, Path]) -> None:
    """As an operator calls it: a pod of an image of his own, with the programs on PATH."""
    own, other = archives
    script = (
        f"set -e; kubectl run own --image={OWN} --restart=Never --image-pull-policy=Never >&2;"
        "kubectl wait pod/own --for=jsonpath={.status.phase}=Succeeded --timeout=240s >&2; kubectl logs own;"
        "node-reboot n1; node-enter n1 ctr -n k8s.io images ls -q"
    )
    command = (*PROGRAM, "--nodes", "1", "--image", str(own), "--image", str(other), "--", "sh", "-c", script)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said, rebooted, *images = done.stdout.splitlines()
    assert said == OWN
    assert rebooted.startswith("n1 is Ready after ")
    assert {OWN, "nodeprep.test/other:dev", BASE} <= set(images), "a reboot keeps the disk"
    assert f"cluster: n1: {OWN} of {own}" in done.stderr.splitlines()


def test_an_image_that_no_node_could_take(archives: tuple[Path, Path], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no image\n")
    wanted = "wanted an OCI archive (make image writes one)"
    for words, said in (
        (["--image", str(archives[0])], "--image: found no node that could run it, wanted --nodes 1 or more"),
        (["--nodes", "1", "--image", "/none.tar"], f"--image: found no file /none.tar, {wanted}"),
        (["--nodes", "1", "--image", str(text)], f"--image: found {text}, which is not a tar, {wanted}"),
    ):
        done = subprocess.run((*PROGRAM, *words, "--", "true"), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{said}\n")


def test_a_tar_that_is_no_image(cluster: Cluster, tmp_path: Path) -> None:
    archive = tmp_path / "other.tar"
    subprocess.run(("tar", "-cf", archive, "-C", "/etc", "hostname"), check=True)
    with pytest.raises(RuntimeError, match=rf"^{archive} was not imported into n1: ctr: .+$"):
        cluster.nodes["n1"].import_image(archive)


@contextmanager
def little_memory_to_lock() -> Iterator[None]:
    """As on a machine whose shells may lock 64 KiB, and no more of it than they ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


def memlock(node: rig.Node, config: Path) -> dict[str, Any]:
    """What limits.memlock says on a node where jobs want RDMA."""
    check = ("nodeprep", "check", "--only", "limits.memlock", "--profile", "rdma-roce", "--config", str(config))
    found = json.loads(node.run(sys.executable, "-m", *check, "-o", "json", check=False))
    (finding,) = (one for one in found["findings"] if one["check"] == "limits.memlock")
    assert finding["subject"]["name"] == "containerd"
    return dict(finding)


def test_containers_may_lock_as_much_as_this_machine_lets_them(cluster: Cluster, tmp_path: Path) -> None:
    """All that there is, as on a real node; where this machine refuses that, the rig says so and the check as well."""
    with little_memory_to_lock():
        node = cluster.add_node("n3")
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: nodeprep.io/v1\nkind: Config\n")
    finding = memlock(node, config)
    if subprocess.run(("prlimit", "--memlock=unlimited", "true"), capture_output=True, check=False).returncode == 0:
        assert (finding["status"], finding["reason"]) == ("ok", "Unlimited")
        assert node.limits() == []
        return
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    assert finding["observed"] == str(hard)
    assert node.limits() == [f"{LOCKED} {hard >> 10} KiB, for this machine gives us no CAP_SYS_RESOURCE"]
    config.write_text(
        f"apiVersion: nodeprep.io/v1\nkind: Config\nwant: {{limits.memlock: {{fail-below: {hard}}}}}\n"
    )  # as CONTRIBUTING.md says
    assert (memlock(node, config)["status"], finding["status"]) == ("warn", "fail")
