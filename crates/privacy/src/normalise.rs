//! Brings a text to the form that detectors read: full width, other digit sets, zero width, bidi marks and look-alikes
//! are ways to write the same thing.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// First digits of the scripts whose digits NFKC leaves alone.
const ZEROS: &[u32] = &[
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50,
    0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50,
    0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0,
];

/// The text as detectors read it; ASCII is returned as it is.
pub fn normalise(text: &str) -> Cow<'_, str> {
    // All of them, rather than up to the first: that takes a few bytes at a time.
    let control = |some, b: &u8| some | (*b < 0x20) & (*b != b'\n') & (*b != b'\t') & (*b != b'\r');
    if text.is_ascii() && !text.as_bytes().iter().fold(false, control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().filter(|c| !invisible(*c)).map(plain).collect())
}

/// Characters that take no place: they part what belongs together.
fn invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{FFA0}' | '\u{E0000}'..='\u{E0FFF}' | '\u{0}'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}')
}

fn plain(c: char) -> char {
    let code = c as u32;
    if code < 0x80 {
        return c;
    }
    if let Some(digit) = ZEROS.iter().find_map(|z| code.checked_sub(*z).filter(|d| *d < 10)) {
        return char::from_digit(digit, 10).unwrap_or(c);
    }
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{30FC}' | '\u{FE58}' => '-',
        '\u{2024}' | '\u{3002}' | '\u{FE52}' => '.',
        // Cyrillic and Greek letters that look like Latin ones.
        'а' | 'α' => 'a',
        'е' | 'ε' => 'e',
        'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'с' => 'c',
        'х' | 'χ' => 'x',
        'у' => 'y',
        'і' | 'ι' => 'i',
        'ѕ' => 's',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'т' | 'τ' => 't',
        'А' | 'Α' => 'A',
        'В' | 'Β' => 'B',
        'Е' | 'Ε' => 'E',
        'К' | 'Κ' => 'K',
        'М' | 'Μ' => 'M',
        'Н' | 'Η' => 'H',
        'О' | 'Ο' => 'O',
        'Р' | 'Ρ' => 'P',
        'С' => 'C',
        'Т' | 'Τ' => 'T',
        'Х' | 'Χ' => 'X',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_in_other_clothes() {
        for text in ["4111", "٤١١١", "४१११", "4\u{200b}1\u{2060}11", "\u{202e}4111\u{202c}", "𝟒𝟏𝟏𝟏", "4\u{0}111"]
        {
            assert_eq!(normalise(text), "4111", "{text:?}");
        }
        assert_eq!(normalise("а@ехаmple.соm"), "a@example.com");
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(normalise("hello,\n world"), Cow::Borrowed(_)));
    }
}
