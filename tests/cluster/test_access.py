"""`nodeprep check` on a node whose API server does not tell everything: no access, no answer, no right to read."""

from __future__ import annotations

import signal

import pytest

from nodeprep.checks import CHECKS
from nodeprep.facts.kubernetes.cluster import Cluster as Seen
from tests.cluster.accounts import RULES, account
from tests.cluster.known_node import BAD, Known, Said
from tests.rigs.cluster import ALIBABA
from tests.rigs.waiting import until

SHARED = "tcp-shared-eni"
BOOKS = ("imds.identity", "eni.addresses", "terway.mode", "terway.pod", "terway.ip-sufficient", "route.rules")


def test_without_access(shared_node: Known) -> None:
    """The profile asks what only Kubernetes can tell: each such gate says so."""
    said = shared_node.alone(SHARED)
    assert (said.bad, said.code) == (tuple(f"unknown {check} CannotLook" for check in BOOKS), 3)
    for check in BOOKS:
        (message,) = said.messages(check)
        assert "--kubeconfig FILE --node NAME" in message
        assert "\n" not in message


# Nobody expects a resource of a device plugin here, so nothing of one is unknown.
ASKING = {check.id for check in CHECKS.values() if Seen in check.needs} - {"plugin.registered", "plugin.allocatable"}


def others(said: Said) -> list[tuple[str, str, str]]:
    """What the checks say that ask Kubernetes for nothing."""
    ours = {check.id for check in CHECKS.values() if Seen not in (*check.needs, *check.uses)}
    found = said.findings("ok", *BAD)
    return [(one["status"], one["check"], one["subject"]["name"]) for one in found if one["check"] in ours]


def blind(said: Said) -> set[str]:
    """The checks that need Kubernetes and are unknown; no other fault is seen."""
    assert said.findings("fail", "warn") == []
    return {one["check"] for one in said.findings("unknown")} & ASKING


def test_a_server_that_is_frozen(shared_node: Known) -> None:
    """Its own checks are unknown after its deadline of 5 s; all others say what they ever say."""
    usual = shared_node.check(SHARED)
    shared_node.cluster.signal(signal.SIGSTOP)
    try:
        said = shared_node.check(SHARED, hung=ASKING)
    finally:
        shared_node.cluster.signal(signal.SIGCONT)
    assert (blind(said), said.code) == (ASKING, 3)
    # test_api.py holds the deadline against the same server, frozen too.
    assert all("timeout" in one["message"] for one in said.findings("unknown"))
    assert others(said) == others(usual)


def test_a_server_that_refuses(shared_node: Known) -> None:
    usual = shared_node.check(SHARED)
    away = shared_node.cluster.kubeconfig(cluster={"server": "https://127.0.0.1:1"})
    said = shared_node.check(SHARED, kubeconfig=away)
    assert (blind(said), said.code) == (ASKING, 3)
    assert all("refused" in one["message"] for one in said.findings("unknown"))
    assert others(said) == others(usual)


OF_NODE = ASKING - {"erdma.cr", "erdma.agent", "plugin.tolerates-gate"}
OF_PODS = {"terway.pod", "terway.veth", "route.rules", "erdma.cr", "erdma.agent", "plugin.tolerates-gate"}
DENIED = [
    # resource                 checks that cannot look                         exit code
    ("nodes", OF_NODE, 3),
    ("pods", OF_PODS, 3),
    (f"nodes.{ALIBABA}", {"eni.addresses", "eni.record", "terway.mode"}, 3),
    (f"podenis.{ALIBABA}", set(), 0),  # nothing here hangs on them
    (f"erdmadevices.{ALIBABA}", {"erdma.cr"}, 3),
    ("configmaps", {"terway.config"}, 3),
]


@pytest.mark.parametrize(("resource", "says", "code"), DENIED, ids=[row[0] for row in DENIED])
def test_a_record_that_may_not_be_read(shared_node: Known, resource: str, says: set[str], code: int) -> None:
    """`code`: 3 where one of them is a gate check."""
    name, _, group = resource.partition(".")
    kept = [
        rule | {"resources": [one for one in rule["resources"] if (one, rule["apiGroups"]) != (name, [group])]}
        for rule in RULES
    ]
    token = account(shared_node.cluster, f"not-{resource}", [rule for rule in kept if rule["resources"]])
    kubeconfig = shared_node.cluster.kubeconfig({"token": token})

    def answered() -> list[Said]:
        """Where this machine is busy the server may miss the 5 s that a look gives it."""
        said = shared_node.check(SHARED, kubeconfig=kubeconfig)
        return [] if any("timeout" in one["message"] for one in said.findings("unknown")) else [said]

    (said,) = until(answered, "a look in time")
    assert (blind(said), said.code) == (says, code)
    assert all(f"could not look at {resource}" in one["message"] for one in said.findings("unknown"))
    assert all("HTTP 403" in one["message"] for one in said.findings("unknown"))
