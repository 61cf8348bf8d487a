#!/bin/bash
# in.sh COMMAND...: runs COMMAND beside the control plane (its network and mounts), with KUBECONFIG set. NODE=n1 in.sh ...: on that node.
. "$(dirname "$0")/env.sh"
[ -e "$CLUSTER/pid" ] || { echo "in.sh: no cluster runs in $CLUSTER; start one with $HERE/up.sh" >&2; exit 1; }
# The first process of a set of namespaces has pid 1 inside them; SCRIPT tells the control plane's from a node's.
first() { # PARENT SCRIPT...
  local child
  for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
    if [ "$(awk '/^NSpid:/ {print $NF}' "/proc/$child/status" 2>/dev/null)" = 1 ] && [[ "$(tr '\0' ' ' < "/proc/$child/cmdline")" == *"/$2 " ]]; then echo "$child"; return 0; fi
    first "$child" "$2" && return 0
  done
  return 1
}
script=control.sh; [ -n "${NODE:-}" ] && script="node.sh ${NODE#n}"
pid=$(first "$(cat "$CLUSTER/pid")" "$script") || { echo "in.sh: ${NODE:-the control plane} does not run; its log is in $LOG" >&2; exit 1; }
export KUBECONFIG=$PKI/admin.kubeconfig
exec nsenter -t "$pid" -m -n -u -i -p -C --wd="$PWD" -- "$@"
