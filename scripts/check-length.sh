#!/bin/bash
# A source file over 500 lines holds more than one idea (about 400 is the aim; tables and goldens are no source).
set -euo pipefail
cd "$(dirname "$0")/.."
long=$(git ls-files '*.rs' | xargs wc -l | awk '$1 > 500 && $2 != "total" {print $2 ": " $1 " lines"}')
[ -z "$long" ] || { echo "$long"; exit 1; }
