//! The signed token of a session: what is known of it, so that every replica of the policy honours it.
//!
//! Replicas do not talk to each other: a request would wait for two routers instead of one, and a replica that cannot be
//! reached would take its sessions with it. So what must be known everywhere travels with the client. An answer to a
//! request with `x-terrace-session` carries the token in the same header; a client that sends it back instead of its id
//! has one chain, and one class, at all replicas and across their restarts. One that does not is known to each replica
//! for itself.
//!
//! The token holds the client's own id, the class of its conversation and its chains, bound to the caller by an HMAC under
//! a key that all replicas of a policy have and nobody else: it is derived from the private key of their certificate.
//! When that is renewed both are known for as long as the process lives. What is no token of ours is an id.

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::{Deserialize, Serialize};
use terrace_contract::trust::Class;

use super::chain::Known;

/// What a token begins with.
const MARK: &str = "terrace1.";
/// An id that is longer gets no token: headers are bounded.
const LONGEST_ID: usize = 128;
/// Chains that travel, the last ones.
const CHAINS: usize = 4;
/// What the key is derived for.
const PURPOSE: &[u8] = b"terrace session token 1";

/// What a session's client presents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presented {
    /// The client's own name for it.
    #[serde(rename = "i")]
    pub id: String,
    /// The class of its conversation, as a token says.
    #[serde(rename = "c")]
    pub class: Option<Class>,
    /// Its chains, as a token says.
    #[serde(rename = "k")]
    pub chains: Vec<Known>,
}

impl Presented {
    fn plain(id: &str) -> Self {
        Self { id: id.to_owned(), class: None, chains: Vec::new() }
    }

    /// With what is known of one chain now.
    #[must_use]
    pub fn with(mut self, known: Known) -> Self {
        self.chains.retain(|other| other.budget != known.budget);
        self.chains.push(known);
        let old = self.chains.len().saturating_sub(CHAINS);
        self.chains.drain(..old);
        self
    }
}

/// Makes tokens and reads them.
pub struct Tokens(ArcSwap<Vec<(Vec<u8>, hmac::Key)>>);

impl Tokens {
    /// With what the policy's replicas have in common.
    pub fn new(secret: &[u8]) -> Self {
        Self(ArcSwap::from_pointee(vec![derived(secret)]))
    }

    /// The common secret, read again: if it is another one, tokens of the last one are still read.
    pub fn renew(&self, secret: &[u8]) {
        let (known, new) = (self.0.load(), derived(secret));
        if known.first().is_some_and(|(tag, _)| *tag != new.0) {
            self.0.store(std::sync::Arc::new(std::iter::once(new).chain(known.first().cloned()).collect()));
        }
    }

    /// What a header presents.
    pub fn read(&self, caller: &str, header: &str) -> Presented {
        let token = header.strip_prefix(MARK).and_then(|rest| rest.split_once('.'));
        let read = token.and_then(|(said, tag)| {
            let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
            let signed = signed(caller, said);
            self.0.load().iter().find(|(_, key)| hmac::verify(key, &signed, &tag).is_ok())?;
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(said).ok()?).ok()
        });
        read.unwrap_or_else(|| Presented::plain(header))
    }

    /// The token of what is known now; none: the id is too long for one.
    pub fn write(&self, caller: &str, presented: &Presented) -> Option<String> {
        if presented.id.len() > LONGEST_ID {
            return None;
        }
        let said = URL_SAFE_NO_PAD.encode(serde_json::to_vec(presented).ok()?);
        let tag = hmac::sign(&self.0.load().first()?.1, &signed(caller, &said));
        Some(format!("{MARK}{said}.{}", URL_SAFE_NO_PAD.encode(tag)))
    }
}

fn derived(secret: &[u8]) -> (Vec<u8>, hmac::Key) {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), PURPOSE).as_ref().to_vec();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &tag);
    (tag, key)
}

fn signed(caller: &str, said: &str) -> Vec<u8> {
    [&(caller.len() as u64).to_be_bytes()[..], caller.as_bytes(), said.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(budget: &str) -> Known {
        Known { budget: budget.into(), hops: 3, since_us: 1, last_us: 2, transport_us: 4 }
    }

    #[test]
    fn what_one_replica_writes_another_one_reads_and_nobody_else_can_write() {
        let (one, other) = (Tokens::new(b"key"), Tokens::new(b"key"));
        let presented = Presented { class: Some(Class::Restricted), ..Presented::plain("s1") }.with(known("b"));
        let token = one.write("ci", &presented).unwrap();
        assert_eq!(other.read("ci", &token), presented);
        assert_eq!(other.read("web", &token), Presented::plain(&token), "another caller's");
        assert_eq!(Tokens::new(b"another key").read("ci", &token), Presented::plain(&token));
        let forged = token.replacen("terrace1.ey", "terrace1.ez", 1);
        assert_ne!(forged, token);
        for id in [forged.as_str(), "s1", "", "terrace1.", "terrace1.a.b", "terrace1.e30.AA"] {
            assert_eq!(other.read("ci", id), Presented::plain(id), "{id}");
        }
    }

    #[test]
    fn tokens_of_the_last_key_are_still_read() {
        let tokens = Tokens::new(b"first");
        let old = tokens.write("ci", &Presented::plain("s1")).unwrap();
        tokens.renew(b"first");
        tokens.renew(b"second");
        assert_eq!(tokens.read("ci", &old).id, "s1");
        assert_eq!(Tokens::new(b"second").read("ci", &tokens.write("ci", &Presented::plain("s1")).unwrap()).id, "s1");
        tokens.renew(b"third");
        assert_eq!(tokens.read("ci", &old).id, old, "two are enough");
    }

    #[test]
    fn a_token_is_bounded() {
        let tokens = Tokens::new(b"key");
        assert_eq!(tokens.write("ci", &Presented::plain(&"x".repeat(LONGEST_ID + 1))), None);
        let uid = "01234567-89ab-cdef-0123-456789abcdef";
        let full = (0..9).fold(Presented::plain(&"x".repeat(LONGEST_ID)), |presented, n| {
            presented.with(Known { since_us: u64::MAX, last_us: u64::MAX, ..known(&format!("{uid}{n}")) })
        });
        assert_eq!(full.chains.len(), CHAINS);
        assert!(tokens.write("ci", &full).unwrap().len() < 1_500);
    }
}
