#!/bin/bash
# make fuzz SECONDS=60: each fuzz target for so long, from the committed corpus. What it finds new goes to target/fuzz/corpus, what
# breaks something to target/fuzz/artifacts. Needs a C++ compiler (libFuzzer comes as source in its crate) and the pinned stable Rust:
# coverage is LLVM's own pass, which is not a nightly option; only sanitizers are, and the code under test is safe Rust.
#   scripts/fuzz.sh SECONDS [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}; shift || true
[[ $seconds =~ ^[0-9]+$ ]] || { echo "fuzz.sh: how many seconds? scripts/fuzz.sh 60 [TARGET...]" >&2; exit 2; }
targets=("$@"); [ ${#targets[@]} != 0 ] || targets=(gguf tokenizer template wire)
command -v c++ > /dev/null || { echo "fuzz.sh: no C++ compiler: apt-get install g++" >&2; exit 1; }
host=$(rustc -vV | sed -n 's/^host: //p')
# --target keeps build scripts and macros free of these flags.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
# The versions that everything else is built with; a lock file of its own would only drift from it.
cp Cargo.lock fuzz/Cargo.lock
RUSTFLAGS="$coverage" cargo build --quiet --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir target/fuzz/build
failed=0
for target in "${targets[@]}"; do
  corpus=target/fuzz/corpus/$target artifacts=target/fuzz/artifacts/$target log=target/fuzz/$target.log
  mkdir -p "$corpus" "$artifacts"
  options=(-max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$artifacts/")
  dictionary=fuzz/corpus/$target.dict; [ -e "$dictionary" ] && options+=(-dict="$dictionary")
  if "target/fuzz/build/$host/release/$target" "${options[@]}" "$corpus" "fuzz/corpus/$target" > "$log" 2>&1; then word=ok
  else word=FAILED failed=$((failed + 1)); fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  covered=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
  echo "fuzz $target: $word, ${runs:-?} executions in $seconds s, ${covered:-cov: ?} ($log)"
  [ $word = ok ] || { grep -E 'panicked|ERROR|artifact' "$log" | head -5; tail -3 "$log"; }
done
[ $failed = 0 ]
