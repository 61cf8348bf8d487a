#!/bin/bash
# make bench-agent: the agent against llama.cpp on this machine, in turns, to target/bench/agent.json. What it needs and does not find is an
# error, never a figure without a peer. Run it on a quiet machine: two cores that others use give two wrong rates and a ratio of noise.
#   THREADS=N ROUNDS=N    threads of both sides (default: the cores granted), samples of each figure (default 5)
#   CPU=avx2              our kernels for that processor, written to target/bench/agent-avx2.json
#   DEVICE=cpu            what the agent runs on: cpu, cuda or vulkan; on a GPU its kernels are held against the speed of the GPU's memory
#                         (target/bench/agent-cuda-kernels.json) and the agent is measured through its server, both without a peer
#   MEBIBYTES=N           on a GPU: weights of each product (default 512); fewer where Vulkan is made in software (ROUNDS=1 MEBIBYTES=64)
#   PEER=xllamacpp        llama.cpp prebuilt, for where building it takes too long; by default it is built for this processor, once
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/bench
fail() { echo "bench-agent.sh: $*" >&2; exit 1; }
device=${DEVICE:-cpu}; case $device in cpu|cuda|vulkan) ;; *) fail "DEVICE=$device is none of cpu, cuda, vulkan" ;; esac

model=$(scripts/model.sh smollm2)
gemma=$(scripts/model.sh gemma3)
measure() { # PYTHON PEER BEST OUT
  "$1" edge-agent/benches/agent.py --model "$model" --best "$3" --gemma "$gemma" --peer "$2" --device "$device" \
    --threads "${THREADS:-0}" --rounds "${ROUNDS:-5}" --cpu "${CPU:-}" --out "target/bench/$4.json"
}

if [ "$device" != cpu ]; then
  images/cuda-parts.sh # as in scripts/gpu.sh, so that nothing is built twice
  export CUDA_PATH=$PWD/target/images/cuda LD_LIBRARY_PATH=$PWD/target/images/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  cargo build --release --quiet --workspace --features terrace-agent/cuda,terrace-agent/vulkan --bin terrace-agent --example gpu
  kernels=target/bench/agent-$device-kernels.json
  "${CARGO_TARGET_DIR:-target}/release/examples/gpu" "$device" "$model" "${MEBIBYTES:-512}" "${ROUNDS:-5}" > "$kernels.new" && mv "$kernels.new" "$kernels"
  cat "$kernels"
  measure python3 none "" "agent-$device"
  exit
fi

# llama.cpp of a Python package, kept outside the tree.
peers=${XDG_CACHE_HOME:-$HOME/.cache}/terrace/peers
install() { "$peer/bin/pip" install --quiet --disable-pip-version-check "$@"; }
case ${PEER:-llama-cpp-python} in
  xllamacpp)
    name="llama.cpp of xllamacpp 2026.10.11549, prebuilt" peer=$peers/xllamacpp-2026.10.11549
    if ! [ -e "$peer/built" ]; then
      rm -rf "$peer"; python3 -m venv "$peer"
      install xllamacpp==2026.10.11549 gguf==0.19.0
      touch "$peer/built"
    fi
    quantize=edge-agent/benches/requantize.py ;;
  llama-cpp-python)
    version=0.3.36 name="llama.cpp of llama-cpp-python 0.3.36, built for this processor"
    peer=$peers/llama-cpp-python-$version-$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | sha256sum | cut -c1-12)
    if ! [ -e "$peer/built" ]; then
      command -v c++ > /dev/null || fail "llama.cpp is built from source and there is no C++ compiler: apt-get install g++"
      echo "bench-agent.sh: building llama.cpp ($version of its Python package) for this processor into $peer; once, ten minutes and more on two cores" >&2
      rm -rf "$peer"; python3 -m venv "$peer"
      install gguf==0.19.0 diskcache jinja2 typing-extensions
      CXXFLAGS="-include $PWD/edge-agent/benches/tile_config.h" CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" SKBUILD_BUILD_TARGETS="llama;llama-common" \
        install --no-deps --no-cache-dir --no-binary llama-cpp-python "llama-cpp-python==$version" > "$peer/build.log" 2>&1 \
        || fail "llama.cpp does not build: $peer/build.log. Without a peer there is no ratio, and nothing is measured; PEER=xllamacpp is prebuilt"
      touch "$peer/built"
    fi
    quantize="edge-agent/benches/peer.py --quantize" ;;
  *) fail "PEER=$PEER is neither llama-cpp-python nor xllamacpp" ;;
esac

cargo build --release --quiet --workspace --bin terrace-agent --example rates --example bandwidth
# Its best format of the same model, made by its own program.
best=$peer/$(basename "$model" .gguf)-q4_0.gguf
if ! [ -e "$best" ]; then
  # shellcheck disable=SC2086
  "$peer/bin/python" $quantize "$model" "$best.new" || fail "llama.cpp makes no Q4_0 of $model"
  mv "$best.new" "$best"
fi
measure "$peer/bin/python" "$name" "$best" "agent${CPU:+-$CPU}"
