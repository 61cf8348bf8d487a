//! Credentials of endpoints: files of mounted Secrets, read when they are used.
//!
//! A rotated key is used with the next request, and one that is gone rules the tier out instead of being sent
//! stale. Values never leave this module but as a header marked sensitive.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// The folder of credentials: `<tier uid>/<key>`.
#[derive(Debug)]
pub struct Credentials {
    dir: PathBuf,
    read: Mutex<HashMap<PathBuf, (Stamp, Vec<u8>)>>,
}

type Stamp = (u64, i64, i64, u64);

/// A credential that cannot be used. It says where, never what.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The file is not there or cannot be read.
    #[error("no credential at {path}: {source}; check the Secret and its annotation terrace.dev/allowed-hosts")]
    Missing {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is empty or holds bytes that no header may carry.
    #[error("the credential at {path} is empty or has characters that a header cannot carry")]
    Unusable {
        /// The file.
        path: String,
    },
}

impl Credentials {
    /// Credentials below `dir`.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), read: Mutex::default() }
    }

    /// Whether a tier's credential can be read now.
    pub fn is_there(&self, tier_uid: &str, key: &str) -> bool {
        self.bearer(tier_uid, key).is_ok()
    }

    /// The `authorization` header of a tier.
    ///
    /// # Errors
    /// [`CredentialError`] when the file is missing or unusable.
    pub fn bearer(&self, tier_uid: &str, key: &str) -> Result<HeaderValue, CredentialError> {
        let unusable = || CredentialError::Unusable { path: self.path(tier_uid, key).display().to_string() };
        let bytes = self.bytes(tier_uid, key)?;
        let token = bytes.trim_ascii();
        if token.is_empty() {
            return Err(unusable());
        }
        let mut value = HeaderValue::from_bytes(&[b"Bearer ".as_slice(), token].concat()).map_err(|_| unusable())?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The raw file, for a certificate authority beside the credential.
    ///
    /// # Errors
    /// [`CredentialError::Missing`] when it cannot be read.
    pub fn bytes(&self, tier_uid: &str, key: &str) -> Result<Vec<u8>, CredentialError> {
        let path = self.path(tier_uid, key);
        let missing = |source| CredentialError::Missing { path: path.display().to_string(), source };
        if [tier_uid, key].iter().any(|part| part.is_empty() || part.contains('/') || part.starts_with('.')) {
            return Err(missing(std::io::ErrorKind::InvalidInput.into()));
        }
        let stamp = stamp(&std::fs::metadata(&path).map_err(missing)?);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, bytes)) = read.get(&path)
            && *known == stamp
        {
            return Ok(bytes.clone());
        }
        let bytes = std::fs::read(&path).map_err(missing)?;
        read.insert(path.clone(), (stamp, bytes.clone()));
        Ok(bytes)
    }

    fn path(&self, tier_uid: &str, key: &str) -> PathBuf {
        self.dir.join(tier_uid).join(key)
    }
}

fn stamp(file: &Metadata) -> Stamp {
    (file.ino(), file.mtime(), file.mtime_nsec(), file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotated_key_is_used_and_a_removed_one_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = Credentials::new(dir.path());
        assert!(!credentials.is_there("uid", "apiKey"));
        std::fs::create_dir(dir.path().join("uid")).unwrap();
        let file = dir.path().join("uid/apiKey");
        std::fs::write(&file, "one\n").unwrap();
        assert_eq!(credentials.bearer("uid", "apiKey").unwrap(), "Bearer one");
        std::fs::write(&file, "second").unwrap();
        let header = credentials.bearer("uid", "apiKey").unwrap();
        assert_eq!(header, "Bearer second");
        assert!(header.is_sensitive() && !format!("{header:?}").contains("second"));
        std::fs::remove_file(&file).unwrap();
        assert!(!credentials.is_there("uid", "apiKey"));
    }

    #[test]
    fn a_name_cannot_leave_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("outside"), "x").unwrap();
        let credentials = Credentials::new(&dir.path().join("in"));
        for (tier, key) in [("..", "outside"), ("", "outside"), ("a/..", "x"), ("uid", "../outside")] {
            assert!(!credentials.is_there(tier, key), "{tier} {key}");
        }
    }
}
