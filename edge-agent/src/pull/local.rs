//! A model that is there already: in an image, a claim or a folder of the node that is mounted, or just a file.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::Path;

use super::cache::{blocking, use_shared};
use super::digest::sha256_of;
use super::{Model, PullError};

/// Names of a folder that a message lists at most.
const LISTED: usize = 5;

/// The file, its digest computed and, where one is `expected`, compared.
///
/// # Errors
/// [`PullError::NoFile`] says what is there instead; [`PullError::DigestMismatch`].
pub async fn local(path: &Path, expected: Option<&str>) -> Result<Model, PullError> {
    let no_file = |why: String| PullError::NoFile { path: path.display().to_string(), why };
    let at = path.to_owned();
    let read = blocking(move || {
        // A pipe would wait for a writer that never comes.
        let kind = std::fs::metadata(&at)?.file_type();
        if !kind.is_file() {
            return Err(Error::from(if kind.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::InvalidInput }));
        }
        let mut file = File::open(&at)?;
        use_shared(&file);
        Ok((sha256_of(&mut file)?, file))
    });
    let (found, file) = read.await.map_err(|e| no_file(explain(path, &e)))?;
    match expected {
        Some(expected) if expected != found => {
            let (place, expected) = (path.display().to_string(), expected.to_owned());
            Err(PullError::DigestMismatch { place, expected, found })
        }
        _ => Ok(Model { path: path.to_owned(), sha256: found, _in_use: file }),
    }
}

fn explain(path: &Path, error: &Error) -> String {
    match error.kind() {
        ErrorKind::IsADirectory => format!("it is a folder: give the file inside it{}", models_in(path)),
        ErrorKind::InvalidInput => "it is not a regular file: give a GGUF file".into(),
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            let beside = path.parent().map(models_in).unwrap_or_default();
            format!("there is no such file: check the path in the image, claim or folder{beside}")
        }
        ErrorKind::PermissionDenied => format!("{error}: let user {} read it", rustix::process::getuid().as_raw()),
        _ => error.to_string(),
    }
}

/// The models of a folder, for whoever mistyped one.
fn models_in(folder: &Path) -> String {
    let Ok(files) = std::fs::read_dir(folder) else { return String::new() };
    let names = files.flatten().map(|f| f.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|n| n.ends_with(".gguf")).collect();
    names.sort();
    match names.len() {
        0 => format!(" ({} holds no .gguf file)", folder.display()),
        n if n > LISTED => {
            format!(" ({} holds {}, and {} more)", folder.display(), names[..LISTED].join(", "), n - LISTED)
        }
        _ => format!(" ({} holds {})", folder.display(), names.join(", ")),
    }
}
