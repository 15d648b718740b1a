"""The table of keys is what files are read by, what the pages say, and what `config init` writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs import configuration
from nodeprep.config import agent_settings, starter, written, yaml_document
from nodeprep.config import configuration as settings_file
from nodeprep.config.agent_settings import CLASSES, AgentSettings, MetricsSettings
from nodeprep.config.configuration import AGENT, Settings
from nodeprep.config.document import ConfigError
from nodeprep.config.idle_policy import IdlePolicy
from nodeprep.config.keys import KEYS, RESTART
from nodeprep.config.starter import EXAMPLES
from nodeprep.config.waiver_rules import Waiver
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.fault_confirmation import RULES, ConfirmationPolicy, ConfirmationRule
from nodeprep.decide.gate_readiness import ReadinessPolicy
from nodeprep.decide.repair_policy import PlayDeadlines, RepairPolicy
from nodeprep.facts import ALL as FACTS
from nodeprep.history.repeat_offenders import RepeatPolicy
from nodeprep.model import Fact
from nodeprep.values import field_defaults, field_names
from tests.config_files import CAPTURED, TODAY, settings

PATHS = [key.path for key in KEYS]
PAGE = Path(configuration.__file__).with_name("configuration.md")
WAIVER = "- {check: pci.link, until: 2026-02-01, reason: riser"
# A value that is not the default of each key, as it would stand in a file.
SAMPLES = {
    "default": "default: rdma-roce",
    "want": "want: {port.mtu: {at-least: 9000}}",
    "waivers": f"waivers: [{WAIVER[2:]}}}]",
    "waivers[].check": f"waivers:\n{WAIVER.replace('pci.link', 'port.*')}}}",
    "waivers[].device": f"waivers:\n{WAIVER}, device: x}}",
    "waivers[].nodes": f"waivers:\n{WAIVER}, nodes: [x]}}",
    "waivers[].until": f"waivers:\n{WAIVER.replace('02-01', '02-02')}}}",
    "waivers[].reason": f"waivers:\n{WAIVER.replace('riser', 'cable')}}}",
    "exclude": 'exclude: ["/x"]',
    "metadata-url": "metadata-url: http://127.0.0.1:80",
    "idle.ignore": 'idle: {ignore: [opensm, "dcgm*"]}',
    "mode": "mode: gate",
    "assign": "assign: [{use: [base]}]",
    "assign[].match": "assign: [{match: {a: b}, use: [base]}]",
    "assign[].use": "assign: [{use: [rdma]}]",
    "assign[].expect": "assign: [{use: [base], expect: gpu-1.yaml}]",
    "gate.profiles": "gate: {profiles: [x]}",
    "gate.allow-auto": "gate: {allow-auto: true}",
    "gate.effect": "gate: {effect: PreferNoSchedule}",
    "gate.unhealthy-taint": "gate: {unhealthy-taint: x}",
    "gate.bootstrap-taint": "gate: {bootstrap-taint: x}",
    "gate.rdma-label": "gate: {rdma-label: x}",
    **{f"confirmation.{name}.fails": f"confirmation: {{{name}: {{fails: 4, of: 5}}}}" for name in CLASSES},
    **{f"confirmation.{name}.of": f"confirmation: {{{name}: {{of: 4}}}}" for name in CLASSES},
    **{f"confirmation.{name}.apart": f"confirmation: {{{name}: {{apart: 1}}}}" for name in CLASSES},
    **{f"confirmation.{name}.span": f"confirmation: {{{name}: {{span: 1}}}}" for name in CLASSES},
    "confirmation.passes": "confirmation: {passes: 4}",
    "confirmation.pass-span": "confirmation: {pass-span: 31}",
    "confirmation.pass-every": "confirmation: {pass-every: 11}",
    "confirmation.flap-count": "confirmation: {flap-count: 4}",
    "confirmation.flap-window": "confirmation: {flap-window: 60}",
    "confirmation.blind-after": "confirmation: {blind-after: 60}",
    "readiness.bootstrap-limit": "readiness: {bootstrap-limit: 61}",
    "readiness.human-passes": "readiness: {human-passes: 61}",
    "readiness.validation-limit": "readiness: {validation-limit: 61}",
    "readiness.remedy-after": "readiness: {remedy-after: 61}",
    "readiness.grace": "readiness: {grace: 61}",
    "repair.max-class": "repair: {max-class: S1}",
    "repair.bootstrap-max-class": "repair: {bootstrap-max-class: S1}",
    "repair.tries": "repair: {tries: 4}",
    "repair.back-off": "repair: {back-off: [60, 60, 3600.5]}",
    "repair.slots": "repair: {slots: 2}",
    "repair.bootstrap-slots": "repair: {bootstrap-slots: 9}",
    "repair.deadline.safe": "repair: {deadline: {safe: 121}}",
    "repair.deadline.idle": "repair: {deadline: {idle: 599}}",
    "every": "every: {rdma: 1}",
    "metrics.bind": 'metrics: {bind: "::1"}',
    "metrics.port": "metrics: {port: 1}",
    "history.repeat-hours": "history: {repeat-hours: 4}",
    "history.repeat-days": "history: {repeat-days: 7}",
}
REQUIRED = {"apiVersion", "kind"}


def at(values: Any, path: str) -> Any:
    """The value at a path, of the first item where it is a list's."""
    for name in path.replace("[]", ".0").split("."):
        values = values[int(name)] if name == "0" else values.get(name)
    return values


