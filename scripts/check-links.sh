#!/bin/bash
# Every relative link of a Markdown file leads to a file that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
while read -r file; do
  while read -r link; do
    target=${link%%#*}; [ -z "$target" ] && continue
    [ -e "$(dirname "$file")/$target" ] || { echo "$file: $link leads nowhere"; bad=1; }
  done < <(grep -oE '\]\([^)]+\)' "$file" | sed 's/^](//; s/)$//' | grep -vE '^(https?:|mailto:|#)' || true)
done < <(git ls-files '*.md')
exit $bad
