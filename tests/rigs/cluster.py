"""A real API server: etcd and kube-apiserver on loopback, as a program and as a module (`with Cluster() as cluster`).

    python tests/rigs/cluster.py run -- COMMAND   runs COMMAND with KUBECONFIG set, ends with its exit code
    python tests/rigs/cluster.py packages         the Debian packages that it needs
    python tests/rigs/cluster.py build            builds the two programs, which else the first run does

It knows the kinds of records that Terway and erdma-controller keep, and holds what a test writes into it. Nothing runs
pods. Both programs end when the one that started them does.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs import cluster_build
from tests.rigs.cluster_build import CannotStart
from tests.rigs.cluster_setup import ALIBABA, RECORDS, apiserver_flags, definition, etcd_flags, free_ports

__all__ = ["ALIBABA", "CannotStart", "Cluster"]

READY = 120.0  # seconds for one of the programs; 3 where nothing else runs
PATCH = "application/merge-patch+json"


class Cluster:
    """One API server with a store of its own. Use it as a context manager.

    Raises:
        CannotStart: a program that it needs is missing or cannot be built.
    """

    def __init__(self) -> None:
        self.program = cluster_build.program()
        self.directory = Path(tempfile.mkdtemp(prefix="nodeprep-cluster-"))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        store, peers, self.port = free_ports(3)
        self.spawn("etcd", *etcd_flags(self.directory, store, peers))
        self.certificate("ca", "/CN=nodeprep-rig")
        self.certificate("apiserver", "/CN=kube-apiserver", "IP:127.0.0.1,DNS:localhost,DNS:rig.example")
        self.certificate("admin", "/O=system:masters/CN=admin")
        self.certificate("service-account", "/CN=service-account")  # only its pair of keys is used
        self.await_health("etcd", http.client.HTTPConnection("127.0.0.1", store, timeout=5))
        self.spawn("kube-apiserver", *apiserver_flags(self.directory, store, self.port))
        self.await_health("kube-apiserver", self.link())
        self.install_records()

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()  # it may be stopped, and its own grace takes a minute
            process.wait()
        self.processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def signal(self, number: signal.Signals) -> None:
        """Sends the API server a signal, such as SIGSTOP: then the kernel takes connections and nobody answers."""
        self.processes["kube-apiserver"].send_signal(number)

    def certificate(self, name: str, subject: str, names: str = "") -> None:
        """A key and a certificate of the rig's own authority, which itself is the first."""
        signer = [] if name == "ca" else ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"]
        alternative = ["-addext", f"subjectAltName={names}"] if names else []
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
        command += ["-days", "30", "-subj", subject, *signer, *alternative, "-keyout", f"{name}.key"]
        subprocess.run([*command, "-out", f"{name}.crt"], cwd=self.directory, check=True, capture_output=True)

    def spawn(self, program: str, *flags: str) -> None:
        with (self.directory / f"{program}.log").open("ab") as log:
            command = ("setpriv", "--pdeathsig", "KILL", str(self.program), program, *flags)
            self.processes[program] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def await_health(self, program: str, link: http.client.HTTPConnection) -> None:
        end = time.monotonic() + READY
        while True:
            try:
                link.request("GET", "/readyz")
                answer = link.getresponse()
                answer.read()
                if answer.status == 200:
                    link.close()
                    return
            except (OSError, http.client.HTTPException):
                link.close()
            if self.processes[program].poll() is not None or time.monotonic() > end:
                tail = (self.directory / f"{program}.log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{program} did not start:\n{tail}")
            time.sleep(0.05)

    def install_records(self) -> None:
        for plural, (version, kind, scope) in RECORDS.items():
            self.create(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(plural, version, kind, scope)
            )
        for plural, (version, _, _) in RECORDS.items():
            self.wait_for(f"/apis/{ALIBABA}/{version}/{plural}")

    def wait_for(self, path: str) -> None:
        """A kind is served a moment after its definition was taken."""
        end = time.monotonic() + READY
        while self.call("GET", path)[0] != 200:
            if time.monotonic() > end:
                raise RuntimeError(f"{path} is not served")
            time.sleep(0.05)

    def link(self) -> http.client.HTTPSConnection:
        """A connection as the administrator, who may do everything."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.directory / "admin.crt", self.directory / "admin.key")
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and decoded answer."""
        headers = {"Content-Type": PATCH if method == "PATCH" else "application/json"}
        link = self.link()
        try:
            link.request(method, path, None if body is None else json.dumps(body), headers)
            answer = link.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            link.close()

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes an object below the path of its list; the status that it has is written too, where that is apart."""
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
        """A new file: for the administrator or another `user`, with more or other words of its `cluster`."""
        admin = {
            "client-certificate": str(self.directory / "admin.crt"),
            "client-key": str(self.directory / "admin.key"),
        }
        server = {"server": self.url, "certificate-authority": str(self.authority), **(cluster or {})}
        text = json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "rig",
                "clusters": [{"name": "rig", "cluster": server}],
                "users": [{"name": "rig", "user": admin if user is None else dict(user)}],
                "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
            }
        )
        descriptor, name = tempfile.mkstemp(suffix=".kubeconfig", dir=self.directory)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return Path(name)

    def requests(self, user: str) -> list[str]:
        """What somebody asked for since the start, from the server's audit log: "get /api/v1/nodes/n1"."""
        lines = (self.directory / "audit.log").read_text().splitlines()
        events = [event for event in map(json.loads, lines) if event["user"]["username"] == user]
        return [f"{event['verb']} {event['requestURI']}" for event in events]


def run(command: Sequence[str]) -> int:
    with Cluster() as cluster:
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig())}
        return subprocess.run(command, env=environment, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster.py", description="etcd and kube-apiserver on loopback.")
    actions = parser.add_subparsers(dest="action", required=True)
    runner = actions.add_parser("run", help="run COMMAND with KUBECONFIG set")
    runner.add_argument("command", nargs="+", metavar="COMMAND")
    actions.add_parser("packages", help="print the Debian packages that the rig needs")
    actions.add_parser("build", help="build the programs and print their path")
    arguments = parser.parse_args()
    if arguments.action == "packages":
        print(" ".join(cluster_build.PACKAGES))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if arguments.action == "run":
            return run(arguments.command)
        print(cluster_build.program())
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
