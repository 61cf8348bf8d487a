//! Strings with a form as integers, exact and without floats; a fraction below the unit is dropped. None: the text has
//! another form, or the number does not fit.

/// Decimal digits and fraction as an integer of `scale` parts: `parts("1.5", 1_000) == 1_500`.
pub fn parts(text: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || (fraction.is_empty() && text.contains('.')) {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(scale)?;
    let mut unit = scale;
    let mut rest = 0u128;
    for digit in fraction.bytes() {
        unit /= 10;
        rest += u128::from(digit - b'0') * unit;
    }
    whole.checked_add(rest)
}

/// As wide as a document's numbers may be; None past that.
pub fn fit(value: u128) -> Option<u64> {
    // Snapshots are read by JSON parsers of many languages: no number is larger than i64 holds.
    i64::try_from(value).ok().and_then(|v| u64::try_from(v).ok())
}

/// A number of bytes as Kubernetes writes it: `512Mi`, `1.5Gi`, `20M`.
pub fn bytes(text: &str) -> Option<u64> {
    let number = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (amount, suffix) = text.split_at(number);
    let scale: u128 = match suffix {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    fit(parts(amount, 1_000)?.checked_mul(scale)? / 1_000)
}

#[cfg(test)]
mod tests {
    #[test]
    fn quantities_are_bytes() {
        for (text, expected) in [
            ("512Mi", Some(512 << 20)),
            ("1.5Gi", Some(3 << 29)),
            ("20M", Some(20_000_000)),
            ("7", Some(7)),
            ("1Ei", None),
            ("-1Mi", None),
            ("999999999999Ti", None),
        ] {
            assert_eq!(super::bytes(text), expected, "{text:?}");
        }
    }
}
