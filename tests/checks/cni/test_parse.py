"""cni.parse by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.cni.parse import CHECK
from nodeprep.facts.network.cni import CniFile, CniNetwork
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import cni, cni_file, network, plugin, terway
from tests.values import say, verdicts

WRONG = "line 3, column 17: a comma or } is missing before '\"'"


def unreadable(name: str, why: Why = Why.MALFORMED, detail: str = WRONG) -> CniFile:
    blind: CniNetwork = guarded(Unreadable(why, f"/etc/cni/net.d/{name}", detail=detail))
    return CniFile(name, blind)


def terways(*types: str, name: str = "terway-chainer", file: str = "10-terway.conflist") -> CniFile:
    return CniFile(file, network(*(plugin(one) for one in types), name=name))


GOOD = cni_file("10-calico.conflist", "calico", "portmap")

ROWS = [
    # files                                                            says
    ((terways("terway"),), "ok WellFormed"),
    ((terways("terway", "cilium-cni"),), "ok WellFormed"),
    ((terways("terway", "bandwidth", "cilium-cni"),), "ok WellFormed"),
    ((terways("cilium-cni", "terway"),), "fail NotTerways terway_restart()"),
    ((terways("cilium-cni"),), "fail NotTerways terway_restart()"),
    ((terways("terway", name="cbr0"),), "fail NotTerways terway_restart()"),
    ((terways("terway", name="terway", file="10-terway.conf"),), "ok WellFormed"),
    ((GOOD,), "ok WellFormed"),
    ((unreadable("10-terway.conflist"),), "fail Malformed terway_restart()"),
    ((unreadable("10-terway.conf"),), "fail Malformed terway_restart()"),
    ((unreadable("00-x.conf"), GOOD), "fail Malformed; ok WellFormed"),
    ((GOOD, unreadable("20-x.conf")), "ok WellFormed; warn MalformedUnused"),
    ((GOOD, unreadable("20-terway.conflist")), "ok WellFormed; warn MalformedUnused"),
    ((unreadable("00-a.conf"), unreadable("01-b.conf")), "fail Malformed; warn MalformedUnused"),
    ((unreadable("00-x.conf", Why.MISSING, ""),), "fail Malformed"),
    ((unreadable("00-x.conf", Why.DENIED, ""), GOOD), "unknown CannotLook; ok WellFormed"),
    ((unreadable("00-x.conf", Why.IO_ERROR, "a FIFO"),), "unknown CannotLook"),
    ((), "absent Nothing"),
    (None, "absent Nothing"),
]


@pytest.mark.parametrize(("files", "says"), ROWS)
def test_says(files: tuple[CniFile, ...] | None, says: str) -> None:
    assert say(CHECK, cni(files=files)) == says


@pytest.mark.parametrize("version", ["", "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
def test_versions_of_the_specification(version: str) -> None:
    assert say(CHECK, cni(cni_file("10-x.conflist", "calico", version=version))) == "ok WellFormed"


@pytest.mark.parametrize("version", ["0.5.0", "2.0.0", "v1.0.0", "\x1b[31m"])
def test_a_version_that_nobody_knows(version: str) -> None:
    assert say(CHECK, cni(cni_file("10-x.conflist", "calico", version=version))) == "warn UnknownVersion"


def test_without_a_kubelet_it_is_nobodys() -> None:
    for files in ((GOOD,), (unreadable("00-x.conf"),)):
        assert say(CHECK, cni(files=files, kubelet=False)) == "absent Nothing"
        assert say(CHECK, cni(files=files, kubelet=False), terway(present=False)) == "absent Nothing"
    assert say(CHECK, cni(unreadable("00-x.conf"), kubelet=False), terway()) == "fail Malformed"


def test_says_where_it_is_wrong() -> None:
    (said,) = verdicts(CHECK, cni(unreadable("10-terway.conflist")))
    assert f"/etc/cni/net.d/10-terway.conflist: {WRONG}; it sorts first" in said.message
    assert said.observed == WRONG
    (_, said) = verdicts(CHECK, cni(GOOD, unreadable("20-x.conf")))
    assert "terway" not in said.message.lower()
    (said,) = verdicts(CHECK, cni(unreadable("00-x.conf", Why.MISSING, "")))
    assert "a link to nothing" in said.message


def test_says_what_stands_in_whose_place() -> None:
    (said,) = verdicts(CHECK, cni(terways("cilium-cni", "terway")))
    assert "its first plugin is cilium-cni, not terway: terway is behind cilium-cni" in said.message
    (said,) = verdicts(CHECK, cni(terways("cilium-cni")))
    assert "terway is not in the chain" in said.message
    (said,) = verdicts(CHECK, cni(terways("terway", name="cbr0")))
    assert "its name is 'cbr0', not 'terway-chainer'" in said.message
