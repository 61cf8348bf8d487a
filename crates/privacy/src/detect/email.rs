//! E-mail addresses: from each `@` outwards.

use super::{Kind, Report};

/// Finds e-mail addresses.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|b| *b == b'@').map(|i| from + i) {
        from = at + 1;
        let start = (0..at).rev().take_while(|&i| local(bytes[i])).last();
        let end = (at + 1..bytes.len()).take_while(|&i| host(bytes[i])).last();
        let (Some(mut start), Some(end)) = (start, end) else { continue };
        while start < at && matches!(bytes[start], b'.' | b'-') {
            start += 1;
        }
        let host = text[at + 1..=end].trim_end_matches(['.', '-']);
        if start < at && at - start <= 64 && is_domain(host) {
            report(Kind::Email, &text[start..at + 1 + host.len()]);
            from = at + 1 + host.len();
        }
    }
}

fn local(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-' | b'\'' | b'!' | b'#' | b'&' | b'*' | b'~')
}

fn host(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')
}

fn is_domain(host: &str) -> bool {
    let top = host.rsplit('.').next().unwrap_or("");
    host.len() <= 253
        && host.contains('.')
        && host.split('.').all(|label| !label.is_empty() && label.len() <= 63)
        && (2..=24).contains(&top.len())
        && top.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-')
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
    fn what_is_none() {
        for text in ["@decorator", "user@host", "a@b.c", "x @ y.com", "a@.com", "price@1.50"] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
