"""The flags of the cluster's programs, and the kinds of records that it knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ALIBABA = "network.alibabacloud.com"
STORE = "http://127.0.0.1:2379"
SERVER_PORT = 443
# Of the Service `kubernetes`, as the kubelet tells it to pods. There is no kube-proxy, so the API server itself listens
# there.
SERVICE_ADDRESS = "10.96.0.1"
GATEWAY = "198.51.100.254"  # nodes reach it by this
# The kinds that facts/kubernetes/cluster_objects.py reads, by their plural: version, kind, scope. Their schemas are
# left out.
RECORDS = {
    "nodes": ("v1beta1", "Node", "Cluster"),
    "podenis": ("v1beta1", "PodENI", "Namespaced"),
    "networkinterfaces": ("v1beta1", "NetworkInterface", "Cluster"),
    "erdmadevices": ("v1", "ERdmaDevice", "Cluster"),
}

# Of controllers and scheduler. With their usual limits the controllers need 5 s to start, and 1,000 pods take minutes.
CONTROLLER = (
    "--leader-elect=false",
    "--bind-address=127.0.0.1",
    "--profiling=false",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
)


def definition(plural: str, version: str, kind: str, scope: str, group: str = ALIBABA) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind, "listKind": f"{kind}List", "singular": kind.lower()},
            "scope": scope,
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def etcd_flags(directory: Path) -> tuple[str, ...]:
    return (
        f"--data-dir={directory}/etcd",
        "--unsafe-no-fsync",  # a test throws its data away
        "--log-level=warn",
        f"--listen-client-urls={STORE}",
        f"--advertise-client-urls={STORE}",
    )


def apiserver_flags(directory: Path, audit: Mapping[str, Any], *, controllers: bool) -> tuple[str, ...]:
    """Of kube-apiserver, with this audit policy."""
    policy = directory / "audit-policy.json"
    policy.write_text(json.dumps(audit))
    return (
        f"--etcd-servers={STORE}",
        "--bind-address=0.0.0.0",
        f"--secure-port={SERVER_PORT}",
        "--permit-port-sharing=true",  # so that a test's proxy can listen at the service's address before it
        # The Service `kubernetes` may not point to a loopback address, so no program maintains it.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--allow-privileged=true",
        f"--tls-cert-file={directory}/apiserver.crt",
        f"--tls-private-key-file={directory}/apiserver.key",
        f"--client-ca-file={directory}/ca.crt",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # Without controllers nobody makes a namespace's default account, and each pod needs it.
        *(() if controllers else ("--disable-admission-plugins=ServiceAccount",)),
        f"--kubelet-client-certificate={directory}/admin.crt",
        f"--kubelet-client-key={directory}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory}/service-account.crt",  # it does not read openssl's keys (PKCS#8)
        f"--service-account-signing-key-file={directory}/service-account.key",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={directory}/audit.log",
        "--profiling=false",
    )


def controller_flags(directory: Path, kubeconfig: Path, grace: str) -> tuple[str, ...]:
    """Of kube-controller-manager. A Node becomes Unknown if no kubelet renewed it for `grace`."""
    return (
        *CONTROLLER,
        f"--kubeconfig={kubeconfig}",
        "--use-service-account-credentials=true",
        f"--root-ca-file={directory}/ca.crt",
        f"--service-account-private-key-file={directory}/service-account.key",
        f"--node-monitor-grace-period={grace}",
    )


def scheduler_flags(kubeconfig: Path) -> tuple[str, ...]:
    return (*CONTROLLER, f"--kubeconfig={kubeconfig}")
