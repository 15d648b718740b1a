"""How `check` comes to the API server: by a kubeconfig that it is given, or in a pod by its service account."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nodeprep.cli.usage import UsageError

if TYPE_CHECKING:
    from nodeprep.doors.kube import Access
    from nodeprep.doors.kube_http import Peer

TOKEN = "authorization"  # noqa: S105 - what the loader calls it
WORDS = 300  # characters of what the loader or a plugin says


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options that say where the node's API server is and what it calls the node, as they were typed."""

    kubeconfig: str | None = None
    context: str | None = None
    node: str | None = None

    def given(self) -> str | None:
        """The first of the options that was given."""
        named = (("--kubeconfig", self.kubeconfig), ("--context", self.context), ("--node", self.node))
        return next((option for option, value in named if value is not None), None)


NO_CLUSTER = ClusterOptions()


def access(options: ClusterOptions, environment: Mapping[str, str] = os.environ) -> Access | None:
    """The access that was asked for, or a pod's own; None where there is none. Raises UsageError.

    KUBECONFIG alone does nothing: a check of this machine does not ask whatever cluster a shell was last used for.
    """
    if options.kubeconfig is not None and options.node is None:
        raise UsageError("--kubeconfig needs --node NAME: what Kubernetes calls this node; see kubectl get nodes")
    if options.context is not None and options.kubeconfig is None:
        raise UsageError("--context is one of a kubeconfig: give --kubeconfig FILE too")
    node = options.node or environment.get("NODE_NAME")
    if not node and options.node is None:
        return None  # before anything is imported that a check of a bare host does not need
    from nodeprep.doors.kube import NODE_NAME, in_cluster

    here = in_cluster(node or "", environment) if options.kubeconfig is None else None
    if options.kubeconfig is None and here is None:
        if options.node is None:
            return None  # NODE_NAME means something else here: Jenkins sets it too
        raise UsageError("--node needs --kubeconfig FILE: this is no pod with a service account")
    if not node or not NODE_NAME.fullmatch(node):
        where = "--node" if options.node is not None else "NODE_NAME"
        raise UsageError(f"{where} {(node or '')[:WORDS]!r} is no name of a Node; see kubectl get nodes")
    return here if options.kubeconfig is None else _loaded(options.kubeconfig, options.context, node)


def _loaded(file: str, context: str | None, node: str) -> Access:
    """A kubeconfig as the `kubernetes` package reads it; its exec plugin runs now, and anew when its token ends."""
    if not os.path.exists(file):  # noqa: PTH110 - Path.exists raises where a directory above may not be entered
        raise UsageError(f"--kubeconfig {file!r}: no such file")
    from kubernetes.client import Configuration
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    told: Any = Configuration()
    with _heard() as complaints:
        try:
            merged = KubeConfigMerger(file).config
            loader = KubeConfigLoader(merged, active_context=context, config_base_path=None)
            loader.load_and_set(told)
            cluster = merged["clusters"].get_with_name(loader.current_context["context"]["cluster"])["cluster"]
            server, proxy = cluster.safe_get("server"), cluster.safe_get("proxy-url")
        except OSError as error:
            raise UsageError(f"--kubeconfig {file!r}: {error.strerror or error}") from error
        except ConfigException as error:
            raise UsageError(f"--kubeconfig {file!r}: {_line(error)}") from error
        except Exception as error:  # the loader takes every value's type on trust, and YAML has errors of its own
            raise UsageError(f"--kubeconfig {file!r} is no kubeconfig: {_line(error)}") from error
    if complaints:  # a plugin that failed: the loader would go on as anonymous
        raise UsageError(f"--kubeconfig {file!r}: {complaints[0]}")
    if not str(server).startswith(("https://", "http://")):  # without any, the loader would ask localhost
        raise UsageError(f"--kubeconfig {file!r}: server {str(server)[:WORDS]!r} is no URL of https or http")
    from nodeprep.doors.kube import Access

    return Access(node, _peer(told, proxy), lambda: _headers(told))


def _peer(told: Any, proxy: object) -> Peer:
    from nodeprep.doors.kube_http import Peer

    return Peer(
        url=told.host,
        authority=told.ssl_ca_cert,
        certificate=told.cert_file,
        key=told.key_file,
        verify=told.verify_ssl,
        server_name=told.tls_server_name,
        proxy=str(proxy) if proxy else None,
    )


def _headers(told: Any) -> Mapping[str, str]:
    with _heard():  # one that fails to renew its token is told so by the server
        token = told.get_api_key_with_prefix(TOKEN)
    return {"Authorization": token} if token else {}


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What the loader logs as errors while it goes on: it has no other way to say that a plugin failed."""
    import logging

    said: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(_line(record.getMessage()))

    root, ear = logging.getLogger(), Ear(logging.ERROR)
    root.addHandler(ear)
    try:
        yield said
    finally:
        root.removeHandler(ear)


def _line(error: object) -> str:
    """In one line, as every message of wrong use; without the entries, secrets included, that the loader quotes."""
    return " ".join(re.sub(r"/\{.*\}", "", str(error), flags=re.DOTALL).split())[:WORDS]
