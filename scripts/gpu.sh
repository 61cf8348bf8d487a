#!/bin/bash
# The GPU's kernels: on Vulkan in software they compute what the CPU does; with CUDA they compile, and run where there is a GPU. Their
# crates are heavy, so they come in here alone and no other build has them. At the end the programs are the plain ones again.
set -uo pipefail
cd "$(dirname "$0")/.."
bad=0 start=$SECONDS
took() { echo "gpu: $1 took $((SECONDS - start)) s"; start=$SECONDS; }
cargo test --release -p terrace-agent --features vulkan --test vulkan || bad=1; took "Vulkan in software"
images/cuda-parts.sh && CUDA_PATH=$PWD/target/images/cuda cargo test --release -p terrace-agent --features cuda --test cuda_compiles --test cuda -- --nocapture || bad=1
took CUDA
cargo build --release --workspace --bins --quiet || bad=1
exit $bad
