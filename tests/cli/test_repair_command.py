"""What `nodeprep repair` takes from its options and from the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.check.check_command import CheckOptions
from nodeprep.cli.repair import repair_command
from nodeprep.cli.repair.repair_command import RepairOptions
from nodeprep.cli.usage import UsageError
from nodeprep.config.configuration import Settings
from nodeprep.decide.remedy_header import SafetyClass
from tests.config_files import settings


def asked(**different: Any) -> RepairOptions:
    return RepairOptions(**{"command": "repair", "check": CheckOptions(), **different})


def test_the_daemons_to_ignore_are_those_of_the_configuration(tmp_path: Path) -> None:
    own = settings(tmp_path, 'idle: {ignore: ["dcgm*"]}\n')
    assert repair_command.session_terms(asked(), own).ignored == ("dcgm*",)
    assert repair_command.session_terms(asked(), Settings()).ignored == Settings().idle.ignore


def test_what_the_options_say() -> None:
    terms = repair_command.session_terms(
        asked(checks=("port.s*",), max_class=SafetyClass.S3, dry_run=True, wait_idle="10m", recheck="2"), Settings()
    )
    assert (terms.command, terms.limit, terms.dry_run, terms.wait_idle, terms.recheck) == (
        "repair",
        SafetyClass.S3,
        True,
        600.0,
        2.0,
    )
    assert terms.checks is not None
    assert "port.state" in terms.checks
    assert "port.mtu" not in terms.checks
    assert repair_command.session_terms(asked(), Settings()).checks is None


@pytest.mark.parametrize(
    ("options", "says"), [({"wait_idle": "soon"}, "--wait-idle: found 'soon'"), ({"recheck": "-1"}, "--recheck")]
)
def test_what_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        repair_command.session_terms(asked(**options), Settings())
