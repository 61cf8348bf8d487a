//! Manifests that must be refused, and how: one corpus for the Rust rules and for a real API server.
//!
//! A file holds any number of documents. All but the last are applied first and must be taken; the last one is refused.
//! (Two documents of one object are a change of it.) The comment lines on top say how:
//!
//! ```yaml
//! # where: apiserver            # or accepted-false, resolved-refs
//! # says: needs backend.fleet   # part of the message that names the way out
//! # reason: LadderShrinks       # with accepted-false and resolved-refs: the condition's reason
//! ```

use std::path::{Path, PathBuf};

/// Who refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// The API server, at apply.
    ApiServer,
    /// The operator: `Accepted=False`.
    AcceptedFalse,
    /// The operator: `ResolvedRefs=False`, which heals by itself.
    ResolvedRefs,
}

/// One file of the corpus.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name without `.yaml`.
    pub name: String,
    /// Who refuses the last document.
    pub refused_by: Where,
    /// Part of the message.
    pub says: String,
    /// The condition's reason; empty with [`Where::ApiServer`].
    pub reason: String,
    /// The text of each document, in order.
    pub documents: Vec<String>,
}

/// A file that is not one of a corpus.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct NotACase {
    path: PathBuf,
    what: String,
}

/// The cases of a folder, by name.
///
/// # Errors
/// The folder or a file cannot be read, or a file does not say how it is refused.
pub fn read(folder: &Path) -> Result<Vec<Case>, NotACase> {
    let fail = |path: &Path, what: String| NotACase { path: path.to_owned(), what };
    let entries = std::fs::read_dir(folder).map_err(|e| fail(folder, e.to_string()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            std::fs::read_to_string(path)
                .map_err(|e| e.to_string())
                .and_then(|text| case(path, &text))
                .map_err(|what| fail(path, what))
        })
        .collect()
}

fn case(path: &Path, text: &str) -> Result<Case, String> {
    let header = |name: &str| {
        text.lines()
            .map_while(|line| line.strip_prefix('#'))
            .find_map(|line| Some(line.trim().strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
    };
    let required = |name: &str| header(name).ok_or_else(|| format!("no line `# {name}: …` on top"));
    let refused_by = match required("where")?.as_str() {
        "apiserver" => Where::ApiServer,
        "accepted-false" => Where::AcceptedFalse,
        "resolved-refs" => Where::ResolvedRefs,
        other => return Err(format!("where: {other} is not apiserver, accepted-false or resolved-refs")),
    };
    let reason = if refused_by == Where::ApiServer { String::new() } else { required("reason")? };
    let documents: Vec<String> = text.split("\n---\n").map(str::to_owned).collect();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Case { name, refused_by, says: required("says")?, reason, documents })
}
