"""How commands about the fleet find the API server: as kubectl does, with KUBECONFIG and ~/.kube/config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeprep.cli import kubernetes_access
from nodeprep.cli.usage import UsageError
from nodeprep.values import Value, replace

if TYPE_CHECKING:
    from nodeprep.doors.kube.reader import ApiAccess

NO_ACCESS = (
    "no access to a cluster: found no KUBECONFIG, no ~/.kube/config and no service account of a pod, "
    "wanted --kubeconfig FILE"
)
# Seconds for a connection, which is what client-go gives a TLS handshake, and for one silence.
CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS = 10.0, 10.0
# What an entry names by a path, which is relative to the file that it stands in.
PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class FleetOptions(Value):
    """The options that say which cluster is meant, as they were typed."""

    kubeconfig: str | None = None
    context: str | None = None


def fleet_access(options: FleetOptions, environment: Mapping[str, str] = os.environ) -> ApiAccess:
    """The requested access, else that of KUBECONFIG, ~/.kube/config or this pod. Raises UsageError.

    A busy server has as long to answer as people wait for it.
    """
    return replace(_found(options, environment), connect=CONNECT_TIMEOUT_SECONDS, read=READ_TIMEOUT_SECONDS)


def _found(options: FleetOptions, environment: Mapping[str, str]) -> ApiAccess:
    if options.kubeconfig is not None:
        return kubernetes_access.of_file("--kubeconfig", options.kubeconfig, options.context)
    files = [one for one in environment.get("KUBECONFIG", "").split(os.pathsep) if one]
    if len(files) > 1:
        return _merged(files, options.context)
    if files:
        return kubernetes_access.of_file("KUBECONFIG", files[0], options.context)
    usual = Path(environment.get("HOME") or "/", ".kube", "config")
    if usual.is_file():
        return kubernetes_access.of_file("kubeconfig", str(usual), options.context)
    if options.context is not None:
        raise UsageError(f"--context {options.context!r} needs a kubeconfig: {NO_ACCESS}")
    from nodeprep.doors.kube import reader

    here = reader.in_cluster("", environment)
    if here is None:
        raise UsageError(NO_ACCESS)
    return here


def _merged(files: list[str], context: str | None) -> ApiAccess:
    """Several files as one, as kubectl reads them: missing files are ignored, and the first file wins."""
    where = f"KUBECONFIG {os.pathsep.join(files)!r}"
    there = [one for one in files if Path(one).exists()]
    if not there:
        raise UsageError(f"{where}: no such files")
    whole: dict[str, Any] = {"contexts": [], "clusters": [], "users": []}
    for file in there:
        content = kubernetes_access.read("KUBECONFIG", file)
        if content.get("current-context"):
            whole.setdefault("current-context", content["current-context"])
        for kind in ("contexts", "clusters", "users"):
            known = {one["name"] for one in whole[kind]}
            whole[kind] += [_absolute(one, kind[:-1], file) for one in content[kind] if one["name"] not in known]
    return kubernetes_access.loaded(where, whole, context, "", ".")


def _absolute(entry: dict[str, Any], kind: str, file: str) -> dict[str, Any]:
    inside = entry.get(kind)
    if not isinstance(inside, dict):
        return entry
    beside = Path(file).absolute().parent
    found: dict[str, Any] = {key: str(beside / inside[key]) for key in PATHS if isinstance(inside.get(key), str)}
    call = inside.get("exec")
    command = call.get("command") if isinstance(call, dict) else None
    if isinstance(call, dict) and isinstance(command, str) and os.sep in command:
        found["exec"] = {**call, "command": str(beside / command)}
    return {**entry, kind: {**inside, **found}}
