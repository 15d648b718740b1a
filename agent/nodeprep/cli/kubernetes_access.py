"""How `check` finds the API server: by a kubeconfig that was given, or in a pod by its service account."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeprep.cli.usage import UsageError
from nodeprep.values import Value

if TYPE_CHECKING:
    from nodeprep.doors.kube.exec_plugin import ExecPlugin
    from nodeprep.doors.kube.reader import ApiAccess
    from nodeprep.doors.kube.requests import Peer

TOKEN = "authorization"  # noqa: S105 - what the loader calls it
WORDS = 300  # characters of what the loader says


class ClusterOptions(Value):
    """The options for the node's API server and the node's name, as they were typed."""

    kubeconfig: str | None = None
    context: str | None = None
    node: str | None = None

    def given(self) -> str | None:
        """The first of the options that was given."""
        named = (("--kubeconfig", self.kubeconfig), ("--context", self.context), ("--node", self.node))
        return next((option for option, value in named if value is not None), None)


NO_CLUSTER = ClusterOptions()


def access(options: ClusterOptions, environment: Mapping[str, str] = os.environ) -> ApiAccess | None:
    """The requested access, or a pod's own; None if there is none. Raises UsageError.

    KUBECONFIG alone does nothing: a check of this machine does not ask the cluster that the shell last used.
    """
    if options.kubeconfig is not None and options.node is None:
        raise UsageError("--kubeconfig needs --node NAME, Kubernetes' name of this node; see kubectl get nodes")
    if options.context is not None and options.kubeconfig is None:
        raise UsageError("--context needs --kubeconfig FILE")
    node = options.node or environment.get("NODE_NAME")
    if not node and options.node is None:
        return None  # before imports that a check of a bare host does not need
    from nodeprep.doors.kube import reader
    from nodeprep.doors.kube.reader import NODE_NAME

    here = reader.in_cluster(node or "", environment) if options.kubeconfig is None else None
    if options.kubeconfig is None and here is None:
        if options.node is None:
            return None  # NODE_NAME means something else here: Jenkins sets it too
        raise UsageError(
            "--node needs --kubeconfig FILE: this is not a pod with a service account (KUBECONFIG is not read)"
        )
    if not node or not NODE_NAME.fullmatch(node):
        where = "--node" if options.node is not None else "NODE_NAME"
        raise UsageError(f"{where} {(node or '')[:WORDS]!r} is not a name of a Node; see kubectl get nodes")
    return here if options.kubeconfig is None else of_file("--kubeconfig", options.kubeconfig, options.context, node)


def of_file(option: str, file: str, context: str | None, node: str = "") -> ApiAccess:
    """The access by the kubeconfig that `option` names. Raises UsageError."""
    where = f"{option} {file!r}"
    directory = os.path.dirname(os.path.abspath(file))  # noqa: PTH100, PTH120 - of the link, if it is one
    return loaded(where, read(option, file), context, node, directory)


def loaded(where: str, whole: dict[str, Any], context: str | None, node: str, directory: str) -> ApiAccess:
    """A kubeconfig as the `kubernetes` package reads it, except that its exec plugin runs when the server is asked.

    The package would run the plugin at once and wait for it without a limit.
    """
    from kubernetes.client import Configuration
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KubeConfigLoader

    told: Any = Configuration()
    chosen = _chosen(where, whole, context)
    user, cluster = (_entry(whole, kind, chosen.get(kind)) for kind in ("user", "cluster"))
    call = user.pop("exec", None)
    if call is not None:
        user.pop("password", None)  # a plugin comes before a password, as in the loader
    try:
        loader = KubeConfigLoader(whole, active_context=context, config_base_path=directory)
        loader.load_and_set(told)
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror or error}") from error
    except ConfigException as error:
        raise UsageError(f"{where}: {_line(error)}") from error
    except Exception as error:  # the loader does not check the types of values
        words = f"a value in it is not what it should be: {type(error).__name__}: {_line(error)}"
        raise UsageError(f"{where} is not a kubeconfig: {words}") from error
    server, proxy = cluster.get("server"), cluster.get("proxy-url")
    if not str(server).startswith(("https://", "http://")):  # without any, the loader would ask localhost
        raise UsageError(f"{where}: server {str(server)[:WORDS]!r} is not a URL of https or http")
    from nodeprep.doors.kube.reader import ApiAccess

    plugin = None if call is None or _headers(told) else _plugin(where, call, _of_the_cluster(cluster, told), directory)
    return ApiAccess(node, _peer(told, proxy), lambda: _headers(told), plugin)


def read(option: str, file: str) -> dict[str, Any]:
    """A kubeconfig's mapping, with lists of mappings where a kubeconfig has them. Raises UsageError."""
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KubeConfigMerger

    where = f"{option} {file!r}"
    try:
        with Path(file).open(encoding="utf-8") as text:
            whole = KubeConfigMerger(text).config
    except FileNotFoundError as error:
        named_by = "" if option.startswith("--") else f" ({option})"
        raise UsageError(f"{file}: no such file{named_by}") from error
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror or error}") from error
    except ConfigException as error:
        raise UsageError(f"{where} is not a kubeconfig: it is empty") from error
    except Exception as error:  # errors of YAML, which quote the line with the secret, and of the encoding
        mark = getattr(error, "problem_mark", None)
        words = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark else _line(error)
        raise UsageError(f"{where} is not a kubeconfig: {words}") from error
    if not isinstance(whole, dict):
        raise UsageError(f"{where} is not a kubeconfig: it holds no mapping")
    for kind in ("contexts", "clusters", "users"):
        entries = whole[kind] = whole.get(kind) or []
        if not isinstance(entries, list) or not all(isinstance(one, dict) and "name" in one for one in entries):
            raise UsageError(f"{where} is not a kubeconfig: its {kind} are not a list of entries with a name")
    return whole


