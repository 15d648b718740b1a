"""eni.missing-link: metadata against kernel, and the records of pods where the host has no link."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.eni.missing_link import CHECK
from nodeprep.facts.network.links import Links
from tests.cluster_values import pod_eni
from tests.cni_values import terway
from tests.eni_values import DENIED, SILENT, eth0, eth1, kernel, known, recorded
from tests.imds_values import NOT_ECS, SHARED_MAC, imds, instance
from tests.values import say, verdicts

EXCLUSIVE = terway(capabilities={"cni_exclusive_eni": "eniOnly"})
LOST, BARE = kernel(eth0()), kernel(eth1())
GONE = "fail NoLink pci_rescan()"

ALONE = [
    # links                                              Terway                  says
    (kernel(), terway(), "ok Link; ok Link"),
    (kernel(), EXCLUSIVE, "ok Link; ok Link"),
    (kernel(eth0(), eth1(name="veth0123abcd")), EXCLUSIVE, "ok Link; ok Link"),  # came back from a pod
    (LOST, terway(), f"ok Link; {GONE}"),
    (LOST, terway(present=False, capabilities=None), "ok Link; warn NotHere"),  # a machine of somebody's own
    (BARE, terway(present=False, capabilities=None), f"{GONE}; ok Link"),
    (LOST, EXCLUSIVE, "ok Link; unknown CannotLook"),
    (LOST, terway(capabilities=DENIED), "ok Link; unknown CannotLook"),
    (BARE, EXCLUSIVE, f"{GONE}; ok Link"),  # the primary is in no pod
]


@pytest.mark.parametrize(("links", "cni", "says"), ALONE)
def test_says_without_kubernetes(links: Links, cni: object, says: str) -> None:
    assert say(CHECK, imds(), links, cni) == says


def held(**different: Any) -> object:
    return recorded(pod_enis=(pod_eni(mac=SHARED_MAC, **different),))


RECORDS = [
    # what Kubernetes says                               says of the ENI without a link
    (recorded(), GONE),
    (held(), "ok InPod"),
    (held(type="Member", trunk="eni-trunk"), "ok InPod"),
    (held(type="Member", phase="Binding"), "ok Member"),
    (held(phase="Detaching"), "warn Changing"),
    (held(phase=""), "warn Changing"),
    (recorded(known(type="Member")), "ok Member"),
    (recorded(pod_enis=(pod_eni(),)), GONE),  # another one
    (recorded(pod_enis=DENIED), "unknown CannotLook"),
    (recorded(terway=DENIED, pod_enis=(pod_eni(mac=SHARED_MAC),)), "ok InPod"),
    (recorded(terway=DENIED), "unknown CannotLook"),
]


@pytest.mark.parametrize(("kubernetes", "says"), RECORDS)
def test_says_by_the_records_of_pods(kubernetes: object, says: str) -> None:
    assert say(CHECK, imds(), LOST, EXCLUSIVE, kubernetes) == f"ok Link; {says}"


def test_records_are_not_asked_for_where_every_link_is_there() -> None:
    assert say(CHECK, imds(), kernel(), terway(), recorded(pod_enis=DENIED, terway=DENIED)) == "ok Link; ok Link"


def test_elsewhere_and_blind() -> None:
    assert say(CHECK, NOT_ECS, LOST, terway()) == "absent Nothing"
    assert say(CHECK, imds(SILENT), kernel(), terway()) == "unknown CannotLook"
    assert say(CHECK, imds(instance(primary_mac="")), LOST, terway()) == f"ok Link; {GONE}"


def test_messages() -> None:
    _, lost = verdicts(CHECK, imds(), LOST, terway(), recorded())
    assert lost.message == (
        "eni-shared1 (00:16:3e:aa:bb:01) is attached by the metadata, no pod holds it, and the kernel has no link with "
        "that MAC: rescan the PCI bus, then see dmesg and lspci -nn"
    )
    assert lost.subject.place == SHARED_MAC
    _, pod = verdicts(CHECK, imds(), LOST, EXCLUSIVE, held())
    assert pod.message == (
        "eni-shared1 (00:16:3e:aa:bb:01) is attached by the metadata; default/worker-0 holds it (Bind)"
    )
    _, blind = verdicts(CHECK, imds(), LOST, EXCLUSIVE)
    assert "give --kubeconfig" in blind.message
