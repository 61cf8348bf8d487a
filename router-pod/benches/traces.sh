#!/bin/bash
# make bench-traces: what traces cost a router, by their share; 0 % must cost nothing measurable.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p target/bench
BENCH_FILE="$PWD/target/bench/traces.json" cargo test --release --locked --quiet --workspace --test router -- \
    --ignored --exact cost::at_zero_percent_traces_cost_nothing_measurable --nocapture
echo "target/bench/traces.json"
