//! Memory that this process may use: what the machine has left, and the least limit of its control groups.

use std::path::Path;

use super::cgroup::Limit;

/// Bytes; none where neither is known.
pub fn usable_memory() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = available(&read("/proc/meminfo"));
    let group = group_limit(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    machine.into_iter().chain(group).min()
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

const LIMIT: Limit<u64> = Limit {
    controller: "memory",
    mounts: &[],
    v2: |group| bytes(&group.join("memory.max")),
    v1: |group| bytes(&group.join("memory.limit_in_bytes")),
};

/// What is no number, as `max`, is no limit.
fn bytes(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn group_limit(root: &Path, memberships: &str) -> Option<u64> {
    LIMIT.all(root, memberships).into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts_and_none_is_no_limit() {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join("pods/one");
        std::fs::create_dir_all(&pod).unwrap();
        assert_eq!(group_limit(root.path(), "0::/pods/one\n"), None);
        std::fs::write(pod.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/pods/one\n"), None);
        std::fs::write(root.path().join("pods/memory.max"), "4096\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/pods/one\n"), Some(4096));
        std::fs::write(pod.join("memory.max"), "1024\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/pods/one\n"), Some(1024));
        let old = root.path().join("memory/docker");
        std::fs::create_dir_all(&old).unwrap();
        std::fs::write(old.join("memory.limit_in_bytes"), "2048\n").unwrap();
        assert_eq!(group_limit(root.path(), "4:cpu:/docker\n9:memory:/docker\n"), Some(2048));
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    3 kB\n"), Some(3072));
        assert_eq!(available(""), None);
    }
}
