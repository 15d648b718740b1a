"""Kubeflow's operators beside the rig's API server: training-operator 1.8.1 and mpi-operator 0.6.0.

    python tests/rigs/operators.py build      builds both, else the first use does, and prints where they are

Each is built from its Go module and has the rights of its own manifests. It runs as a program instead of a pod. One
cluster takes only one of the two: `mpijobs.kubeflow.org` is v1 for one and v2beta1 for the other.
"""

from __future__ import annotations

import argparse
import base64
import inspect
import json
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import yaml

from tests.rigs import beside, cache, cluster_build, go_module
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.go_module import Module
from tests.rigs.progress import say

Object = dict[str, Any]
NO_FILES: Mapping[str, str] = {}

TRAINING, MPI = "training-operator", "mpi-operator"  # the programs, their service accounts and the names of their logs
KUBEFLOW = "kubeflow"  # training-operator's namespace; that of mpi-operator has its own name
MODULES = {
    TRAINING: Module(
        "github.com/kubeflow/training-operator", "v1.8.1", "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc="
    ),
    MPI: Module("github.com/kubeflow/mpi-operator", "v0.6.0", "h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys="),
}
PACKAGES = {TRAINING: "./cmd/training-operator.v1", MPI: "./cmd/mpi-operator"}
STANDALONE = "manifests/overlays/standalone"  # in both modules
WEBHOOK_PORT = 9443  # training-operator's own default
SECRET = f"/api/v1/namespaces/{KUBEFLOW}/secrets/training-operator-webhook-cert"
CERTIFICATES = "k8s-webhook-server/serving-certs"  # below /tmp: a constant of training-operator
# For a directory and a program: the first becomes /tmp, and the program, which may lie in the real one, is in it.
OWN_TMP = 'mount --bind "$2" "$1/program"; mount --rbind "$1" /tmp; shift 2; exec /tmp/program "$@"'
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{MPI}/leases/{MPI}"


@contextmanager
def training_operator(
    cluster: Cluster, *flags: str, leave_out: Collection[str] = (), files: Mapping[str, str] = NO_FILES
) -> Iterator[None]:
    """The operator of TFJob, PyTorchJob, MPIJob v1 and others, from when its webhooks answer for each enabled kind.

    Args:
        cluster: it needs no controllers.
        flags: more of the operator's, such as "--enable-scheme=tfjob" or "--gang-scheduler-name=volcano".
        leave_out: names of objects in its manifests that are not to be made, such as a kind's definition.
        files: what else is in its /tmp, by name.

    Raises:
        CannotStart: it cannot be fetched or built.
        RuntimeError: it ended; with the end of its log.
        TimeoutError: it does not get ready; with the end of its log.
    """
    made = built(TRAINING)
    kept = [one for one in manifests(made) if one["metadata"]["name"] not in leave_out]
    install(cluster, kept)
    tmp = own_tmp(cluster)
    for name, text in files.items():
        (tmp / name).write_text(text)
    apart = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", OWN_TMP, "sh")
    program = (str(tmp), str(made / TRAINING), "--kubeconfig=/tmp/kubeconfig")
    with _running(cluster, TRAINING, *apart, *program, *flags):
        mount_certificate(cluster, tmp / CERTIFICATES)
        asked = list(_asked(kept, flags))
        beside.serves(cluster, TRAINING, lambda: all(answers(cluster, *one) for one in asked), "webhooks of all kinds")
        yield


@contextmanager
def mpi_operator(cluster: Cluster, *flags: str) -> Iterator[None]:
    """The operator of MPIJob v2beta1, from when it leads; `flags` are more of its own.

    Raises:
        CannotStart: it cannot be fetched or built.
        RuntimeError: it ended; with the end of its log.
        TimeoutError: it does not get ready; with the end of its log.
    """
    made = built(MPI)
    install(cluster, manifests(made))
    cluster.wait_for("/apis/kubeflow.org/v2beta1/mpijobs")
    cluster.call("DELETE", LEASE)  # one that was killed holds it for 15 s
    log = beside.log(cluster, MPI)
    before = log.stat().st_size if log.exists() else 0
    account = cluster.kubeconfig({"token": cluster.token(MPI, MPI)}, beside.SERVER)
    with _running(cluster, MPI, str(made / MPI), f"--kubeConfig={account}", f"--lock-namespace={MPI}", *flags):
        beside.serves(cluster, MPI, lambda: b"Leading started" in log.read_bytes()[before:], "mpi-operator leads")
        yield


@contextmanager
def _running(cluster: Cluster, name: str, *command: str) -> Iterator[None]:
    beside.start(cluster, name, *command)
    try:
        yield
    finally:
        beside.end(cluster, name)


