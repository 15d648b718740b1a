"""What a guest's profile asks for in mode repair: modules, an RDMA device and its MTU, that faults take away."""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes import shipped
from tests.kubernetes.remediated import REPAIR
from tests.rigs.lab import RAIL, RDMA_DEVICE

MTU = 9000  # bytes; of the rail, as the lab sets it
MODULE = "ib_umad"  # nothing else here holds it
PROFILE = f"""apiVersion: nodeprep.io/v1
kind: Profile
name: node
extends: rdma-roce
gates: [sysctl.arp, port.mtu]
want:
  sysctl.arp: {{always: true}}
  port.mtu: {{exactly: [{MTU}]}}
expect:
  modules: [ib_core, {MODULE}, ib_uverbs]
  devices:
    "{RAIL.bdf}": {{driver: virtio-pci, rdma: {RDMA_DEVICE}, software: rxe}}
"""
# What nobody announces is looked at more often. Each wait of a repair is as it ships. A play takes up to two minutes in
# emulation, and near three beside two other guests, so it may take longer than on a machine.
CONFIGURATION = """apiVersion: nodeprep.io/v1
kind: Config
mode: repair
default: node.yaml
gate: {profiles: [node]}
confirmation: {flap-count: 100}
every: {cluster: 15, pci: 5}
repair: {deadline: {safe: 600}}
"""


def manifests(directory: Path, expected: str = "", *components: str) -> Path:
    """A user's own kustomization: both DaemonSets, mode repair, and components by name.

    `expected` is added to the profile's last part.
    """
    files = {"config.yaml": CONFIGURATION, "node.yaml": PROFILE + expected}
    return shipped.overlay(directory, files, REPAIR, *components)
