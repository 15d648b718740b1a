#!/bin/bash
# A node from inside: its own directories, then containerd, then the kubelet. It ends when one of the two does.
# A kubelet that started before its containerd is started again.
#
#   cluster_node.sh [--apart] TREE PROGRAM TOOLS
#
# Run it as root, as the first process of a mount and a PID namespace (tests/rigs/cluster_node.py), or in a guest. Its
# mounts and processes then end with it. It stays in the foreground.
#
# TREE     The node's own files, at the paths where the node sees them: TREE/run is its /run. It must be writable, on a
#          file system that takes overlayfs's upper layers (ext4, tmpfs; not overlay), and hold etc/kubernetes as
#          `files` of cluster_node.py writes it. A second start with the same TREE is a reboot: /run is empty, all else
#          is as it was. The daemons' logs are TREE/var/log/{kubelet,containerd}.log.
# PROGRAM  the Kubernetes that `cluster.py build` prints
# TOOLS    containerd, runc and the base image: the directory that `cluster.py tools` prints
# --apart  for a node that shares its kernel and its root with others: overlays of /etc, /opt and /var, the boot id of
#          TREE/boot_id, and sysctls that the kubelet need not set. A guest needs none of this.
#
# The caller makes the network. An interface has the node's address (in TREE/etc/kubernetes/kubelet.flags). The server
# in TREE/etc/kubernetes/kubelet.conf can be reached, and also 10.96.0.1:443, which pods use for it.
set -euo pipefail

apart=
if [ "$1" = --apart ]; then
    apart=yes
    shift
fi
tree=$(realpath "$1") program=$(realpath "$2") tools=$(realpath "$3")
own='run etc/kubernetes etc/cni/net.d opt/cni/bin var/lib/kubelet var/lib/containerd var/lib/nodeprep var/log'
export PATH="$tools/root/usr/bin:$tools/root/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

export GOGC=400 # as for the servers in cluster.py: containerd and the kubelet collect garbage less often
# Go's scheduler naps for 20 us at a time, in each program: in a guest these naps made most of the switches of processes.
# A timer may be late by 4 ms. Children inherit it, so containers have it too (ADR 0024).
echo 4000000 >"/proc/$$/timerslack_ns"

if [ "$apart" ]; then
    # TREE may lie in /dev/shm, and a pod mounts /dev with all that is mounted below it. No mount of a node belongs there.
    mount --bind "$tree" /mnt
    tree=/mnt
fi
mount --make-rshared / # pods may ask for propagation; it ends at this namespace
for directory in $own; do mkdir -p "$tree/$directory"; done
find "$tree/run" -mindepth 1 -delete
mkdir -p "$tree/run/lock" "$tree/run/nodeprep"

if [ "$apart" ]; then
    for top in etc opt var; do
        mkdir -p "$tree/.upper/$top" "$tree/.work/$top"
        mount -t overlay -o "lowerdir=/$top,upperdir=$tree/.upper/$top,workdir=$tree/.work/$top" node "/$top"
    done
    # Else /sys shows the interfaces of the network namespace in which it was mounted.
    mkdir -p "$tree/.sys"
    mount -t sysfs sysfs "$tree/.sys"
    mount --rbind /sys/fs/cgroup "$tree/.sys/fs/cgroup"
    mount --rbind "$tree/.sys" /sys
    mount --bind "$tree/boot_id" /proc/sys/kernel/random/boot_id
    # The kubelet would set these for the whole machine. It does not touch values that are already right.
    for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
        kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
        key=${pair%=*} file=$tree/.sysctl/${pair%=*}
        mkdir -p "${file%/*}"
        echo "${pair#*=}" >"$file"
        mount --bind "$file" "/proc/sys/$key"
    done
fi
for directory in $own; do
    mkdir -p "/$directory"
    mount --bind "$tree/$directory" "/$directory"
done

# The kubelet needs its cgroup to exist.
cgroup=$(cat /etc/kubernetes/cgroup)
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then # version 2: the kubelet needs every controller enabled below
    read -r -a controllers </sys/fs/cgroup/cgroup.controllers
    for controller in "${controllers[@]}"; do
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || true
    done
    mkdir -p "/sys/fs/cgroup/$cgroup"
else # version 1: one in every hierarchy; a cpuset accepts no process before it has CPUs
    for hierarchy in /sys/fs/cgroup/*/; do
        [ -f "$hierarchy/cgroup.procs" ] || continue
        mkdir -p "$hierarchy/$cgroup"
        for file in cpuset.cpus cpuset.mems; do
            [ ! -f "$hierarchy/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$cgroup/$file"
        done
    done
fi

# Containers inherit the limit of locked memory, and RDMA pins its buffers. systemd also sets containerd to unlimited.
if ! ulimit -H -l unlimited 2>/dev/null; then
    echo "locked memory stays limited to $(ulimit -H -l) KiB, for this machine gives us no CAP_SYS_RESOURCE" >&2
fi
ulimit -S -l hard

containerd --config /etc/kubernetes/containerd.toml >>/var/log/containerd.log 2>&1 &
containerd=$!
until ctr version >/dev/null 2>&1; do
    kill -0 "$containerd" || exit 1
    sleep 0.05
done
imported=/var/lib/containerd/.imported # a guest's disk has it from the start (tests/rigs/guest_disk.py)
if [ ! -e "$imported" ]; then
    ctr -n k8s.io images import "$tools/base.tar" >>/var/log/containerd.log 2>&1
    touch "$imported"
fi
mapfile -t flags </etc/kubernetes/kubelet.flags
# containerd answers `ctr` a moment before it answers a kubelet, which then ends. systemd would start it again.
while :; do
    "$program" kubelet "${flags[@]}" >>/var/log/kubelet.log 2>&1 &
    wait -n "$containerd" "$!" || true
    tail -n 1 /var/log/kubelet.log | grep -q 'server is not initialized yet' || break
    kill -0 "$containerd" || break
    sleep 0.2
done
