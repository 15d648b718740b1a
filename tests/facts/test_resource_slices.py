"""ResourceSlices: which GPUs a driver of dynamic resource allocation offers here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cluster_objects, resource_slices
from nodeprep.facts.kubernetes.resource_slices import PCI_BUS_ID, ResourceSlices
from nodeprep.model import Unreadable
from tests.kubelet_values import slice_device, slice_object

NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"
WHOLE = [slice_device(f"gpu-{number}", type="gpu", uuid=f"GPU-{number}") for number in range(4)]


def read(*slices: dict[str, Any]) -> ResourceSlices:
    return resource_slices.slices(slices, 4000.0)


def test_a_driver_of_whole_gpus() -> None:
    found = read(slice_object(*WHOLE))
    assert (found.serves("nvidia.com/gpu"), found.serves("amd.com/gpu")) == (NVIDIA, "")
    assert found.gpus(NVIDIA) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}
    assert found.incomplete == ()


def test_a_driver_without_a_device_still_serves_the_node() -> None:
    found = read(slice_object())
    assert (found.serves("nvidia.com/gpu"), found.gpus(NVIDIA)) == (NVIDIA, frozenset())


def test_the_parts_of_a_gpu_are_one() -> None:
    """Static MIG devices name their GPU; with dynamic ones the whole GPU is offered beside its possible parts."""
    parts = [
        slice_device(f"gpu-0-mig-{number}", type="mig", parentUUID="GPU-0", uuid=f"MIG-{number}") for number in (1, 2)
    ]
    assert read(slice_object(*parts, *WHOLE)).gpus(NVIDIA) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_a_gpu_offered_to_virtual_machines_too_is_one() -> None:
    again = slice_device("gpu-vfio-0", type="vfio", resource__x="")
    again["attributes"][PCI_BUS_ID] = {"string": "0000:01:00.0"}
    assert read(slice_object(*WHOLE, again)).gpus(NVIDIA) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_without_a_uuid_its_address_names_a_gpu() -> None:
    one = slice_device("gpu-1-129", type="amdgpu", pciAddr="0000:41:00.0")
    other = slice_device("gpu-2-130")
    other["attributes"][PCI_BUS_ID] = {"string": "0000:42:00.0"}
    odd = slice_device("gpu-3-131", pciAddr="somewhere")
    assert read(slice_object(one, other, odd, driver=AMD)).gpus(AMD) == {"0000:41:00.0", "0000:42:00.0", "gpu-3-131"}


def test_attributes_in_the_drivers_own_domain() -> None:
    assert read(slice_object(slice_device("gpu-0", gpu__x="", **{"gpu.nvidia.com__uuid": "GPU-9"}))).gpus(NVIDIA) == {
        "GPU-9"
    }


@pytest.mark.parametrize(
    ("effects", "gpus"), [(("NoSchedule",), set()), (("NoExecute",), set()), (("None",), {"GPU-7"})]
)
def test_a_taint_keeps_pods_away(effects: tuple[str, ...], gpus: set[str]) -> None:
    assert read(slice_object(slice_device("gpu-7", *effects, uuid="GPU-7"))).gpus(NVIDIA) == gpus


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old, new = slice_object(*WHOLE), slice_object(*WHOLE[:3], generation=2)
    assert read(old, new).gpus(NVIDIA) == read(new, old).gpus(NVIDIA) == {"GPU-0", "GPU-1", "GPU-2"}
    other = slice_object(WHOLE[3], pool="node-1-more")
    assert read(old, new, other).gpus(NVIDIA) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_a_pool_of_which_slices_are_still_to_come() -> None:
    first, second = slice_object(*WHOLE[:2], count=2), slice_object(*WHOLE[2:], count=2)
    assert read(first).incomplete == (NVIDIA,)
    assert read(first, second).incomplete == ()
    assert len(read(first, second).gpus(NVIDIA)) == 4


@pytest.mark.parametrize("driver", ["compute-domain.nvidia.com", "dra.net", "cpu.example.com"])
def test_a_driver_of_something_else_is_none_of_gpus(driver: str) -> None:
    assert read(slice_object(*WHOLE, driver=driver)).drivers == ()


ODD: list[dict[str, Any]] = [
    {"spec": {"driver": 5}},
    {"spec": {"driver": NVIDIA, "pool": "node-1"}},
    {"spec": {"driver": NVIDIA, "pool": {"name": "p", "generation": "1"}}},
    {"spec": {"driver": NVIDIA, "pool": {"name": "p"}, "devices": {}}},
    {"spec": {"driver": NVIDIA, "pool": {"name": "p"}, "devices": ["gpu-0"]}},
    {"spec": {"driver": NVIDIA, "pool": {"name": "p"}, "devices": [{"attributes": {}}]}},
    {
        "spec": {
            "driver": NVIDIA,
            "pool": {"name": "p"},
            "devices": [{"name": "a", "attributes": {"uuid": {"string": 3}}}],
        }
    },
    {"spec": {"driver": NVIDIA, "pool": {"name": "p"}, "devices": [{"name": "a", "taints": [{"effect": 1}]}]}},
]


@pytest.mark.parametrize("one", ODD, ids=range(len(ODD)))
def test_what_no_api_server_gives_is_malformed(one: dict[str, Any]) -> None:
    assert isinstance(cluster_objects.understood("ResourceSlices", lambda: read(one)), Unreadable)


def test_without_a_gpus_module_nobody_is_asked(tmp_path: Path) -> None:
    """A host without Kubernetes would say that it has none."""
    (tmp_path / "sys/module/mlx5_core").mkdir(parents=True)
    found = resource_slices.observe(Host(str(tmp_path)))
    assert isinstance(found, ResourceSlices)
    assert not found.asked
    for module in ("nvidia", "amdgpu"):
        (tmp_path / "sys/module" / module).mkdir()
        assert isinstance(resource_slices.observe(Host(str(tmp_path))), Unreadable)
        (tmp_path / "sys/module" / module).rmdir()
