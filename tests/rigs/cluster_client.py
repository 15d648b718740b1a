"""An API server for its administrator: makes and reads objects, tokens, kubeconfigs, kubectl, the audit log."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from urllib3 import HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from tests.rigs.cluster_space import Space

PATCH = "application/merge-patch+json"
SHOWN = 80  # characters of an argument: a program would hide what kubectl said of it
ANSWER_SECONDS = 240.0  # for one answer; a test may freeze the server for a minute
T = TypeVar("T")


class Client:
    """A client with all rights.

    `directory` holds the rig's files, `node_files` those of its real nodes. `port` on loopback leads to the API server.
    """

    directory: Path
    node_files: Path
    program: Path
    port: int
    space: Space

    def inside(self, *argv: str) -> tuple[str, ...]:
        """The command that runs `argv` in the cluster's network namespace, where the API server has 10.96.0.1:443."""
        return self.space.inside(*argv)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    def certificate(self, name: str, subject: str, names: str = "") -> None:
        """A key and a certificate of the rig's own authority. The first one is the authority itself."""
        signer = [] if name == "ca" else ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"]
        alternative = ["-addext", f"subjectAltName={names}"] if names else []
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
        command += ["-days", "30", "-subj", subject, *signer, *alternative, "-keyout", f"{name}.key"]
        subprocess.run([*command, "-out", f"{name}.crt"], cwd=self.directory, check=True, capture_output=True)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.directory / "admin.crt", self.directory / "admin.key")
        return context

    @cached_property
    def _pool(self) -> HTTPSConnectionPool:
        # Kept open: a handshake costs more CPU than most requests, and tests ask twenty times a second.
        where = ("127.0.0.1", self.port)
        return HTTPSConnectionPool(*where, timeout=ANSWER_SECONDS, maxsize=8, retries=False, ssl_context=self._context)

    def link(self) -> http.client.HTTPSConnection:
        """A connection of the caller's own, as the administrator."""
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS, context=self._context)

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and decoded answer, as the administrator.

        Raises:
            ConnectionError: there was no answer, or half of one.
        """
        headers = {"Content-Type": PATCH if method == "PATCH" else "application/json"}
        try:
            answer = self._pool.urlopen(method, path, None if body is None else json.dumps(body), headers)
        except HTTPError as error:
            raise ConnectionError(f"{method} {path}: {error}") from error
        if "json" not in answer.headers.get("Content-Type", ""):  # 404 of a group that is not served yet is plain text
            return answer.status, {"message": answer.data.decode(errors="replace")}
        return answer.status, json.loads(answer.data or b"{}")

    def namespace(self, name: str) -> None:
        """Makes a namespace, if it is not there: tests share a server, and a worker takes them in any order."""
        code, told = self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if code not in (201, 409):
            raise RuntimeError(f"namespace {name}: {code} {told.get('message')}")

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes an object below the path of its list. Also writes its status if that is a subresource."""
        code, made = self.call("POST", path, body)
        if code >= 300:
            raise RuntimeError(f"POST {path}: {code} {made.get('message')}")
        if "status" in body and made.get("status") != body["status"]:
            name = body["metadata"]["name"]
            code, made = self.call("PATCH", f"{path}/{name}/status", {"status": body["status"]})
            if code >= 300:
                raise RuntimeError(f"PATCH {path}/{name}/status: {code} {made.get('message')}")
        return made

    def token(self, namespace: str, account: str) -> str:
        """A token of a service account, as the kubelet would get one for a pod."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        code, made = self.call("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
        if code >= 300:
            raise RuntimeError(f"POST {path}: {code} {made.get('message')}")
        return str(made["status"]["token"])

    def kubeconfig(self, user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None) -> Path:
        """A new file: for the administrator or another `user`, with changed fields of its `cluster`."""
        server = {"server": self.url, "certificate-authority": str(self.authority), **(cluster or {})}
        text = json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "rig",
                "clusters": [{"name": "rig", "cluster": server}],
                "users": [{"name": "rig", "user": self.user("admin") if user is None else dict(user)}],
                "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
            }
        )
        descriptor, name = tempfile.mkstemp(suffix=".kubeconfig", dir=self.directory)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return Path(name)

    def user(self, name: str) -> dict[str, str]:
        """A kubeconfig's fields for the user of one of our certificates."""
        return {
            "client-certificate": str(self.directory / f"{name}.crt"),
            "client-key": str(self.directory / f"{name}.key"),
        }

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """What kubectl prints, as the administrator.

        Raises:
            RuntimeError: it failed; with what it said.
        """
        done = subprocess.run(
            (self.directory / "bin/kubectl", *words),
            capture_output=True,
            text=True,
            input=text,
            env={**os.environ, **self.environment()},
            check=False,
        )
        if done.returncode:
            asked = " ".join(word if len(word) < SHOWN else f"{word[:SHOWN]}..." for word in words)
            raise RuntimeError(f"kubectl {asked}: {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Lets a command find the cluster: KUBECONFIG, and a PATH with this Kubernetes' kubectl."""
        path = f"{self.directory}/bin:{os.environ.get('PATH', os.defpath)}"
        return {"KUBECONFIG": str(self.directory / "admin.kubeconfig"), "PATH": path}

    def apply(self, what: Path | str) -> str:
        """Applies a manifest: a file, a directory (by kustomize if it has a kustomization), or the text itself."""
        if isinstance(what, str):
            return self.kubectl("apply", "-f", "-", text=what)
        return self.kubectl("apply", "-k" if (what / "kustomization.yaml").exists() else "-f", str(what))

    def requests(self, user: str) -> list[str]:
        """The requests of a user since the start, from the server's audit log: "get /api/v1/nodes/n1"."""
        # An unknown user has no name there.
        events = [event for event in map(json.loads, self.audited()) if event["user"].get("username") == user]
        return [f"{event['verb']} {event['requestURI']}" for event in events]

    def audited(self) -> list[str]:
        """The lines of the server's audit log since the start, but one that it is still writing."""
        text = (self.directory / "audit.log").read_text()
        return text[: text.rfind("\n") + 1].splitlines()
