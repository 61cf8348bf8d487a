//! Control groups, version 2 and 1: where what limits this process is written.

use std::path::{Path, PathBuf};

/// How one group's limit is read, in each version.
pub(super) struct Limit<T> {
    /// The controller's name in version 1.
    pub(super) controller: &'static str,
    /// Names that distributions mount it under, beside its own.
    pub(super) mounts: &'static [&'static str],
    pub(super) v2: fn(&Path) -> Option<T>,
    pub(super) v1: fn(&Path) -> Option<T>,
}

impl<T> Limit<T> {
    /// The limits on the way from each group of this process up to the root. `memberships` is `/proc/self/cgroup`: lines
    /// like `0::/path` (v2) or `4:cpu,cpuacct:/path` (v1).
    pub(super) fn all(&self, root: &Path, memberships: &str) -> Vec<T> {
        memberships.lines().filter_map(|line| self.of_line(root, line)).flatten().collect()
    }

    fn of_line(&self, root: &Path, line: &str) -> Option<Vec<T>> {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (top, read): (PathBuf, _) = if controllers.is_empty() {
            (root.to_owned(), self.v2)
        } else if controllers.split(',').any(|c| c == self.controller) {
            let names = std::iter::once(controllers).chain([self.controller]).chain(self.mounts.iter().copied());
            (names.map(|n| root.join(n)).find(|p| p.is_dir())?, self.v1)
        } else {
            return None;
        };
        // Inside a container the path may be the host's, which is not there: then the root is the group itself.
        let relative = Path::new(path.trim_start_matches('/'));
        Some(relative.ancestors().filter_map(|a| read(&top.join(a))).collect())
    }
}
