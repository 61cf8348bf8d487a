#!/bin/bash
# The GPU's kernels: on Vulkan in software they compute what the CPU does; with CUDA they compile, and run where there is a GPU. Their
# crates are heavy, so they come in here alone and no other build has them: both features in one build, with the features that the
# workspace gives everything else, so that little is compiled twice. At the end the programs are the plain ones again.
set -uo pipefail
cd "$(dirname "$0")/.."
bad=0 start=$SECONDS
images/cuda-parts.sh || bad=1
# Set for the build too: a build script looks at it, and would run again if it changed.
export CUDA_PATH=$PWD/target/images/cuda
export LD_LIBRARY_PATH=$CUDA_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
on() { cargo test --release --workspace --features terrace-agent/cuda,terrace-agent/vulkan --test vulkan --test cuda --test cuda_compiles --no-fail-fast "$@"; }
on --no-run && echo "gpu: building took $((SECONDS - start)) s"; start=$SECONDS
on -- --nocapture || bad=1
echo "gpu: testing took $((SECONDS - start)) s"
cargo build --release --workspace --bins --quiet || bad=1
exit $bad
