#!/bin/bash
# make bench: every bench there is; each writes target/bench/NAME.json.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/bench
found=
for bench in scripts/bench-*.sh */benches/*.sh crates/*/benches/*.sh; do [ -x "$bench" ] && { found=1; "$bench"; }; done
[ -n "$found" ] || { echo "there is no bench yet" >&2; exit 1; }
