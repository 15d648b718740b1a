"""What the end of an agent closes: everything where the machine goes down, and nothing where only the agent ends.

The Node says it as a kubelet with shutdownGracePeriod does. tests/kubernetes has the ends that Kubernetes itself makes,
and with `make prove` a real kubelet and logind (test_graceful_shutdown.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeprep.agent.node_shutdown import ASK_TIMEOUT_SECONDS, CLOSING_TIMEOUT_SECONDS, KUBELET_SAYS
from nodeprep.decide.conditions import TRAINING_READY
from tests.cluster.published_node import (
    DOWN,
    STATE,
    UNHEALTHY,
    UP,
    Published,
    boot_id_file,
    configuration,
    published,
)
from tests.rigs.agent import OPEN
from tests.rigs.api_proxy import holds
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape

SPAN = 20.0  # seconds of passes until a node opens that has proven nothing
GRACE = 15.0  # seconds that the shipped pod has to end
# Ends. An agent has 2 s to ask and 5 to tell, so a machine that stands still may keep it from both in one.
TRIES = 5


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def kubelet_says(one: Published, status: str, message: str) -> None:
    """The Ready condition of the Node."""
    ready = {"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": message}
    others = [told for told in one.object().get("status", {}).get("conditions", []) if told["type"] != "Ready"]
    one.patch({"status": {"conditions": [*others, ready]}}, "status")


def goes_down(one: Published, settled: Callable[[], None], message: str = KUBELET_SAYS) -> None:
    """Lets the agent of a Node that goes down end, once it is `settled`. In one of the ends the Node has to be closed.

    After another one the machine stays.
    """
    ends = list[str]()
    for _ in range(TRIES):
        settled()
        kubelet_says(one, "False", message)
        began = time.monotonic()
        assert one.agent.stop() == 0
        took = time.monotonic() - began
        told = one.agent.lines("closed-for-shutdown")
        if [line["trouble"] for line in told] == [""] and took < GRACE:
            print(f"closed and ended {took:.1f} s after SIGTERM")
            return
        ends.append(f"{took:.1f} s: {told}")
        stays(one)
    raise AssertionError(f"closed in none of these ends: {ends}")


def stays(one: Published) -> None:
    """The machine does not go down, and there is another agent."""
    one.proxy.lift()
    kubelet_says(one, "True", "kubelet is posting ready status")
    one.agent.start()
    one.agent.wait("started")


def test_a_node_that_shuts_down_is_closed_before_it_is_gone(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """Over the reboot the Node has our taint, so that no pod comes in before the agent has looked."""
    config = configuration(span=SPAN)
    with (
        boot_id_file(here.node, tmp_path / "boot") as boot,
        published(cluster, here.node, tmp_path, "goes-down", config=config) as one,
    ):
        goes_down(one, one.ready, f"[container runtime is down, {KUBELET_SAYS}]")
        assert one.agent.gates() == set()
        assert one.taints()[UNHEALTHY]["value"] == "NodeShutdown"
        assert one.labels()[STATE] == "Bootstrap"
        assert not [key for key in one.labels() if key.startswith("nodeprep.io/profile.")]
        assert one.says() == "False NodeShutdown"
        assert KUBELET_SAYS in one.conditions()[TRAINING_READY]["message"]
        boot.write_text("another-boot\n")  # it went down, and came back
        kubelet_says(one, "True", "kubelet is posting ready status")
        one.agent.start()
        one.agent.wait("started", state="Bootstrap")
        assert one.taints()[UNHEALTHY]
        one.ready()


def test_what_was_closed_for_it_opens_at_once_if_the_machine_stays(
    cluster: Cluster, here: Checked, tmp_path: Path
) -> None:
    """`shutdown -c`, and the pod is made again: nothing has to be proven twice in one boot."""
    with published(cluster, here.node, tmp_path, "stays", config=configuration(span=SPAN)) as one:
        goes_down(one, one.ready)
        assert UNHEALTHY in one.taints()
        kubelet_says(one, "True", "kubelet is posting ready status")
        one.agent.start()
        one.agent.wait("started", state="Ready")
        began = time.monotonic()
        one.ready()
        print(f"open {time.monotonic() - began:.1f} s after the start")
        assert not one.agent.lines("state", to="Bootstrap")
        # The second end, without an announcement, leaves all as it is.
        one.agent.stop()
        assert (one.agent.gates(), one.taints()) == (OPEN, {})


def test_a_node_that_was_closed_opens_no_sooner_for_it(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    with published(cluster, here.node, tmp_path, "was-closed", config=configuration(span=SPAN)) as one:
        one.ready()
        with here.fault(DOWN, UP):
            goes_down(one, one.closed)
            assert one.says() == "False NodeShutdown"
            one.agent.start()
            one.closed()
            assert one.agent.gates() == set()


NOT_SAID = [
    ("True", "kubelet is posting ready status"),
    ("True", KUBELET_SAYS),  # an old message of a kubelet that is Ready again
    ("False", "container runtime network not ready"),
    ("Unknown", "Kubelet stopped posting node status."),
]


@pytest.mark.parametrize(("status", "message"), NOT_SAID)
def test_the_end_of_an_agent_alone_closes_nothing(
    cluster: Cluster, here: Checked, tmp_path: Path, status: str, message: str
) -> None:
    with published(cluster, here.node, tmp_path, f"only-agent-{NOT_SAID.index((status, message))}") as one:
        one.ready()
        kubelet_says(one, status, message)
        asked = time.monotonic()
        assert one.agent.stop() == 0
        assert one.agent.gates() == OPEN
        assert one.taints() == {}
        assert one.writes(asked) == []
        assert not one.agent.lines("closed-for-shutdown")


def goes_down_while_held(one: Published, verb: str) -> float:
    """Seconds that the agent of a Node that goes down takes to end, while the server holds such requests."""
    one.ready()
    kubelet_says(one, "False", KUBELET_SAYS)
    one.proxy.rule(holds(done=False), verb, one.path)
    began = time.monotonic()
    assert one.agent.stop() == 0
    return time.monotonic() - began


def is_tried(one: Published, verb: str, closes: bool) -> bool:
    """Whether one of some such ends is in time: the machine may stand still in the others.

    One in which the agent `closes` what it could ask about has to be among them.
    """
    for left in reversed(range(TRIES)):
        took = goes_down_while_held(one, verb)
        print(f"ended {took:.1f} s after SIGTERM")
        if took < GRACE and bool(one.agent.lines("closed-for-shutdown")) is closes:
            return True
        if left:
            stays(one)
    return False


def test_a_server_that_does_not_answer_leaves_all_as_it_is(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """Also where the Node would say it. The agent does not wait for longer than it may."""
    with published(cluster, here.node, tmp_path, "silent-server") as one:
        assert is_tried(one, "GET", closes=False), f"it asks for {ASK_TIMEOUT_SECONDS:g} s"
        assert one.agent.gates() == OPEN
        one.proxy.lift()
        assert one.taints() == {}


def test_a_server_that_takes_no_write_ends_in_time(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    with published(cluster, here.node, tmp_path, "no-writes") as one:
        assert is_tried(one, "PATCH", closes=True), f"the Node has {CLOSING_TIMEOUT_SECONDS:g} s"
        assert one.agent.gates() == set()
        (line,) = one.agent.lines("closed-for-shutdown")
        assert "could not be closed in time" in line["trouble"]
