"""Topology files of Lingjun nodes, from trees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.alibaba import lingjun
from nodeprep.facts.alibaba.lingjun import LIST, TABLE, Lingjun, VirtualFunction
from nodeprep.model import Unreadable, Why, raw
from tests.rigs.trees import Content, Link, Tree, write

AT, GONE = "0000:01:01.6", "0000:01:02.5"
ENTRY = {"pf_id": 2, "vf_id": 9, "bdf": AT}
BUS = "sys/bus/pci/devices"
BOUND: Tree = {
    f"{BUS}/{AT}/driver": Link("../../drivers/virtio-pci"),
    "sys/bus/pci/drivers/virtio-pci/module": None,
    f"{BUS}/{AT}/physfn/sriov_drivers_autoprobe": "1",
}


def look(root: Path, files: Tree) -> Lingjun:
    write(files, root)
    return lingjun.observe(Host(str(root), live=False))


def table(*entries: object) -> str:
    return json.dumps({"eniVFs": entries})


def test_other_nodes_have_none(tmp_path: Path) -> None:
    assert look(tmp_path, {"etc/hostname": "gpu-17"}).topologies == ()


def test_both_files_and_what_the_bus_says_of_their_functions(tmp_path: Path) -> None:
    listed = json.dumps([ENTRY | {"mac": "cc:48:15:ff:00:09"}])
    files: Tree = BOUND | {LIST[1:]: listed, TABLE[1:]: table(ENTRY, ENTRY | {"bdf": GONE})}
    (first, second) = look(tmp_path, files).topologies
    assert (first.file, first.functions) == (LIST, (VirtualFunction(AT, True, "virtio-pci", True),))
    assert second.functions == (
        VirtualFunction(AT, True, "virtio-pci", True),
        VirtualFunction(GONE, False, None, None),
    )


def test_the_runtime_directory_may_be_a_link(tmp_path: Path) -> None:
    files: Tree = {"var/run": Link("/run"), "run/hc-eni-host/vf-topo-vpc": table(ENTRY)}
    ((topology,), one) = (look(tmp_path, files).topologies, VirtualFunction(AT, False, None, None))
    assert topology.functions == (one,)


@pytest.mark.parametrize(("text", "autoprobed"), [("0", False), ("1", True)])
def test_whether_drivers_may_take_new_functions(tmp_path: Path, text: Content, autoprobed: bool) -> None:
    files = BOUND | {TABLE[1:]: table(ENTRY), f"{BUS}/{AT}/physfn/sriov_drivers_autoprobe": text}
    ((topology,),) = (look(tmp_path, files).topologies,)
    assert topology.functions[0].autoprobed is autoprobed


MALFORMED = [
    (TABLE, '{"eniVFs": [', "line 1, column 13: no JSON"),
    (TABLE, "[" * 100_000, "no JSON"),
    (TABLE, json.dumps([ENTRY]), "no list of functions"),
    (TABLE, "{}", "no list of functions"),
    (LIST, table(ENTRY), "no list of functions"),
    (TABLE, table(ENTRY, {"vf_id": 3}), "bdf of entry 2 is 'None'"),
    (TABLE, table("x"), "bdf of entry 1 is 'None'"),
    (TABLE, table(ENTRY | {"bdf": "../../../etc"}), "bdf of entry 1 is '../../../etc'"),
    (TABLE, table(ENTRY | {"bdf": "0000:1:1.6"}), "bdf of entry 1 is '0000:1:1.6'"),
]


@pytest.mark.parametrize(("path", "text", "detail"), MALFORMED)
def test_what_is_no_topology_is_malformed(tmp_path: Path, path: str, text: str, detail: str) -> None:
    (topology,) = look(tmp_path, {path[1:]: text}).topologies
    blind = raw(topology)["functions"]
    assert isinstance(blind, Unreadable)
    assert (blind.kind, blind.path, blind.detail) == (Why.MALFORMED, path, detail)


def test_what_does_not_yield_is_no_malformed_one(tmp_path: Path) -> None:
    (topology,) = look(tmp_path, {TABLE[1:] + "/x": "a directory in its place"}).topologies
    assert raw(topology)["functions"].kind is Why.IO_ERROR
