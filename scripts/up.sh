#!/bin/bash
# make up: build, fetch the model, start router and agents from the quick start, ask one question, end.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/model.sh smollm2 > /dev/null
cargo build --release --quiet --workspace --bin terrace --bin terrace-router --bin terrace-agent
exec target/release/terrace up -f examples/quickstart --ask "${ASK:-Why is the sky blue?}"
