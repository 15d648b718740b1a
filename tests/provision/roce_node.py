"""What the tests ask of a node from zero: a profile that wants soft RoCE of a rail, and nodeprep's commands there."""

from __future__ import annotations

from tests.rigs.systemd_guest import RAILS, Completed, SystemdGuest

PROFILE = "/srv/node.yaml"  # in the guest, where no other configuration is looked for
PLAYS = 2400.0  # seconds for a command that runs playbooks: each takes 15 to 200 in an emulated guest
RAIL, SECOND = RAILS
DEVICE = "rxe0"  # on one rail: each more costs a play
NOTHING_TO_DO = "nothing to do: no finding has a remedy of ours"


def profile(want: str = "") -> str:
    """A profile of this node. `want` is one more line of what checks want.

    ARP is asked as on Lingjun's nodes: the one sysctl that a node without Terway needs.
    """
    return f"""apiVersion: nodeprep.io/v1
kind: Profile
name: node
extends: rdma-roce
gates: [sysctl.arp]
want:
  sysctl.arp: {{always: true}}
{f"  {want}" if want else ""}
expect:
  modules: [ib_core, ib_uverbs]
  devices:
    "{RAIL.bdf}": {{driver: virtio-pci, rdma: {DEVICE}, software: rxe}}
    "{SECOND.bdf}": {{driver: virtio-pci}}
"""


def put(guest: SystemdGuest, path: str, text: str) -> None:
    """Writes a file, and the directories that lead to it."""
    done = guest.run(("sh", "-ec", 'mkdir -p "$(dirname "$0")"; cat > "$0"', path), input=text.encode())
    assert done.returncode == 0, said(done)


def nodeprep(guest: SystemdGuest, *words: str) -> Completed:
    return guest.run(("nodeprep", *words), timeout=PLAYS)


def check(guest: SystemdGuest, *words: str) -> Completed:
    return nodeprep(guest, "check", "--profile", PROFILE, *words)


def repair(guest: SystemdGuest, *words: str) -> Completed:
    return nodeprep(guest, "repair", "--profile", PROFILE, "--yes", *words)


def said(done: Completed) -> str:
    """Both streams, for the message of an assertion."""
    return (done.stdout + done.stderr).decode(errors="replace")


def one_line(done: Completed) -> str:
    """Standard output without its line breaks, which a page sets by its width."""
    return " ".join(done.text.split())
