//! Ids of calls.

use sha2::{Digest as _, Sha256};

use super::format::Format;

const CHARACTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Characters of an id, and of one for templates that want it short.
const LONG: usize = 24;
const SHORT: usize = 9;

/// The id of a choice's n-th call.
pub(in crate::server) fn new(format: &Format, answer: &str, choice: u32, n: u32) -> String {
    let seed = format!("{answer}/{choice}/{n}");
    if format.short_ids { characters(&seed, SHORT) } else { format!("call_{}", characters(&seed, LONG)) }
}

/// An id as the template takes it. Those from elsewhere may have another form; equal ones stay equal.
pub(super) fn for_template(format: &Format, id: &str) -> String {
    if format.short_ids && !(id.len() == SHORT && id.bytes().all(|b| b.is_ascii_alphanumeric())) {
        characters(id, SHORT)
    } else {
        id.to_owned()
    }
}

fn characters(seed: &str, count: usize) -> String {
    let digest = Sha256::digest(seed);
    digest.iter().take(count).map(|byte| char::from(CHARACTERS[usize::from(*byte) % CHARACTERS.len()])).collect()
}
