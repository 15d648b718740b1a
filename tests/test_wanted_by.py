"""Who wants a number is true: a check's own default, a profile by its name, the configuration by its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep import check_round, job_profile, profile_selection, snapshot, state_file
from nodeprep.agent import profile_state
from nodeprep.agent_state import AgentState
from nodeprep.checks import CHECKS
from nodeprep.config import profile_files, wants
from nodeprep.config.configuration import Settings
from nodeprep.config.profile_files import NamedProfile
from nodeprep.decide import stored_state
from nodeprep.facts.machine.clock import Clock
from nodeprep.facts.machine.pci import Aer
from nodeprep.job_profile import NO_PROFILE, PortWant, Profile
from nodeprep.look import Look
from nodeprep.model import Seen, WantedBy
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import field_names, replace
from tests.checks.counter.test_physical import counters as physical
from tests.checks.counter.test_transport import counters as transport
from tests.checks.eni import test_free
from tests.checks.erdma import test_mode as erdma_mode
from tests.checks.fs import test_mounts
from tests.checks.limits import test_memlock, test_shm_hugepages
from tests.checks.qos import test_lossless
from tests.checks.rdma import test_netns_mode, test_verbs_class
from tests.cluster_values import cluster, condition, node_object, terway_node
from tests.cni_values import terway
from tests.eni_values import kernel, known, recorded
from tests.erdma_values import erdma
from tests.imds_values import imds
from tests.rigs import snapshots
from tests.values import device, expected, link, links, nic, pci, port, rdma, wanted

Facts = tuple[object, ...]
SMALL = (rdma(port()), expected(firm={port().subject.key: PortWant()}), links(link(mtu=1500)))
RAIL = (rdma(port(), devices=(device(),)), wanted(port(), "profile rails"))


def qos(**shown: Any) -> Facts:
    return (*RAIL, test_lossless.settings(test_lossless.qos(**shown)))


def shm(size: int) -> Facts:
    return (test_shm_hugepages.limits(size, test_shm_hugepages.TAKEN),)


def memlock(limit: int) -> Facts:
    low = test_memlock.limits(test_memlock.process(soft=limit))
    return (low, rdma(devices=(device(),)), expected())


STALE = (terway(), cluster(node=node_object(conditions=(condition(age=3600.0),))))
PHYSICAL = {
    "symbol-errors-per-hour": "symbol_error",
    "recoveries-per-minute": "link_error_recovery",
    "overruns-per-minute": "excessive_buffer_overrun_errors",
    "receive-errors-per-second": "port_rcv_errors",
    "discards-per-second": "port_xmit_discards",
}
TRANSPORT = {
    "local-ack-timeouts-per-second": "local_ack_timeout_err",
    "not-ready-per-second": "rnr_nak_retry_err",
    "slow-restarts-per-second": "roce_slow_restart",
    "out-of-sequence-per-second": "out_of_sequence",
    "software-sequence-errors-per-second": "rcvd_seq_err",
    "efa-events-per-second": "rx_drops",
    "retransmitted-packets-per-second": "retrans_pkts",
    "retransmitted-bytes-per-second": "retrans_bytes",
}
GROWN: tuple[tuple[str, Any, dict[str, str]], ...] = (
    ("physical", physical, PHYSICAL),
    ("transport", transport, TRANSPORT),
)
# A check, a number of it, facts that it holds against the node, and facts of ten seconds before. Where the default asks
# for nothing, the value that a profile states.
ROWS: list[tuple[str, str, Facts, Facts | None, Any]] = [
    ("eni.free", "at-least", (imds(), test_free.node(7, test_free.EXCLUSIVE)), None, None),
    (
        "eni.record",
        "synced-within",
        (imds(), kernel(), recorded(terway=terway_node(known(), synced=500 * 3600.0)), terway()),
        None,
        None,
    ),
    ("eni.trunk", "required", (imds(), kernel(), recorded()), None, True),
    ("erdma.mode", "mode", (erdma_mode.DEFAULT, rdma()), None, "compat"),
    ("erdma.module", "required", (erdma(functions=()),), None, True),
    ("fs.mounts", "mounts", (test_mounts.mounts(test_mounts.ROOT),), None, ["/data"]),
    ("limits.memlock", "fail-below", memlock(4096), None, None),
    ("limits.shm-hugepages", "shm-at-least", shm(1), None, None),
    ("limits.shm-hugepages", "huge-pages", shm(1 << 30), None, {"2048": 4096}),
    ("pci.aer", "correctable-per-minute", (pci(nic(aer=Aer(900, 0, 0))),), (pci(nic(aer=Aer(0, 0, 0))),), None),
    ("port.flap", "fail-at", (*RAIL, links(link(downs=9))), (*RAIL, links(link(downs=0))), None),
    ("port.mtu", "at-least", SMALL, None, None),
    ("port.mtu", "exactly", SMALL, None, [1400]),
    ("rdma.firmware", "allowed", RAIL, None, ["* 1.2.*"]),
    ("rdma.netns-mode", "mode", (test_netns_mode.told("exclusive"),), None, "shared"),
    ("rdma.verbs-class", "umad", (*RAIL, test_verbs_class.nodes(mads=None)), None, True),
    ("qos.lossless", "pfc", qos(pfc=()), None, [3]),
    ("qos.lossless", "ecn", qos(ecn=()), None, [3]),
    ("qos.lossless", "trust", qos(trust="pcp"), None, "dscp"),
    ("qos.lossless", "dscp", qos(dscp=()), None, {"26": 3}),
    ("terway.ip-sufficient", "heartbeat", STALE, None, None),
    ("terway.mode", "mode", (terway(), cluster(node=node_object(labels={}))), None, "exclusive"),
    ("terway.mode", "mode", (terway(present=False), cluster(node=node_object())), None, "exclusive"),
    ("time.sync", "max-error", (Clock(0.0, True, 0.25, 1.5),), None, None),
    ("time.sync", "max-offset", (Clock(0.0, True, 0.25, 0.5),), None, None),
    *(
        (f"counter.{check}", key, (*RAIL, made(**{name: 900_000_000})), (*RAIL, made(**{name: 0})), None)
        for check, made, numbers in GROWN
        for key, name in numbers.items()
    ),
]
# Numbers that no message holds a node against, and why.
SILENT = {
    ("counter.physical", "exclude"): "names of counters",
    ("counter.transport", "exclude"): "names of counters",
    ("pci.aer", "correctable-at-least"): "fewer say nothing of a rate; the rate itself is told",
    ("counter.stalled", "exclude"): "names of counters",
    ("counter.stalled", "over"): "how long to look; what is seen meanwhile is told with its seconds",
    ("klog.nic", "accept-userspace"): "whose lines are read",
    ("klog.nic-module", "accept-userspace"): "whose lines are read",
    ("klog.xid", "accept-userspace"): "whose lines are read",
    ("plugin.allocatable", "per-device"): "a factor; the numbers that it makes are told",
    ("plugin.allocatable", "virtual-functions"): "ids of devices; how many there are is told",
    ("plugin.tolerates-gate", "unhealthy-taint"): "the taint itself is told, and only the configuration names it",
    ("plugin.tolerates-gate", "bootstrap-taint"): "the taint itself is told, and only the configuration names it",
    ("plugin.tolerates-gate", "effect"): "the taint itself is told, and only the configuration names it",
    ("qos.lossless", "strict"): "how bad it is that another number is not met",
    ("sysctl.arp", "always"): "which nodes are asked; the 0 is Terway's, and the message says so",
}


def told(check: str, facts: Facts, before: Facts | None, numbers: dict[str, Any], by: str) -> str:
    """What a check says of the node where its numbers are stated so by somebody."""
    own = CHECKS[check]
    assert own.want is not None
    want = wants.want(CHECKS, check, numbers, ()) if numbers else own.want()
    known: dict[type, object] = {own.want: want, WantedBy: WantedBy(dict.fromkeys(numbers, by))}
    earlier = None if before is None else Seen({type(one): one for one in before} | known)
    seen = Seen({type(one): one for one in facts} | known, earlier, 10.0 if before else 0.0)
    return "; ".join(verdict.message for verdict in check_round.run_check(own, seen))


@pytest.mark.parametrize(("check", "key", "facts", "before", "value"), ROWS, ids=[f"{one[0]} {one[1]}" for one in ROWS])
def test_who_wants_it(check: str, key: str, facts: Facts, before: Facts | None, value: Any) -> None:
    usual = CHECKS[check].want
    assert usual is not None
    if value is None:
        assert f"wanted by default ({key})" in told(check, facts, before, {}, "")
        value = getattr(usual(), key.replace("-", "_"))
    said = told(check, facts, before, {key: value}, "profile site")
    assert f"wanted by profile site ({key})" in said
    assert f"by default ({key})" not in said


def test_every_number_is_in_the_table() -> None:
    numbers = {
        (check.id, name.replace("_", "-"))
        for check in CHECKS.values()
        if check.want is not None
        for name in field_names(check.want)
    }
    assert numbers == {(check, key) for check, key, *_ in ROWS} | SILENT.keys()


SITE = """apiVersion: nodeprep.io/v1
kind: Profile
name: {name}
extends: {extends}
want: {{time.sync: {{{numbers}}}}}
"""


def by(profile: Profile) -> dict[str, str]:
    return job_profile.stated_by(profile, "time.sync")


def test_each_number_is_of_the_profile_or_the_file_that_states_it(tmp_path: Path) -> None:
    (tmp_path / "rack.yaml").write_text(SITE.format(name="rack", extends="base", numbers="max-error: 2, max-offset: 2"))
    (tmp_path / "site.yaml").write_text(SITE.format(name="site", extends="rack.yaml", numbers="max-offset: 1"))
    profile = profile_files.effective(str(tmp_path / "site.yaml"))
    assert by(profile) == {"max-error": "profile rack", "max-offset": "profile site"}
    settings = Settings(file="/etc/nodeprep/config.yaml", want={"time.sync": {"max-error": 3}})
    assert by(settings.over(profile)) == {"max-error": "/etc/nodeprep/config.yaml", "max-offset": "profile site"}
    assert by(settings.over(NO_PROFILE)) == {"max-error": "/etc/nodeprep/config.yaml"}
    assert by(NO_PROFILE) == {}


CLOCK = Look(1.0, True, {Clock: Clock(0.0, True, 0.25, 9.5)})


def said(profile: Profile) -> str:
    judged = check_round.judge([CHECKS["time.sync"]], CLOCK, None, profile, wants.wants(profile))
    return judged.findings[0].verdict.message


def test_a_round_tells_it_and_a_snapshot_keeps_it() -> None:
    profile = Settings(file="/etc/nodeprep/config.yaml", want={"time.sync": {"max-error": 3}}).over(Profile("site"))
    assert "3 s at most are wanted by /etc/nodeprep/config.yaml (max-error)" in said(profile)
    assert "1 s at most are wanted by default (max-error)" in said(Profile("site"))
    kept = replace(snapshots.whole(), profile=snapshot.recorded(profile), want_by=profile.want_by)
    assert said(snapshot.loads(snapshot.dumps(kept)).in_force()) == said(profile)


def test_what_the_agent_remembers_tells_it_after_a_reboot_too() -> None:
    """`check` judges by the agent's profile, and the agent by it while it does not know the labels of its node."""
    profile = Settings(file="/etc/nodeprep/config.yaml", want={"time.sync": {"max-error": 3}}).over(Profile("site"))
    selection = ProfileSelection(profile, "", (NamedProfile(profile, ("site",)),))
    kept = state_file.dumps(profile_state.with_selection(AgentState(), selection))
    agent_state = stored_state.surviving_reboot(state_file.loads(kept))
    found = profile_selection.by_agent(agent_state)
    assert found is not None
    (part,) = profile_selection.remembered_profiles(agent_state)
    for one in (found.profile, part.profile):
        assert "3 s at most are wanted by /etc/nodeprep/config.yaml (max-error)" in said(one)


def test_of_two_profiles_in_force_the_one_that_states_it() -> None:
    rack = Profile("rack", want={"time.sync": {"max-error": 2}})
    site = Profile("site", want={"time.sync": {"max-offset": 1}})
    both = profile_selection.merged([NamedProfile(one, (one.name,)) for one in (rack, site)])
    assert both.name == "rack+site"
    assert by(both) == {"max-error": "profile rack", "max-offset": "profile site"}
