//! The folder of models of a node.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, statvfs};

use super::digest::sha256;
use super::error::PullError;

/// How often a lock that another pod holds is tried.
const LOCK_POLL: Duration = Duration::from_millis(500);

/// One model's place in the folder.
pub(super) struct Cache {
    folder: PathBuf,
    digest: String,
}

/// Held while this pod downloads; released when dropped, also by a crash.
pub(super) struct Lock {
    _file: File,
}

impl Cache {
    pub(super) fn open(folder: &Path, digest: &str) -> Result<Self, PullError> {
        std::fs::create_dir_all(folder).map_err(|e| failed("create the model cache", folder, &e))?;
        Ok(Self { folder: folder.to_owned(), digest: digest.to_owned() })
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.gguf", self.digest))
    }

    /// Where a download is written.
    pub(super) fn partial(&self) -> PathBuf {
        self.folder.join(format!("{}.partial", self.digest))
    }

    /// Bytes that are there of it.
    pub(super) fn partial_bytes(&self) -> u64 {
        std::fs::metadata(self.partial()).map_or(0, |m| m.len())
    }

    /// The model, if it is there and its digest is right; one that is not right is removed.
    pub(super) async fn hit(&self) -> Result<Option<PathBuf>, PullError> {
        let path = self.path();
        if !path.exists() {
            return Ok(None);
        }
        let found = digest_of(&path).await?;
        if found == self.digest {
            return Ok(Some(path));
        }
        tracing::warn!(path = %path.display(), found, "the cached model is damaged; it is downloaded again");
        std::fs::remove_file(&path).map_err(|e| failed("remove", &path, &e))?;
        Ok(None)
    }

    /// Waits for the right to download. `wait` is called once when there is someone else.
    pub(super) async fn lock(&self, wait: impl Fn()) -> Result<Lock, PullError> {
        let path = self.folder.join(format!("{}.lock", self.digest));
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(|e| failed("open the lock", &path, &e))?;
        let mut said = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(e) => return Err(failed("lock", &path, &e.into())),
            }
            if !std::mem::replace(&mut said, true) {
                wait();
            }
            tokio::time::sleep(LOCK_POLL).await;
        }
    }

    /// Whether `need` more bytes have room.
    pub(super) fn check_room(&self, need: u64) -> Result<(), PullError> {
        let free = self.free_bytes();
        if need <= free { Ok(()) } else { Err(self.no_space(need)) }
    }

    /// For a write that failed: no room, or something else.
    pub(super) fn write_error(&self, error: &std::io::Error, need: u64) -> PullError {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => self.no_space(need),
            _ => failed("write", &self.partial(), error),
        }
    }

    fn no_space(&self, need: u64) -> PullError {
        PullError::NoSpace { folder: self.folder.display().to_string(), need, free: self.free_bytes() }
    }

    fn free_bytes(&self) -> u64 {
        statvfs(&self.folder).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize))
    }

    /// Checks the partial file and gives it its name; a wrong one is removed.
    pub(super) async fn commit(&self, url: &str) -> Result<PathBuf, PullError> {
        let (partial, path) = (self.partial(), self.path());
        let found = digest_of(&partial).await?;
        if found != self.digest {
            std::fs::remove_file(&partial).map_err(|e| failed("remove", &partial, &e))?;
            return Err(PullError::DigestMismatch { url: url.to_owned(), expected: self.digest.clone(), found });
        }
        // The bytes are on the disk before the name says so, and the name before anyone relies on it.
        let sync = |path: &Path| File::open(path).and_then(|f| f.sync_all());
        sync(&partial).map_err(|e| failed("write", &partial, &e))?;
        std::fs::rename(&partial, &path).map_err(|e| failed("rename", &partial, &e))?;
        sync(&self.folder).map_err(|e| failed("write", &self.folder, &e))?;
        Ok(path)
    }
}

async fn digest_of(path: &Path) -> Result<String, PullError> {
    let of = path.to_owned();
    let digest = tokio::task::spawn_blocking(move || sha256(&of)).await.map_err(std::io::Error::other);
    digest.and_then(|d| d).map_err(|e| failed("read", path, &e))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> PullError {
    PullError::Configuration(format!("cannot {what} {}: {error}", path.display()))
}
