//! Signed snapshots: a router takes orders only from the operator whose public key lies beside its certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use terrace_contract::snapshot::Snapshot;

/// Why a snapshot is not trusted, or no key could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The system gave no randomness.
    #[error("no Ed25519 key could be made: the system gave no random bytes")]
    Generate,
    /// The stored key is damaged.
    #[error("the snapshot key is not an Ed25519 key in PKCS#8: restore it, or delete it for a new one")]
    StoredKey,
    /// `snapshot.pub` is damaged.
    #[error("the snapshot public key is not 32 bytes in base64")]
    PublicKey,
    /// No signature.
    #[error("the snapshot is not signed")]
    Unsigned,
    /// A signature of another key, or of another document.
    #[error("the snapshot's signature is not the operator's")]
    Forged,
}

/// The operator's key for snapshots.
pub struct SnapshotKey {
    pkcs8: Vec<u8>,
    pair: Ed25519KeyPair,
}

impl SnapshotKey {
    /// A new one.
    ///
    /// # Errors
    /// [`SigningError::Generate`].
    pub fn generate() -> Result<Self, SigningError> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| SigningError::Generate)?;
        Self::from_pkcs8(pkcs8.as_ref())
    }

    /// A stored one: [`SnapshotKey::pkcs8`].
    ///
    /// # Errors
    /// [`SigningError::StoredKey`].
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, SigningError> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|_| SigningError::StoredKey)?;
        Ok(Self { pkcs8: pkcs8.to_vec(), pair })
    }

    /// The key itself, PKCS#8. Stays beside the authority's.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// What `snapshot.pub` holds: the raw public key in base64.
    pub fn public_base64(&self) -> String {
        STANDARD.encode(self.pair.public_key())
    }

    /// Signs the document as it is now.
    pub fn sign(&self, snapshot: &mut Snapshot) {
        snapshot.signature = STANDARD.encode(self.pair.sign(&snapshot.signed_bytes()));
    }
}

/// Whether the operator whose public key this is signed exactly this document.
///
/// # Errors
/// [`SigningError::Unsigned`], [`SigningError::Forged`] or [`SigningError::PublicKey`].
pub fn verify(snapshot: &Snapshot, public_base64: &str) -> Result<(), SigningError> {
    if snapshot.signature.is_empty() {
        return Err(SigningError::Unsigned);
    }
    let public = STANDARD.decode(public_base64.trim()).ok().filter(|k| k.len() == 32).ok_or(SigningError::PublicKey)?;
    let signature = STANDARD.decode(&snapshot.signature).map_err(|_| SigningError::Forged)?;
    UnparsedPublicKey::new(&ED25519, public)
        .verify(&snapshot.signed_bytes(), &signature)
        .map_err(|_| SigningError::Forged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        serde_json::from_str(include_str!("../tests/snapshot.json")).unwrap()
    }

    #[test]
    fn only_the_signed_document_by_the_known_key_is_trusted() {
        let key = SnapshotKey::generate().unwrap();
        let stored = SnapshotKey::from_pkcs8(key.pkcs8()).unwrap();
        let public = stored.public_base64();
        let mut snapshot = snapshot();
        assert_eq!(verify(&snapshot, &public), Err(SigningError::Unsigned));
        key.sign(&mut snapshot);
        assert_eq!(verify(&snapshot, &format!("{public}\n")), Ok(()));

        let mut changed = snapshot.clone();
        changed.policy.sensitivity.boundaries.internal = terrace_contract::trust::Boundary::Public;
        assert_eq!(verify(&changed, &public), Err(SigningError::Forged));
        let other = SnapshotKey::generate().unwrap();
        assert_eq!(verify(&snapshot, &other.public_base64()), Err(SigningError::Forged));
        assert_eq!(verify(&snapshot, "c2hvcnQ="), Err(SigningError::PublicKey));
        assert_eq!(SnapshotKey::from_pkcs8(b"x").err(), Some(SigningError::StoredKey));
    }
}
