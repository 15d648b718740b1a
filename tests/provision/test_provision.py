"""`nodeprep provision` makes a node from zero ready for RoCE by one command, twice run, and still after a reboot.

Nothing here is shown by the presence of a file alone: each setting is seen at work, and at work again after the reboot.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.provision import roce_node
from tests.provision.roce_node import DEVICE, NOTHING_TO_DO, PROFILE, check, nodeprep, put, said
from tests.rigs import packet_record
from tests.rigs.systemd_guest import FRONT_END, SystemdGuest
from tests.rigs.waiting import until

SETTING = "net.ipv4.conf.all.arp_ignore"
PROVISION = ("nodeprep", "provision", "--profile", PROFILE, "--yes")
TRACED = "/run/programs"
# Everything that it starts, with its arguments.
TRACE = ("strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=execve", "-e", "status=successful", "-o", TRACED)
# Behind the default route, where nobody is: what is sent there is dropped.
OUTSIDE = "192.0.2.1"
SEND = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{OUTSIDE}', 9))"
REMEDIES = {"kernel_modules", "sysctl_lingjun", "memlock", "rdma_link_add"}


@pytest.mark.timeout(3600)
def test_a_node_from_zero_is_ready_by_one_command(guest: SystemdGuest, tmp_path: Path) -> None:
    put(guest, PROFILE, roce_node.profile())
    put(guest, "/etc/sysctl.d/50-image.conf", f"{SETTING} = 1\n")  # as some images have it
    guest.shell("sysctl --quiet --system")
    before = check(guest)
    assert before.returncode == 1, said(before)
    assert before.text.startswith("NOT READY"), said(before)

    sent = tmp_path / "sent"
    with packet_record.recorded(guest, FRONT_END, sent):
        done = nodeprep(guest, *PROVISION[1:])
        guest.run(("python3", "-c", SEND))  # last, so that with it the record has all packets before it
        until(lambda: OUTSIDE in packet_record.destinations(sent, FRONT_END.network), "the record has what was sent")
    assert packet_record.destinations(sent, FRONT_END.network) == {OUTSIDE}, "what else went outside"
    print(done.text)
    assert done.returncode == 0, said(done)
    assert "\nREADY" in done.text
    assert_is_ready(guest)
    told = history(guest)
    assert {one["state"] for one in told} == {"done"}
    assert {one["remedy"] for one in told} == REMEDIES

    again = guest.run((*TRACE, *PROVISION))
    assert again.returncode == 0, said(again)
    assert again.text.splitlines()[0] == NOTHING_TO_DO
    started = guest.shell(f"cat {TRACED}")
    assert '"provision"' in started
    assert not [line for line in started.splitlines() if "ansible" in line or "supervisor" in line]
    assert history(guest) == told

    guest.reboot()
    print(f"systemd guest: rebooted in {guest.seconds:.0f} s")
    assert_is_ready(guest)


def assert_is_ready(guest: SystemdGuest) -> None:
    """By our own check, and by what the kernel and systemd show."""
    done = check(guest)
    assert done.returncode == 0, said(done)
    assert done.text.startswith("READY"), said(done)
    shown = [one["ifname"] for one in json.loads(guest.shell("rdma --json link"))]
    assert shown == [DEVICE]
    assert guest.shell(f"sysctl -n {SETTING}") == "0"
    assert "unlimited" in guest.shell("grep 'Max locked memory' /proc/$(pidof containerd)/limits")
    assert guest.failed_units() == ()


def history(guest: SystemdGuest) -> list[dict[str, object]]:
    told: list[dict[str, object]] = json.loads(nodeprep(guest, "repair", "history", "-o", "json").text)
    return told
