"""What an agent tells a real API server at its start: a new Node, another boot, a lost disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from nodeprep.decide.conditions import TRAINING_READY
from nodeprep.publish.node_status import NOT_ENFORCED
from nodeprep.publish.side_writes import FIRST_RETRY_SECONDS
from tests.cluster.published_node import (
    BOOTSTRAP,
    BUSY,
    CHECK,
    FENCED,
    HELD,
    UNHEALTHY,
    Object,
    Published,
    boot_id_file,
    configuration,
    denying,
    published,
    seconds,
)
from tests.rigs.agent import OPEN
from tests.rigs.api_proxy import delays, holds
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

REGISTERED = [{"key": BOOTSTRAP, "value": "", "effect": "NoSchedule"}]
BY_HARDWARE = configuration(profile="")
PORT = 9912
PODS = "/api/v1/pods"
LOOK = 1.5  # seconds that a look takes at least where nobody answers this: it waits for 2
REBOOTS = 5  # at most: a machine that stands still keeps the taint of one waiting too
LATER = 120.0  # seconds of passes: a busy machine tells Bootstrap in them, and is then given a short span


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def test_a_new_node_in_mode_gate(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """The taint of the registration goes when the node is ready, in the same write as the last of ours."""
    slow = configuration(span=LATER)
    with published(cluster, here.node, tmp_path, "new-gate", taints=REGISTERED, config=slow) as one:
        told = until(lambda: if_new(one.object()), "condition")
        assert {taint["key"] for taint in told["spec"]["taints"]} == {BOOTSTRAP, UNHEALTHY}
        one.agent.configure(configuration())
        one.ready()
        assert one.taints() == {}
        until(lambda: one.reasons() == ["Bootstrap", "Ready"], "Events of both transitions, and no more")
        until(one.lease, "Lease, now that the checks ran", BUSY)


def if_new(told: Object) -> Object:
    """A Node whose condition says Bootstrap; else nothing."""
    conditions = {one["type"]: one["reason"] for one in told.get("status", {}).get("conditions", [])}
    return told if conditions.get(TRAINING_READY) == "Bootstrap" else {}


def test_a_new_node_in_mode_observe(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """Nobody may be kept waiting by a taint that this mode would never remove; and it sets none."""
    with published(
        cluster, here.node, tmp_path, "new-observe", taints=REGISTERED, config=configuration("observe", span=LATER)
    ) as one:
        until(lambda: "BootstrapTaintIgnored" in one.reasons(), "Event BootstrapTaintIgnored")
        assert one.taints() == {}
        one.agent.configure(configuration("observe"))
        one.ready()
        events = ["Bootstrap", "BootstrapTaintIgnored", "Ready"]
        until(lambda: one.reasons() == events, "Events, of the taint before it was ready, and no more")
        assert one.taints() == {}


def test_a_cluster_without_a_admission_policy(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """Gates open all the same, and the Node says what is missing until it is there. The agent finds that by itself.

    It looks at each doubling of the time that it runs.
    """
    begun = time.monotonic()
    with published(cluster, here.node, tmp_path, "new-without-policy", port=PORT) as one:
        one.ready()
        until(
            lambda: NOT_ENFORCED in one.conditions()[TRAINING_READY]["message"],
            "word of it in the condition",
            CHECK + BUSY,
        )
        assert one.agent.metrics()["nodeprep_admission_policy_ok"] == 0
        assert one.agent.metrics()["nodeprep_node_ok"] == 1
        with denying(cluster, one.name, FENCED):
            soon = 1.25 * (seconds(begun) + FIRST_RETRY_SECONDS) + BUSY
            until(lambda: one.agent.metrics()["nodeprep_admission_policy_ok"] == 1, "admission policy", soon)
            until(lambda: NOT_ENFORCED not in one.agent.condition()["message"], "word of it that is taken back", BUSY)
            assert one.says().startswith("True ")


@pytest.fixture
def boot_id(here: Checked, tmp_path: Path) -> Iterator[Path]:
    with boot_id_file(here.node, tmp_path / "boot_id") as file:
        yield file


def test_a_reboot(cluster: Cluster, here: Checked, boot_id: Path, tmp_path: Path) -> None:
    """The same Node object: the taint is the first that is written, before anything was looked at."""
    with published(cluster, here.node, tmp_path, "rebooted") as one:
        one.ready()
        one.proxy.rule(delays(2 * LOOK), "GET", PODS)
        behind = (is_tainted_behind_a_look(one, boot_id, number) for number in range(1, 1 + REBOOTS))
        assert not all(behind), "the taint waited for a look"


def is_tainted_behind_a_look(one: Published, boot_id: Path, number: int) -> bool:
    """Whether the first write of a Node that reboots came so late after the first look that it may have waited for it.

    The `number` of the reboot is that of the times that the Node was told to be ready.
    """
    until(lambda: one.reasons().count("Ready") >= number, "Event, so that nothing of this life is still to be said")
    one.agent.kill()
    boot_id.write_text(f"{uuid4()}\n")
    for name in OPEN:
        (one.agent.run / name).unlink()  # it is on a tmpfs
    one.agent.configure(configuration(span=LATER))  # so that the taint is there until it was seen
    asked_before, begun = len(one.audited()), time.monotonic()
    one.agent.start()
    taint = until(lambda: one.taints().get(UNHEALTHY, {}), "taint")
    until(lambda: one.says() == "False Bootstrap", "condition")
    one.agent.configure(configuration())
    written = one.writes(begun)[0].at
    print(f"reboot: from the start of the process to the taint {written - begun:.2f} s")
    assert taint["value"] == "Bootstrap"
    assert written - begun < BUSY
    one.ready()
    wrote = [asked for asked in one.audited()[asked_before:] if not asked.startswith(("get", "list"))]
    assert wrote[:2] == [f"patch {one.path}", f"patch {one.path}/status"]
    first_look = one.proxy.asked("GET", PODS, begun)
    return bool(first_look) and written >= first_look[0].at + LOOK


def test_a_reboot_in_mode_observe(cluster: Cluster, here: Checked, boot_id: Path, tmp_path: Path) -> None:
    with published(cluster, here.node, tmp_path, "rebooted-observe", config=configuration("observe")) as one:
        one.ready()
        until(lambda: one.reasons()[-1:] == ["Ready"], "Event, so that nothing of this life is still to be said")
        one.agent.kill()
        boot_id.write_text(f"{uuid4()}\n")
        one.agent.configure(configuration("observe", span=LATER))
        one.agent.start()
        until(lambda: "Bootstrap" in one.reasons()[1:], "Event of the new start")
        assert one.taints() == {}
        one.agent.configure(configuration("observe"))
        until(lambda: one.reasons()[-1] == "Ready", "Event of readiness")
        assert one.taints() == {}


@pytest.mark.parametrize("silence", [0.0, 8.0])
def test_a_lost_disk(cluster: Cluster, here: Checked, tmp_path: Path, silence: float) -> None:
    """What the Node kept holds, also where the server answers late: the node must not pass for one without RDMA."""
    name = f"lost-disk-{silence:.0f}"
    with published(cluster, here.node, tmp_path, name, config=BY_HARDWARE) as one:
        chosen = until(lambda: one.annotations().get(HELD, ""), "annotation of what hardware chose")
        assert "rdma" not in chosen
        one.agent.kill()
        for file in one.agent.state.iterdir():
            file.unlink()
        one.annotate(HELD, f"{chosen},rdma-roce")  # as one keeps it whose NIC is gone now
        if silence:
            one.proxy.rule(holds(done=False))
        begun = time.monotonic()
        one.agent.start()
        one.agent.wait("profile-chosen")
        time.sleep(max(0.0, silence - seconds(begun)))
        one.proxy.lift()
        until(lambda: len(one.writes(begun)) > 1, "writes to the Node")
        until(lambda: "rdma-roce" in {part["name"] for part in one.agent.report()["agent"]["profiles"]}, "its profile")
        assert set(one.annotations()[HELD].split(",")) == {chosen, "rdma-roce"}
        assert UNHEALTHY in one.taints()
        assert not {gate for gate in one.agent.gates() if gate.startswith("rdma")}
