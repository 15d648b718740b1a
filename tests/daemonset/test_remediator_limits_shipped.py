"""What the remediator may do stands in its manifest, in its code and in its help: these say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nodeprep.cli.repair import remediator_commands
from nodeprep.config import keys
from nodeprep.config.keys import KEYS
from nodeprep.decide.remediator_limits import RemediatorLimits
from nodeprep.repair.remediator import HostWay
from nodeprep.typed_yaml import InvalidValueError

MANIFEST = Path(__file__).parents[2] / "daemonset/components/repair/remediator.yaml"
LIMITS = RemediatorLimits()
WANTED = {
    "--max-class": str(LIMITS.highest),
    "--runs-a-day": str(LIMITS.runs),
    "--runs-a-day-each": str(LIMITS.runs_each),
    "--restarts-a-day": str(LIMITS.restarts),
    "--attempts-a-day": str(LIMITS.attempts),
    "--max-deadline": f"{LIMITS.seconds:g}",
}


def test_the_manifest_ships_the_limits_of_the_code_and_allows_no_third_class() -> None:
    (container,) = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
    command, *options = container["args"]
    assert command == "remediator"
    assert dict(option.split("=") for option in options) == {"--host-process": "/host/proc/1", **WANTED}
    assert LIMITS.third_class == frozenset()


def test_the_help_says_them_too() -> None:
    named = remediator_commands
    told = (named.RUNS, named.RUNS_EACH, named.RESTARTS, named.ATTEMPTS, named.SECONDS)
    assert told == (LIMITS.runs, LIMITS.runs_each, LIMITS.restarts, LIMITS.attempts, LIMITS.seconds)


def test_the_remediator_takes_each_deadline_and_class_that_a_configuration_may_have() -> None:
    (container,) = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
    options = dict(option.split("=") for option in container["args"][1:])
    assert float(options["--max-deadline"]) == keys.PLAY_LIMIT_SECONDS
    for path in ("repair.max-class", "repair.bootstrap-max-class"):
        (kind,) = (key.kind for key in KEYS if key.path == path)
        assert kind.read(options["--max-class"], ()) == "S2"
        for above in ("S3", "S4"):
            with pytest.raises(InvalidValueError):
                kind.read(above, ())


def test_the_lock_is_that_of_a_repair_by_hand() -> None:
    from nodeprep.cli.repair import repair_command

    assert HostWay().locks == repair_command.DIRECTORY
