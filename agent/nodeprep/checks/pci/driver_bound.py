"""Is every NIC that this node needs bound to its driver?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE, Erdma
from nodeprep.facts.expected import like_nics
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import HANDING_ON
from nodeprep.facts.expected.like_nics import LikeNics
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import INFINIBAND_CLASS, UNNAMED, Pci, PciDevice
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict, raw
from nodeprep.values import Value

LikesById = Mapping[object, LikeNics]
ERDMA = "erdma"
OWN_LOADER = {ERDMA: "erdma_load"}  # needs a parameter that depends on the node


class DriverWish(Value):
    """Who wants a driver on a NIC, and which if they say so. `firm`: a profile wants it, and not only its like NICs."""

    by: str
    driver: str | None = None
    firm: bool = False


def judge(seen: Seen) -> Iterator[Verdict]:
    pci = seen[Pci]
    if not pci.drivers_shown:
        return
    nics = [nic for nic in pci.nics if not nic.virtual_function]  # virtual functions wait for their user
    likes = like_nics.by_id(nics, pci)
    yield from seen.each(nics, lambda nic: verdict(nic, seen) if nic.driver else unbound(nic, likes, seen))


def verdict(nic: PciDevice, seen: Seen) -> Verdict:
    driver, want = nic.driver or "", seen[Expected].device(nic, lambda device: device.driver)
    shows = f"{nic.label} is bound to {driver}"
    if want is not None and UNNAMED not in (driver, want.value) and module_of(driver) != module_of(want.value):
        shows = f"{shows}; {want.value} is wanted by {want.by}"
        return Verdict(nic.subject, Status.FAIL, "WrongDriver", shows, None, driver, want.value)
    if driver in HANDING_ON:
        return Verdict(nic.subject, Status.OK, "PassedThrough", f"{shows}: handed on, not ours", None, driver)
    return Verdict(nic.subject, Status.OK, "Bound", shows, None, driver, want.value if want else "")


def unbound(nic: PciDevice, likes: LikesById, seen: Seen) -> Verdict:
    shows = f"{nic.label} has no driver"
    wish = wish_of(nic, likes, seen[Expected])
    erdma = seen.get(Erdma)
    if erdma is not None and nic.address in (erdma.deferred or ()):
        return Verdict(nic.subject, Status.OK, "Deferred", f"{shows} yet: it waits, and erdma.device says for what")
    override = nic.driver_override
    if override in HANDING_ON and (wish is None or not wish.firm):
        return Verdict(nic.subject, Status.OK, "PassedThrough", f"{shows}; it is kept for {override}")
    if wish is None:
        if camps := seen[Expected].camps_at(nic.address):
            shows = f"{shows}; {camps}; no job is known to need it"
            return Verdict(nic.subject, Status.WARN, "UnlikeOthers", shows, None, "none", "a driver")
        if bound := likes[nic.id].bound:
            shows = (
                f"{shows}, while {len(bound)} like it have theirs, as {bound[0].label} has; no job is known to need it"
            )
            return Verdict(nic.subject, Status.WARN, "UnlikeOthers", shows, None, "none", "a driver")
        return Verdict(nic.subject, Status.OK, "NotNeeded", f"{shows}; nothing asks for it")
    if override:
        shows = f"{shows}: driver_override lets only {override} have it; it is wanted by {wish.by}"
        return Verdict(nic.subject, Status.FAIL, "DriverOverride", shows, None, "none", wish.driver or "a driver")
    reason, cause, remedy = why_unbound(nic, wish, seen.explaining(Modules))
    shows = f"{shows}; it is wanted by {wish.by}; {cause}"
    return Verdict(nic.subject, Status.FAIL, reason, shows, remedy, "none", wish.driver or "a driver")


def wish_of(nic: PciDevice, likes: LikesById, expected: Expected) -> DriverWish | None:
    want = expected.device(nic, lambda device: device)
    if want is not None and (want.value.driver or want.value.rdma):
        return DriverWish(want.by, None if want.value.driver == UNNAMED else want.value.driver, firm=True)
    like, wanted_by = likes[nic.id], expected.of_function(nic.address)
    if wanted_by is not None:
        return DriverWish(wanted_by, like.usual)
    if nic.pci_class.startswith(INFINIBAND_CLASS) and expected.is_needed(nic.address):
        return DriverWish("its class, an InfiniBand controller", like.usual)
    if raw(nic)["id"] == VENDOR_DEVICE:
        return DriverWish("its kind, an Elastic RDMA interface", ERDMA)
    if expected.shortage is not None and like.offer:
        return DriverWish(f"{expected.shortage.by}, which finds {expected.shortage.have}", like.usual)
    return None


def why_unbound(nic: PciDevice, wish: DriverWish, modules: Modules | None) -> tuple[str, str, Remedy | None]:
    claims = modules.for_modalias(raw(nic)["modalias"]) if modules else ()
    module = module_of(wish.driver) if wish.driver else ""
    if claims and module not in claims:
        module = claims[0]
    if modules is None or not module:
        none_claims = modules is not None and modules.has(module) is False
        if none_claims:
            return "NoModule", "no module of the running kernel claims it: install the driver's package", None
        return "NoDriver", f"whether {module or 'a module for it'} is loaded is not shown", load(module)
    if modules.is_loaded(module):
        bind = Remedy("driver_bind", {"bdf": nic.address, "driver": wish.driver or module})
        return "NotBound", f"module {module} is loaded and did not take it: see dmesg", bind
    if modules.has(module) is False:
        return "NoModule", f"the running kernel has no module {module}: install the driver's package", None
    return "NoDriver", f"module {module} is not loaded", load(module)


def load(module: str) -> Remedy | None:
    if module in OWN_LOADER:
        return Remedy(OWN_LOADER[module])
    return Remedy("kernel_modules", {"module": module}) if module else None


def module_of(driver: str) -> str:
    return driver.replace("-", "_")


CHECK = Check(
    id="pci.driver-bound",
    question="Is every NIC that this node needs bound to its driver?",
    why="Without its driver a NIC has neither netdev nor RDMA device: it is as good as not there.",
    fix="lspci -nnk -s {place}, and dmesg | grep {place}: then give it the driver that is wanted.",
    reasons=(
        Reason(
            "WrongDriver",
            Status.FAIL,
            "Where no virtual machine and no program has it: echo {place} > /sys/bus/pci/drivers/{observed}/unbind, "
            "then echo {place} > /sys/bus/pci/drivers/{expected}/bind; take away what bound it at boot (driverctl "
            "list-overrides).",
        ),
        Reason("PassedThrough", Status.OK),
        Reason("Bound", Status.OK),
        Reason("Deferred", Status.OK),
        Reason("NotNeeded", Status.OK),
        Reason("UnlikeOthers", Status.WARN),
        Reason(
            "DriverOverride",
            Status.FAIL,
            "echo > /sys/bus/pci/devices/{place}/driver_override, then echo {place} > /sys/bus/pci/drivers_probe.",
        ),
        Reason(
            "NoModule",
            Status.FAIL,
            "Install the driver for this kernel (uname -r); lspci -nn -s {place} says for which device.",
        ),
        Reason(
            "NoDriver",
            Status.FAIL,
            "modprobe $(cat /sys/bus/pci/devices/{place}/modalias), then dmesg | grep {place}.",
        ),
        Reason(
            "NotBound",
            Status.FAIL,
            "dmesg | grep {place}, then echo {place} > /sys/bus/pci/drivers/{driver}/bind.",
        ),
    ),
    source="Linux Documentation/ABI/testing/sysfs-bus-pci (driver, driver_override); depmod(8) modules.alias",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Pci, Expected),
    uses=(Modules, Erdma),
    after=("pci.answers", "erdma.module"),
    remedies=("kernel_modules", "driver_bind", "erdma_load"),
    judge=judge,
)
