//! Real models of tests, from the user's cache.

use std::path::PathBuf;

/// The model with this digest, as `make model` leaves it. None only where a person has said that there is none.
pub fn model(sha256: &str) -> Option<PathBuf> {
    if std::env::var_os("TERRACE_NO_MODEL").is_some_and(|v| v == "1") {
        eprintln!("skipped: TERRACE_NO_MODEL=1");
        return None;
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache"))).expect("a home directory");
    let path = cache.join("terrace/models").join(format!("{sha256}.gguf"));
    assert!(path.is_file(), "{} is not there: run `make model` (or set TERRACE_NO_MODEL=1 to skip)", path.display());
    Some(path)
}
