#!/bin/bash
# make confirm-selection: the simulated overflow of device selection beside that of a real router and real agent processes with
# slowed clocks, on the same part of a trace; to target/bench/confirm-selection.json. Ends with 0 if they agree.
#   AZURE_TRACE=FILE          Azure's AzureLLMInferenceTrace_conv.csv (https://github.com/Azure/AzurePublicDataset)
#   LOAD=F SECONDS_EACH=S     how many times as fast as in the trace, and how long each strategy gets requests (1.5, 150)
#   STRATEGIES=A,B            only these; RoundRobin must be among them
#   DRY=1                     only the simulation
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -r "${AZURE_TRACE:-}" ]; then
  echo "confirm-selection.sh: AZURE_TRACE names no file: give it AzureLLMInferenceTrace_conv.csv of https://github.com/Azure/AzurePublicDataset" >&2
  exit 2
fi
mkdir -p target/bench
cargo build --release --locked --quiet --workspace --bin terrace-router --example slowed --example confirm
arguments=(--trace "$AZURE_TRACE" --fleet cli/benches/confirm.yaml --load "${LOAD:-1.5}" --seconds "${SECONDS_EACH:-150}")
[ -z "${STRATEGIES:-}" ] || arguments+=(--strategy "$STRATEGIES")
if [ -n "${DRY:-}" ]; then arguments+=(--dry); else arguments+=(--out target/bench/confirm-selection.json); fi
exec "${CARGO_TARGET_DIR:-target}/release/examples/confirm" "${arguments[@]}"
