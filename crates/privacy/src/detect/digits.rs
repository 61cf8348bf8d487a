//! Numbers: a hand-written scan for runs of digits, then validators. No word borders are used: there is none between a
//! Han character and a digit.

use std::net::{IpAddr, Ipv4Addr};

use super::{Kind, Report};

/// Bytes between two digits of one number, at most.
const MAX_GAP: usize = 3;
/// Bytes between two groups of a card in lists, tables and markup, at most.
const MAX_WIDE_GAP: usize = 12;
/// Digits of the shortest number: a telephone's.
const SHORTEST: usize = 7;
/// Digits of the shortest card.
const SHORTEST_CARD: usize = 12;
/// Digits that are looked at from one start: the longest number, and one more to see that it ends there.
const WINDOW: usize = 20;

/// One digit of a run: its value, where it stands, and whether the gap before it is one that only cards have.
#[derive(Clone, Copy)]
struct Digit {
    value: u8,
    at: usize,
    wide: bool,
}

/// Finds numbers in a text.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let mut run: Vec<Digit> = Vec::new();
    let mut at = 0;
    while let Some(start) = next_digit(bytes, at) {
        run.clear();
        at = start;
        let (mut end, mut wide) = (start, false);
        while at < bytes.len() {
            if bytes[at].is_ascii_digit() {
                run.push(Digit { value: bytes[at] - b'0', at, wide });
                end = at + 1;
                at = end;
                wide = false;
            } else if separates(bytes[at]) {
                at += 1;
            } else if let Some(length) = parts_groups(&bytes[at..]) {
                at += length;
                wide = true;
            } else {
                break;
            }
            wide |= at - end > MAX_GAP;
            if at - end > MAX_WIDE_GAP {
                break;
            }
        }
        at = end;
        look(text, &run, report);
    }
}

/// Where the first digit stands from `from` on: most of a text is none, so it is asked for many bytes at once, and where one is
/// among them for eight.
pub(super) fn next_digit(bytes: &[u8], from: usize) -> Option<usize> {
    const TOGETHER: usize = 32;
    let mut at = from;
    while let Some(chunk) = bytes.get(at..)?.first_chunk::<TOGETHER>()
        && !chunk.iter().fold(false, |any, b| any | b.is_ascii_digit())
    {
        at += TOGETHER;
    }
    while let Some(eight) = bytes[at..].first_chunk() {
        if let Some(digit) = first_of_eight(eight) {
            return Some(at + digit);
        }
        at += eight.len();
    }
    bytes[at..].iter().position(u8::is_ascii_digit).map(|i| at + i)
}

/// Where the first digit of eight bytes stands: a digit alone is below ten once the bits of its zero are taken out, and so
/// keeps its highest bit free when 118 are added.
fn first_of_eight(bytes: &[u8; 8]) -> Option<usize> {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let less = u64::from_le_bytes(*bytes) ^ (EACH * 0x30);
    let others = ((less & (EACH * 0x7F)) + EACH * 0x76) | less;
    let digits = !others & (EACH * 0x80);
    (digits != 0).then(|| digits.trailing_zeros() as usize / 8)
}

/// What people put between the digits of one number.
pub(super) fn separates(b: u8) -> bool {
    SEPARATES[usize::from(b)]
}

/// Looked up, since it is asked of most bytes between numbers.
const SEPARATES: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0u8);
    while byte < 128 {
        table[byte as usize] =
            matches!(byte, b' ' | b'-' | b'.' | b'/' | b'_' | b',' | b'\n' | b'\t' | b'\r' | b'(' | b')');
        byte += 1;
    }
    table
};

/// Length of what stands between groups in lists, tables and markup, if something such starts here.
fn parts_groups(bytes: &[u8]) -> Option<usize> {
    const DOTS: [&str; 7] = ["·", "•", "‧", "∙", "⋅", "・", "、"];
    match bytes.first()? {
        b'|' | b':' | b'+' | b'"' | b'\'' | b'*' | b';' | b'\\' | b'~' | b'[' | b']' => Some(1),
        0x80.. => DOTS.iter().find(|dot| bytes.starts_with(dot.as_bytes())).map(|dot| dot.len()),
        _ => None,
    }
}

