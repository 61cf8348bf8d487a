#!/bin/bash
# make bench-decision: how long a decision takes with 10 to 10,000 devices; the growth is printed.
set -euo pipefail
cd "$(dirname "$0")/../../.."
mkdir -p target/bench
cargo run --release --locked --quiet --workspace --example time >target/bench/decision.json
echo "target/bench/decision.json"
