//! The names of one model's files in the folder of models.

use std::path::{Path, PathBuf};

use http::HeaderValue;

/// One model's place in the folder.
#[derive(Debug, Clone)]
pub(super) struct Place {
    folder: PathBuf,
    digest: String,
}

impl Place {
    pub(super) fn new(folder: &Path, digest: &str) -> Self {
        Self { folder: folder.to_owned(), digest: digest.to_owned() }
    }

    /// Another model's place in the same folder.
    pub(super) fn of(&self, digest: &str) -> Self {
        Self::new(&self.folder, digest)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    fn named(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.digest))
    }

    /// The whole model.
    pub(super) fn file(&self) -> PathBuf {
        self.named("gguf")
    }

    /// What has come of it so far.
    pub(super) fn partial(&self) -> PathBuf {
        self.named("partial")
    }

    /// Who holds a lock on this file may write the partial one. It is never removed: two pods would hold two locks.
    pub(super) fn lock(&self) -> PathBuf {
        self.named("lock")
    }

    fn validator_path(&self) -> PathBuf {
        self.named("validator")
    }

    /// Bytes that are there of it.
    pub(super) fn partial_bytes(&self) -> u64 {
        std::fs::metadata(self.partial()).map_or(0, |m| m.len())
    }

    /// What the source called the version that the partial file is of; a damaged note only costs a second download.
    pub(super) fn validator(&self) -> Option<HeaderValue> {
        std::fs::read(self.validator_path())
            .ok()
            .filter(|v| !v.is_empty())
            .and_then(|v| HeaderValue::from_bytes(&v).ok())
    }

    /// Notes it for a later process. To be called while the partial file is empty.
    pub(super) fn note_validator(&self, validator: Option<&HeaderValue>) -> std::io::Result<()> {
        match validator {
            Some(value) => std::fs::write(self.validator_path(), value.as_bytes()),
            None => {
                self.forget_validator();
                Ok(())
            }
        }
    }

    pub(super) fn forget_validator(&self) {
        // One that is not there is as good as removed; one that stays makes the next download start over.
        let _ = std::fs::remove_file(self.validator_path());
    }

    /// Removes what has come so far.
    pub(super) fn discard_partial(&self) -> std::io::Result<()> {
        self.forget_validator();
        match std::fs::remove_file(self.partial()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}
