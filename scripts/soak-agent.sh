#!/bin/bash
# make soak-agent SECONDS=3600, or soak-agent.sh SECONDS [SEED]: a real agent under a mixed load of that length; to target/bench/soak-agent.json. Fails if a request has no
# answer, if memory grows, or if something is left running.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-300}
[[ $seconds =~ ^[0-9]+$ ]] && [ "$seconds" -ge 30 ] || { echo "soak-agent.sh: how many seconds? 30 or more, for example scripts/soak-agent.sh 300" >&2; exit 2; }
mkdir -p target/bench
cargo build --release --quiet --workspace --bin terrace-agent
exec python3 edge-agent/benches/soak.py --model "$(scripts/model.sh smollm2)" --seconds "$seconds" --seed "${2:-1}" --out target/bench/soak-agent.json
