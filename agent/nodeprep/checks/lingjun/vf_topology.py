"""Are the virtual functions that Lingjun hands to pods there and bound to virtio-pci?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.lingjun import Lingjun, VfTopology, VirtualFunction
from nodeprep.model import (
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    Why,
    cannot_look,
    raw,
)

DRIVER = "virtio-pci"


def judge(seen: Seen) -> Iterator[Verdict]:
    for topology in seen[Lingjun].topologies:
        blind = raw(topology)["functions"]
        if isinstance(blind, Unreadable):
            about = Subject(topology.file, None, topology.file)
            yield malformed(topology, blind) if blind.kind is Why.MALFORMED else cannot_look(about, blind)
            continue
        yield from (verdict(function, topology.file) for function in topology.functions)


def malformed(topology: VfTopology, blind: Unreadable) -> Verdict:
    subject = Subject(topology.file, None, topology.file)
    message = f"{topology.file} is no topology ({blind.detail}): Terway cannot tell which function a pod gets"
    return Verdict(subject, Status.FAIL, "Malformed", message, None, "malformed", "a list of functions")


def verdict(function: VirtualFunction, file: str) -> Verdict:
    shows = f"virtual function {function.bdf} of {file}"
    if not function.present:
        message = f"{shows} is not on the PCI bus: lspci, and sriov_numvfs of its physical function"
        return Verdict(function.subject, Status.FAIL, "Missing", message, None, "absent", DRIVER)
    if function.driver == DRIVER:
        return Verdict(function.subject, Status.OK, "Bound", f"{shows} is bound to {DRIVER}", None, DRIVER, DRIVER)
    if function.driver is not None:
        message = f"{shows} is bound to {function.driver}; Terway needs {DRIVER}"
        return Verdict(function.subject, Status.FAIL, "OtherDriver", message, None, function.driver, DRIVER)
    if function.autoprobed is False:
        message = f"{shows} has no driver yet: its physical function lets none take it before Terway binds it"
        return Verdict(function.subject, Status.OK, "BoundLater", message, None, "none", DRIVER)
    message = f"{shows} has no driver: echo {function.bdf} > /sys/bus/pci/drivers/{DRIVER}/bind"
    return Verdict(function.subject, Status.FAIL, "NotBound", message, None, "none", DRIVER)


CHECK = Check(
    id="lingjun.vf-topology",
    question="Are the virtual functions that Lingjun hands to pods there and bound to virtio-pci?",
    why="Terway gives each pod a virtual function by this list: one that is gone leaves the pod without a network.",
    fix="lspci -nnk, beside the list that Terway reads.",
    reasons=(
        Reason("Malformed", Status.FAIL, "Restart the agent that writes {name}."),
        Reason("Missing", Status.FAIL, "See sriov_numvfs of the physical function of {place}."),
        Reason("Bound", Status.OK),
        Reason(
            "OtherDriver",
            Status.FAIL,
            "echo {place} > /sys/bus/pci/drivers/{observed}/unbind, then echo {place} > "
            "/sys/bus/pci/drivers/virtio-pci/bind.",
        ),
        Reason("BoundLater", Status.OK),
        Reason("NotBound", Status.FAIL, "echo {place} > /sys/bus/pci/drivers/virtio-pci/bind"),
    ),
    source="AliyunContainerService/terway plugin/driver/vf/vf.go",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Lingjun,),
    judge=judge,
)
