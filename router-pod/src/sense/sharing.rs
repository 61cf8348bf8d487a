//! Who may find whose computed prompts on a device: the same caller's, and from class Confidential up the same
//! conversation's alone. Another's prompt that is found shows by the time of the first token what it was.

use sha2::{Digest, Sha256};
use terrace_contract::canonical::hex;
use terrace_contract::trust::Class;

/// The opaque name of those a request may share computed prompts with; none: with nobody. A device joins it to the
/// policy's identity and a secret of its own.
pub fn domain(caller: &str, session: Option<&str>, class: Class) -> Option<String> {
    let session = match (class < Class::Confidential, session) {
        (true, _) => "",
        (false, Some(session)) if !session.is_empty() => session,
        (false, _) => return None,
    };
    let mut digest = Sha256::new();
    for part in [caller, session] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    Some(hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_share_with_themselves_and_sensitive_conversations_with_nothing_else() {
        let of = |caller, session, class| domain(caller, session, class);
        let plain = of("ci", None, Class::Internal);
        assert_eq!(plain, of("ci", Some("s1"), Class::Public), "one caller's");
        assert_eq!(plain.as_ref().map(String::len), Some(64));
        let others = [
            of("web", None, Class::Internal),
            of("ci", Some("s1"), Class::Confidential),
            of("ci", Some("s2"), Class::Restricted),
            of("web", Some("s1"), Class::Confidential),
            of("cis1", Some("s"), Class::Confidential),
        ];
        for (i, other) in others.iter().enumerate() {
            assert!(other.is_some() && *other != plain && !others[i + 1..].contains(other), "{i}");
        }
        assert_eq!(others[1], of("ci", Some("s1"), Class::Restricted), "one conversation's");
        assert_eq!(of("ci", None, Class::Confidential), None);
        assert_eq!(of("ci", Some(""), Class::Restricted), None);
    }
}
