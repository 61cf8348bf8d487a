//! The port file: where a program that chose its ports by itself can be found.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;

/// Writes `addresses` (`{"listen": "ip:port", "admin": "ip:port"}`) so that a reader sees all of it or nothing.
///
/// # Errors
/// What the file system says.
pub fn write(path: &Path, addresses: &impl Serialize) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let mut file = std::fs::File::create(&partial)?;
    file.write_all(&serde_json::to_vec(addresses)?)?;
    file.sync_all()?;
    std::fs::rename(&partial, path)
}
