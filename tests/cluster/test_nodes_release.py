"""`nodeprep nodes release --all` and what a server in trouble does to it: an API server of its own, for all of it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster.accounts import account
from tests.cluster.fleet import LEASES, NODES, POOL, ago, asked, clear, later, node, nodes
from tests.rigs import started
from tests.rigs.api_proxy import Deed, Exchange, Proxy, cuts, passes, refuses
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/nodeprep/pods"
DAEMON_SETS = "/apis/apps/v1/namespaces/nodeprep/daemonsets"
CONFIG_MAPS = f"{NAMESPACES}/nodeprep/configmaps"
LABELS = {"app.kubernetes.io/name": "nodeprep", "app.kubernetes.io/component": "agent"}
CONTAINERS = {"containers": [{"name": "agent", "image": "x"}]}
ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Of our own: `--all` means the Nodes of other tests too."""
    with started.cluster() as made:
        made.create(NAMESPACES, {"metadata": {"name": "nodeprep"}})
        made.create(NAMESPACES, {"metadata": {"name": "other"}})
        yield made


@pytest.fixture(scope="module")
def token(cluster: Cluster) -> str:
    """An administrator's: who comes by the proxy shows one."""
    return account(cluster, "release-all", ALL)


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Cluster]:
    """Two Nodes whose agents are long dead."""
    for name in ("one", "two"):
        node(cluster, name, "Unhealthy", renewed=900)
    yield cluster
    clear(cluster)
    for path in (PODS, DAEMON_SETS, CONFIG_MAPS, *(one.replace("/nodeprep/", "/other/") for one in (PODS, LEASES))):
        cluster.call("DELETE", f"{path}?gracePeriodSeconds=0")


@pytest.fixture
def proxied(fleet: Cluster, token: str) -> Iterator[tuple[Proxy, Path]]:
    """The proxy before the API server, and the way to it."""
    with Proxy(fleet) as proxy:
        yield proxy, fleet.kubeconfig({"token": token}, {"server": proxy.url})


def pod(cluster: Cluster, name: str, namespace: str = "nodeprep") -> None:
    """An agent's, which no kubelet ends."""
    body = {"metadata": {"name": f"agent-{name}", "labels": LABELS}, "spec": {**CONTAINERS, "nodeName": name}}
    cluster.create(f"{NAMESPACES}/{namespace}/pods", body)


def end(cluster: Cluster, name: str) -> None:
    assert cluster.call("DELETE", f"{PODS}/agent-{name}?gracePeriodSeconds=0")[0] == 200


def daemon_set(cluster: Cluster) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": CONTAINERS}
    spec = {"selector": {"matchLabels": LABELS}, "template": template}
    cluster.create(DAEMON_SETS, {"metadata": {"name": "nodeprep"}, "spec": spec})


def ours(cluster: Cluster, name: str) -> list[str]:
    """All names on the Node that are nodeprep's."""
    told = cluster.call("GET", f"{NODES}/{name}")[1]
    metadata = told["metadata"]
    names = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
    names += [one["key"] for one in told["spec"].get("taints", [])]
    names += [one["type"] for one in told["status"].get("conditions", [])]
    return sorted(one for one in names if "nodeprep.io" in one)


WRITTEN = ["nodeprep.io/TrainingReady", "nodeprep.io/state", "nodeprep.io/unhealthy"]


def test_an_agent_that_no_daemon_set_runs_is_found(fleet: Cluster) -> None:
    pod(fleet, "one")  # as `kubectl delete daemonset --cascade=orphan` leaves it
    done = nodes(fleet, "release", "--all")
    assert done.returncode == 1, done.stdout
    assert "no DaemonSet nodeprep/nodeprep: nothing to stop\n" in done.stderr
    assert "the agent's pod lives on one: stop there what runs it; see kubectl -n nodeprep get pods -l " in done.stderr
    assert "nothing of ours is left on 1 Node; no agent runs there\n" in done.stdout
    assert ours(fleet, "one") == ["nodeprep.io/released"]
    assert ours(fleet, "two") == []


