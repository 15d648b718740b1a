"""Volcano's own scheduler (vc-scheduler 1.10.0) beside the rig's API server, built from its Go module and kept."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import yaml

from tests.rigs import cache, cluster_build, cluster_setup
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.progress import say

MODULE = "volcano.sh/volcano@v1.10.0"
KINDS = ("scheduling.volcano.sh_podgroups", "scheduling.volcano.sh_queues", "nodeinfo.volcano.sh_numatopologies")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "default"},
    "spec": {"weight": 1, "reclaimable": True},
}
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


class VolcanoCluster(Cluster):
    """An API server and vc-scheduler with the configuration of its chart, without controllers.

    Raises:
        CannotStart: as Cluster does, or Volcano cannot be fetched or built.
    """

    def start(self) -> None:
        super().start()
        scheduler, module = built()
        for kind in KINDS:
            text = (module / f"config/crd/volcano/bases/{kind}.yaml").read_text()
            self.create(DEFINITIONS, yaml.safe_load(text))
        self.wait_for(QUEUES)
        self.wait_for("/apis/scheduling.volcano.sh/v1beta1/podgroups")
        self.wait_for("/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies")
        self.namespace("volcano-system")
        self.create(QUEUES, QUEUE)
        server = {"server": f"https://127.0.0.1:{cluster_setup.SERVER_PORT}"}
        configuration = module / "installer/helm/chart/volcano/config/volcano-scheduler.conf"
        flags = (
            f"--kubeconfig={self.kubeconfig(None, server)}",
            f"--scheduler-conf={configuration}",
            "--leader-elect=false",
            "--schedule-period=100ms",
            "--cache-dumper=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
        with (self.directory / "vc-scheduler.log").open("ab") as log:
            # In the network namespace of the rig: it listens at all addresses.
            command = self.inside("setpriv", "--pdeathsig", "KILL", str(scheduler), *flags)
            self.processes["vc-scheduler"] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def built() -> tuple[Path, Path]:
    """The program, and its unpacked module with configuration and CRDs. Raises CannotStart."""
    with cache.locked("controlplane") as directory:
        go = cluster_build.compiler(directory)
    done = subprocess.run(
        (go, "mod", "download", "-json", MODULE), capture_output=True, text=True, check=False, cwd="/"
    )
    if done.returncode:
        raise CannotStart(f"volcano: {MODULE}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    module = Path(json.loads(done.stdout)["Dir"])
    with cache.locked("vc-scheduler") as directory:
        made_from = f"{MODULE} {cluster_build.version(go)}".encode()
        return cache.built(directory, "vc-scheduler", made_from, partial(_build, go, module)), module


def _build(go: str, module: Path, target: Path) -> None:
    say(f"volcano: building {MODULE}, two minutes on 2 idle cores, once")
    command = (go, "build", "-C", str(module), "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(target))
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run((*command, "./cmd/scheduler"), capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise CannotStart(f"volcano: go build failed: {done.stderr.strip().splitlines()[-1]}")
