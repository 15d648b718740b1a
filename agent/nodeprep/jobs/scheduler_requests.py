"""What a pod requests as kube-scheduler counts it (k8s.io/component-helpers/resource, PodRequests).

The sum of all containers and sidecars, or an init container with the sidecars before it where that is more. Then what
the pod as a whole states, for the resources that it may state, and the overhead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodeprep.jobs import quantities

Object = Mapping[str, Any]
Amounts = dict[str, int]  # billionths by resource

SIDECAR = "Always"  # the restartPolicy of an init container that goes on beside the others
POD_LEVEL = ("cpu", "memory")  # what a pod as a whole may request, and huge pages
HUGE_PAGES = "hugepages-"
INFEASIBLE = "Infeasible"  # reason of the condition PodResizePending of a resize that its kubelet refused


def requests(spec: Object, status: Object | None = None) -> Amounts:
    """The billionths that a pod requests by resource. `status` of a pod that runs: a resize counts by its larger end.

    A limit without a request is a request, as the API server writes it. Malformed quantities count as nothing: the API
    server has none.
    """
    actual = _Actual(status or {})
    total, sidecars, most = Amounts(), Amounts(), Amounts()
    for one in _objects(spec, "initContainers"):
        own = _stated(one)
        if one.get("restartPolicy") == SIDECAR:
            _add(sidecars, actual.larger(one, own))
            _raise(most, sidecars)
        else:
            _add(own, sidecars)
            _raise(most, own)
    for one in _objects(spec, "containers"):
        _add(total, actual.larger(one, _stated(one)))
    _add(total, sidecars)
    _raise(total, most)
    _pod_level(total, _mapping(spec.get("resources")))
    _add(total, _amounts(spec.get("overhead")))
    return total


class _Actual:
    """What the kubelet says that the containers of a pod have."""

    def __init__(self, status: Object) -> None:
        self.known = {
            str(one.get("name")): one
            for key in ("containerStatuses", "initContainerStatuses")
            for one in _objects(status, key)
            if "allocatedResources" in one or "resources" in one
        }
        self.refused = any(
            one.get("type") == "PodResizePending" and one.get("reason") == INFEASIBLE
            for one in _objects(status, "conditions")
        )

    def larger(self, container: Object, stated: Amounts) -> Amounts:
        told = self.known.get(str(container.get("name")))
        if told is None:
            return stated
        found = Amounts() if self.refused else dict(stated)
        _raise(found, _amounts(_mapping(told.get("resources")).get("requests")))
        _raise(found, _amounts(told.get("allocatedResources")))
        return found


def _pod_level(total: Amounts, resources: Object) -> None:
    """Replace what the pod as a whole states; a limit alone counts where no container requests that resource."""
    stated, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
    for name, count in limits.items():
        if name not in stated and name not in total:
            stated[name] = count
    total.update({name: count for name, count in stated.items() if name in POD_LEVEL or name.startswith(HUGE_PAGES)})


def _stated(container: Object) -> Amounts:
    resources = _mapping(container.get("resources"))
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(found: object) -> Amounts:
    return {name: quantities.nanos(value) or 0 for name, value in _mapping(found).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _raise(total: Amounts, other: Amounts) -> None:
    for name, count in other.items():
        total[name] = max(total.get(name, 0), count)


def _mapping(found: object) -> Object:
    return found if isinstance(found, Mapping) else {}


def _objects(part: Object, key: str) -> Iterator[Object]:
    found = part.get(key)
    return (one for one in found if isinstance(one, Mapping)) if isinstance(found, list | tuple) else iter(())
