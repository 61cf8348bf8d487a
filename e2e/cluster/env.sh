# Sourced by every script here: where things are.
#   PROGRAMS  what build.sh makes, kept between runs; shared by every cluster of this user
#   CLUSTER   all state of one running cluster; removing it removes everything
export PROGRAMS=${PROGRAMS:-${XDG_CACHE_HOME:-$HOME/.cache}/terrace-cluster}
export CLUSTER=${CLUSTER:-$PROGRAMS/state}
export HERE=${HERE:-$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)}
export BIN=$PROGRAMS/bin PKI=$CLUSTER/pki LOG=$CLUSTER/log
export NODES=${NODES:-2}
# The cluster's own group in every cgroup hierarchy: one name a state folder, so that two clusters never meet.
GROUP=terrace-$(printf %s "$CLUSTER" | cksum | cut -d' ' -f1); export GROUP
export PATH=$BIN:/usr/sbin:/sbin:$PATH
