"""`nodeprep check` and `snapshot` with an API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import api_objects
from tests.cli.program import NODEPREP, nodeprep
from tests.rigs.absent import needs_root
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import steadily
from tests.rigs.waiting import until

PLUGIN = """\
import json, os, sys
print("signing in", file=sys.stderr)
assert "KUBERNETES_EXEC_INFO" in os.environ
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": %s}))
"""


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> str:
    cluster.create("/api/v1/nodes", api_objects.node("checked"))
    return "checked"


def plugin(directory: Path, status: Any) -> dict[str, Any]:
    """A user of a kubeconfig who gets credentials from a program."""
    program = directory / "plugin.py"
    program.write_text(PLUGIN % json.dumps(status))
    call = {"command": sys.executable, "args": [str(program)], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **call}}


def test_a_snapshot_holds_what_the_server_said(cluster: Cluster, node: str, tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    show(file, "--kubeconfig", str(cluster.kubeconfig()), "--node", node)
    assert "SECRET" not in file.read_text()
    judged = nodeprep("check", "--snapshot", str(file), "-o", "json")
    assert judged.returncode in (0, 1, 3)


def show(file: Path, *words: str) -> None:
    """Returns when a snapshot holds what the server said: on a busy machine the answer may be later than it waits."""

    def shown() -> bool:
        done = nodeprep("snapshot", *words, "-o", str(file), "--settle", "0")
        assert done.returncode == 0, done.stderr
        return "cn-hangzhou.i-bp1node" in file.read_text()

    until(shown, "the snapshot holds what the server said")


def test_a_plugin_gives_the_token(cluster: Cluster, node: str, tmp_path: Path) -> None:
    cluster.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "plugged"}})
    user = plugin(tmp_path, {"token": cluster.token("default", "plugged")})
    words = ("check", "--only", "port", "--kubeconfig", str(cluster.kubeconfig(user)), "--node", node)

    def is_known() -> bool:  # on a busy machine plugin and server may be later than a check waits
        done = nodeprep(*words)
        print(done.stderr)
        return done.returncode == 0 and "--kubeconfig" not in done.stderr

    until(is_known, "an account that is known")


def test_a_plugin_gives_a_certificate(cluster: Cluster, node: str, tmp_path: Path) -> None:
    halves = [(cluster.directory / f"admin.{end}").read_text() for end in ("crt", "key")]
    user = plugin(tmp_path, dict(zip(("clientCertificateData", "clientKeyData"), halves, strict=True)))
    show(tmp_path / "node.json", "--kubeconfig", str(cluster.kubeconfig(user)), "--node", node)


PLUGINS_THAT_FAIL = [
    ("import sys; sys.exit('not signed in')", "(ended with 1: not signed in)"),
    ("import time; time.sleep(600)", "was killed)"),
]


@pytest.mark.parametrize(("code", "says"), PLUGINS_THAT_FAIL)
def test_a_plugin_that_fails_is_one_fact_and_not_the_end(cluster: Cluster, node: str, code: str, says: str) -> None:
    call = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", code]}
    way = ("--kubeconfig", str(cluster.kubeconfig({"exec": call})), "--node", node)
    done = nodeprep("check", "--profile", "tcp-shared-eni", "--only", "route.rules", *way)
    assert done.returncode == 3, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    assert "UNKNOWN route.rules" in told
    assert "kubeconfig's exec plugin" in told
    assert says in told


IN_POD = """\
mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io && cp -r "$1" /run/secrets/kubernetes.io/serviceaccount
shift && exec "$@"
"""


@needs_root("it mounts, which needs root")
def test_in_a_pod_the_name_of_its_node_is_enough(cluster: Cluster, node: str, tmp_path: Path) -> None:
    """A mount namespace with a service account where pods have it; the kernel's own /var/run is a link to /run."""
    cluster.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "in-pod"}})
    account, file = tmp_path / "account", tmp_path / "node.json"
    account.mkdir()
    (account / "token").write_text(cluster.token("default", "in-pod"))
    (account / "ca.crt").write_bytes(cluster.authority.read_bytes())
    server = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.port)}
    words = ("unshare", "--mount", "--propagation", "private", "sh", "-c", IN_POD, "sh", str(account))
    command = (*words, NODEPREP, "snapshot", "--force", "-o", str(file), "--settle", "0")
    environment = os.environ | server | {"NODE_NAME": node}

    def recorded() -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return file.read_text()

    # An account without a role: it is known, and may not.
    denied = f"auth can-i get nodes/{node}"
    assert denied in steadily(recorded, late=lambda text: denied not in text)


def test_a_server_out_of_reach_is_one_fact_and_not_the_end(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    away = cluster.kubeconfig(cluster={"server": "https://127.0.0.1:1"})
    done = nodeprep("snapshot", "--kubeconfig", str(away), "--node", "n1", "-o", str(file), "--settle", "0")
    assert done.returncode == 0, done.stderr
    assert "Connection refused" in file.read_text()
