"""eni.os-manager: who sets up secondary interfaces beside Terway."""

from __future__ import annotations

import pytest

from nodeprep.checks.eni.os_manager import CHECK
from nodeprep.facts.network.os_network import InterfaceClaim, OsNetwork
from tests.cni_values import terway
from tests.eni_values import DENIED, SILENT
from tests.imds_values import NOT_ECS, imds
from tests.values import say, verdicts

CLOUD_INIT = InterfaceClaim(
    "cloud-init", "/etc/cloud/cloud.cfg", "apply_full_imds_network_config: true: DHCP on every NIC"
)
UDEV = InterfaceClaim("udev", "/lib/udev/rules.d/61-eni.rules", "sets up or renames interfaces as they appear")
NONE, ONE = OsNetwork(0.0, ()), OsNetwork(0.0, (CLOUD_INIT,))
WARNS = "warn ClaimsEnis os_unmanage_eni()"

ROWS = [
    ((imds(), NONE, terway()), "ok TerwayOnly"),
    ((imds(), ONE, terway()), WARNS),
    ((imds(), OsNetwork(0.0, (CLOUD_INIT, UDEV)), terway()), f"{WARNS}; {WARNS}"),
    ((imds(), ONE, terway(present=False)), "absent Nothing"),
    ((NOT_ECS, ONE, terway()), "absent Nothing"),
    ((imds(SILENT), ONE, terway()), WARNS),  # an instance all the same
    ((ONE, terway()), WARNS),  # a dead tree
    ((imds(), OsNetwork(0.0, DENIED), terway()), "unknown CannotLook"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("facts", "says"), ROWS)
def test_says(facts: tuple[object, ...], says: str) -> None:
    assert say(CHECK, *facts) == says


def test_message() -> None:
    (found,) = verdicts(CHECK, ONE, terway())
    assert found.message == (
        "cloud-init sets up secondary interfaces beside Terway: /etc/cloud/cloud.cfg: "
        "apply_full_imds_network_config: true: DHCP on every NIC"
    )
    assert (found.subject.place, found.subject.name) == ("/etc/cloud/cloud.cfg", "cloud-init")
