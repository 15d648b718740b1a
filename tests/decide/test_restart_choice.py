"""Which containers may be restarted: tables over what a runtime says, and that a name alone chooses none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import restart_choice
from nodeprep.decide.restart_choice import SeenContainer
from nodeprep.facts.kubernetes.cri_containers import ContainerMount, RunningContainer
from nodeprep.facts.kubernetes.cri_sandboxes import PodSandbox

PLUGINS = "/var/lib/kubelet/device-plugins"
POD = "kube-system/plugin"


def container(pod: str = POD, name: str = "main", sandbox: str = "s1") -> RunningContainer:
    namespace, _, of = pod.partition("/")
    return RunningContainer(f"{pod}/{name}", namespace, of, "uid-1", name, sandbox)


MOUNTS = [
    # what it mounts                       whether it serves a plugin
    ([ContainerMount(PLUGINS)], True),
    ([ContainerMount(f"{PLUGINS}/")], True),
    ([ContainerMount("/dev"), ContainerMount(PLUGINS)], True),
    ([ContainerMount(PLUGINS, is_read_only=True)], False),  # our own kubelet-books looks at it
    ([ContainerMount(PLUGINS, is_read_only=True), ContainerMount(PLUGINS)], True),
    ([ContainerMount(f"{PLUGINS}/nvidia.sock")], False),
    ([ContainerMount(f"{PLUGINS}-of-mine")], False),
    ([ContainerMount(f"/host{PLUGINS}")], False),
    ([ContainerMount(f"{PLUGINS}/../device-plugins")], False),
    ([ContainerMount("/var/lib/kubelet")], False),  # a storage driver does
    ([ContainerMount("/")], False),  # an exporter does
    ([ContainerMount("")], False),
    ([], False),
]


@pytest.mark.parametrize(("mounts", "serves"), MOUNTS)
def test_what_serves_a_plugin(mounts: list[ContainerMount], serves: bool) -> None:
    seen = SeenContainer(container(), tuple(mounts))
    assert restart_choice.of_plugin(POD, [seen]) == ((seen.container,) if serves else ())


def test_only_those_of_the_pod_and_of_them_only_those_that_serve() -> None:
    serves = (ContainerMount(PLUGINS),)
    seen = [
        SeenContainer(container(), serves),
        SeenContainer(container(name="exporter")),
        SeenContainer(container("team/plugin"), serves),
        SeenContainer(container("kube-system/plugin-2"), serves),
    ]
    assert restart_choice.of_plugin(POD, seen) == (container(),)


TERWAY = "kube-system/terway-eniip-x7k2p"
SANDBOX = PodSandbox("s1", "kube-system", "terway-eniip-x7k2p", "uid-1")
TERWAYS = [
    # a container                           sandboxes of the label                     whether it is Terway's
    (container(TERWAY, "terway"), [SANDBOX], True),
    (container("kube-system/other", "terway"), [SANDBOX], True),  # the label says it, and no name of a pod
    (container(TERWAY, "policy"), [SANDBOX], False),
    (container(TERWAY, "terway"), [], False),  # a pod that calls itself so
    (container(TERWAY, "terway", "s2"), [SANDBOX], False),
    (container("team/terway-eniip-x7k2p", "terway"), [SANDBOX], False),
    (container("team/terway", "terway"), [PodSandbox("s1", "team", "terway", "uid-1")], False),
    (container(TERWAY, "terway", ""), [SANDBOX], False),
]


@pytest.mark.parametrize(("one", "labelled", "is_terway"), TERWAYS)
def test_what_is_terway(one: RunningContainer, labelled: list[PodSandbox], is_terway: bool) -> None:
    assert restart_choice.of_terway([one], labelled) == ((one,) if is_terway else ())


WORDS = st.sampled_from(["", "/", "/dev", "/data", "/var/lib/kubelet", f"{PLUGINS}/x.sock", "/var/lib/kubelet/pods"])
PODS = st.sampled_from([POD, TERWAY, "team/job", "team/terway-eniip-x7k2p"])
JOBS = st.builds(
    lambda pod, name, paths: SeenContainer(container(pod, name), tuple(ContainerMount(path) for path in paths)),
    PODS,
    st.sampled_from(["main", "terway", "train"]),
    st.lists(WORDS, max_size=3),
)


@given(st.lists(JOBS, max_size=6), PODS)
def test_whatever_is_named_nothing_else_is_chosen(seen: list[SeenContainer], pod: str) -> None:
    """Containers without the directory and without Terway's label, under any names."""
    assert restart_choice.of_plugin(pod, seen) == ()
    assert restart_choice.of_terway([one.container for one in seen], [PodSandbox("s9", "kube-system", "x", "u")]) == ()
