//! What a prompt begins with, as names of blocks: requests that begin alike are sent to a device that has computed it.
//!
//! Names are keyed hashes, made with a secret of this process, the policy and the caller's domain
//! ([`super::sharing`]): they say nothing of the text, and never match across those who may not share.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::RandomState;
use serde_json::Value;
use terrace_decide::affinity::Prefix;
use terrace_wire::json::member;

/// Bytes of one block.
const BLOCK_BYTES: usize = 1024;
/// Tokens of one block: four bytes each, as [`super::tokens`] counts ASCII; fewer than other scripts have.
const BLOCK_TOKENS: u32 = BLOCK_BYTES as u32 / 4;
/// Most blocks of a prompt that are named: what comes later is different in nearly all.
const MOST: usize = 128;

/// The prefix of a request's prompt in the order in which templates write it: tools, then messages. With nobody to share
/// with, or a prompt shorter than a block, there is none.
pub fn of_request(secret: &RandomState, policy_uid: &str, domain: Option<&str>, request: &Value) -> Prefix {
    let Some(domain) = domain else { return Prefix::default() };
    let mut first = secret.build_hasher();
    (policy_uid, domain).hash(&mut first);
    let mut blocks = Blocks { hasher: first, room: BLOCK_BYTES, names: Vec::new() };
    for part in ["tools", "functions", "messages", "prompt"] {
        if let Some(value) = member(request, part) {
            blocks.walk(value);
        }
    }
    Prefix { blocks: blocks.names, block_tokens: BLOCK_TOKENS }
}

/// Text cut into blocks as it comes. One hasher goes through all of it, so that a name stands for all that came before.
struct Blocks<H> {
    hasher: H,
    room: usize,
    names: Vec<u64>,
}

impl<H: Hasher> Blocks<H> {
    fn text(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        while rest.len() >= self.room && self.names.len() < MOST {
            let (block, after) = rest.split_at(self.room);
            self.hasher.write(block);
            self.names.push(self.hasher.finish());
            (self.room, rest) = (BLOCK_BYTES, after);
        }
        if self.names.len() < MOST {
            self.hasher.write(rest);
            self.room -= rest.len();
        }
        // A border, so that two texts are not one.
        self.hasher.write_u8(0xff);
    }

    fn walk(&mut self, value: &Value) {
        if self.names.len() >= MOST {
            return;
        }
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().for_each(|item| self.walk(item)),
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                self.text(key);
                self.walk(value);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.text(&value.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turns(texts: &[&str]) -> Value {
        json!({"messages": texts.iter().map(|t| json!({"role": "user", "content": t})).collect::<Vec<_>>()})
    }

    #[test]
    fn prompts_that_begin_alike_share_names_as_far_as_they_do() {
        let secret = RandomState::default();
        let of = |request: &Value| of_request(&secret, "p", Some("d"), request).blocks;
        let system = "s".repeat(5_000);
        let (a, b) = (of(&turns(&[&system, "one"])), of(&turns(&[&system, &"two".repeat(1_000)])));
        assert_eq!(a.len(), 4);
        assert_eq!(a, b[..4]);
        assert!(b.len() > 4);
        let other = of(&turns(&[&format!("x{}", &system[1..])]));
        assert!(a.iter().all(|name| !other.contains(name)), "a different beginning, nothing in common");
        assert!(of(&turns(&["short"])).is_empty());
        assert_eq!(of(&turns(&[&"l".repeat(1 << 20)])).len(), MOST);
    }

    #[test]
    fn names_do_not_match_across_domains_policies_or_processes() {
        let (secret, request) = (RandomState::default(), turns(&[&"s".repeat(3_000)]));
        let of = |policy, domain| of_request(&secret, policy, domain, &request).blocks;
        let own = of("p", Some("d"));
        assert_eq!(own, of("p", Some("d")));
        assert_ne!(own, of("p", Some("e")));
        assert_ne!(own, of("q", Some("d")));
        assert_ne!(own, of_request(&RandomState::default(), "p", Some("d"), &request).blocks);
        assert!(of("p", None).is_empty());
    }
}