def test_pods_of_a_daemon_set_that_was_just_deleted_are_awaited(fleet: Cluster) -> None:
    pod(fleet, "one")
    thread = later(lambda: end(fleet, "one"), 4.0)
    done = nodes(fleet, "release", "--all")
    left = fleet.call("GET", PODS)[1]["items"]
    thread.join()
    assert left == []
    assert done.returncode == 0, done.stderr
    assert "nothing of ours is left on 2 Nodes; no agent runs there\n" in done.stdout
    assert ours(fleet, "one") == ours(fleet, "two") == []
    assert fleet.call("GET", LEASES)[1]["items"] == []


SIGNS: list[Callable[[Cluster], object]] = [
    lambda cluster: pod(cluster, "one", "other"),
    lambda cluster: lease(cluster, "two", "two"),
]


def lease(cluster: Cluster, name: str, holder: str) -> None:
    """In the namespace other."""
    body = {"metadata": {"name": f"agent-{name}"}, "spec": {"holderIdentity": holder, "renewTime": ago(900)}}
    cluster.create(LEASES.replace("/nodeprep/", "/other/"), body)


@pytest.mark.parametrize("sign", SIGNS)
def test_where_the_agents_are_elsewhere_nothing_is_touched(fleet: Cluster, sign: Callable[[Cluster], object]) -> None:
    assert fleet.call("DELETE", LEASES)[0] == 200
    sign(fleet)
    for words in (("--all",), ("--all", "--dry-run")):
        done = nodes(fleet, "release", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "--namespace nodeprep: found neither a DaemonSet nodeprep nor an agent's pod or Lease there,"
            " but in other, wanted the agents' namespace\n"
        )
    assert ours(fleet, "one") == ours(fleet, "two") == WRITTEN
    done = nodes(fleet, "release", "--all", "-n", "typo")
    assert done.returncode == 2
    undone = nodes(fleet, "release", "--all", "--undo", "-n", "typo")
    assert undone.returncode == 1
    assert "no DaemonSet typo/nodeprep: nothing to start; --namespace names another place\n" in undone.stderr


def test_what_was_deleted_with_its_namespace_leaves_nodes_that_can_be_released(fleet: Cluster) -> None:
    assert fleet.call("DELETE", LEASES)[0] == 200
    lease(fleet, "one", "somebody")  # not our agent's, whatever it is called
    done = nodes(fleet, "release", "--all", "-n", "deleted")
    assert done.returncode == 0, done.stderr
    assert "the defaults (no ConfigMap nodeprep-config in namespace deleted); --config FILE names others" in done.stderr
    assert "nothing of ours is left on 2 Nodes; no agent runs there\n" in done.stdout
    assert ours(fleet, "one") == ours(fleet, "two") == []


def then(proxy: Proxy, *rules: tuple[Deed, str, str, float]) -> Deed:
    """It is passed on, and from then on these rules hold."""

    def deed(exchange: Exchange) -> None:
        for rule in rules:
            proxy.rule(*rule)
        passes(exchange)

    return deed


FAILS = [refuses(429, Retry_After="1"), refuses(503), cuts]


@pytest.mark.parametrize("fails", FAILS)
def test_lists_that_fail_once_the_agents_are_stopped_are_asked_again(
    fleet: Cluster, proxied: tuple[Proxy, Path], fails: Deed
) -> None:
    proxy, file = proxied
    daemon_set(fleet)
    pod(fleet, "one")
    trouble = ((fails, "GET", PODS, 2), (fails, "GET", rf"{NODES}\?", 2))
    proxy.rule(then(proxy, *trouble), "PATCH", "daemonsets", 1)
    thread = later(lambda: end(fleet, "one"), 6.0)
    done = nodes(fleet, "release", "--all", file=file)
    thread.join()
    assert done.returncode == 0, done.stderr
    for again in ("cannot tell whether the agents ended: ", "cannot look at the fleet: "):
        told = [line for line in done.stderr.splitlines() if line.startswith(f"looking again: {again}")]
        assert told, done.stderr
        # A connection that is cut ends in one way or another, and what changes is told again.
        assert all(one != following for one, following in pairwise(told)), done.stderr
    assert "nothing of ours is left on 2 Nodes; the agents are stopped and can be deleted now\n" in done.stdout
    assert ours(fleet, "one") == ours(fleet, "two") == []


