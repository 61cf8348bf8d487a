//! Cores that this process may use: the physical cores of the scheduler's mask (which a cgroup's cpuset narrows) and
//! the cgroup's quota (v2 and v1), whichever is less. A pool with more threads than its quota is throttled in the middle
//! of each product, and two threads of one core share the units that a product keeps busy.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};

use super::cgroup::Limit;

/// At least one.
pub fn granted_cores() -> usize {
    let cores = match sched_getaffinity(None) {
        Ok(mask) => {
            physical(Path::new("/sys/devices/system/cpu"), (0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)))
        }
        // More processors than the mask has room for: the standard library asks in another way.
        Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let quota = quota(Path::new("/sys/fs/cgroup"), &std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
    quota.map_or(cores, |quota| cores.min(quota)).max(1)
}

/// How many cores these processors belong to. One whose siblings are not known counts as a core.
fn physical(root: &Path, processors: impl Iterator<Item = usize>) -> usize {
    let siblings = |processor: usize| {
        let topology = root.join(format!("cpu{processor}/topology"));
        // The second is the name before Linux 5.3, and is still there.
        ["core_cpus_list", "thread_siblings_list"]
            .iter()
            .find_map(|name| std::fs::read_to_string(topology.join(name)).ok())
            .unwrap_or_else(|| processor.to_string())
    };
    processors.map(|p| siblings(p).trim().to_owned()).collect::<BTreeSet<_>>().len()
}

const QUOTA: Limit<f64> = Limit { controller: "cpu", mounts: &["cpu,cpuacct"], v2, v1 };

/// The least quota on the way from this process's groups up to the root, in whole cores, rounded up.
fn quota(root: &Path, memberships: &str) -> Option<usize> {
    let least = QUOTA.all(root, memberships).into_iter().min_by(f64::total_cmp)?;
    Some((least.ceil() as usize).max(1))
}

fn v2(group: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

fn v1(group: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    ratio(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
}

/// `max` and `-1` mean no limit.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn version_2_takes_the_least_on_the_way_up() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "kube/pod/app/cpu.max", "max 100000\n");
        write(dir.path(), "kube/pod/cpu.max", "150000 100000\n");
        write(dir.path(), "kube/cpu.max", "400000 100000\n");
        assert_eq!(quota(dir.path(), "0::/kube/pod/app\n"), Some(2));
        assert_eq!(quota(dir.path(), "0::/elsewhere\n"), None);
    }

    #[test]
    fn version_1_is_read_where_the_controller_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "cpu,cpuacct/docker/x/cpu.cfs_quota_us", "50000\n");
        write(dir.path(), "cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
        write(dir.path(), "cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        write(dir.path(), "cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        let groups = "12:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n";
        assert_eq!(quota(dir.path(), groups), Some(1));
        assert_eq!(quota(dir.path(), "4:cpu,cpuacct:/\n"), None);
    }

    #[test]
    fn two_threads_of_a_core_are_one() {
        let dir = tempfile::tempdir().unwrap();
        for (cpu, siblings) in ["0,4", "1,5", "2,6", "3,7", "0,4", "1,5"].iter().enumerate() {
            write(dir.path(), &format!("cpu{cpu}/topology/thread_siblings_list"), &format!("{siblings}\n"));
        }
        assert_eq!(physical(dir.path(), 0..6), 4);
        assert_eq!(physical(dir.path(), [0, 4].into_iter()), 1);
        // Nothing is known of these.
        assert_eq!(physical(dir.path(), 10..13), 3);
    }

    #[test]
    fn there_is_always_a_core() {
        assert!(granted_cores() >= 1);
    }
}
