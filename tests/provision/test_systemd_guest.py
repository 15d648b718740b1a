"""The rig of a node from zero: its parts are real, its disk outlives a reboot, and each test finds it new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from tests.rigs import systemd_disk
from tests.rigs.systemd_guest import FRONT_END, MTU, NICS, RAILS, RDMA_DEVICE, Completed, Nic, SystemdGuest
from tests.rigs.waiting import until

PROGRAM = systemd_disk.__file__.replace("systemd_disk", "systemd_guest")
RAIL = RAILS[0]
ADD_LINK = f"modprobe -a crc32_generic rdma_rxe ib_uverbs; rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}"
# Debian has comments there, and nothing else.
WHERE_SETTINGS_STAND = (
    *("/etc/modules", "/etc/modules-load.d", "/etc/modprobe.d", "/etc/sysctl.conf", "/etc/sysctl.d"),
    *("/etc/security/limits.d", "/etc/udev/rules.d", "/etc/systemd/system/containerd.service.d"),
)
# A TCP connection to an address behind the default route.
CONNECT = "import socket; socket.create_connection(('{address}', 443), timeout=3)"


def check(guest: SystemdGuest, *words: str) -> Completed:
    return guest.run(("nodeprep", "check", "--profile", "rdma-roce", *words))


def address(nic: Nic) -> str:
    return nic.address.partition("/")[0]


def has_address(guest: SystemdGuest, nic: Nic) -> bool:
    return address(nic) in guest.shell(f"ip -o -4 address show dev {nic.netdev}")


def test_systemd_is_its_first_process_and_every_unit_is_well(guest: SystemdGuest) -> None:
    assert guest.shell("cat /proc/1/comm; readlink /proc/1/exe") == "systemd\n/usr/lib/systemd/systemd"
    assert guest.failed_units() == ()
    assert guest.state == "running"
    units = "systemd-networkd systemd-udevd dbus containerd lab-agent"

    def active() -> list[str]:
        return guest.shell(f"systemctl is-active {units} || true").split()

    until(lambda: active() == ["active"] * 5, "each is active: udevd may just be starting anew")


def test_its_root_is_a_disk_of_its_own(guest: SystemdGuest) -> None:
    assert guest.shell("findmnt -no SOURCE,FSTYPE /").split() == ["/dev/vda", "ext4"]
    assert guest.shell(". /etc/os-release; echo $VERSION_CODENAME; uname -r").split() == [
        "bookworm",
        guest.shell("ls /lib/modules"),
    ]
    assert guest.shell("uname -r") != os.uname().release


@pytest.mark.parametrize("nic", NICS, ids=lambda nic: nic.id)
def test_networkd_gives_a_nic_its_address(guest: SystemdGuest, nic: Nic) -> None:
    (seen,) = (
        link
        for link in json.loads(guest.shell("networkctl --json=short list"))["Interfaces"]
        if link["Name"] == nic.netdev
    )
    assert (seen["AdministrativeState"], seen["OperationalState"]) == ("configured", "routable")
    assert seen["NetworkFile"] == f"/etc/systemd/network/10-{nic.id}.network"
    assert guest.shell(f"cat /sys/class/net/{nic.netdev}/mtu") == str(MTU)
    assert guest.shell(f"basename $(realpath /sys/class/net/{nic.netdev}/device/..)") == nic.bdf
    assert has_address(guest, nic)


def test_networkd_gives_the_address_again_after_a_driver_was_bound_anew(guest: SystemdGuest) -> None:
    driver = "/sys/bus/pci/drivers/virtio-pci"
    guest.shell(f"echo {RAIL.bdf} > {driver}/unbind; [ ! -e /sys/class/net/{RAIL.netdev} ]")
    guest.shell(f"echo {RAIL.bdf} > {driver}/bind")
    guest.shell(
        f"until ip -o -4 address show dev {RAIL.netdev} 2>/dev/null | grep -q {address(RAIL)}; do sleep 0.2; done"
    )


def test_nobody_has_set_it_up(guest: SystemdGuest) -> None:
    """No module of RDMA, no limit, no sysctl of ours."""
    assert guest.shell("grep -E '^(ib_|rdma|mlx|nvme|iw_)' /proc/modules || true") == ""
    assert guest.run(("test", "-e", "/sys/class/infiniband")).returncode == 1
    locked = guest.shell("grep 'Max locked memory' /proc/$(pidof containerd)/limits").split()
    assert locked[3:5] == ["8388608", "8388608"]
    said = guest.shell(
        "find " + " ".join(WHERE_SETTINGS_STAND) + " -type f ! -name 'README*' -exec cat {} + 2>/dev/null || true"
    )
    assert [line for line in said.splitlines() if line.strip() and not line.startswith("#")] == []


def test_udev_sees_the_nodes_of_a_real_rdma_link(guest: SystemdGuest) -> None:
    guest.shell(f"{ADD_LINK}; udevadm settle")
    said = guest.shell("udevadm info --query=property /dev/infiniband/uverbs0; stat -c %F:%a /dev/infiniband/uverbs0")
    assert "SUBSYSTEM=infiniband_verbs" in said
    assert "USEC_INITIALIZED=" in said, "udev has not handled the device"
    assert said.splitlines()[-1] == "character special file:666"
    assert "PORT_ACTIVE" in guest.shell(f"ibv_devinfo -d {RDMA_DEVICE}")


def test_it_has_what_holds_rdma_devices_and_networks(guest: SystemdGuest) -> None:
    """Modules of those who use a device in the kernel, and of interfaces over others."""
    guest.shell("modprobe -a nvme_rdma nvmet_rdma bridge bonding dummy 8021q")
    guest.shell("ip link add bond0 type bond; ip link add br0 type bridge; ip link add dummy1 type dummy")


@pytest.mark.prove  # test_provision.py needs it too
def test_its_disk_outlives_a_reboot_and_its_memory_does_not(guest: SystemdGuest) -> None:
    first = guest.boot_id
    guest.shell(f"echo kept > /etc/kept; echo lost > /run/lost; {ADD_LINK}")
    guest.reboot()
    print(f"systemd guest: rebooted in {guest.seconds:.0f} s")
    assert guest.boot_id == guest.shell("cat /proc/sys/kernel/random/boot_id") != first
    assert guest.state == "running"
    assert guest.shell("cat /etc/kept") == "kept"
    assert guest.run(("test", "-e", "/run/lost")).returncode == 1
    assert guest.shell("grep -E '^(ib_|rdma)' /proc/modules || true") == ""
    assert guest.shell("rdma link") == ""  # it has the kernel load ib_core
    assert has_address(guest, RAIL)


@pytest.mark.prove  # a second reboot
def test_what_was_synced_outlives_a_power_cut(guest: SystemdGuest) -> None:
    first = guest.boot_id
    guest.shell("echo kept > /etc/kept; sync")
    guest.cut_power()
    assert guest.boot_id != first
    assert guest.shell("cat /etc/kept") == "kept"


def test_a_restored_node_is_as_new(guest: SystemdGuest) -> None:
    before = guest.boot_id
    guest.shell(f"touch /etc/written; {ADD_LINK}; ip link set {RAIL.netdev} down; systemctl stop containerd")
    guest.set_link("rail2", up=False)
    guest.unplug("front")
    guest.restore()
    assert guest.boot_id == before
    assert guest.run(("test", "-e", "/etc/written")).returncode == 1
    assert guest.shell("rdma link; systemctl is-active containerd") == "active"
    assert all(has_address(guest, nic) for nic in NICS)
    assert guest.shell(f"cat /sys/class/net/{RAILS[1].netdev}/carrier") == "1"
    assert abs(float(guest.shell("date +%s")) - time.time()) < 120, "its clock is that of the snapshot"


def test_this_checkout_runs_there_by_the_guests_own_interpreter(guest: SystemdGuest) -> None:
    where = guest.shell("python3 -I -c 'import sys, nodeprep; print(sys.executable, nodeprep.__file__)'")
    assert where == f"/usr/bin/python3 {systemd_disk.CHECKOUT}/agent/nodeprep/__init__.py"
    program = guest.run(("sh", "-c", "nodeprep explain module.core; nodeprep nonsense; echo $?"))
    fork = guest.run(("nodeprep", "explain", "module.core"))
    assert fork.returncode == 0, fork.stderr
    assert program.text == f"{fork.text}\n2"
    assert guest.run(("touch", f"{systemd_disk.CHECKOUT}/written")).returncode == 1


@pytest.mark.prove  # test_provision.py needs it too
def test_nodeprep_sees_modules_come_and_go(guest: SystemdGuest) -> None:
    asked = ("--only", "module.core")
    assert check(guest, *asked).returncode == 1
    guest.shell("modprobe ib_uverbs")
    assert check(guest, *asked).returncode == 0
    guest.shell("modprobe -r ib_uverbs")
    said = check(guest, *asked)
    assert (said.returncode, "NotLoaded" in said.text) == (1, True), said
    guest.shell("find /lib/modules -name 'ib_uverbs.ko*' -delete; depmod")
    said = check(guest, *asked)
    assert (said.returncode, "NoModule" in said.text) == (1, True), said


@pytest.mark.prove  # test_provision.py needs it too
def test_nodeprep_sees_the_limit_of_the_runtime(guest: SystemdGuest) -> None:
    """A remedy of it needs a real unit, with a real process."""
    guest.shell(ADD_LINK)
    said = check(guest, "--only", "limits.memlock")
    assert (said.returncode, "containerd" in said.text) == (1, True), said
    guest.shell("mkdir -p /etc/systemd/system/containerd.service.d")
    drop_in = "/etc/systemd/system/containerd.service.d/memlock.conf"
    guest.shell(f"printf '[Service]\\nLimitMEMLOCK=infinity\\n' > {drop_in}; systemctl daemon-reload")
    guest.shell("systemctl restart containerd")
    assert check(guest, "--only", "limits.memlock").returncode == 0


@pytest.mark.prove  # test_provision.py records what is sent
@pytest.mark.parametrize("outside", ["192.0.2.1", "10.0.3.2"])
def test_nothing_outside_answers(guest: SystemdGuest, outside: str) -> None:
    """There is a default route, and nodeprep does not need what may lie behind it."""
    assert f"dev {FRONT_END.netdev}" in guest.shell(f"ip route get {outside}")
    done = guest.run(("python3", "-c", CONNECT.format(address=outside)))
    assert done.returncode == 1
    assert b"Error" in done.stderr.splitlines()[-1]
    assert check(guest, "--only", "module.core").returncode == 1


@pytest.mark.prove  # boots a second guest
def test_the_program_relays_streams_and_exit_code() -> None:
    command = (sys.executable, PROGRAM, "run", "--", "sh", "-c", "hostname; pwd >&2; exit 7")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "node\n", "/root\n")
