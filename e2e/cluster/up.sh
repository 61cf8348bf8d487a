#!/bin/bash
# Starts a cluster of $NODES nodes and waits until all are Ready and DNS answers. Then: ./in.sh kubectl get nodes
set -euo pipefail
. "$(dirname "$0")/env.sh"
say() { echo "up.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || say "needs root: it makes namespaces, networks and cgroups of its own; run it as root, or point KUBECONFIG at a throw-away cluster"
for p in runc iptables conntrack ip nft ethtool openssl unshare nsenter; do command -v $p > /dev/null || say "$p is missing; apt-get install -y runc iptables conntrack iproute2 containernetworking-plugins nftables ethtool socat openssl util-linux"; done
[ -x /usr/lib/cni/bridge ] || say "the CNI plugins are missing; apt-get install -y containernetworking-plugins"
for p in kube-apiserver kubelet containerd etcd coredns; do [ -x "$BIN/$p" ] || say "$p is not built; run $HERE/build.sh"; done
mkdir -p "$CLUSTER"
# The kubelet evicts pods below 1 % of the disk (node.sh): a suite would fail in places that have nothing to do with it. A cluster
# itself takes 0.7 GiB, images and Jaeger's store among them.
read -r size free < <(df -k --output=size,avail "$CLUSTER" | tail -1)
need=$((size / 100 + 3 * 512 * 1024))
[ "$free" -gt "$need" ] || say "the disk under $CLUSTER has $((free / 1024)) MiB left and a cluster needs $((need / 1024)): make room, for example with cargo clean in other checkouts"
[ -e "$CLUSTER/pid" ] && kill -0 "$(cat "$CLUSTER/pid")" 2>/dev/null && { echo "already up"; exit 0; }
"$HERE/pki.sh"
rm -rf "$CLUSTER"/{etcd,up,n[0-9]*} "$LOG"; mkdir -p "$LOG"
setsid nohup "$HERE/enter.sh" "$GROUP" "$HERE/control.sh" > "$LOG/control.log" 2>&1 < /dev/null &
echo $! > "$CLUSTER/pid"
for _ in $(seq 3000); do
  [ -e "$CLUSTER/up" ] && break
  kill -0 "$(cat "$CLUSTER/pid")" 2>/dev/null || break
  sleep 0.1
done
cat "$LOG/control.log"
[ -e "$CLUSTER/up" ] || say "not up; see $LOG"
"$HERE/in.sh" kubectl apply -f "$HERE/dns.yaml" > /dev/null
"$HERE/in.sh" kubectl -n kube-system rollout status deployment/coredns --timeout=60s