@pytest.mark.parametrize("path", [path for path in PATHS if path not in REQUIRED])
def test_every_documented_key_is_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED)
    base = SAMPLES[path.partition("[]")[0]] if "[]" in path else ""
    before, after = settings(tmp_path, base + "\n"), settings(tmp_path, SAMPLES[path] + "\n")
    told = at(again(after), path)
    assert told != at(again(before), path)
    if path != "waivers":  # what is written of one has its defaults too
        assert told == at(yaml_document.read(SAMPLES[path].encode(), "F").value, path)


def again(settings_: Settings) -> object:
    """What is written of settings, as a reader of the file has it."""
    return yaml_document.read(yaml_document.dump(written.written(settings_)).encode(), "F").value


def test_every_key_is_documented_once_and_has_a_sample() -> None:
    assert len(PATHS) == len(set(PATHS))
    assert set(SAMPLES) == set(PATHS) - REQUIRED


def leaves(values: Any, path: str = "") -> list[str]:
    """The paths of what is written; `want`, `every` and lists are one value each."""
    if not isinstance(values, dict) or path in {"want", "every"}:
        return [path]
    return [leaf for name, value in values.items() for leaf in leaves(value, f"{path}.{name}" if path else name)]


def test_all_that_is_written_is_documented_in_the_same_order() -> None:
    first = {path.partition(".")[0]: None for path in PATHS if "[]" not in path}
    assert list(written.written(Settings())) == list(first)
    assert sorted(leaves(written.written(Settings()))) == sorted(path for path in PATHS if "[]" not in path)


PARTS = [
    # value                     its keys stand under
    (GatePolicy, "gate", set()),
    (ConfirmationPolicy, "confirmation", {"rules"}),
    *((ConfirmationRule, f"confirmation.{name}", set()) for name in CLASSES),
    (ReadinessPolicy, "readiness", set()),
    (RepairPolicy, "repair", {"deadline"}),
    (PlayDeadlines, "repair.deadline", set()),
    (MetricsSettings, "metrics", set()),
    (RepeatPolicy, "history", set()),
    (AgentSettings, "", {"gate", "confirmation", "readiness", "repair", "metrics", "history"}),
    (Settings, "", {"file", "agent_part", "default_profile", "idle"}),
    (IdlePolicy, "idle", set()),
    (Waiver, "waivers[]", set()),
]


@pytest.mark.parametrize(
    ("kind", "under", "without"), PARTS, ids=[f"{kind.__name__} {path}" for kind, path, _ in PARTS]
)
def test_an_operator_can_write_every_number(kind: Any, under: str, without: set[str]) -> None:
    names = {name.replace("_", "-") for name in field_names(kind) if name not in without}
    prefix = f"{under}." if under else ""
    assert {f"{prefix}{name}" for name in names} <= set(PATHS)


@pytest.mark.parametrize("under", sorted({path.rpartition(".")[0] for path in PATHS}))
def test_what_is_not_documented_is_refused(tmp_path: Path, under: str) -> None:
    text, wanted = "zzz: 1", "zzz"
    for name in reversed(under.split(".") if under else []):
        text = f"{name.removesuffix('[]')}: [{{{text}}}]" if name.endswith("[]") else f"{name}: {{{text}}}"
        wanted = f"{name.replace('[]', '[0]')}.{wanted}"
    with pytest.raises(ConfigError, match=re.escape(f":3: {wanted}: found 'zzz', wanted one of ")) as error:
        settings(tmp_path, text + "\n")
    listed = str(error.value).partition("wanted one of ")[2].split(", ")
    prefix = f"{under}." if under else ""
    below = {path.removeprefix(prefix).partition(".")[0] for path in PATHS if path.startswith(prefix)}
    assert set(listed) == {name for name in below if not name.endswith("[]")}


# --- docs/configuration.md ---


def test_configuration_md_is_current() -> None:
    assert PAGE.read_text() == configuration.page(), "run `make docs`"


