"""The API server's door against servers that do what a real one never does; for what that does, see tests/cluster."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.nodes import kubeconfigs
from nodeprep.cli.nodes.kubeconfigs import FleetOptions
from nodeprep.doors.kube import reader
from nodeprep.doors.kube.exec_plugin import VERSIONS, ExecCall, ExecPlugin
from nodeprep.doors.kube.reader import ApiAccess, ApiReader
from nodeprep.doors.kube.requests import BODY_LIMIT_BYTES, Peer
from nodeprep.doors.kube.writer import LOST, ApiWriter
from nodeprep.doors.node_host import Host
from nodeprep.model import NO_ACCESS, Unreadable, Why
from tests.rigs import api_server
from tests.rigs.absent import needs_root
from tests.rigs.api_server import Answer, Handler, Server, endless, raw, refused, sent, silent, told

NODES, PODS = "/api/v1/nodes/n1", "/api/v1/pods"
SLACK = 30.0  # seconds that a busy machine may take longer; whoever is late here, is so for ever
AMPLE = 60.0  # seconds for all requests, where another limit is to be met
DEEP = b'{"a":' * 100_000


def access(url: str, headers: Mapping[str, str] | None = None, **peer: Any) -> ApiAccess:
    """To a server that may take its time."""
    return ApiAccess("n1", Peer(url, **peer), lambda: headers or {}, connect=AMPLE, read=AMPLE)


def hasty(url: str) -> ApiAccess:
    """With the door's own time for a connection and a silence."""
    return ApiAccess("n1", Peer(url), dict)


def node(answer: Answer, seconds: float = AMPLE) -> Any:
    """What the door makes of an answer to the question for the Node."""
    with Server({NODES: answer}) as server, ApiReader(access(server.url), seconds) as api:
        return api.get("v1", "nodes", "n1")


def test_an_object_and_none() -> None:
    assert node(told({"kind": "Node"})) == {"kind": "Node"}
    assert node(refused(404)) is None


