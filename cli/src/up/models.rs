//! Where an agent's model comes from: the user's cache by digest first, then the manifest's own source.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use terrace_crds::tier::{Fleet, Model};

/// The file of a digest in the user's cache, as `make model` leaves it: `terrace/models/<sha256>.gguf`.
pub fn cached(models: &Path, sha256: &str) -> Option<PathBuf> {
    Some(models.join(format!("{sha256}.gguf"))).filter(|p| p.is_file())
}

/// What to do if the source of a model that is not in the cache cannot be reached; none: the source is not asked.
pub fn next_step(fleet: &Fleet, models: &Path) -> Option<String> {
    let digest = fleet.model.sha256.as_ref()?;
    if fleet.model.source.http.is_none() || cached(models, digest.as_str()).is_some() {
        return None;
    }
    let usual = super::state::cache_folder().join("models");
    Some(format!(
        "put {digest}.gguf in {} (`make model` brings the examples' models to {}), or name the folder that has it with --models",
        models.display(),
        usual.display()
    ))
}

/// The agent's flags for its model.
///
/// # Errors
/// The source is one that only a cluster has; the message says what to use here.
pub fn flags(tier: &str, fleet: &Fleet, models: &Path) -> Result<Vec<String>> {
    let Model { name, source, sha256 } = &fleet.model;
    let mut flags = vec!["--model-name".to_owned(), name.to_string()];
    let mut add = |flag: &str, value: String| flags.extend([flag.to_owned(), value]);
    if let Some(digest) = sha256 {
        add("--model-sha256", digest.to_string());
    }
    if let Some(file) = sha256.as_ref().and_then(|digest| cached(models, digest.as_str())) {
        add("--model", file.display().to_string());
    } else if let Some(http) = &source.http {
        add("--model-url", http.url.to_string());
        add("--cache-dir", models.display().to_string());
        flags.extend(terrace_crds::agent::pull_flags(http));
        flags.extend(fleet.cache.iter().flat_map(terrace_crds::agent::reserve_flags));
    } else if let Some(host) = &source.host_path {
        add("--model", host.path.to_string());
    } else {
        bail!(
            "tier {tier}: a model from an image or a claim is only there in a cluster; here put the file at {} and give its sha256",
            models.join("<sha256>.gguf").display()
        );
    }
    Ok(flags)
}
