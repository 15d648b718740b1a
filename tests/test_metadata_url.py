"""The URL of the instance metadata: a configuration file may set it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.cli.place import NodePlace
from nodeprep.config import configuration, yaml_document
from nodeprep.config.configuration import Settings
from nodeprep.config.document import ConfigError
from nodeprep.facts.alibaba import imds
from tests.rigs.imds_server import MetadataServer
from tests.rigs.trees import write

HEAD = "apiVersion: nodeprep.io/v1\nkind: Config\n"
WANTED = "wanted http:// and an IPv4 address, with a port or without, such as http://100.100.100.200"


def settings(url: str) -> Settings:
    return configuration.parse_settings(
        yaml_document.read(f"{HEAD}metadata-url: {url}\n".encode(), "F"), "2026-01-10", {}
    )


@pytest.mark.parametrize(
    "url", ["http://100.100.100.200", "http://127.0.0.1:8080", "http://10.0.0.1:65535", '"http://[fd00::1]:80"']
)
def test_an_address(url: str) -> None:
    assert settings(url).metadata_url == url.strip('"')


def test_without_a_word_it_is_where_ecs_has_it() -> None:
    assert Settings().metadata_url == "http://100.100.100.200"
    assert settings("").metadata_url == "http://100.100.100.200"


WRONG = [
    "https://100.100.100.200",
    "100.100.100.200",
    "http://metadata.example",  # the look-up of a name depends on its server
    "http://100.100.100.200/",
    "http://100.100.100.200/latest",
    "http://user@100.100.100.200",
    "http://100.100.100.256",
    "http://100.100.100",
    "http://100.100.100.200:0",
    "http://100.100.100.200:65536",
    "http://fd00::1",
]


@pytest.mark.parametrize("url", WRONG)
def test_anything_else_is_one_line(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings(url)
    assert str(error.value) == f"F:3: metadata-url: found {url!r}, {WANTED}"


def test_a_number_is_none() -> None:
    with pytest.raises(ConfigError) as error:
        settings("80")
    assert str(error.value) == f"F:3: metadata-url: found 80, {WANTED}"


def test_it_is_where_the_host_asks(tmp_path: Path) -> None:
    write({"sys/class/dmi/id/product_name": "Alibaba Cloud ECS"}, tmp_path / "node")
    with MetadataServer("primary-only") as server:
        (tmp_path / "config.yaml").write_text(f"{HEAD}metadata-url: {server.url}\n")
        said = configuration.load_settings(str(tmp_path / "config.yaml"), "2026-01-10")
        seen = imds.observe(NodePlace(str(tmp_path / "node"), live=True).host((), said.metadata_url))
    assert seen.instance is not None
    assert seen.instance.id == "i-bp1exemplar"
