#!/bin/bash
# make test-sim: the router under seeded faults, in simulated time. SEEDS=10000: so many; SEED=17: that one, with its log.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${SEED:-}" ] || export SEEDS=${SEEDS:-10000}
exec cargo test --release -p terrace-router --test simulation -- --nocapture