@pytest.mark.parametrize("path", [PODS, rf"{NODES}\?"])
def test_where_it_gives_up_it_says_how_the_agents_start_again(
    fleet: Cluster, proxied: tuple[Proxy, Path], path: str
) -> None:
    proxy, file = proxied
    daemon_set(fleet)
    proxy.rule(then(proxy, (refuses(403), "GET", path, 100)), "PATCH", "daemonsets", 1)
    done = nodes(fleet, "release", "--all", file=file)
    assert done.returncode == 3, done.stdout
    says = "the agents are stopped: run it again, or nodeprep nodes release --all --undo starts them\n"
    assert done.stderr.endswith(f"; {says}")
    selector = fleet.call("GET", f"{DAEMON_SETS}/nodeprep")[1]["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"nodeprep.io/released": "true"}
    assert nodes(fleet, "release", "--all", "--undo").returncode == 0
    template = fleet.call("GET", f"{DAEMON_SETS}/nodeprep")[1]["spec"]["template"]["spec"]
    assert "nodeSelector" not in template


CONFIG = "apiVersion: nodeprep.io/v1\nkind: Config\n"


@pytest.mark.parametrize("code", [403, 503])
@pytest.mark.parametrize("words", [("one",), ("--all",), ("--all", "--dry-run")])
def test_by_names_that_cannot_be_read_nothing_is_released(
    fleet: Cluster, proxied: tuple[Proxy, Path], tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    proxy, file = proxied
    proxy.rule(refuses(code), "GET", "configmaps")
    done = nodes(fleet, "release", *words, file=file)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"HTTP {code}" in done.stderr
    assert "--config FILE names others" in done.stderr
    assert ours(fleet, "one") == ours(fleet, "two") == WRITTEN
    (tmp_path / "config.yaml").write_text(CONFIG)
    assert nodes(fleet, "release", *words, "--config", str(tmp_path / "config.yaml"), file=file).returncode == 0


def test_it_proves_itself_by_the_names_that_it_cleaned_by(fleet: Cluster, proxied: tuple[Proxy, Path]) -> None:
    proxy, file = proxied
    text = f"{CONFIG}gate: {{unhealthy-taint: example.com/broken}}\n"
    fleet.create(CONFIG_MAPS, {"metadata": {"name": "nodeprep-config"}, "data": {"config.yaml": text}})
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    assert fleet.call("PATCH", f"{NODES}/one", {"spec": {"taints": [taint]}})[0] == 200
    proxy.rule(then(proxy, (refuses(503), "GET", "configmaps", 100)), "GET", "configmaps", 1)
    # What an agent writes back once, when all was taken off.
    seen: list[str] = []

    def writes_back(exchange: Exchange) -> None:
        reply = exchange.passed_on()
        if not seen:
            seen.append(exchange.path)
            assert fleet.call("PATCH", f"{NODES}/one", {"spec": {"taints": [taint]}})[0] == 200
        exchange.answer(reply)  # not sooner: with it the program goes on to look whether something came back

    proxy.rule(writes_back, "PATCH", f"{NODES}/one/status")
    done = nodes(fleet, "release", "--all", file=file)
    assert done.returncode == 0, done.stderr
    assert seen
    assert "taints" not in fleet.call("GET", f"{NODES}/one")[1]["spec"]


NO_CONFIG = [
    ("apiVersion: nodeprep.io/v1\nkind: Profile\nname: x\n", "config.yaml:2: kind: found 'Profile', wanted Config"),
    ("apiVersion: v1\nkind: Config\n", "config.yaml:1: apiVersion: found 'v1', wanted nodeprep.io/v1"),
    (f"{CONFIG}gates: {{}}\n", "config.yaml:3: gates: found 'gates', wanted 'gate'"),
    (f"{CONFIG}gate: {{unhealthy: a/b}}\n", "config.yaml:3: gate.unhealthy: found 'unhealthy', wanted "),
    ("a: b\n", "config.yaml:1: kind: found nothing, wanted Config"),
]


@pytest.mark.parametrize(("text", "says"), NO_CONFIG)
@pytest.mark.parametrize("words", [("release", "--all"), ("lint",), ()])
def test_a_file_that_is_no_configuration_names_nothing(
    fleet: Cluster, tmp_path: Path, words: tuple[str, ...], text: str, says: str
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    done = nodes(fleet, *words, "--config", str(tmp_path / "config.yaml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert ours(fleet, "one") == WRITTEN


def test_a_node_that_goes_while_it_is_released_is_no_mistake(fleet: Cluster) -> None:
    def goes() -> None:
        until(lambda: "nodeprep.io/released" in ours(fleet, "two"), "two is told")
        assert fleet.call("DELETE", f"{NODES}/two")[0] == 200

    thread = later(goes, 0.1)
    done = nodes(fleet, "release", "one", "two")
    thread.join()
    assert done.returncode == 0, done.stderr
    assert "two: the Node no longer exists\n" in done.stdout
    assert "one: the annotation nodeprep.io/released stops all writes" in done.stdout


@pytest.mark.parametrize("fails", FAILS)
def test_reset_waits_on_while_the_server_is_in_trouble(
    fleet: Cluster, proxied: tuple[Proxy, Path], fails: Deed
) -> None:
    proxy, file = proxied
    proxy.rule(then(proxy, (fails, "GET", rf"{NODES}\?", 2)), "PATCH", f"{NODES}/one", 1)

    def agent() -> None:
        wish = asked(fleet, "one")
        signal.sigtimedwait((), 4.0)
        done = {"metadata": {"annotations": {"agent.nodeprep.io/reset": wish}}}
        assert fleet.call("PATCH", f"{NODES}/one", done)[0] == 200

    thread = later(agent, 0.1)
    done = nodes(fleet, "reset", "one", "--timeout", "40s", file=file)
    thread.join()
    assert (done.returncode, done.stdout) == (0, "one: reset\n"), done.stderr
    assert done.stderr.count("looking again: cannot look at the fleet: ") == 1


def test_reset_says_whose_answer_it_cannot_see(fleet: Cluster, proxied: tuple[Proxy, Path]) -> None:
    proxy, file = proxied
    proxy.rule(then(proxy, (refuses(503), "GET", rf"{NODES}\?", 100)), "PATCH", f"{NODES}/one", 1)
    done = nodes(fleet, "reset", "one", "--timeout", "3s", file=file)
    assert (done.returncode, done.stdout) == (3, "")
    assert "asked one, and cannot tell whether it was done: cannot look at the fleet: " in done.stderr


def test_who_may_not_see_leases_is_told_before_the_wait(fleet: Cluster, proxied: tuple[Proxy, Path]) -> None:
    proxy, file = proxied
    proxy.rule(refuses(403), "GET", "/leases")
    done = nodes(fleet, "one", "two", "--wait", "2s", file=file)
    assert done.returncode == 1
    assert done.stderr.count("cannot tell which agents are alive") == 1
    assert done.stderr.index("cannot tell which agents are alive") < done.stderr.index("waiting: ")


def test_a_namespace_without_a_lease_may_be_the_wrong_one(fleet: Cluster) -> None:
    fleet.create(NODES, {"metadata": {"name": "bare", "labels": {"pool": POOL}}})
    note = "no agent's Lease in namespace other; --namespace names another\n"
    assert nodes(fleet, "-n", "other").stderr == note
    assert nodes(fleet, "-n", "other", "bare").stderr == ""
    assert nodes(fleet).stderr == ""


def test_lint_says_by_which_names_it_goes(fleet: Cluster) -> None:
    says = "names of taints and labels: the defaults (no ConfigMap nodeprep-config in namespace other)"
    assert says in nodes(fleet, "lint", "-n", "other").stderr
