//! Who speaks: the fleet's certificate authority, SPIFFE identities, mutual TLS with reload, signed snapshots.
//!
//! Between Terrace's programs the channel is the proof: nothing in a header says who calls, the certificate does. A
//! certificate carries one URI SAN, which is compared with the one meant as a whole string, never by pattern.

pub mod authority;
pub mod client;
pub mod net;
pub mod server;
pub mod signing;
pub mod spiffe;
pub mod store;

mod certificate;

pub use authority::{Authority, Leaf, Usage};
pub use client::{Caller, DialError, DialTimings, dial};
pub use net::{Listen, Network};
pub use server::{Peer, PeerAddr, serve, serve_plain, serve_tls};
pub use signing::SnapshotKey;
pub use spiffe::Identity;
pub use store::{Identities, IdentityError, IdentityStore};

/// Makes ring the one TLS provider of this process. First thing in `main`; a second call changes nothing.
pub fn install_crypto_provider() {
    // Fails only when a provider is already installed, and every program of Terrace installs this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}
