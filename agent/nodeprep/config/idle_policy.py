"""The part `idle` of a configuration file: who may have a device open without using it."""

from __future__ import annotations

from nodeprep.values import Value


class IdlePolicy(Value):
    """What the idle proof of a repair goes by.

    `ignore` are the kernel's names of daemons, or globs of them. They may have device nodes and RDMA contexts open, and
    lose nothing by a repair that they do not find again: a subnet manager, ibacm, DCGM's host engine and exporter,
    NVIDIA's persistence daemon. The first three are design 4's; the others hold /dev/nvidia* on each node of a GPU
    operator.
    """

    ignore: tuple[str, ...] = ("opensm", "ibacm", "dcgm", "dcgm-exporter", "nv-hostengine", "nvidia-persistenced")
