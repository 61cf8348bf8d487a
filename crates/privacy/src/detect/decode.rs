//! Texts inside a text: base64, hex, and escapes of URLs, JSON and HTML are decoded, twice at most, and looked at too.
//!
//! Nothing is skipped for its length: what is decoded is never longer than what held it, so time stays linear. Bytes
//! that are no text (images, keys, hashes) are not looked at.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::pieces as apart;
use crate::normalise::normalise;

/// Characters of base64 from which a piece is decoded.
const MIN_BASE64: usize = 14;
/// Characters of hexadecimal from which a piece is decoded.
pub(super) const MIN_HEX: usize = 18;
/// How often what was decoded is decoded again.
const DEPTH: usize = 2;
/// Characters of base64 from which a part of a piece is decoded: chance makes a text of a shorter one too often.
pub(super) const MIN_PART: usize = 20;

/// Hands every text that is inside `text` to `look`, normalised.
pub fn decoded(text: &str, look: &mut dyn FnMut(&str)) {
    again(text, DEPTH, look);
}

fn again(text: &str, depth: usize, look: &mut dyn FnMut(&str)) {
    if depth == 0 {
        return;
    }
    let mut inside = |inner: &str| {
        let inner = normalise(inner);
        look(&inner);
        again(&inner, depth - 1, look);
    };
    pieces(text, &mut inside);
    apart::hex(text, &mut inside);
    apart::base64(text, &mut inside);
    let bytes = text.as_bytes();
    if memchr::memchr2(b'%', b'\\', bytes).is_some() || (memchr::memchr(b'&', bytes).is_some() && text.contains("&#")) {
        let plain = unescape(text);
        if plain != text {
            inside(&plain);
        }
    }
}

/// Pieces of hexadecimal, and of base64 in either alphabet, padded or not.
fn pieces(text: &str, look: &mut dyn FnMut(&str)) {
    // Such bytes are ASCII, and so each piece is text.
    for piece in long(text.as_bytes()).filter_map(|piece| std::str::from_utf8(piece).ok()) {
        let found = mixed(piece).then(|| from_base64(piece)).flatten();
        if let Some(inner) = &found {
            look(inner);
        }
        // A path or a name may have it as one of its parts.
        let parts = piece.split(|c: char| !c.is_ascii_alphanumeric());
        for part in parts.filter(|p| p.len() >= MIN_BASE64) {
            let hex = from_hex(part);
            let alone = found.is_none() && (MIN_PART..piece.len()).contains(&part.len()) && mixed(part);
            let part = alone.then(|| from_base64(part)).flatten();
            [hex, part].iter().flatten().for_each(|inner| look(inner));
        }
    }
}

/// Runs of base64's bytes that are long enough. Each place is looked at from where such a run would reach [`MIN_BASE64`]:
/// most words are shorter, and most of their bytes are never asked.
fn long(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let other = |b: &u8| !BASE64[usize::from(*b)];
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let shortest = bytes.get(at..at + MIN_BASE64)?;
            let Some(last) = shortest.iter().rposition(other) else { break };
            at += last + 1;
        }
        let start = at;
        let more = &bytes[start + MIN_BASE64..];
        at = start + MIN_BASE64 + more.iter().position(other).unwrap_or(more.len());
        Some(&bytes[start..at])
    })
}

/// Bytes of base64 in either alphabet: looked up, since every byte of every request is asked for.
pub(super) const BASE64: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0u8);
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        byte += 1;
    }
    table
};

/// Long words are not base64: it has letters of both cases.
fn mixed(piece: &str) -> bool {
    piece.bytes().any(|b| b.is_ascii_uppercase()) && piece.bytes().any(|b| b.is_ascii_lowercase())
}

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// What base64 of either alphabet stands for, if it is that.
pub(super) fn bytes_of_base64(piece: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(piece).or_else(|_| URL_SAFE.decode(piece)).ok()
}

/// What pairs of hexadecimal digits stand for, if they are that; one digit over is no byte.
pub(super) fn bytes_of_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    digits.chunks_exact(2).map(|two| Some(digit(two[0])? << 4 | digit(two[1])?)).collect()
}

fn from_base64(piece: &str) -> Option<String> {
    readable(&bytes_of_base64(piece.as_bytes())?)
}

fn from_hex(piece: &str) -> Option<String> {
    let piece = piece.strip_prefix("0x").unwrap_or(piece).as_bytes();
    if piece.len() < MIN_HEX || !piece.len().is_multiple_of(2) {
        return None;
    }
    readable(&bytes_of_hex(piece)?)
}

/// Whether a character is none of a text's: what was not UTF-8, or a control character. Text of two bytes a character has
/// zeros.
pub(super) fn foreign(c: char) -> bool {
    c == char::REPLACEMENT_CHARACTER || (c.is_control() && !matches!(c, '\0' | '\t' | '\n' | '\r'))
}