fn look(text: &str, run: &[Digit], report: &mut Report<'_>) {
    ip(text, run, report);
    if run.len() < SHORTEST {
        return;
    }
    // A number may stand among others: try it wherever a group starts, as long as groups go on.
    let (mut taken, mut by_phone) = (0, false);
    for start in (0..run.len()).filter(|&i| i == 0 || run[i].at > run[i - 1].at + 1) {
        // A telephone number proves little: what starts inside one may still be a card.
        if start < taken && !by_phone {
            continue;
        }
        if let Some((kind, length)) = number(text, &run[start..run.len().min(start + WINDOW)])
            && (start >= taken || kind != Kind::Phone)
        {
            let found = &text[run[start].at..=run[start + length - 1].at];
            report(kind, found);
            (taken, by_phone) = (start + length, kind == Kind::Phone);
        }
    }
}

/// The number that starts a run, and its digits. It must end where a group ends.
fn number(text: &str, run: &[Digit]) -> Option<(Kind, usize)> {
    if run.len() < SHORTEST {
        return None;
    }
    let ends =
        |length: usize| length <= run.len() && run.get(length).is_none_or(|next| next.at > run[length - 1].at + 1);
    let first_wide = run.iter().skip(1).position(|d| d.wide).map_or(run.len(), |i| i + 1);
    let cards = |&n: &usize| ends(n) && card(&run[..n]) && (n <= first_wide || grouped_as_card(&run[..n]));
    if let Some(length) = (SHORTEST_CARD..=run.len().min(19)).rev().find(cards) {
        return Some((Kind::Card, length));
    }
    // What is no card has no wide gaps.
    let ends = |length: usize| length <= first_wide && ends(length);
    if ends(17) && resident_id(text, &run[..17], true) {
        return Some((Kind::ResidentId, 17));
    }
    if ends(18) && resident_id(text, &run[..18], false) {
        return Some((Kind::ResidentId, 18));
    }
    if ends(9) && ssn(text, &run[..9]) {
        return Some((Kind::Ssn, 9));
    }
    let called = named(text, run[0].at, PHONE_WORDS);
    (SHORTEST..=15).rev().find(|&n| ends(n) && phone(text, &run[..n], called)).map(|n| (Kind::Phone, n))
}

fn value(digits: &[Digit]) -> u64 {
    digits.iter().fold(0, |sum, d| sum * 10 + u64::from(d.value))
}

/// Luhn, with the lengths that each brand issues.
fn card(digits: &[Digit]) -> bool {
    let n = digits.len();
    let (two, three, four) = (value(&digits[..2]), value(&digits[..3]), value(&digits[..4]));
    let brand = match digits[0].value {
        4 => matches!(n, 13 | 16 | 19),
        5 => (n == 16 && (51..=55).contains(&two)) || (matches!(two, 50 | 56..=58) && n >= 12),
        2 => (n == 16 && (2221..=2720).contains(&four)) || (n == 15 && four == 2131),
        3 => {
            (n == 15 && matches!(two, 34 | 37))
                || (matches!(n, 14 | 16) && (matches!(three, 300..=305 | 309) || matches!(two, 36 | 38 | 39)))
                || (matches!(n, 16..=19) && two == 35)
        }
        6 => {
            (matches!(n, 16..=19) && (four == 6011 || (644..=649).contains(&three) || matches!(two, 62 | 65)))
                || (matches!(two, 60 | 63 | 67 | 69) && n >= 12)
        }
        1 => n == 15 && four == 1800,
        _ => false,
    };
    brand && luhn(digits) && digits.iter().any(|d| d.value != digits[0].value)
}

/// Whether the groups are those that are printed on cards; a table of other numbers rarely has them.
fn grouped_as_card(digits: &[Digit]) -> bool {
    match gaps(digits)[..] {
        [4, 10] => matches!(digits.len(), 14 | 15),
        [8] => digits.len() == 16,
        [4, 8, 12] => (13..=16).contains(&digits.len()),
        [4, 8, 12, 16] => true,
        _ => false,
    }
}

