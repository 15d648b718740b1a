"""`nodeprep` on a node of the rig is a fork of a process outside: it says what the program says there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.netns import Node
from tests.rigs.netns_node import Unavailable


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    try:
        with Node() as started:
            yield started
    except Unavailable as reason:
        cannot_start(reason)


def findings(said: str) -> list[dict[str, Any]]:
    """All of them, less what differs from one look to the next: a time, a clock."""
    told = [one for one in json.loads(said)["findings"] if one["check"] != "time.sync"]
    return [{key: one[key] for key in ("check", "status", "reason", "subject", "blind")} for one in told]


def test_a_fork_sees_the_node_that_the_program_sees(node: Node) -> None:
    words = ("check", "--settle", "0", "-o", "json")
    forked = node.run("nodeprep", *words, check=False)
    program = node.run("python", "-m", "nodeprep", *words, check=False)
    assert findings(forked.stdout) == findings(program.stdout)
    assert "eth1" in forked.stdout, "an ENI that is on that node alone"
    assert forked.returncode == program.returncode


def test_a_node_that_went_is_named() -> None:
    with Node() as gone:
        pid = gone.pid
    done = gone.run("nodeprep", "version", check=False)
    assert done.returncode == 1
    assert f"/proc/{pid}/ns/net" in done.stderr
