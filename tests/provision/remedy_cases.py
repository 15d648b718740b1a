"""Faults of the guest that remedies mend: how a test makes each, and how the kernel or systemd shows that it is gone.

The scripts stand for themselves: they neither call nodeprep nor read what it wrote, but for what the kernel made of it.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.provision import roce_node
from tests.provision.roce_node import DEVICE, RAIL, SECOND

MTU = 4300  # bytes; neither the driver's 9000 nor the kernel's 1500, so only our rule can bring it back at a boot
PROFILE_TEXT = roce_node.profile(f"port.mtu: {{exactly: [{MTU}]}}")
NETWORK = "/etc/systemd/network"
PCI = "/sys/bus/pci"
CONFLIST = '{"cniVersion":"0.4.0","name":"t","plugins":[{"type":"terway","eniip_virtual_type":"datapathv2"}]}'
# What makes this node one of Terway's. Its daemon does not run here.
TERWAY = (
    f"mkdir -p /etc/cni/net.d /opt/cni/bin; echo '{CONFLIST}' > /etc/cni/net.d/10-terway.conflist; "
    "install -m 755 /bin/true /opt/cni/bin/terway"
)
NO_TERWAY = "Terway itself: only its configuration and a program of its name are there"
DROP_INS = "/etc/systemd/system/containerd.service.d"


class RemedyCase(NamedTuple):
    """A remedy with a fault that it mends.

    Attributes:
        check: that finds the fault, with `reason` as its word.
        story: the fault in a few words, for the table of docs/repair.md.
        fault: a script that makes it.
        mended: a script that ends with 0 if it is gone.
        given: a script that makes what the fault needs, also after a reboot.
        booted: as `mended`, after the reboot, if other things show it there.
        not_shown: parts of the remedy that no guest shows, for the table.
    """

    remedy: str
    check: str
    reason: str
    story: str
    fault: str
    mended: str
    given: str = "true"
    booted: str = ""
    not_shown: str = ""


# In this order, in one boot: what a case has mended, later ones may need.
CASES = (
    RemedyCase(
        "kernel_modules",
        "module.core",
        "NotLoaded",
        "`ib_uverbs` unloaded",
        "modprobe ib_uverbs; modprobe -r ib_uverbs",
        "grep -q '^ib_uverbs ' /proc/modules",
    ),
    RemedyCase(
        "rdma_link_add",
        "pci.rdma-driver",
        "NoRdmaLink",
        "the RoCE device deleted (`rdma link delete`)",
        f"modprobe rdma_rxe; rdma link add {DEVICE} type rxe netdev {RAIL.netdev}; rdma link delete {DEVICE}",
        f"rdma link show {DEVICE}/1 | grep -q 'netdev {RAIL.netdev}'",
    ),
    RemedyCase(
        "rdma_device_nodes",
        "rdma.device-nodes",
        "NodeMissing",
        "`/dev/infiniband/uverbs0` removed",
        "rm /dev/infiniband/uverbs0",
        f"[ $(stat -c %a /dev/infiniband/uverbs0) = 666 ]; ibv_devinfo -d {DEVICE} | grep -q PORT_ACTIVE",
    ),
    RemedyCase(
        "memlock",
        "limits.memlock",
        "Limited",
        "a drop-in with `LimitMEMLOCK=64K` for containerd",
        f"mkdir -p {DROP_INS}; printf '[Service]\\nLimitMEMLOCK=64K\\n' > {DROP_INS}/50-site.conf; "
        "systemctl daemon-reload; systemctl restart containerd",
        "grep 'Max locked memory' /proc/$(pidof containerd)/limits | grep -q 'unlimited *unlimited'",
        not_shown="CRI-O, Docker and the kubelet",
    ),
    RemedyCase(
        "link_up",
        "port.state",
        "AdministrativelyDown",
        "the rail's interface set down",
        f"ip link set {RAIL.netdev} down",
        f"ip -o link show {RAIL.netdev} up | grep -q LOWER_UP",
    ),
    RemedyCase(
        "mtu",
        "port.mtu",
        "WrongMtu",
        "MTU 1500 on the rail; networkd states none",
        f"sed -i /MTUBytes/d {NETWORK}/10-{RAIL.id}.network; networkctl reload; ip link set {RAIL.netdev} mtu 1500",
        f"grep -qx {MTU} /sys/class/net/{RAIL.netdev}/mtu",
    ),
    RemedyCase(
        "driver_bind",
        "pci.driver-bound",
        "NotBound",
        "a NIC unbound from its driver",
        f"echo {SECOND.bdf} > {PCI}/drivers/virtio-pci/unbind",
        f"[ -e {PCI}/drivers/virtio-pci/{SECOND.bdf} ]; [ -e {PCI}/devices/{SECOND.bdf}/virtio*/net ]",
    ),
    RemedyCase(
        "pci_rescan",
        "pci.expected-nic",
        "Missing",
        "a NIC removed from the PCI bus by sysfs",
        f"echo 1 > {PCI}/devices/{SECOND.bdf}/remove",
        f"[ -e {PCI}/devices/{SECOND.bdf}/driver ]",
        not_shown="a hot-plug that the kernel missed",
    ),
    RemedyCase(
        "sysctl_lingjun",
        "sysctl.arp",
        "ArpRestricted",
        "`arp_ignore = 1`, now and in `/etc/sysctl.d`",
        "echo net.ipv4.conf.all.arp_ignore = 1 > /etc/sysctl.d/50-site.conf; sysctl -q --system",
        "[ $(sysctl -n net.ipv4.conf.all.arp_ignore) = 0 ]",
    ),
    RemedyCase(
        "sysctl_terway",
        "sysctl.rp-filter",
        "StrictFilter",
        "strict `rp_filter`, now and in `/etc/sysctl.d`",
        "echo net.ipv4.conf.all.rp_filter = 1 > /etc/sysctl.d/60-site.conf; sysctl -q --system",
        "! grep -x 1 /proc/sys/net/ipv4/conf/*/rp_filter",
        given=TERWAY,
        not_shown=NO_TERWAY,
    ),
    RemedyCase(
        "terway_dirs",
        "terway.directories",
        "Missing",
        "neither `/var/lib/cni/terway` nor `/run/eni`",
        "rm -rf /var/lib/cni/terway /run/eni",
        "[ -d /var/lib/cni/terway ]; [ -d /run/eni ]",
        given=TERWAY,
        not_shown=NO_TERWAY,
    ),
    RemedyCase(
        "mount_bpffs",
        "terway.bpffs",
        "NotMounted",
        "`/sys/fs/bpf` unmounted",
        "umount /sys/fs/bpf",
        "findmnt -n -t bpf /sys/fs/bpf",
        # As Cilium's agent makes it.
        given=f"{TERWAY}; [ -e /sys/class/net/cilium_net ] || ip link add cilium_net type veth peer name cilium_host",
        not_shown=f"{NO_TERWAY}, and a veth pair of the names that Cilium's has",
    ),
    # The last one: it takes the address of all but the first rail away at the reboot, as it is to do.
    RemedyCase(
        "os_unmanage_eni",
        "eni.os-manager",
        "ClaimsEnis",
        "networkd gives each interface an address",
        f"rm {NETWORK}/10-{SECOND.id}.network; "
        f"printf '[Match]\\nName=eth*\\n[Network]\\nAddress={SECOND.address}\\n' > {NETWORK}/50-all.network",
        "[ -e /etc/systemd/network/00-nodeprep-eni.network ]",
        # An ECS instance by its DMI data alone: its metadata does not answer.
        given=f"{TERWAY}; echo Alibaba Cloud ECS > /run/product; "
        "mount --bind /run/product /sys/class/dmi/id/product_name",
        booted=f"networkctl status {SECOND.netdev} | grep -q 'State: .*unmanaged'; "
        f"! ip -o -4 address show dev {SECOND.netdev} | grep .",
        not_shown="cloud-init, NetworkManager, eni.service and udev rules: only the presence of files is asserted "
        "(tests/playbooks); that it is an ECS instance says a file over its DMI data",
    ),
)
