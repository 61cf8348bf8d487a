#!/bin/bash
# The data plane holds no cluster credentials: router and agent depend on no Kubernetes crate. `decide` is pure: nothing below it
# tells the time, rolls dice or talks to anyone.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
tree() { cargo tree --quiet --locked --edges normal --prefix none --package "$1" | awk '{print $1}' | sort -u; }
for program in terrace-router terrace-agent; do
  for crate in $(tree $program | grep -xE 'kube(-.*)?|k8s-openapi|terrace-crds|terrace-operator' || true); do
    echo "$program depends on $crate; see it with: cargo tree -e normal -p $program -i $crate"; bad=1
  done
done
for crate in $(tree terrace-decide | grep -xE 'tokio(-.*)?|async-.*|futures(-.*)?|mio|rand(_.*)?|getrandom|fastrand|time|chrono|jiff|hyper(-.*)?|reqwest|socket2|rustix|libc|nix|ring' || true); do
  echo "terrace-decide depends on $crate; see why with: cargo tree -e normal -p terrace-decide -i $crate"; bad=1
done
if grep -rnE 'std::(time::(Instant|SystemTime)|fs|net|env|process|thread)|Instant::now|SystemTime::now|tokio::' crates/decide/src --include='*.rs' | grep -v '//'; then
  echo "crates/decide is pure: time, randomness and I/O are passed in"; bad=1
fi
exit $bad
