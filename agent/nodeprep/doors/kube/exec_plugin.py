"""Runs the exec plugin of a kubeconfig: a program that says who we are to the API server. It may fail or hang.

Its input and its output are an ExecCredential
(https://kubernetes.io/docs/reference/config-api/client-authentication.v1/).
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from nodeprep import newer_python, redaction
from nodeprep.doors import children, clock
from nodeprep.model import CannotLook, Unreadable, Why
from nodeprep.newer_python import UTC
from nodeprep.values import Value, redacted

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
WORDS = 200  # characters of a plugin's output in a message
CANNOT_START = (126, 127)  # exit codes, as shells have them
# PR_SET_PDEATHSIG: a plugin that hangs ends with us, even if we are killed. execve keeps this setting.
CHILD = """
import ctypes, os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
ctypes.CDLL(None).prctl(1, 9)
try:
    os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(print(error.strerror, file=sys.stderr) or (127 if isinstance(error, FileNotFoundError) else 126))
"""


class ExecCall(Value):
    """How a plugin is run: protocol version, arguments, additions to its environment, directory.

    `cluster` describes the cluster to it, if it asks for that.
    """

    version: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    cluster: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return redacted(self, "environment")


class Credential(Value):
    """A token, or a certificate with its key (PEM); "" for none. `until` is when they expire."""

    token: str
    pem: str
    until: datetime | None

    def __repr__(self) -> str:
        return redacted(self, "token", "pem")

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class ExecPlugin:
    """Runs a plugin when its credential is needed, and again when that has expired."""

    def __init__(self, call: ExecCall) -> None:
        self.call = call
        self._held: Credential | None = None

    def credential(self, seconds: float) -> Credential:
        """Raises CannotLook if it failed, said nothing in `seconds`, or said something that is not a credential."""
        held = self._held
        if held is None or (held.until is not None and held.until <= _now()):
            held = self._read(self._run(seconds))
        self._held = held
        return held

    def forget(self) -> None:
        """The server refused the credential: run the plugin again for the next one."""
        self._held = None

    def _run(self, seconds: float) -> bytes:
        spec: dict[str, Any] = {"interactive": False}
        if self.call.cluster is not None:
            spec["cluster"] = self.call.cluster
        told = json.dumps({"apiVersion": self.call.version, "kind": "ExecCredential", "spec": spec}, default=str)
        try:
            child = subprocess.Popen(
                (sys.executable, "-I", "-S", "-c", CHILD, str(os.getpid()), *self.call.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.call.directory,
                env={**os.environ, **self.call.environment, "KUBERNETES_EXEC_INFO": told},
                process_group=0,
            )
        except (OSError, ValueError) as error:
            raise self._blind(Why.IO_ERROR, f"cannot be started: {getattr(error, 'strerror', error)}") from error

        def end() -> None:
            _end(child)

        atexit.register(end)  # Ctrl-C does not reach another process group
        try:
            said, complaint = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as late:
            raise self._blind(Why.TIMEOUT, f"gave no credential in {seconds:.1f} s, and was killed") from late
        finally:
            atexit.unregister(end)
            _end(child)
        if child.returncode:
            lines = complaint.decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "without a word")
            kind = Why.MISSING_TOOL if child.returncode in CANNOT_START else Why.IO_ERROR
            raise self._blind(kind, f"ended with {child.returncode}: {redaction.masked(last)[:WORDS]}")
        return said

    def _read(self, said: bytes) -> Credential:
        """The credential in its output. The output is never quoted: it may be a secret."""
        try:
            told = json.loads(said)
        except (ValueError, RecursionError) as error:
            raise self._blind(Why.MALFORMED, "what it says is no JSON") from error
        status = told.get("status") if isinstance(told, dict) else None
        if not isinstance(status, dict) or told.get("kind") != "ExecCredential":
            raise self._blind(Why.MALFORMED, "what it says is no ExecCredential with a status")
        if told.get("apiVersion") != self.call.version:
            version = str(told.get("apiVersion"))[:WORDS]
            raise self._blind(Why.MALFORMED, f"it speaks {version!r}, the kubeconfig {self.call.version!r}")
        names = ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
        token, certificate, key, until = (status.get(name) or "" for name in names)
        if not all(isinstance(value, str) for value in (token, certificate, key, until)):
            raise self._blind(Why.MALFORMED, "a part of its status is no text")
        if bool(certificate) != bool(key) or not (token or certificate):
            raise self._blind(Why.MALFORMED, "its status has neither a token nor a certificate with its key")
        try:
            end = newer_python.moment(until) if until else None
        except ValueError as error:
            raise self._blind(Why.MALFORMED, "its expirationTimestamp is no time") from error
        pem = f"{certificate}\n{key}\n" if certificate else ""
        return Credential(token, pem, end if end is None or end.tzinfo else end.replace(tzinfo=UTC))

    def _blind(self, kind: Why, detail: str) -> CannotLook:
        return CannotLook(Unreadable(kind, f"kubeconfig's exec plugin {self.call.argv[0][:WORDS]}", detail=detail))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill it with all that it started, unless it has ended."""
    if child.returncode is None:
        with suppress(OSError):  # a group of another user
            os.killpg(child.pid, signal.SIGKILL)
    children.ended(child)


def _now() -> datetime:
    return newer_python.moment(clock.utc())
