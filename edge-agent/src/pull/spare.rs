//! What a download leaves free on its disk: a node whose disk is full loses more than a model.
//!
//! A kubelet evicts pods once less than a tenth of the node's file system is free (`nodefs.available<10%`, its default),
//! and the pod that filled it is among the first.

use std::path::Path;
use std::str::FromStr;

use rustix::fs::statvfs;
use terrace_contract::units;

/// Percent of a file system that is left free.
const PERCENT: u64 = 10;
/// More than this is left free only where somebody asks for it: a tenth of a very large disk is nobody's need.
const MOST: u64 = 10 << 30;

/// Bytes of a file system that no download may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spare {
    /// A tenth of the file system, 10 GiB at most.
    #[default]
    Usual,
    /// So many percent of it.
    Percent(u8),
    /// So many bytes.
    Bytes(u64),
}

/// The free bytes of a file system, and how many of them a download may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disk {
    /// Free for a process without privileges.
    pub(super) free: u64,
    /// Of those, what has to stay free.
    pub(super) spare: u64,
}

impl Spare {
    /// Bytes to leave free on a file system of so many.
    pub(super) fn of(self, whole: u64) -> u64 {
        match self {
            Spare::Usual => (whole / 100 * PERCENT).min(MOST),
            Spare::Percent(percent) => whole / 100 * u64::from(percent),
            Spare::Bytes(bytes) => bytes,
        }
    }
}

impl Disk {
    /// Of the file system that holds `folder`. One that does not say counts as endless: then a write fails in its time.
    pub(super) fn of(folder: &Path, spare: Spare) -> Self {
        statvfs(folder).map_or(Disk { free: u64::MAX, spare: 0 }, |s| Disk {
            free: s.f_bavail.saturating_mul(s.f_frsize),
            spare: spare.of(s.f_blocks.saturating_mul(s.f_frsize)),
        })
    }

    /// Bytes that may be taken.
    pub(super) fn room(self) -> u64 {
        self.free.saturating_sub(self.spare)
    }
}

impl FromStr for Spare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = |n: &str| n.parse().ok().filter(|n| *n <= 99).map(Spare::Percent);
        let read = match text.strip_suffix('%') {
            Some(n) => percent(n),
            None => units::bytes(text).map(Spare::Bytes),
        };
        read.ok_or_else(|| "give a part of the disk such as 10% (99% at most), or a size such as 2Gi".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_stays_free_and_of_a_large_disk_ten_gibibytes() {
        assert_eq!(Spare::Usual.of(32_000_000_000), 3_200_000_000);
        assert_eq!(Spare::Usual.of(1 << 40), 10 << 30);
        assert_eq!("15%".parse::<Spare>().unwrap().of(1000), 150);
        assert_eq!("2Gi".parse::<Spare>().unwrap().of(1000), 2 << 30);
        assert_eq!("0".parse(), Ok(Spare::Bytes(0)));
        for wrong in ["100%", "-1%", "%", "ten", "", "1.5%"] {
            assert!(wrong.parse::<Spare>().is_err(), "{wrong}");
        }
        assert_eq!(Disk { free: 5, spare: 7 }.room(), 0);
        assert_eq!(Disk { free: 9, spare: 7 }.room(), 2);
    }
}
