"""What the cluster's programs are started with, and the kinds of records that it knows."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

ALIBABA = "network.alibabacloud.com"
# The kinds of alibaba.md 1.5 and 3.3 by their plural: version, kind, scope. Their schemas are left out.
RECORDS = {
    "nodes": ("v1beta1", "Node", "Cluster"),
    "podenis": ("v1beta1", "PodENI", "Namespaced"),
    "networkinterfaces": ("v1beta1", "NetworkInterface", "Cluster"),
    "erdmadevices": ("v1", "ERdmaDevice", "Cluster"),
}


def definition(plural: str, version: str, kind: str, scope: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{ALIBABA}"},
        "spec": {
            "group": ALIBABA,
            "names": {"plural": plural, "kind": kind, "listKind": f"{kind}List", "singular": kind.lower()},
            "scope": scope,
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until the last is chosen, so that none is given twice."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def etcd_flags(directory: Path, store: int, peers: int) -> tuple[str, ...]:
    return (
        f"--data-dir={directory}/etcd",
        "--unsafe-no-fsync",  # a test throws its data away
        "--log-level=warn",
        f"--listen-client-urls=http://127.0.0.1:{store}",
        f"--advertise-client-urls=http://127.0.0.1:{store}",
        f"--listen-peer-urls=http://127.0.0.1:{peers}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
        f"--initial-cluster=default=http://127.0.0.1:{peers}",
    )


def apiserver_flags(directory: Path, store: int, port: int) -> tuple[str, ...]:
    policy = directory / "audit-policy.json"
    rules = [{"level": "Metadata", "omitStages": ["RequestReceived"]}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return (
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # The Service `kubernetes` may not point to a loopback address, so nothing maintains it.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--allow-privileged=true",
        f"--tls-cert-file={directory}/apiserver.crt",
        f"--tls-private-key-file={directory}/apiserver.key",
        f"--client-ca-file={directory}/ca.crt",
        "--authorization-mode=Node,RBAC",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes a namespace's default account
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory}/service-account.crt",  # it does not read openssl's keys (PKCS#8)
        f"--service-account-signing-key-file={directory}/service-account.key",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={directory}/audit.log",
        "--profiling=false",
    )
