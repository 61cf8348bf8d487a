#!/bin/bash
# Device selection against the field's balancers. AZURE_TRACE names Azure's
# AzureLLMInferenceTrace_conv.csv (https://github.com/Azure/AzurePublicDataset); without it a synthetic trace is made.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p target/bench
cargo run --release --locked --quiet --workspace --example selection -- examples/simulate "${AZURE_TRACE:-}" >target/bench/selection.json
echo "target/bench/selection.json"
