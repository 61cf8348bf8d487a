//! Strings with a form as integers: microseconds, bytes, micro-units, basis points. Exact, without floats; a fraction
//! below the unit is dropped. None: the text has another form, or the number does not fit.

use crate::text::{Bytes, Decimal, Duration, Money, Objective};

/// Decimal digits and fraction as an integer of `scale` parts: `parts("1.5", 1_000) == 1_500`.
fn parts(text: &str, scale: u128) -> Option<u128> {
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

fn fit(value: u128) -> Option<u64> {
    // Snapshots are read by JSON parsers of many languages: no number is larger than i64 holds.
    i64::try_from(value).ok().and_then(|v| u64::try_from(v).ok())
}

impl Duration {
    /// Microseconds.
    pub fn micros(&self) -> Option<u64> {
        let mut rest = self.as_str();
        let mut nanos = 0u128;
        while !rest.is_empty() {
            let number = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
            let (amount, tail) = rest.split_at(number);
            let letters = tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let scale: u128 = match unit {
                "ns" => 1,
                "us" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60 * 1_000_000_000,
                "h" => 3_600 * 1_000_000_000,
                _ => return None,
            };
            // Minutes and hours are not powers of ten: a fraction is taken in billionths first.
            nanos = nanos.checked_add(parts(amount, 1_000_000_000)?.checked_mul(scale)? / 1_000_000_000)?;
            rest = tail;
        }
        if self.as_str().is_empty() { None } else { fit(nanos / 1_000) }
    }
}

impl Bytes {
    /// Bytes.
    pub fn bytes(&self) -> Option<u64> {
        let text = self.as_str();
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
}

impl Money {
    /// Micro-units of its currency.
    pub fn micros(&self) -> Option<u64> {
        fit(parts(self.as_str(), 1_000_000)?)
    }
}

impl Decimal {
    /// Millionths.
    pub fn micros(&self) -> Option<u64> {
        fit(parts(self.as_str(), 1_000_000)?)
    }
}

impl Objective {
    /// Hundredths of a percent.
    pub fn basis_points(&self) -> Option<u32> {
        u32::try_from(parts(self.as_str(), 100)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_microseconds() {
        for (text, micros) in [
            ("100ms", Some(100_000)),
            ("1h30m", Some(5_400_000_000)),
            ("0.5s", Some(500_000)),
            ("1.5h", Some(5_400_000_000)),
            ("999ns", Some(0)),
            ("720h", Some(2_592_000_000_000)),
            ("", None),
            ("5", None),
            ("s", None),
            (".5s", None),
            ("5 s", None),
            ("5d", None),
            ("999999999h999999999h", Some(7_199_999_992_800_000_000)),
            ("999999999h999999999h999999999h", None),
        ] {
            assert_eq!(Duration::from(text).micros(), micros, "{text:?}");
        }
    }

    #[test]
    fn quantities_are_bytes() {
        for (text, bytes) in [
            ("512Mi", Some(512 << 20)),
            ("1.5Gi", Some(3 << 29)),
            ("20M", Some(20_000_000)),
            ("7", Some(7)),
            ("1Ei", None),
            ("-1Mi", None),
            ("999999999999Ti", None),
        ] {
            assert_eq!(Bytes::from(text).bytes(), bytes, "{text:?}");
        }
    }

    #[test]
    fn money_and_percents_are_exact() {
        assert_eq!(Money::from("0.15").micros(), Some(150_000));
        assert_eq!(Money::from("0.000001").micros(), Some(1));
        assert_eq!(Money::from("1e3").micros(), None);
        assert_eq!(Decimal::from("0.4").micros(), Some(400_000));
        assert_eq!(Objective::from("99.9").basis_points(), Some(9_990));
    }
}
