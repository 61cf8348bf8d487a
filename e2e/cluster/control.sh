#!/bin/bash
# pid 1 of the cluster: etcd and the control plane, then one nested set of namespaces a node, joined by a bridge.
set -u
. "$HERE/env.sh"; . "$HERE/mounts.sh"
hostname control
ip link set lo up
ip link add cl0 type bridge; ip addr add 10.77.0.1/24 dev cl0; ip link set cl0 up; sysctl -qw net.ipv4.ip_forward=1
start=$(date +%s%3N); say() { echo "$(( $(date +%s%3N) - start )) ms: $*"; }
etcd --data-dir "$CLUSTER/etcd" --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380 > "$LOG/etcd.log" 2>&1 &
kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address=10.77.0.1 --secure-port=6443 --cert-dir=/run/apiserver \
  --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" --client-ca-file="$PKI/ca.crt" \
  --kubelet-client-certificate="$PKI/apiserver-kubelet.crt" --kubelet-client-key="$PKI/apiserver-kubelet.key" --kubelet-certificate-authority="$PKI/ca.crt" \
  --kubelet-preferred-address-types=InternalIP --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key" \
  --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC \
  --enable-admission-plugins=NodeRestriction --allow-privileged=true --enable-aggregator-routing=true \
  --requestheader-client-ca-file="$PKI/front-proxy-ca.crt" --proxy-client-cert-file="$PKI/front-proxy.crt" --proxy-client-key-file="$PKI/front-proxy.key" \
  --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --requestheader-allowed-names=front-proxy \
  --audit-policy-file="$HERE/audit.yaml" --audit-log-path="$LOG/audit.log" > "$LOG/apiserver.log" 2>&1 &
k="kubectl --kubeconfig $PKI/admin.kubeconfig"
until $k get --raw /readyz > /dev/null 2>&1; do sleep 0.2; done; say "API server ready"
common() { echo "--kubeconfig=$PKI/$1.kubeconfig --authentication-kubeconfig=$PKI/$1.kubeconfig --authorization-kubeconfig=$PKI/$1.kubeconfig --bind-address=127.0.0.1 --leader-elect=false --cert-dir=/run/$1"; }
kube-controller-manager $(common controller-manager) --cluster-cidr=10.244.0.0/16 --allocate-node-cidrs=true --service-account-private-key-file="$PKI/sa.key" \
  --root-ca-file="$PKI/ca.crt" --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key" --use-service-account-credentials=true \
  --node-monitor-grace-period=16s --node-monitor-period=2s > "$LOG/controller-manager.log" 2>&1 &
kube-scheduler $(common scheduler) > "$LOG/scheduler.log" 2>&1 &
for n in $(seq "$NODES"); do
  ip netns add "n$n"; ip link add "v$n" type veth peer name eth0 netns "n$n"; ip link set "v$n" master cl0 up
  ip route add 10.244.$((n - 1)).0/24 via 10.77.0.1$n
  mkdir -p "$CLUSTER/n$n"
  NETNS=/run/netns/n$n "$HERE/enter.sh" "n$n" "$HERE/node.sh" "$n" > "$LOG/n$n.log" 2>&1 &
  # pod ranges go out in the order of registration, so let each node register before the next starts
  until $k get node "n$n" > /dev/null 2>&1; do sleep 0.2; done; say "n$n registered"
done
# pods reach CLUSTER service addresses through kube-proxy on their node; the control plane reaches them through n1
ip route add 10.96.0.0/16 via 10.77.0.11
for n in $(seq "$NODES"); do until $k get node "n$n" 2>/dev/null | grep -qw Ready; do sleep 0.2; done; say "n$n Ready"; done
say up; touch "$CLUSTER/up"
sleep infinity
