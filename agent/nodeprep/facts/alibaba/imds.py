"""What the ECS instance metadata service says: the instance, and the ENIs that the cloud attached to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.door_values import Instance
from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

PRODUCT = "/sys/class/dmi/id/product_name"
ECS = "Alibaba Cloud ECS"  # cloud-init, DataSourceAliYun.ALIYUN_PRODUCT


@shown
class Imds(Shown):
    """`instance` is None on a node that is not an ECS instance: nothing was asked. It is Unreadable without an answer.

    `milliseconds` is how long the answers took altogether, None where there were none.
    """

    at: float
    instance: Instance | None
    milliseconds: float | None


def observe(host: Host) -> Imds:
    """Ask on ECS instances only: elsewhere another machine may have its address."""
    at, product = host.now(), host.files.text(PRODUCT)
    if isinstance(product, Unreadable) and product.kind is not Why.MALFORMED:
        return Imds(at, guarded(product), None)
    if product != ECS:
        return Imds(at, None, None)
    told = host.imds()
    if isinstance(told, Unreadable):
        return Imds(at, guarded(told), None)
    return Imds(at, told.instance, told.milliseconds)


FACT = Fact(Imds, observe, frozenset({Topic.LINK}), every=300.0, deadline=5.0, live=True, rest=15.0)
