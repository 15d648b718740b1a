"""What a pod requests: the rules of kube-scheduler, each with the case that a sum of containers gets wrong."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.jobs import quantities, scheduler_requests
from tests.jobs.job_values import pod, wanting

Object = dict[str, Any]


def counted(spec: Object, status: Object | None = None) -> dict[str, int]:
    return quantities.counted(scheduler_requests.requests(spec, status))


def cpu(amount: str, **fields: Any) -> Object:
    return wanting(requests={"cpu": amount}, **fields)


SPECS = [
    ("a limit alone is a request", pod(wanting(limits={"cpu": "2"})), {"cpu": 2000}),
    ("a request wins over its limit", pod(wanting(limits={"cpu": "2"}, requests={"cpu": "1"})), {"cpu": 1000}),
    ("all containers", pod(cpu("1"), cpu("500m")), {"cpu": 1500}),
    ("the larger of init and sum", pod(cpu("1"), initContainers=[cpu("3")]), {"cpu": 3000}),
    ("init containers run one after the other", pod(cpu("1"), initContainers=[cpu("2"), cpu("2")]), {"cpu": 2000}),
    (
        "a sidecar goes on beside containers",
        pod(cpu("1"), initContainers=[cpu("1", restartPolicy="Always")]),
        {"cpu": 2000},
    ),
    (
        "an init container runs beside the sidecars before it",
        pod(cpu("1"), initContainers=[cpu("2", restartPolicy="Always"), cpu("4")]),
        {"cpu": 6000},
    ),
    (
        "and not beside those after it",
        pod(cpu("1"), initContainers=[cpu("4"), cpu("2", restartPolicy="Always")]),
        {"cpu": 4000},
    ),
    ("overhead comes on top", pod(cpu("1"), overhead={"cpu": "250m"}), {"cpu": 1250}),
    ("the pod as a whole", pod(cpu("1"), resources={"requests": {"cpu": "3"}}), {"cpu": 3000}),
    ("its limit alone", pod(wanting(), resources={"limits": {"cpu": "3"}}), {"cpu": 3000}),
    ("its limit where containers request", pod(cpu("1"), resources={"limits": {"cpu": "3"}}), {"cpu": 1000}),
    (
        "it states no extended resource",
        pod(wanting(limits={"nvidia.com/gpu": "1"}), resources={"requests": {"nvidia.com/gpu": "4"}}),
        {"nvidia.com/gpu": 1},
    ),
    ("a thousand is 1k", pod(wanting(limits={"rdma/hca": "1k"})), {"rdma/hca": 1000}),
    (
        "numbers without quotes",
        pod(wanting(limits={"cpu": 2, "nvidia.com/gpu": 1})),
        {"cpu": 2000, "nvidia.com/gpu": 1},
    ),
    ("thousandths are summed before they are rounded", pod(cpu("0.1m"), cpu("0.1m")), {"cpu": 1}),
    ("nothing", pod(), {}),
]


@pytest.mark.parametrize(("whole", "wanted"), [case[1:] for case in SPECS], ids=[case[0] for case in SPECS])
def test_what_a_pod_requests(whole: Object, wanted: dict[str, int]) -> None:
    assert counted(whole["spec"]) == wanted


def test_a_pod_that_is_being_resized_counts_by_the_larger() -> None:
    spec = pod(cpu("1"))["spec"]
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]}
    assert counted(spec, status) == {"cpu": 3000}
    refused = {**status, "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    assert counted(pod(cpu("8"))["spec"], refused) == {"cpu": 3000}
