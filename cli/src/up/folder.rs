//! The files of one run: identities, credentials, keys, the snapshot. Gone when the run ends.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use terrace_identity::authority::{Authority, Usage};
use terrace_identity::spiffe::Identity;

/// A folder of its own under the system's temporary one, removed when it goes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    /// Makes a new one that only this user can read. With `keep`, what is written there stays for a look.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(keep: bool) -> Result<Folder> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("terrace-up-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder { path, keep })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn inner(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// Issues `identity` into a folder of its own, as the operator's Secret would hold it.
    ///
    /// # Errors
    /// The name cannot be a part of an identity, or the folder cannot be written.
    pub fn identity(
        &self,
        name: &str,
        authority: &Authority,
        identity: &Identity,
        snapshot_key: &str,
    ) -> Result<PathBuf> {
        let folder = self.inner(&format!("identity-{name}"))?;
        let leaf = authority.issue(identity, Usage::Both, &[], &[], SystemTime::now())?;
        let files = [
            ("tls.crt", leaf.cert_pem.as_str()),
            ("tls.key", &leaf.key_pem),
            ("ca.crt", authority.cert_pem()),
            ("snapshot.pub", snapshot_key),
        ];
        for (file, text) in files {
            write(&folder.join(file), text.as_bytes())?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Writes a file so that a reader sees all of it or what was there before.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, bytes)
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
