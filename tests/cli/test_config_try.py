"""`nodeprep config try FILE`: what is sent to the agents, and what no ConfigMap could hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodeprep.cli.files import config_try_command
from nodeprep.cli.usage import UsageError

PROFILE = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: pool\n"


def written(directory: Path, named: str, own: str = "config.yaml") -> Path:
    """A configuration that names one file."""
    profile, file = directory / named, directory / own
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text(PROFILE)
    file.write_text(f"apiVersion: nodeprep.io/v1\nkind: Config\ndefault: {named}\n")
    return file


@pytest.mark.parametrize("own", ["config.yaml", "next.yaml"])
def test_it_sends_the_files_that_it_names(tmp_path: Path, own: str) -> None:
    sent = json.loads(config_try_command.config_map(str(written(tmp_path, "pool.yaml", own))))
    assert sent["data"].keys() == {"config.yaml", "pool.yaml"}
    assert sent["data"]["pool.yaml"] == PROFILE


@pytest.mark.parametrize(
    ("named", "own"),
    [("pools/pool.yaml", "config.yaml"), ("config.yaml", "next.yaml"), ("../pool.yaml", "config.yaml")],
)
def test_a_name_that_no_config_map_holds_is_refused(tmp_path: Path, named: str, own: str) -> None:
    directory = tmp_path / "own"
    directory.mkdir()
    file = written(directory, named, own)
    with pytest.raises(UsageError, match="wanted the name of a file beside it, as a ConfigMap has them"):
        config_try_command.config_map(str(file))
