#!/bin/bash
# images/NAME.Dockerfile copies exactly what images/NAME.files lists, and both say the same user and program.
set -euo pipefail
cd "$(dirname "$0")/.."
for name in operator router agent agent-cuda; do
  listed=$(sed 's/#.*//; /^\s*$/d' images/$name.files | awk '{print $1, $2}' | sort)
  copied=$(sed -n 's|^COPY --from=build \(/src/\)\{0,1\}\([^ ]*\) \([^ ]*\)$|\3 \2|p' images/$name.Dockerfile | sort)
  diff <(echo "$listed") <(echo "$copied") || { echo "images/$name.files (<) and images/$name.Dockerfile (>) differ"; exit 1; }
  grep -qx 'USER 65532:65532' images/$name.Dockerfile || { echo "images/$name.Dockerfile: USER 65532:65532 is missing"; exit 1; }
  program=/bin/terrace-${name%-cuda}
  grep -qx "ENTRYPOINT \[\"$program\"\]" images/$name.Dockerfile || { echo "images/$name.Dockerfile: ENTRYPOINT $program is missing"; exit 1; }
done
