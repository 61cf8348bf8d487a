//! SHA-256 of a file.

use std::io::Read;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use terrace_contract::canonical::hex;

/// SHA-256 of a file in lower-case hex. Blocks: about half a second a gigabyte where the processor has instructions for it.
///
/// # Errors
/// What the file system says.
pub fn sha256(path: &Path) -> std::io::Result<String> {
    sha256_of(&mut std::fs::File::open(path)?)
}

/// SHA-256 of what is left to read.
pub(super) fn sha256_of(from: &mut impl Read) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Whether this is a SHA-256 in lower-case hex.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
