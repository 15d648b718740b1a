"""module.flavour by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.module.flavour import CHECK
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.rdma.devnodes import DevNodes
from tests.values import say, verdicts

STACK = ("ib_core", "mlx5_core", "mlx5_ib")
NEW, OLD = "24.10-0.7.0", "23.10-2.1.3"
NVIDIA = ("nvidia", "550.90.07")

ROWS = [
    # loaded, versions, ABI, says
    (STACK, {}, "6", "ok OneBuild"),
    (STACK, {}, None, "ok OneBuild"),
    (("irdma",), {}, "6", "ok OneBuild"),
    (("irdma",), {}, None, "absent Nothing"),
    (STACK, {}, "7", "warn VerbsAbi"),
    (STACK, {}, "5", "warn VerbsAbi"),
    (("mlx_compat", *STACK), dict.fromkeys(STACK, NEW), "6", "ok OneBuild"),
    (("mlx_compat", *STACK), {"mlx5_core": NEW}, "6", "ok OneBuild"),
    (("mlx_compat", *STACK), {"mlx5_core": NEW, "mlx5_ib": OLD}, "6", "warn MixedVersions"),
    (STACK, {"mlx5_core": NEW, "mlx5_ib": OLD}, "6", "warn MixedVersions"),
    (STACK, {"mlx5_core": "5.0-0", "mlx5_ib": "5.0-0"}, "6", "ok OneBuild"),  # inbox until Linux 5.5
    (("mlx_compat", *STACK), {"ib_core": NEW}, "6", "warn MixedStacks"),
    (("mlx_compat", *STACK), {"nvidia": "550.90.07"}, "6", "warn MixedStacks"),
    (("mlx_compat", *STACK), {}, "6", "ok OneBuild"),  # a copy that kept no versions
    (("mlx_compat", "ib_core"), {"ib_core": NEW}, "6", "ok OneBuild"),
    (("mlx_compat", *STACK, "irdma"), {"mlx5_core": NEW, "irdma": "1.2"}, "6", "ok OneBuild"),
]


def nodes(abi: str | None) -> DevNodes:
    return DevNodes(at=0.0, live=True, verbs=None, verbs_abi=abi, mads=None, rdma_cm=None, nodes=None)


@pytest.mark.parametrize(("loaded", "versions", "abi", "says"), ROWS)
def test_says(loaded: tuple[str, ...], versions: dict[str, str], abi: str | None, says: str) -> None:
    kernel = Modules(0.0, loaded, (), None, tuple(versions.items()), ())
    assert say(CHECK, kernel, nodes(abi)) == says


def test_without_device_nodes() -> None:
    assert say(CHECK, Modules(0.0, STACK, (), None, (), ())) == "ok OneBuild"


def test_message() -> None:
    kernel = Modules(0.0, STACK, (), None, (("mlx5_core", NEW), ("mlx5_ib", OLD)), ())
    (verdict,) = verdicts(CHECK, kernel)
    assert verdict.message == f"modules of different builds are loaded: mlx5_core {NEW}, mlx5_ib {OLD}"
