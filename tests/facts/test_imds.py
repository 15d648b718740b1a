"""The instance as a fact: asked on ECS only."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.alibaba import imds
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.model import CannotLook, Unreadable, Why, raw
from tests.imds_values import NOT_ECS, instance, interface, shared
from tests.rigs.imds_server import MetadataServer
from tests.rigs.trees import Tree, write

DMI = "sys/class/dmi/id/product_name"
ECS: Tree = {DMI: "Alibaba Cloud ECS\n"}


def look(tmp_path: Path, files: Tree, server: MetadataServer) -> Imds:
    write(files, tmp_path)
    return imds.observe(Host(str(tmp_path), metadata=server.url))


def test_an_instance(tmp_path: Path) -> None:
    with MetadataServer("two-enis", "required") as server:
        seen = look(tmp_path, ECS, server)
    assert seen.instance == instance(interface(), shared(), token_required=True)
    assert seen.instance.primary == interface()
    assert seen.instance.with_mac("00:16:3e:aa:bb:01") == shared()
    assert seen.instance.with_mac(None) is None
    assert seen.milliseconds is not None
    assert seen.milliseconds > 0


ELSEWHERE: list[Tree] = [
    {},
    {DMI: "PowerEdge XE9680"},
    {DMI: "Alibaba Cloud"},
    {DMI: "Google Compute Engine"},
    {DMI: b"\xff\xfe"},
    {DMI: ""},
]


@pytest.mark.parametrize("files", ELSEWHERE, ids=["no DMI", "bare metal", "other product", "GCE", "garbage", "empty"])
def test_elsewhere_not_one_packet_is_sent(tmp_path: Path, files: Tree) -> None:
    with MetadataServer("two-enis") as server:
        seen = look(tmp_path, files, server)
        assert server.asked == []
    assert (seen.instance, seen.milliseconds) == (NOT_ECS.instance, NOT_ECS.milliseconds)


def test_where_the_product_cannot_be_read_nobody_is_asked_and_nothing_is_known(tmp_path: Path) -> None:
    with MetadataServer("two-enis") as server:
        seen = look(tmp_path, {f"{DMI}/x": "a directory"}, server)
        assert server.asked == []
    blind = raw(seen)["instance"]
    assert isinstance(blind, Unreadable)
    assert blind.path == imds.PRODUCT


def test_no_answer_is_not_no_instance(tmp_path: Path) -> None:
    with MetadataServer("two-enis", "disabled-403") as server:
        seen = look(tmp_path, ECS, server)
    assert seen.milliseconds is None
    with pytest.raises(CannotLook) as cannot:
        _ = seen.instance
    assert cannot.value.blind.kind is Why.DENIED


def test_damage_spoils_its_own_field_only(tmp_path: Path) -> None:
    with MetadataServer("two-enis", "escapes") as server:
        seen = look(tmp_path, ECS, server)
    found = seen.instance
    assert found is not None
    assert [name for name, value in raw(found).items() if isinstance(value, Unreadable)] == ["zone"]
    assert [name for name, value in raw(found.interfaces[0]).items() if isinstance(value, Unreadable)] == ["eni"]
    assert found.interfaces[1] == shared()


def test_one_host_keeps_its_token(tmp_path: Path) -> None:
    write(ECS, tmp_path)
    with MetadataServer("primary-only") as server:
        host = Host(str(tmp_path), metadata=server.url)
        assert [imds.observe(host).instance for _ in range(2)] == [instance(interface())] * 2
        assert [one.partition(" ")[0] for one in server.asked].count("PUT") == 1
