# Sourced inside the new namespaces: a fresh sysfs, and cgroup mounts whose root is this namespace's own group.
v2=; [ -e /sys/fs/cgroup/cgroup.controllers ] && v2=1
umount -l /sys 2>/dev/null; mount -t sysfs sysfs /sys
umount -l /sys/fs/cgroup 2>/dev/null
if [ -n "$v2" ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /sys/fs/cgroup/init; for p in $(cat /sys/fs/cgroup/cgroup.procs); do echo "$p" > /sys/fs/cgroup/init/cgroup.procs 2>/dev/null; done
  for c in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$c" > /sys/fs/cgroup/cgroup.subtree_control; done
else
  mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
  for c in cpu cpuacct cpuset memory devices freezer blkio pids; do mkdir /sys/fs/cgroup/$c; mount -t cgroup -o $c cgroup /sys/fs/cgroup/$c; done
  mkdir /sys/fs/cgroup/systemd; mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
fi
mount --make-rshared /
mount -t tmpfs tmpfs /run; mkdir -p /run/lock