REFUSED: list[tuple[Answer, Why, str, str]] = [
    (refused(401), Why.DENIED, "http", "HTTP 401: it does not know who we are; see kubectl auth whoami"),
    (refused(403), Why.DENIED, "nodes n1", "HTTP 403: may not; see kubectl auth can-i get nodes/n1"),
    (refused(429, "too many requests"), Why.IO_ERROR, "nodes n1", "HTTP 429: too many requests"),
    (
        refused(500, "etcdserver: request timed out"),
        Why.IO_ERROR,
        "nodes n1",
        "HTTP 500: etcdserver: request timed out",
    ),
    (sent(b"<html>", 502), Why.IO_ERROR, "nodes n1", "HTTP 502"),
    (sent(b"[1]", 503), Why.IO_ERROR, "nodes n1", "HTTP 503"),
    (sent(b"", 302, Location="http://127.0.0.1:1/"), Why.MALFORMED, "nodes n1", "HTTP 302"),
    (sent(b"<html>it works</html>"), Why.MALFORMED, "nodes n1", "the answer is no JSON object"),
    (sent(b'{"kind": '), Why.MALFORMED, "nodes n1", "the answer is no JSON object"),
    (sent(b"[]"), Why.MALFORMED, "nodes n1", "the answer is no JSON object"),
    (sent(b'{"a": "\xff"}'), Why.MALFORMED, "nodes n1", "the answer is no JSON object"),
    (sent(DEEP), Why.MALFORMED, "nodes n1", "the answer is no JSON object"),
    (sent(b'{"a": ' + b"9" * 5000 + b"}"), Why.MALFORMED, "nodes n1", "the answer is no JSON object"),
    (sent(b"\x1f\x8b\x08", Content_Encoding="gzip"), Why.MALFORMED, "nodes n1", "the answer is no JSON object"),
    (endless(b" " * 65536, 0), Why.MALFORMED, "nodes n1", "an answer of more than 8 MiB"),
    (
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n{"),
        Why.MALFORMED,
        "nodes n1",
        "an answer of more than 8 MiB",
    ),
]


@pytest.mark.parametrize(("answer", "kind", "path", "detail"), REFUSED)
def test_what_is_no_answer(answer: Answer, kind: Why, path: str, detail: str) -> None:
    blind = node(answer)
    assert isinstance(blind, Unreadable)
    assert (blind.kind, blind.detail) == (kind, detail)
    assert blind.path.startswith(path)


def test_the_largest_answer_is_read_and_one_byte_more_is_not() -> None:
    assert node(sent(b'{"a": 1}'.ljust(BODY_LIMIT_BYTES))) == {"a": 1}
    assert node(sent(b'{"a": 1}'.ljust(BODY_LIMIT_BYTES + 1))).kind is Why.MALFORMED


BROKEN = [
    raw(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
    raw(b""),
    raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"),
    raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    raw(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 100_000 + b"\r\n\r\n"),
    raw(b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 1000 + b"\r\n"),
]


@pytest.mark.parametrize("answer", BROKEN)
def test_what_is_no_http(answer: Answer) -> None:
    blind = node(answer)
    assert isinstance(blind, Unreadable)
    assert blind.kind is Why.IO_ERROR
    assert blind.detail


SLOW = [
    silent,
    endless(b" ", 0.2),
    endless(b"X-Slow: 1\r\n", 0.2, head=b"HTTP/1.1 200 OK\r\n"),
    endless(b"a", 0.2, head=b"HTTP/1.1 200 OK\r\nX-Slow: "),
    endless(b"1\r\n \r\n", 0.2, head=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
]


@pytest.mark.parametrize("answer", SLOW)
def test_the_deadline_holds_however_a_server_dawdles(answer: Answer) -> None:
    began = time.monotonic()
    blind = node(answer, seconds=1.0)
    assert time.monotonic() - began < 1.0 + SLACK
    assert isinstance(blind, Unreadable)
    assert blind.kind is Why.TIMEOUT


def test_the_deadline_is_one_for_all_requests() -> None:
    first: Any = None
    late: list[Any] = []
    lost: Unreadable | None = None
    requests = 0
    for _ in range(10):
        began = time.monotonic()
        with Server({NODES: told({}), PODS: endless(b" ", 0.2)}) as server, ApiReader(access(server.url), 1.0) as api:
            first = api.get("v1", "nodes", "n1")
            late = [api.list("v1", "pods"), api.list("v1", "pods"), api.get("v1", "nodes", "n1")]
            requests, lost = len(server.requests), api.lost
        assert time.monotonic() - began < 1.0 + SLACK
        if (first, requests) == ({}, 2):  # else the machine used up the time, and not the slow answer
            break
    assert (first, requests) == ({}, 2)
    assert all(isinstance(one, Unreadable) and one.kind is Why.TIMEOUT for one in late)
    assert lost is None


def test_a_server_that_was_silent_from_the_start_is_not_asked_again() -> None:
    asked = 0
    for _ in range(10):
        with Server({NODES: silent}) as server, ApiReader(hasty(server.url), AMPLE) as api:
            first = api.get("v1", "nodes", "n1")
            assert api.list("v1", "pods") == first == api.lost
            assert first == Unreadable(Why.TIMEOUT, server.url, detail="silent for 2 s or more")
        asked = len(server.requests)
        if asked:  # else this machine stood still before the server read it
            break
    assert asked == 1


def test_people_wait_longer_for_a_server_that_is_busy(tmp_path: Path) -> None:
    """A look at a node has 5 s for everything; a command about the fleet waits for as long as people do."""

    def late(handler: Handler) -> None:
        time.sleep(3.0)
        told({"kind": "Node"})(handler)

    with Server({NODES: late}) as server:
        with ApiReader(hasty(server.url), AMPLE) as api:
            assert api.get("v1", "nodes", "n1") == Unreadable(Why.TIMEOUT, server.url, detail="silent for 2 s or more")
        file = tmp_path / "kubeconfig"
        cluster, user = {"server": server.url}, {"token": "x"}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        told_of = {"clusters": [{"name": "a", "cluster": cluster}], "users": [{"name": "a", "user": user}]}
        file.write_text(json.dumps({**told_of, "contexts": [context], "current-context": "a"}))

        def told_people() -> Any:
            with ApiReader(kubeconfigs.fleet_access(FleetOptions(str(file)), {}), AMPLE) as api:
                return api.get("v1", "nodes", "n1")

        # They have 10 s, of which a machine that stands still may take the rest. This does not happen each time.
        assert any(told_people() == {"kind": "Node"} for _ in range(5))


def test_one_that_is_slow_with_one_answer_is() -> None:
    first: Any = None
    pods: Any = None
    last: Any = None
    for _ in range(5):
        with (
            Server({NODES: told({"kind": "Node"}), PODS: silent}) as server,
            ApiReader(hasty(server.url), AMPLE) as api,
        ):
            first, pods, last = api.get("v1", "nodes", "n1"), api.list("v1", "pods"), api.get("v1", "nodes", "n1")
        if first == last == {"kind": "Node"}:  # else the machine was silent, and not the server
            break
    assert first == last == {"kind": "Node"}
    assert pods == Unreadable(Why.TIMEOUT, "pods", detail="silent for 2 s or more")


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with ApiReader(access(f"http://127.0.0.1:{port}"), AMPLE) as api:
        blind = api.get("v1", "nodes", "n1")
    assert blind == Unreadable(Why.IO_ERROR, f"http://127.0.0.1:{port}", errno.ECONNREFUSED, "Connection refused")


def test_no_way_there() -> None:
    """A full backlog: connections hang as they do where everything is dropped."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as one, socket.socket() as two:
        for filler in (one, two):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        began = time.monotonic()
        with ApiReader(hasty(url), AMPLE) as api:
            blind = api.get("v1", "nodes", "n1")
    assert time.monotonic() - began < 1.0 + SLACK
    assert blind == Unreadable(Why.TIMEOUT, url, detail="no connection in 1 s")


ASK = """\
import socket, sys
from nodeprep.doors.kube.reader import ApiAccess, ApiReader
from nodeprep.doors.kube.requests import Peer
dumb = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dumb.bind(("127.0.0.1", 53))
with ApiReader(ApiAccess("n1", Peer("http://api.example:6443"), dict), float(sys.argv[1])) as api:
    print(api.get("v1", "nodes", "n1"))
    print(api.list("v1", "pods"))
"""
DUMB = """\
ip link set lo up && mount --bind "$1/resolv.conf" "$(readlink -f /etc/resolv.conf)"
echo "hosts: files dns" > "$1/nsswitch.conf" && mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf
shift && exec "$@"
"""


@needs_root("it mounts, which needs root")
def test_a_name_server_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
    away = ("unshare", "--mount", "--propagation", "private", "--net", "sh", "-c", DUMB, "sh", str(tmp_path))
    began = time.monotonic()
    words = (*away, sys.executable, "-c", ASK, str(AMPLE))
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert time.monotonic() - began < 1.5 + SLACK
    says = "http://api.example:6443: timeout (api.example: no answer from the name server)"
    assert (done.returncode, done.stdout.splitlines()) == (0, [says, says]), done.stderr


def test_names() -> None:
    with Server({NODES: told({"kind": "Node"})}) as server:
        with ApiReader(access(server.url.replace("127.0.0.1", "localhost")), AMPLE) as api:
            assert api.get("v1", "nodes", "n1") == {"kind": "Node"}
        for name in ("a..b", "a" * 64 + ".example", "none.invalid"):
            with ApiReader(access(f"http://{name}"), AMPLE) as api:
                assert isinstance(api.get("v1", "nodes", "n1"), Unreadable)


@pytest.mark.parametrize("items", [5, {"a": 1}, [1], "abc"])
def test_a_list_of_something_else(items: object) -> None:
    with Server({PODS: told({"items": items})}) as server, ApiReader(access(server.url), AMPLE) as api:
        blind = api.list("v1", "pods")
    assert blind == Unreadable(Why.MALFORMED, "pods", detail=".items is no list of objects")


def test_lists() -> None:
    answers = {PODS: told({"items": [{"kind": "Pod"}]}), "/apis/apps/v1/daemonsets": told({"items": None})}
    with Server(answers) as server, ApiReader(access(server.url), AMPLE) as api:
        assert api.list("v1", "pods", fieldSelector="spec.nodeName=n1") == ({"kind": "Pod"},)
        assert api.list("apps/v1", "daemonsets") == ()
        assert api.list("apps/v1", "replicasets") == ()
        assert server.requests[0] == "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"


def test_what_may_not_be_listed_or_read_in_a_namespace() -> None:
    answers = {
        "/apis/apps/v1/daemonsets": refused(403),
        "/api/v1/namespaces/kube-system/configmaps/eni-config": refused(403),
    }
    with Server(answers) as server, ApiReader(access(server.url), AMPLE) as api:
        listed = api.list("apps/v1", "daemonsets")
        read = api.get("v1", "configmaps", "eni-config", "kube-system")
    assert str(listed) == (
        "daemonsets.apps: denied (HTTP 403: may not; see kubectl auth can-i list daemonsets.apps --all-namespaces)"
    )
    assert str(read) == (
        "configmaps kube-system/eni-config: denied (HTTP 403: may not; "
        "see kubectl auth can-i get configmaps/eni-config -n kube-system)"
    )


def test_names_stay_in_their_place() -> None:
    with Server({}) as server, ApiReader(access(server.url), AMPLE) as api:
        api.get("v1", "configmaps", "../../secrets?x#y", "a/b")
        assert server.requests == ["/api/v1/namespaces/a%2Fb/configmaps/..%2F..%2Fsecrets%3Fx%23y"]


def test_who_we_are_is_told_and_the_environments_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with (
        Server({NODES: told({})}) as server,
        ApiReader(access(server.url, {"Authorization": "Bearer t"}), AMPLE) as api,
    ):
        assert api.get("v1", "nodes", "n1") == {}
        (headers,) = server.headers
    assert headers["Authorization"] == "Bearer t"
    assert headers["User-Agent"].startswith("nodeprep/")


def test_a_proxy_of_the_kubeconfig_is() -> None:
    with Server({NODES: told({"by": "proxy"})}) as proxy:
        with ApiReader(access("http://api.example", proxy=proxy.url), AMPLE) as api:
            assert api.get("v1", "nodes", "n1") == {"by": "proxy"}
        assert proxy.requests == ["http://api.example/api/v1/nodes/n1"]


def test_a_redirect_does_not_get_our_credentials() -> None:
    with Server({}) as other, Server({NODES: sent(b"", 302, Location=other.url)}) as server:
        with ApiReader(access(server.url, {"Authorization": "Bearer t"}), AMPLE) as api:
            api.get("v1", "nodes", "n1")
        assert other.requests == []


def test_the_servers_clock() -> None:
    then = sent(b"{}", Date=formatdate(1_700_000_000, usegmt=True))
    for answer, now in ((then, 1_700_000_000), (sent(b"{}", Date="yesterday"), None)):
        with Server({NODES: _bare(answer)}) as server, ApiReader(access(server.url), AMPLE) as api:
            api.get("v1", "nodes", "n1")
            assert now is None or api.now == now
            assert now is not None or abs(api.now - time.time()) < 60


def _bare(answer: Answer) -> Answer:
    """Without the Date that the server itself would add."""

    def quiet(handler: api_server.Handler) -> None:
        handler.send_response = handler.send_response_only  # type: ignore[method-assign]
        answer(handler)

    return quiet


FILES = [
    ({"authority": "/nonexistent/ca.crt"}, Why.IO_ERROR, "No such file or directory"),
    ({"authority": "/etc/hostname"}, Why.IO_ERROR, ""),
    ({"certificate": "/nonexistent/me.crt"}, Why.IO_ERROR, "No such file or directory"),
    ({"proxy": "socks9://x"}, Why.MALFORMED, ""),
]


@pytest.mark.parametrize(("peer", "kind", "detail"), FILES)
def test_what_cannot_be_used_to_ask(peer: dict[str, Any], kind: Why, detail: str) -> None:
    with ApiReader(access("https://127.0.0.1:1", **peer), AMPLE) as api:
        blind = api.get("v1", "nodes", "n1")
    assert isinstance(blind, Unreadable)
    assert blind.kind is kind
    assert detail in blind.detail


def test_a_credential_that_no_header_can_hold() -> None:
    with (
        Server({NODES: told({})}) as server,
        ApiReader(access(server.url, {"Authorization": "Bearer a\r\nX: b"}), AMPLE) as api,
    ):
        blind = api.get("v1", "nodes", "n1")
        assert server.requests == []
    assert isinstance(blind, Unreadable)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("")
    return tmp_path


HERE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pods_own_access_reads_its_token_each_time(account: Path) -> None:
    found = reader.in_cluster("n1", HERE, str(account))
    assert found is not None
    assert (found.node, found.peer.url, found.peer.authority) == ("n1", "https://10.96.0.1:443", f"{account}/ca.crt")
    assert found.credential() == {"Authorization": "Bearer first"}
    (account / "token").write_text("second")
    assert found.credential() == {"Authorization": "Bearer second"}
    (account / "token").unlink()
    with ApiReader(found) as api:
        blind = api.get("v1", "nodes", "n1")
    assert isinstance(blind, Unreadable)
    assert (blind.path, blind.errno) == (f"{account}/token", errno.ENOENT)


def test_its_own_objects_lie_in_the_pods_namespace(account: Path) -> None:
    found = reader.in_cluster("n1", HERE, str(account))
    assert found is not None
    assert found.namespace == "nodeprep", "where no file says so"
    (account / "namespace").write_text("elsewhere\n")
    found = reader.in_cluster("n1", HERE, str(account))
    assert found is not None
    assert found.namespace == "elsewhere"


def test_where_there_is_no_such_access(account: Path, tmp_path: Path) -> None:
    assert reader.in_cluster("n1", {}, str(account)) is None
    assert reader.in_cluster("n1", HERE, str(tmp_path / "none")) is None
    six = reader.in_cluster("n1", HERE | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, str(account))
    assert six is not None
    assert six.peer.url == "https://[fd00::1]:443"


def test_a_host_without_access_says_so() -> None:
    blind = Host().kubernetes()
    assert blind == Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS)
    assert blind.not_asked


PLUGIN = """
import json, pathlib, sys
runs, version = pathlib.Path(sys.argv[1]), sys.argv[2]
runs.write_text(runs.read_text() + ".")
status = {"token": f"token-{len(runs.read_text())}"}
print(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
"""


def plugged(server: Server, runs: Path) -> ApiAccess:
    """The access by a plugin that gives another token each time; `runs` has a dot for each."""
    runs.write_text("")
    argv = (sys.executable, "-c", PLUGIN, str(runs), VERSIONS[0])
    plugin = ExecPlugin(ExecCall(VERSIONS[0], argv, {}, str(runs.parent)))
    return ApiAccess("n1", Peer(server.url), dict, plugin, connect=30.0, read=30.0)


def read_node(found: ApiAccess) -> bool:
    with ApiReader(found, 60.0) as api:
        return isinstance(api.get("v1", "nodes", "n1"), dict)


def ask_node(found: ApiAccess) -> bool:
    with ApiWriter(found, 60.0) as api:
        return api.request("GET", NODES).done


@pytest.mark.parametrize("ask", [read_node, ask_node])
def test_a_plugin_whose_credential_is_refused_is_run_again(tmp_path: Path, ask: Callable[[ApiAccess], bool]) -> None:
    """A token may be taken back long before it ends, and a fleet would not be read until then."""

    def answer(handler: Handler) -> None:
        knows = handler.headers["Authorization"] != "Bearer token-1"
        (told({"kind": "Node"}) if knows else refused(401))(handler)

    with Server({NODES: answer}) as server:
        found = plugged(server, tmp_path / "runs")
        assert [ask(found) for _ in range(3)] == [False, True, True]
    assert (tmp_path / "runs").read_text() == ".."


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", DEEP])
def test_an_answer_that_is_no_object_tells_nothing_of_a_write(body: bytes) -> None:
    with Server({NODES: sent(body)}) as server, ApiWriter(access(server.url), AMPLE) as api:
        outcome = api.request("GET", NODES)
    assert (outcome.status, outcome.done) == (LOST, False)
    assert outcome.message == f"GET {NODES}: the answer is no JSON object"