fn luhn(digits: &[Digit]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| match (i % 2, u32::from(d.value) * 2) {
            (0, _) => u32::from(d.value),
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Written 3-2-4, or nine digits in a row after its name.
fn ssn(text: &str, digits: &[Digit]) -> bool {
    let (area, group, serial) = (value(&digits[..3]), value(&digits[3..5]), value(&digits[5..]));
    if matches!(area, 0 | 666 | 900..) || group == 0 || serial == 0 {
        return false;
    }
    let gaps = gaps(digits);
    gaps == [3, 5] || (gaps.is_empty() && named(text, digits[0].at, &["ssn", "social security"]))
}

/// Where the groups of a number part: `[3, 5]` for 123-45-6789.
fn gaps(digits: &[Digit]) -> Vec<usize> {
    (1..digits.len()).filter(|&i| digits[i].at > digits[i - 1].at + 1).collect()
}

/// Whether one of some words stands within 40 bytes before a place.
fn named(text: &str, at: usize, words: &[&str]) -> bool {
    let before = &text[text.floor_char_boundary(at.saturating_sub(40))..at];
    if !before.bytes().any(|b| b.is_ascii_alphabetic() || !b.is_ascii()) {
        return false;
    }
    let before = before.to_lowercase();
    words.iter().any(|w| before.contains(w))
}

/// Eighteen places: region, birth date, order, check digit by ISO 7064 mod 11-2, which may be an X.
fn resident_id(text: &str, digits: &[Digit], x: bool) -> bool {
    const WEIGHTS: [u64; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    let check = match (x, digits.get(17)) {
        (false, Some(last)) => u64::from(last.value),
        (true, None) if matches!(text.as_bytes().get(digits[16].at + 1), Some(b'X' | b'x')) => 10,
        _ => return false,
    };
    let (year, month, day) = (value(&digits[6..10]), value(&digits[10..12]), value(&digits[12..14]));
    let sum: u64 = digits.iter().zip(WEIGHTS).map(|(d, w)| u64::from(d.value) * w).sum();
    (1900..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day) && (sum + check) % 11 == 1
}

/// Words before a telephone number.
const PHONE_WORDS: &[&str] = &["phone", "mobile", "call me", "cell:", "tel:", "tel.", "电话", "手机"];

/// With a plus and a country, as a US number in groups, as a Chinese mobile number, or after a word for it.
fn phone(text: &str, digits: &[Digit], called: bool) -> bool {
    let n = digits.len();
    let bytes = text.as_bytes();
    let mut before = digits[0].at;
    while before > 0 && matches!(bytes[before - 1], b'(' | b' ') {
        before -= 1;
    }
    let plus = before > 0 && bytes[before - 1] == b'+';
    let (one, two) = (digits[0].value, digits[1].value);
    let us = n == 10 && one > 1 && digits[3].value > 1 && gaps(digits) == [3, 6];
    let us_long = n == 11 && one == 1 && gaps(digits) == [1, 4, 7];
    let chinese = n == 11 && one == 1 && two >= 3 && gaps(digits).is_empty() && !glued(bytes, digits);
    (plus && n >= 8 && digits[0].value > 0) || us || us_long || chinese || (n <= 13 && called)
}

/// Whether a letter or digit touches the number: then it is a part of some identifier.
fn glued(bytes: &[u8], digits: &[Digit]) -> bool {
    let touches = |at: Option<usize>| at.and_then(|i| bytes.get(i)).is_some_and(|b| b.is_ascii_alphanumeric());
    touches(digits[0].at.checked_sub(1)) || digits.last().is_some_and(|d| touches(Some(d.at + 1)))
}

/// Four groups with dots between, each at most 255, that are not part of a longer dotted number (a version).
fn ip(text: &str, run: &[Digit], report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let within = run.first().zip(run.last()).map_or(&bytes[..0], |(first, last)| &bytes[first.at..last.at]);
    if run.len() < 4 || memchr::memchr_iter(b'.', within).count() < 3 {
        return;
    }
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for d in run {
        match groups.last_mut() {
            Some((_, end)) if *end == d.at => *end = d.at + 1,
            _ => groups.push((d.at, d.at + 1)),
        }
    }
    let dotted = |left: (usize, usize), right: (usize, usize)| right.0 == left.1 + 1 && bytes[left.1] == b'.';
    for i in 3..groups.len() {
        let four = &groups[i - 3..=i];
        let inside = four.windows(2).all(|w| dotted(w[0], w[1]));
        let longer =
            (i > 3 && dotted(groups[i - 4], four[0])) || groups.get(i + 1).is_some_and(|n| dotted(four[3], *n));
        let found = &text[four[0].0..four[3].1];
        if inside
            && !longer
            && let Ok(ip) = found.parse::<Ipv4Addr>()
            && !IpAddr::V4(ip).is_loopback()
            && !ip.is_unspecified()
        {
            report(Kind::Ip, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, String)> {
        let mut found = Vec::new();
        scan(text, &mut |kind, value| found.push((kind, value.to_owned())));
        found
    }

    proptest::proptest! {
        #[test]
        fn the_next_digit_is_the_first_one(text in "[a-c /:é\\x00\\x7f]{0,40}[0-9]?[a-c°]{0,40}[0-9]?", from in 0..90usize) {
            let want = text.bytes().enumerate().find(|(at, b)| *at >= from && b.is_ascii_digit()).map(|(at, _)| at);
            proptest::prop_assert_eq!(next_digit(text.as_bytes(), from), want);
        }
    }

    fn kinds(text: &str) -> Vec<Kind> {
        found(text).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn cards_of_every_brand_in_every_spelling() {
        for text in [
            "4111111111111111",
            "4111 1111 1111 1111",
            "4111-1111-1111-1111",
            "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
            "card:4111111111111111.",
            "卡号4111111111111111是我的",
            "378282246310005",
            "5555555555554444",
            "6011111111111117",
            "3530111333300000",
            "30569309025904",
            "2223003122003222",
            "4222222222222",
            "4111\n1111\n1111\n1111",
            "order 77 4111 1111 1111 1111 exp 12/29",
        ] {
            assert_eq!(kinds(text), [Kind::Card], "{text}");
        }
    }

    #[test]
    fn groups_of_a_card_in_lists_tables_and_markup() {
        for text in [
            "4111·1111·1111·1111",
            "4111 • 1111 • 1111 • 1111",
            "| 4111 | 1111 | 1111 | 1111 |",
            "4111:1111:1111:1111",
            "4111+1111+1111+1111",
            r#"["4111","1111","1111","1111"]"#,
            "[\n    \"4111\",\n    \"1111\",\n    \"1111\",\n    \"1111\"\n]",
            "4111    1111    1111    1111",
            "4111**1111**1111**1111",
            "3782 | 822463 | 10005",
        ] {
            assert_eq!(kinds(text), [Kind::Card], "{text}");
        }
        for text in [
            "10:30:00.123456 2024-01-02 10:30:00.654321",
            "| 40 | 12 | 34 | 56 | 78 | 90 | 12 | 34 |",
            "| 123 | 45 | 6789 |",
            "415:555:2671",
        ] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_card_is_none() {
        for text in
            ["4111111111111112", "1234567890123456", "0000000000000000", "41111111111111111111111", "9999999999999995"]
        {
            assert!(!kinds(text).contains(&Kind::Card), "{text}");
        }
    }

    #[test]
    fn a_number_after_any_number_of_others_is_found() {
        let numbers: String = (10023..10036).map(|n| format!("{n}, ")).collect();
        for before in [numbers, "030 1234567\n".repeat(7), "4000-0000-0000-0000\n".repeat(4), "1 ".repeat(5000)] {
            assert!(kinds(&format!("{before}4111 1111 1111 1111")).contains(&Kind::Card), "{before}");
            assert!(kinds(&format!("{before}123-45-6789")).contains(&Kind::Ssn), "{before}");
        }
        assert!(kinds("phone 555\n4111 1111 1111 1111").contains(&Kind::Card));
    }

    #[test]
    fn identity_numbers_prove_themselves() {
        assert_eq!(kinds("123-45-6789"), [Kind::Ssn]);
        assert_eq!(kinds("my SSN is 123456789"), [Kind::Ssn]);
        assert_eq!(kinds("123456789"), []);
        assert_eq!(kinds("000-45-6789"), []);
        assert_eq!(kinds("身份证11010519491231002X"), [Kind::ResidentId]);
        assert_eq!(kinds("440524188001010014"), [], "born before 1900");
        assert_eq!(kinds("11010519491231002"), []);
    }

    #[test]
    fn telephones() {
        for text in
            ["+49 30 901820", "+1 (415) 555-2671", "(415) 555-2671", "415-555-2671", "13800138000", "phone: 5552671"]
        {
            assert_eq!(kinds(text), [Kind::Phone], "{text}");
        }
        for text in ["2024-01-02", "1,234,567", "3.14159265", "chapter 12, page 345", "a1b13800138000c", "10000000"] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }

    #[test]
    fn addresses_but_not_versions() {
        assert_eq!(found("from 203.0.113.7 to"), [(Kind::Ip, "203.0.113.7".to_owned())]);
        for text in ["1.2.3.4.5", "300.1.1.1", "127.0.0.1", "1.2.3"] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }
}
