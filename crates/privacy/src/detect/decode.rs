//! Texts inside a text: base64, percent and JSON escapes are decoded once and looked at too.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Characters of base64 from which a piece is decoded.
const MIN_BASE64: usize = 20;
/// Bytes of one text that are decoded.
const MOST: usize = 64 * 1024;

/// Hands every text that is inside `text` to `look`.
pub fn decoded(text: &str, look: &mut dyn FnMut(&str)) {
    base64(text, look);
    if text.len() > MOST {
        return;
    }
    if text.contains("\\u") {
        look(&unescape(text, "\\u", 4));
    }
    if text.contains('%') {
        let plain = unescape(text, "%", 2);
        if plain != text {
            look(&plain);
        }
    }
}

/// Pieces of either alphabet, padded or not, that hold text.
fn base64(text: &str, look: &mut dyn FnMut(&str)) {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_' | '=');
    let mut left = MOST;
    for piece in text.split(|c| !inside(c)).filter(|p| p.len() >= MIN_BASE64) {
        // Long words are not base64: it has letters of both cases.
        let mixed = piece.bytes().any(|b| b.is_ascii_uppercase()) && piece.bytes().any(|b| b.is_ascii_lowercase());
        if !mixed || piece.len() > left {
            continue;
        }
        left -= piece.len();
        let bytes = STANDARD.decode(piece).or_else(|_| URL_SAFE.decode(piece));
        if let Some(inner) = bytes.ok().and_then(|b| String::from_utf8(b).ok()) {
            look(&inner);
        }
    }
}

/// Replaces each `mark` and its hexadecimal digits by the character that they stand for.
fn unescape(text: &str, mark: &str, digits: usize) -> String {
    let mut parts = text.split(mark);
    let mut out = String::with_capacity(text.len());
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let code = part.get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match code.and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                out.push_str(&part[digits..]);
            }
            None => {
                out.push_str(mark);
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        decoded(text, &mut |inner| found.push(inner.to_owned()));
        found
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
        assert_eq!(found("100 % of 5%"), [""; 0]);
    }
}
