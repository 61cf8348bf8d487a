//! The egress ledger in this router's own volume: one record for each body that leaves the device, written before the
//! body is. It goes on after the last record, never over it.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use rustix::fs::fstatvfs;
use terrace_contract::policy::OnWriteFailure;
use terrace_contract::report;
use terrace_privacy::Cleared;
use terrace_privacy::ledger::{Crossing, Ledger, NotRecorded, verify};

use crate::metrics::RouterMetrics;
use crate::random::Random;

/// The ledger, one record a line.
const LEDGER: &str = "egress.jsonl";
/// The key of its digests: without it a digest says nothing of a body.
const KEY: &str = "egress.key";

/// Where crossings are recorded; a router without a folder for state keeps no record.
#[derive(Default)]
pub struct Egress(Option<Kept>);

struct Kept {
    ledger: Mutex<Ledger<File>>,
    /// The ledger's own file: how much room is left where it lies.
    file: File,
}

impl Egress {
    /// Records that a body is about to cross.
    ///
    /// # Errors
    /// It could not be recorded, and the policy denies: the body must not be sent.
    pub fn record(
        &self,
        cleared: &Cleared<Bytes>,
        crossing: Crossing<'_>,
        on_failure: OnWriteFailure,
        metrics: &RouterMetrics,
    ) -> Result<(), NotRecorded> {
        let Some(kept) = &self.0 else { return Ok(()) };
        let mut ledger = kept.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let before = ledger.failures();
        let recorded = ledger.cross(cleared, crossing, on_failure);
        metrics.ledger_failures.inc_by(ledger.failures() - before);
        recorded
    }

    /// Its state, for the report.
    pub fn state(&self) -> Option<report::Ledger> {
        let kept = self.0.as_ref()?;
        let free_bytes = fstatvfs(&kept.file).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize));
        let ledger = kept.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        Some(report::Ledger { last_write_us: ledger.last_write_us(), free_bytes, failures: ledger.failures() })
    }
}

/// Opens the ledger in `dir`, or begins one.
///
/// # Errors
/// When the folder cannot be written, or the ledger was changed since it was written.
pub fn open(dir: &Path, random: &Random) -> anyhow::Result<Egress> {
    let (path, key_path) = (dir.join(LEDGER), dir.join(KEY));
    let key = match std::fs::read(&key_path) {
        Ok(key) if key.len() == 32 => key,
        _ => new_key(&key_path, random)?,
    };
    let last = match File::open(&path) {
        Ok(file) => verify(BufReader::new(file)).with_context(|| {
            format!(
                "the egress ledger {} cannot be continued: keep it aside for an audit and start anew",
                path.display()
            )
        })?,
        Err(_) => None,
    };
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot write the egress ledger {} (--state-dir)", path.display()))?;
    let same = file.try_clone().with_context(|| format!("cannot keep the egress ledger {} open", path.display()))?;
    Ok(Egress(Some(Kept { ledger: Mutex::new(Ledger::resume(file, &key, last.as_ref())), file: same })))
}

fn new_key(path: &Path, random: &Random) -> anyhow::Result<Vec<u8>> {
    let mut key = vec![0u8; 32];
    random.fill(&mut key)?;
    let mut options = OpenOptions::new();
    let written =
        options.write(true).create(true).truncate(true).mode(0o600).open(path).and_then(|mut f| f.write_all(&key));
    written.with_context(|| format!("cannot write {} (--state-dir)", path.display()))?;
    Ok(key)
}
