"""An agent that is killed in the middle of telling the API server: the next start makes Node and Lease right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.published_node import (
    BOOTSTRAP,
    DOWN,
    FENCED,
    FOREIGN_CONDITION,
    FOREIGN_TAINT,
    UNHEALTHY,
    UP,
    Published,
    boot_id_file,
    configuration,
    create,
    denying,
    published,
)
from tests.rigs.api_proxy import delays, holds
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

NODE, STATUS, EVENTS = r"/nodes/[^/?]+$", "/status$", "/events$"
LEASES = "/leases(/|$)"  # and not the request by which an admission policy is tried
PODS, BLIND = "/api/v1/pods", 3.0  # what the choice of a profile waits for, and for how many seconds
LABELS = {"example.com/theirs": "b"}
CALM = 10.0  # seconds without a write after which nothing more is to come
MOST = 2  # Events of one transition: the one that a kill made us forget, and the one that is made after it


@dataclass(frozen=True, slots=True)
class Phase:
    """A request that the agent waits for when it is killed; `done`: it was carried out."""

    name: str
    method: str
    path: str
    done: bool

    @property
    def node(self) -> str:
        return f"killed-{self.name}-{'after' if self.done else 'before'}"


PHASES = [
    Phase(name, method, path, done)
    for name, method, path in (
        ("read", "GET", NODE),
        ("node", "PATCH", NODE),
        ("status", "PATCH", STATUS),
        ("event", "POST", EVENTS),
        ("lease", "", LEASES),
    )
    for done in (False, True)[: 1 if method == "GET" else 2]
]
ANEW = [Phase("anew", "PATCH", NODE, done) for done in (False, True)]


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def kill_in(phases: dict[Phase, Published]) -> set[Phase]:
    """Each as soon as it waits in its phase. Returns those that were killed before their gate files may open.

    An opening waits for its write for PATIENCE, and this machine may stand still for longer. Who has waited says so
    before the files open.
    """
    left, in_time = dict(phases), set[Phase]()
    while left:
        phase = until(partial(waiting, left), f"request that is held: {[phase.node for phase in left]}")[0]
        one = left[phase]
        one.agent.kill()
        if not one.agent.lines("profile-ready"):
            in_time.add(phase)
        one.proxy.lift()
        for asked in one.proxy.requests:
            asked.held = False
        del left[phase]
    return in_time


def waiting(phases: dict[Phase, Published]) -> list[Phase]:
    held = [phase for phase, one in phases.items() if any(asked.held for asked in one.proxy.requests)]
    return [phase for phase in held if phase.method != "GET" or is_ahead(phases[phase])]


def is_ahead(one: Published) -> bool:
    """Whether gate files say what the Node is yet to say: what waits to read it is about to write it."""
    return bool(one.agent.gates()) is is_tainted(one)


def hold(phases: dict[Phase, Published]) -> None:
    for phase, one in phases.items():
        one.proxy.rule(holds(done=phase.done), phase.method, phase.path)


def keeps_foreign(one: Published) -> None:
    assert one.taints()["example.com/theirs"] == FOREIGN_TAINT
    assert one.labels().items() >= LABELS.items()
    assert one.annotations().items() >= LABELS.items()
    assert one.conditions()["example.com/Theirs"] == FOREIGN_CONDITION


def test_in_every_phase_of_closing_and_opening(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    with ExitStack() as stack:
        every = {
            phase: stack.enter_context(published(cluster, here.node, tmp_path, phase.node, taints=[FOREIGN_TAINT]))
            for phase in PHASES
        }
        for one in every.values():
            one.patch({"metadata": {"labels": LABELS, "annotations": LABELS}})
            one.patch({"status": {"conditions": [*one.conditions().values(), FOREIGN_CONDITION]}}, "status")
        for one in every.values():
            one.ready()
        writing = {phase: one for phase, one in every.items() if phase.path != LEASES}
        leasing = {phase: one for phase, one in every.items() if phase.path == LEASES}

        with here.fault(DOWN, UP):
            hold(writing)
            kill_in(writing)
            for one in writing.values():
                one.agent.start()
            hold(leasing)  # the next is due within a minute; a start brings it at once
            for one in leasing.values():
                one.agent.kill()
                one.agent.start()
            kill_in(leasing)
            for one in leasing.values():
                one.agent.start()
            for one in every.values():
                one.closed()
                keeps_foreign(one)
            hold(writing)
        kill_in(writing)
        for one in writing.values():
            one.agent.start()
        for one in every.values():
            one.ready()
            keeps_foreign(one)
            assert set(one.taints()) == {"example.com/theirs"}

        for phase, one in every.items():
            until(partial(renewed, one), f"Lease of {one.name}")
            told = one.reasons()
            print(f"{phase.node}: {told}")
            assert told.count("AdministrativelyDown") <= MOST
            assert told.count("Ready") <= 1 + MOST
            # The link is up, and its routes follow a moment later: until then they are at fault, or only suspected.
            assert set(told) <= {"Bootstrap", "Ready", "AdministrativelyDown", "OtherInterface", "Unhealthy"}
            assert UNHEALTHY not in one.taints()


def test_in_the_first_taint_and_in_the_write_that_takes_it_off(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """Of another Node object, from which the taint of its registration goes too, and of another boot."""
    with ExitStack() as stack:
        boot_id = stack.enter_context(boot_id_file(here.node, tmp_path / "boot_id"))
        every = {
            phase: stack.enter_context(
                published(cluster, here.node, tmp_path, phase.node, config=configuration(span=5))
            )
            for phase in ANEW
        }
        for anew in (make_anew, partial(reboot, boot_id)):
            for one in every.values():
                one.ready()
                one.agent.kill()
            anew(*every.values())
            hold(every)
            for one in every.values():
                one.proxy.rule(delays(BLIND), "GET", PODS)  # it writes what it knows before it sees enough to judge
                one.agent.start()
            kill_in(every)
            for phase, one in every.items():
                assert (UNHEALTHY in one.taints()) is phase.done
                assert one.agent.gates() == set()
                one.agent.start()
            left = dict(every)
            while left:
                new = until(partial(those_that_are_new, left), f"word of their new lives: {[*left]}")
                hold({phase: left.pop(phase) for phase in new})
            in_time = kill_in(every)
            for phase, one in every.items():
                assert (one.taints() == {}) is phase.done
                assert one.agent.gates() == set() or phase not in in_time, "between the Node and the gate file"
                one.agent.start()
        for one in every.values():
            one.ready()
            assert one.taints() == {}


def those_that_are_new(phases: dict[Phase, Published]) -> list[Phase]:
    """Whose Node says all that is said before the first look; what comes next is that it is ready."""
    return [phase for phase, one in phases.items() if one.says() == "False Bootstrap"]


def is_tainted(one: Published) -> bool:
    return UNHEALTHY in one.taints()


def make_anew(*every: Published) -> None:
    for one in every:
        code, told = one.cluster.call("DELETE", one.path)
        assert code == 200, told
        create(one.cluster, one.name, [{"key": BOOTSTRAP, "effect": "NoSchedule"}])


def reboot(boot_id: Path, *every: Published) -> None:
    boot_id.write_text(f"{uuid4()}\n")
    for one in every:
        for gate in one.agent.gates():
            (one.agent.run / gate).unlink()  # it is on a tmpfs


def renewed(one: Published) -> bool:
    """Whether its Lease was written since the last start."""
    started = one.agent.wait("started")["time"]
    lease = one.lease()
    return lease is not None and lease["spec"]["renewTime"] > started


def test_nothing_is_said_twice_by_starts_alone(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """Two kills of an agent that has nothing new to say write nothing to the Node, and make no Event.

    The cluster has the admission policy, for on another one the condition says so once that was tested.
    """
    name = "killed-idle"
    with published(cluster, here.node, tmp_path, name, start=False) as one, denying(cluster, name, FENCED):
        one.agent.start()
        one.ready()
        until(lambda: one.reasons()[-1:] == ["Ready"], "Event")
        until(lambda: not one.writes(time.monotonic() - CALM), "all was said")
        before, told, begun = one.object(), one.reasons(), time.monotonic()
        for _ in range(2):
            one.agent.kill()
            started = time.monotonic()
            one.agent.start()
            one.agent.report()
            until(partial(one.proxy.asked, "", LEASES, started), "renewal of the Lease")
        assert one.writes(begun) == []
        assert one.object() == before
        assert one.reasons() == told
