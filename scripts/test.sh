#!/bin/bash
# make test: all four layers, from a fresh Debian 12 with Rust, Go, Node and Python. Says what it skips and why. As root a skipped
# layer is a failure. The last line is the sum: `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never
logs=target/test; rm -rf $logs; mkdir -p $logs
failed=0 skipped=0 start=$SECONDS
root=; [ "$(id -u)" = 0 ] && root=1

say() { echo; echo "=== $* (after $((SECONDS - start)) s)"; }
part() { # NAME COMMAND...: a part that counts its own tests; a part that ends badly without saying what failed counts as one failure
  local name=$1 code=0; shift
  say "$name"
  "$@" 2>&1 | tee "$logs/$name.log"; code=${PIPESTATUS[0]}
  if [ $code != 0 ] && [ "$(scripts/count.sh "$logs/$name.log" | cut -d' ' -f2)" = 0 ]; then
    echo "FAILED: $name ended with $code before its tests could say why"; failed=$((failed + 1))
  fi
  return $code
}
miss() { # a layer that cannot run
  echo "SKIPPED: $1: $2"
  if [ -n "$root" ]; then echo "FAILED: as root no layer may be skipped"; failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
}

part packages scripts/packages.sh
part tools scripts/tools.sh
part model scripts/model.sh
part lint scripts/lint.sh
# Layers 1 and 2, as far as cargo runs them. The programs are built first: tests over real sockets start them.
if part build cargo build --release --workspace --bins; then
  part cargo-tests cargo test --release --workspace --no-fail-fast
  part standalone target/release/terrace-e2e standalone
  part gpu scripts/gpu.sh
else
  miss "layers 1 and 2" "the programs do not build"
fi

if ! command -v go > /dev/null; then
  miss "layers 3 and 4" "go is not installed, and the cluster's programs are built with it: https://go.dev/dl"
elif part programs-api-server e2e/cluster/build.sh api-server; then
  part api-server target/release/terrace-e2e api-server
  if [ -z "$root" ]; then miss "layer 4" "not root, so no kubelet, no namespaces and no networks"
  elif part programs e2e/cluster/build.sh && part images images/build.sh operator router agent fixture; then
    part cluster target/release/terrace-e2e cluster
  else miss "layer 4" "its programs or images do not build"; fi
else
  miss "layers 3 and 4" "the API server does not build"
fi

read -r p f s < <(cat $logs/*.log | scripts/count.sh)
if [ $((f + failed)) != 0 ]; then # once more, where the end of a long log is all that is kept
  echo; echo "=== what failed"
  grep -hE -A2 '^(test .* FAILED|failed: |FAILED: |error[:[]|thread .* panicked)' $logs/*.log | cut -c1-400 | tail -60
fi
echo; echo "all of it took $((SECONDS - start)) s"
echo "$p passed, $((f + failed)) failed, $((s + skipped)) skipped"
[ $((f + failed)) = 0 ]
