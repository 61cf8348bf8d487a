//! IPv6 addresses: what parses as one, stands alone, and is no path of a program (`std::fs`).

use std::net::Ipv6Addr;

use super::{Kind, Report};

/// Finds IPv6 addresses.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(colon) = memchr::memchr(b':', &bytes[from..]).map(|i| from + i) {
        let inside = |i: &usize| bytes[*i].is_ascii_hexdigit() || matches!(bytes[*i], b':' | b'.');
        let start = (from..colon).rev().take_while(inside).last().unwrap_or(colon);
        let end = (colon..bytes.len()).take_while(inside).last().map_or(colon + 1, |i| i + 1);
        from = end;
        let found = text[start..end].trim_end_matches('.');
        let touches =
            |at: Option<usize>| at.and_then(|i| bytes.get(i)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        if touches(start.checked_sub(1)) || touches(Some(start + found.len())) || found.len() < 6 {
            continue;
        }
        let digits = found.bytes().any(|b| b.is_ascii_digit());
        if digits && found.parse::<Ipv6Addr>().is_ok_and(|ip| !ip.is_loopback() && !ip.is_unspecified()) {
            report(Kind::Ip, found);
        }
    }
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
    fn addresses_that_stand_alone() {
        assert_eq!(found("at 2001:db8::17."), ["2001:db8::17"]);
        assert_eq!(found("6e40:4041:c617:e898:c11:40d2:c669:2eb4"), ["6e40:4041:c617:e898:c11:40d2:c669:2eb4"]);
        assert_eq!(found("地址fe80::1ff:fe23:4567:890a吗"), ["fe80::1ff:fe23:4567:890a"]);
    }

    #[test]
    fn what_is_none() {
        for text in ["std::fs", "dead::beef", "10:30:00", "a: b: c", "::1", "::", "00:1a:2b:3c:4d:5e", "x::2001:db8::1"]
        {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
