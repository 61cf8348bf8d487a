#!/bin/bash
# The GPU's kernels: on Vulkan in software they compute what the CPU does; with CUDA they compile, and run where there is a GPU. Their
# crates are heavy, so they come in here alone and no other build has them: both features in one build, with the features that the
# workspace gives everything else, so that little is compiled twice. At the end the programs are the plain ones again.
#   scripts/gpu.sh            its tests
#   scripts/gpu.sh --program  only target/images/gpu/terrace-agent, which knows both
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
# Set for the build too: a build script looks at it, and would run again if it changed.
export CUDA_PATH=$PWD/target/images/cuda
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp} # Vulkan's drivers complain without
export LD_LIBRARY_PATH=$CUDA_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
both=(--release --workspace --features "terrace-agent/cuda,terrace-agent/vulkan")
program() { cargo build "${both[@]}" --bin terrace-agent; mkdir -p target/images/gpu; cp target/release/terrace-agent target/images/gpu/; }
if [ "${1:-}" = --program ]; then program; exit; fi
images/cuda-parts.sh
on() { cargo test "${both[@]}" --test vulkan --test cuda --test cuda_compiles --no-fail-fast "$@"; }
on --no-run; program
echo "gpu: building took $((SECONDS - start)) s"; start=$SECONDS
bad=0; on -- --nocapture || bad=1
echo "gpu: testing took $((SECONDS - start)) s"
cargo build --release --workspace --bins --quiet
exit $bad
