"""The healthy devices of all plugins, by the kubelet's own word: before the Node says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.facts.kubernetes import kubelet, pod_resources
from nodeprep.facts.kubernetes.pod_resources import PluginDevices
from nodeprep.model import Fact, Shown, guarded, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host


@shown
class AllocatableDevices(Shown):
    """The healthy devices that plugins have registered with the kubelet; `present` as of the kubelet.

    They are those of now: what the Node says is up to 10 s older (`nodeStatusUpdateFrequency`).
    """

    at: float
    present: bool
    devices: tuple[PluginDevices, ...]


def observe(host: Host) -> AllocatableDevices:
    if not kubelet.is_present(host):
        return AllocatableDevices(host.now(), False, ())
    found = kubelet.asked(host, pod_resources.ALLOCATABLE, pod_resources.devices)
    return AllocatableDevices(host.now(), True, guarded(found))


FACT = Fact(AllocatableDevices, observe, every=10.0, live=True)
