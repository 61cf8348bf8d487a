#!/bin/bash
# A test waits for a state, with a deadline; it does not hope that some time is enough. A sleep is a poll, and is let through, where the
# line before it asserts the deadline. e2e/src/wait.rs is where the end-to-end tests poll.
set -euo pipefail
cd "$(dirname "$0")/.."
found=$(
  # Rust: whole files of tests, and what follows `#[cfg(test)]` in the others.
  git ls-files '*.rs' | while read -r file; do
    whole=0; case $file in e2e/src/wait.rs) continue ;; */tests/*|*tests.rs|e2e/*) whole=1 ;; esac
    awk -v f="$file" -v t=$whole '/#\[cfg\(test\)\]/ {t = 1}
      t && /(thread|time)::sleep\(/ && before !~ /assert!\(.*deadline/ {print f ":" NR ": " $0} {before = $0}' "$file"
  done
  # Scripts: a sleep inside a loop that asks for a state.
  git ls-files '*.sh' '*.py' '*.mjs' | xargs grep -nE '(^|[^a-z_])sleep[ (][0-9]|setTimeout\(' | grep -vE 'until .*sleep|for _ in .*sleep|sleep 0\.[0-9]+(;|$)|check-sleeps.sh' || true
)
[ -z "$found" ] && exit 0
echo "$found"; echo 'Wait for a state instead, with a deadline that the line before the poll asserts.'; exit 1
