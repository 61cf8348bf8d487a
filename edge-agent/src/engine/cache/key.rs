//! Names of full blocks. A block is named by its tokens, by all that stands before them, by who asked, and by a secret
//! of this boot: nobody can make or guess the name of another domain's block, and two contents never share one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};

/// Name of a full block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Key([u8; 32]);

/// Who may find whose blocks: callers of one domain share what they computed, no two domains do. A router makes it of
/// its policy and the caller's key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheDomain(Vec<u8>);

impl CacheDomain {
    /// A domain from its parts; `["ab", "c"]` is another than `["a", "bc"]`.
    pub fn of(parts: &[&[u8]]) -> Self {
        let length = |part: &[u8]| (part.len() as u64).to_le_bytes();
        CacheDomain(parts.iter().flat_map(|part| length(part).into_iter().chain(part.iter().copied())).collect())
    }

    /// A domain of one request, that no other is of.
    pub fn alone() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        CacheDomain::of(&[b"alone", &NEXT.fetch_add(1, Relaxed).to_le_bytes(), b"", b""])
    }
}

/// The secret of this boot.
pub(in crate::engine) struct Salt([u8; 32]);

impl Salt {
    /// A fresh one; none if the system has no random numbers.
    pub(in crate::engine) fn fresh() -> Option<Salt> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).ok()?;
        Some(Salt(secret))
    }

    /// What stands before the first block of a domain.
    pub(in crate::engine) fn root(&self, domain: &CacheDomain) -> Key {
        digest(&[&self.0, &domain.0])
    }
}

impl Key {
    /// The name of a block of these tokens after the block of this name.
    pub(super) fn then(&self, tokens: &[u32]) -> Key {
        let bytes: Vec<u8> = tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
        digest(&[&self.0, &bytes])
    }
}

/// Every part but the last has a fixed length, so no two lists of parts are the same bytes.
fn digest(parts: &[&[u8]]) -> Key {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    Key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_tokens_past_domain_and_boot() {
        let (salt, other) = (Salt::fresh().unwrap(), Salt::fresh().unwrap());
        let (a, b) = (CacheDomain::of(&[b"a", b"bc"]), CacheDomain::of(&[b"ab", b"c"]));
        let root = salt.root(&a);
        let names = [
            root,
            salt.root(&CacheDomain::alone()),
            salt.root(&CacheDomain::alone()),
            salt.root(&b),
            other.root(&a),
            root.then(&[1, 2]),
            root.then(&[2, 1]),
            root.then(&[1]).then(&[2]),
            salt.root(&b).then(&[1, 2]),
        ];
        for (i, name) in names.iter().enumerate() {
            assert!(!names[i + 1..].contains(name), "{i}");
        }
        assert_eq!(root.then(&[1, 2]), salt.root(&a).then(&[1, 2]));
    }
}
