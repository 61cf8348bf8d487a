//! International bank account numbers: two letters, two check digits, the country's length, and ISO 7064 mod 97.

use super::digits::next_digit;
use super::{Kind, Report};

/// Finds IBANs, in groups or not.
pub fn scan(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    // From one digit to the next: the first check digit of each is the third character.
    while let Some(third) = next_digit(bytes, at + 2) {
        at = third - 2;
        // Before most digits stands another, or a blank.
        if !bytes[third - 1].is_ascii_alphabetic() {
            at += 1;
            continue;
        }
        let Some(head) = bytes.get(at..at + 4) else { return };
        if head[3].is_ascii_digit()
            && head[0].is_ascii_alphabetic()
            && let Some(length) = length([head[0].to_ascii_uppercase(), head[1].to_ascii_uppercase()])
            && let Some(end) = take(&bytes[at..], length)
        {
            report(Kind::Iban, &text[at..at + end]);
            at += end;
        } else {
            at += 1;
        }
    }
}

/// Characters between two groups, at most.
const MAX_GAP: usize = 3;

/// How many bytes hold `length` letters and digits, if they check. One space or hyphen may stand between two; more, and
/// lines, tabs and dots, only if most of it is digits: words would check too often.
fn take(bytes: &[u8], length: usize) -> Option<usize> {
    let mut code = [0u8; 34];
    let (mut n, mut at, mut gap, mut wide) = (0, 0, 0, false);
    while n < length {
        let b = *bytes.get(at)?;
        at += 1;
        if b.is_ascii_alphanumeric() {
            code[n] = b.to_ascii_uppercase();
            n += 1;
            gap = 0;
            continue;
        }
        gap += 1;
        match b {
            b' ' | b'-' => wide |= gap > 1,
            b'\n' | b'\r' | b'\t' | b'.' => wide = true,
            _ => return None,
        }
        if gap > MAX_GAP {
            return None;
        }
    }
    if wide && code[..length].iter().filter(|b| b.is_ascii_digit()).count() * 2 < length {
        return None;
    }
    let moved = code[4..length].iter().chain(&code[..4]);
    let rest = moved.fold(0u32, |rest, &b| match b {
        b'0'..=b'9' => (rest * 10 + u32::from(b - b'0')) % 97,
        _ => (rest * 100 + u32::from(b - b'A') + 10) % 97,
    });
    (rest == 1).then_some(at)
}

/// Length by country, from the SWIFT registry.
fn length(country: [u8; 2]) -> Option<usize> {
    Some(match &country {
        b"NO" => 15,
        b"BE" => 16,
        b"DK" | b"FI" | b"FK" | b"FO" | b"GL" | b"NL" | b"SD" => 18,
        b"MK" | b"SI" => 19,
        b"AT" | b"BA" | b"EE" | b"KZ" | b"LT" | b"LU" | b"MN" | b"XK" => 20,
        b"CH" | b"HR" | b"LI" | b"LV" => 21,
        b"BG" | b"BH" | b"CR" | b"DE" | b"GB" | b"GE" | b"IE" | b"ME" | b"RS" | b"VA" => 22,
        b"AE" | b"GI" | b"IL" | b"IQ" | b"OM" | b"SO" | b"TL" => 23,
        b"AD" | b"CZ" | b"ES" | b"MD" | b"PK" | b"RO" | b"SA" | b"SE" | b"SK" | b"TN" | b"VG" => 24,
        b"LY" | b"PT" | b"ST" => 25,
        b"IS" | b"TR" => 26,
        b"BI" | b"DJ" | b"FR" | b"GR" | b"IT" | b"MC" | b"MR" | b"SM" => 27,
        b"AL" | b"AZ" | b"BY" | b"CY" | b"DO" | b"GT" | b"HU" | b"LB" | b"NI" | b"PL" | b"SV" => 28,
        b"BR" | b"EG" | b"PS" | b"QA" | b"UA" => 29,
        b"JO" | b"KW" | b"MU" | b"YE" => 30,
        b"MT" | b"SC" => 31,
        b"LC" => 32,
        b"RU" => 33,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let mut n = 0;
        scan(text, &mut |kind, _| {
            assert_eq!(kind, Kind::Iban);
            n += 1;
        });
        n
    }

    #[test]
    fn ibans_in_groups_and_not() {
        for text in [
            "DE89370400440532013000",
            "DE89 3704 0044 0532 0130 00",
            "de89 3704 0044 0532 0130 00",
            "GB82 WEST 1234 5698 7654 32",
            "账号FR1420041010050500013M02606。",
            "NL91-ABNA-0417-1643-00",
            "DE89  3704  0044  0532  0130  00",
            "DE89\n3704\n0044\n0532\n0130\n00",
            "DE89\t3704\t0044\t0532\t0130\t00",
            "DE89.3704.0044.0532.0130.00",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
        assert_eq!(count("DE89370400440532013000, GB82WEST12345698765432"), 2);
    }

    #[test]
    fn a_wrong_check_digit_country_or_length_is_none() {
        for text in [
            "DE88370400440532013000",
            "ZZ89370400440532013000",
            "DE8937040044053201300",
            "DE89    370400440532013000",
            "DE89, 370400440532013000",
            "DE",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}
