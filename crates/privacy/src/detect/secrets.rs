//! Keys, tokens and passwords: one automaton over the prefixes that their makers gave them, and one over the names
//! that people give passwords.

use std::sync::OnceLock;

use aho_corasick::Span;
use aho_corasick::packed::{self, Searcher};
use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::syntax;
use regex_automata::{Input, Match};

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
    (Kind::ApiKey, r"sk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{24}"),
    (Kind::ApiKey, r"ya29\.[A-Za-z0-9_-]{20}"),
    (Kind::ApiKey, r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20}"),
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

/// A name for a secret, then its value; and what that must be.
const NAMED: &[(Kind, Named, &str)] = &[
    (
        Kind::ApiKey,
        Named::Any,
        r#"(?i:aws_?secret_?access_?key)[\\"']{0,2}\s{0,4}(?:=>|:=|[:=])\s{0,4}[\\"']{0,2}[A-Za-z0-9+/]{30,80}"#,
    ),
    (Kind::ApiKey, Named::Digit, r"(?i:bearer)\s{1,4}[A-Za-z0-9._~+/-]{20,200}"),
    (
        Kind::Password,
        Named::Value,
        r#"(?i:pass(?:word|wd|phrase|code)|pwd|(?:db|my|pg|user|admin|root|smtp|mail|redis|ftp)[_-]?pass|api[_-]?key|secret[_-]?key|client[_-]?secret|access[_-]?(?:token|key)|auth[_-]?token|private[_-]?key)[\\"']{0,2}\s{0,4}(?:=>|:=|[:=])\s{0,4}[\\"']{0,2}[^\s"',;<>{}$*=:(\[\\][^\s"',;]{5,60}"#,
    ),
    (
        Kind::Password,
        Named::Unlike,
        r#"(?i:secret|token|credential)[\\"']{0,2}\s{0,4}(?:=>|:=|[:=])\s{0,4}[\\"']{0,2}[^\s"',;<>{}$*=:(\[\\][^\s"',;]{5,60}"#,
    ),
    (
        Kind::Password,
        Named::Any,
        r#"(?i:password|passwd|passphrase|api[_-]?key|secret[_-]?key|client[_-]?secret|access[_-]?token|private[_-]?key)["']?\s{0,2}is \s{0,2}["']?[^\s"',;<>{}$*]{8}"#,
    ),
];

/// What one of [`NAMED`] asks of the value that it found.
#[derive(Clone, Copy)]
enum Named {
    /// Nothing more.
    Any,
    /// A digit: words are none.
    Digit,
    /// No word that stands where a value would, and no code.
    Value,
    /// The same, and something that a word has not: the name is an everyday word.
    Unlike,
}

/// What documents, forms and code have after such a name instead of a secret.
const NO_VALUES: &[&str] = &[
    "string",
    "strings",
    "integer",
    "number",
    "boolean",
    "varchar",
    "optional",
    "required",
    "incorrect",
    "correct",
    "invalid",
    "missing",
    "expired",
    "undefined",
    "redacted",
    "removed",
    "placeholder",
    "unknown",
    "changed",
    "forgotten",
    "encrypted",
    "hashed",
    "disabled",
    "enabled",
    "passwordfield",
    "sensitive",
    "textfield",
];

impl Named {
    /// Whether what was found, name and value, is a secret.
    fn holds(self, found: &str) -> bool {
        let (name, value) = found.split_at(found.find([':', '=', ' ']).unwrap_or(0));
        let value = value.trim_start_matches([':', '=', '>', ' ', '\t', '\n', '\r', '"', '\'', '\\']);
        let value = value.trim_end_matches(['.', '!', '?', ')', ']', '}', '>', '`', '\\']);
        let digit = value.bytes().any(|b| b.is_ascii_digit());
        let code = value.contains(['(', ')', '[', ']', '{', '}', '<', '>']) || value.starts_with('&');
        let place = name.to_ascii_lowercase().ends_with("pwd") && value.starts_with(['/', '~', '.']);
        let lower = value.to_ascii_lowercase();
        let read = ["process.env", "os.environ", "os.getenv", "std::env", "env."].iter().any(|p| lower.starts_with(p));
        let word = NO_VALUES.contains(&lower.as_str());
        match self {
            Named::Any => true,
            Named::Digit => digit,
            Named::Value => !place && !read && !word && (digit || !code),
            Named::Unlike => digit && !code && !read && value.len() >= 6,
        }
    }
}

