"""The rig's cluster as one of the systems of docs/jobs.md wants it: operator, devices and the shipped agent.

    python tests/systems/stage.py mpijob|pytorchjob|tfjob -- COMMAND

COMMAND, by default a shell, finds KUBECONFIG, kubectl, nodeprep, `node-enter NODE [COMMAND]`, and the system's manifest
as $JOB, fitted to the rig (tests/systems/manifests.py). Its exit code is ours, and nothing is left behind. The fourth
system, a pod with an RDMA device, has a rig of its own: tests/rigs/guest.py.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import yaml

from daemonset.image.debian import CannotBuild
from tests.kubernetes import shipped
from tests.kubernetes.shipped import LOOKS, QUICK, configuration, is_ready, overlay
from tests.rigs import images
from tests.rigs.cluster import Cluster, ended, outcome
from tests.rigs.cluster_control import Control
from tests.rigs.cluster_tools import BASE
from tests.rigs.device_plugin import DevicePlugin
from tests.rigs.operators import mpi_operator, training_operator
from tests.rigs.progress import say
from tests.rigs.terway_node import Instance
from tests.rigs.volcano import volcano
from tests.rigs.waiting import until
from tests.systems import gangs, manifests, terway_cluster
from tests.systems.gangs import ACCOUNT, NAMESPACE, Object
from tests.systems.own_gang import GatedCluster
from tests.systems.terway_cluster import Fleet

MPIJOB, PYTORCHJOB = "mpijob-exclusive-eni", "tcp-shared-eni"  # profiles
CRDS = Path(__file__).resolve().parents[1] / "daemonset/monitoring_crds"
MONITORING = ("podmonitors", "prometheusrules")
RESIDENT = "resident"  # a pod on a shared ENI, so that its node has policy rules to lose
# The operator's own waits until the master's name resolves, and pods of the rig have no DNS.
INIT = f"""- name: init-pytorch
  image: {BASE}
  imagePullPolicy: Never
  command: [sh, -c, "echo the master is {{{{.MasterAddr}}}}"]
"""
PERIOD = 1  # seconds between two looks of Volcano's scheduler
TFJOBS = "--enable-scheme=tfjob"
UNTIL_ENOUGH = "until test -e /tmp/enough; do sleep 0.2; done"
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "mpijob": {"Launcher": f"cat /etc/mpi/hostfile; {UNTIL_ENOUGH}", "Worker": "exec sleep 2147483647"},
    "pytorchjob": {
        "": 'echo "rank $RANK of $WORLD_SIZE by $NCCL_SOCKET_IFNAME:'
        f' $(cat /sys/class/net/$NCCL_SOCKET_IFNAME/operstate)"; {UNTIL_ENOUGH}'
    },
}


def fitted(system: str) -> Object:
    """The manifest docs/jobs/SYSTEM.yaml for the rig. Its pods end once there is /tmp/enough."""
    return manifests.fitted(manifests.shipped(system), COMMANDS[system])


@contextmanager
def mpijob(directory: Path) -> Iterator[Fleet]:
    """Three nodes with exclusive ENIs that registered, n3 lost a hot-plug; mpi-operator, and `agent` to be applied.

    Raises:
        CannotStart, CannotBuild: a rig cannot be had here.
    """
    instances = {f"n{number}": Instance(number, exclusive=True, lost=int(number == 3)) for number in (1, 2, 3)}
    with _terway(instances, {"aliyun/eni": 2, "nvidia.com/gpu": 8}) as fleet, mpi_operator(fleet.cluster):
        terway_cluster.manifests(directory / "agent", MPIJOB)
        yield fleet


@contextmanager
def pytorchjob(directory: Path) -> Iterator[Fleet]:
    """Three nodes with shared ENIs and two GPUs each, ready; training-operator; a pod on n3. Raises as `mpijob`."""
    instances = {f"n{number}": Instance(number) for number in (1, 2, 3)}
    flags = ("--enable-scheme=pytorchjob", "--pytorch-init-container-template-file=/tmp/init.yaml")
    with (
        _terway(instances, {"nvidia.com/gpu": 2}) as fleet,
        training_operator(fleet.cluster, *flags, files={"init.yaml": INIT}),
    ):
        cluster = fleet.cluster
        for file in sorted(CRDS.glob("*.yaml")):
            cluster.kubectl("apply", "--server-side", "-f", str(file))
        for plural in MONITORING:
            cluster.wait_for(f"/apis/monitoring.coreos.com/v1/{plural}")
        cluster.apply(terway_cluster.manifests(directory / "agent", PYTORCHJOB, "prometheus"))
        shipped.rolled_out(cluster)
        terway_cluster.ready(fleet, PYTORCHJOB, *instances)
        container = {"name": "main", "image": BASE, "imagePullPolicy": "Never"}
        spec = {"nodeName": "n3", "containers": [container], "terminationGracePeriodSeconds": 0}
        cluster.create("/api/v1/namespaces/default/pods", {"metadata": {"name": RESIDENT}, "spec": spec})
        # Its rules come with its address, and whoever types by the page looks for them at once.
        cluster.kubectl("wait", "--for=condition=Ready", f"pod/{RESIDENT}", f"--timeout={terway_cluster.LONG:g}s")
        yield fleet


@contextmanager
def _terway(instances: Mapping[str, Instance], resources: Mapping[str, int]) -> Iterator[Fleet]:
    """Nodes of Terway that have nodeprep's image, and so many devices of each resource."""
    archive = images.archive("good")
    with ExitStack() as stack:
        fleet = stack.enter_context(terway_cluster.fleet(instances))
        shipped.load(fleet.cluster, archive)
        for terway in fleet.nodes.values():
            for resource, count in resources.items():
                stack.enter_context(DevicePlugin(terway.node, resource, count))
        yield fleet


