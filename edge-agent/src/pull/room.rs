//! Room for one more model: under the cache's limit and on its disk, at the cost of models that nobody uses.
//!
//! Whoever uses a model holds a shared lock on its file, whoever downloads one the lock beside it; both end with the
//! process, however it ends. So what can be locked here is used by nobody and may go, least recently used first.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use super::digest::is_digest;
use super::error::{Bound, PullError};
use super::place::Place;
use super::spare::{Disk, Spare};

/// A file of the cache that counts against its limit.
struct Entry {
    path: PathBuf,
    digest: String,
    whole: bool,
    bytes: u64,
    used: SystemTime,
}

/// What bounds the models of a folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of all of them.
    pub(super) limit: Option<u64>,
    /// What stays free on the disk.
    pub(super) spare: Spare,
}

/// Makes room so that the partial file of `place` can grow to `size` bytes, and reserves it on the disk. `whole` is the
/// length of the file, where the source says it.
///
/// # Errors
/// [`PullError::NoSpace`]; then nothing was removed.
pub(super) fn reserve(place: &Place, bounds: Bounds, size: u64, whole: Option<u64>) -> Result<(), PullError> {
    let folder = place.folder();
    // Two pods that make room at once would each count on the bytes that the other is about to take.
    let lock = folder.join("room.lock");
    let guard = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
    let guard = guard.map_err(|e| PullError::file("open the lock", &lock, &e))?;
    flock(&guard, FlockOperation::LockExclusive).map_err(|e| PullError::file("lock", &lock, &e.into()))?;

    let partial = place.partial();
    let mut entries = entries(folder);
    entries.retain(|e| e.path != partial);
    entries.sort_by_key(|e| e.used);
    let others: u64 = entries.iter().map(|e| e.bytes).sum();
    // What this download already took of the disk need not be free again.
    let partial_meta = std::fs::metadata(&partial).ok();
    let taken = partial_meta.as_ref().map_or(0, |m| m.blocks() * 512).min(size);
    let came = partial_meta.map_or(0, |m| m.len());
    let need = size - taken;
    let disk = || Disk::of(folder, bounds.spare);
    let over = bounds.limit.map_or(0, |limit| others.saturating_add(size).saturating_sub(limit));
    let short = need.saturating_sub(disk().room());

    let (mut gone, mut going) = (0, Vec::new());
    for entry in entries {
        if gone >= over.max(short) {
            break;
        }
        if let Some(unused) = lock_unused(place, &entry) {
            gone += entry.bytes;
            going.push((entry, unused));
        }
    }
    if gone < over {
        let limit = bounds.limit.unwrap_or(u64::MAX);
        let room = limit.saturating_sub(others - gone);
        return Err(PullError::no_space(folder, Bound::Limit(limit), whole, came, room));
    }
    let full = |disk: Disk, gone: u64| {
        let bound = Bound::Disk { free: disk.free.saturating_add(gone), spare: disk.spare };
        let room = disk.free.saturating_add(gone).saturating_sub(disk.spare);
        PullError::no_space(folder, bound, whole.map(|whole| whole.saturating_sub(taken)), came, room)
    };
    if gone < short {
        return Err(full(disk(), gone));
    }
    for (entry, _unused) in going {
        tracing::info!(path = %entry.path.display(), bytes = entry.bytes, "the cache makes room: this was used least recently");
        remove(place, &entry)?;
    }
    take(&partial, size, || full(disk(), 0))
}

/// Takes the blocks now, so that a second download does not count on them; the file's length stays what it is.
fn take(partial: &Path, size: u64, full: impl Fn() -> PullError) -> Result<(), PullError> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(partial);
    let file = open.map_err(|e| PullError::file("write", partial, &e))?;
    match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size.max(1)) {
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG) => Err(full()),
        // Not every file system can; then the disk being full is noticed when it is.
        _ => Ok(()),
    }
}

fn entries(folder: &Path) -> Vec<Entry> {
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    files.flatten().filter_map(|file| entry(&file.path())).collect()
}

fn entry(path: &Path) -> Option<Entry> {
    let (digest, kind) = path.file_name()?.to_str()?.split_once('.')?;
    let whole = match kind {
        "gguf" => true,
        "partial" => false,
        _ => return None,
    };
    let meta = std::fs::symlink_metadata(path).ok().filter(|m| m.is_file() && is_digest(digest))?;
    // A partial file has its whole size reserved.
    let bytes = if whole { meta.len() } else { meta.len().max(meta.blocks() * 512) };
    Some(Entry { path: path.to_owned(), digest: digest.to_owned(), whole, bytes, used: meta.modified().ok()? })
}

/// The lock on a file that nobody uses; none: someone does, or it cannot be told.
fn lock_unused(place: &Place, entry: &Entry) -> Option<File> {
    let file = if entry.whole {
        File::open(&entry.path).ok()?
    } else {
        let lock = place.of(&entry.digest).lock();
        OpenOptions::new().create(true).truncate(false).write(true).open(lock).ok()?
    };
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}

fn remove(place: &Place, entry: &Entry) -> Result<(), PullError> {
    if !entry.whole {
        place.of(&entry.digest).forget_validator();
    }
    std::fs::remove_file(&entry.path).map_err(|e| PullError::file("remove", &entry.path, &e))
}