/// Each name in [`NAMED`] has one of these in it, in capitals or not, at most [`BEFORE`] bytes from its start.
const STEMS: [&str; 7] = ["pass", "pwd", "key", "secret", "token", "bearer", "credential"];
const BEFORE: usize = 8;
/// Bytes of a stem that are looked for.
const STEM: usize = 3;
/// Bytes from a stem to the end of what parts its name and the value, at most.
const TO_SIGN: usize = 32;
/// Bytes from a stem to the end of the longest value.
const TO_END: usize = 256;

/// What is looked for, compiled.
struct Patterns {
    prefixed: Regex,
    named: Regex,
    /// The stems' beginnings; none: this processor cannot look for many at once.
    stems: Option<Searcher>,
}

impl Patterns {
    fn build() -> Result<Self, Box<BuildError>> {
        let build = |sources: Vec<&str>| {
            let syntax = syntax::Config::new().unicode(false).utf8(false);
            Regex::builder().syntax(syntax).build_many(&sources).map_err(Box::new)
        };
        let cased = |stem: &str, capitals: usize| -> Vec<u8> {
            let bytes = stem.bytes().take(STEM).enumerate();
            bytes.map(|(i, b)| if capitals >> i & 1 == 1 { b.to_ascii_uppercase() } else { b }).collect()
        };
        let stems = STEMS.iter().flat_map(|stem| (0..1 << STEM).map(move |capitals| cased(stem, capitals)));
        Ok(Self {
            prefixed: build(PREFIXED.iter().map(|(_, pattern)| *pattern).collect())?,
            named: build(NAMED.iter().map(|(_, _, pattern)| *pattern).collect())?,
            stems: packed::Config::new().builder().extend(stems).build(),
        })
    }

    /// The first of [`NAMED`] from a place on. The whole of it is asked only where a name and something behind it can be:
    /// without regard to capitals, that is far slower than looking for a few letters.
    fn next_named(&self, text: &str, from: usize) -> Option<Match> {
        let Some(stems) = &self.stems else { return self.named.find(Input::new(text).range(from..)) };
        let bytes = text.as_bytes();
        let mut at = from;
        while let Some(stem) = stems.find_in(bytes, Span { start: at, end: bytes.len() }) {
            let stem = stem.start();
            at = stem + 1;
            if !may_be_given(&bytes[stem..bytes.len().min(stem + TO_SIGN)]) {
                continue;
            }
            let near = stem.saturating_sub(BEFORE).max(from)..bytes.len().min(stem + TO_END);
            // What begins later has a stem of its own, and may end later than what is asked here.
            let hit = self.named.find(Input::new(text).range(near)).filter(|hit| hit.start() <= stem);
            if hit.is_some() {
                return hit;
            }
        }
        None
    }
}

/// Whether what begins with a stem's first letters is one, and something follows that gives it a value.
fn may_be_given(bytes: &[u8]) -> bool {
    let is = |stem: &str| bytes.get(..stem.len()).is_some_and(|own| own.eq_ignore_ascii_case(stem.as_bytes()));
    let Some(stem) = STEMS.into_iter().find(|stem| is(stem)) else { return false };
    stem == "bearer" || memchr::memchr2(b':', b'=', bytes).is_some() || bytes.windows(3).any(|word| word == b"is ")
}

/// The patterns are constants that a test compiles, so building them cannot fail; if it did, classifying would, and the
/// request would be Restricted.
fn patterns() -> Result<&'static Patterns, &'static BuildError> {
    static PATTERNS: OnceLock<Result<Patterns, Box<BuildError>>> = OnceLock::new();
    PATTERNS.get_or_init(Patterns::build).as_ref().map_err(|e| &**e)
}

/// Whether the patterns are there: asked once before classifying.
pub fn ready() -> bool {
    patterns().is_ok()
}

