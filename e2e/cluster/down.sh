#!/bin/bash
# Ends the cluster: killing its first process ends every process in its namespaces, and its mounts and networks go with them.
# Its state, logs included, stays in $CLUSTER.
set -uo pipefail
. "$(dirname "$0")/env.sh"
[ -e "$CLUSTER/pid" ] || exit 0
pid=$(cat "$CLUSTER/pid")
kill -KILL "$pid" 2>/dev/null
for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
rm -f "$CLUSTER/pid" "$CLUSTER/up"
for _ in $(seq 50); do
  left=$(find /sys/fs/cgroup -type d -name "$GROUP" 2>/dev/null); [ -z "$left" ] && exit 0
  for dir in $left; do find "$dir" -depth -type d -exec rmdir {} \; 2>/dev/null; done; sleep 0.2
done
echo "down.sh: these groups still hold processes: $left" >&2; exit 1
