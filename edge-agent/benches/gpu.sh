#!/bin/bash
# gpu.sh cuda|vulkan [MODEL.gguf [MEBIBYTES]]: target/bench/agent-<device>.json: products against the memory's speed, the network's rates.
# Without a device, as `make bench` calls it, it says that it does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
device=${1:-}
[ -n "$device" ] || { echo "SKIPPED: the bench of a GPU: give the device, as in make bench-agent DEVICE=cuda"; exit 0; }
case $device in cuda|vulkan) ;; *) echo "gpu.sh: $device is no GPU; say cuda or vulkan" >&2; exit 1 ;; esac
model=${2:-$(scripts/model.sh | head -1)}
mkdir -p target/bench
cargo build --release -p terrace-agent --features "$device" --example gpu --target-dir target/gpu
target/gpu/release/examples/gpu "$device" "$model" "${3:-512}" > "target/bench/agent-$device.json.new"
mv "target/bench/agent-$device.json.new" "target/bench/agent-$device.json"
cat "target/bench/agent-$device.json"
