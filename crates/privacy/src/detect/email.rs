//! E-mail addresses: from each `@` outwards, and from what people write in its place so that no machine reads it.
//!
//! `alice @ example.com` and `alice [at] example (dot) com` are addresses; "see us @ example.com" is prose. Where blanks stand
//! around a sign it takes more of both sides than where none do.

use super::{Kind, Report};

/// Characters before the `@`, at most.
const MAX_LOCAL: usize = 64;
/// Blanks beside a sign or a dot, at most.
const MAX_BLANKS: usize = 3;
/// Labels of a host that is written apart, at most.
const MAX_LABELS: usize = 8;

/// Finds e-mail addresses.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'@', &bytes[from..]).map(|i| from + i) {
        from = at + 1;
        if let Some((start, end)) = tight(text, at).or_else(|| apart(text, at, at + 1, false)) {
            report(Kind::Email, &text[start..end]);
            from = end;
        }
    }
    from = 0;
    while let Some(open) = memchr::memchr3(b'(', b'[', b'{', &bytes[from..]).map(|i| from + i) {
        from = open + 1;
        if let Some(close) = bracketed(&bytes[open..], &["at", "@"]).map(|length| open + length)
            && let Some((start, end)) = apart(text, open, close, true)
        {
            report(Kind::Email, &text[start..end]);
            from = end;
        }
    }
}

/// The address around the `@` at `at`, if nothing parts it.
fn tight(text: &str, at: usize) -> Option<(usize, usize)> {
    let before = || text[..at].char_indices().rev();
    let own = before().take_while(|(_, c)| local(*c)).last();
    // A name in another script is an address's too, up to what parts words.
    let start = own.or_else(|| before().take(MAX_LOCAL).take_while(|(_, c)| c.is_alphanumeric()).last());
    let (last, c) = text[at + 1..].char_indices().take_while(|(_, c)| host(*c)).last()?;
    let (mut start, _) = start?;
    while start < at && matches!(text.as_bytes()[start], b'.' | b'-') {
        start += 1;
    }
    let host = text[at + 1..at + 1 + last + c.len_utf8()].trim_end_matches(['.', '-']);
    let found = start < at && text[start..at].chars().count() <= MAX_LOCAL && is_domain(host);
    found.then_some((start, at + 1 + host.len()))
}

/// The address around a sign from `open` to `close`, with blanks or words in it. A sign that is `spelled` out leaves less doubt.
fn apart(text: &str, open: usize, close: usize, spelled: bool) -> Option<(usize, usize)> {
    let name_end = open - blanks(text.as_bytes()[..open].iter().rev());
    let before = text[..name_end].char_indices().rev().take(MAX_LOCAL);
    let (start, _) = before.take_while(|(_, c)| local(*c)).last()?;
    let name = text[start..name_end].trim_start_matches(['.', '-']);
    let doubtful = name.len() < 2 || WORDS.contains(&name.to_ascii_lowercase().as_str());
    if !name.contains(letter) || !name.contains(char::is_alphabetic) || (doubtful && !spelled) {
        return None;
    }
    let end = host_apart(text, close + blanks(text.as_bytes()[close..].iter()), spelled)?;
    Some((name_end - name.len(), end))
}

/// Where a host that begins at `from` ends, dots spelled out or blanks beside them.
fn host_apart(text: &str, from: usize, spelled: bool) -> Option<usize> {
    let (mut at, mut end, mut apart) = (from, None, None);
    for _ in 0..MAX_LABELS {
        let length = text[at..].find(|c| !letter(c) && c != '-').unwrap_or(text.len() - at);
        let label = &text[at..at + length];
        if label.is_empty() || length > 63 {
            break;
        }
        at += length;
        let top = match apart {
            None => false,
            // The end of a sentence, and the next one's first word, is no end of a host.
            Some(true) => TOPS.contains(&label),
            Some(false) if spelled => (2..=24).contains(&length) && label.chars().all(char::is_alphabetic),
            Some(false) => [TOPS, WORDY_TOPS].iter().any(|tops| tops.contains(&label.to_ascii_lowercase().as_str())),
        };
        // A call or a name of a program goes on.
        if top && !matches!(text.as_bytes().get(at), Some(b'_' | b'(' | b'=')) {
            end = Some(at);
        } else if apart == Some(false) {
            end = None;
        }
        let Some((length, parts)) = dot(text, at) else { break };
        if parts && WORDS.contains(&label) {
            break;
        }
        at += length;
        apart = Some(parts);
    }
    end
}

/// The dot that starts at a place, spelled out or not: its length, and whether it might be another thing than a host's dot.
fn dot(text: &str, at: usize) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    let before = blanks(bytes[at..].iter());
    let rest = &bytes[at + before..];
    let word = || before > 0 && rest.get(3) == Some(&b' ') && rest[..3].eq_ignore_ascii_case(b"dot");
    let (length, spelled) = match rest.first()? {
        b'.' => (1, false),
        b'd' | b'D' if word() => (3, false),
        _ => (bracketed(rest, &["dot", "."])?, true),
    };
    let after = blanks(rest[length..].iter());
    Some((before + length + after, !spelled && before + after > 0))
}

