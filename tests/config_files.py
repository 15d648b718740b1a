"""Configuration files for tests: written to a directory and read as the program reads them."""

from __future__ import annotations

from pathlib import Path

from nodeprep.config import configuration
from nodeprep.config.configuration import Settings

TODAY = "2026-01-10"
HEAD = "apiVersion: nodeprep.io/v1\nkind: Config\n"
PROFILE = "apiVersion: nodeprep.io/v1\nkind: Profile\n"
# The output of `profile capture` on a node with two rails.
CAPTURED = f"""\
{PROFILE}name: gpu-1
extends: rdma-roce
expect:
  devices:
    "0000:5c:00.0": {{id: "15b3:1021"}}
    "0000:5d:00.0": {{id: "15b3:1021"}}
  ports:
    "0000:5c:00.0/1": {{rate: 400, link-layer: Ethernet}}
    "0000:5d:00.0/1": {{rate: 400, link-layer: Ethernet, required: false}}
"""


def settings(directory: Path, text: str) -> Settings:
    """The settings of a file with these keys. Raises ConfigError."""
    file = directory / "config.yaml"
    file.write_text(HEAD + text)
    return configuration.load_settings(str(file), TODAY)
