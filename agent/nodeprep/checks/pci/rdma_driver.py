"""Does every NIC that is made for RDMA offer an RDMA device?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import ANOTHER_RDMA_NAMESPACE, HANDING_ON
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import DeviceWant
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict
from nodeprep.shown import field_of

# What an Ethernet driver offers on the auxiliary bus, and the module that takes it (modules.alias, auxiliary:*).
AUXILIARY_DRIVERS = {
    "mlx5_core.rdma": "mlx5_ib",
    "mlx4_core.ib": "mlx4_ib",
    "ice.roce": "irdma",
    "ice.iwarp": "irdma",
    "i40e.iwarp": "irdma",
    "bnxt_en.rdma": "bnxt_re",
    "mana.rdma": "mana_ib",
}
OFFERED_AGAIN = "devlink dev param show pci/{place} (enable_roce, enable_rdma), then the firmware's settings."
SOFTWARE = {"rxe": "rdma_rxe", "siw": "siw"}  # link type and module (alias rdma-link-*)


def judge(seen: Seen) -> Iterator[Verdict]:
    # Virtual functions are not expected: what they offer is for their user.
    nics = [nic for nic in seen[Pci].nics if not nic.virtual_function]
    devices = seen[Rdma].devices
    known = any(field_of(one, "parent") is None for one in devices) or any(nic.rdma for nic in seen[Pci].nics)
    yield from seen.each(
        nics, lambda nic: verdict(nic, seen, lambda: known or any(one.parent is None for one in devices))
    )


def verdict(nic: PciDevice, seen: Seen, others: Callable[[], bool]) -> Verdict | None:
    """`others` says whether some NIC of this node carries a hardware RDMA device."""
    want = seen[Expected].devices.get(nic.address)
    here = seen[Rdma].at_address(nic.address)
    if want is not None and want.rdma and want.software:
        return offered(nic) if here else no_link(nic, want, want.software, seen)
    if nic.rdma or any(device.parent is None for device in here):
        return offered(nic)
    if seen[Rdma].at_address(""):
        return None  # a copy that lost the links from device to NIC: any of them may belong to this NIC
    idle = [one.name for one in nic.auxiliaries if one.driver is None] if seen[Pci].drivers_shown else []
    if idle:
        return no_driver(nic, idle[0], want, seen, others)
    return no_device(nic, want, seen, others)


def offered(nic: PciDevice) -> Verdict:
    return Verdict(nic.subject, Status.OK, "Offered", f"{nic.label} offers an RDMA device")


def no_link(nic: PciDevice, want: DeviceWant, kind: str, seen: Seen) -> Verdict:
    module, modules = SOFTWARE.get(kind, ""), seen.explaining(Modules)
    shows = f"{nic.label} carries no {kind} device; {want.rdma} is wanted by {seen[Expected].by}"
    if modules is not None and module and not modules.is_loaded(module):
        load = None if modules.has(module) is False else Remedy("kernel_modules", {"module": module})
        shows = f"{shows}; module {module} is not loaded" + ("" if load else ", and the running kernel has none")
        return fails(nic, "ModuleNotLoaded", shows, load, want.rdma, module=module)
    add = {"name": want.rdma or "", "type": kind, "netdev": nic.netdevs[0]} if nic.netdevs else None
    shows = f"{shows}; " + (f"its link is gone: rdma link add {want.rdma} type {kind}" if add else "it has no netdev")
    words = {"type": kind, "netdev": nic.netdevs[0] if nic.netdevs else "NETDEV"}
    return fails(nic, "NoRdmaLink", shows, Remedy("rdma_link_add", add) if add else None, want.rdma, **words)


def no_driver(nic: PciDevice, offer: str, want: DeviceWant | None, seen: Seen, others: Callable[[], bool]) -> Verdict:
    expected = seen[Expected]
    shows = f"{nic.label} offers {offer}, which no RDMA driver took"
    if want is not None and not want.rdma:
        return Verdict(nic.subject, Status.OK, "NotNeeded", f"{shows}; {expected.by} expects none")
    module, modules = AUXILIARY_DRIVERS.get(offer.rpartition(".")[0], ""), seen.explaining(Modules)
    # A link type that is not in this table: its alias names it, and modprobe takes the alias too.
    load = {"module": module or f"auxiliary:{offer.rpartition('.')[0]}"}
    if want is None and expected.shortage is None and expected.of_function(nic.address) is None and others():
        camps = expected.camps_at(nic.address)
        shows = f"{shows}; {camps or 'the rails of this node are other NICs'}: kept so on purpose?"
        return Verdict(nic.subject, Status.WARN, "NoRdmaDriver", shows, None, offer, args=load)
    rdma = want.rdma if want else None
    shows = f"{shows}; {rdma} is wanted by {expected.by}" if rdma else shows
    if not module:
        return fails(nic, "NoRdmaDriver", f"{shows}; load the module that takes it", None, rdma, **load)
    if modules is not None and modules.is_loaded(module):
        return fails(nic, "NotBound", f"{shows}; {module} is loaded and did not take it: see dmesg", None, rdma, **load)
    if modules is not None and modules.has(module) is False:
        return fails(nic, "NoModule", f"{shows}; the running kernel has no module {module}", None, rdma, **load)
    return fails(nic, "NoRdmaDriver", f"{shows}; load {module}", Remedy("kernel_modules", load), rdma, **load)


def no_device(nic: PciDevice, want: DeviceWant | None, seen: Seen, others: Callable[[], bool]) -> Verdict | None:
    expected = seen[Expected]
    shows = f"{nic.label} shows no RDMA device"
    if expected.kinds.away.get(nic.address) == ANOTHER_RDMA_NAMESPACE:
        shows = f"{shows}; its RDMA driver is bound and RDMA namespaces are exclusive: a pod has it"
        return Verdict(nic.subject, Status.OK, "InAnotherNamespace", shows)
    if want is None and others() and not nic.id:
        return None  # nobody is like it; where its id cannot be read, that is unknown
    handed = nic.driver in HANDING_ON
    none = "its driver offers none: RDMA is off in firmware or devlink (devlink dev param show)"
    off = f"{nic.driver} has it, which hands it on" if handed else none
    by = expected.of_function(nic.address) if want is None else expected.by if want.rdma else None
    if nic.driver is None and want is None:
        return None  # pci.driver-bound says so
    if by is not None:
        return fails(nic, "NoRdmaDevice", f"{shows}; one is wanted by {by}; {off}", None, None)
    if want is None and (camps := expected.camps_at(nic.address)):
        shows = f"{shows}; {camps}; {off}"
        return Verdict(nic.subject, Status.WARN, "NoRdmaDevice", shows, None, "no RDMA device", "an RDMA device")
    return None


def fails(nic: PciDevice, reason: str, message: str, remedy: Remedy | None, wanted: str | None, **args: str) -> Verdict:
    wants = wanted or "an RDMA device"
    return Verdict(nic.subject, Status.FAIL, reason, message, remedy, "no RDMA device", wants, args=args)


CHECK = Check(
    id="pci.rdma-driver",
    question="Does every NIC that is made for RDMA offer an RDMA device?",
    why="A NIC can carry Ethernet and still have no RDMA device: jobs then fall back to TCP in silence, or fail.",
    fix="lspci -nnk -s {place}, and dmesg | grep {place}.",
    reasons=(
        Reason("Offered", Status.OK),
        Reason("ModuleNotLoaded", Status.FAIL, "modprobe {module}, or install the kernel's package of extra modules."),
        Reason("NoRdmaLink", Status.FAIL, "rdma link add {expected} type {type} netdev {netdev}"),
        Reason("NotNeeded", Status.OK),
        Reason("NoRdmaDriver", Status.FAIL, "modprobe {module}, then dmesg | grep {place}."),
        Reason(
            "NoRdmaDriver",
            Status.WARN,
            "If RDMA is wanted on it: modprobe {module}, then dmesg | grep {place}. If not, waive this.",
        ),
        Reason(
            "NotBound",
            Status.FAIL,
            "dmesg | grep {place} says why; then, while no job runs, rmmod {module} && modprobe {module}.",
        ),
        Reason("NoModule", Status.FAIL, "Install the module {module} for the running kernel (uname -r)."),
        Reason("InAnotherNamespace", Status.OK),
        Reason("NoRdmaDevice", Status.FAIL, OFFERED_AGAIN),
        Reason("NoRdmaDevice", Status.WARN, OFFERED_AGAIN),
    ),
    source="Linux Documentation/driver-api/auxiliary_bus.rst, devlink-params.rst; rdma-core rdma-link(8)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Pci, Rdma, Expected),
    uses=(Modules,),
    after=("pci.driver-bound", "module.core", "erdma.device"),
    remedies=("kernel_modules", "rdma_link_add"),
    judge=judge,
)
