#!/bin/bash
# make bench-router: processor time, memory and added latency of the router beside others, in turns, same scripted tiers, each pinned to one core; to
# target/bench/router.json. A peer that cannot be installed or does not answer is named with the reason. Run it on a quiet machine with two cores or more.
#   ROUNDS=N SECONDS_EACH=S   samples of each figure (default 5), how long one lasts (default 1)
#   PEERS="haproxy envoy"     only these; PEERS=none: ours alone. bare-hyper is none: it passes bytes on, made of our libraries, and is the floor
#   CASES="small large"       only these of small, large, small-stream, large-stream, small-paced
#   ONLY=cpu|latency|memory   processor time, and of the others only this one
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/bench
fail() { echo "bench-router.sh: $*" >&2; exit 1; }
command -v taskset > /dev/null || fail "taskset is not there: apt-get install util-linux"
[ "$(nproc)" -ge 2 ] || fail "two cores are needed: one for the router that is measured, one for who asks it and who answers"

peers=${XDG_CACHE_HOME:-$HOME/.cache}/terrace/peers
wanted=${PEERS:-bare-hyper sglang-router smg vllm-router litellm envoy haproxy}
[ "$wanted" = none ] && wanted=
for peer in $wanted; do
  [ "$peer" != bare-hyper ] || continue
  scripts/peer.sh "$peer" > /dev/null || [ $? = 1 ] || fail "PEERS: $peer is none of bare-hyper, sglang-router, smg, vllm-router, litellm, envoy, haproxy"
done # One that cannot be installed is named beside the figures of the others.

cargo build --release --quiet --workspace --bin terrace-router --example load --example bare
exec python3 router-pod/benches/router.py --programs "${CARGO_TARGET_DIR:-target}/release" --cache "$peers" --peers "$wanted" \
  --rounds "${ROUNDS:-5}" --seconds "${SECONDS_EACH:-1}" --cases "${CASES:-}" --only "${ONLY:-}" --out target/bench/router.json
