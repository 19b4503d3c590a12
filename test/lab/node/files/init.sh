#!/bin/bash
# Process 1 of a node: starts containerd and kubelet, and ends the node at the end of its standard input, a pipe that only the
# lab holds open. ADDRESS and NAME are those of the node.
set -eu
exec 3<&0 </dev/null

# kubelet sets these sysctls of the machine, which has no such namespaces. It finds its values in files instead.
value() {
  echo "$2" > "/run/sysctl-${1##*/}"
  mount --bind "/run/sysctl-${1##*/}" "/proc/sys/$1"
}
value vm/overcommit_memory 1
value vm/panic_on_oom 0
value kernel/panic 10
value kernel/panic_on_oops 1
value kernel/keys/root_maxkeys 1000000
value kernel/keys/root_maxbytes 25000000
# By it, kubelet knows that the node has booted again.
value kernel/random/boot_id "$(cat /proc/sys/kernel/random/uuid)"

# cgroup v2 lets no process stay in a group whose controllers are enabled for its children.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mkdir -p /sys/fs/cgroup/init
  while read -r pid; do echo "$pid" > /sys/fs/cgroup/init/cgroup.procs; done < /sys/fs/cgroup/cgroup.procs
  sed 's/^/+/; s/ / +/g' /sys/fs/cgroup/cgroup.controllers > /sys/fs/cgroup/cgroup.subtree_control
fi

ip link set lo up
ip addr add "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route add default via "${ADDRESS%.*}.1"
echo 1 > /proc/sys/net/ipv4/ip_forward
# Bridges of all nodes, joined by tunnels, as if a network card of each were connected to the same switch.
id=0
for name in $BRIDGES; do
  id=$((id + 1))
  ip link add "$name" type bridge
  ip link add "vxlan$id" type vxlan id "$id" group "239.0.0.$id" dev eth0 dstport 4789
  ip link set "vxlan$id" master "$name" up
  ip link set "$name" up
done
echo "$NAME" > /etc/hostname
printf '127.0.0.1 localhost\n%s %s\n' "$ADDRESS" "$NAME" > /etc/hosts
echo 'nameserver 127.0.0.1' > /etc/resolv.conf

# Imports the images and runs kube-proxy and kubelet, after the lab has written their kubeconfigs.
run() {
  until ctr version > /dev/null 2>&1; do sleep 0.2; done
  # A node that boots again has the images.
  if [ ! -e /var/lib/containerd/imported ]; then
    for archive in /opt/lab/images/*.tar; do
      ctr --namespace k8s.io images import --discard-unpacked-layers "$archive" >> /var/log/import.log 2>&1
    done
    # The target pod of a migration names images by their digests, as if they were from a registry.
    ctr --namespace k8s.io images list | while read -r name _ digest _; do
      case $name in
        lab.local/*) ctr --namespace k8s.io images tag "$name" "${name%:*}@$digest" >> /var/log/import.log 2>&1 ;;
      esac
    done
    touch /var/lib/containerd/imported
  fi
  until [ -e /opt/lab/kubeconfig ]; do sleep 0.2; done
  while [ -e /opt/lab/kube-proxy ]; do
    /opt/lab/kube-proxy --config=/opt/lab/kube-proxy.yaml --hostname-override="$NAME" >> /var/log/kube-proxy.log 2>&1 || :
    sleep 1
  done &
  while :; do
    /opt/lab/kubelet --config=/opt/lab/kubelet.yaml --kubeconfig=/opt/lab/kubeconfig --hostname-override="$NAME" --node-ip="$ADDRESS" \
      --node-labels="$LABELS" >> /var/log/kubelet.log 2>&1 || :
    sleep 1
  done
}

containerd --config /opt/lab/containerd.toml >> /var/log/containerd.log 2>&1 &
run &
runner=$!
read -r _ <&3 &
wait -n "$runner" $!