def _chosen(where: str, whole: Mapping[str, Any], context: str | None) -> Mapping[str, Any]:
    """The requested context, or the current one. Raises UsageError."""
    names = ", ".join(str(one["name"]) for one in whole["contexts"])[:WORDS] or "none"
    name = whole.get("current-context") if context is None else context
    if not name:
        raise UsageError(f"{where}: no current-context; give --context, it has: {names}")
    if all(one["name"] != name for one in whole["contexts"]):
        raise UsageError(f"{where}: no context {str(name)[:WORDS]!r}; it has: {names}")
    return _entry(whole, "context", name)


def _entry(whole: Mapping[str, Any], kind: str, name: object) -> dict[str, Any]:
    """The entry of a name; empty if there is none, which the loader reports."""
    found = next((one.get(kind) for one in whole[f"{kind}s"] if one["name"] == name), None)
    return found if isinstance(found, dict) else {}


def _plugin(where: str, call: object, cluster: Mapping[str, object], directory: str) -> ExecPlugin:
    """An exec plugin, not run yet. Raises UsageError."""
    from nodeprep.doors.kube.exec_plugin import VERSIONS, ExecCall, ExecPlugin

    wrong = f"{where}: its user's exec"
    told = call if isinstance(call, dict) else {}
    command, arguments, more = told.get("command"), told.get("args") or [], told.get("env") or []
    if not command or not isinstance(command, str):
        raise UsageError(f"{wrong} has no command")
    if told.get("apiVersion") not in VERSIONS:
        raise UsageError(f"{wrong} has the apiVersion {str(told.get('apiVersion'))[:WORDS]!r}, not {VERSIONS[0]}")
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        raise UsageError(f"{wrong} has args that are not a list of texts")
    pairs: list[Any] = [(one.get("name"), one.get("value")) for one in _mappings(more)]
    if (
        not isinstance(more, list)
        or len(pairs) != len(more)
        or not all(isinstance(one, str) for pair in pairs for one in pair)
    ):
        raise UsageError(f"{wrong} has an env that is not a list of names and values")
    if told.get("interactiveMode") == "Always":
        raise UsageError(f"{wrong} has interactiveMode Always, and this program asks nobody")
    wanted = cluster if told.get("provideClusterInfo") is True else None
    return ExecPlugin(ExecCall(told["apiVersion"], (command, *arguments), dict(pairs), directory, wanted))


def _of_the_cluster(cluster: Mapping[str, Any], told: Any) -> Mapping[str, object]:
    """What a plugin may ask to know (Cluster in client-authentication.v1)."""
    import base64

    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    known: dict[str, object] = {name: cluster[name] for name in names if name in cluster}
    with suppress(OSError, TypeError):  # the request to the server will report it
        known["certificate-authority-data"] = base64.b64encode(Path(told.ssl_ca_cert).read_bytes()).decode()
    for one in _mappings(cluster.get("extensions")):
        if one.get("name") == "client.authentication.k8s.io/exec":
            known["config"] = one.get("extension")
    return known


def _mappings(found: object) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _peer(told: Any, proxy: object) -> Peer:
    from nodeprep.doors.kube.requests import Peer

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
    token = told.get_api_key_with_prefix(TOKEN)
    return {"Authorization": token} if token else {}


def _line(error: object) -> str:
    """One line, like every message of wrong use. Entries that the loader quotes are removed: they hold secrets."""
    return " ".join(re.sub(r"/\{.*\}", "", str(error), flags=re.DOTALL).split())[:WORDS]
