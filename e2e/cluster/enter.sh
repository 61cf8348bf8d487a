#!/bin/bash
# enter.sh NAME COMMAND...: run COMMAND as pid 1 of new mount, net, uts, ipc, cgroup and pid namespaces, in a sub-group NAME of
# our own group in every cgroup hierarchy. NETNS=path enters that network namespace instead of a new one.
set -u
name=$1; shift
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then # cgroup v2: beside whatever runs here, since a group with processes hands no controllers on
  mkdir -p "/sys/fs/cgroup/$name" && echo $$ > "/sys/fs/cgroup/$name/cgroup.procs" || exit 1
else
  groups=$(cat /proc/self/cgroup) # read first: the loop changes it
  while IFS=: read -r _ controllers path; do
    case $controllers in
      "") dir=/sys/fs/cgroup/unified$path ;;
      name=systemd) dir=/sys/fs/cgroup/systemd$path ;;
      *) dir=/sys/fs/cgroup/$controllers$path ;;
    esac
    dir=${dir%/}
    mkdir -p "$dir/$name" 2>/dev/null || continue
    if [ "$controllers" = cpuset ]; then cat "$dir/cpuset.cpus" > "$dir/$name/cpuset.cpus"; cat "$dir/cpuset.mems" > "$dir/$name/cpuset.mems"; fi
    echo $$ > "$dir/$name/cgroup.procs"
  done <<< "$groups"
fi
flags=(-m -u -i -C -p --fork --kill-child --propagation private --mount-proc)
[ -n "${NETNS:-}" ] && exec nsenter --net="$NETNS" unshare "${flags[@]}" -- "$@"
exec unshare -n "${flags[@]}" -- "$@"
