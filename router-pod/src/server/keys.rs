//! API keys: one file a caller, its name the caller's, its value the key or `sha256:<hex>` of it.
//!
//! Keys are kept as digests only. A presented key is compared with every known one in constant time, so that neither
//! a shared prefix nor the number of keys before the right one shows in the time of the answer.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

/// The callers known now.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Keys(Vec<(String, [u8; 32])>);

/// A key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The folder or a file in it cannot be read.
    #[error("cannot read API keys at {path}: {source}; check that the Secret named in access.apiKeys exists")]
    Read {
        /// What could not be read.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A value after `sha256:` is not 64 hex digits.
    #[error("API key `{name}` says sha256: but is not followed by 64 hex digits")]
    Digest {
        /// The caller's name.
        name: String,
    },
}

impl Keys {
    /// Reads a folder as Kubernetes mounts a Secret: files whose name starts with a dot are its own bookkeeping. An entry
    /// that cannot be used is left out, and nobody gets in by it; the others count all the same, so that a mistake in one
    /// neither locks everybody out nor keeps a key that was taken away.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read(dir: &Path) -> Result<(Keys, Vec<KeysError>), KeysError> {
        let failed = |path: &Path, source| KeysError::Read { path: path.display().to_string(), source };
        let (mut keys, mut left_out) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(dir).map_err(|e| failed(dir, e))? {
            let path = entry.map_err(|e| failed(dir, e))?.path();
            let Some(name) = path.file_name().and_then(|n| n.to_str()).filter(|n| !n.starts_with('.')) else {
                continue;
            };
            if !path.is_file() {
                continue;
            }
            let value = std::fs::read_to_string(&path).map_err(|e| failed(&path, e));
            let digest =
                value.and_then(|v| digest_of(v.trim()).map_err(|()| KeysError::Digest { name: name.to_owned() }));
            match digest {
                Ok(digest) => keys.extend(digest.map(|digest| (name.to_owned(), digest))),
                Err(error) => left_out.push(error),
            }
        }
        keys.sort();
        Ok((Keys(keys), left_out))
    }

    /// The caller whose key this is.
    pub fn caller(&self, presented: &str) -> Option<&str> {
        let presented: [u8; 32] = Sha256::digest(presented.as_bytes()).into();
        let mut found = None;
        for (name, digest) in &self.0 {
            if same(digest, &presented) {
                found = Some(name.as_str());
            }
        }
        found
    }

    /// How many callers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no caller.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn digest_of(value: &str) -> Result<Option<[u8; 32]>, ()> {
    let Some(hex) = value.strip_prefix("sha256:") else {
        return Ok((!value.is_empty()).then(|| Sha256::digest(value.as_bytes()).into()));
    };
    let mut digest = [0u8; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return Err(());
    }
    for (i, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| ())?;
    }
    Ok(Some(digest))
}

fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0u8, |diff, (x, y)| diff | (x ^ y))) == 0
}

/// Re-reads the folder once a second. A folder that cannot be read keeps the last good keys; what is wrong is said once.
pub async fn follow(dir: std::path::PathBuf, keys: Arc<ArcSwap<Keys>>, shutdown: CancellationToken) {
    let mut said = String::new();
    let mut tick = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = tick.tick() => {}
        }
        let (wrong, what) = match Keys::read(&dir) {
            Ok((read, left_out)) => {
                if **keys.load() != read {
                    tracing::info!(callers = read.len(), "API keys changed");
                    keys.store(Arc::new(read));
                }
                let left_out: Vec<String> = left_out.iter().map(ToString::to_string).collect();
                (left_out.join("; "), "an API key is left out: nobody gets in by it")
            }
            Err(error) => (error.to_string(), "API keys kept as they were"),
        };
        if said != wrong {
            if !wrong.is_empty() {
                tracing::warn!(error = %wrong, "{what}");
            }
            said = wrong;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_plain_or_digests_and_dot_files_are_not_keys() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ci"), "sk-one\n").unwrap();
        let digest = terrace_contract::canonical::hex(&Sha256::digest(b"sk-two"));
        std::fs::write(dir.path().join("web"), format!("sha256:{digest}")).unwrap();
        std::fs::write(dir.path().join(".hidden"), "sk-three").unwrap();
        std::fs::write(dir.path().join("empty"), "").unwrap();
        let (keys, left_out) = Keys::read(dir.path()).unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        assert_eq!(keys.len(), 2);
        assert_eq!(keys.caller("sk-one"), Some("ci"));
        assert_eq!(keys.caller("sk-two"), Some("web"));
        for wrong in ["sk-three", "", "sk-on", &digest] {
            assert_eq!(keys.caller(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bad_digest_is_named_and_left_out_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ci"), "sha256:zz").unwrap();
        std::fs::write(dir.path().join("web"), "sk-web").unwrap();
        let (keys, left_out) = Keys::read(dir.path()).unwrap();
        assert!(left_out.len() == 1 && left_out[0].to_string().contains("`ci`"), "{left_out:?}");
        assert_eq!((keys.caller("sk-web"), keys.caller("sha256:zz")), (Some("web"), None));
        assert!(Keys::read(&dir.path().join("none")).unwrap_err().to_string().contains("access.apiKeys"));
    }
}
