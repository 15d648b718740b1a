"""Is every extended resource that belongs to this node registered with its kubelet?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.checks.plugin import advertised
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.device_books import Book
from nodeprep.facts.kubernetes.device_plugins import DevicePlugins
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.kubernetes.resource_slices import ResourceSlices
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    wanted = {name: count for name, count in seen[Expected].resources.items() if count}
    if wanted and seen[Kubelet].present:
        of_profile = [book for book in advertised.books(seen, wanted) if book.resource in wanted]
        yield from seen.each(of_profile, lambda book: verdict(book, seen), advertised.subject)


def verdict(book: Book, seen: Seen) -> Verdict | None:
    about, by = advertised.subject(book), seen[Expected].by
    if book.healthy or book.capacity:
        return Verdict(about, Status.OK, "Registered", book.line)
    if book.sliced is not None:
        return Verdict(about, Status.OK, "InResourceSlices", book.line)
    node = seen[Cluster].node  # raises CannotLook: without it nobody knows of a resource that the kubelet does not name
    excuse = advertised.excuse(seen, book)
    if excuse is not None:
        return excuse
    wanted = str(seen[Expected].resources[book.resource])
    if book.capacity is None:
        message = f"{node.name} has no {book.resource}: no plugin registered it; {by} wants {wanted}"
        reason, observed = "NotRegistered", "absent"
    else:
        message = f"{book.line}; its plugin was registered and is gone; {by} wants {wanted}"
        reason, observed = "Lost", "0"
    message += advertised.about_pods(seen) + advertised.about_slices(seen, book)
    remedy = advertised.remedy("plugin_restart", seen, book.resource)
    args = {"node": node.name}
    return Verdict(about, Status.FAIL, reason, message, remedy, observed, wanted, args=args)


CHECK = Check(
    id="plugin.registered",
    question="Is every extended resource that belongs to this node registered with its kubelet?",
    why="The scheduler places no pod that asks for a resource which the Node does not have. The pods wait, and nothing "
    "on the node looks wrong.",
    fix="kubectl get pods -A -o wide --field-selector spec.nodeName={node}: is the plugin's pod there, and what does "
    "its log say?",
    reasons=(
        Reason("Registered", Status.OK),
        Reason("InResourceSlices", Status.OK),
        Reason("HeldByGate", Status.OK),
        Reason("Starting", Status.UNKNOWN),
        Reason("NotRegistered", Status.FAIL),
        Reason(
            "Lost",
            Status.FAIL,
            "Restart the plugin's pod (kubectl delete pod): it died, or it did not register again with a kubelet that "
            "was restarted. Its log says which.",
        ),
    ),
    source="kubernetes pkg/kubelet/cm/devicemanager/manager.go (GetCapacity, endpointStopGracePeriod)",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Kubelet, AllocatableDevices, Cluster, Expected),
    uses=(DevicePlugins, ResourceSlices),
    after=("plugin.kubelet-socket",),
    remedies=("plugin_restart",),
    judge=judge,
)
