//! Opens the egress ledger in this router's own volume: goes on after the last record, never over it.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use terrace_privacy::ledger::{Ledger, verify};

use crate::dispatch::clearance::Egress;

/// The ledger, one record a line.
const LEDGER: &str = "egress.jsonl";
/// The key of its digests: without it a digest says nothing of a body.
const KEY: &str = "egress.key";

/// Opens the ledger in `dir`, or begins one.
///
/// # Errors
/// When the folder cannot be written, or the ledger was changed since it was written.
pub fn open(dir: &Path) -> anyhow::Result<Egress> {
    let (path, key_path) = (dir.join(LEDGER), dir.join(KEY));
    let key = match std::fs::read(&key_path) {
        Ok(key) if key.len() == 32 => key,
        _ => new_key(&key_path)?,
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
    Ok(Egress::new(Ledger::resume(file, &key, last.as_ref())))
}

fn new_key(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut key = vec![0u8; 32];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut key)
        .map_err(|_| anyhow::anyhow!("the system gives no random bytes: check /dev/urandom"))?;
    let mut options = OpenOptions::new();
    let written =
        options.write(true).create(true).truncate(true).mode(0o600).open(path).and_then(|mut f| f.write_all(&key));
    written.with_context(|| format!("cannot write {} (--state-dir)", path.display()))?;
    Ok(key)
}
