"""Volcano 1.10.0 beside the rig's API server: its scheduler and controllers, built from their Go module and kept."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.rigs import beside, cache, go_module
from tests.rigs.cluster import Cluster
from tests.rigs.go_module import Module
from tests.rigs.progress import say

Object = dict[str, Any]

MODULE = Module("volcano.sh/volcano", "v1.10.0", "h1:+GzQinGgeV0j58WpWpxByOXgF+YfUPW55zghM8GqjF0=")
SCHEDULER, CONTROLLERS = "vc-scheduler", "vc-controller-manager"  # the programs, and the names of their logs
PACKAGES = {SCHEDULER: "./cmd/scheduler", CONTROLLERS: "./cmd/controller-manager"}
# In the module, also those of its sub-chart jobflow: the controllers start nothing before they know every kind.
KINDS = ("config/crd/volcano/bases", "config/crd/jobflow/bases")
CONFIGURATION = "installer/helm/chart/volcano/config/volcano-scheduler.conf"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUE: Object = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "default"},
    "spec": {"weight": 1, "reclaimable": True},
}
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUICK = ("--kube-api-qps=500", "--kube-api-burst=1000")


class VolcanoCluster(Cluster):
    """An API server and vc-scheduler with the configuration of its chart, without controllers.

    Raises:
        CannotStart: as Cluster does, or Volcano cannot be fetched or built.
    """

    def start(self) -> None:
        super().start()
        install(self)
        start_scheduler(self, "100ms")


@contextmanager
def volcano(cluster: Cluster, period: str = "1s") -> Iterator[None]:
    """Scheduler and controllers, without admission webhooks, from when the queue `default` is Open.

    Args:
        cluster: any, also one with real nodes.
        period: of the scheduler, between two looks at what waits; 1 s is its own default.

    Raises:
        CannotStart: Volcano cannot be fetched or built.
        RuntimeError: one of its programs ended; with the end of its log.
        TimeoutError: the controllers do not open the queue; with the end of their log.
    """
    install(cluster)
    try:
        start_scheduler(cluster, period)
        program = str(built()[0] / CONTROLLERS)
        kubeconfig = cluster.kubeconfig(None, beside.SERVER)
        beside.start(cluster, CONTROLLERS, program, f"--kubeconfig={kubeconfig}", "--leader-elect=false", *QUICK)
        beside.serves(cluster, CONTROLLERS, lambda: is_open(cluster), "Volcano's queue default is Open")
        yield
    finally:
        for name in PACKAGES:
            beside.end(cluster, name)


def install(cluster: Cluster) -> None:
    """Its kinds, its namespace, and the queue that it makes itself a moment later."""
    module = built()[1]
    made = [yaml.safe_load(file.read_text()) for where in KINDS for file in sorted((module / where).glob("*.yaml"))]
    for one in made:
        cluster.create(DEFINITIONS, one)
    for one in made:
        spec = one["spec"]
        cluster.wait_for(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
    cluster.namespace("volcano-system")
    cluster.create(QUEUES, QUEUE)


def start_scheduler(cluster: Cluster, period: str) -> None:
    programs, module = built()
    flags = (
        f"--kubeconfig={cluster.kubeconfig(None, beside.SERVER)}",
        f"--scheduler-conf={module / CONFIGURATION}",
        "--leader-elect=false",
        f"--schedule-period={period}",
        "--cache-dumper=false",
        *QUICK,
    )
    beside.start(cluster, SCHEDULER, str(programs / SCHEDULER), *flags)


def is_open(cluster: Cluster) -> bool:
    told = cluster.call("GET", f"{QUEUES}/{QUEUE['metadata']['name']}")[1]
    return bool(told.get("status", {}).get("state") == "Open")


def built() -> tuple[Path, Path]:
    """The directory of the programs, and the unpacked module with configuration and CRDs. Raises CannotStart."""
    go = go_module.compiler()
    module = MODULE.fetched(go)
    with cache.locked("volcano") as directory:
        made_from = MODULE.made_from(go, inspect.getsource(_build))
        return cache.built(directory, "volcano", made_from, partial(_build, go)), module


def _build(go: str, target: Path) -> None:
    say(f"volcano: building {MODULE}, two minutes on 2 idle cores, once")
    target.mkdir()
    for name, package in PACKAGES.items():
        MODULE.build(go, package, target / name)