/// Length of one of some words in brackets, if one starts here.
fn bracketed(bytes: &[u8], words: &[&str]) -> Option<usize> {
    let close = match bytes.first()? {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        _ => return None,
    };
    let from = 1 + blanks(bytes[1..].iter());
    let starts =
        |word: &&&str| bytes.get(from..from + word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    let word = words.iter().find(starts)?;
    let end = from + word.len();
    let end = end + blanks(bytes[end..].iter());
    (bytes.get(end) == Some(&close)).then_some(end + 1)
}

/// How many blanks come first, as far as they count.
fn blanks<'b>(bytes: impl Iterator<Item = &'b u8>) -> usize {
    bytes.take(MAX_BLANKS).take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Ends of hosts that are no words, where a dot may be the end of a sentence.
const TOPS: &[&str] = &[
    "com", "org", "net", "edu", "gov", "mil", "biz", "io", "dev", "app", "co", "uk", "de", "fr", "es", "nl", "ch",
    "cn", "jp", "kr", "tw", "hk", "sg", "au", "nz", "ca", "br", "mx", "ar", "ru", "ua", "pl", "se", "fi", "dk", "cz",
    "sk", "hu", "ro", "bg", "gr", "pt", "eu", "ie", "tr", "il", "ae", "sa", "za", "ng", "tv", "cc", "ai",
];
/// Ends of hosts that are words as well.
const WORDY_TOPS: &[&str] =
    &["it", "at", "in", "me", "us", "be", "no", "info", "name", "online", "email", "cloud", "tech"];
/// What stands before an `@` that means "at".
const WORDS: &[&str] = &[
    "a",
    "am",
    "and",
    "are",
    "at",
    "available",
    "be",
    "by",
    "find",
    "following",
    "follow",
    "here",
    "hiring",
    "in",
    "is",
    "it",
    "join",
    "live",
    "look",
    "me",
    "meet",
    "more",
    "now",
    "on",
    "or",
    "out",
    "over",
    "see",
    "that",
    "the",
    "this",
    "to",
    "up",
    "us",
    "visit",
    "was",
    "we",
    "with",
    "work",
    "working",
    "you",
];

/// Letters of alphabets that are written with spaces between words, beside the ASCII ones: Latin, Greek, Cyrillic.
fn letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || (matches!(c, '\u{C0}'..='\u{52F}' | '\u{1E00}'..='\u{1FFF}') && c.is_alphanumeric())
}

fn local(c: char) -> bool {
    letter(c) || matches!(c, '.' | '_' | '%' | '+' | '-' | '\'' | '!' | '#' | '&' | '*' | '~')
}

fn host(c: char) -> bool {
    letter(c) || matches!(c, '.' | '-')
}

fn is_domain(host: &str) -> bool {
    let top = host.rsplit('.').next().unwrap_or("");
    host.len() <= 253
        && host.contains('.')
        && host.split('.').all(|label| !label.is_empty() && label.len() <= 63)
        && (2..=24).contains(&top.chars().count())
        && top.chars().all(|c| c.is_alphabetic() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        scan(text, &mut |_, value| found.push(value.to_owned()));
        found
    }

    #[test]
    fn addresses_in_text() {
        assert_eq!(found("mail jane.doe+x@mail.example.co.uk."), ["jane.doe+x@mail.example.co.uk"]);
        assert_eq!(found("邮箱a@b.cn和<c@d.org>"), ["a@b.cn", "c@d.org"]);
    }

    #[test]
    fn addresses_in_other_letters() {
        assert_eq!(found("à andré@example.fr."), ["andré@example.fr"]);
        assert_eq!(found("<info@münchen.de>"), ["info@münchen.de"]);
        assert_eq!(found("пиши почта@пример.рф!"), ["почта@пример.рф"]);
        assert_eq!(found("发到 张三@example.cn。"), ["张三@example.cn"]);
    }

    #[test]
    fn addresses_that_are_written_apart() {
        for text in [
            "alice @ example.com",
            "alice@ example.com",
            "alice @example.com",
            "ALICE @ EXAMPLE.COM",
            "alice.b+c  @\t mail.example.co.uk",
            "alice @ example . com",
            "alice (at) example.com",
            "alice(at)example.com",
            "alice [at] example [dot] com",
            "alice[AT]example[DOT]com",
            "alice { at } example { dot } org",
            "alice (@) example.com",
            "alice (at) example dot com",
            "alice [at] mail [dot] example [dot] museum",
            "a (at) b.io",
        ] {
            assert_eq!(found(&format!("Mail: {text}, or call.")), [text], "{text}");
        }
        assert_eq!(found("mail (at) all: jane (dot) doe (at) example (dot) com"), ["doe (at) example (dot) com"]);
    }

    #[test]
    fn prose_and_programs_are_none() {
        for text in [
            "Meet us @ example.com",
            "lunch @ noon. Come along",
            "out = hidden @ self.weight.T",
            "scores = query @ key.transpose(0, 1)",
            "scores = query @ key.io_bound",
            "scores = query @ key.io.of(x)",
            "import app\n@app.route(\"/\")",
            "import app\n@app.dev",
            "10 @ 5.00 each",
            "thanks @alice.smith",
            "look (at) the dot com boom",
            "he is (at) home. It rains",
            "an array [at] index",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_is_none() {
        for text in ["@decorator", "user@host", "a@b.c", "x @ y.com", "a@.com", "price@1.50"] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
