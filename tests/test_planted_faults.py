"""Each planted fault is one that can be planted: `make prove-planted` takes long, so this is held in `make test`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import planted_faults
from tests.planted_faults import FAULTS, PACKAGE, REPOSITORY, Planted


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_a_fault_replaces_stands_there_once(fault: Planted) -> None:
    source = (REPOSITORY / PACKAGE / fault.module).read_text()
    assert source.count(fault.old) == 1, f"{fault.module} was changed: plant this fault in what stands there now"
    assert fault.old != fault.new
    assert fault.room in planted_faults.ROOMS


def test_each_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(fault.name for fault in FAULTS).items() if count > 1] == []
