//! Files of the router's own volume (`--state-dir`).

use std::io::Write as _;
use std::path::Path;

/// Writes a file so that a reader, or a restart in the middle, sees all of it or the old one.
///
/// # Errors
/// It cannot be written; the old one stays.
pub fn keep(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = std::fs::File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(partial, path)
}
