"""`nodeprep config validate|show|init` on files with the agent's keys."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from nodeprep.cli.files import config_command
from nodeprep.cli.usage import UsageError
from nodeprep.config import starter, written, yaml_document
from nodeprep.config.configuration import Settings
from tests.config_files import HEAD

NOTES = [
    # keys                                              notes
    ("", []),
    ("mode: gate\n", []),
    ("confirmation: {passes: 4, pass-span: 60, fast: {fails: 1}}\n", []),
    ("confirmation: {passes: 1}\n", ["confirmation.passes: 1 opens sooner than nodeprep's default, 3"]),
    ("confirmation: {pass-span: 29.5}\n", ["confirmation.pass-span: 29.5 opens sooner than nodeprep's default, 30"]),
    ("mode: repair\n", []),
    (
        "mode: repair\ngate: {effect: PreferNoSchedule}\n",
        ["gate.effect: PreferNoSchedule lets jobs land here, so mode repair runs no remedy"],
    ),
    ("mode: repair\nreadiness: {validation-limit: 40}\n", []),
    (
        "mode: repair\nreadiness: {validation-limit: 39}\n",
        ["readiness.validation-limit: 39 is too short for 3 passes, wanted 40"],
    ),
    (
        "mode: repair\nconfirmation: {passes: 13}\n",
        ["readiness.validation-limit: 120 is too short for 13 passes, wanted 130"],
    ),
    (
        "mode: repair\nconfirmation: {pass-span: 60}\nreadiness: {validation-limit: 60}\n",
        ["readiness.validation-limit: 60 is too short for 3 passes, wanted 70"],
    ),
    ("mode: repair\nrepair: {tries: 6}\n", []),
    (
        "mode: repair\nrepair: {tries: 7}\n",
        ["repair.tries: 7, and the remediator is shipped with --runs-a-day-each=6"],
    ),
    ("mode: gate\ngate: {effect: PreferNoSchedule}\nrepair: {tries: 7}\nreadiness: {validation-limit: 30}\n", []),
    ("mode: gate\ngate: {profiles: []}\n", ["gate.profiles: empty, so mode gate never sets a taint"]),
    ("gate: {profiles: []}\n", []),
    (
        "gate: {allow-auto: true}\n",
        ["gate.allow-auto: what the hardware alone chose may open a gate, whatever the node had before"],
    ),
    (
        "assign: [{use: [base]}, {use: [rdma]}, {use: [rdma]}]\n",
        ["assign[1]: never reached, for assign[0] has no match and so matches every node"],
    ),
    ("assign: [{match: {a: b}, use: [base]}, {use: [rdma]}]\n", []),
    ("metrics: {port: 0}\n", ["metrics.port: 0 serves no metrics and no /healthz"]),
    (
        "metrics: {bind: 0.0.0.0}\n",
        ["metrics.bind: 0.0.0.0 serves the metrics on every address of the node, public ones too"],
    ),
    ('metrics: {bind: "::"}\n', ["metrics.bind: :: serves the metrics on every address of the node, public ones too"]),
]


@pytest.mark.parametrize(("keys", "notes"), NOTES, ids=range(len(NOTES)))
def test_what_is_allowed_and_worth_a_thought_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: str, notes: list[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + keys)
    assert config_command.validate(str(file)) == 0
    first, *others = capsys.readouterr().out.splitlines()
    checks = "1 check" if "effect" in keys else "0 checks"  # plugin.tolerates-gate asks for the effect that is set
    assert first == f"{file}: default profile auto, numbers of {checks}, 0 waivers"
    assert [line for line in others if "note: " in line] == [f"{file}: note: {note}" for note in notes]


ENDS = [
    # days from today    note
    (-1, "waivers[0].until: {} has passed, so the waiver of port.state excuses nothing"),
    (0, "waivers[0].until: the waiver of port.state ends on {}, which is today"),
    (1, "waivers[0].until: the waiver of port.state ends on {}, in 1 day"),
    (14, "waivers[0].until: the waiver of port.state ends on {}, in 14 days"),
    (15, None),
]


@pytest.mark.parametrize(("days", "note"), ENDS)
def test_the_end_of_a_waiver_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], days: int, note: str | None
) -> None:
    file = tmp_path / "config.yaml"
    until = _without_midnight() + timedelta(days=days)
    file.write_text(f"{HEAD}waivers: [{{check: port.state, until: {until}, reason: cable}}]\n")
    assert config_command.validate(str(file)) == 0
    _, *others = capsys.readouterr().out.splitlines()
    assert others == ([] if note is None else [f"{file}: note: {note.format(until)}"])


def _without_midnight() -> date:
    """Today in UTC, asked for when it stays today for the next minute."""
    while (now := datetime.now(UTC)).hour == 23 and now.minute == 59:
        time.sleep(1)
    return now.date()


def test_validate_says_what_the_agent_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + "mode: gate\nassign: [{use: [base]}]\n")
    config_command.validate(str(file))
    assert capsys.readouterr().out.splitlines()[1] == f"{file}: agent in mode gate, 1 rule to assign profiles"


def test_show_prints_the_agents_keys_with_their_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + "mode: gate\nconfirmation: {passes: 5}\nassign: [{match: {a: b}, use: [base]}]\n")
    assert config_command.show(str(file)) == 0
    told = yaml_document.read(capsys.readouterr().out.encode(), "F").value
    assert isinstance(told, dict)
    assert (told["mode"], told["confirmation"]["passes"], told["confirmation"]["pass-span"]) == ("gate", 5, 30)
    assert told["assign"] == ({"match": {"a": "b"}, "use": ("base",)},)
    assert told["metrics"] == {"bind": "127.0.0.1", "port": 9842}


def test_what_show_prints_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + "mode: gate\nconfirmation: {slow: {fails: 2}}\nevery: {rdma: 0.5}\n")
    config_command.show(str(file))
    once = capsys.readouterr().out
    file.write_text(once)
    config_command.show(str(file))
    assert capsys.readouterr().out == once


def test_init_prints_a_file_to_begin_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert config_command.init(None) == 0
    assert capsys.readouterr().out == starter.starter()
    assert set(written.written(Settings())) == set(yaml_document.read(starter.starter().encode(), "F").value)  # type: ignore[call-overload]


def test_init_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    assert config_command.init(str(file)) == 0
    assert file.read_text() == starter.starter()
    assert str(file) in capsys.readouterr().err
    assert config_command.validate(str(file)) == 0
    file.write_text("mine\n")
    with pytest.raises(
        UsageError, match=r"config\.yaml: it exists already, and nothing is overwritten without --force"
    ):
        config_command.init(str(file))
    assert file.read_text() == "mine\n"
    assert config_command.init(str(file), force=True) == 0
    assert file.read_text() == starter.starter()


@pytest.mark.parametrize("name", ["no/such/directory.yaml", "", "a\0b"])
def test_init_says_why_it_cannot_write(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as error:
        config_command.init(f"{tmp_path}/{name}")
    assert "\n" not in str(error.value)


def test_init_follows_no_link_to_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "there.yaml").write_text("mine\n")
    (tmp_path / "config.yaml").symlink_to("there.yaml")
    with pytest.raises(UsageError, match="nothing is overwritten without --force"):
        config_command.init(str(tmp_path / "config.yaml"))
    assert (tmp_path / "there.yaml").read_text() == "mine\n"
