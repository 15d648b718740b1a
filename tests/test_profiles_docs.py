"""docs/profiles.md and the built-in profiles agree, and every expectation of a profile has a check."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep.config import profile_files
from nodeprep.config.profile_files import BUILT_IN
from tests.cluster.accounts import RULES

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "profiles.md").read_text()


def written(name: str) -> dict[str, Any]:
    """A built-in profile as in its file, without inherited keys."""
    given: dict[str, Any] = yaml.safe_load(pkgutil.get_data("nodeprep", f"profiles/{name}.yaml") or b"")
    return given


def section(name: str) -> str:
    return PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_every_built_in_profile_has_its_section_and_no_other_has_one() -> None:
    assert sorted(re.findall(r"^## (.*)$", PAGE, re.MULTILINE)) == sorted(BUILT_IN)


def test_every_link_inside_the_page_leads_to_a_section() -> None:
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= set(BUILT_IN)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "base"])
def test_a_section_says_what_its_profile_extends(name: str) -> None:
    assert f"Extends `{written(name)['extends']}`" in section(name)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_gate_is_a_check_with_its_page(name: str) -> None:
    headings = set(re.findall(r"^## (.*)$", (DOCS / "checks.md").read_text(), re.MULTILINE))
    assert set(profile_files.effective(name).gates) <= headings


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_profile_repeats_no_gate_of_its_parent(name: str) -> None:
    own, parent = written(name).get("gates", []), written(name).get("extends")
    assert len(set(own)) == len(own)
    assert not set(own) & set(profile_files.effective(parent).gates if parent else ())


ASKED_FOR = [
    ("tcp-shared-eni", "NCCL_SOCKET_IFNAME, value: eth0"),
    ("mpijob-exclusive-eni", "aliyun/eni: 1"),
    ("mpijob-trunk-eni", "aliyun/member-eni: 1"),
    ("rdma-erdma-cpu", "aliyun/erdma: 1"),
    ("rdma-erdma-gpu", "aliyun/erdma: 1"),
    ("rdma-lingjun", "rdma/hca: 1"),
    ("rdma-roce", "rdma/hca: 1"),
]


@pytest.mark.parametrize(("name", "line"), ASKED_FOR)
def test_a_section_shows_the_line_of_a_manifest_that_asks_for_it(name: str, line: str) -> None:
    assert line in section(name)


def test_the_manifests_of_the_page_are_yaml() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 7
    assert all(isinstance(yaml.safe_load(block), dict) for block in blocks)


def test_the_rules_of_the_page_are_those_that_an_api_server_was_asked_with() -> None:
    block = re.search(r"```yaml\n(rules:.*?)```", PAGE, re.DOTALL)
    assert block is not None
    assert yaml.safe_load(block[1]) == {"rules": RULES}


def test_the_page_warns_of_the_annotation_that_does_nothing() -> None:
    assert 'The annotation `k8s.aliyun.com/eni: "true"` does nothing' in PAGE


@pytest.mark.parametrize("name", ["rdma-erdma-cpu", "rdma-erdma-gpu", "rdma-lingjun"])
def test_every_rdma_profile_asks_what_rdma_asks(name: str) -> None:
    assert set(profile_files.effective("rdma").gates) <= set(profile_files.effective(name).gates)


MODES = [("rdma-erdma-cpu", "default", {"at-least": 1400}), ("rdma-erdma-gpu", "compat", {"exactly": (1400, 8500)})]


@pytest.mark.parametrize(("name", "mode", "mtu"), MODES)
def test_elastic_rdma_for_cpus_and_gpus_is_not_the_same(name: str, mode: str, mtu: dict[str, Any]) -> None:
    want = profile_files.effective(name).want
    assert want["erdma.mode"] == {"mode": mode}
    assert mtu.items() <= want["port.mtu"].items()
    assert ({"port.gid", "port.mtu"} <= set(profile_files.effective(name).gates)) is (mode == "compat")
