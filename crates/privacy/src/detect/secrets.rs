//! Keys, tokens and passwords: one automaton over the prefixes that their makers gave them, and one over the names
//! that people give passwords.

use std::sync::OnceLock;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::syntax;

use super::{Kind, Report};

/// Every pattern starts with a literal, so that a text without one costs a single fast pass.
const PREFIXED: &[(Kind, &str)] = &[
    (Kind::PrivateKey, r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY"),
    (Kind::ApiKey, r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    (Kind::ApiKey, r"gh[pousr]_[A-Za-z0-9]{36}"),
    (Kind::ApiKey, r"github_pat_[A-Za-z0-9_]{30}"),
    (Kind::ApiKey, r"glpat-[A-Za-z0-9_-]{20}"),
    (Kind::ApiKey, r"xox[abeoprs]-[A-Za-z0-9-]{10}"),
    (Kind::ApiKey, r"xapp-[0-9]-[A-Za-z0-9-]{10}"),
    (Kind::ApiKey, r"sk-(?:[a-z]+[0-9]{0,2}-)*[A-Za-z0-9_]{20}"),
    (Kind::ApiKey, r"[sr]k_(?:live|test)_[A-Za-z0-9]{16}"),
    (Kind::ApiKey, r"AIza[A-Za-z0-9_-]{35}"),
    (Kind::ApiKey, r"hf_[A-Za-z]{30}"),
    (Kind::ApiKey, r"npm_[A-Za-z0-9]{36}"),
    (Kind::ApiKey, r"pypi-[A-Za-z0-9_-]{50}"),
    (Kind::ApiKey, r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{40}"),
    (Kind::ApiKey, r"dop_v1_[a-f0-9]{64}"),
    (Kind::ApiKey, r"hvs\.[A-Za-z0-9_-]{24}"),
    (Kind::Jwt, r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (Kind::ConnectionString, r"://[A-Za-z0-9._~%+-]{1,64}:[^\s@/:]{1,128}@[A-Za-z0-9]"),
    (Kind::ConnectionString, r"AccountKey=[A-Za-z0-9+/]{40}"),
];

/// A name for a secret, then its value.
const NAMED: &[(Kind, &str)] = &[(
    Kind::Password,
    r#"(?i:password|passwd|passphrase|api[_-]?key|secret[_-]?key|client[_-]?secret|access[_-]?token|private[_-]?key)["']?\s{0,2}(?:[:=]|is )\s{0,2}["']?[^\s"',;<>{}$*]{8}"#,
)];

struct Patterns {
    regex: Regex,
    kinds: Vec<Kind>,
}

/// The patterns are constants that a test compiles, so building them cannot fail; if it did, classifying would, and the
/// request would be Restricted.
fn patterns() -> Result<&'static [Patterns; 2], &'static BuildError> {
    static PATTERNS: OnceLock<Result<[Patterns; 2], Box<BuildError>>> = OnceLock::new();
    let built = PATTERNS.get_or_init(|| {
        let build = |list: &[(Kind, &str)]| {
            let sources: Vec<&str> = list.iter().map(|(_, p)| *p).collect();
            let syntax = syntax::Config::new().unicode(false).utf8(false);
            let regex = Regex::builder().syntax(syntax).build_many(&sources).map_err(Box::new)?;
            Ok::<_, Box<BuildError>>(Patterns { regex, kinds: list.iter().map(|(k, _)| *k).collect() })
        };
        Ok([build(PREFIXED)?, build(NAMED)?])
    });
    built.as_ref().map_err(|e| &**e)
}

/// Whether the patterns are there: asked once before classifying.
pub fn ready() -> bool {
    patterns().is_ok()
}

/// Finds secrets.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let Ok(patterns) = patterns() else { return };
    for Patterns { regex, kinds } in patterns {
        for hit in regex.find_iter(text) {
            // Patterns match bytes: what was found is shown only where it is text.
            report(kinds[hit.pattern().as_usize()], text.get(hit.range()).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut found = Vec::new();
        scan(text, &mut |kind, _| found.push(kind));
        found
    }

    #[test]
    fn the_patterns_compile() {
        assert!(ready());
    }

    /// Made here, so that no scanner of repositories takes them for real ones.
    fn filler(n: usize) -> String {
        "aB3dE6gH9kL2".chars().cycle().take(n).collect()
    }

    #[test]
    fn secrets_by_prefix() {
        let upper = "ABCDEFGHIJKLMNOP";
        for (kind, text) in [
            (Kind::ApiKey, format!("AKIA{upper}")),
            (Kind::ApiKey, format!("ghp_{}", filler(36))),
            (Kind::ApiKey, format!("xoxb-{}", filler(24))),
            (Kind::ApiKey, format!("密钥sk-proj-{}", filler(40))),
            (Kind::ApiKey, format!("sk-{}", filler(48))),
            (Kind::ApiKey, format!("sk_live_{}", filler(24))),
            (Kind::PrivateKey, "-----BEGIN RSA PRIVATE KEY-----".to_owned()),
            (Kind::PrivateKey, "-----BEGIN PRIVATE KEY-----".to_owned()),
            (Kind::Jwt, format!("eyJ{0}.eyJ{0}.{0}", filler(20))),
            (Kind::ConnectionString, "postgres://app:hunter2@db.example/x".to_owned()),
            (Kind::Password, "password: correct-horse".to_owned()),
            (Kind::Password, "API_KEY=\"0123456789\"".to_owned()),
        ] {
            assert_eq!(kinds(&text), [kind], "{text}");
        }
    }

    #[test]
    fn what_is_no_secret() {
        for text in [
            "I forgot my password, how do I reset it?",
            "sk-learn",
            "-----BEGIN CERTIFICATE-----",
            "password: ********",
            "https://example.com/a:b@c",
        ] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }
}
