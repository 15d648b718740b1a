"""The options for Kubernetes: what is wrong use, in one line, and what is not used. With a server: tests/cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.kubernetes_access import NO_CLUSTER, ClusterOptions, access
from nodeprep.cli.usage import UsageError
from tests.cli.program import nodeprep

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
        access(ClusterOptions(file, context, "n1"), {})
    assert "\n" not in str(error.value)
    assert "SECRET" not in str(error.value)
    return str(error.value)


def test_options_that_need_each_other(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path)
    needs = "--kubeconfig needs --node NAME: what Kubernetes calls this node; see kubectl get nodes"
    assert complaint("--kubeconfig", file) == needs
    assert complaint("--context", "rig") == "--context is one of a kubeconfig: give --kubeconfig FILE too"
    assert complaint("--node", "n1") == "--node needs --kubeconfig FILE: this is no pod with a service account"


def test_what_is_no_live_node(tmp_path: Path) -> None:
    dead = complaint("--root", str(tmp_path), "--node", "n1")
    assert dead == "--root is a dead tree, files and nothing else: it does not go with --node"
    recorded = complaint("--snapshot", "x.json", "--kubeconfig", "k")
    assert recorded == "--snapshot is one node at one time: it does not go with --kubeconfig"


@pytest.mark.parametrize("name", ["", "a/b", "../pods", "N1", "a b", "n1\n", "a" * 254, "-a", "a..b"])
def test_names_that_no_node_has(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no name of a Node"):
        access(ClusterOptions(kubeconfig(tmp_path), None, name), {})


def test_files_that_are_none(tmp_path: Path) -> None:
    def says(file: str) -> str:
        return refused(file).removeprefix(f"--kubeconfig {file!r}")

    assert says(f"{tmp_path}/none") == ": no such file"
    assert says(str(tmp_path)) == ": Is a directory"
    text = tmp_path / "text"
    for content in ("a: [\n", "just words SECRET", "- 1\n", "", "a: 1", "\x00", "clusters: 5"):
        text.write_text(content)
        assert says(str(text)).startswith((" is no kubeconfig: ", ": Invalid kube-config"))
    text.write_bytes(b"\xff\xfe")
    assert says(str(text)).startswith(" is no kubeconfig: ")


ODD: list[tuple[dict[str, Any], str]] = [
    ({"cluster": {"server": "ftp://a"}}, ": server 'ftp://a' is no URL of https or http"),
    ({"cluster": {}}, ": server 'None' is no URL of https or http"),
    ({"cluster": SERVER | {"certificate-authority": "/none/ca.crt"}}, ""),
    ({"user": {"client-certificate-data": "SECRET!"}, "cluster": SERVER}, ""),
    ({"current-context": None}, ""),
    ({"contexts": [{"name": "rig", "context": {"user": "rig", "token": "SECRET"}}]}, ""),
    ({"users": [{"user": {"token": "SECRET"}}]}, ""),
]


@pytest.mark.parametrize(("words", "says"), ODD)
def test_kubeconfigs_with_something_wrong(words: dict[str, Any], says: str, tmp_path: Path) -> None:
    assert says in refused(kubeconfig(tmp_path, **words))


def test_a_context_that_is_not_in_it(tmp_path: Path) -> None:
    said = refused(kubeconfig(tmp_path), "other")
    assert "Expected object with name other in" in said


PLUGINS = [
    ("sys.exit('not signed in')", "exec: process returned 1. not signed in"),
    ("print('hello')", "exec: failed to decode process output: "),
    ("print('{}')", "exec: malformed response. missing key 'apiVersion'"),
    (f'print(\'{{"apiVersion": "{EXEC}", "kind": "a", "status": {{}}}}\')', "exec: missing token or "),
]


@pytest.mark.parametrize(("code", "says"), PLUGINS)
def test_plugins_that_fail(code: str, says: str, tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": EXEC, "command": sys.executable, "args": ["-c", f"import sys; {code}"]}}
    assert f": {says}" in refused(kubeconfig(tmp_path, user))


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": EXEC, "command": "/none/aws-iam"}}
    assert "'/none/aws-iam'" in complaint("--kubeconfig", kubeconfig(tmp_path, user), "--node", "n1")


def test_what_it_takes_from_a_kubeconfig(tmp_path: Path) -> None:
    words = {"tls-server-name": "api.example", "proxy-url": "http://proxy:3128", "insecure-skip-tls-verify": True}
    found = access(ClusterOptions(kubeconfig(tmp_path, cluster=SERVER | words), None, "n1"), {})
    assert found is not None
    assert (found.node, found.peer.url, found.peer.proxy) == ("n1", "https://127.0.0.1:1", "http://proxy:3128")
    assert (found.peer.server_name, found.peer.verify) == ("api.example", False)
    assert found.credential() == {"Authorization": "Bearer SECRET"}
    assert "SECRET" not in repr(found)
    other = access(ClusterOptions(kubeconfig(tmp_path, {"username": "a", "password": "b"}), "rig", "n1"), {})
    assert other is not None
    assert other.credential() == {"Authorization": "Basic YTpi"}
    nobody = access(ClusterOptions(kubeconfig(tmp_path, {}), None, "n1"), {})
    assert nobody is not None
    assert nobody.credential() == {}


def test_a_token_that_ends_is_had_anew(tmp_path: Path) -> None:
    past = "2020-01-01T00:00:00Z"
    status = {"token": "SECRET", "expirationTimestamp": past}
    text = json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": status})
    code = f"print({text!r}); open({str(tmp_path / 'calls')!r}, 'a').write('.')"
    user = {"exec": {"apiVersion": EXEC, "command": sys.executable, "args": ["-c", code]}}
    found = access(ClusterOptions(kubeconfig(tmp_path, user), None, "n1"), {})
    assert found is not None
    assert found.credential() == {"Authorization": "Bearer SECRET"}
    assert len((tmp_path / "calls").read_text()) >= 2


def test_nothing_is_asked_of_whatever_cluster_a_shell_was_last_used_for(tmp_path: Path) -> None:
    assert access(NO_CLUSTER, {"KUBECONFIG": kubeconfig(tmp_path), "NODE_NAME": "n1"}) is None
    assert access(NO_CLUSTER, {}) is None
    assert access(NO_CLUSTER, {"NODE_NAME": "Built-In Node"}) is None  # Jenkins has a variable of this name