@contextmanager
def tfjob(directory: Path) -> Iterator[tuple[GatedCluster, ExitStack]]:
    """Two nodes that are ready, and the programs that place a TFJob's gang: Volcano, and training-operator.

    They end with the stack, or before, by its `close`. Raises as `mpijob`.
    """
    archive = images.archive("good")
    with GatedCluster(nodes=2) as cluster, ExitStack() as programs:
        shipped.load(cluster, archive)
        cluster.apply(overlay(directory / "agent", {"config.yaml": configuration(LOOKS, QUICK)}))
        cluster.namespace(NAMESPACE)
        cluster.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
        programs.enter_context(volcano(cluster, f"{PERIOD}s"))
        programs.enter_context(training_operator(cluster, TFJOBS, "--gang-scheduler-name=volcano"))
        shipped.rolled_out(cluster)
        until(lambda: all(map(is_ready, cluster.nodes.values())), "TrainingReady of all Nodes")
        yield cluster, programs


@contextmanager
def ready(system: str, directory: Path) -> Iterator[tuple[Cluster, Object]]:
    """The cluster of a system, its agents installed, and its manifest."""
    with ExitStack() as stack:
        if system == "tfjob":
            cluster, _ = stack.enter_context(tfjob(directory))
            yield cluster, gangs.tfjob(cluster, "dist-mnist")
            return
        made: Callable[[Path], AbstractContextManager[Fleet]] = {"mpijob": mpijob, "pytorchjob": pytorchjob}[system]
        fleet = stack.enter_context(made(directory))
        if system == "mpijob":
            fleet.cluster.apply(directory / "agent")
            terway_cluster.ready(fleet, MPIJOB, "n1", "n2")
        yield fleet.cluster, fitted(system)


def run(system: str, command: Sequence[str]) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="nodeprep-stage-") as place,
        ready(system, Path(place)) as (cluster, manifest),
        Control(cluster.directory, cluster.nodes),
    ):
        job = Path(place, "job.yaml")
        job.write_text(yaml.safe_dump(manifest, sort_keys=False))
        os.environ["JOB"] = str(job)
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        say(f"stage: {system} is ready on {', '.join(cluster.nodes)}; its manifest is $JOB")
        return outcome(command, cluster)


def main() -> int:
    parser = argparse.ArgumentParser(prog="stage.py", description="A system of docs/jobs.md on the rig's cluster.")
    parser.add_argument("system", choices=("mpijob", "pytorchjob", "tfjob"))
    parser.add_argument("command", nargs="*", default=["bash"], metavar="COMMAND")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return ended(lambda: run(arguments.system, arguments.command), CannotBuild)


if __name__ == "__main__":
    sys.exit(main())
