"""Does this node forward packets of its pods, and will it after the next boot?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import Routes
from nodeprep.facts.network.sysctls import Sysctls
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

# Two names of one setting: net/ipv4/devinet.c gives what is written to the one to the other, and to every interface.
SWITCH = ("net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding")
SWITCH6 = "net.ipv6.conf.all.forwarding"
WANTED_BECAUSE = "1 is wanted by the pods that are routed here"
INTERFACES_IN_MESSAGE = 3  # interfaces in one message


def judge(seen: Seen) -> Iterator[Verdict]:
    terway, cni, routes = seen.get(Terway), seen.get(Cni), seen.get(Routes)
    ours = terway is not None and terway.present
    routed = routes is not None and bool(routes.out)
    if not (ours or routed or (cni is not None and cni.files and cni.kubelet)):
        return
    if not routed and is_ipv6_only(seen.get(Links)):
        yield of_ipv6(seen[Sysctls])
        return
    yield verdict(seen[Sysctls], ways(routes), ours=ours)


def is_ipv6_only(links: Links | None) -> bool:
    """Whether the node has addresses, and of IPv4 none but loopback ones."""
    addresses = [one for one in links.addresses or () if one.netdev != "lo"] if links else []
    return bool(addresses) and all(":" in one.address for one in addresses)


def of_ipv6(sysctls: Sysctls) -> Verdict:
    line = sysctls.at_boot(SWITCH6)
    if sysctls.value(SWITCH6) == 0:
        message = f"{SWITCH6} is 0, and this node has no IPv4 address; {WANTED_BECAUSE}: sysctl -w {SWITCH6}=1"
        return Verdict(NODE, Status.WARN, "ForwardingOff", message, None, "0", "1", args={"key": SWITCH6})
    if line is not None and line.value == "0":
        message = f"{line.where} sets {line.key} = 0 at the next boot; now it is 1, and {WANTED_BECAUSE}"
        return Verdict(NODE, Status.WARN, "ForwardingOffAtBoot", message, None, "0", "1", args={"key": SWITCH6})
    return Verdict(NODE, Status.OK, "Forwarding", "this node forwards IPv6 packets of its pods", observed="1")


def ways(routes: Routes | None) -> tuple[str, ...]:
    """The interfaces that packets of pods come in by, here and back; new ones begin as "default" says."""
    answers = (*routes.out, *routes.back) if routes is not None else ()
    return ("default", *sorted({answer.iif for answer in answers}))


def verdict(sysctls: Sysctls, links: tuple[str, ...], *, ours: bool) -> Verdict:
    def remedy(key: str) -> Remedy | None:
        return Remedy("sysctl_terway", {"key": key, "value": "1"}) if ours else None

    if sysctls.value(SWITCH[0]) == 0:
        message = f"{SWITCH[0]} is 0: this node forwards nothing; {WANTED_BECAUSE}: sysctl -w {SWITCH[0]}=1"
        return Verdict(
            NODE, Status.WARN, "ForwardingOff", message, remedy(SWITCH[0]), "0", "1", args={"key": SWITCH[0]}
        )
    closed = [f"net.ipv4.conf.{link}.forwarding" for link in links if sysctls.on(link, "forwarding") == 0]
    if closed:
        more = f" and {len(closed) - INTERFACES_IN_MESSAGE} more" if len(closed) > INTERFACES_IN_MESSAGE else ""
        message = f"{', '.join(closed[:INTERFACES_IN_MESSAGE])}{more} is 0; {WANTED_BECAUSE}: sysctl -w {closed[0]}=1"
        return Verdict(
            NODE, Status.WARN, "ForwardingOffHere", message, remedy(closed[0]), "0", "1", args={"key": closed[0]}
        )
    line = sysctls.at_boot(*SWITCH)
    if line is not None and line.value == "0":
        message = f"{line.where} sets {line.key} = 0 at the next boot; now it is 1, and {WANTED_BECAUSE}"
        about = {"key": SWITCH[0]}
        return Verdict(NODE, Status.WARN, "ForwardingOffAtBoot", message, remedy(SWITCH[0]), "0", "1", args=about)
    return Verdict(NODE, Status.OK, "Forwarding", "this node forwards packets of its pods", observed="1")


CHECK = Check(
    id="sysctl.forward",
    question="Does this node forward packets of its pods, and will it after the next boot?",
    why="With forwarding off every pod is alone: the kernel answers EHOSTUNREACH to what it should pass on.",
    fix="sysctl -w {key}=1, and the same in a file of /etc/sysctl.d that sorts after any that says 0.",
    reasons=(
        Reason("ForwardingOff", Status.WARN),
        Reason(
            "ForwardingOffAtBoot",
            Status.WARN,
            "Set {key} = 1 in a file of /etc/sysctl.d that sorts after the one that sets it now.",
        ),
        Reason("Forwarding", Status.OK),
        Reason("ForwardingOffHere", Status.WARN),
    ),
    source="Linux Documentation/networking/ip-sysctl.rst; kubeadm preflight (ip_forward); Terway utils EnsureNetConf",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Sysctls,),
    uses=(Terway, Cni, Routes, Links),
    remedies=("sysctl_terway",),
    judge=judge,
)