/// Finds secrets.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let Ok(patterns) = patterns() else { return };
    for hit in patterns.prefixed.find_iter(text) {
        // Patterns match bytes: what was found is shown only where it is text.
        report(PREFIXED[hit.pattern().as_usize()].0, text.get(hit.range()).unwrap_or_default());
    }
    let mut from = 0;
    while let Some(hit) = patterns.next_named(text, from) {
        let (kind, asked, _) = NAMED[hit.pattern().as_usize()];
        let found = text.get(hit.range());
        if found.is_none_or(|found| asked.holds(found)) {
            report(kind, found.unwrap_or_default());
            from = hit.end();
        } else {
            // What was taken for its value may be a name with another one.
            let name = found.and_then(|f| f.find([':', '=', ' '])).unwrap_or(0);
            from = hit.start() + name.max(1);
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

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { cases: 2_000, ..Default::default() })]
        #[test]
        fn looking_for_stems_first_finds_what_looking_everywhere_does(
            parts in proptest::collection::vec(proptest::sample::select(vec![
                "aws_secret_access_key", "AWSSecretAccessKey", "Bearer ", "bEaReR  ", "password", "PassCode", "pwd", "redis_pass",
                "api-key", "APIKEY", "client_secret", "private-key", "access_token", "credential", "secret", "Token", "auth-token",
                "=", " = ", ": ", ":= ", "=> ", " is ", "\\\": \\\"", "\"", " ", "\n", "x", "the past", "monkey ", "密", "a1b2c3d4e5",
                "hunter22", "correct-horse-battery-staple-correct-horse-battery-staple-and-more", "0123456789abcdefghij0123456789",
            ]), 0..24),
            from in 0..40usize,
        ) {
            let text = parts.concat();
            let from = text.ceil_char_boundary(from);
            let patterns = patterns().unwrap();
            let everywhere = patterns.named.find(Input::new(&text).range(from.min(text.len())..));
            proptest::prop_assert_eq!(patterns.next_named(&text, from.min(text.len())), everywhere);
        }
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
    fn keys_with_hyphens_and_keys_by_name() {
        let mixed = "a_B-3dE".repeat(8);
        for (kind, text) in [
            (Kind::ApiKey, format!("sk-ant-api03-{mixed}")),
            (Kind::ApiKey, format!("sk-proj-{mixed}")),
            (Kind::ApiKey, format!("aws_secret_access_key = {}", filler(40))),
            (Kind::ApiKey, format!("AWS_SECRET_ACCESS_KEY=\"{}\"", filler(40))),
            (Kind::ApiKey, format!("Authorization: Bearer {}", filler(32))),
            (Kind::ApiKey, format!("ya29.{mixed}")),
            (Kind::ApiKey, format!("https://hooks.slack.com/services/T0{0}/B0{0}/{0}{0}", filler(8))),
            (Kind::Password, "db_pass=hunter22".to_owned()),
            (Kind::Password, "DB_PASSWORD = 'hunter'".to_owned()),
            (Kind::Password, "pwd: tr0ub4dor".to_owned()),
            (Kind::Password, "passwd:P@$$w0rd!".to_owned()),
            (Kind::Password, "{\\\"password\\\": \\\"hunter22\\\"}".to_owned()),
            (Kind::Password, "secret: s3cr3t-thing".to_owned()),
            (Kind::Password, "token = 9f86d081884c".to_owned()),
            (Kind::Password, "token:password=correct-horse".to_owned()),
            (Kind::Password, "my password is correct-horse".to_owned()),
        ] {
            assert_eq!(kinds(&text), [kind], "{text}");
        }
    }

    #[test]
    fn code_forms_and_prose_about_secrets_hold_none() {
        for text in [
            "the token: string that is given",
            "secret: always whisk the eggs first",
            "fn login(password: String, token: &str)",
            "password: required, at least 12 characters",
            "password: Option<String>",
            "const token = getToken();",
            "password = read_password()",
            "password = os.environ[\"DB_PASSWORD\"]",
            "apiKey: process.env.API_KEY",
            "api_key=${API_KEY}",
            "PWD=/home/jane/project",
            "max_tokens: 4096",
            "the bearer of internationalization-standards",
            "tokens = text.split()",
            "if password == other_password {",
        ] {
            assert_eq!(kinds(text), [], "{text}");
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
