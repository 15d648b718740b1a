"""Whether a device is idle: every source in every state, whom a class asks, and what holds for all evidence."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import idleness
from nodeprep.decide.idleness import (
    COMMANDS,
    IdleDoubt,
    IdleHolder,
    Idleness,
    IdleSource,
    IdleTarget,
    SourceState,
)
from nodeprep.decide.remedy_header import Idle, ParameterKind, SafetyClass
from tests.idle_values import ABSENT, DENIED, FAILED, QUIET, goal, header, held
from tests.values import BDF, device, link, links, nic, pci, port, rdma

ALL = tuple(IdleSource)
OF_S1 = (IdleSource.DEFAULT_ROUTE, IdleSource.API_ROUTE, IdleSource.BONDS)
FULL = (SafetyClass.S2, SafetyClass.S3)
STATES = {"quiet": QUIET, "absent": ABSENT, "held": None, "failed": FAILED}


def quiet(**different: SourceState) -> dict[IdleSource, SourceState]:
    """All sources say that nobody uses it, but these."""
    return {source: different.get(source.name, QUIET) for source in ALL}


@pytest.mark.parametrize(("source", "state", "safety"), list(product(ALL, STATES, (SafetyClass.S1, *FULL))))
def test_each_source_in_each_state(source: IdleSource, state: str, safety: SafetyClass) -> None:
    said = STATES[state] or held(source)
    found = idleness.judge(goal(), quiet(**{source.name: said}), safety)
    asked = safety is not SafetyClass.S1 or source in OF_S1
    assert found.holders == (said.holders if asked else ())
    assert found.doubts == ((IdleDoubt(source, DENIED),) if asked and state == "failed" else ())
    assert found.is_idle is (not asked or state in ("quiet", "absent"))


@pytest.mark.parametrize("source", ALL)
def test_a_source_that_nobody_asked_is_a_doubt(source: IdleSource) -> None:
    evidence = quiet()
    del evidence[source]
    found = idleness.judge(goal(), evidence, SafetyClass.S2)
    assert [doubt.source for doubt in found.doubts] == [source]
    assert not found.is_idle


def test_a_source_that_failed_names_the_holders_that_it_saw_before() -> None:
    seen = held(IdleSource.OPEN_DEVICE_NODES).holders
    evidence = quiet(OPEN_DEVICE_NODES=SourceState(seen, failed=DENIED))
    assert idleness.judge(goal(), evidence, SafetyClass.S2) == Idleness(
        seen, (IdleDoubt(IdleSource.OPEN_DEVICE_NODES, DENIED),)
    )


DAEMONS = [
    # command of the holder   ignored                       still holds
    ("opensm", ("opensm",), False),
    ("opensm", (), True),
    ("nvidia-persiste", ("nvidia-persistenced",), False),  # the kernel keeps 15 characters
    ("opensm2", ("opensm",), True),
    ("opens", ("opensm",), True),
    ("", ("",), True),
    ("dcgm-exporter", ("dcgm*",), False),
    ("dcgm", ("dcgm*",), False),
    ("dcgm-exporter", ("dcgm?",), True),
    ("ib_write_bw", ("dcgm*", "opensm"), True),
    ("nvidia-persiste", ("nvidia-persistenced*",), False),  # what the kernel cut off fits
    ("nvidia-persist", ("nvidia-persistenced*",), True),
    ("nvidia-persistx", ("nvidia-persistenced*",), True),
    ("nvidia-persiste", ("nvidia-[op]*",), False),
    ("nvidia-persiste", ("nvidia-[ab]*",), True),
    ("OpenSM", ("opensm",), True),
]


@pytest.mark.parametrize(("command", "ignored", "holds"), DAEMONS)
def test_an_ignored_daemon_may_have_nodes_open(command: str, ignored: tuple[str, ...], holds: bool) -> None:
    evidence = quiet(OPEN_DEVICE_NODES=held(IdleSource.OPEN_DEVICE_NODES, command))
    assert idleness.judge(goal(), evidence, SafetyClass.S2, ignored).is_idle is not holds


def test_the_words_name_who_uses_it_what_failed_and_the_command_that_shows_more() -> None:
    holder = IdleHolder(IdleSource.DEFAULT_ROUTE, "eth2", "default route via 10.0.0.1")
    found = Idleness((holder,), (IdleDoubt(IdleSource.POD_RESOURCES, DENIED),))
    assert found.words() == (
        ("eth2 is in use: default route via 10.0.0.1 (default-route; ip route show default; ip -6 route show default)"),
        (
            "not proved idle, so in use: pod-resources could not be asked: /somewhere: denied (Permission denied) "
            "(kubectl get pods -A --field-selector spec.nodeName=NODE)"
        ),
    )
    assert Idleness().words() == ()
    assert set(COMMANDS) == set(ALL)


ASKED = [
    # target                                                          class            asks
    (goal(), SafetyClass.S2, set(ALL)),
    (goal(), SafetyClass.S3, set(ALL)),
    (goal(), SafetyClass.S4, set(ALL)),
    (goal(), SafetyClass.S1, set(OF_S1)),
    (goal(idle=Idle.NOTHING, functions=(), rdma=()), SafetyClass.S1, set(OF_S1)),
    (goal(netdevs=()), SafetyClass.S1, set()),
    (goal(netdevs=()), SafetyClass.S2, set(ALL)),  # the interface of the function may be in another namespace
    (IdleTarget(Idle.RDMA, is_whole_rdma=True), SafetyClass.S2, set(ALL[:5])),
    (IdleTarget(Idle.PLUGIN, pod="kube-system/plugin"), SafetyClass.S2, {ALL[0], ALL[1]}),
    (IdleTarget(Idle.PLUGIN, pod="kube-system/plugin"), SafetyClass.S1, {ALL[0], ALL[1]}),
]


@pytest.mark.parametrize(("target", "safety", "asked"), ASKED)
def test_whom_a_class_asks(target: IdleTarget, safety: SafetyClass, asked: set[IdleSource]) -> None:
    assert set(idleness.sources(target, safety)) == asked


@pytest.mark.parametrize("idle", [Idle.NETDEV, Idle.FUNCTION, Idle.PLUGIN])
def test_a_remedy_that_names_no_device_is_never_proved_idle(idle: Idle) -> None:
    found = idleness.judge(IdleTarget(idle), quiet(), SafetyClass.S2)
    assert not found.is_idle
    assert f"{idle} must be idle, and no argument names one" in found.words()[0]


def states(source: IdleSource) -> st.SearchStrategy[SourceState]:
    """What one source may say. A holder is of the source that names it."""
    commands = st.sampled_from(("", "opensm", "python3"))
    return st.sampled_from((QUIET, ABSENT, FAILED)) | st.builds(held, st.just(source), commands)


EVIDENCE = st.fixed_dictionaries({source: states(source) for source in ALL})
TARGETS = st.sampled_from((goal(), goal(netdevs=()), goal(idle=Idle.NETDEV), IdleTarget(Idle.RDMA, is_whole_rdma=True)))
CLASSES = st.sampled_from((SafetyClass.S1, *FULL))


@given(EVIDENCE, TARGETS, CLASSES, st.sampled_from(ALL))
def test_a_failed_source_never_leaves_a_target_idle(
    evidence: dict[IdleSource, SourceState], target: IdleTarget, safety: SafetyClass, source: IdleSource
) -> None:
    found = idleness.judge(target, {**evidence, source: FAILED}, safety, ("opensm",))
    assert not (found.is_idle and source in idleness.sources(target, safety))


@given(EVIDENCE, TARGETS, CLASSES)
def test_an_ignored_daemon_only_removes_its_open_device_nodes_and_contexts(
    evidence: dict[IdleSource, SourceState], target: IdleTarget, safety: SafetyClass
) -> None:
    strict, lenient = (idleness.judge(target, evidence, safety, names) for names in ((), ("opensm",)))
    assert lenient.doubts == strict.doubts
    gone = [one for one in strict.holders if one not in lenient.holders]
    ignored = (IdleSource.OPEN_DEVICE_NODES, IdleSource.RDMA_CONTEXTS)
    assert all(one.source in ignored and one.command == "opensm" for one in gone)
    assert [one for one in strict.holders if one not in gone] == list(lenient.holders)


@given(EVIDENCE, TARGETS, CLASSES, st.sampled_from(ALL))
def test_one_more_holder_never_makes_it_idle(
    evidence: dict[IdleSource, SourceState], target: IdleTarget, safety: SafetyClass, source: IdleSource
) -> None:
    more = SourceState((*evidence[source].holders, IdleHolder(source, "eth2", "one more")), "", evidence[source].failed)
    before = idleness.judge(target, evidence, safety)
    after = idleness.judge(target, {**evidence, source: more}, safety)
    assert set(before.holders) <= set(after.holders)
    assert before.is_idle or not after.is_idle


@given(EVIDENCE, TARGETS)
def test_the_safe_class_asks_less(evidence: dict[IdleSource, SourceState], target: IdleTarget) -> None:
    lax, full = (idleness.judge(target, evidence, safety) for safety in (SafetyClass.S1, SafetyClass.S2))
    assert set(lax.holders) <= set(full.holders)
    assert set(lax.doubts) <= set(full.doubts)
    assert lax.is_idle or not full.is_idle


VF, OTHER, GPU_PLACE = "0000:5c:00.2", "0000:86:00.0", "0000:18:00.0"
NODE = (
    pci(
        nic(),
        nic(address=VF, virtual_function=True, rdma=(), netdevs=()),
        nic(address=OTHER, rdma=("mlx5_5",), netdevs=("eth5",)),
        nic(address=GPU_PLACE, id="10de:2330", pci_class="030200", rdma=(), netdevs=()),
    ),
    rdma(
        port(),
        port(device="mlx5_5", bdf=OTHER, netdev="eth5"),
        port(device="rxe0", bdf="", netdev="eth7"),
        devices=(device(), device(name="mlx5_5", bdf=OTHER), device(name="rxe0", bdf="", parent="eth7")),
    ),
    links(link(), link(name="eth5", bdf=OTHER, index=6), link(name="eth7", bdf="", index=7)),
)
TARGET_ROWS = [
    # parameter             argument          target
    (ParameterKind.NETDEV, "eth2", IdleTarget(Idle.NETDEV, ("eth2",), (BDF, VF), ("mlx5_3",))),
    (ParameterKind.NETDEV, "eth7", IdleTarget(Idle.NETDEV, ("eth7",), (), ("rxe0",))),
    (ParameterKind.NETDEV, "eth5", IdleTarget(Idle.NOTHING, ("eth5",), (OTHER,), ("mlx5_5",))),
    (ParameterKind.PCI_FUNCTION, BDF, IdleTarget(Idle.FUNCTION, ("eth2",), (BDF, VF), ("mlx5_3",))),
    (ParameterKind.PCI_SLOT, OTHER, IdleTarget(Idle.FUNCTION, ("eth5",), (OTHER,), ("mlx5_5",))),
    (ParameterKind.PCI_FUNCTION, GPU_PLACE, IdleTarget(Idle.FUNCTION, functions=(GPU_PLACE,), has_gpu=True)),
    (ParameterKind.PCI_SLOT, "0000:99:00.0", IdleTarget(Idle.FUNCTION, functions=("0000:99:00.0",))),
]


@pytest.mark.parametrize(("kind", "argument", "target"), TARGET_ROWS)
def test_what_the_arguments_disturb(kind: ParameterKind, argument: str, target: IdleTarget) -> None:
    named = header(target.idle, one=kind, mtu=ParameterKind.INTEGER)
    found = idleness.target(named, {"one": argument, "mtu": "9000"}, *NODE, virtual_functions={BDF: (VF,)})
    assert found == target
    assert not found.lacks_device


def test_a_remedy_of_all_rdma_a_pod_and_an_argument_that_nobody_declares() -> None:
    assert idleness.target(header(Idle.RDMA), {}, *NODE) == IdleTarget(Idle.RDMA, is_whole_rdma=True)
    plugin = header(Idle.PLUGIN, pod=ParameterKind.POD)
    assert idleness.target(plugin, {"pod": "kube-system/x"}, *NODE) == IdleTarget(Idle.PLUGIN, pod="kube-system/x")
    with pytest.raises(KeyError):
        idleness.target(plugin, {"other": "x"}, *NODE)
