"""The healthy state of a lab guest: its NICs, and the steps that restore it from any state."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

MTU = 9000  # a RoCE path MTU of 4096 needs more than 4096 + headers
SPEED = 100_000  # Mb/s; rxe shows it as the rate "100 Gb/sec (4X EDR)"


@dataclass(frozen=True, slots=True)
class Nic:
    """A virtio NIC behind a PCIe root port of its own. `port` is also the number of its PCI bus."""

    id: str
    mac: str
    port: int
    netdev: str
    network: str
    address: str

    @property
    def bdf(self) -> str:
        return bdf_behind(self.port)


def bdf_behind(port: int) -> str:
    """The firmware numbers buses in the order of the root ports, so port N's device is on bus N."""
    return f"0000:{port:02x}:00.0"


RAIL = Nic("rail", "00:16:3e:aa:bb:00", 1, "eth0", "10.0.2.0/24", "10.0.2.15/24")
FRONT_END = Nic("front", "00:16:3e:aa:bb:01", 2, "eth1", "10.0.3.0/24", "10.0.3.15/24")
NICS = (RAIL, FRONT_END)
PORTS = (1, 2, 3, 4, 5, 6)
GATEWAY = "10.0.3.2"  # QEMU's user network answers there

RDMA_DEVICE = "rocep1s0"  # as rdma-core's rdma_rename would call a RoCE device at 01:00.0
RDMA = f"/sys/class/infiniband/{RDMA_DEVICE}"
RDMA_PORT = f"{RDMA}/ports/1"
IPV4_GID = "0000:0000:0000:0000:0000:ffff:0a00:020f"  # of RAIL.address

