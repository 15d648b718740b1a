"""The names that the machine has at this moment, for the arguments of remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.decide.remedy_arguments import MachineNames
from nodeprep.facts.machine import pci
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network import links
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Unreadable
from nodeprep.repair import container_restart

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host


def observe(host: Host) -> MachineNames:
    """As the kernel shows them now. A kind that cannot be read has no names that count."""
    host.files.forget()
    link, function, device = links.observe(host), pci.observe(host), rdma.observe(host)
    running = container_restart.CriClient(host).running()
    return MachineNames(
        frozenset(one.name for one in link.links) if isinstance(link, Links) else None,
        frozenset(one.address for one in function.devices) if isinstance(function, Pci) else None,
        frozenset(one.name for one in device.devices) if isinstance(device, Rdma) else None,
        None if isinstance(running, Unreadable) else frozenset(one.where for one in running),
    )
