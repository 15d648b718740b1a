"""The options for Kubernetes: what is wrong use, in one line, and what is not used. With a server: tests/cluster."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli import kubernetes_access
from nodeprep.cli.kubernetes_access import NO_CLUSTER, ClusterOptions
from nodeprep.cli.usage import UsageError
from nodeprep.doors.kube.reader import ApiAccess, ApiReader
from nodeprep.model import Unreadable, Why
from tests.cli.program import NODEPREP, nodeprep

SERVER = {"server": "https://127.0.0.1:1"}
EXEC = "client.authentication.k8s.io/v1"


def kubeconfig(directory: Path, user: object = None, cluster: object = SERVER, **more: Any) -> str:
    file = directory / "kubeconfig"
    usual = {
        "current-context": "rig",
        "clusters": [{"name": "rig", "cluster": cluster}],
        "users": [{"name": "rig", "user": {"token": "SECRET"} if user is None else user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
    }
    file.write_text(json.dumps(usual | more))
    return str(file)


def complaint(*arguments: str) -> str:
    """What it says of wrong use: one line, without a secret."""
    done = nodeprep("check", "--only", "port", *arguments, NODE_NAME="")
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "SECRET" not in done.stderr
    return done.stderr.strip()


def refused(file: str, context: str | None = None) -> str:
    """The same of a kubeconfig, without a start of the program."""
    with pytest.raises(UsageError) as error:
        kubernetes_access.access(ClusterOptions(file, context, "n1"), {})
    assert "\n" not in str(error.value)
    assert "SECRET" not in str(error.value)
    return str(error.value)


def test_options_that_need_each_other(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path)
    needs = "--kubeconfig needs --node NAME, Kubernetes' name of this node; see kubectl get nodes"
    assert complaint("--kubeconfig", file) == needs
    assert complaint("--context", "rig") == "--context needs --kubeconfig FILE"
    assert complaint("--node", "n1") == (
        "--node needs --kubeconfig FILE: this is not a pod with a service account (KUBECONFIG is not read)"
    )


def test_what_is_no_live_node(tmp_path: Path) -> None:
    dead = complaint("--root", str(tmp_path), "--node", "n1")
    assert dead == "--root is a dead tree, files and nothing else: it cannot be combined with --node"
    recorded = complaint("--snapshot", "x.json", "--kubeconfig", "k")
    assert recorded == "--snapshot is one node at one time: it cannot be combined with --kubeconfig"


@pytest.mark.parametrize("name", ["", "a/b", "../pods", "N1", "a b", "n1\n", "a" * 254, "-a", "a..b"])
def test_names_that_no_node_has(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a name of a Node"):
        kubernetes_access.access(ClusterOptions(kubeconfig(tmp_path), None, name), {})


NONE = " is not a kubeconfig: "
CONTENTS = [
    ("", f"{NONE}it is empty"),
    ("just words SECRET", f"{NONE}it holds no mapping"),
    ("- 1\n", f"{NONE}it holds no mapping"),
    ("a: [\n", f"{NONE}line 2: expected the node content"),
    ("token: SECRET\n\tb: SECRET", f"{NONE}line 2: found character"),
    ("\x00", f"{NONE}unacceptable character"),
    ("clusters: 5", f"{NONE}its clusters are not a list of entries with a name"),
    ("a: 1", ": no current-context; give --context, it has: none"),
]


def test_files_that_are_none(tmp_path: Path) -> None:
    def says(file: str) -> str:
        return refused(file).removeprefix(f"--kubeconfig {file!r}")

    assert says(f"{tmp_path}/none") == f"{tmp_path}/none: no such file"
    assert says(str(tmp_path)) == ": Is a directory"
    text = tmp_path / "text"
    for content, words in CONTENTS:
        text.write_text(content)
        assert says(str(text)).startswith(words)
    text.write_bytes(b"\xff\xfe")
    assert says(str(text)).startswith(" is not a kubeconfig: ")


RUN = {"apiVersion": EXEC, "command": "a"}
ODD: list[tuple[dict[str, Any], str]] = [
    ({"cluster": {"server": "ftp://a"}}, ": server 'ftp://a' is not a URL of https or http"),
    ({"cluster": {}}, ": server 'None' is not a URL of https or http"),
    ({"cluster": {"server": 5}}, " is not a kubeconfig: a value in it is not what it should be: AttributeError"),
    ({"cluster": SERVER | {"certificate-authority": "/none/ca.crt"}}, ""),
    ({"user": {"client-certificate-data": "SECRET!"}, "cluster": SERVER}, ""),
    ({"current-context": None}, ": no current-context; give --context, it has: rig"),
    ({"user": {"exec": 5}}, ": its user's exec has no command"),
    ({"user": {"exec": {"command": "a"}}}, ": its user's exec has the apiVersion 'None', not client.auth"),
    ({"user": {"exec": RUN | {"args": "a b"}}}, ": its user's exec has args that are not a list of texts"),
    ({"user": {"exec": RUN | {"env": [{"name": "A"}]}}}, ": its user's exec has an env that is not a list of names"),
    ({"user": {"exec": RUN | {"env": [{"name": [], "value": "a"}]}}}, " has an env that is not a list of names"),
    ({"user": {"exec": RUN | {"env": 5}}}, " has an env that is not a list of names"),
    ({"user": {"exec": RUN | {"env": ["A=b"]}}}, ": its user's exec has an env that is not a list of names"),
    ({"user": {"exec": RUN | {"interactiveMode": "Always"}}}, ": its user's exec has interactiveMode Always"),
    ({"contexts": [{"name": "rig", "context": {"user": "rig", "token": "SECRET"}}]}, ""),
    ({"users": [{"user": {"token": "SECRET"}}]}, ""),
]


@pytest.mark.parametrize(("words", "says"), ODD)
def test_kubeconfigs_with_something_wrong(words: dict[str, Any], says: str, tmp_path: Path) -> None:
    assert says in refused(kubeconfig(tmp_path, **words))


def test_a_context_that_is_not_in_it(tmp_path: Path) -> None:
    assert refused(kubeconfig(tmp_path), "other").endswith(": no context 'other'; it has: rig")


def plugged(directory: Path, code: str, version: str = EXEC, **more: Any) -> ApiAccess:
    """The access by a kubeconfig whose plugin is this program."""
    call = {"apiVersion": version, "command": sys.executable, "args": ["-c", f"import os, sys, time; {code}"]}
    found = kubernetes_access.access(ClusterOptions(kubeconfig(directory, {"exec": call | more}), None, "n1"), {})
    assert found is not None
    return found


def lost(found: ApiAccess, seconds: float = 20.0) -> Unreadable:
    """Why the server cannot be asked."""
    with ApiReader(found, seconds) as api:
        assert api.lost is not None
        return api.lost


def credential(words: dict[str, Any], version: str = EXEC) -> str:
    return f"print({json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': words})!r})"


V1BETA1 = EXEC + "beta1"
HALF = "its status has neither a token nor a certificate with its key"
PLUGINS = [
    ("print('at work', file=sys.stderr); sys.exit('not signed in')", Why.IO_ERROR, "ended with 1: not signed in"),
    ("sys.exit(3)", Why.IO_ERROR, "ended with 3: without a word"),
    ("print('hello SECRET')", Why.MALFORMED, "what it says is no JSON"),
    ("print('{}')", Why.MALFORMED, "what it says is no ExecCredential with a status"),
    (credential({"token": "SECRET"}, V1BETA1), Why.MALFORMED, f"it speaks '{V1BETA1}', the kubeconfig '{EXEC}'"),
    (credential({}), Why.MALFORMED, HALF),
    (credential({"clientCertificateData": "SECRET"}), Why.MALFORMED, HALF),
    (credential({"token": 5}), Why.MALFORMED, "a part of its status is no text"),
    (credential({"token": "a", "expirationTimestamp": "soon"}), Why.MALFORMED, "its expirationTimestamp is no time"),
]


@pytest.mark.parametrize(("code", "kind", "says"), PLUGINS)
def test_plugins_that_fail(code: str, kind: Why, says: str, tmp_path: Path) -> None:
    blind = lost(plugged(tmp_path, code))
    assert blind == Unreadable(kind, f"kubeconfig's exec plugin {sys.executable}", detail=says)


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    blind = lost(plugged(tmp_path, "", command="/none/aws-iam"))
    assert str(blind) == (
        "kubeconfig's exec plugin /none/aws-iam: missing-tool (ended with 127: No such file or directory)"
    )


def test_a_plugin_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"child = os.fork() or time.sleep(600); open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child}}'); "
    found = plugged(tmp_path, f"{code} time.sleep(600)")
    for seconds in (2.0, 20.0):  # on a slow machine it may be killed before it has said whom it started
        pids.write_text("")
        began = time.monotonic()
        blind = lost(found, seconds)
        assert time.monotonic() - began < seconds + 18
        assert (blind.kind, blind.detail) == (Why.TIMEOUT, f"gave no credential in {seconds} s, and was killed")
        if pids.read_text():
            break
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    assert all(ended(pid) for pid in started)


def test_a_plugin_goes_when_we_are_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    found = plugged(tmp_path, f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    assert found.plugin is not None
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        pid.unlink(missing_ok=True)
        words = (NODEPREP, "snapshot", "-o", str(tmp_path / "out"), "--settle", "0", "--node", "n1")
        started = subprocess.Popen((*words, "--kubeconfig", str(tmp_path / "kubeconfig")), stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not (pid.exists() and pid.read_text()) and time.monotonic() < until:
            time.sleep(0.01)
        started.send_signal(end)
        started.wait(30)
        assert ended(int(pid.read_text())), end


def ended(pid: int) -> bool:
    """Whether a process is gone, or is soon."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_what_a_plugin_is_told(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "rig"}}
    authority = base64.b64encode(b"authority").decode()
    cluster = SERVER | {"certificate-authority-data": authority, "extensions": [extension]}
    code = (
        "import json; print(json.dumps({'apiVersion': '%s', 'kind': 'ExecCredential', 'status': {'token': '\\n'.join(("
    )
    told = "os.environ['KUBERNETES_EXEC_INFO'], os.environ['ADDED'], os.getcwd()))}}))"
    call = {
        "apiVersion": V1BETA1,
        "command": sys.executable,
        "args": ["-c", "import os; " + code % V1BETA1 + told],
        "env": [{"name": "ADDED", "value": "SECRET"}],
        "provideClusterInfo": True,
    }
    found = kubernetes_access.access(ClusterOptions(kubeconfig(tmp_path, {"exec": call}, cluster), None, "n1"), {})
    assert found is not None
    assert found.plugin is not None
    assert "SECRET" not in repr(found.plugin.call)
    given = found.plugin.credential(20.0)
    assert "SECRET" not in repr(given)
    info, added, where = given.token.split("\n")
    assert (added, where) == ("SECRET", str(tmp_path))
    assert json.loads(info) == {
        "apiVersion": V1BETA1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": SERVER | {"certificate-authority-data": authority, "config": {"audience": "rig"}},
        },
    }


