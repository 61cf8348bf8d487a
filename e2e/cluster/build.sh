#!/bin/bash
# Builds the cluster's programs from their Go modules into $PROGRAMS/bin. A program is built again when its pins change: its stamp
# is the hash of its module's go.mod and go.sum. `build.sh api-server` builds only what a cluster without nodes needs.
set -euo pipefail
. "$(dirname "$0")/env.sh"
command -v go > /dev/null || { echo "build.sh: go is not installed; install Go 1.26 (https://go.dev/dl) and run this again" >&2; exit 1; }
mkdir -p "$BIN" "$PROGRAMS/images"
exec 9> "$PROGRAMS/build.lock"; flock 9
V=v1.36.3
K="-X k8s.io/component-base/version.gitVersion=$V -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"

# A program that is there without a stamp counts when its own record names the pinned version of the module that holds its package.
adopt() { # MODULE PACKAGE FILE
  local want have
  want=$(cd "$HERE/tools/$1" && go list -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' "$2" 2>/dev/null) || return 1
  have=$(go version -m "$3" 2>/dev/null | awk '$1 == "mod" || $1 == "dep" {print $2, $3}') || return 1
  grep -qxF "$want" <<< "$have"
}

build() { # MODULE PACKAGE [NAME]
  local name=${3:-${2##*/}} stamp
  stamp=$(cd "$HERE/tools/$1" && cat go.mod $(ls go.sum main.go 2>/dev/null) | sha256sum | cut -d' ' -f1)
  [ -x "$BIN/$name" ] && [ "$(cat "$BIN/.$name.stamp" 2>/dev/null)" = "$stamp" ] && return
  if [ -x "$BIN/$name" ] && [ ! -e "$BIN/.$name.stamp" ] && adopt "$1" "$2" "$BIN/$name"; then echo "$stamp" > "$BIN/.$name.stamp"; return; fi
  local start=$SECONDS
  (cd "$HERE/tools/$1" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $K" -o "$BIN/$name.new" "$2")
  mv "$BIN/$name.new" "$BIN/$name"; echo "$stamp" > "$BIN/.$name.stamp"
  echo "built $name in $((SECONDS - start)) s"
}

module() { # MODULE PATH: where the files of a pinned module are
  (cd "$HERE/tools/$1" && go mod download "$2" && go list -m -f '{{.Dir}}' "$2")
}

for p in kube-apiserver kube-controller-manager kubectl; do build kubernetes k8s.io/kubernetes/cmd/$p; done
build etcd go.etcd.io/etcd/server/v3 etcd
build helm helm.sh/helm/v4/cmd/helm
# A stock inference gateway: the endpoint picker with the kinds that its module brings, and Envoy.
build epp sigs.k8s.io/gateway-api-inference-extension/cmd/epp
[ "$PROGRAMS/crds" -nt "$BIN/epp" ] || { rm -rf "$PROGRAMS/crds"; mkdir "$PROGRAMS/crds"; cp "$(module epp sigs.k8s.io/gateway-api-inference-extension)"/config/crd/bases/*.yaml "$PROGRAMS/crds"; }
envoy=$("$HERE/../../scripts/peer.sh" envoy)
ln -sfn "$(echo "$envoy"/lib/python3*/site-packages/envoy/_bin/envoy)" "$BIN/envoy"
[ "${1:-all}" = api-server ] && exit 0
for p in kube-scheduler kubelet kube-proxy; do build kubernetes k8s.io/kubernetes/cmd/$p; done
for p in containerd containerd-shim-runc-v2 ctr; do build containerd github.com/containerd/containerd/v2/cmd/$p; done
build jaeger github.com/jaegertracing/jaeger/cmd/jaeger
build coredns github.com/coredns/coredns
build pause terrace.dev/e2e/cluster/pause
image() { # NAME ENTRYPOINT: an image of one program, made again when the program is newer
  [ "$PROGRAMS/images/$1.tar" -nt "$BIN/$1" ] || python3 "$HERE/image.py" "$PROGRAMS/images/$1.tar" "localhost/$1:1" "[\"/$1\"]" "$1=$BIN/$1"
}
image pause; image coredns
