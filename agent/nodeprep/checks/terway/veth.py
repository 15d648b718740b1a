"""Has every running pod the veth that Terway makes for it, and is it up?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, Pod
from nodeprep.facts.network.cni import Cni, CniNetwork
from nodeprep.facts.network.links import Links
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict, raw

PREFIX = "cali"  # Terway's default of veth_prefix, for the tools of Calico
DIGITS = 11  # of the sum: IFNAMSIZ leaves 15 characters
VETH_OWNER = "terway"


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Terway].present or seen[Cluster].node.ignored_by_terway:
        return
    options = plugin_options(seen.get(Cni))
    if str(options.get("eniip_virtual_type", "")).lower() == "ipvlan" or options.get("disable_host_peer") is True:
        return  # neither makes a veth for each pod
    prefix, links = str(options.get("veth_prefix") or PREFIX), seen[Links]
    pods = [pod for pod in seen[Cluster].pods if pod.phase == "Running" and not pod.host_network and not pod.deleted]
    yield from seen.each(pods, lambda pod: verdict(pod, prefix, links), subject)


def plugin_options(cni: Cni | None) -> dict[str, str | int | bool]:
    """What the configuration that a runtime takes says to Terway's plugin; nothing where it cannot be read."""
    first = cni.first if cni is not None else None
    network = raw(first)["network"] if first is not None else None
    plugins = network.plugins if isinstance(network, CniNetwork) else ()
    return next((dict(plugin.options) for plugin in plugins if plugin.type == VETH_OWNER), {})


def subject(pod: Pod) -> Subject:
    return Subject(pod.where, None, pod.where)


def veth_name(pod: Pod, prefix: str = PREFIX) -> str:
    """The host's end of a pod's eth0."""
    import hashlib  # noqa: PLC0415 - 3 ms, and few nodes have a pod of Terway's

    return prefix + hashlib.sha1(f"{pod.namespace}.{pod.name}".encode(), usedforsecurity=False).hexdigest()[:DIGITS]


def verdict(pod: Pod, prefix: str, links: Links) -> Verdict:
    name = veth_name(pod, prefix)
    link = links.named(name)
    words = {"namespace": pod.namespace, "pod": pod.name, "veth": name}
    about, addresses = subject(pod), ", ".join(pod.addresses) or "no address"
    if link is None:
        message = (
            f"{pod.where} ({addresses}) runs, and its veth {name} is not here: nothing reaches it. See ip link, and "
            "whether another CNI made its network (cni.first); a new pod in its place gets one"
        )
        return Verdict(about, Status.WARN, "NoVeth", message, observed="none", expected=name, args=words)
    shows = f"veth {name} of {pod.where} ({addresses}) is {link.operstate}"
    if not link.up:
        message = f"{shows} and was set down here: ip link set {name} up"
        return Verdict(about, Status.WARN, "VethDown", message, observed=link.operstate, expected="up", args=words)
    if not link.connected:  # veth_open (drivers/net/veth.c): it has a carrier while its other end is up
        message = f"{shows}: it is set up and has no carrier, so its other end, in the pod, is down"
        return Verdict(about, Status.WARN, "PeerDown", message, observed=link.operstate, expected="up", args=words)
    return Verdict(about, Status.OK, "Veth", f"{pod.where} has {name}", observed=name)


CHECK = Check(
    id="terway.veth",
    question="Has every running pod the veth that Terway makes for it, and is it up?",
    why="A pod without it is Running and Ready for Kubernetes, and cut off from services, probes and its peers.",
    fix="Delete the pod, so that its controller recreates it (kubectl -n {namespace} delete pod {pod}); where many "
    "lack it, see which CNI made their network.",
    reasons=(
        Reason("NoVeth", Status.WARN),
        Reason("VethDown", Status.WARN, "ip link set {veth} up"),
        Reason("PeerDown", Status.WARN, "In the pod's network namespace: ip link set eth0 up; or recreate the pod."),
        Reason("Veth", Status.OK),
    ),
    source="Terway pkg/link/veth.go (VethNameForPod: cali and 11 digits of SHA-1 of NAMESPACE.POD)",
    severity=Severity.WARN,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Terway, Cluster, Links),
    uses=(Cni,),
    after=("imds.identity",),
    judge=judge,
)
