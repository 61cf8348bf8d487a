//! The egress ledger: one record for each body that leaves the device, each holding the hash of the one before, so that
//! none can be changed or taken out unnoticed.
//!
//! A body appears as an HMAC only: the plain hash of a short body can be guessed.

use std::io::{self, BufRead, Write};

use bytes::Bytes;
use ring::{digest, hmac};
use serde::{Deserialize, Serialize};
use terrace_contract::canonical::hex;
use terrace_contract::policy::OnWriteFailure;
use terrace_contract::trust::{Boundary, Class};

use crate::clear::Cleared;

/// The hash before the first record.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One crossing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Position in the ledger, from 0.
    pub sequence: u64,
    /// When, microseconds since the Unix epoch.
    pub at_us: u64,
    /// The request.
    pub request_id: String,
    /// Which attempt of the request.
    pub attempt: u32,
    /// UID of the tier.
    pub tier_uid: String,
    /// Name of the tier.
    pub tier: String,
    /// Its boundary.
    pub boundary: Boundary,
    /// Where the data is processed.
    pub region: String,
    /// By whom.
    pub processor: String,
    /// Class of the request.
    pub class: Class,
    /// Types of what was found in it.
    pub entities: Vec<String>,
    /// Length of the body.
    pub bytes: u64,
    /// HMAC-SHA-256 of the body, hex.
    pub body: String,
    /// Hash of the record before.
    pub previous: String,
    /// SHA-256 over this record's line without this field, hex.
    pub hash: String,
}

impl Record {
    fn digest(&self) -> String {
        let plain = Record { hash: String::new(), ..self.clone() };
        // A record holds only strings, numbers and unit enums, for which serde_json cannot fail.
        let line = serde_json::to_vec(&plain).unwrap_or_default();
        hex(digest::digest(&digest::SHA256, &line).as_ref())
    }
}

/// What a crossing is recorded with.
#[derive(Debug, Clone, Copy)]
pub struct Crossing<'a> {
    /// When, microseconds since the Unix epoch.
    pub at_us: u64,
    /// The request.
    pub request_id: &'a str,
    /// Which attempt of the request.
    pub attempt: u32,
}

/// A ledger that could not be written, where the policy says that nothing crosses unrecorded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the egress ledger could not be written, and egressLedger.onWriteFailure is Deny: nothing was sent; make room or repair its storage"
)]
pub struct NotRecorded(#[source] pub io::Error);

/// Appends records to a writer: one JSON line each, flushed before the body is sent.
pub struct Ledger<W> {
    out: W,
    key: hmac::Key,
    sequence: u64,
    previous: String,
    failures: u64,
    last_write_us: u64,
    /// Whether the last line may have been cut, by a write that failed or by the end of an earlier process.
    torn: bool,
}

impl<W: Write> Ledger<W> {
    /// A ledger that goes on after `last` (none: a new one). `key` is kept secret by the caller.
    pub fn resume(out: W, key: &[u8], last: Option<&Record>) -> Self {
        Self {
            out,
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            sequence: last.map_or(0, |r| r.sequence + 1),
            previous: last.map_or_else(|| GENESIS.to_owned(), |r| r.hash.clone()),
            failures: 0,
            last_write_us: last.map_or(0, |r| r.at_us),
            torn: true,
        }
    }

    /// Records that a body is about to cross. What stays on the device is not recorded.
    ///
    /// # Errors
    /// [`NotRecorded`] when writing failed and the policy denies: the body must not be sent.
    pub fn cross(
        &mut self,
        cleared: &Cleared<Bytes>,
        crossing: Crossing<'_>,
        on_failure: OnWriteFailure,
    ) -> Result<(), NotRecorded> {
        if cleared.boundary() == Boundary::Device {
            return Ok(());
        }
        match self.append(cleared, crossing) {
            Ok(()) => Ok(()),
            Err(source) => {
                self.failures += 1;
                match on_failure {
                    OnWriteFailure::Deny => Err(NotRecorded(source)),
                    OnWriteFailure::Allow => Ok(()),
                }
            }
        }
    }

    fn append(&mut self, cleared: &Cleared<Bytes>, crossing: Crossing<'_>) -> io::Result<()> {
        let body = cleared.body();
        let mut record = Record {
            sequence: self.sequence,
            at_us: crossing.at_us,
            request_id: crossing.request_id.to_owned(),
            attempt: crossing.attempt,
            tier_uid: cleared.tier_uid().to_owned(),
            tier: cleared.tier_name().to_owned(),
            boundary: cleared.boundary(),
            region: cleared.region().to_owned(),
            processor: cleared.processor().to_owned(),
            class: cleared.class(),
            entities: cleared.entities().to_vec(),
            bytes: body.len() as u64,
            body: hex(hmac::sign(&self.key, body).as_ref()),
            previous: self.previous.clone(),
            hash: String::new(),
        };
        // As `digest` does, and the line is written once: the hash is its last member, and still empty.
        let mut line = serde_json::to_vec(&record)?;
        record.hash = hex(digest::digest(&digest::SHA256, &line).as_ref());
        let end = line.len() - r#""}"#.len();
        line.splice(end..end, record.hash.bytes());
        // A line that was cut is ended first: the next one must stand alone.
        if std::mem::replace(&mut self.torn, true) {
            line.insert(0, b'\n');
        }
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()?;
        self.torn = false;
        self.sequence += 1;
        self.previous = record.hash;
        self.last_write_us = crossing.at_us;
        Ok(())
    }

    /// Records that could not be written.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// When it was last written, microseconds since the Unix epoch; 0: never.
    pub fn last_write_us(&self) -> u64 {
        self.last_write_us
    }
}

/// A ledger that was changed.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// It could not be read.
    #[error("the ledger could not be read")]
    Io(#[from] io::Error),
    /// A record does not follow from the one before it.
    #[error("line {line}: this record is not the one that was written after the record before it")]
    Chain {
        /// Line, from 1.
        line: usize,
    },
}

/// Reads a ledger and checks its chain; returns the last record. A last line that was cut while being written was never
/// sent and is left out, as is what a failed write left behind.
///
/// # Errors
/// [`Broken`] with the first line that does not follow.
pub fn verify(input: impl BufRead) -> Result<Option<Record>, Broken> {
    let mut last: Option<Record> = None;
    for (index, line) in input.split(b'\n').enumerate() {
        let Ok(record) = serde_json::from_slice::<Record>(&line?) else { continue };
        let (previous, sequence) = last.as_ref().map_or((GENESIS, 0), |r| (r.hash.as_str(), r.sequence + 1));
        if record.previous != previous || record.sequence != sequence || record.hash != record.digest() {
            return Err(Broken::Chain { line: index + 1 });
        }
        last = Some(record);
    }
    Ok(last)
}