def built(name: str) -> Path:
    """The directory with the program and its manifests.json. Raises CannotStart."""
    go, kubernetes = go_module.compiler(), cluster_build.program()
    with cache.locked(name) as directory:
        made_from = MODULES[name].made_from(go, inspect.getsource(_build), kubernetes.name)
        return cache.built(directory, name, made_from, partial(_build, name, go, kubernetes))


def _build(name: str, go: str, kubernetes: Path, target: Path) -> None:
    say(f"operators: building {MODULES[name]}, a minute and a half on 2 idle cores, once")
    target.mkdir()
    MODULES[name].build(go, PACKAGES[name], target / name)
    rendered = go_module.output(str(kubernetes), "kubectl", "kustomize", str(MODULES[name].fetched(go) / STANDALONE))
    # It is 3 MB for training-operator, and reading YAML takes ten times as long as JSON.
    (target / "manifests.json").write_text(json.dumps(list(yaml.load_all(rendered, yaml.CSafeLoader))))


def manifests(made: Path) -> list[Object]:
    """All its own objects but the Deployment: it runs as a program here."""
    objects: list[Object] = json.loads((made / "manifests.json").read_text())
    return [one for one in objects if one["kind"] != "Deployment"]


def install(cluster: Cluster, objects: Sequence[Object]) -> None:
    """Makes the objects. Webhooks lead to the port of the program."""
    for one in objects:
        if one["kind"] == "Service":
            # There is no kube-proxy. The API server follows an ExternalName itself, and goes on to want the Service's
            # name in the certificate, as the operator makes it.
            one["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        for hook in one.get("webhooks", []):
            hook["clientConfig"]["service"]["port"] = WEBHOOK_PORT
    # By the server, because the annotation of a client's apply has no room for these definitions.
    words = ("apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-")
    cluster.kubectl(*words, text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def own_tmp(cluster: Cluster) -> Path:
    """What training-operator gets as its /tmp: a kubeconfig of its service account, and room for its certificate."""
    tmp = cluster.directory / f"{TRAINING}-tmp"
    if not tmp.exists():
        (tmp / CERTIFICATES).mkdir(parents=True)
        (tmp / "program").touch()
        shutil.copy(cluster.authority, tmp)
    token = cluster.token(KUBEFLOW, TRAINING)
    authority = {"certificate-authority": f"/tmp/{cluster.authority.name}"}
    cluster.kubeconfig({"token": token}, {**beside.SERVER, **authority}).rename(tmp / "kubeconfig")
    return tmp


def mount_certificate(cluster: Cluster, directory: Path) -> None:
    """What the kubelet does for a pod: the Secret, which the operator fills, becomes files. Until then it waits."""

    def secret() -> Object:
        told: Object = cluster.call("GET", SECRET)[1]
        return told.get("data") or {}

    beside.serves(cluster, TRAINING, lambda: "tls.crt" in secret(), "training-operator made its certificate")
    for name, value in sorted(secret().items()):  # ca first, then tls.crt and tls.key
        partial_file = directory / f".{name}"
        partial_file.write_bytes(base64.b64decode(value))
        partial_file.rename(directory / name)


def _asked(objects: Sequence[Object], flags: Sequence[str]) -> Iterator[tuple[str, Object]]:
    """For each enabled kind that has a webhook: the path of its list, and an object that reaches the webhook."""
    enabled = {flag.partition("=")[2].lower() for flag in flags if flag.startswith("--enable-scheme=")}
    hooked = {rule for one in objects for hook in one.get("webhooks", []) for rule in hook["rules"][0]["resources"]}
    for one in objects:
        if one["kind"] != "CustomResourceDefinition" or (names := one["spec"]["names"])["plural"] not in hooked:
            continue
        if enabled and names["singular"] not in enabled:
            continue
        (version,) = one["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        empty = {key: {} if spec["properties"][key]["type"] == "object" else "" for key in spec["required"]}
        where = f"{one['spec']['group']}/{version['name']}"
        probe = {"apiVersion": where, "kind": names["kind"], "metadata": {"name": "probe"}, "spec": empty}
        yield f"/apis/{where}/namespaces/default/{names['plural']}", probe


def answers(cluster: Cluster, path: str, probe: Object) -> bool:
    """Whether its webhook takes or refuses an object of a kind. The operator registers one kind after the other."""
    return cluster.call("POST", f"{path}?dryRun=All", probe)[0] in (201, 403)


def main() -> int:
    parser = argparse.ArgumentParser(prog="operators.py", description="Kubeflow's operators for the rig.")
    parser.add_argument("action", choices=("build",))
    parser.parse_args()
    try:
        for name in MODULES:
            print(built(name))
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
