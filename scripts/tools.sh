#!/bin/bash
# The clients that the tests talk through: openai, anthropic, LangChain and LiteLLM for Python in .venv (e2e/clients/requirements.txt pins them and all
# that they need), openai for Node in e2e/clients/node_modules; and Rust's targets.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo > /dev/null || { echo "tools.sh: cargo is not installed; install Rust with https://rustup.rs and run this again" >&2; exit 1; }
if command -v rustup > /dev/null; then rustup show active-toolchain > /dev/null 2>&1 || rustup toolchain install; rustup target add x86_64-unknown-linux-musl > /dev/null 2>&1; fi
stamp=$(sha256sum e2e/clients/requirements.txt | cut -d' ' -f1)
if [ "$(cat .venv/stamp 2>/dev/null)" != "$stamp" ]; then
  rm -rf .venv; python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r e2e/clients/requirements.txt
  echo "$stamp" > .venv/stamp
fi
[ e2e/clients/node_modules/.package-lock.json -nt e2e/clients/package-lock.json ] || npm ci --prefix e2e/clients --silent --no-audit --no-fund
