//! The egress ledger on a real file and on storage that fails.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};

use bytes::Bytes;
use common::{classify, policy, tier, user};
use serde_json::json;
use terrace_contract::policy::OnWriteFailure::{Allow, Deny};
use terrace_contract::trust::{Boundary, Class};
use terrace_privacy::ledger::{Broken, Crossing, GENESIS, Ledger, verify};
use terrace_privacy::{Cleared, Terms, clear};

fn cleared(boundary: Boundary, text: &str) -> Cleared<Bytes> {
    let policy = policy(json!({"unlabelled": "Public"}));
    let body = user(text);
    let tier = tier(boundary, "https://api.example.com/v1");
    clear(&body, &classify(&policy.sensitivity, &body), &Terms { policy: &policy, tier: &tier, policy_age_us: 0 })
        .unwrap()
}

const CROSSING: Crossing<'_> = Crossing { at_us: 7, request_id: "r1", attempt: 0 };

#[test]
fn a_ledger_goes_on_after_a_restart_and_its_chain_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("egress.jsonl");
    let open = || OpenOptions::new().append(true).create(true).open(&path).unwrap();
    let read = || verify(BufReader::new(File::open(&path).unwrap()));

    let mut first = Ledger::resume(open(), b"key", None);
    first.cross(&cleared(Boundary::Public, "hello"), CROSSING, Deny).unwrap();
    first.cross(&cleared(Boundary::Device, "hello"), CROSSING, Deny).unwrap();
    let last = read().unwrap().unwrap();
    assert_eq!(
        (last.sequence, last.previous.as_str(), last.class),
        (0, GENESIS, Class::Public),
        "Device is not recorded"
    );

    let mut second = Ledger::resume(open(), b"key", Some(&last));
    second.cross(&cleared(Boundary::Private, "jane@example.com"), CROSSING, Deny).unwrap();
    let last = read().unwrap().unwrap();
    assert_eq!((last.sequence, &last.entities[..]), (1, &["EmailAddress".to_owned()][..]));

    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("jane") && !text.contains("hello"), "no content in the ledger");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let forged = [lines[0].replace("eu-west", "us-east"), lines[1].to_owned()].join("\n");
    assert!(matches!(verify(forged.as_bytes()), Err(Broken::Chain { line: 1 })));
    assert!(matches!(verify(lines[1].as_bytes()), Err(Broken::Chain { line: 1 })), "the first was taken out");
    let cut = format!("{}\n{}", lines[0], &lines[1][..40]);
    assert_eq!(verify(cut.as_bytes()).unwrap().unwrap().sequence, 0, "cut while being written");
}

#[test]
fn a_process_that_ended_while_writing_does_not_spoil_the_next_record() {
    let body = cleared(Boundary::Public, "hello");
    let mut text = Vec::new();
    Ledger::resume(&mut text, b"key", None).cross(&body, CROSSING, Deny).unwrap();
    let whole = text.len();
    text.extend_from_within(..whole / 2);
    let last = verify(&text[..]).unwrap();
    assert_eq!(last.as_ref().map(|r| r.sequence), Some(0));
    Ledger::resume(&mut text, b"key", last.as_ref()).cross(&body, CROSSING, Deny).unwrap();
    assert_eq!(verify(&text[..]).unwrap().unwrap().sequence, 1);
}

/// Storage that takes so many bytes and no more.
struct Full(usize, Vec<u8>);

impl Write for Full {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(self.0);
        if n == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= n;
        self.1.extend_from_slice(&buf[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_cannot_be_recorded_crosses_only_if_the_policy_allows_it() {
    let mut storage = Full(100, Vec::new());
    let mut ledger = Ledger::resume(&mut storage, b"key", None);
    let body = cleared(Boundary::Public, "hello");
    let denied = ledger.cross(&body, CROSSING, Deny).unwrap_err();
    assert_eq!(denied.0.kind(), io::ErrorKind::StorageFull);
    ledger.cross(&body, CROSSING, Allow).unwrap();
    assert_eq!(ledger.failures(), 2);
}

#[test]
fn a_half_written_line_does_not_spoil_the_next() {
    struct Once(bool, Vec<u8>);
    impl Write for Once {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            if std::mem::take(&mut self.0) {
                self.1.extend_from_slice(&buf[..buf.len() / 2]);
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1.extend_from_slice(buf);
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut storage = Once(true, Vec::new());
    let mut ledger = Ledger::resume(&mut storage, b"key", None);
    let body = cleared(Boundary::Public, "hello");
    ledger.cross(&body, CROSSING, Allow).unwrap();
    ledger.cross(&body, CROSSING, Allow).unwrap();
    assert_eq!(verify(&storage.1[..]).unwrap().unwrap().sequence, 0);
}
