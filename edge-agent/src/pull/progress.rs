//! What a pull says while it goes on.

use std::fmt;

/// What a pull is about to do, in the order in which it happens. Its `Display` is a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Another pod of this node has the lock.
    Waiting,
    /// The source is asked for the file.
    Connecting {
        /// The first byte that is asked for.
        from: u64,
    },
    /// Bytes are in the partial file.
    Downloading {
        /// How many.
        bytes: u64,
        /// How many there will be, where the source says so.
        of: Option<u64>,
    },
    /// The source gave nothing; it is asked again after a while.
    Retrying {
        /// What was wrong.
        why: String,
    },
    /// All bytes are there; their digest is computed.
    Checking,
    /// The digest is right; the bytes are brought to the disk.
    Storing,
    /// The bytes are on the disk; the file gets its name.
    Naming,
    /// The file has its name.
    Named,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Waiting => f.write_str("another pod on this node is downloading the model"),
            Progress::Connecting { from: 0 } => f.write_str("asking for the model"),
            Progress::Connecting { from } => write!(f, "asking for the model from byte {from} on"),
            Progress::Downloading { bytes, of: None } => write!(f, "downloading the model: {} MB", bytes / 1_000_000),
            Progress::Downloading { bytes, of: Some(of) } => {
                write!(f, "downloading the model: {} of {} MB", bytes / 1_000_000, of / 1_000_000)
            }
            Progress::Retrying { why } => write!(f, "{why}; trying again"),
            Progress::Checking => f.write_str("checking the model's digest"),
            Progress::Storing | Progress::Naming | Progress::Named => f.write_str("storing the model"),
        }
    }
}