# rxe asks for crc32 by a name that only crc32_generic has: without it `rdma link add` says ENOENT.
MODULES = ("virtio_net", "ib_core", "ib_uverbs", "rdma_ucm", "ib_umad", "crc32_generic", "rdma_rxe")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that must hold: a shell test for it, and a command that makes it hold."""

    name: str
    test: str
    make: str


def steps() -> Iterator[Step]:
    # An address and its GID are usable at once only without duplicate address detection.
    for scope in ("all", "default"):
        dad = f"/proc/sys/net/ipv6/conf/{scope}/accept_dad"
        yield Step(f"accept_dad {scope}", f"is 0 {dad}", f"echo 0 > {dad}")
    yield Step("lo is up", "[ -e /sys/class/net/lo ] && is_up lo", "ip link set lo up")
    for module in MODULES:
        yield Step(f"module {module}", f"[ -d /sys/module/{module} ]", f"modprobe {module}")
    for nic in NICS:
        yield from nic_steps(nic)
    yield Step("default route", f"has_route {FRONT_END.netdev}", f"ip route replace default via {GATEWAY}")
    yield from rdma_steps()
    # The ring keeps lines of tests in /dev/kmsg (facilities other than 0; 17 is ours) until new lines replace them.
    yield Step("kernel log", "! dmesg -Sr | grep -qv -e '^<[0-7]>' -e '^<143>'", "overwrite_kernel_log")


def nic_steps(nic: Nic) -> Iterator[Step]:
    pci = f"/sys/bus/pci/devices/{nic.bdf}"
    net = f"/sys/class/net/{nic.netdev}"
    yield Step(f"{nic.id} on the PCI bus", f"[ -e {pci} ]", "echo 1 > /sys/bus/pci/rescan")
    yield Step(f"{nic.id} has its driver", f"[ -e /sys/bus/pci/drivers/virtio-pci/{nic.bdf} ]", f"bind_pci {nic.bdf}")
    yield Step(f"{nic.id} has a netdev", f"netdev_of {nic.bdf}", f"probe_virtio {nic.bdf}")
    yield Step(f"{nic.id} is {nic.netdev}", f"[ -e {pci}/virtio*/net/{nic.netdev} ]", f"rename {nic.bdf} {nic.netdev}")
    yield Step(f"{nic.netdev} is up", f"is_up {nic.netdev}", f"ip link set {nic.netdev} up")
    yield Step(f"{nic.netdev} MTU", f"is {MTU} {net}/mtu", f"ip link set {nic.netdev} mtu {MTU}")
    speed = f"ethtool -s {nic.netdev} speed {SPEED} duplex full"
    yield Step(f"{nic.netdev} has carrier", f"is 1 {net}/carrier", f"[ -e {net} ]")
    yield Step(f"{nic.netdev} speed", f"is {SPEED} {net}/speed", speed)
    # A flushed link-local address comes back only with the link.
    bounce = f"ip link set {nic.netdev} down && ip link set {nic.netdev} up"
    yield Step(f"{nic.netdev} link-local address", f"has_link_local {nic.netdev}", bounce)
    held = f"has_address {nic.address.partition('/')[0]}"
    yield Step(f"{nic.netdev} address", held, f"ip address replace {nic.address} dev {nic.netdev}")


def rdma_steps() -> Iterator[Step]:
    yield Step("no other RDMA device", "no_other_rdma", "delete_other_rdma")
    add = f"rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}"
    yield Step("RDMA link", f"is {RAIL.netdev} {RDMA}/parent", add)
    yield Step("RDMA port is active", f"is '4: ACTIVE' {RDMA_PORT}/state", f"[ -e {RDMA} ]")
    yield Step("GID of the address", f"has_gid {IPV4_GID}", f"[ -e {RDMA} ]")
    # Anyone may open these (rdma-core's rules say the same). devtmpfs does not make a removed one again.
    nodes = "/dev/infiniband/uverbs* /dev/infiniband/rdma_cm"
    yield Step("RDMA device nodes", "nodes_are_there", f"make_nodes && chmod 666 {nodes}")
    yield Step("RDMA node permissions", "false", f"[ ! -e /dev/infiniband ] || chmod 666 {nodes}")


# Shell builtins where possible: a program costs 20 to 50 ms in software emulation. A `test` of "false" means: always do
# it. After `make` the test may need a moment to become true, because the kernel finishes much in work queues.
PRELUDE = """\
is() { value=; read -r value < "$2"; [ "$value" = "$1" ]; } 2>/dev/null
is_up() { read -r value < /sys/class/net/$1/flags && [ $((value & 1)) = 1 ]; } 2>/dev/null
first() { [ -e "$1" ] && found=$1; }
netdev_of() { first /sys/bus/pci/devices/$1/virtio*/net/*; }
has_address() { while read -r _ value _; do [ "$value" != $1 ] || return 0; done < /proc/net/fib_trie; return 1; }
has_link_local() {
  while read -r value _ _ _ _ netdev; do
    case $netdev=$value in $1=fe80*) return;; esac
  done < /proc/net/if_inet6
  return 1
}
has_route() {
  while read -r netdev value _; do [ $netdev=$value != $1=00000000 ] || return 0; done < /proc/net/route
  return 1
}
has_gid() { for index in 0 1 2 3 4 5 6 7; do ! is $1 RDMA/ports/1/gids/$index || return 0; done; return 1; }
bind_pci() {
  echo > /sys/bus/pci/devices/$1/driver_override
  [ ! -e /sys/bus/pci/devices/$1/driver ] || echo $1 > /sys/bus/pci/devices/$1/driver/unbind
  echo $1 > /sys/bus/pci/drivers/virtio-pci/bind
}
probe_virtio() { first /sys/bus/pci/devices/$1/virtio* && echo ${found##*/} > /sys/bus/virtio/drivers_probe; }
rename() { netdev_of $1 && ip link set ${found##*/} down && ip link set ${found##*/} name $2; }
other_rdma() {
  for device in /sys/class/infiniband/*; do
    if [ -e $device ] && ! { [ $device = RDMA ] && is ETH $device/parent; }; then echo ${device##*/}; fi
  done
}
no_other_rdma() { [ -z "$(other_rdma)" ]; }
delete_other_rdma() { for device in $(other_rdma); do rdma link delete $device; done; }
nodes() {
  for node in /sys/class/infiniband_verbs/uverbs* /sys/class/infiniband_mad/*mad* /sys/class/misc/rdma_cm; do
    [ ! -e $node/dev ] || { read -r value < $node/dev; echo ${node##*/} $value; }
  done
}
nodes_are_there() { nodes | while read -r name _; do [ -c /dev/infiniband/$name ] || return 1; done; }
make_nodes() {
  mkdir -p /dev/infiniband
  nodes | while IFS=' :' read -r name major minor; do
    [ -c /dev/infiniband/$name ] || { rm -rf /dev/infiniband/$name; mknod /dev/infiniband/$name c $major $minor; }
  done
}
overwrite_kernel_log() {
  line=$(printf '%0900d' 0); count=0
  while [ $count -lt 200 ]; do echo "<143>$line" > /dev/kmsg; count=$((count + 1)); done
}
step() {
  eval "$2" 2>/dev/null && return
  if ! said=$(eval "$3" 2>&1); then
    printf '%s: %s\\n' "$1" "${said:-$3 failed}"
    return
  fi
  [ "$2" != false ] || return 0
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    eval "$2" 2>/dev/null && return
    sleep 0.1
  done
  printf '%s: not so after: %s\\n' "$1" "$3"
}
""".replace("RDMA", RDMA).replace("ETH", RAIL.netdev)


def script() -> str:
    """One shell script of all the steps: makes those that do not hold, and prints a line for each that failed."""
    lines = (f"step {shlex.join((step.name, step.test, step.make))}" for step in steps())
    return PRELUDE + "\n".join(lines) + "\n"