/// Bytes as text, if they are: what is foreign is rare in it.
fn readable(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    // Chance makes a short text of bytes that are none; of a long one, an eighth may be foreign.
    (text.chars().filter(|c| foreign(*c)).count() <= text.len() / 32 * 4).then(|| text.into_owned())
}

/// Replaces `%41`, `\x41`, `\u0041`, `&#65;` and `&#x41;` by what they stand for.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        match escape(&bytes[at..]) {
            Some((Escaped::Byte(byte), length)) => {
                out.push(byte);
                at += length;
            }
            Some((Escaped::Char(c), length)) => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                at += length;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// The escape that starts some bytes, and its length.
fn escape(bytes: &[u8]) -> Option<(Escaped, usize)> {
    let number = |digits: &[u8], radix| {
        let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_alphanumeric()))?;
        u32::from_str_radix(digits, radix).ok()
    };
    let byte = |digits: &[u8]| number(digits, 16).and_then(|n| u8::try_from(n).ok()).map(Escaped::Byte);
    let char = |n: u32| char::from_u32(n).map(Escaped::Char);
    match bytes {
        [b'%', rest @ ..] => Some((byte(rest.get(..2)?)?, 3)),
        [b'\\', b'x', rest @ ..] => Some((byte(rest.get(..2)?)?, 4)),
        [b'\\', b'u', rest @ ..] => Some((char(number(rest.get(..4)?, 16)?)?, 6)),
        [b'&', b'#', rest @ ..] => {
            let end = rest.iter().take(9).position(|b| *b == b';')?;
            let code = match rest.get(..end)? {
                [b'x' | b'X', hex @ ..] => number(hex, 16)?,
                decimal => number(decimal, 10)?,
            };
            Some((char(code)?, end + 3))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found, each once: it may be read in several ways.
    fn found(text: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        decoded(text, &mut |inner| {
            if !found.iter().any(|other| other == inner) {
                found.push(inner.to_owned());
            }
        });
        found
    }

    proptest::proptest! {
        #[test]
        fn long_runs_are_those_that_a_split_has(bytes in "[ab+/.% \u{e9}]{0,200}|[a-z]{0,60}") {
            let split = bytes.as_bytes().split(|b| !BASE64[usize::from(*b)]).filter(|run| run.len() >= MIN_BASE64);
            proptest::prop_assert_eq!(long(bytes.as_bytes()).collect::<Vec<_>>(), split.collect::<Vec<_>>());
        }
    }

    #[test]
    fn base64_of_text_is_text() {
        let text = "mail jane@example.com now";
        for engine in [base64::engine::general_purpose::STANDARD, base64::engine::general_purpose::URL_SAFE_NO_PAD] {
            assert_eq!(found(&format!("see {}.", engine.encode(text))), [text]);
        }
        assert_eq!(found("pneumonoultramicroscopicsilicovolcanoconiosis"), [""; 0]);
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(found("jane%40example.com"), ["jane@example.com"]);
        assert_eq!(found(r"jane\u0040example.com"), ["jane@example.com"]);
        assert_eq!(found("jane&#64;example.com, jane&#x40;example.com"), ["jane@example.com, jane@example.com"]);
        assert_eq!(found("%EF%BC%94%D9%A1"), ["41"], "what is decoded is normalised");
        assert_eq!(found("100 % of 5%"), [""; 0]);
    }

    #[test]
    fn hex_and_what_stands_after_a_name_are_decoded() {
        let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
        let card = "4111 1111 1111 1111";
        assert_eq!(found(&format!("see {}", hex(card))), [card]);
        assert_eq!(found(&format!("0x{}", hex(card))), [card]);
        let encoded = base64::engine::general_purpose::STANDARD.encode(card);
        assert_eq!(found(&format!("card={encoded}")), [card]);
        assert_eq!(found(&format!("/pay/{encoded}")), [card]);
    }

    #[test]
    fn what_is_encoded_twice_is_decoded_twice() {
        let card = "4111 1111 1111 1111";
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        assert!(found(&encode(&encode(card))).iter().any(|f| f == card));
        assert!(found("jane%2540example.com").iter().any(|f| f == "jane@example.com"));
    }

    #[test]
    fn nothing_is_skipped_for_its_length() {
        let long = "so it goes on and on. ".repeat(8 * 1024);
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{long}4111 1111 1111 1111"));
        assert!(found(&encoded).iter().any(|f| f.ends_with("1111")));
        assert!(found(&format!(r"{long}\u0034111 1111")).iter().any(|f| f.ends_with("4111 1111")));
    }

    #[test]
    fn bytes_that_are_no_text_are_not_looked_at() {
        let bytes: Vec<u8> = (0..64 * 1024u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let image = format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(&bytes));
        assert_eq!(found(&image), [""; 0]);
        assert_eq!(found("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"), [""; 0]);
        assert_eq!(found("550e8400-e29b-41d4-a716-446655440000"), [""; 0]);
    }
}
