"""What a file tells the agent, and for each number that cannot be meant the one line that an operator reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.checks import CHECKS
from nodeprep.config import agent_settings, configuration, written, yaml_document
from nodeprep.config.agent_settings import AgentSettings, MetricsSettings
from nodeprep.config.configuration import AGENT
from nodeprep.config.document import ConfigError
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.fault_confirmation import RULES, ConfirmationPolicy, ConfirmationRule
from nodeprep.decide.gate_readiness import Mode, ReadinessPolicy
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_policy import PlayDeadlines, RepairPolicy
from nodeprep.facts import ALL as FACTS
from nodeprep.model import Confirmation
from nodeprep.values import replace
from tests.config_files import HEAD, TODAY, settings


def rules(kind: Confirmation, **changed: Any) -> ConfirmationPolicy:
    return ConfirmationPolicy(rules={**RULES, kind: replace(RULES[kind], **changed)})


READ = [
    # keys                                                          what they come to
    ("", AgentSettings()),
    ("mode:\ngate:\nconfirmation:\nassign:\nevery:\n", AgentSettings()),
    ("mode: gate\n", AgentSettings(mode=Mode.GATE)),
    ("mode: repair\n", AgentSettings(mode=Mode.REPAIR)),
    ("assign: []\n", AgentSettings()),
    ("gate: {profiles: [], allow-auto: true}\n", AgentSettings(gate=GatePolicy(profiles=(), allow_auto=True))),
    ("gate: {effect: PreferNoSchedule}\n", AgentSettings(gate=GatePolicy(effect="PreferNoSchedule"))),
    ("gate: {unhealthy-taint: a.b/c}\n", AgentSettings(gate=GatePolicy(unhealthy_taint="a.b/c"))),
    (
        "gate: {bootstrap-taint: startup-taint.cluster-autoscaler.kubernetes.io/x, rdma-label: x}\n",
        AgentSettings(
            gate=GatePolicy(bootstrap_taint="startup-taint.cluster-autoscaler.kubernetes.io/x", rdma_label="x")
        ),
    ),
    ("confirmation: {fast: {}}\n", AgentSettings()),
    ("confirmation: {fast: {of: 3}}\n", AgentSettings(confirmation=rules(Confirmation.FAST, of=3))),
    ("confirmation: {records: {apart: 30}}\n", AgentSettings(confirmation=rules(Confirmation.RECORDS, apart=30.0))),
    (
        "confirmation: {slow: {fails: 1, of: 1, span: 0}}\n",
        AgentSettings(confirmation=ConfirmationPolicy(rules={**RULES, Confirmation.SLOW: ConfirmationRule(1, 1)})),
    ),
    (
        "confirmation: {passes: 5, pass-span: 45, pass-every: 15, flap-count: 1, flap-window: 60, blind-after: 90}\n",
        AgentSettings(confirmation=ConfirmationPolicy(RULES, 5, 45.0, 15.0, 1, 60.0, 90.0)),
    ),
    (
        "readiness: {bootstrap-limit: 60, human-passes: 30, validation-limit: 31, remedy-after: 0, grace: 0}\n",
        AgentSettings(readiness=ReadinessPolicy(60.0, 30.0, 31.0, 0.0, 0.0)),
    ),
    ("repair:\n", AgentSettings()),
    ("repair: {deadline: }\n", AgentSettings()),
    ("repair: {max-class: , tries: , back-off: , deadline: {safe: }}\n", AgentSettings()),
    (
        "repair: {max-class: S1, bootstrap-max-class: S1, tries: 10, slots: 16, bootstrap-slots: 64}\n",
        AgentSettings(repair=RepairPolicy(SafetyClass.S1, SafetyClass.S1, 10, slots=16, bootstrap_slots=64)),
    ),
    (
        "repair: {tries: 1, slots: 1, bootstrap-slots: 1}\n",
        AgentSettings(repair=RepairPolicy(tries=1, bootstrap_slots=1)),
    ),
    ("repair: {back-off: [60]}\n", AgentSettings(repair=RepairPolicy(back_off=(60.0,)))),
    (
        "repair: {back-off: [60, 60.5, 61, 61, 86400]}\n",
        AgentSettings(repair=RepairPolicy(back_off=(60.0, 60.5, 61.0, 61.0, 86400.0))),
    ),
    (
        "repair: {deadline: {safe: 30, idle: 30}}\n",
        AgentSettings(repair=RepairPolicy(deadline=PlayDeadlines(30.0, 30.0))),
    ),
    ("repair: {deadline: {safe: 600}}\n", AgentSettings(repair=RepairPolicy(deadline=PlayDeadlines(600.0, 600.0)))),
    ("every: {rdma: 0.5, kernel-log: 3600}\n", AgentSettings(every={"rdma": 0.5, "kernel-log": 3600.0})),
    ("metrics: {bind: 10.0.0.7}\n", AgentSettings(metrics=MetricsSettings("10.0.0.7"))),
    ('metrics: {bind: "::1", port: 0}\n', AgentSettings(metrics=MetricsSettings("::1", 0))),
]


@pytest.mark.parametrize(("keys", "says"), READ, ids=range(len(READ)))
def test_keys_are_read(tmp_path: Path, keys: str, says: AgentSettings) -> None:
    assert settings(tmp_path, keys).agent == says


REPAIR = ("tries", "back-off", "slots", "deadline", "safe", "max-class")
WORDS = (
    "fast",
    "slow",
    "fails",
    "of",
    "span",
    "passes",
    "pass-span",
    "grace",
    "rdma",
    "imds",
    "match",
    "use",
    "port",
    *REPAIR,
)
QUALIFIED = "wanted a name as Kubernetes takes it, such as nodeprep.io/unhealthy"
REFUSED = [
    # the third line and on             says
    ("moed: gate", ":3: moed: found 'moed', wanted 'mode'"),
    ("mode: Gate", ":3: mode: found 'Gate', wanted one of observe, gate, repair"),
    ("mode: [gate]", ":3: mode: found a list, wanted one of observe, gate, repair"),
    ("gate: closed", ":3: gate: found 'closed', wanted keys with values"),
    ("gate: false", ":3: gate: found false, wanted keys with values"),
    ("gate:\n  profils: []", ":4: gate.profils: found 'profils', wanted 'profiles'"),
    ("gate: {profiles: 5}", ":3: gate.profiles: found 5, wanted a list of words"),
    ("gate: {allow-auto: yes}", ":3: gate.allow-auto: found 'yes', wanted true or false"),
    ("gate: {effect: NoExecute}", ":3: gate.effect: found 'NoExecute', wanted one of NoSchedule, PreferNoSchedule"),
    ("gate: {unhealthy-taint: a/b/c}", f":3: gate.unhealthy-taint: found 'a/b/c', {QUALIFIED}"),
    ("gate: {unhealthy-taint: /c}", f":3: gate.unhealthy-taint: found '/c', {QUALIFIED}"),
    ("gate: {unhealthy-taint: a.b/}", f":3: gate.unhealthy-taint: found 'a.b/', {QUALIFIED}"),
    ("gate: {unhealthy-taint: A.b/c}", f":3: gate.unhealthy-taint: found 'A.b/c', {QUALIFIED}"),
    ("gate: {unhealthy-taint: a..b/c}", f":3: gate.unhealthy-taint: found 'a..b/c', {QUALIFIED}"),
    ("gate: {unhealthy-taint: 7}", f":3: gate.unhealthy-taint: found 7, {QUALIFIED}"),
    ("gate: {bootstrap-taint: a/-b}", f":3: gate.bootstrap-taint: found 'a/-b', {QUALIFIED}"),
    ("gate: {rdma-label: 'a b'}", f":3: gate.rdma-label: found 'a b', {QUALIFIED}"),
    (
        "gate: {unhealthy-taint: nodeprep.io/bootstrap}",
        ":3: gate.unhealthy-taint: found 'nodeprep.io/bootstrap', wanted another name than gate.bootstrap-taint has",
    ),
    (
        "confirmation: {latch: {}}",
        ":3: confirmation.latch: found 'latch', wanted one of fast, records, slow, passes, pass-span, ",
    ),
    ("confirmation: {fast: {fail: 2}}", ":3: confirmation.fast.fail: found 'fail', wanted 'fails'"),
    (
        "confirmation: {fast: {fails: 0}}",
        ":3: confirmation.fast.fails: found 0, wanted a whole number of looks, 1 to 5",
    ),
    ("confirmation: {fast: {of: 6}}", ":3: confirmation.fast.of: found 6, wanted a whole number of looks, 1 to 5"),
    (
        "confirmation: {fast: {fails: 2.0}}",
        ":3: confirmation.fast.fails: found 2.0, wanted a whole number of looks, 1 to 5",
    ),
    (
        "confirmation: {fast: {fails: true}}",
        ":3: confirmation.fast.fails: found true, wanted a whole number of looks, 1 to 5",
    ),
    (
        "confirmation: {fast: {apart: -1}}",
        ":3: confirmation.fast.apart: found -1, wanted a plain number of seconds, 0 to 3600",
    ),
    (
        "confirmation: {fast: {apart: true}}",
        ":3: confirmation.fast.apart: found true, wanted a plain number of seconds, 0 to ",
    ),
    (
        "confirmation: {fast: {apart: 1s}}",
        ":3: confirmation.fast.apart: found '1s', wanted a plain number of seconds, 0 to 3600",
    ),
    (
        "confirmation: {slow: {span: 3601}}",
        ":3: confirmation.slow.span: found 3601, wanted a plain number of seconds, 0 to 3600",
    ),
    (
        "confirmation:\n  fast:\n    fails: 3",
        ":5: confirmation.fast.fails: found 3, wanted at most 2, as many as confirmation.fast.of",
    ),
    (
        "confirmation:\n  slow: {of: 2}",
        ":4: confirmation.slow.fails: found 3, wanted at most 2, as many as confirmation.slow.of",
    ),
    (
        "confirmation: {slow: {fails: 1, of: 3}}",
        ":3: confirmation.slow.span: found 60.0, wanted 0, for one failure (confirmation.slow.fails) takes no time",
    ),
    ("confirmation: {passes: 0}", ":3: confirmation.passes: found 0, wanted a whole number of looks, 1 to 100"),
    (
        "confirmation: {pass-span: -30}",
        ":3: confirmation.pass-span: found -30, wanted a plain number of seconds, 0 to 3600",
    ),
    (
        "confirmation: {pass-every: 0}",
        ":3: confirmation.pass-every: found 0, wanted a plain number of seconds, 0.5 to 600",
    ),
    (
        "confirmation: {flap-count: 0}",
        ":3: confirmation.flap-count: found 0, wanted a whole number of releases, 1 to 100",
    ),
    (
        "confirmation: {flap-window: 0}",
        ":3: confirmation.flap-window: found 0, wanted a plain number of seconds, 1 to 86400",
    ),
    (
        "confirmation: {blind-after: .inf}",
        ":3: confirmation.blind-after: found '.inf', wanted a plain number of seconds, 1 to ",
    ),
    ("readiness: {grace: -1}", ":3: readiness.grace: found -1, wanted a plain number of seconds, 0 to 3600"),
    (
        "readiness: {bootstrap-limit: 1}",
        ":3: readiness.bootstrap-limit: found 1, wanted a plain number of seconds, 60 ",
    ),
    (
        "confirmation: {pass-span: 200}\nreadiness:\n  validation-limit: 150",
        ":5: readiness.validation-limit: found 150.0, wanted at least 200, as long as the passes take (confirmation.",
    ),
    (
        "confirmation: {pass-span: 600}\nreadiness: {bootstrap-limit: 599}",
        ":4: readiness.bootstrap-limit: found 599.0, wanted at least 600, as long as the passes take (confirmation.",
    ),
    ("repair: true", ":3: repair: found true, wanted keys with values"),
    ("repair: {max-clas: S1}", ":3: repair.max-clas: found 'max-clas', wanted 'max-class'"),
    ("repair: {max-class: S3}", ":3: repair.max-class: found 'S3', wanted one of S1, S2"),
    ("repair: {max-class: S4}", ":3: repair.max-class: found 'S4', wanted one of S1, S2"),
    ("repair: {max-class: s1}", ":3: repair.max-class: found 's1', wanted one of S1, S2"),
    ("repair:\n  bootstrap-max-class: [S1]", ":4: repair.bootstrap-max-class: found a list, wanted one of S1, S2"),
    ("repair: {tries: 0}", ":3: repair.tries: found 0, wanted a whole number of tries, 1 to 10"),
    ("repair: {tries: 11}", ":3: repair.tries: found 11, wanted a whole number of tries, 1 to 10"),
    ("repair: {tries: 2.5}", ":3: repair.tries: found 2.5, wanted a whole number of tries, 1 to 10"),
    ("repair: {back-off: 60}", ":3: repair.back-off: found 60, wanted a list of seconds"),
    ("repair: {back-off: []}", ":3: repair.back-off: found 0, wanted 1 to 5 numbers of seconds"),
    (
        "repair: {back-off: [60, 60, 60, 60, 60, 60]}",
        ":3: repair.back-off: found 6, wanted 1 to 5 numbers of seconds",
    ),
    (
        "repair:\n  back-off:\n    - 60\n    - 59.9",
        ":6: repair.back-off[1]: found 59.9, wanted a plain number of seconds, 60 to 86400",
    ),
    (
        "repair:\n  back-off:\n    - 300\n    - 60",
        ":6: repair.back-off[1]: found 60.0, wanted at least 300, as long as the one before",
    ),
    (
        "repair: {back-off: [5m]}",
        ":3: repair.back-off[0]: found '5m', wanted a plain number of seconds, 60 to 86400",
    ),
    ("repair: {slots: 0}", ":3: repair.slots: found 0, wanted a whole number of nodes, 1 to 16"),
    ("repair: {slots: 17}", ":3: repair.slots: found 17, wanted a whole number of nodes, 1 to 16"),
    ("repair: {bootstrap-slots: 0}", ":3: repair.bootstrap-slots: found 0, wanted a whole number of nodes, 1 to 64"),
    ("repair: {bootstrap-slots: 65}", ":3: repair.bootstrap-slots: found 65, wanted a whole number of nodes, 1 to 64"),
    ("repair: {deadline: 120}", ":3: repair.deadline: found 120, wanted keys with values"),
    ("repair: {deadline: []}", ":3: repair.deadline: found a list, wanted keys with values"),
    ("repair: {deadline: {S1: 60}}", ":3: repair.deadline.S1: found 'S1', wanted one of safe, idle"),
    (
        "repair: {deadline: {safe: 29}}",
        ":3: repair.deadline.safe: found 29, wanted a plain number of seconds, 30 to 600",
    ),
    (
        "repair:\n  deadline:\n    idle: 601",
        ":5: repair.deadline.idle: found 601, wanted a plain number of seconds, 30 to 600",
    ),
    # The waits that no configuration shortens have no key, under whatever name.
    ("repair: {settled: 1}", ":3: repair.settled: found 'settled', wanted "),
    ("repair: {passes: 1}", ":3: repair.passes: found 'passes', wanted "),
    ("repair: {waits: {settled: 1}}", ":3: repair.waits: found 'waits', wanted "),
    ("repair-waits: settled=1", ":3: repair-waits: found 'repair-waits', wanted "),
    ("every: 5", ":3: every: found 5, wanted keys with values"),
    ("every:\n  kernel_log: 5", ":4: every.kernel_log: found 'kernel_log', wanted a fact such as 'kernel-log'"),
    ("every: {nonsense: 5}", ":3: every.nonsense: found 'nonsense', wanted a fact"),
    ("every: {rdma: 0.4}", ":3: every.rdma: found 0.4, wanted a plain number of seconds, 0.5 to 3600"),
    ("every: {rdma: 3601}", ":3: every.rdma: found 3601, wanted a plain number of seconds, 0.5 to 3600"),
    ("every: {rdma: }", ":3: every.rdma: found nothing, wanted a plain number of seconds, 0.5 to 3600"),
    ("every: {imds: 14}", ":3: every.imds: found 14, wanted at least 15: others serve imds to the whole fleet"),
    ("metrics: {bind: localhost}", ":3: metrics.bind: found 'localhost', wanted an IP address of this node, such as "),
    ("metrics: {bind: 7}", ":3: metrics.bind: found 7, wanted an IP address of this node, such as 127.0.0.1"),
    ("metrics: {port: -1}", ":3: metrics.port: found -1, wanted a whole number, 0 to 65535"),
    ("metrics: {port: 65536}", ":3: metrics.port: found 65536, wanted a whole number, 0 to 65535"),
    ("metrics: {address: 127.0.0.1}", ":3: metrics.address: found 'address', wanted one of bind, port"),
]


@pytest.mark.parametrize(("keys", "says"), REFUSED, ids=range(len(REFUSED)))
def test_a_mistake_is_named_by_file_line_and_key(tmp_path: Path, keys: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings(tmp_path, keys + "\n")
    assert str(error.value).startswith(f"{tmp_path}/config.yaml{says}")
    assert "\n" not in str(error.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats(-1e9, 1e9) | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.sampled_from(WORDS), parts, max_size=3),
    max_leaves=6,
)


@hypothesis.settings(deadline=None, max_examples=500)
@given(st.dictionaries(st.sampled_from(AGENT), VALUES, min_size=1, max_size=3))
def test_whatever_stands_there_is_read_or_refused_in_one_line(keys: dict[str, object]) -> None:
    top = {"apiVersion": "nodeprep.io/v1", "kind": "Config", **keys}
    try:
        told = configuration.parse_settings(yaml_document.read(yaml_document.dump(top).encode(), "F"), TODAY, CHECKS)
    except ConfigError as error:
        told, said = None, str(error)
    else:
        said = "F:"
    assert said.startswith("F:")
    assert said.isprintable()
    if told is not None:
        once_more = configuration.parse_settings(
            yaml_document.read(yaml_document.dump(written.written(told)).encode(), "F"), TODAY, CHECKS
        )
        assert once_more.agent == told.agent


@pytest.mark.parametrize(
    ("name", "sound"), [("a" * 63, True), ("a" * 64, False), (f"{'a' * 253}/b", True), (f"{'a' * 254}/b", False)]
)
def test_names_are_as_long_as_kubernetes_takes_them(tmp_path: Path, name: str, sound: bool) -> None:
    keys = f"gate: {{rdma-label: {name}}}\n"
    if sound:
        assert settings(tmp_path, keys).agent.gate.rdma_label == name
    else:
        with pytest.raises(ConfigError, match="wanted a name as Kubernetes takes it"):
            settings(tmp_path, keys)


def test_periods_go_by_the_files_of_facts_and_are_their_own_where_none_is_given() -> None:
    names = {agent_settings.fact_name(fact): fact for fact in FACTS}
    assert len(names) == len(FACTS)
    assert {"rdma", "kernel-log", "counters", "pci", "cluster", "os-network"} <= set(names)
    told = AgentSettings(every={"counters": 20.0})
    assert told.periods([names["counters"], names["rdma"]]) == {names["counters"].kind: 20.0}


def test_a_file_without_the_agents_keys_loads_nothing_of_the_agent(tmp_path: Path) -> None:
    """`check` has 150 ms (design 7), and the agent's policies would take 30 of them."""
    (tmp_path / "config.yaml").write_text(HEAD + "default: rdma-roce\n")
    program = (
        "import sys; from nodeprep.config.configuration import load_settings; "
        f"load_settings({str(tmp_path / 'config.yaml')!r}, '2026-01-10'); "
        "print([name for name in sys.modules if name.startswith(('nodeprep.decide.', 'nodeprep.config.agent'))])"
    )
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
