"""eni.addresses: what the metadata assigns, against what Terway gives to pods."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.eni.addresses import CHECK
from tests.cluster_values import eni_address, eni_config
from tests.eni_values import DENIED, SILENT, eth0, kernel, known, recorded
from tests.imds_values import NOT_ECS, SHARED_MAC, imds, instance, interface, shared
from tests.values import say, verdicts

OWN = eni_address(address="192.168.0.130", primary=True, pod="")
POD = eni_address()
FREE = eni_address(address="192.168.0.135", pod="")
DEAD = eni_address(address="192.168.0.199", pod="default/b")

ROWS = [
    # metadata                                              record                                    says
    ({}, (OWN, POD, FREE), "ok Agree"),
    ({}, (POD, FREE), "ok Agree"),  # the primary address is no pod's
    ({}, (OWN, POD), "warn LeakedAddress"),
    ({}, (OWN, POD, eni_address(address="192.168.0.135", status="Deleting")), "ok Agree"),
    ({}, (OWN, POD, FREE, DEAD), "fail DeadAddress"),
    ({}, (OWN, POD, DEAD), "fail DeadAddress"),
    ({}, (OWN, POD, FREE, eni_address(address="192.168.0.199", status="Deleting")), "ok Agree"),
    ({"ipv6_addresses": ("fd00::1",)}, (OWN, POD, FREE), "ok Agree"),  # the record is of IPv4
    ({"addresses": SILENT}, (OWN,), "unknown CannotLook"),
]


@pytest.mark.parametrize(("metadata", "record", "says"), ROWS)
def test_says(metadata: dict[str, Any], record: tuple[Any, ...], says: str) -> None:
    cloud = imds(instance(interface(), shared(**metadata)))
    assert say(CHECK, cloud, kernel(), recorded(known(addresses=record))) == says


OTHERS = [
    (recorded(terway=None), "absent Nothing"),
    (recorded(known(mac="00:16:3e:aa:bb:99")), "absent Nothing"),
    (recorded(terway=DENIED), "unknown CannotLook"),
    (recorded(known(addresses=(OWN, POD, FREE, DEAD)), eni_config=eni_config(enable_ip_prefix=True)), "ok Agree"),
    (recorded(known(addresses=(OWN, POD, DEAD)), eni_config=eni_config(enable_ip_prefix=True)), "warn LeakedAddress"),
    (recorded(known(addresses=(OWN, POD, FREE, DEAD)), eni_config=None), "fail DeadAddress"),
]


@pytest.mark.parametrize(("kubernetes", "says"), OTHERS)
def test_says_by_what_terway_keeps(kubernetes: object, says: str) -> None:
    assert say(CHECK, imds(), kernel(), kubernetes) == says


def test_an_eni_in_a_pod_is_compared_too() -> None:
    assert say(CHECK, imds(), kernel(eth0()), recorded(known(addresses=(OWN, POD)))) == "warn LeakedAddress"


def test_elsewhere_and_blind() -> None:
    assert say(CHECK, NOT_ECS, kernel(), recorded()) == "absent Nothing"
    assert say(CHECK, imds(SILENT), kernel(), recorded()) == "unknown CannotLook"


def test_messages() -> None:
    (dead,) = verdicts(CHECK, imds(), kernel(), recorded(known(addresses=(OWN, POD, FREE, DEAD))))
    assert dead.message == (
        "eni-shared1 (00:16:3e:aa:bb:01) eth1 at 0000:00:06.0 has 3 addresses by the metadata; Terway's record "
        "counts on "
        "192.168.0.199 too, which the metadata does not have: a pod there reaches nobody (default/b on 192.168.0.199); "
        "see kubectl get nodes.network.alibabacloud.com, then terway-controlplane's log"
    )
    assert dead.subject.place == SHARED_MAC
    many = shared(addresses=tuple(f"192.168.0.{last}" for last in range(130, 140)))
    (leaked,) = verdicts(CHECK, imds(instance(interface(), many)), kernel(), recorded(known(addresses=(OWN,))))
    assert leaked.observed == "192.168.0.131, 192.168.0.132, 192.168.0.133, 192.168.0.134 and 5 more"
    free = eni_address(address="192.168.0.199", pod="")
    (unused,) = verdicts(CHECK, imds(), kernel(), recorded(known(addresses=(OWN, POD, FREE, free))))
    assert "(free for the next pod)" in unused.message
