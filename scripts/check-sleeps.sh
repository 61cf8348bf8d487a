#!/bin/bash
# A test waits for a state, with a deadline; it does not hope that some time is enough. e2e/src/wait.rs is the one that lets time pass.
set -euo pipefail
cd "$(dirname "$0")/.."
found=$(
  # Rust: whole files of tests, and what follows `#[cfg(test)]` in the others.
  git ls-files '*.rs' | while read -r file; do
    case $file in
      e2e/src/wait.rs) continue ;;
      */tests/*|*tests.rs|e2e/*) awk -v f="$file" '/(thread|time)::sleep\(/ && !/wait: / {print f ":" NR ": " $0}' "$file" ;;
      *) awk -v f="$file" '/#\[cfg\(test\)\]/ {t = 1} t && /(thread|time)::sleep\(/ && !/wait: / {print f ":" NR ": " $0}' "$file" ;;
    esac
  done
  # Shell: a sleep is allowed inside a loop that asks for a state.
  git ls-files '*.sh' '*.py' '*.mjs' | xargs grep -nE '(^|[^a-z_])sleep[ (][0-9]|setTimeout\(' | grep -vE 'until .*sleep|for _ in .*sleep|sleep 0\.[0-9]+(;|$)|check-sleeps.sh' || true
)
[ -z "$found" ] && exit 0
echo "$found"; echo 'Wait for a state with a deadline instead (a poll inside such a wait is marked with "// wait: what for").'; exit 1