def test_what_it_takes_from_a_kubeconfig(tmp_path: Path) -> None:
    words = {"tls-server-name": "api.example", "proxy-url": "http://proxy:3128", "insecure-skip-tls-verify": True}
    found = kubernetes_access.access(ClusterOptions(kubeconfig(tmp_path, cluster=SERVER | words), None, "n1"), {})
    assert found is not None
    assert (found.node, found.peer.url, found.peer.proxy) == ("n1", "https://127.0.0.1:1", "http://proxy:3128")
    assert (found.peer.server_name, found.peer.verify) == ("api.example", False)
    assert found.credential() == {"Authorization": "Bearer SECRET"}
    assert "SECRET" not in repr(found)
    other = kubernetes_access.access(
        ClusterOptions(kubeconfig(tmp_path, {"username": "a", "password": "b"}), "rig", "n1"), {}
    )
    assert other is not None
    assert other.credential() == {"Authorization": "Basic YTpi"}
    nobody = kubernetes_access.access(ClusterOptions(kubeconfig(tmp_path, {}), None, "n1"), {})
    assert nobody is not None
    assert nobody.credential() == {}


def test_a_credential_is_kept_until_it_ends_or_is_refused(tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def count(words: dict[str, str], *, forget: bool = False) -> int:
        calls.write_text("")
        found = plugged(tmp_path, f"open({str(calls)!r}, 'a').write('.'); {credential({'token': 'SECRET'} | words)}")
        assert found.plugin is not None
        for _ in range(2):
            assert found.plugin.credential(20.0).headers == {"Authorization": "Bearer SECRET"}
            if forget:
                found.plugin.forget()
        return len(calls.read_text())

    assert count({}) == 1
    assert count({"expirationTimestamp": "2999-01-01T00:00:00Z"}) == 1
    assert count({"expirationTimestamp": "2020-01-01T00:00:00Z"}) == 2
    assert count({}, forget=True) == 2


def test_a_token_in_the_file_comes_before_a_plugin_and_that_before_a_password(tmp_path: Path) -> None:
    call = {"exec": RUN | {"command": "/none/plugin"}}
    first = kubernetes_access.access(ClusterOptions(kubeconfig(tmp_path, call | {"token": "a"}), None, "n1"), {})
    assert first is not None
    assert (first.plugin, first.credential()) == (None, {"Authorization": "Bearer a"})
    second = kubernetes_access.access(
        ClusterOptions(kubeconfig(tmp_path, call | {"username": "a", "password": "b"}), None, "n1"), {}
    )
    assert second is not None
    assert second.plugin is not None


def test_nothing_is_asked_of_whatever_cluster_a_shell_was_last_used_for(tmp_path: Path) -> None:
    assert kubernetes_access.access(NO_CLUSTER, {"KUBECONFIG": kubeconfig(tmp_path), "NODE_NAME": "n1"}) is None
    assert kubernetes_access.access(NO_CLUSTER, {}) is None
    assert (
        kubernetes_access.access(NO_CLUSTER, {"NODE_NAME": "Built-In Node"}) is None
    )  # Jenkins has a variable of this name
