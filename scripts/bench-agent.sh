#!/bin/bash
# make bench-agent: the agent against llama.cpp on this machine, in turns, to target/bench/agent.json. What it needs and does not find is an
# error, never a figure without a peer. Run it on a quiet machine: two cores that others use give two wrong rates and a ratio of noise.
#   THREADS=N ROUNDS=N    threads of both sides (default: the cores granted), samples of each figure (default 5)
#   CPU=avx2              our kernels for that processor, written to target/bench/agent-avx2.json
#   DEVICE=cuda           the bench of that GPU instead
set -euo pipefail
cd "$(dirname "$0")/.."
[ -z "${DEVICE:-}" ] || [ "$DEVICE" = cpu ] || exec edge-agent/benches/gpu.sh "$DEVICE"
mkdir -p target/bench
fail() { echo "bench-agent.sh: $*" >&2; exit 1; }

# The peer: llama.cpp of its Python package, built here for this processor, kept outside the tree.
version=0.3.36
processor=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | sha256sum | cut -c1-12)
peer=${XDG_CACHE_HOME:-$HOME/.cache}/terrace/peers/llama-cpp-python-$version-$processor
if ! [ -e "$peer/built" ]; then
  command -v c++ > /dev/null || fail "llama.cpp is built from source and there is no C++ compiler: apt-get install g++"
  echo "bench-agent.sh: building llama.cpp ($version of its Python package) for this processor into $peer; once, some minutes" >&2
  rm -rf "$peer"; python3 -m venv "$peer"
  wheels=${LLAMA_WHEELS:-} # a folder that has the wheel already, built on this machine with these flags
  if [ -z "$wheels" ]; then
    wheels=$peer/wheels
    CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF" \
      "$peer/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python -w "$wheels" "llama-cpp-python==$version" > "$peer/build.log" 2>&1 \
      || fail "llama.cpp does not build: $peer/build.log. Without the peer there is no ratio, and nothing is measured"
  fi
  "$peer/bin/pip" install --quiet --disable-pip-version-check numpy diskcache jinja2 typing-extensions
  "$peer/bin/pip" install --quiet --disable-pip-version-check --no-deps "$wheels"/llama_cpp_python-$version-*.whl
  touch "$peer/built"
fi

cargo build --release --quiet --workspace --bin terrace-agent --example rates
model=$(scripts/model.sh smollm2)
gemma=$(scripts/model.sh gemma3)
# Its best format of the same model, made by its own program.
best=$peer/$(basename "$model" .gguf)-q4_0.gguf
if ! [ -e "$best" ]; then
  "$peer/bin/python" edge-agent/benches/peer.py --quantize "$model" "$best.new" || fail "llama.cpp makes no Q4_0 of $model"
  mv "$best.new" "$best"
fi
"$peer/bin/python" edge-agent/benches/agent.py --model "$model" --best "$best" --gemma "$gemma" --peer "llama.cpp of llama-cpp-python $version" \
  --threads "${THREADS:-0}" --rounds "${ROUNDS:-5}" --cpu "${CPU:-}" --out "target/bench/agent${CPU:+-$CPU}.json"
