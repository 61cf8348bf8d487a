//! E-mail addresses: from each `@` outwards.

use super::{Kind, Report};

/// Characters before the `@`, at most.
const MAX_LOCAL: usize = 64;

/// Finds e-mail addresses.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'@', &bytes[from..]).map(|i| from + i) {
        from = at + 1;
        let before = || text[..at].char_indices().rev();
        let own = before().take_while(|(_, c)| local(*c)).last();
        // A name in another script is an address's too, up to what parts words.
        let start = own.or_else(|| before().take(MAX_LOCAL).take_while(|(_, c)| c.is_alphanumeric()).last());
        let end = text[at + 1..].char_indices().take_while(|(_, c)| host(*c)).last();
        let (Some((mut start, _)), Some((last, c))) = (start, end) else { continue };
        let end = at + 1 + last + c.len_utf8();
        while start < at && matches!(bytes[start], b'.' | b'-') {
            start += 1;
        }
        let host = text[at + 1..end].trim_end_matches(['.', '-']);
        if start < at && text[start..at].chars().count() <= MAX_LOCAL && is_domain(host) {
            report(Kind::Email, &text[start..at + 1 + host.len()]);
            from = at + 1 + host.len();
        }
    }
}

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
    fn what_is_none() {
        for text in ["@decorator", "user@host", "a@b.c", "x @ y.com", "a@.com", "price@1.50"] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