def rows() -> dict[str, list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {line.split(" | ")[0][3:-1]: line.split(" | ") for line in lines}


def test_the_documented_defaults_are_the_codes() -> None:
    told = {path: row[2].strip("`") for path, row in rows().items() if path in PATHS}
    assert list(told) == sorted(PATHS, key=list(told).index)
    values: dict[str, Any] = {"mode": AgentSettings().mode}
    for policy, under in (
        (GatePolicy(), "gate"),
        (ConfirmationPolicy(), "confirmation"),
        (ReadinessPolicy(), "readiness"),
        (RepairPolicy(), "repair"),
        (PlayDeadlines(), "repair.deadline"),
    ):
        own = [name for name in field_names(policy) if name not in {"rules", "deadline"}]
        values |= {f"{under}.{name}": getattr(policy, name) for name in own}
    for name, kind in CLASSES.items():
        values |= {f"confirmation.{name}.{one}": getattr(RULES[kind], one) for one in field_names(ConfirmationRule)}
    values |= {f"metrics.{name}": value for name, value in field_defaults(MetricsSettings).items()}
    for name, value in values.items():
        said = told[name.replace("_", "-")]
        assert (said if isinstance(value, str) else json.loads(said)) == (
            list(value) if isinstance(value, tuple) else value
        ), name
    required = set(field_names(Waiver)) - field_defaults(Waiver).keys()
    assert {path for path in told if told[path] == "required"} == REQUIRED | {"assign[].use"} | {
        f"waivers[].{name}" for name in required
    }


def test_the_documented_periods_are_the_facts_own() -> None:
    told = {name: row[1] for name, row in rows().items() if name not in PATHS}
    assert told == {agent_settings.fact_name(fact): periods(fact) for fact in FACTS}


def periods(fact: Fact) -> str:
    return f"{fact.every:g}" + (f"; {fact.every_heard:g} while it is woken" if fact.every_heard else "")


def test_the_page_says_what_a_reload_does_and_in_which_unit() -> None:
    for key in KEYS:
        row = rows()[key.path]
        assert row[3] == key.kind.unit
        assert row[5].removesuffix(" |") == key.reload
    assert [key.path for key in KEYS if key.reload == RESTART] == ["metrics.bind", "metrics.port"]
    assert {key.kind.unit for key in KEYS if "of seconds" in key.kind.says} == {"seconds"}


def test_the_pages_example_is_sound(tmp_path: Path) -> None:
    (example_,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "h100.yaml").write_text(CAPTURED)
    (tmp_path / "config.yaml").write_text(example_.replace("YYYY-MM-DD", "2026-02-01"))
    read_ = settings_file.load_settings(str(tmp_path / "config.yaml"), TODAY)
    assert [rule.match for rule in read_.agent.assign] == [
        {"node.kubernetes.io/instance-type": "ecs.ebmgn*"},
        {"rack": "h100-*", "nvidia.com/gpu.present": "true"},
    ]
    assert read_.agent.confirmation.pass_span == 60
    assert len(read_.waivers) == 1


# --- nodeprep config init ---


def test_the_file_to_begin_with_says_what_no_file_says(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(starter.starter())
    begun = settings_file.load_settings(str(tmp_path / "config.yaml"), TODAY)
    assert begun.agent == AgentSettings()
    assert written.written(begun) == written.written(Settings())


def test_the_file_to_begin_with_has_every_key_and_what_it_means() -> None:
    value = yaml_document.read(starter.starter().encode(), "F").value
    assert sorted(leaves(value)) == sorted(path for path in PATHS if "[]" not in path)
    prose = " ".join(
        re.sub(r"^ *# ", "", line) for line in starter.starter().splitlines() if line.lstrip().startswith("# ")
    )
    for key in KEYS:
        if "[]" not in key.path:
            assert key.meaning in prose
            assert f"Wanted: {key.kind.says}." in prose
    assert max(map(len, starter.starter().splitlines())) <= 120


@pytest.mark.parametrize("path", [*EXAMPLES, "every"])
def test_its_examples_are_sound(tmp_path: Path, path: str) -> None:
    lines = [f"  {line}" for line in starter.example(path).replace("DATE", "2026-02-01").splitlines()]
    assert all(f"#  {line}" in starter.starter() for line in starter.example(path).splitlines())
    assert at(written.written(settings(tmp_path, "\n".join([f"{path}:", *lines, ""]))), path)


def test_the_agents_keys_are_known_as_such() -> None:
    ours = {path.partition(".")[0] for path in PATHS if "[]" not in path}
    assert ours - set(AGENT) == {"apiVersion", "kind", "default", "want", "waivers", "exclude", "metadata-url", "idle"}
