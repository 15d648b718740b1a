"""The lab itself: what its guest has is real, can be broken in every way the tests need, and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.rigs.ending import ending
from tests.rigs.lab import FRONT_END, RAIL, RDMA_DEVICE, RDMA_PORT, Guest, GuestError
from tests.rigs.lab_guest import REPOSITORY
from tests.rigs.waiting import until

NET = f"/sys/class/net/{RAIL.netdev}"
DEVICES = "/sys/bus/pci/devices"
DRIVER = "/sys/bus/pci/drivers/virtio-pci"
PROGRAM = REPOSITORY / "tests/rigs/lab.py"


def test_a_healthy_guest_has_a_real_roce_device(guest: Guest) -> None:
    assert guest.setup_errors == ()
    assert guest.shell(f"cat {RDMA_PORT}/state {RDMA_PORT}/link_layer {RDMA_PORT}/rate") == (
        "4: ACTIVE\nEthernet\n100 Gb/sec (4X EDR)"
    )
    said = guest.shell("ibv_devinfo")
    assert f"hca_id:\t{RDMA_DEVICE}" in said
    assert "active_mtu:\t\t4096" in said
    assert guest.shell("hostname; id -u; ulimit -l") == "lab\n0\nunlimited"


def test_a_healthy_guest_moves_rdma_traffic(guest: Guest) -> None:
    """Two queue pairs of the one device: what a port that is ACTIVE is for."""
    said = guest.shell(
        f"ibv_rc_pingpong -d {RDMA_DEVICE} -g 1 -n 20 > /dev/null &"
        "until ss -ltn | grep -q :18515; do sleep 0.1; done;"  # the server listens
        f"ibv_rc_pingpong -d {RDMA_DEVICE} -g 1 -n 20 {RAIL.address.split('/')[0]}"
    )
    assert "20 iters in" in said


def test_the_front_end_is_a_nic_without_rdma(guest: Guest) -> None:
    assert guest.shell(f"ls {DEVICES}/{FRONT_END.bdf}/virtio*/net; ls {DEVICES}/{FRONT_END.bdf} | grep -c speed") == (
        f"{FRONT_END.netdev}\n2"
    )
    assert FRONT_END.netdev not in guest.shell("rdma link")


def test_this_checkout_runs_inside(guest: Guest) -> None:
    said = guest.run((str(REPOSITORY / ".venv/bin/python"), "-c", "import nodeprep; print(nodeprep.__file__)"))
    assert said.text.startswith(str(REPOSITORY)), said


def test_nodeprep_says_the_same_as_a_program_and_in_a_fork(guest: Guest) -> None:
    """The lab runs `nodeprep` in a fork of its agent; a shell in the guest starts the program that users start."""
    program = guest.run(("sh", "-c", "nodeprep explain port.state; nodeprep nonsense; echo $?"))
    fork = guest.run(("nodeprep", "explain", "port.state"))
    assert fork.returncode == 0
    assert program.text == f"{fork.text}\n2"
    wrong = guest.run(("nodeprep", "nonsense"), env={"NODEPREP_ROOT": "/nowhere"}, cwd=Path("/"))
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, b"", program.stderr)


# What breaks it, what shows that it is broken (a shell test). Each must be gone after `restore`.
DAMAGE = {
    "link deleted": (f"rdma link delete {RDMA_DEVICE}", f"[ ! -e {RDMA_PORT} ]"),
    "link renamed": (f"rdma dev set {RDMA_DEVICE} name other0", f"[ ! -e {RDMA_PORT} ]"),
    "link on another netdev": (
        f"rdma link delete {RDMA_DEVICE}; rdma link add {RDMA_DEVICE} type rxe netdev {FRONT_END.netdev}",
        f"! rdma link | grep {RAIL.netdev}",
    ),
    "module removed": ("modprobe -r rdma_rxe", "[ ! -e /sys/module/rdma_rxe ]"),
    "modules removed": ("modprobe -r rdma_rxe ib_umad rdma_ucm", "[ ! -e /sys/module/ib_umad ]"),
    "netdev down": (f"ip link set {RAIL.netdev} down", f"grep DOWN {RDMA_PORT}/state"),
    "netdev renamed": (f"ip link set {RAIL.netdev} down; ip link set {RAIL.netdev} name rail0", f"[ ! -e {NET} ]"),
    "address removed": (f"ip address del {RAIL.address} dev {RAIL.netdev}", f"! grep -r ffff {RDMA_PORT}/gids"),
    "all addresses flushed": (f"ip address flush dev {RAIL.netdev}", f"! grep {RAIL.netdev} /proc/net/if_inet6"),
    "MTU lowered": (f"ip link set {RAIL.netdev} mtu 1500", "ibv_devinfo | grep 'active_mtu:.*1024'"),
    "speed lowered": (f"ethtool -s {RAIL.netdev} speed 25000 duplex full", f"grep '25 Gb' {RDMA_PORT}/rate"),
    "node removed": ("rm /dev/infiniband/uverbs0", "! ibv_devinfo"),
    "node forbidden": ("chmod 600 /dev/infiniband/uverbs0", "! setpriv --reuid 65534 --clear-groups ibv_devinfo"),
    "node replaced": ("rm /dev/infiniband/uverbs0; mkdir /dev/infiniband/uverbs0", "! ibv_devinfo"),
    "driver unbound": (f"echo {RAIL.bdf} > {DRIVER}/unbind", f"[ ! -e {DEVICES}/{RAIL.bdf}/driver ]"),
    "netdev unbound": (
        f"basename {DEVICES}/{RAIL.bdf}/virtio* > /sys/bus/virtio/drivers/virtio_net/unbind",
        f"[ ! -e {NET} ]",
    ),
    "device removed": (f"echo 1 > {DEVICES}/{RAIL.bdf}/remove", f"[ ! -e {DEVICES}/{RAIL.bdf} ]"),
    "both removed": (
        f"echo 1 > {DEVICES}/{RAIL.bdf}/remove; echo 1 > {DEVICES}/{FRONT_END.bdf}/remove",
        f"[ ! -e /sys/class/net/{FRONT_END.netdev} ]",
    ),
    "fatal line in the kernel log": ("echo '<2>mlx5_core: health compromised' > /dev/kmsg", "dmesg | grep compromised"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_restore_undoes(guest: Guest, damage: str) -> None:
    breaks, shows = DAMAGE[damage]
    shown = ("sh", "-c", f"{{ {shows}; }} > /dev/null 2>&1")
    assert guest.run(shown).returncode != 0, "shown before it was done"
    guest.shell(breaks)
    eventually = f"for i in $(seq 300); do {shown[-1]} && exit; sleep 0.1; done; exit 1"
    assert guest.run(("sh", "-c", eventually)).returncode == 0, "not shown"
    assert guest.restore() == ()
    assert guest.run(shown).returncode != 0, "shown after restore"


def port_becomes(guest: Guest, state: str) -> bool:
    wait = f"for i in $(seq 300); do grep -q {state} {RDMA_PORT}/state && exit; sleep 0.1; done; exit 1"
    return guest.run(("sh", "-c", wait)).returncode == 0


def test_a_pulled_cable_takes_the_port_down(guest: Guest) -> None:
    guest.set_link("rail", up=False)
    assert port_becomes(guest, "DOWN")
    assert guest.shell(f"cat {RDMA_PORT}/phys_state") == "2: Polling"
    guest.set_link("rail", up=True)
    assert port_becomes(guest, "ACTIVE")
    guest.set_link("rail", up=False)
    assert guest.restore() == ()
    assert guest.shell(f"cat {RDMA_PORT}/state") == "4: ACTIVE"


def test_a_nic_is_plugged_in_and_taken_out(guest: Guest) -> None:
    bdf = guest.hot_plug("eni1", "00:16:3e:aa:bb:11")
    assert guest.shell(f"cat {DEVICES}/{bdf}/virtio*/net/*/address") == "00:16:3e:aa:bb:11"
    guest.unplug("eni1")
    assert guest.run(("test", "-e", f"{DEVICES}/{bdf}")).returncode == 1
    assert guest.hot_plug("eni2", "00:16:3e:aa:bb:12") == bdf
    guest.restore()
    assert guest.run(("test", "-e", f"{DEVICES}/{bdf}")).returncode == 1


def test_the_rail_can_be_taken_out(guest: Guest) -> None:
    guest.unplug("rail")
    assert guest.shell("rdma link") == ""
    assert guest.restore() == ()
    assert RAIL.netdev in guest.shell("rdma link")


def test_a_command_is_relayed_byte_for_byte(guest: Guest) -> None:
    every_byte = bytes(range(256)) * 4096
    done = guest.run(("sh", "-c", "tee /dev/stderr; exit 7"), input=every_byte)
    assert (done.returncode, done.stdout, done.stderr) == (7, every_byte, every_byte)


def test_how_a_command_ends_is_told_as_subprocess_tells_it(guest: Guest) -> None:
    assert guest.run(("sh", "-c", "kill -9 $$")).returncode == -signal.SIGKILL
    assert guest.run(("no-such-program",)).returncode == 127
    assert guest.run(("true",), cwd=Path("/no/such/directory")).returncode == 127
    assert guest.run(("sh", "-c", 'printf %s "$SAID"'), env={"SAID": "x y"}).stdout == b"x y"


def test_what_a_command_leaves_behind_does_not_hold_it_up(guest: Guest) -> None:
    began = time.monotonic()
    assert guest.run(("sh", "-c", "sleep 600 & echo gone")).text == "gone"
    assert time.monotonic() - began < 300


def test_a_command_out_of_time_is_killed_and_says_what_it_said(guest: Guest) -> None:
    said = threading.Event()
    running = guest.launch(("sh", "-c", "echo waiting; exec sleep 4321"), on_output=lambda *_: said.set())
    assert said.wait(60)
    with pytest.raises(GuestError, match=r"(?s)did not end within 1 s; it said:\nwaiting.*console"):
        running.wait(1)
    assert guest.run(("pgrep", "-f", "sleep 4321")).returncode == 1


def test_commands_run_beside_each_other(guest: Guest) -> None:
    waiting = guest.launch(("sh", "-c", "until [ -e /run/go ]; do sleep 0.1; done; rm /run/go; echo went"))
    guest.shell("touch /run/go")
    assert waiting.wait(240).text == "went"


def test_an_error_shows_the_console(guest: Guest) -> None:
    guest.shell("echo '<1>the kernel says why' > /dev/kmsg")
    with pytest.raises(GuestError, match="the kernel says why"):
        guest.shell("sleep 0.5; false")


def test_a_denied_module_is_nowhere() -> None:
    with Guest.start(deny=("rdma-rxe",)) as bare:
        assert any(
            line.startswith("module rdma_rxe: modprobe: FATAL: Module rdma_rxe not found") for line in bare.setup_errors
        )
        assert bare.shell(f"cat {NET}/operstate") == "up"
        assert bare.run(("modinfo", "rdma_rxe")).returncode == 1
        assert bare.shell("find /lib/modules/ -name 'rdma_rxe.ko*'; find /lib/modules/ -name ib_core.ko | wc -l") == "1"
        assert bare.shell(f"ls {bare._image.directory}") == ""


def test_a_denied_module_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="rdma_rex: the kernel has no such module"):
        Guest.start(deny=("rdma_rex",))


def test_a_killed_parent_leaves_no_guest() -> None:
    source = "import time; from tests.rigs.lab import Guest; print(Guest(frozenset()).pid, flush=True); time.sleep(60)"
    with ending(subprocess.Popen((sys.executable, "-c", source), cwd=REPOSITORY, stdout=subprocess.PIPE)) as parent:
        assert parent.stdout
        process = Path("/proc") / parent.stdout.readline().decode().strip()
        until(lambda: "qemu" in (process / "comm").read_text(), "QEMU: it is setpriv first")
        parent.kill()
    until(lambda: not process.exists(), "the end of QEMU")


def test_the_program_relays_streams_and_exit_code() -> None:
    command = (sys.executable, str(PROGRAM), "run", "--", "sh", "-c", "pwd; hostname >&2; command -v python; exit 7")
    environment = {name: value for name, value in os.environ.items() if name != "LAB_MODULES_DENY"}
    done = subprocess.run(command, capture_output=True, text=True, cwd="/usr/lib", env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, f"/usr/lib\n{REPOSITORY}/.venv/bin/python\n", "lab\n")
