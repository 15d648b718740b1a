"""`nodeprep provision` makes a node from zero ready for RoCE by one command, twice run, and still after a reboot."""

from __future__ import annotations

import json

import pytest

from tests.rigs.systemd_guest import RAILS, Completed, SystemdGuest

# A soft-RoCE device on each rail, as a profile of this node wants them.
PROFILE = "/root/node.yaml"
DEVICES = {nic.bdf: f"rxe{number}" for number, nic in enumerate(RAILS)}
TEXT = """apiVersion: nodeprep.io/v1
kind: Profile
name: node
extends: rdma-roce
expect:
  modules: [ib_core, ib_uverbs]
  devices:
"""
LONG = 900.0  # seconds: each play takes 15 to 30 s in an emulated guest


def profile() -> str:
    lines = [f'    "{bdf}": {{driver: virtio-pci, rdma: {name}, software: rxe}}\n' for bdf, name in DEVICES.items()]
    return TEXT + "".join(lines)


def provision(guest: SystemdGuest, *words: str) -> Completed:
    asked = ("nodeprep", "provision", "--profile", PROFILE, "--yes", "--no-color", *words)
    return guest.run(asked, timeout=LONG)


def check(guest: SystemdGuest) -> Completed:
    return guest.run(("nodeprep", "check", "--profile", PROFILE, "--no-color"))


@pytest.mark.timeout(3600)
def test_a_node_from_zero_is_ready_by_one_command(guest: SystemdGuest) -> None:
    guest.run(("tee", PROFILE), input=profile().encode())
    before = check(guest)
    assert before.returncode == 1, words(before)
    done = provision(guest)
    print(done.text)
    assert done.returncode == 0, words(done)
    assert check(guest).returncode == 0
    again = provision(guest)
    assert again.returncode == 0, words(again)
    assert again.text.startswith("nothing to do"), again.text
    told = json.loads(guest.run(("nodeprep", "repair", "history", "-o", "json")).text)
    assert {one["state"] for one in told} == {"done"}
    guest.reboot()
    after = check(guest)
    assert after.returncode == 0, words(after)


def words(done: Completed) -> str:
    return (done.stdout + done.stderr).decode(errors="replace")
