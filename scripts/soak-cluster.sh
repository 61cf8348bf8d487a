#!/bin/bash
# make soak-cluster MINUTES=60 SEED=1: the two-node cluster under mixed traffic of SDK clients with a fault each minute; to
# target/bench/soak-cluster.json. Needs root and Go. Fails if a request that is no stream has no answer, or a sensitive one reaches the endpoint.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-60}
[[ $minutes =~ ^[0-9]+$ ]] && [ "$minutes" -ge 1 ] || { echo "soak-cluster.sh: how many minutes? for example scripts/soak-cluster.sh 60" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "soak-cluster.sh: nodes need root" >&2; exit 1; }
scripts/tools.sh
scripts/model.sh smollm2 > /dev/null
e2e/cluster/build.sh
images/build.sh operator router agent fixture
cargo build --release --quiet --workspace --bin terrace-e2e
exec target/release/terrace-e2e faults --minutes "$minutes" --seed "${2:-1}"
