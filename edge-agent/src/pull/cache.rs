//! The folder of models of a node: what is there, who may write, and how a file gets its name.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::digest::sha256_of;
use super::error::{Bound, PullError};
use super::place::Place;
use super::spare::{Disk, Spare};
use super::{Model, Progress};

/// How often a lock that another pod holds is tried.
const LOCK_POLL: Duration = Duration::from_millis(500);

/// Held while this pod downloads; the kernel takes it back when the process ends, however it ends.
pub(super) struct Lock {
    _file: File,
}

/// What the cache has of a model.
pub(super) enum Found {
    Whole(Model),
    Damaged,
    Nothing,
}

pub(super) fn open(folder: &Path, digest: &str) -> Result<Place, PullError> {
    std::fs::create_dir_all(folder).map_err(|e| PullError::file("create the model cache", folder, &e))?;
    Ok(Place::new(folder, digest))
}

/// The model if it is there, its digest checked; from then on nobody evicts it.
pub(super) async fn look(place: &Place) -> Result<Found, PullError> {
    let (path, digest) = (place.file(), place.digest().to_owned());
    let found = blocking(move || {
        let mut file = match File::open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            file => file?,
        };
        use_shared(&file);
        if file.metadata()?.nlink() == 0 {
            // It was evicted between open and lock.
            return Ok(Found::Nothing);
        }
        let found = sha256_of(&mut file)?;
        if found != digest {
            tracing::warn!(path = %path.display(), found, "the cached model is damaged");
            return Ok(Found::Damaged);
        }
        // The order of eviction. A read-only cache has none.
        let _ = file.set_modified(SystemTime::now());
        Ok(Found::Whole(Model { path, sha256: digest, _in_use: file }))
    });
    found.await.map_err(|e| PullError::file("read", &place.file(), &e))
}

/// Tells whoever makes room that a model is in use. Best effort: a file system without locks has no eviction either.
pub(super) fn use_shared(file: &File) {
    if let Err(error) = flock(file, FlockOperation::LockShared) {
        tracing::debug!(%error, "the model's file cannot be locked");
    }
}

/// Removes a damaged model. To be called with the lock held.
pub(super) fn remove(place: &Place) -> Result<(), PullError> {
    let path = place.file();
    std::fs::remove_file(&path).map_err(|e| PullError::file("remove", &path, &e))
}

/// Waits for the right to download. `wait` is called once when there is someone else.
pub(super) async fn lock(place: &Place, wait: impl Fn()) -> Result<Lock, PullError> {
    let path = place.lock();
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(|e| PullError::file("open the lock", &path, &e))?;
    let mut said = false;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(e) => return Err(PullError::file("lock", &path, &e.into())),
        }
        if !std::mem::replace(&mut said, true) {
            wait();
        }
        tokio::time::sleep(LOCK_POLL).await;
    }
}

/// For a write that failed, of a file of so many bytes if that is known: no room, or something else.
pub(super) fn write_error(place: &Place, error: &std::io::Error, whole: Option<u64>, spare: Spare) -> PullError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            let Disk { free, spare } = Disk::of(place.folder(), spare);
            let came = place.partial_bytes();
            let need = whole.map(|whole| whole.saturating_sub(came));
            PullError::no_space(place.folder(), Bound::Disk { free, spare }, need, came, 0)
        }
        _ => PullError::file("write", &place.partial(), error),
    }
}

/// Checks the partial file and gives it its name; a wrong one is removed.
pub(super) async fn commit(place: &Place, source: &str, observe: &impl Fn(Progress)) -> Result<Model, PullError> {
    let (partial, path) = (place.partial(), place.file());
    observe(Progress::Checking);
    let mut file = File::open(&partial).map_err(|e| PullError::file("read", &partial, &e))?;
    // Locked before it has its name, so that nobody evicts it in between.
    use_shared(&file);
    let hashed = blocking(move || Ok((sha256_of(&mut file)?, file))).await;
    let (found, file) = hashed.map_err(|e| PullError::file("read", &partial, &e))?;
    if found != place.digest() {
        place.discard_partial().map_err(|e| PullError::file("remove", &partial, &e))?;
        let (place, expected) = (source.to_owned(), place.digest().to_owned());
        return Err(PullError::DigestMismatch { place, expected, found });
    }
    // The bytes are on the disk before the name says so, and the name before anyone relies on it.
    observe(Progress::Storing);
    let file = blocking(move || file.sync_all().map(|()| file))
        .await
        .map_err(|e| write_error(place, &e, Some(place.partial_bytes()), Spare::Bytes(0)))?;
    observe(Progress::Naming);
    std::fs::rename(&partial, &path).map_err(|e| PullError::file("rename", &partial, &e))?;
    place.forget_validator();
    observe(Progress::Named);
    let folder = place.folder().to_owned();
    let synced = blocking(move || File::open(folder)?.sync_all()).await;
    synced.map_err(|e| PullError::file("write", place.folder(), &e))?;
    Ok(Model { path, sha256: found, _in_use: file })
}

/// What may take long on a slow disk, away from the threads that answer probes.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(std::io::Error::other(e)))
}
