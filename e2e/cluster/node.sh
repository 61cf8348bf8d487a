#!/bin/bash
# pid 1 of one node: containerd, kubelet, kube-proxy.
set -u
n=$1
. "$HERE/env.sh"; . "$HERE/mounts.sh"
dir=$CLUSTER/n$n; mkdir -p "$dir"/{sysctl,varlib/{kubelet,containerd,cni}}
# The kubelet writes sysctls that no namespace holds: give it copies, so that the machine's own stay as they are.
for x in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  f=$dir/sysctl/${x//\//_}; cat /proc/sys/$x > "$f"; mount --bind "$f" /proc/sys/$x
done
hostname "n$n"; ip link set lo up
mount -t tmpfs tmpfs /var/log; mount --bind "$dir/varlib" /var/lib; mount --make-rshared /var/lib
until ip link show eth0 > /dev/null 2>&1; do sleep 0.05; done
ip addr add 10.77.0.1$n/24 dev eth0; ip link set eth0 up; ip route add default via 10.77.0.1
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1 net.bridge.bridge-nf-call-iptables=1
for m in $(seq "$NODES"); do [ "$m" = "$n" ] || ip route add 10.244.$((m - 1)).0/24 via 10.77.0.1$m; done
mkdir -p /run/cni/net.d
cat > /run/cni/net.d/10-bridge.conflist <<Y
{"cniVersion":"1.0.0","name":"bridge","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,"ipam":{"type":"host-local","dataDir":"/run/cni/ipam","ranges":[[{"subnet":"10.244.$((n - 1)).0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true},"snat":true}]}
Y
cat > /run/containerd.toml <<Y
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "/run/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
Y
containerd -c /run/containerd.toml > "$LOG/n$n-containerd.log" 2>&1 &
until ctr version > /dev/null 2>&1; do sleep 0.1; done
for tar in "$PROGRAMS"/images/*.tar; do ctr -n k8s.io images import "$tar" > /dev/null; done
cat > /run/kubelet.yaml <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/n$n.crt
tlsPrivateKeyFile: $PKI/n$n.key
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
nodeStatusUpdateFrequency: 4s
syncFrequency: 5s
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
resolvConf: /dev/null
healthzBindAddress: 127.0.0.1
evictionHard: {nodefs.available: "1%", imagefs.available: "1%"}
Y
kubelet --config=/run/kubelet.yaml --kubeconfig="$PKI/n$n.kubeconfig" --hostname-override="n$n" --node-ip=10.77.0.1$n --root-dir=/var/lib/kubelet --v=2 > "$LOG/n$n-kubelet.log" 2>&1 &
cat > /run/proxy.yaml <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: $PKI/proxy.kubeconfig}
clusterCIDR: 10.244.0.0/16
hostnameOverride: n$n
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
Y
kube-proxy --config=/run/proxy.yaml --v=2 > "$LOG/n$n-proxy.log" 2>&1 &
wait
