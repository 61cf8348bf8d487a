#!/bin/bash
# make lint: what can be said of the tree without running it. Each check is a test: it passes, or says what to do.
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
check() { # NAME COMMAND...
  local name=$1 out; shift
  if out=$("$@" 2>&1); then passed=$((passed + 1)); echo "test lint: $name ... ok"
  else failed=$((failed + 1)); echo "test lint: $name ... FAILED"; echo "$out" | tail -60; fi
}
check "formatted: cargo fmt" cargo fmt --all --check
[ "${1:-}" = --quick ] || check "clippy has nothing to say" cargo clippy --release --workspace --all-targets --quiet -- -D warnings
check "the data plane knows no Kubernetes, decide no clock, I/O or randomness" scripts/check-dependencies.sh
check "no test sleeps until something may be ready" scripts/check-sleeps.sh
check "each image's list is its Dockerfile's" scripts/check-images.sh
check "links of the documents lead somewhere" scripts/check-links.sh
check "files hold one idea: none is over 500 lines" scripts/check-length.sh
check "shell scripts parse" bash -c 'for f in $(git ls-files "*.sh" .ci/run); do bash -n "$f" || exit 1; done'
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored"
[ $failed = 0 ]
